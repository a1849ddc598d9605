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
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

struct FewLongRowsPass final : LinearPass {
    FewLongRowsFacts facts{};
    FewLongRowsTuning tuning;
    bool dense = false;  // channels innermost: the steps of a strip lie next to each other in every tensor
    // Channels innermost, where not: shapes of the tensor maps of gate, source, states, result, grad_gate.
    std::array<MapShape, 5> maps;
    // The arguments beside LinearParams of the kernel with time innermost, and of the one with channels innermost.
    FewLongRowsParams row_params;
    FewLongStripsParams strip_params;

    // Finds the kernel and cuts time. Returns the condition that fails, if one does.
    std::string tune(const LinearProblem& p, Pass of, int device, bool must_suit) {
        if (std::string why = plain_refusal(p); !why.empty()) return why;
        if (device_attribute(cudaDevAttrComputeCapabilityMajor, device) < 9 || !has_tensor_maps())
            return fmt::format("device {} has no bulk copy engine, which compute capability 9.0 brings", device);
        const FewLongRowsKernels* const compiled = few_long_rows_kernels(p.dtype, p.gate_dtype);
        if (compiled == nullptr)
            return fmt::format("dtype is {} and gate_dtype {}; takes f32, bf16 or f16 for both", name_of(p.dtype),
                               name_of(p.gate_dtype));
        begin_pass(*this, p, of);
        mirrored = false;
        const bool backward = pass == Pass::backward;
        kernel = compiled->kernel[time_inner][down][backward];
        facts = compiled->facts[time_inner][backward];
        if (kernel == nullptr)
            return fmt::format("channels are innermost and dtype is {}, which takes as long by chunked",
                               name_of(p.dtype));
        // Rows that lie side by side are copied in units of this alignment.
        own_alignment = time_inner ? bulk_alignment : map_alignment;
        lane_rows = static_cast<int>(own_alignment / size_of(p.dtype));
        const LinearShape shape = shape_of(*this, p, false);
        tuning = tune_few_long_rows(shape, facts.tile, device_attribute(cudaDevAttrMultiProcessorCount, device));
        if (std::string why = few_long_rows_refusal(shape, tuning); must_suit && !why.empty()) return why;
        if (std::string why = alignment_refusal(*this, p); !why.empty()) return why;
        if (all_chunks() > std::numeric_limits<int32_t>::max())
            return fmt::format("rows have {} chunks; takes up to 2^31 - 1", all_chunks());
        if (std::string why = time_inner ? "" : settle_maps(p); !why.empty()) return why;
        if (kernel_attributes(kernel).ptxVersion < 90)
            return "the library was built without code of compute capability 9.0";
        return {};
    }

    // Settles the launch.
    void settle(const LinearProblem& p) {
        settle_params(*this, p, tuning);
        params.log2_lane_rows = tuning.log2_lane_rows;
        settle_alignment(*this, p);
        grid = blocks_of(tuning.blocks, facts.threads);
        grid.shared_bytes = facts.tile.ring * facts.stage_bytes;
        grid.cooperative = true;
        dense = !time_inner && is_dense(size_of(p.dtype));
        settle_own_params();
        book();
    }

    void settle_own_params() {
        const Divisor by_chunks = divisor_of(static_cast<uint32_t>(tuning.chunks));
        row_params = {static_cast<uint32_t>(all_chunks()), by_chunks, facts.tile.ring};
        strip_params = {static_cast<uint32_t>(all_chunks() / tuning.teams), by_chunks,
                        static_cast<uint32_t>(tuning.teams), dense ? 1 : 0, static_cast<int32_t>(box_steps())};
    }

    Extent strips() const { return batches * tuning.row_groups; }
    Extent all_chunks() const { return strips() * tuning.chunks; }
    // Rows that a warp has side by side.
    int64_t warp_rows() const { return int64_t{facts.tile.lane_rows} << tuning.log2_lane_rows; }
    // Steps of a box of the tensor maps: a box has at most 256, so a chunk may be several boxes.
    int64_t box_steps() const {
        int64_t steps = tuning.chunk_steps;
        while (steps > 256) steps /= 2;
        return steps;
    }

    // Settles tensor maps, whose boxes have the rows of a warp. Returns a sentence where a tensor cannot have one.
    std::string settle_maps(const LinearProblem& p) {
        // The places in `maps` of the tensors that tensors_and_gates_of lists, forward and backward.
        constexpr std::array<size_t, 5> places[2] = {{1, 3, 0}, {1, 2, 3, 0, 4}};
        auto place = places[pass == Pass::backward].begin();
        for (const auto& [name, strides, dtype] : tensors_and_gates_of(p, pass)) {
            const View view = view_of(*this, strides, dtype);
            MapShape& shape = maps[*place++];
            shape.element_bytes = static_cast<int>(size_of(dtype));
            shape.axes = {MapAxis{rows, view.row, warp_rows()}, MapAxis{p.time, view.time, box_steps()},
                          MapAxis{batches, view.batch, 1}};
            if (!can_map(shape))
                return fmt::format(
                    "strides {}.batch and .time are {} and {}; takes extents up to 2^31 and strides "
                    "above 0 and below 2^40 bytes",
                    name, strides.batch, strides.time);
        }
        return {};
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
        if (time_inner) clear = ClearLaunch(static_cast<size_t>(of_chunks + of_links));
        carries = records + static_cast<size_t>(of_chunks);
    }

    const char* describe_variant() const override { return "in waves"; }
    std::string describe() const override {
        return fmt::format(
            "{} x {} blocks walk {} x {} chunks of {} rows x {} steps in waves, rings of {}, {} innermost",
            tuning.teams, tuning.blocks / tuning.teams, strips(), tuning.chunks, warp_rows(), tuning.chunk_steps,
            facts.tile.ring, time_inner ? "time" : "channel");
    }

    void enqueue(LinearParams& to, char* scratch, void* stream) const override {
        to.records = scratch + records;
        to.carries = scratch + carries;
        if (time_inner) {
            clear.run(to.records, stream);
            return launch(kernel, grid, stream, to, row_params);
        }
        TensorMaps encoded;
        if (!dense) encode_maps(to, encoded);
        launch(kernel, grid, stream, to, strip_params, encoded);
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

PassVariants make_few_long_rows_passes(const LinearProblem& problem, Pass pass, const Options& options,
                                       std::string& refusal) {
    PassVariants passes;
    auto l = std::make_unique<FewLongRowsPass>();
    refusal = l->tune(problem, pass, options.device, options.kernel.empty());
    if (!refusal.empty()) return passes;
    l->settle(problem);
    passes.push_back(std::move(l));
    return passes;
}

bool few_long_rows_suit(const LinearProblem& problem, const Options& options) {
    const auto suits = [&](Pass pass) { return FewLongRowsPass().tune(problem, pass, options.device, true).empty(); };
    return suits(Pass::forward) && suits(Pass::backward);
}

}  // namespace flashscan::cuda
