// SPDX-License-Identifier: Apache-2.0
// The chained scan of many rows with channels innermost, over any monoid (chained_rows.cuh says what monoids and works
// are). A strip is the rows (neighbouring channels) that a warp covers.
//
// Ownership  A block of up to 8 warps owns a chunk of consecutive steps of a strip, or of 2^log2_warp_rows strips side
//            by side, or of one strip of so many batch entries that share gates. A lane holds L steps of V rows in
//            registers, and no lane needs another's steps.
// Passes     1. Every lane loads its steps and summarises them; the summaries of a strip's warps are composed in order.
//            2. Every lane walks its steps with its carries and stores them.
// Order      Blocks go through sets of strips as those of chained_rows.cuh go through sets of rows.
// Sync       A block's warps synchronise as those of chained_rows.cuh. Carries between blocks show by their own words
//            whether they have arrived (device/exchange/published_values.cuh); the V carries of a lane share words
//            where they fit.
// Few strips Where strips are so few that blocks would wait for the chunk before, column_chunk_group chunks are a
//            group, and the chain of carries is a fraction as long. A group's last chunk publishes the carry into the
//            next group. Every other chunk publishes its summary as soon as it has it, unless that overflowed. The last
//            warp of a strip applies the summaries of the group's earlier chunks to the group's carry for the others,
//            which takes a second __syncthreads.
// Direction  Lanes go from step 0 on. For walks against the order of memory the host reverses the tensors in time: they
//            begin with their last step and have negative strides of time.
//
// Params must also have row_groups and by_row_groups. A work must also have `skewed`, which tells whether the last lane
// of a warp has no rows of its own (device/tile/skewed_pairs.cuh).
#pragma once

#include "cuda/device/scan/chained_rows.cuh"

namespace flashscan::cuda {

template <typename Work>
struct ChainedColumns {
    using Params = typename Work::Params;
    using Monoid = typename Work::Monoid;
    using Shape = typename Work::Shape;
    using Wide = typename Monoid::Wide;
    using Map = typename Monoid::Map;
    using Record = typename Monoid::Record;
    static constexpr bool skewed = Work::skewed;
    static constexpr int L = Shape::L, V = Shape::V;
    static constexpr int strip_rows = V * (skewed ? skewed_pair_lanes : 32);
    static constexpr bool has_groups = requires(const Params& q) { q.grouped; }
    &&V * sizeof(Record) <= column_group_record_bytes;
    static constexpr bool has_again = requires { typename Work::InOrder; };
    struct Totals {
        Record of[chained_warps][V][32];
        // Carries that enter the chunk, [strip of the block][row of the lane][lane]; used where chunks are gathered in
        // groups, and in the first chunk.
        Wide carry[shares_gates<Work> ? chained_warps : has_groups || has_again ? 2 : 1][V][32];
    };
    using Carries = LaneValues<Wide, V>;
    using Records = LaneValues<Record, V>;
    // Work that a lane defers to the end of the kernel (chained_rows.cuh); `again` has a bit for each row.
    struct Rest {
        uint32_t again = 0;
        bool any = false, all = false, owed = false, owed_summary = false;
        Carries carries{};
    };

    const Params& p;
    Place at;
    uint32_t chunk;
    // The warp's strip in the block, its place among the strip's warps in the order of the walk, and their number.
    int warp_row, warp_time, warps_in_time;
    Totals& totals;  // summaries of all warps; those of a strip lie 2^log2_warp_rows apart in the order of the walk

