// SPDX-License-Identifier: Apache-2.0
// How a thread of a scan of elements finds the combination of all steps before its own: look-back (look_back.cuh) over
// runs of elements.
//
// A thread brings the run of its steps, which is their combination. The runs of lanes, then of warps, are combined in
// the order of time into the chunk's run, which is its summary; the carry into a link is the run of everything
// before the link. One thread of a row combines what is before the chunk and leaves it in shared memory for the others,
// since an element may take many registers and its operator long.
//
// An empty run stands for no steps and is never combined, so that an operator needs no identity and need not commute.
#pragma once

#include "cuda/device/exchange/element_words.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/scan/element_place.cuh"
#include "cuda/device/scan/look_back.cuh"

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

// PublishedRuns tells EarlierChunks how runs are combined and awaited. ElementChain also publishes through it.
template <typename Op_>
struct PublishedRuns {
    using Op = Op_;
    using Element = typename Op::Element;
    using Run = cuda::Run<Element>;
    using Stored = Run;
    static constexpr int unrolled = 1;

    const Op& op;
    const ElementGrid& g;
    int64_t row_places;  // the rows of all groups of rows, for which each chunk publishes a run

    static __device__ __forceinline__ Run none() {
        Run run;
        run.tag = run_empty;
        return run;
    }
    // An operator may have combine_closed, a cheaper combine where the left run is closed.
    __device__ __forceinline__ Element combine(const Run& left, const Run& right) const {
        if constexpr (requires { op.combine_closed(left.value, right.value); })
            if (left.tag == run_closed) return op.combine_closed(left.value, right.value);
        return op.combine(left.value, right.value);
    }
    // left becomes left o right.
    __device__ __forceinline__ void append(Run& left, const Run& right) const {
        if (right.tag == run_empty) return;
        if (right.tag == run_closed || left.tag == run_empty) {
            left = right;
        } else {
            left.value = combine(left, right);
        }
    }
    // right becomes left o right.
    __device__ __forceinline__ void prepend(const Run& left, Run& right) const {
        if (left.tag == run_empty || right.tag == run_closed) return;
        if (right.tag == run_empty)
            right.value = left.value;
        else
            right.value = combine(left, right);
        right.tag = left.tag;
    }
    static __device__ __forceinline__ Run shuffle(const Run& run, int lane) { return shuffle_run(run, lane); }
    static __device__ __forceinline__ Stored store(const Run& run) { return run; }
    static __device__ __forceinline__ Run load(const Stored& run) { return run; }

    // Returns how many runs of 2^log2_chunks chunks are published. The words of a run lie that far apart
    // (element_words.cuh).
    __device__ __forceinline__ int64_t count_of(int log2_chunks) const {
        return (g.by_sequence != 0 ? g.chunks : ((g.chunks - 1) >> log2_chunks) + 1) * row_places;
    }
    __device__ __forceinline__ Run await(bool of_chunk, int64_t place) const {
        return await_run<Element>(of_chunk ? g.records : g.totals, count_of(of_chunk ? 0 : g.log2_group_chunks), place);
    }
    __device__ __forceinline__ void publish(bool of_chunk, int64_t place, const Run& run) const {
        publish_run(of_chunk ? g.records : g.totals, count_of(of_chunk ? 0 : g.log2_group_chunks), place, run);
    }
    __device__ __forceinline__ Run await_carry(int64_t place) const {
        return await_run<Element, carry_words<Op>()>(g.carries, carries(), place);
    }
    __device__ __forceinline__ void publish_carry(int64_t place, const Run& run) const {
        publish_run<Element, carry_words<Op>()>(g.carries, carries(), place, run);
    }

  private:
    __device__ __forceinline__ int64_t carries() const { return count_of(g.log2_group_chunks + g.log2_link_groups); }
};

template <typename Op, int L, int Warps>
struct ElementChain : LookBackPlace<ElementGrid> {
    using Element = typename Op::Element;
    using R = Run<Element>;
    using Place = ElementPlace<L, Warps>;
    using Runs = PublishedRuns<Op>;
    static constexpr int half = 16 * Warps;

