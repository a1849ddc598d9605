// SPDX-License-Identifier: Apache-2.0
// The chained scan of many rows with time innermost, over any monoid. Blocks take chunks of time, and each waits for
// the carry from the chunk before and publishes the one into the next.
//
// Ownership  A block of up to 8 warps owns a chunk of consecutive steps of one row, or of two rows side by side, or of
//            up to 8 rows that share gates. A lane holds L steps in registers.
// Skew       Lanes own whole aligned vectors of 16 bytes, wherever a row begins in its first one: steps are counted
//            from that vector's first element, and those before the row's first and past its last are the identity.
//            Nothing is shifted, since a row lies alike in all tensors. Elements of the vectors at the ends of a row,
//            which may share them with other rows, go one by one (device/tile/skewed_vectors.cuh).
// Passes     1. Every lane loads its steps and summarises them; the summaries of lanes, then of warps, are composed in
//               order.
//            2. Every lane walks its steps with its carry and stores them.
// Order      Blocks go through sets of rows: through the rows of a set first, then through its chunks
//            (block_order.cuh). A set has about as many rows as blocks run at once. The carry into a chunk is then
//            there when its block begins, and what is read at about the same time lies close together. The association
//            is fixed by the shape.
// Progress   Blocks wait for blocks of lower index only; the hardware starts blocks in the order of their index, as
//            every single-pass scan relies on.
// Sync       A block's warps synchronise by __syncthreads, once; once more to add up sums or in groups of chunks; and,
//            where results take the place of what is read, to vote before they store and between carries and walks in
//            order. A carry between blocks shows by its own words whether it has arrived
//            (device/exchange/published_values.cuh).
// Few rows   Where they are so few that blocks would wait for the chunk before, chunks are gathered in groups
//            (chunk_groups.cuh), and the last of a chunk's warps finds the carry into the chunk for the others, which
//            takes a second __syncthreads. Where no step is stored, only the last two chunks and the last of each group
//            find carries.
//
// A monoid is a struct of static functions:
//
//     Wide                   what is carried from step to step
//     Map, Record            the summary of a run of steps, in registers and in memory; to_record, to_map
//     identity()             of maps
//     compose(early, late)   apply(map, carry)   shuffle_map(map, lane)
//     start()                the carry of a row that starts from nothing
//     is_cut(map)            whether the carry after the map does not depend on the one before it
//
// The work of a warp, whose constructor loads the lane's steps, is a struct of this form:
//
//     Params                         with log2_warp_rows, chunks, batches, rows, time, offsets and carries
//     Monoid, Shape, Down            Down: whether the walk goes against the order of memory
//     buffer_bytes                   of a warp, in dynamic shared memory
//     skew_of(p, batch, row)         elements between the vector in which a row begins and the row
//     summarize(through, then)       sets the summary of the lane's steps and calls then()
//     enter(v)                       the carry that the lane's row v starts from
//     walk(carry)                    computes and stores; the carry becomes the one after the lane's steps
//     is_left(), leave(v, carry)     whether what leaves a row is wanted, the same for all threads; takes the carry
//                                    after the last step of the lane's row v
//     InOrder                        static functions that walk in order; may be missing:
//         again(p, at, v, warps, into, after)   walks the lane's steps of its row v again, from the carry `into` that
//                                    enters `warps` warps earlier in time, and returns the carry after them, or
//                                    `after` if nothing can become finite
//         in_place(p)                whether results take the place of what is read
//         sums_in_warps(p)           of columns: whether walk(carry) sums over the lanes of a warp, which then all walk
//                                    again if one does; write_sums has no barrier then
//         carry(p, at, v, warps, into)          the carry into the lane's steps
//         walk(p, at, chunk, warps, carry)      does what walk(carry), leave and write_sums do; called by all threads
//                                    of the block, or of the warp with sums_in_warps
//
// Where a work has InOrder, a lane whose carry is not finite walks its steps again at the end of the kernel, since the
// carry may only have overflowed on the way. A lane that has to publish a carry out of the chunk which is not finite
// owes it: it defers that until its last walk has made the carry right. The lane's place is then computed anew, so that
// nothing of it is kept in registers for this. Such a work also has
//
//     write_sums(chunk, warps, again)   called by all threads of a block after walk(carry), but for warps that have
//                                    returned for sums_in_warps; `again` tells that the lane walks again. Returns
//                                    whether all lanes of the block have to, and then has written nothing.
//
// and its monoid is_finite(map) and cut_to(carry), the map to that carry.
//
// A work whose `shares_gates` is true belongs to a kernel in which up to 8 warps side by side have the same steps: of
// neighbouring rows where shared_rows of its Params is not 0, otherwise of one row or strip of neighbouring batch
// entries.
//
// A work whose Params have `grouped` and `records` takes few rows in groups, and has this too:
//
//     writes()                       whether it writes something for every step
#pragma once