    static __device__ __forceinline__ ChainedColumns here(const Params& p, const ChainedSets& sets, Totals& totals) {
        const int thread = ptx::thread_index(), warp = thread / 32;
        const int warps_in_time = static_cast<int>(blockDim.x / 32) >> p.log2_warp_rows;
        const int warp_row = warp & ((1 << p.log2_warp_rows) - 1), warp_time = warp >> p.log2_warp_rows;
        const auto [group, chunk] = place_in_sets(sets);
        const auto [batch, row_group] =
            place_of_warp<Work>(p, group, warp_row, p.by_row_groups, static_cast<uint32_t>(p.row_groups));
        const uint32_t strip = shares_gates<Work> ? row_group : (row_group << p.log2_warp_rows) + warp_row;
        const StepRange steps = steps_that_exist(p.offsets, 0, p.time);
        const int64_t t0 = steps.begin + (static_cast<int64_t>(chunk) * warps_in_time + warp_time) * L;
        const int64_t row = static_cast<int64_t>(strip) * strip_rows;
        const int64_t rows = batch < p.batches ? p.rows : 0;
        Place at =
            place_of<Shape>(batch, row, t0, skewed ? min(rows, row + strip_rows) : rows, steps.end, thread & 31, 5);
        if (skewed) at.steps = at.warp_steps;  // lanes without rows compute as well, and nothing of theirs is stored
        return {p, at, chunk, warp_row, warp_time, warps_in_time, totals};
    }

    __device__ __forceinline__ bool is_last() const { return warp_time == warps_in_time - 1; }
    // The lane's carries into a chunk are published at this place, counted in carries of a lane.
    __device__ __forceinline__ int64_t place_of_carries(uint32_t into) const {
        const int64_t packs = (p.rows + V - 1) / V;
        return (static_cast<int64_t>(into) * p.batches + at.batch) * packs + at.row / V;
    }
    __device__ __forceinline__ Record& total(int warp, int v) const {
        return totals.of[(warp << p.log2_warp_rows) + warp_row][v][at.lane];
    }
    __device__ __forceinline__ bool grouped() const {
        if constexpr (has_groups)
            return p.grouped != 0;
        else
            return false;
    }

    __device__ __forceinline__ Rest run() const {
        Words<Carries> known;
        if (chunk > 0 && at.rows > 0 && (!grouped() || is_last())) {
            ptx::wait_for_launch_before();  // the launch before clears the memory that carries are published in
            ask_for_value(p.carries, place_of_carries(grouped() ? chunk / column_chunk_group : chunk), known);
        }
        Work work(p, at, nullptr);
        Map through[V];
        work.summarize(through, [] {});
#pragma unroll
        for (int v = 0; v < V; ++v) total(warp_time, v) = Monoid::to_record(through[v]);
        // The carry that enters a row is read before the barrier, as the one that leaves may go to the same memory. The
        // host does not let rows that can be cut have one memory for both, since a later block would not wait for this
        // one.
        Wide carry[V];
#pragma unroll
        for (int v = 0; v < V; ++v) carry[v] = chunk == 0 && v < at.rows ? work.enter(v) : Monoid::start();
        if (has_again && chunk == 0 && warp_time == 0)
#pragma unroll
            for (int v = 0; v < V; ++v) totals.carry[warp_row][v][at.lane] = carry[v];
        __syncthreads();
        Map before[V];
        compose_earlier_warps(before);
        Rest rest;
        if (grouped())
            find_carry_in_group(before, through, known, carry, rest);
        else
            rest.owed = find_carry(before, through, known, carry);
        if constexpr (has_again) {
#pragma unroll
            for (int v = 0; v < V; ++v) rest.again |= static_cast<uint32_t>(v < at.rows && !is_finite(carry[v])) << v;
            if (Work::InOrder::in_place(p))
                rest.all = __syncthreads_or(rest.again != 0 || rest.owed_summary) != 0;
            else if (Work::InOrder::sums_in_warps(p))
                rest.all = __any_sync(0xffffffffU, rest.again != 0) != 0;
            if (rest.all) {
                rest.any = true;
                return rest;
            }
            rest.any = __any_sync(0xffffffffU, rest.again != 0 || rest.owed || rest.owed_summary) != 0;
        }
        work.walk(carry);
        if constexpr (has_again)
            if (work.write_sums(chunk, warps(), rest.again != 0)) {
                rest.all = rest.any = true;
                return rest;
            }
        const bool ends = work.is_left() && holds_step<Shape>(at, p.time - 1);
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (ends && v < at.rows) work.leave(v, carry[v]);
            rest.carries.of[v] = carry[v];
        }
        return rest;
    }
    // Does the deferred work.
    __device__ __forceinline__ void finish(Rest rest) const {
        using InOrder = typename Work::InOrder;
        __syncwarp();  // other lanes may have stored the lane's results
        Carries into{};
        if (at.rows > 0 && (rest.all || rest.again != 0)) into = carries_into_chunk();
        if (rest.all) {
#pragma unroll
            for (int v = 0; v < V; ++v) rest.carries.of[v] = InOrder::carry(p, at, v, warp_time, into.of[v]);
            if (InOrder::in_place(p)) __syncthreads();
            InOrder::walk(p, at, chunk, warps(), rest.carries.of);
        } else {
#pragma unroll
            for (int v = 0; v < V; ++v)
                if ((rest.again >> v & 1) != 0)
                    rest.carries.of[v] = InOrder::again(p, at, v, warp_time, into.of[v], rest.carries.of[v]);
        }
        if (rest.owed) publish_value(p.carries, place_of_carries(next()), rest.carries);
        if constexpr (has_groups) {
            if (!rest.owed_summary) return;
            Records mine;
#pragma unroll
            for (int v = 0; v < V; ++v) mine.of[v] = Monoid::to_record(Monoid::cut_to(rest.carries.of[v]));
            publish_value(p.records, place_of_carries(chunk), mine);
        }
    }
    // The carries into the chunk, when it does not matter how long it takes to find them.
    __device__ __forceinline__ Carries carries_into_chunk() const {
        Carries into;
        if (chunk == 0) {
#pragma unroll
            for (int v = 0; v < V; ++v) into.of[v] = totals.carry[warp_row][v][at.lane];
            return into;
        }
        const uint32_t group = chunk / column_chunk_group;
        into = await_value<Carries>(p.carries, place_of_carries(grouped() ? group : chunk));
        if constexpr (has_groups)
#pragma unroll 1
            for (uint32_t of = group * column_chunk_group; grouped() && of < chunk; ++of) {
                const Records earlier = await_value<Records>(p.records, place_of_carries(of));
#pragma unroll
                for (int v = 0; v < V; ++v) into.of[v] = Monoid::apply(Monoid::to_map(earlier.of[v]), into.of[v]);
            }
        return into;
    }
    __device__ __forceinline__ WarpsInTime warps() const {
        return {warp_row, 1 << p.log2_warp_rows, warp_time, warps_in_time};
    }

