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

}  // namespace

ElementPass make_element_pass(const OperatorProblem& p, const ElementFacts& facts, bool batch_invariant,
                              Workspace& workspace) {
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
    e.threads = 32 * facts.warps;
    e.shared_bytes = shared_bytes_of(e, facts);
    const Extent rows = Extent(g.batches) * g.row_groups * (int64_t{1} << (t.log2_lane_rows + t.log2_warp_rows));
    e.marks = t.chunks * rows;
    if (t.chunks <= 1) return e;
    // With groups of one chunk neither summaries of chunks nor totals of groups are exchanged.
    // If sequences have their own chunks, groups and links are published at places of chunks.
    const auto bytes = [&](int log2_chunks, int words) {
        return (g.by_sequence != 0 ? t.chunks : ceil_div(t.chunks, int64_t{1} << log2_chunks)) * rows * words * 8;
    };
    const Extent records = t.log2_group_chunks > 0 ? bytes(0, facts.words) : Extent();
    const Extent totals = t.log2_link_groups > 0 ? bytes(t.log2_group_chunks, facts.words) : Extent();
    const int carry_words = facts.carry_words > 0 ? facts.carry_words : facts.words;
    const Extent all = records + totals + bytes(t.log2_group_chunks + t.log2_link_groups, carry_words);
    e.words = workspace.book(all);
    e.words_bytes = static_cast<size_t>(all);
    e.totals = static_cast<size_t>(records);
    e.carries = static_cast<size_t>(records + totals);
    return e;
}

LaunchShape ElementPass::launch_shape() const {
    const int64_t planes = ceil_div(tuning.chunks, 65535), layers = ceil_div(tuning.chunks, planes);
    LaunchShape shape = blocks_of(grid.batches * grid.row_groups, threads);
    shape.blocks.y = static_cast<unsigned>(layers);
    shape.blocks.z = static_cast<unsigned>(planes);
    shape.shared_bytes = shared_bytes;
    return shape;
}

std::string ElementPass::describe() const {
    const int rows = 1 << (tuning.log2_lane_rows + tuning.log2_warp_rows);
    std::string text = fmt::format("{} rows of {} steps a block, {} x {} blocks", rows, tuning.chunk_steps,
                                   grid.batches * grid.row_groups, tuning.chunks);
    if (tuning.chunks > 1)
        text += fmt::format(", links of {} chunks", 1 << (tuning.log2_group_chunks + tuning.log2_link_groups));
    return text;
}

std::string refusal_of(const ElementPass& pass, const void* kernel, int device) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max();
    if (pass.blocks() > most || pass.grid.batches * pass.grid.row_groups > most)
        return fmt::format("{} blocks are more than a grid's 2^31 - 1", pass.blocks());
    const int available = shared_memory_of_block(device);
    if (pass.shared_bytes > available)
        return fmt::format("a block needs {} bytes of shared memory, of which device {} has {}", pass.shared_bytes,
                           device, available);
    allow_shared_memory(kernel, device);
    return {};
}

ElementGrid grid_of_call(const ElementPass& pass, const ElementFacts& facts, const void* seq_offsets, void* scratch,
                         std::initializer_list<const void*> arrays) {
    ElementGrid g = pass.grid;
    g.offsets.data = seq_offsets;
    char* const words = static_cast<char*>(scratch) + pass.words;
    if (pass.words_bytes > 0) {
        g.records = words;
        g.totals = words + pass.totals;
        g.carries = words + pass.carries;
    }
    const auto are_aligned = [&](int64_t to) {
        return std::all_of(arrays.begin(), arrays.end(), [&](const void* x) {
            return reinterpret_cast<uintptr_t>(x) % static_cast<uintptr_t>(to) == 0;
        });
    };
    g.aligned = are_aligned(element_part(facts.bytes));
    g.vectors = g.time_inner != 0 && g.by_sequence == 0 && are_aligned(16) && g.time * facts.bytes % 16 == 0;
    return g;
}

void clear_words(const ElementPass& pass, const ElementGrid& grid, void* stream) {
    if (pass.words_bytes == 0) return;
    set_all_bits(grid.records, static_cast<int64_t>(pass.words_bytes / sizeof(uint64_t)), stream);
}

}  // namespace flashscan::cuda