#include "cuda/device/exchange/published_values.cuh"
#include "cuda/device/math/finite.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/ptx/thread_index.cuh"
#include "cuda/device/scan/block_order.cuh"
#include "cuda/device/scan/chunk_groups.cuh"
#include "cuda/device/scan/segments.cuh"
#include "cuda/device/tile/memory_words.cuh"
#include "cuda/device/tile/sequences.cuh"

namespace flashscan::cuda {

// Whether step t is among the lane's. The lane that holds a row's last step stores the final state, not the last lane
// of the row's last chunk: the state then has the bits of that step's result.
template <typename Shape>
__device__ __forceinline__ bool holds_step(const Place& at, int64_t t) {
    return at.t0 <= t && t < at.t0 + Shape::L;
}

// The warps of a block that have the same rows and follow each other in time: `count` of them, `step` apart from the
// block's warp `first` on. `mine` is the number of the thread's own, in the order of the walk.
struct WarpsInTime {
    int first, step, mine, count;
};

template <typename Work>
constexpr bool shares_gates = false;
template <typename Work>
requires requires { Work::shares_gates; }
constexpr bool shares_gates<Work> = Work::shares_gates;

// The batch entry of row, or group of rows, `group`, and its number there. An entry has `each`, by which `by_each`
// divides. Where warps share gates, `group` is that of a block, of whose warps side by side number `warp_row` is asked
// for, and `by_each` divides by the blocks of an entry, or of the entries that share them.
struct PlaceOfWarp {
    uint32_t batch, row;
};
template <typename Work, typename Params>
__device__ __forceinline__ PlaceOfWarp place_of_warp(const Params& p, uint32_t group, int warp_row,
                                                     const Divisor& by_each, uint32_t each) {
    if constexpr (shares_gates<Work>) {
        const uint32_t others = (1U << p.log2_warp_rows) - 1;
        if (p.shared_rows != 0) each = (each + others) >> p.log2_warp_rows;
        const uint32_t entry = quotient(group, by_each), of_entry = group - entry * each;
        if (p.shared_rows != 0) return {entry, (of_entry << p.log2_warp_rows) + warp_row};
        return {(entry << p.log2_warp_rows) + warp_row, of_entry};
    }
    const uint32_t batch = p.batches > 1 ? quotient(group, by_each) : 0;
    return {batch, group - batch * each};
}

template <typename Work>
struct ChainedRows {
    using Params = typename Work::Params;
    using Monoid = typename Work::Monoid;
    using Shape = typename Work::Shape;
    using Wide = typename Monoid::Wide;
    using Map = typename Monoid::Map;
    using Record = typename Monoid::Record;
    struct Totals {
        Record of[chained_warps];
        Wide carry[shares_gates<Work> ? chained_warps : 2];  // into the chunk, of each of the block's rows
    };
    static constexpr bool Down = Work::Down, has_groups = requires(const Params&q) { q.grouped; };
    static constexpr bool has_again = requires { typename Work::InOrder; };
    // Work that a lane defers to the end of the kernel:
    //     again          to walk its steps again, because their carry overflowed, or the summary that it publishes
    //     all            to walk them because another lane has to, before whose walk nothing may be stored or summed
    //     owed           to publish a carry that was held back, of which `carry` is what the lane computed
    //     owed_summary   to publish the carry after the chunk in the place of the chunk's summary, which overflowed
    // `any` is whether a lane of the warp has deferred something. It is computed before results are stored: reloading a
    // spilled flag would have to wait for these stores.
    struct Rest {
        bool any = false, again = false, all = false, owed = false, owed_summary = false;
        Wide carry{};
    };
    static constexpr int L = Shape::L;

