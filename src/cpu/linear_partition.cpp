// SPDX-License-Identifier: Apache-2.0
#include "cpu/linear_partition.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashscan::cpu {
namespace {

constexpr int64_t most_step_bytes = 8192;    // of one block: what the kernels' panels hold
constexpr int64_t least_step_bytes = 256;    // of the arithmetic
constexpr int64_t few = 16;                  // blocks
constexpr int64_t chunk_numbers = 32768;     // two tensors of f32 in a quarter of a megabyte
constexpr int64_t task_numbers = 32768;      // work worth a task
constexpr int most_workers = 128;            // of a chain, whose scratch grows with them
constexpr int64_t sum_block_channels = 256;  // partial sums are then below 1 % of the input

struct Sizes {
    int64_t number, parts, channel_bytes;
};

Sizes sizes_of(const LinearProblem& p) {
    const Dtype state = state_dtype(p.dtype);
    const int64_t parts = is_complex(p.dtype) ? 2 : 1;
    return {size_of(state) / parts, parts, size_of(state)};
}

int64_t scratch_limit(const LinearProblem& p) {
    const int64_t input = p.batch * p.time * p.channels * size_of(p.dtype) / 50;
    return std::max<int64_t>(input, int64_t(4) << 20);
}

void choose_chunk(LinearPartition& q, const LinearProblem& p, const Sizes& size, Pass pass, bool batch_invariant) {
    const Extent blocks =
        q.variant.along_time ? p.channels : ceil_div(p.channels * size.channel_bytes, least_step_bytes);
    q.few_blocks = q.rows * blocks < few;
    const int64_t steps = std::max<int64_t>(512, round_up(chunk_numbers / (p.channels * size.parts), 512));
    // Sums over the batch keep the rows of a tile of time together instead.
    if (pass == Pass::backward && q.sum_batch && !q.sum_time) return;
    if (batch_invariant || (q.few_blocks && p.time / 2 >= steps)) q.chunk = steps;
}

void choose_blocks(LinearPartition& q, const LinearProblem& p, const Sizes& size, int threads) {
    const int64_t most = most_step_bytes / size.channel_bytes;
    // Blocks of equal width in whole cache lines.
    int64_t channels = min(ceil_div(ceil_div(p.channels, ceil_div(p.channels, most)), 16) * 16, most);
    channels = min(channels, p.channels);
    // Halves blocks until there are `tasks`, but never to less than `least`.
    const auto split = [&](int64_t tasks, int64_t least) {
        while (threads > 1 && channels / 2 >= least && q.rows * ceil_div(p.channels, channels) < tasks) channels /= 2;
    };
    if (q.variant.along_time) {
        channels = std::clamp<int64_t>(task_numbers / p.time, 1, std::min<int64_t>(channels, 64));
        split(4 * threads, 1);
    } else {
        // Memory is slower in short pieces: more tasks than threads only where pieces stay long.
        split(4 * threads, 4096 / size_of(p.dtype));
        split(2 * threads, 2048 / size_of(p.dtype));
        split(threads, least_step_bytes / size.channel_bytes);
    }
    q.block_channels = std::max<int64_t>(channels, 1);
    const int64_t row_numbers = q.block_channels * size.parts * nonzero(p.time);
    q.group_rows = std::clamp<int64_t>(task_numbers / row_numbers, 1, std::max<int64_t>(1, q.rows / (4 * threads)));
}

void choose_sum_blocks(LinearPartition& q, const LinearProblem& p, const Sizes& size) {
    if (q.sum_channels)
        q.block_channels = std::min<int64_t>({p.channels, sum_block_channels, most_step_bytes / size.channel_bytes});
    const int64_t limit = scratch_limit(p);
    if (q.sum_batch && !q.sum_time) {
        q.group_rows = q.rows;
        // Blocks so narrow that a short row is one tile need no carries.
        q.carries = q.rows * q.row_bytes <= limit / 2 || p.time > 128;
        const int64_t narrow = q.variant.along_time ? 8 : 64 / size.channel_bytes;
        if (!q.sum_channels)
            q.block_channels = std::min<int64_t>(p.channels, q.variant.along_time ? 8 : 256 / size.channel_bytes);
        if (!q.carries) q.block_channels = std::min<int64_t>(p.channels, std::max<int64_t>(narrow, 1));
    } else if (q.sum_time && (q.sum_batch || p.packed())) {
        int64_t groups = std::min<int64_t>(q.rows, few);
        const Extent each =
            q.gate_numbers * sizeof(double) * (q.sum_channels ? ceil_div(p.channels, q.block_channels) : Extent(1));
        while (groups > 1 && each > limit / 2 / groups) groups /= 2;
        q.group_rows = ceil_div(q.rows, groups);
    }
}

}  // namespace

