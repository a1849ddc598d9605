// SPDX-License-Identifier: Apache-2.0
// Passes of the kernel "few_long_rows", whose loads the bulk copy engine (TMA) does.
#include "cuda/linear/pass.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "cuda/launch/launch.h"
#include "cuda/linear/few_long_rows/params.h"
#include "cuda/linear/instances/few_long_rows_table.h"
#include "cuda/linear/tensor_maps.h"
#include "cuda/loader/tensor_map.h"

namespace flashscan::cuda {
namespace {

struct FewLongRowsPass final : LinearPass {
    WaveFacts facts{};
    WavesTuning tuning;
    bool dense = false;  // channels innermost: the steps of a strip lie next to each other in every tensor
    // Channels innermost, where not: shapes of the tensor maps of gate, source, states, result, grad_gate.
    std::array<MapShape, 5> maps;
    // What the kernel takes beside LinearParams, with time innermost and with channels innermost.
    WavesParams waves;
    StripWavesParams strips;

    void settle_waves() {
        const Divisor by_chunks = divisor_of(static_cast<uint32_t>(tuning.chunks));
        waves = {static_cast<uint32_t>(all_chunks()), by_chunks, tuning.ring};
        strips = {static_cast<uint32_t>(all_chunks() / tuning.teams), by_chunks, static_cast<uint32_t>(tuning.teams),
                  dense ? 1 : 0, static_cast<int32_t>(box_steps())};
    }

    Extent sequences() const { return batches * tuning.row_groups; }
    Extent all_chunks() const { return sequences() * tuning.chunks; }
    // Rows that a warp has side by side.
    int64_t warp_rows() const { return int64_t{facts.lane_rows} << tuning.log2_lane_rows; }
    // Steps of a box of the tensor maps: a box has at most 256, so a chunk may be several boxes.
    int64_t box_steps() const {
        int64_t steps = tuning.chunk_steps;
        while (steps > 256) steps /= 2;
        return steps;
    }

    // Settles tensor maps, whose boxes have the rows of a warp. Returns false where a tensor cannot have one.
    bool settle_maps(const LinearProblem& p) {
        const bool backward = pass == Pass::backward;
        const auto map_of = [&](const View& view, Dtype dtype) {
            MapShape map;
            map.element_bytes = static_cast<int>(size_of(dtype));
            const MapAxis of_rows{rows, view.row, warp_rows()};
            const MapAxis time{p.time, view.time, box_steps()};
            map.axes = {of_rows, time, MapAxis{batches, view.batch, 1}};
            return map;
        };
        const LinearParams& v = params;
        maps = {map_of(v.gate, p.gate_dtype), map_of(v.source, p.dtype), map_of(v.states, p.dtype),
                map_of(v.result, p.dtype), map_of(v.grad_gate, p.gate_dtype)};
        const std::array<bool, 5> used = {true, true, backward, true, backward};
        for (size_t i = 0; i < used.size(); ++i)
            if (used[i] && !can_map(maps[i])) return false;
        return true;
    }

    bool is_dense(int64_t element_bytes) const {
        const LinearParams& v = params;
        const auto dense_view = [&](const View& view) { return view.time == rows * element_bytes; };
        return warp_rows() == rows && dense_view(v.gate) && dense_view(v.source) && dense_view(v.result) &&
               (pass == Pass::forward || (dense_view(v.states) && dense_view(v.grad_gate)));
    }

    // Books the memory through which blocks exchange summaries and carries. Each word of a value has a tag of the same
    // size beside it, hence the factor of two.
    void book() {
        const Extent words = Extent(facts.slots) * tuning.blocks * warp_rows();
        const Extent of_chunks = 2 * words * kernels->record_bytes, of_links = 2 * words * kernels->carry_bytes;
        records = workspace.book(of_chunks + of_links);
        look_back_bytes = static_cast<size_t>(of_chunks + of_links);
        carries = records + static_cast<size_t>(of_chunks);
    }

    std::string describe() const override {
        return fmt::format(
            "{} x {} blocks walk {} x {} chunks of {} rows x {} steps in waves, rings of {}, {} innermost",
            tuning.teams, blocks / tuning.teams, sequences(), tuning.chunks, warp_rows(), tuning.chunk_steps,
            tuning.ring, time_inner ? "time" : "channel");
    }

    void enqueue(LinearParams& to, char* scratch, void* stream) const override {
        to.records = scratch + records;
        to.carries = scratch + carries;
        LaunchShape shape = blocks_of(blocks, threads);
        shape.shared_bytes = shared_bytes;
        shape.cooperative = true;
        if (time_inner) {
            clear_look_back(*this, to.records, stream);
            shape.overlaps = overlaps;
            return launch(kernel, shape, stream, to, waves);
        }
        TensorMaps encoded;
        if (!dense) encode_maps(to, encoded);
        launch(kernel, shape, stream, to, strips, encoded);
    }

  private:
    // Encodes the maps of the tensors that the call has.
    void encode_maps(const LinearParams& of, TensorMaps& to) const {
        const std::array<CUtensorMap*, 5> encoded = {&to.gate, &to.source, &to.states, &to.result, &to.grad_gate};
        const std::array<const void*, 5> tensors = {of.gate.data, of.source.data, of.states.data, of.result.data,
                                                    of.grad_gate.data};
        for (size_t i = 0; i < encoded.size(); ++i)
            if (tensors[i] != nullptr) encode_map(*encoded[i], maps[i], tensors[i]);
    }
};

}  // namespace

LinearPassPointer make_few_long_rows_pass(const LinearProblem& p, Pass pass, int multiprocessors, bool must_suit) {
    if (p.packed() || p.has_reset || p.gate_form != GateForm::value || p.gate_broadcast != 0) return nullptr;
    if (p.time == 0 || p.batch * p.channels == 0 || !can_align(p, pass, false)) return nullptr;
    auto owned = std::make_unique<FewLongRowsPass>();
    FewLongRowsPass& l = *owned;
    begin_pass(l, p, pass, true, false);
    l.mirrored = false;
    const bool backward = pass == Pass::backward;
    const WaveKernels* const kernels = wave_kernels(p.dtype, p.gate_dtype);
    if (kernels == nullptr || kernels->kernel[l.time_inner][l.down][backward] == nullptr) return nullptr;
    l.kernel = kernels->kernel[l.time_inner][l.down][backward];
    l.facts = kernels->facts[l.time_inner][backward];
    l.own_alignment = l.time_inner ? bulk_alignment : map_alignment;
    const LinearShape shape = shape_of(l, p, false);
    l.tuning = tune_waves(shape, {l.facts.lane_rows, l.facts.steps, l.facts.rows, l.facts.warps, l.facts.ring},
                          multiprocessors);
    if (must_suit && !waves_suit(shape, l.tuning)) return nullptr;
    if (l.all_chunks() > std::numeric_limits<int32_t>::max()) return nullptr;
    settle_params(l, p, l.tuning);
    l.params.log2_lane_rows = l.tuning.log2_lane_rows;
    settle_alignment(l, p);
    l.threads = l.facts.threads;
    l.shared_bytes = l.tuning.ring * l.facts.stage_bytes;
    if (!l.time_inner) {
        if (!l.settle_maps(p)) return nullptr;
        l.dense = l.is_dense(size_of(p.dtype));
    }
    l.settle_waves();
    l.book();
    return owned;
}

}  // namespace flashscan::cuda
