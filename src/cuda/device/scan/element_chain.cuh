// SPDX-License-Identifier: Apache-2.0
// Look-back of element_scan.cuh: how a thread finds the combination of all steps before its own.
//
// A thread brings the run of its steps, which is their combination. The runs of lanes, then of warps, are combined in
// the order of time into the chunk's run. Chunks are gathered in groups of 2^log2_group_chunks, groups in links of
// 2^log2_link_groups. The last chunk of a group, unless it ends a link, publishes the group's run, without waiting for
// what is before the link. A chunk combines the runs of the earlier groups of its link and of the earlier chunks of its
// group, each in a tree fixed by its place, and appends them to the run of everything before its link, which the last
// chunk of the link before has published. So only the runs of everything before links are found one after another.
//
// Only runs of steps that exist are combined: there is no identity and no padding, and the operator need not commute.
#pragma once

#include "cuda/device/exchange/element_words.cuh"
#include "cuda/device/ptx/barrier.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/scan/element_place.cuh"

namespace flashscan::cuda {

// Words by which the run from a row's start is published. An operator whose rows always begin with a state, and so with
// a closed run, may need fewer for such runs than for others.
template <typename Op>
FLASHSCAN_HD constexpr int carry_words() {
    if constexpr (requires { Op::closed_words; })
        return Op::closed_words;
    else
        return ElementWords<typename Op::Element>::count;
}

template <typename Op, int L, int Warps>
struct ElementChain {
    using Element = typename Op::Element;
    using R = Run<Element>;
    using Place = ElementPlace<L, Warps>;
    static constexpr int half = 16 * Warps;

    const Op& op;
    const ElementGrid& g;
    const Place& at;
    R* shared;

    // An operator may have combine_closed, a cheaper combine where the left run is closed.
    __device__ __forceinline__ Element combine(const R& left, const R& right) const {
        if constexpr (requires { op.combine_closed(left.value, right.value); })
            if (left.tag == run_closed) return op.combine_closed(left.value, right.value);
        return op.combine(left.value, right.value);
    }
    // left becomes left o right.
    __device__ __forceinline__ void append(R& left, const R& right) const {
        if (right.tag == run_empty) return;
        if (right.tag == run_closed || left.tag == run_empty) {
            left = right;
        } else {
            left.value = combine(left, right);
        }
    }
    // right becomes left o right.
    __device__ __forceinline__ void prepend(const R& left, R& right) const {
        if (left.tag == run_empty || right.tag == run_closed) return;
        if (right.tag == run_empty)
            right.value = left.value;
        else
            right.value = combine(left, right);
        right.tag = left.tag;
    }

    __device__ __forceinline__ int rows() const { return 1 << at.log2_rows; }
    __device__ __forceinline__ R* totals() const { return shared; }  // [warps in time][rows]
    __device__ __forceinline__ R* folds() const { return shared + (Warps << at.log2_lane_rows); }  // [Warps][rows]
    __device__ __forceinline__ R* carries() const {  // [rows]; there are folds only where chunks are gathered in groups
        return shared + ((g.log2_group_chunks > 0 ? 2 : 1) * Warps << at.log2_lane_rows);
    }

    __device__ __forceinline__ int32_t group() const { return at.chunk >> g.log2_group_chunks; }
    __device__ __forceinline__ int32_t link() const { return group() >> g.log2_link_groups; }
    __device__ __forceinline__ int earlier_chunks() const { return at.chunk - (group() << g.log2_group_chunks); }
    __device__ __forceinline__ int earlier_groups() const { return group() - (link() << g.log2_link_groups); }
    __device__ __forceinline__ bool last_of_group() const { return earlier_chunks() == (1 << g.log2_group_chunks) - 1; }
    __device__ __forceinline__ bool last_of_link() const {
        return last_of_group() && earlier_groups() == (1 << g.log2_link_groups) - 1;
    }
    __device__ __forceinline__ bool last() const { return at.chunk + 1 >= at.chunks; }