    const Params& p;
    Place at;
    uint32_t chunk;
    int warp_time, warps_in_time;  // the warp's place among those of its row, in the order of the walk
    const Record* totals;          // summaries of the warps of the row, in the order of the walk
    Record* total;                 // the warp's own entry there
    Wide* entering;                // the carry into the chunk; used in groups of chunks and in the first chunk
    char* buffer;                  // the warp's part of dynamic shared memory

    static __device__ __forceinline__ ChainedRows here(const Params& p, const ChainedSets& sets, Totals& totals) {
        const int thread = ptx::thread_index(), warp = thread / 32;
        const int warps_in_time = static_cast<int>(blockDim.x / 32) >> p.log2_warp_rows;
        const int warp_row = shares_gates<Work> ? warp / warps_in_time : warp < warps_in_time ? 0 : 1;
        const int warp_time = warp - warp_row * warps_in_time;
        const auto [group, chunk] = place_in_sets(sets);
        const uint32_t rows = static_cast<uint32_t>(p.rows);
        const uint32_t row = shares_gates<Work> ? group : (group << p.log2_warp_rows) + warp_row;
        const auto [batch, in_batch] = place_of_warp<Work>(p, row, warp_row, sets.by_rows, rows);
        // A walk against the order of memory (Down) takes the places from the last to the first.
        const int64_t turn = static_cast<int64_t>(chunk) * warps_in_time + warp_time;
        const int64_t place = Down ? p.chunks * warps_in_time - 1 - turn : turn;
        return {p,
                place_of<Shape>(batch, in_batch, place * (32 * L) - Work::skew_of(p, batch, in_batch),
                                batch < p.batches ? p.rows : 0, end_of_steps(p.offsets, p.time), thread & 31, 0),
                chunk,
                warp_time,
                warps_in_time,
                totals.of + warp_row * warps_in_time,
                totals.of + warp,
                totals.carry + warp_row,
                shared_memory() + warp * Work::buffer_bytes};
    }

    __device__ __forceinline__ Segments<Monoid, Shape, Down> segments() const { return {at}; }
    // The row's carry into a chunk, or into a group of chunks, is published at this place.
    __device__ __forceinline__ int64_t place_of_carry(uint32_t into) const {
        return (static_cast<int64_t>(into) * p.batches + at.batch) * p.rows + at.row;
    }
    __device__ __forceinline__ bool grouped() const {
        if constexpr (has_groups)
            return p.grouped != 0;
        else
            return false;
    }

