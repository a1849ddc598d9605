// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/gate_sums.h"

#include <cstdlib>

#include "core/extent.h"
#include "core/types.h"

namespace flashscan::cuda {
namespace {

// Threads that a GPU runs at once, to the order of magnitude. Where there are fewer sums, several threads share each.
constexpr int64_t gpu_threads = 1 << 18;

// Appends an axis to two of a kind, closer than what was appended before. Where `joins`, it becomes one with the
// closest if both lie like one axis.
void append(ReduceAxis (&axes)[2], const ReduceAxis& axis, bool keeps, bool joins) {
    if (axis.count == 1) return;
    ReduceAxis& last = axes[1];
    const bool alike = last.terms == axis.count * axis.terms &&
                       (!keeps || (last.gradient == axis.count * axis.gradient && last.gate == axis.count * axis.gate));
    const int64_t before = last.count;
    if (!(alike && joins) && before != 1) axes[0] = last;
    last = axis;
    if (alike && joins) last.count = before * axis.count;
}

// Chooses whether a thread has several neighbouring sums, whose terms it loads as one vector. Terms of steps that
// belong to no packed sequence are not written, and must not be read.
void pack_sums(ReduceParams& r, int64_t term_bytes) {
    const ReduceAxis& x = r.kept[1];
    const int64_t pack = reduce_bytes / term_bytes;
    const auto in_vectors = [&](const ReduceAxis& axis) { return axis.count == 1 || axis.terms % reduce_bytes == 0; };
    if (r.neighbours == 0 && r.time_axis < 0 && x.terms == term_bytes && x.count % pack == 0 && in_vectors(r.kept[0]) &&
        in_vectors(r.summed[0]) && in_vectors(r.summed[1]))
        r.pack = static_cast<int32_t>(pack);
}

// Chooses how many threads share a sum. If neighbours have different sums, a block computes so many sums at once that
// their terms fill a sector of 32 bytes.
void share_sums(ReduceParams& r, bool batch_invariant) {
    const ReduceAxis &x = r.kept[1], &inner = r.summed[1];
    const Extent terms = Extent(r.summed[0].count) * inner.count;
    const Extent sums = batch_invariant ? Extent(1) : Extent(r.kept[0].count) * x.count / r.pack;
    const bool in_warps = r.neighbours != 0 && !batch_invariant;
    const int32_t few = in_warps ? 32 : reduce_threads / 32,
                  most = in_warps ? reduce_threads : reduce_threads / 8 * (batch_invariant ? 1 : r.pack);
    const auto suits = [&](int32_t width) { return width <= most && inner.count >= width && terms >= 4 * width; };
    for (int32_t width = few; suits(width) && sums * r.width < gpu_threads; width *= 2) r.width = width;
}

}  // namespace

ReduceParams sum_over_axes(const ReduceAxis& batch, const ReduceAxis& time, const ReduceAxis& row, uint32_t broadcast,
                           int64_t term_bytes, bool cuts, bool batch_invariant) {
    ReduceParams r;
    const bool sums_time = (broadcast & broadcast_time) != 0;
    cuts = cuts && !sums_time;
    // From the axis whose terms lie farthest apart to the closest. Of three axes two of a kind are left: where all
    // are summed, time and rows become one.
    const auto append_to = [&](const ReduceAxis& axis, uint32_t name) {
        const bool summed = (broadcast & name) != 0;
        append(summed ? r.summed : r.kept, axis, !summed, summed || !cuts);
    };
    append_to(batch, broadcast_batch);
    const bool time_last = std::abs(time.terms) < std::abs(row.terms);
    if (!time_last) append_to(time, broadcast_time);
    append_to(row, broadcast_channels);
    if (time_last) append_to(time, broadcast_time);
    // Packed problems have one batch entry, which append() drops. So time is kept[0] where rows are kept behind it, and
    // kept[1] where it came last or no rows are kept. An axis of one step is dropped too, and kept[0] is one like it.
    const bool keeps_rows = (broadcast & broadcast_channels) == 0 && row.count > 1;
    if (cuts) r.time_axis = time.count > 1 && (time_last || !keeps_rows) ? 1 : 0;
    r.neighbours =
        r.kept[1].count == 1 || (r.summed[1].count > 1 && std::abs(r.summed[1].terms) < std::abs(r.kept[1].terms));
    pack_sums(r, term_bytes);
    share_sums(r, batch_invariant);
    return r;
}

}  // namespace flashscan::cuda
