// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/gate_sums.h"

#include <cstdlib>

#include "core/extent.h"
#include "core/types.h"

namespace flashscan::cuda {
namespace {

// Threads that a GPU runs at once, to the order of magnitude: fewer sums are shared by several of them.
constexpr int64_t gpu_threads = 1 << 18;

// Appends an axis to two of a kind, closer than what was appended before. Where `joins`, it becomes one with the closest
// if both lie like one axis.
void append(ReduceAxis (&axes)[2], const ReduceAxis& axis, bool keeps, bool joins) {
    if (axis.count == 1) return;
    ReduceAxis& last = axes[1];
    const bool alike = last.terms == axis.count * axis.terms && (!keeps || last.gradient == axis.count * axis.gradient);
    const int64_t before = last.count;
    if (!(alike && joins) && before != 1) axes[0] = last;
    last = axis;
    if (alike && joins) last.count = before * axis.count;
}

// Chooses how many threads share a sum. If neighbours have different sums, eight of them at least read a sector of 32
// bytes.
void share_sums(ReduceParams& r) {
    const ReduceAxis &x = r.kept[1], &inner = r.summed[1];
    r.neighbours = x.count == 1 || std::abs(inner.terms) < std::abs(x.terms);
    const int64_t sums = Extent(r.kept[0].count) * x.count, terms = Extent(r.summed[0].count) * inner.count;
    const int32_t few = r.neighbours != 0 ? 32 : reduce_threads / 32,
                  most = r.neighbours != 0 ? reduce_threads : reduce_threads / 8;
    for (const int32_t width : {few, most})
        if (sums * r.width < gpu_threads && inner.count >= width && terms >= 4 * width) r.width = width;
}

}  // namespace

ReduceParams sum_over_axes(const ReduceAxis& batch, const ReduceAxis& time, const ReduceAxis& row, uint32_t broadcast,
                           bool cuts) {
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
    if (cuts) r.time_axis = r.kept[1].terms == time.terms ? 1 : 0;
    share_sums(r);
    return r;
}

}  // namespace flashscan::cuda
