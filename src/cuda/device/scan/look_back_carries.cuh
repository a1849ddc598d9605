// SPDX-License-Identifier: Apache-2.0
// How the blocks of a chained scan find the carry that enters their chunk where chunks look back (look_back.cuh): the
// summaries are maps of a carry, and published as values that show by themselves whether they have arrived
// (device/exchange/published_values.cuh), so that there are no flags and no fences. Every lane applies the folds to
// the carry into the link, so that no barrier follows the wait for it.
//
// A Monoid has Wide, Map, Record, identity, compose, apply, shuffle_map, to_record and to_map (chained_rows.cuh),
// cut_to(carry), which is the map that gives `carry` whatever enters it, and
//
//     withholds(params, map)   whether a summary or total is published late: once the carry after it is right, as the
//                              map that gives that carry, whatever is before it (linear/in_order.cuh)
//     withholds(carry)         whether a carry is published late, by the caller
//
// Params has log2_group_chunks, log2_link_groups, records, totals and carries, and may have log2_fold_rows.
#pragma once

#include "cuda/device/exchange/published_values.cuh"
#include "cuda/device/scan/look_back.cuh"

namespace flashscan::cuda {

// PublishedMaps tells EarlierChunks how maps are composed and awaited.
template <typename Monoid, typename Params>
struct PublishedMaps {
    using Run = typename Monoid::Map;
    using Stored = typename Monoid::Record;
    static constexpr int unrolled = 4;

    const Params& p;

    static __device__ __forceinline__ Run none() { return Monoid::identity(); }
    static __device__ __forceinline__ void append(Run& left, const Run& right) { left = Monoid::compose(left, right); }
    static __device__ __forceinline__ Run shuffle(const Run& m, int lane) { return Monoid::shuffle_map(m, lane); }
    static __device__ __forceinline__ Stored store(const Run& m) { return Monoid::to_record(m); }
    static __device__ __forceinline__ Run load(const Stored& r) { return Monoid::to_map(r); }
    __device__ __forceinline__ Run await(bool of_chunk, int64_t place) const {
        return load(await_value<Stored>(of_chunk ? p.records : p.totals, place));
    }
};

// A block finds its carry by these functions and publishes what later chunks need. In each warp, `speaks` is true in at
// most one lane of a row: the one that publishes for the row if its warp does.
template <typename Monoid, typename Params, int Warps, int MaxRows>
struct LookBack : LookBackPlace<Params> {
    using Map = typename Monoid::Map;
    using Record = typename Monoid::Record;
    using Wide = typename Monoid::Wide;
    using Maps = PublishedMaps<Monoid, Params>;
    using Place = LookBackPlace<Params>;
    using Place::chunk, Place::chunks, Place::log2_rows, Place::rows, Place::group, Place::link, Place::place;
    using Place::earlier_chunks, Place::earlier_groups, Place::last, Place::last_of_group, Place::last_of_link;
    static constexpr int warps = Warps, threads = 32 * Warps, most_rows = MaxRows;
    struct Shared {
        Record totals[MaxRows * Warps];  // [warps in the order of the walk][rows]
        Record folds[threads];
    };

    const Params& p;
    Shared& shared;
    int warps_in_time;  // the block's warps that follow each other in time

    __device__ __forceinline__ Map total_of(int warp, int row) const {
        return Monoid::to_map(shared.totals[(warp << log2_rows) + row]);
    }
    __device__ __forceinline__ Map block_total(int row) const {
        Map total = total_of(0, row);
        for (int w = 1; w < warps_in_time; ++w) total = Monoid::compose(total, total_of(w, row));
        return total;
    }

    // Publishes the block's summary for the later chunks of its group. shared.totals must be complete. Returns whether
    // the thread owes it instead.
    __device__ __forceinline__ bool publish() const {
        const int row = static_cast<int>(threadIdx.x);
        if (row >= rows() || !Place::publishes_summary()) return false;
        return publish_or_owe(p.records, place(chunk, row), block_total(row));
    }
    // Publishes what a thread owes of a row since publish or fold_earlier. The lane that has the carry after the chunk
    // calls this; it tests the same summary, bit by bit, again.
    __device__ __forceinline__ void publish_owed(int row, Wide carry) const {
        if (last() || last_of_link()) return;
        if (Monoid::withholds(p, last_of_group() ? group_total(row) : block_total(row))) publish_cut(row, carry);
    }
    // Publishes, in the place of the summary or the group's total, the map that gives the carry after the chunk.
    __device__ __forceinline__ void publish_cut(int row, Wide carry) const {
        const bool of_group = last_of_group();
        publish_value(of_group ? p.totals : p.records, place(of_group ? group() : chunk, row),
                      Monoid::to_record(Monoid::cut_to(carry)));
    }
    // Publishes what the chunk has not published, once its carry is known, in place of publish, fold_earlier and
    // advance.
    __device__ __forceinline__ void publish_late(int row, Wide carry) const {
        if (last()) return;
        if (last_of_link())
            publish_next(row, carry);
        else
            publish_cut(row, carry);
    }
    // The carries of a row into this link and this chunk, when it does not matter how long it takes to find them.
    __device__ __forceinline__ Wide carry_into_link(int row) const {
        return await_value<Wide>(p.carries, place(link(), row));
    }
    __device__ __forceinline__ Wide carry_into_chunk(int row) const {
        Wide carry = carry_into_link(row);
        const auto pass = [&](bool of_chunks, uint32_t begin, uint32_t end) {
#pragma unroll 1
            for (uint32_t k = begin; k < end; ++k)
                carry = Monoid::apply(Maps{p}.await(of_chunks, place(k, row)), carry);
        };
        pass(false, group() - static_cast<uint32_t>(earlier_groups()), group());
        pass(true, chunk - static_cast<uint32_t>(earlier_chunks()), chunk);
        return carry;
    }