    __device__ __forceinline__ Rest run() const {
        Words<Wide> known;
        if (chunk > 0 && at.rows > 0 && !grouped()) {
            ptx::wait_for_launch_before();  // the launch before clears the memory that carries are published in
            ask_for_value(p.carries, place_of_carry(chunk), known);
        }
        Work work(p, at, buffer);
        Map through[1];
        work.summarize(through, [&] { segments().scan(through[0]); });
        if (segments().is_last()) *total = Monoid::to_record(through[0]);
        // The carry that enters the row is read before the barrier, as the one that leaves may go to the same memory.
        Wide carry[1] = {chunk == 0 && at.rows > 0 ? work.enter(0) : Monoid::start()};
        if (has_again && chunk == 0 && !grouped() && warp_time == 0 && at.lane == 0) *entering = carry[0];
        __syncthreads();
        Rest rest;
        if (grouped()) {
            // There are as many chunks as the largest skew needs, so that a row's last chunk may be empty.
            const bool ends = chunk + 2 >= p.chunks || chunk % chunk_group == chunk_group - 1;
            const bool wanted = ends || work.writes();
            find_carry_in_group(wanted, carry[0], rest);
            if (!wanted) {
                rest.again = rest.owed_summary;
                if constexpr (has_again) rest.any = __any_sync(0xffffffffU, rest.again) != 0;
                return rest;
            }
        } else {
            rest.owed = find_carry(known, carry[0]);
        }
#pragma unroll 4
        for (int w = 0; w < warp_time; ++w) carry[0] = Monoid::apply(Monoid::to_map(totals[w]), carry[0]);
        carry[0] = segments().enter(through[0], carry[0]);
        if constexpr (has_again) {
            rest.again = !is_finite(carry[0]) && at.rows > 0;
            if (Work::InOrder::in_place(p)) {
                rest.all = rest.any = __syncthreads_or(rest.again || rest.owed_summary) != 0;
                if (rest.all) return rest;
            }
            rest.any = __any_sync(0xffffffffU, rest.again || rest.owed || rest.owed_summary) != 0;
        }
        work.walk(carry);
        if constexpr (has_again)
            if (work.write_sums(chunk, warps(), rest.again)) {
                rest.all = rest.any = true;
                return rest;
            }
        // Testing is_left() first saves linear kernels the reload of a spilled register. Numbers kernels spill nothing;
        // they skip the test, which would cost them a register.
        const bool left = !has_again || work.is_left();
        if (left && at.rows > 0 && holds_step<Shape>(at, Down ? 0 : p.time - 1)) work.leave(0, carry[0]);
        if constexpr (has_again) rest.carry = carry[0];
        return rest;
    }
    // Does the deferred work.
    __device__ __forceinline__ void finish(Rest rest) const {
        using InOrder = typename Work::InOrder;
        __syncwarp();  // other lanes may have stored the lane's results
        if (rest.all) {
            Wide carry[1] = {at.rows > 0 ? InOrder::carry(p, at, 0, warp_time, carry_into_chunk()) : Wide{}};
            if (InOrder::in_place(p)) __syncthreads();
            InOrder::walk(p, at, chunk, warps(), carry);
            rest.carry = carry[0];
        } else if (rest.again) {
            const Wide into = carry_into_chunk();
            // Where no step is stored, the lane has not walked, and its carry is that of the summary.
            if (rest.owed_summary) rest.carry = Monoid::apply(summary(), into);
            rest.carry = InOrder::again(p, at, 0, warp_time, into, rest.carry);
        }
        if (rest.owed) publish_value(p.carries, place_of_carry(next()), rest.carry);
        if constexpr (has_groups)
            if (rest.owed_summary)
                publish_value(p.records, place_of_summary(chunk), Monoid::to_record(Monoid::cut_to(rest.carry)));
    }
    // The carry into the chunk, when it does not matter how long it takes to find it.
    __device__ __forceinline__ Wide carry_into_chunk() const {
        if (chunk == 0) return *entering;
        if (!grouped()) return await_value<Wide>(p.carries, place_of_carry(chunk));
        Wide carry = await_value<Wide>(p.carries, place_of_carry(chunk / chunk_group));
        if constexpr (has_groups)
#pragma unroll 1
            for (uint32_t of = chunk - chunk % chunk_group; of < chunk; ++of)
                carry = Monoid::apply(Monoid::to_map(await_value<Record>(p.records, place_of_summary(of))), carry);
        return carry;
    }
    __device__ __forceinline__ int64_t place_of_summary(uint32_t of) const {
        return (at.batch * p.rows + at.row) * p.chunks + of;
    }
    __device__ __forceinline__ WarpsInTime warps() const {
        return {ptx::thread_index() / 32 - warp_time, 1, warp_time, warps_in_time};
    }

    // The chunk, or group of chunks, after this one.
    __device__ __forceinline__ uint32_t next() const { return (grouped() ? chunk / chunk_group : chunk) + 1; }
    // Publishes the carry into a chunk or group, or defers that if the carry is not finite; returns whether it is owed.
    __device__ __forceinline__ bool publish_or_owe(uint32_t into, Wide carry) const {
        if constexpr (has_again) {
            publish_if(is_finite(carry), p.carries, place_of_carry(into), carry);
            return !is_finite(carry);
        } else {
            publish_value(p.carries, place_of_carry(into), carry);
            return false;
        }
    }