    // place(k, row) is where the run of chunk, group or link k of a row is published, among the runs of its kind. The
    // functions *_count() return how many runs of a kind there are, which is the distance between the words of a run
    // (element_words.cuh).
    __device__ __forceinline__ int64_t place(int32_t k, int row) const {
        return ((static_cast<int64_t>(at.first_chunk + k) * at.row_groups + at.row_group) << at.log2_rows) + row;
    }
    __device__ __forceinline__ int64_t count_of(int log2_chunks) const {
        const int64_t places = g.by_sequence != 0 ? g.chunks : ((g.chunks - 1) >> log2_chunks) + 1;
        return places * at.row_groups << at.log2_rows;
    }
    __device__ __forceinline__ int64_t records_count() const { return count_of(0); }
    __device__ __forceinline__ int64_t totals_count() const { return count_of(g.log2_group_chunks); }
    __device__ __forceinline__ int64_t carries_count() const {
        return count_of(g.log2_group_chunks + g.log2_link_groups);
    }

    // Returns the run of everything before the thread's steps; it is empty at the begin of a row. `mine` is the run of
    // the thread's own steps. For each row one thread calls done(row, run before the chunk). Where the result is not
    // `wanted`, the block only publishes what others need. All threads of the block must call this.
    template <typename Done>
    __device__ __forceinline__ R find_before(const R& mine, bool wanted, Done&& done) const {
        const R through = scan_lanes<false>(mine);
        R before;
        before.tag = run_empty;
        if (at.chunks > 1) {
            ptx::wait_for_launch_before();  // the launch before clears the memory that runs are published in
            look_back(wanted, done);
            if (!wanted) return before;
            before = carries()[at.row_in_block];
        } else if (static_cast<int>(threadIdx.x) < rows()) {
            done(static_cast<int>(threadIdx.x), before);
        }
        advance<false>(before, through);
        return before;
    }

    // The same scan within the chunk in the opposite order of time; `after` is what comes before the chunk in that
    // order and is already known.
    __device__ __forceinline__ R find_after(const R& mine, R after) const {
        const R through = scan_lanes<true>(mine);
        advance<true>(after, through);
        return after;
    }

  private:
    // Inclusive scan over the lanes of a row in the warp. Leaves the warp's run in shared memory.
    template <bool Back>
    __device__ __forceinline__ R scan_lanes(R run) const {
        const int segment = Back ? at.segments - 1 - at.segment : at.segment;
        const int neighbour = Back ? -at.neighbour : at.neighbour;
#pragma unroll 1
        for (int distance = 1; distance < at.segments; distance *= 2) {
            const R earlier = shuffle_run(run, (at.lane - distance * neighbour) & 31);
            if (segment >= distance) prepend(earlier, run);
        }
        if (segment == at.segments - 1) totals()[(at.warp_time << at.log2_rows) + at.row_in_block] = run;
        __syncthreads();
        return run;
    }
    // Appends the steps between the beginning of the chunk and the lane's own.
    template <bool Back>
    __device__ __forceinline__ void advance(R& before, const R& through) const {
        const int warps = Back ? at.warps_in_time - 1 - at.warp_time : at.warp_time;
#pragma unroll 1
        for (int n = 0; n < warps; ++n) {
            const int w = Back ? at.warps_in_time - 1 - n : n;
            append(before, totals()[(w << at.log2_rows) + at.row_in_block]);
        }
        const R earlier = shuffle_run(through, (Back ? at.lane + at.neighbour : at.lane - at.neighbour) & 31);
        if ((Back ? at.segments - 1 - at.segment : at.segment) > 0) append(before, earlier);
    }

    __device__ __forceinline__ R block_run(int row) const {
        R run = totals()[row];
#pragma unroll 1
        for (int w = 1; w < at.warps_in_time; ++w) append(run, totals()[(w << at.log2_rows) + row]);
        return run;
    }
    __device__ __forceinline__ bool publishes_total() const { return last_of_group() && !last_of_link() && !last(); }
    __device__ __forceinline__ bool publishes_carry() const { return last_of_link() && !last(); }