    // Loads what has been published of the carry of a row into this chunk's link, without waiting; `known` stays empty
    // where `asks` is false.
    __device__ __forceinline__ void ask_for_link(int row, bool asks, Words<Wide>& known) const {
#pragma unroll
        for (int i = 0; i < Words<Wide>::count; ++i) known.words[i] = ptx::empty_word;
        if (asks) ask_for_value(p.carries, place(link(), row), known);
    }
    // Waits for the carry of a row into this chunk's link, of which `known` may hold words already. The first chunk
    // alone uses `initial`, which it read from the edge, and publishes it for the others of the first link: the last
    // chunk may thus overwrite the memory of the edge.
    __device__ __forceinline__ Wide enter_link(int row, bool speaks, const Words<Wide>& known, Wide initial) const {
        if (chunk > 0) return await_value<Wide>(p.carries, place(link(), row), known);
        return leave_edge(row, speaks, initial);
    }
    __device__ __forceinline__ Wide enter_link(int row, bool speaks, Wide initial) const {
        return chunk > 0 ? carry_into_link(row) : leave_edge(row, speaks, initial);
    }

    // Composes what the earlier groups of the link and the earlier chunks of the group have published, and publishes
    // the group's total where this is its last chunk. Returns whether the thread owes that. All threads of the block
    // must call it.
    __device__ __forceinline__ bool fold_earlier() const {
        bool owes = false;
        with_earlier([&](const auto& earlier) {
            earlier.fold([&](int row) { owes = publish_or_owe(p.totals, place(group(), row), group_total(row)); });
        });
        return owes;
    }

    // Returns the carry of a row into a warp of this chunk, given the carry into the link. Where the link ends with
    // this chunk, the elected thread of the last warp (`speaks`) publishes the carry into the next link, or sets
    // `owed`.
    __device__ __forceinline__ Wide advance(int row, int warp_time, bool speaks, Wide carry, bool& owed) const {
        if (chunks > 1)
            with_earlier([&](const auto& earlier) {
                earlier.for_folds(row, [&](const Map& m) { carry = Monoid::apply(m, carry); });
            });
        for (int w = 0; w < warp_time; ++w) carry = Monoid::apply(total_of(w, row), carry);
        if (speaks && warp_time == warps_in_time - 1 && Place::publishes_carry()) {
            const Wide next = Monoid::apply(total_of(warp_time, row), carry);
            owed = Monoid::withholds(next);
            if (!owed) publish_next(row, next);
        }
        return carry;
    }
    __device__ __forceinline__ void publish_next(int row, Wide carry) const {
        publish_value(p.carries, place(link() + 1, row), carry);
    }
    // How many warps there are, in the order of the walk, from the begin of the link to a warp of this chunk.
    __device__ __forceinline__ int64_t warps_of_link(int warp_time) const {
        const uint32_t first_chunk = link() << (p.log2_group_chunks + p.log2_link_groups);
        return int64_t{chunk - first_chunk} * warps_in_time + warp_time;
    }

  private:
    __device__ __forceinline__ Wide leave_edge(int row, bool speaks, Wide initial) const {
        if (speaks) publish_value(p.carries, place(0, row), initial);
        return initial;
    }
    // Under BATCH_INVARIANT log2_fold_rows makes the rows among which threads are shared out equally many for every
    // tile.
    template <typename F>
    __device__ __forceinline__ void with_earlier(F&& f) const {
        const Maps maps{p};
        int log2 = log2_rows;
        if constexpr (requires { p.log2_fold_rows; }) log2 = max(log2, p.log2_fold_rows);
        f(EarlierChunks<Params, Maps, Warps>{*this, maps, shared.folds, log2});
    }
    __device__ __forceinline__ Map group_total(int row) const {
        Map total = block_total(row);
        with_earlier([&](const auto& earlier) {
            earlier.for_folded_chunks_back(row, [&](const Map& m) { total = Monoid::compose(m, total); });
        });
        return total;
    }
    __device__ __forceinline__ bool publish_or_owe(void* memory, int64_t place, const Map& total) const {
        if (Monoid::withholds(p, total)) return true;
        publish_value(memory, place, Monoid::to_record(total));
        return false;
    }
};

}  // namespace flashscan::cuda