    // Finds the carry into the chunk; in a row's first chunk `carry` already holds what the row starts from. The lane
    // that `hands` on, elected in the row's last warp, publishes the carry into the next chunk: before it waits for its
    // own if the row is cut within the chunk, otherwise right after. Returns whether the lane owes that carry.
    __device__ __forceinline__ bool find_carry(const Words<Wide>& known, Wide& carry) const {
        const bool hands =
            chunk + 1 < p.chunks && warp_time == warps_in_time - 1 && segments().is_last() && at.rows > 0;
        bool owed = false;
        if (p.chunks > 1) ptx::wait_for_launch_before();
        Map whole = Monoid::identity();
        if (hands) {
            whole = summary();
            if (Monoid::is_cut(whole)) owed = publish_or_owe(chunk + 1, Monoid::apply(whole, Monoid::start()));
        }
        if (chunk > 0 && at.rows > 0) carry = await_value<Wide>(p.carries, place_of_carry(chunk), known);
        if (hands && !Monoid::is_cut(whole)) owed = publish_or_owe(chunk + 1, Monoid::apply(whole, carry));
        return owed;
    }

    // The same where chunks are gathered in groups. The row's last warp does the work for all, and the lane of it that
    // `speaks` is elected to publish. The carry is set only if it is `wanted`.
    __device__ __forceinline__ void find_carry_in_group(bool wanted, Wide& carry, Rest& rest) const {
        if (warp_time == warps_in_time - 1 && at.rows > 0) {
            const uint32_t group = chunk / chunk_group, in_group = chunk % chunk_group;
            const int64_t place = place_of_summary(chunk);
            const bool speaks = has_again ? segments().is_last() : at.lane == 0;
            const bool hands = chunk + 1 < p.chunks && speaks, ends_group = in_group == chunk_group - 1;
            const Map whole = summary();
            ptx::wait_for_launch_before();  // the launch before clears the memory that is published in
            if constexpr (has_again) rest.owed_summary = hands && !ends_group && !Monoid::is_finite(whole);
            if (hands && !ends_group && !rest.owed_summary) publish_value(p.records, place, Monoid::to_record(whole));
            if (hands && chunk == 0) publish_value(p.carries, place_of_carry(0), carry);
            if (wanted && chunk > 0) {
                Words<Wide> known;
                ask_for_value(p.carries, place_of_carry(group), known);
                const Map earlier = compose_published<Monoid>(p.records, place - in_group, in_group, at.lane);
                carry = Monoid::apply(earlier, await_value<Wide>(p.carries, place_of_carry(group), known));
                if (hands && ends_group) rest.owed = publish_or_owe(group + 1, Monoid::apply(whole, carry));
            }
            if (at.lane == 0) *entering = carry;
        }
        if (!wanted) return;
        __syncthreads();
        carry = *entering;
    }

    // The summary of the row's steps in the chunk.
    __device__ __forceinline__ Map summary() const {
        Map whole = Monoid::identity();
#pragma unroll 4
        for (int w = 0; w < warps_in_time; ++w) whole = Monoid::compose(whole, Monoid::to_map(totals[w]));
        return whole;
    }
};

// Not inlined: it is rarely called, and its code then lies apart from the rest.
template <typename Scan>
__device__ __noinline__ void finish_chained(const typename Scan::Params& p, const ChainedSets& sets,
                                            typename Scan::Totals& totals, typename Scan::Rest rest) {
    Scan::here(p, sets, totals).finish(rest);
}

// The body of a kernel that is a ChainedRows or a ChainedColumns.
template <typename Scan>
__device__ __forceinline__ void run_chained(const typename Scan::Params& p, const ChainedSets& sets) {
    __shared__ typename Scan::Totals totals;
    const auto rest = Scan::here(p, sets, totals).run();
    if constexpr (Scan::has_again)
        if (rest.any) [[unlikely]]
            finish_chained<Scan>(p, sets, totals, rest);
}

}  // namespace flashscan::cuda