    // Publishes the chunk's runs, and finds the runs before it. One thread works for each row; it is in the second half
    // of the block where that half has a thread for every row.
    template <typename Done>
    __device__ __forceinline__ void look_back(bool wanted, Done&& done) const {
        const int row = static_cast<int>(threadIdx.x) ^ half;
        R mine;
        mine.tag = run_empty;
        if (row < rows()) {
            mine = block_run(row);
            if (!last() && !last_of_group()) publish_run(g.records, records_count(), place(at.chunk, row), mine);
        }
        if (!wanted && !publishes_total() && !publishes_carry()) return;
        fold_earlier(row, mine);
        if (row < rows() && (wanted || publishes_carry())) {
            R carry;
            carry.tag = run_empty;
            if (link() > 0)
                carry = await_run<Element, carry_words<Op>()>(g.carries, carries_count(), place(link(), row));
            append_folds(carry, true, row);
            carries()[row] = carry;
            done(row, carry);
            if (publishes_carry()) {
                append(carry, mine);
                publish_run<Element, carry_words<Op>()>(g.carries, carries_count(), place(link() + 1, row), carry);
            }
        }
        __syncthreads();
    }

    // Combines ("folds") the published runs of earlier groups in the first half of the block and of earlier chunks in
    // the second; where there are no earlier groups, both halves fold chunks.
    __device__ __forceinline__ void fold_earlier(int row, const R& mine) const {
        const int thread = static_cast<int>(threadIdx.x);
        const int chunks = earlier_chunks(), groups = earlier_groups();
        if (chunks + groups == 0 && !publishes_total()) return;
        const bool folds_chunks = groups == 0 || thread >= half;
        const int count = folds_chunks ? chunks : groups, threads = groups == 0 ? 2 * half : half;
        if (count > 0)
            fold(folds_chunks ? g.records : g.totals, folds_chunks ? records_count() : totals_count(),
                 (folds_chunks ? at.chunk : group()) - count, count, thread & (threads - 1), threads,
                 folds_chunks && groups > 0 ? Warps / 2 : 0);
        if (groups == 0)
            __syncthreads();
        else if (folds_chunks)
            ptx::named_barrier<1, half>();
        else
            ptx::named_barrier<2, half>();  // for compute-sanitizer's racecheck, which reports a race without it
        if (folds_chunks && row < rows() && publishes_total()) {
            R total;
            total.tag = run_empty;
            append_folds(total, false, row);
            append(total, mine);
            publish_run(g.totals, totals_count(), place(group(), row), total);
        }
        __syncthreads();
    }

    // Combines `count` published runs from `start` on by `threads` threads. threads / rows() threads take a row: each
    // combines neighbouring runs, and shuffles combine those of a warp.
    __device__ __forceinline__ void fold(const void* memory, int64_t values, int32_t start, int count, int thread,
                                         int threads, int first_fold) const {
        const int lane = thread & 31, row = thread & (rows() - 1), part = thread >> at.log2_rows;
        const int parts = threads >> at.log2_rows, each = (count + parts - 1) / parts;
        R run;
        run.tag = run_empty;
        const int end = min(count, (part + 1) * each);
#pragma unroll 1
        for (int i = part * each; i < end; ++i) append(run, await_run<Element>(memory, values, place(start + i, row)));
        __syncwarp();  // the wait leaves lanes diverged, and shuffles of diverged lanes take several times as long
#pragma unroll 1
        for (int distance = rows(); distance < 32; distance *= 2) {
            const R later = shuffle_run(run, (lane + distance) & 31);
            if ((lane & (2 * distance - 1) & ~(rows() - 1)) == 0) append(run, later);
        }
        if (lane < rows()) folds()[((first_fold + thread / 32) << at.log2_rows) + row] = run;
    }
    // Appends the folded groups, if asked for, then the folded chunks.
    __device__ __forceinline__ void append_folds(R& run, bool with_groups, int row) const {
        const bool groups = earlier_groups() > 0;
        const int first = groups && !with_groups ? Warps / 2 : 0;
        const int last = earlier_chunks() > 0 ? Warps : groups ? Warps / 2 : 0;
#pragma unroll 1
        for (int n = first; n < last; ++n) append(run, folds()[(n << at.log2_rows) + row]);
    }
};

}  // namespace flashscan::cuda