ChainLayout chain_layout(const LinearPartition& p) {
    Extent end(0, "SCRATCH");
    const auto place = [&end](Extent bytes) {
        const auto start = static_cast<size_t>(end);
        end += round_up(bytes, 64);
        return start;
    };
    ChainLayout layout{};
    layout.product = place(p.workers * p.row_bytes);
    layout.power = place(p.workers * p.row_bytes);
    layout.local = place(p.workers * p.row_bytes);
    layout.carry = place(p.workers * p.row_bytes);
    layout.next = place(p.row_bytes);
    layout.sums = place(p.workers * p.step_sums * int64_t(sizeof(double)));
    layout.totals = place(p.step_sums == 0 ? Extent() : p.gate_numbers * int64_t(sizeof(double)));
    layout.bytes = static_cast<size_t>(end);
    return layout;
}

LinearPartition partition(const LinearProblem& p, Pass pass, bool chunked, bool batch_invariant, int threads) {
    const Sizes size = sizes_of(p);
    const bool complex_gate = is_complex(p.gate_dtype), backward = pass == Pass::backward;
    LinearPartition q;
    // If bits may not depend on the batch, one row is summed in the same way as many rows are.
    q.sum_batch = p.broadcasts(broadcast_batch) && (p.batch > 1 || (batch_invariant && !p.packed()));
    // With packed sequences even a single step needs the sum, since it may belong to no sequence.
    q.sum_time = p.broadcasts(broadcast_time) && (p.time > 1 || p.packed());
    q.sum_channels = p.broadcasts(broadcast_channels) && p.channels > 1;
    q.rows = p.state_rows();
    q.row_bytes = p.channels * size.channel_bytes;
    q.gate_numbers = p.gate_batch() * p.gate_time() * p.gate_channels() * (complex_gate ? 2 : 1);
    if (p.empty()) return q;

    q.variant.wide = size.number == 8;
    q.variant.complex_data = is_complex(p.dtype);
    q.variant.complex_gate = complex_gate;
    q.variant.along_time = p.time > 1 && (backward ? p.grad_output : p.input).time == 1;
    // The two kinds of kernels add channels in different orders. The layout chooses between them here: the stride of
    // time cannot where the call has a single step, and bits must not depend on the number of steps.
    if (batch_invariant && p.packed() && q.sum_channels) q.variant.along_time = p.layout == Layout::bct;
    choose_chunk(q, p, size, pass, batch_invariant);
    // A chain adds all channels at once, whole rows add those of a block at a time, so that their bits differ.
    const bool sums_alike = !batch_invariant || !backward || !q.sum_channels;
    q.chained = chunked && q.chunk > 0 && q.row_bytes <= most_step_bytes && sums_alike;
    if (q.chained) {
        q.workers = std::min(threads, most_workers);
        if (backward && q.sum_time) q.step_sums = p.gate_channels() * (complex_gate ? 2 : 1);
        q.scratch_bytes = chain_layout(q).bytes;
        return q;
    }
    choose_blocks(q, p, size, threads);
    if (backward && q.sums()) {
        if (q.sum_time && !q.sum_batch && p.packed()) q.group_rows = 1;
        choose_sum_blocks(q, p, size);
    }
    q.blocks = ceil_div(p.channels, q.block_channels);
    q.groups = ceil_div(q.rows, q.group_rows);
    if (backward && q.sums()) {
        const bool together = q.sum_time && (q.sum_batch || p.packed());
        q.slots = (together ? q.groups : Extent(1)) * (q.sum_channels ? q.blocks : Extent(1));
        const Extent partial = q.slots > 1 ? q.slots.named("SCRATCH") * q.gate_numbers * sizeof(double) : Extent();
        q.scratch_bytes = static_cast<size_t>(partial + (q.carries ? q.rows * q.row_bytes : Extent()));
    }
    return q;
}

}  // namespace flashscan::cpu