    __device__ __forceinline__ void compose_earlier_warps(Map (&before)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) before[v] = Monoid::identity();
#pragma unroll 1  // unrolled, the loads would need more registers than there are
        for (int w = 0; w < warp_time; ++w)
#pragma unroll
            for (int v = 0; v < V; ++v) before[v] = Monoid::compose(before[v], Monoid::to_map(total(w, v)));
    }

    // The chunk, or group of chunks, after this one.
    __device__ __forceinline__ uint32_t next() const { return (grouped() ? chunk / column_chunk_group : chunk) + 1; }
    // Publishes the carries into a chunk or group, or defers that if one is not finite; returns whether they are owed.
    __device__ __forceinline__ bool publish_or_owe(uint32_t into, const Carries& carries) const {
        if constexpr (has_again) {
            bool finite = true;
#pragma unroll
            for (int v = 0; v < V; ++v) finite = finite && is_finite(carries.of[v]);
            publish_if(finite, p.carries, place_of_carries(into), carries);
            return !finite;
        } else {
            publish_value(p.carries, place_of_carries(into), carries);
            return false;
        }
    }
    // Finds the carries into the lane's steps; in a strip's first chunk `carry` already holds what the rows start from.
    // The lanes of a strip's last warp publish the carries into the next chunk: a lane whose rows are all cut within
    // the chunk does so before it waits for its own carries, the others do right after. Returns whether the lane owes
    // them.
    __device__ __forceinline__ bool find_carry(const Map (&before)[V], const Map (&through)[V],
                                               const Words<Carries>& known, Wide (&carry)[V]) const {
        const bool hands = chunk + 1 < p.chunks && is_last() && at.rows > 0;
        Carries next;
        bool cut = true, owed = false;
        if (hands) {
            if (chunk == 0) ptx::wait_for_launch_before();
#pragma unroll
            for (int v = 0; v < V; ++v) {
                const Map whole = Monoid::compose(before[v], through[v]);
                next.of[v] = Monoid::apply(whole, Monoid::start());
                cut = cut && Monoid::is_cut(whole);
            }
            if (cut) owed = publish_or_owe(chunk + 1, next);
        }
        if (chunk > 0 && at.rows > 0) {
            const Carries in = await_value<Carries>(p.carries, place_of_carries(chunk), known);
#pragma unroll
            for (int v = 0; v < V; ++v) carry[v] = in.of[v];
        }
        __syncwarp();  // lanes leave the wait at different times and would otherwise stay diverged
#pragma unroll
        for (int v = 0; v < V; ++v) {
            carry[v] = Monoid::apply(before[v], carry[v]);
            next.of[v] = Monoid::apply(through[v], carry[v]);
        }
        if (hands && !cut) owed = publish_or_owe(chunk + 1, next);
        return owed;
    }

    // The same where chunks are gathered in groups.
    __device__ __forceinline__ void find_carry_in_group(const Map (&before)[V], const Map (&through)[V],
                                                        const Words<Carries>& known, Wide (&carry)[V],
                                                        Rest& rest) const {
        if constexpr (has_groups) {
            if (is_last()) {
                if (at.rows > 0) rest.owed = meet_group(before, through, known, carry, rest.owed_summary);
#pragma unroll
                for (int v = 0; v < V; ++v) totals.carry[warp_row][v][at.lane] = carry[v];
            }
            __syncthreads();
#pragma unroll
            for (int v = 0; v < V; ++v) carry[v] = Monoid::apply(before[v], totals.carry[warp_row][v][at.lane]);
        }
    }

    // For the lanes of a strip's last warp: publishes the chunk's summaries for its group, finds the carries into the
    // chunk, and publishes those into the next group if the chunk ends one. Returns whether the lane owes the latter;
    // `owed_summary` becomes whether it owes the summaries.
    __device__ __forceinline__ bool meet_group(const Map (&before)[V], const Map (&through)[V],
                                               const Words<Carries>& known, Wide (&carry)[V],
                                               bool& owed_summary) const {
        const uint32_t group = chunk / column_chunk_group, earlier = chunk % column_chunk_group;
        const bool hands = chunk + 1 < p.chunks, ends_group = earlier == column_chunk_group - 1;
        Map whole[V];
        Records mine;
        bool finite = true;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            whole[v] = Monoid::compose(before[v], through[v]);
            mine.of[v] = Monoid::to_record(whole[v]);
            if constexpr (has_again) finite = finite && (v >= at.rows || Monoid::is_finite(whole[v]));
        }
        owed_summary = hands && !ends_group && !finite;
        Carries in;
        if (chunk == 0) {
            ptx::wait_for_launch_before();
#pragma unroll
            for (int v = 0; v < V; ++v) in.of[v] = carry[v];
            if (hands) publish_value(p.carries, place_of_carries(0), in);
        }
        if (hands && !ends_group && finite) publish_value(p.records, place_of_carries(chunk), mine);
        if (chunk == 0) return false;
        // All that are missing are loaded at once: one after another, each would take a round trip to memory.
        Words<Records> seen[column_chunk_group - 1];
#pragma unroll
        for (int i = 0; i < column_chunk_group - 1; ++i)
            if (i < earlier) ask_for_value(p.records, place_of_carries(chunk - earlier + i), seen[i]);
        in = await_value<Carries>(p.carries, place_of_carries(group), known);
#pragma unroll
        for (int v = 0; v < V; ++v) carry[v] = in.of[v];
#pragma unroll
        for (int i = 0; i < column_chunk_group - 1; ++i) {
            if (i >= earlier) break;
            const Records of = await_value<Records>(p.records, place_of_carries(chunk - earlier + i), seen[i]);
#pragma unroll
            for (int v = 0; v < V; ++v) carry[v] = Monoid::apply(Monoid::to_map(of.of[v]), carry[v]);
        }
        if (!hands || !ends_group) return false;
#pragma unroll
        for (int v = 0; v < V; ++v) in.of[v] = Monoid::apply(whole[v], carry[v]);
        return publish_or_owe(group + 1, in);
    }
};

}  // namespace flashscan::cuda