    const Place& at;
    R* shared;
    const Runs runs;

    __device__ __forceinline__ ElementChain(const Op& op, const ElementGrid& g, const Place& at_, R* shared_)
        : LookBackPlace{g,
                        static_cast<uint32_t>(at_.chunk),
                        static_cast<uint32_t>(at_.chunks),
                        static_cast<uint32_t>(at_.first_chunk),
                        static_cast<uint32_t>(at_.row_group),
                        static_cast<uint32_t>(at_.row_groups),
                        at_.log2_rows},
          at(at_),
          shared(shared_),
          runs{op, g, int64_t{at_.row_groups} << at_.log2_rows} {}

    __device__ __forceinline__ R* totals() const { return shared; }  // [warps in time][rows]
    __device__ __forceinline__ R* folds() const { return shared + (Warps << at.log2_lane_rows); }  // [Warps][rows]
    __device__ __forceinline__ R* carries() const {  // [rows]; there are folds only where chunks are gathered in groups
        return shared + ((cut.log2_group_chunks > 0 ? 2 : 1) * Warps << at.log2_lane_rows);
    }

    // Returns the run of everything before the thread's steps; it is empty at the begin of a row. `mine` is the run of
    // the thread's own steps. For each row one thread calls done(row, run before the chunk). Where the result is not
    // `wanted`, the block only publishes what others need. All threads of the block must call this.
    template <typename Done>
    __device__ __forceinline__ R find_before(const R& mine, bool wanted, Done&& done) const {
        const R through = scan_lanes<false>(mine);
        R before = Runs::none();
        // The launch before clears the memory that runs are published in, and the next launch must not find it at work.
        if (at.chunks > 1 || cut.by_sequence != 0) ptx::wait_for_launch_before();
        if (at.chunks > 1) {
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
            if (segment >= distance) runs.prepend(earlier, run);
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
            runs.append(before, totals()[(w << at.log2_rows) + at.row_in_block]);
        }
        const R earlier = shuffle_run(through, (Back ? at.lane + at.neighbour : at.lane - at.neighbour) & 31);
        if ((Back ? at.segments - 1 - at.segment : at.segment) > 0) runs.append(before, earlier);
    }

    __device__ __forceinline__ R block_run(int row) const {
        R run = totals()[row];
#pragma unroll 1
        for (int w = 1; w < at.warps_in_time; ++w) runs.append(run, totals()[(w << at.log2_rows) + row]);
        return run;
    }
    // Publishes the chunk's runs, and finds the runs before it. Thread half + r works for row r, and where there are
    // more than `half` rows, thread r - half for row r.
    template <typename Done>
    __device__ __forceinline__ void look_back(bool wanted, Done&& done) const {
        const int row = static_cast<int>(threadIdx.x) ^ half;
        R mine = Runs::none();
        if (row < rows()) {
            mine = block_run(row);
            if (publishes_summary()) runs.publish(true, place(chunk, row), mine);
        }
        if (!wanted && !publishes_total() && !publishes_carry()) return;
        const EarlierChunks<ElementGrid, Runs, Warps> earlier{*this, runs, folds(), at.log2_rows};
        earlier.fold([&](int) {
            R total = mine;
            earlier.for_folded_chunks_back(row, [&](const R& run) { runs.prepend(run, total); });
            runs.publish(false, place(group(), row), total);
        });
        if (row < rows() && (wanted || publishes_carry())) {
            R carry = Runs::none();
            if (link() > 0) carry = runs.await_carry(place(link(), row));
            earlier.for_folds(row, [&](const R& run) { runs.append(carry, run); });
            carries()[row] = carry;
            done(row, carry);
            if (publishes_carry()) {
                runs.append(carry, mine);
                runs.publish_carry(place(link() + 1, row), carry);
            }
        }
        __syncthreads();
    }
};

}  // namespace flashscan::cuda
