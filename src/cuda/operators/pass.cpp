// SPDX-License-Identifier: Apache-2.0
// Settles launches that scan elements.
#include "cuda/operators/pass.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cuda/launch/sequence_offsets.h"

namespace flashscan::cuda {
namespace {

void settle_axes(ElementGrid& g, const OperatorProblem& p, int channels, bool batch_invariant) {
    const OperatorProblem::Steps steps = p.steps();
    // If the number of rows must not change bits, the choice must not depend on the extents.
    g.time_inner = p.layout == Layout::bct || (steps.time == 1 && !batch_invariant);
    g.batches = g.time_inner ? Extent(1) : p.batch;
    g.rows = g.time_inner ? p.batch * p.channels : p.channels / channels;
    g.time = p.time;
    if (g.time_inner) {
        g.row_stride = p.time;
        g.time_stride = 1;
    } else {
        g.batch_stride = steps.batch / channels;
        g.row_stride = 1;
        g.time_stride = steps.time / channels;
    }
    g.offsets = offsets_of(p, nullptr);
}

int shared_bytes_of(const ElementPass& e, const ElementFacts& facts) {
    const int runs = element_chain_runs(facts.warps, e.tuning.log2_lane_rows, e.tuning.log2_warp_rows,
                                        e.tuning.log2_group_chunks > 0);
    return runs * facts.run_bytes + (facts.keeps || e.grid.time_inner != 0 ? facts.buffer_bytes : 0);
}

void settle_launch(ElementPass& e, const ElementFacts& facts, const void* kernel, int device) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    const int64_t groups = e.grid.batches * e.grid.row_groups;
    const int shared_bytes = shared_bytes_of(e, facts), available = shared_memory_of_block(device);
    if (e.blocks() > most || groups > most) {
        e.refusal = fmt::format("{} blocks are more than a grid's 2^31 - 1", e.blocks());
    } else if (shared_bytes > available) {
        e.refusal = fmt::format("a block needs {} bytes of shared memory, of which device {} has {}", shared_bytes,
                                device, available);
    } else {
        allow_shared_memory(kernel, device);
        e.shape = grid_of_chunks(groups, e.tuning.chunks, 32 * facts.warps);
        e.shape.shared_bytes = shared_bytes;
        // The launch ahead clears memory, for which the kernel waits.
        e.shape.overlaps = can_overlap(kernel, device) && e.tuning.chunks > 1;
        if (e.blocks() > 0 && e.grid.time > 0) e.kernel = kernel;
    }
}

}  // namespace

ElementPass make_element_pass(const OperatorProblem& p, const ElementFacts& facts, const void* kernel,
                              const Options& options, Workspace& workspace) {
    const bool batch_invariant = options.batch_invariant;
    ElementPass e;
    ElementGrid& g = e.grid;
    settle_axes(g, p, facts.channels, batch_invariant);
    g.down = (p.direction == Direction::reverse) != facts.backward;
    ElementTuning& t = e.tuning;
    const ElementShape shape{g.batches,       g.rows,      p.time,      g.time_inner != 0,    batch_invariant,
                             p.num_sequences, facts.steps, facts.warps, facts.log2_least_rows};
    t = tune_elements(shape);
    g.by_sequence = shape.by_sequence();
    g.row_groups = t.row_groups;
    g.chunks = t.chunks;
    g.log2_lane_rows = t.log2_lane_rows;
    g.log2_warp_rows = t.log2_warp_rows;
    g.log2_group_chunks = t.log2_group_chunks;
    g.log2_link_groups = t.log2_link_groups;
    e.element_part = static_cast<uintptr_t>(element_part(facts.bytes));
    e.whole_vectors = g.time_inner != 0 && g.by_sequence == 0 && g.time * facts.bytes % 16 == 0;
    const Extent rows = Extent(g.batches) * g.row_groups * (int64_t{1} << (t.log2_lane_rows + t.log2_warp_rows));
    e.marks = t.chunks * rows;
    const int carry_words = facts.carry_words > 0 ? facts.carry_words : facts.words;
    if (t.chunks > 1)
        e.exchange = LookBackMemory(t, g.by_sequence != 0, rows, 8 * facts.words, 8 * carry_words, workspace);
    settle_launch(e, facts, kernel, options.device);
    return e;
}

std::string ElementPass::describe() const {
    const int rows = 1 << (tuning.log2_lane_rows + tuning.log2_warp_rows);
    std::string text = fmt::format("{} rows of {} steps a block, {} x {} blocks", rows, tuning.chunk_steps,
                                   grid.batches * grid.row_groups, tuning.chunks);
    if (tuning.chunks > 1)
        text += fmt::format(", links of {} chunks", 1 << (tuning.log2_group_chunks + tuning.log2_link_groups));
    return text;
}

ElementGrid ElementPass::grid_of_call(const void* seq_offsets, void* scratch,
                                      std::initializer_list<const void*> arrays) const {
    ElementGrid g = grid;
    g.offsets.data = seq_offsets;
    if (tuning.chunks > 1) exchange.point(g, scratch);
    const auto are_aligned = [&](uintptr_t to) {
        return std::all_of(arrays.begin(), arrays.end(),
                           [&](const void* x) { return reinterpret_cast<uintptr_t>(x) % to == 0; });
    };
    g.aligned = are_aligned(element_part);
    g.vectors = whole_vectors && are_aligned(16);
    return g;
}

}  // namespace flashscan::cuda
