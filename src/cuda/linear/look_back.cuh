// SPDX-License-Identifier: Apache-2.0
// How the blocks of the kernel "chunked" find the carry that enters their chunk: look-back (device/scan/look_back.cuh)
// over the maps of a linear recurrence.
//
// Where results take the place of their source, a summary or total that overflowed waits for the carry after its chunk
// (in_order.cuh). Blocks exchange summaries and carries through published values
// (device/exchange/published_values.cuh): there are no flags and no fences. Every lane applies what is before the
// block's steps to the carry into the link, so that no barrier follows the wait for that carry.
#pragma once

#include "cuda/device/exchange/published_values.cuh"
#include "cuda/device/scan/look_back.cuh"
#include "cuda/linear/record.cuh"

namespace flashscan::cuda {

// What chunked blocks combine of earlier chunks, for EarlierChunks.
template <typename Ty>
struct PublishedMaps {
    using Run = typename Ty::Map;
    using Stored = Record<Ty>;
    static constexpr int unrolled = 4;

    const LinearParams& p;

    static __device__ __forceinline__ Run none() { return Ty::identity(); }
    static __device__ __forceinline__ void append(Run& left, const Run& right) { left = Ty::compose(left, right); }
    static __device__ __forceinline__ Run shuffle(const Run& m, int lane) { return Ty::shuffle_map(m, lane); }
    static __device__ __forceinline__ Stored store(const Run& m) { return to_record<Ty>(m); }
    static __device__ __forceinline__ Run load(const Stored& r) { return to_map<Ty>(r); }
    __device__ __forceinline__ Run await(bool of_chunk, int64_t place) const {
        return load(await_value<Stored>(of_chunk ? p.records : p.totals, place));
    }
};

// What a block does to find its carry. `speaks` is true in the one lane that is elected to publish for a row.
template <typename Ty, int Warps, int MaxRows>
struct LookBack : LookBackPlace<LinearParams> {
    using Map = typename Ty::Map;
    using Wide = typename Ty::Wide;
    using Maps = PublishedMaps<Ty>;
    static constexpr int threads = 32 * Warps;
    struct Shared {
        Record<Ty> totals[MaxRows * Warps];  // [warps in the order of the walk][rows]
        Record<Ty> folds[threads];
    };

    const LinearParams& p;
    Shared& shared;
    int warps_in_time;  // the block's warps that follow each other in time

    __device__ __forceinline__ Map total_of(int warp, int row) const {
        return to_map<Ty>(shared.totals[(warp << log2_rows) + row]);
    }
    __device__ __forceinline__ Map block_total(int row) const {
        Map total = total_of(0, row);
        for (int w = 1; w < warps_in_time; ++w) total = Ty::compose(total, total_of(w, row));
        return total;
    }

    // Publishes the block's summary for the later chunks of its group. shared.totals must be complete. Returns whether
    // the thread owes it instead: it is not finite, and results take the place of their source (in_order.cuh).
    __device__ __forceinline__ bool publish() const {
        const int row = static_cast<int>(threadIdx.x);
        if (row >= rows() || !publishes_summary()) return false;
        return publish_or_owe(p.records, place(chunk, row), block_total(row));
    }
    // Publishes what a thread owes of a row since publish or fold_earlier: the carry after the chunk takes the place of
    // the summary. Called by the lane that has that carry, which tests the same summary, bit by bit, again.
    __device__ __forceinline__ void publish_owed(int row, Wide carry) const {
        if (last() || last_of_link()) return;
        const bool of_group = last_of_group();
        if (is_finite_map<Ty>(of_group ? group_total(row) : block_total(row))) return;
        publish_value(of_group ? p.totals : p.records, place(of_group ? group() : chunk, row),
                      to_record<Ty>(cut_map<Ty>(carry)));
    }
    // The carries of a row into this link and this chunk, when it does not matter how long it takes to find them.
    __device__ __forceinline__ Wide carry_into_link(int row) const {
        return await_value<Wide>(p.carries, place(link(), row));
    }
    __device__ __forceinline__ Wide carry_into_chunk(int row) const {
        Wide carry = carry_into_link(row);
        const auto pass = [&](bool of_chunks, uint32_t begin, uint32_t end) {
#pragma unroll 1
            for (uint32_t k = begin; k < end; ++k) carry = Ty::apply(Maps{p}.await(of_chunks, place(k, row)), carry);
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
        if (speaks) publish_value(p.carries, place(0, row), initial);
        return initial;
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
    // this chunk, the elected thread of the last warp (`speaks`) publishes the carry into the next link. If the carry
    // is not finite, it sets `owed` instead: the publish is deferred until the carry is right (in_order.cuh).
    __device__ __forceinline__ Wide advance(int row, int warp_time, bool speaks, Wide carry, bool& owed) const {
        if (chunks > 1)
            with_earlier([&](const auto& earlier) {
                earlier.for_folds(row, [&](const Map& m) { carry = Ty::apply(m, carry); });
            });
        for (int w = 0; w < warp_time; ++w) carry = Ty::apply(total_of(w, row), carry);
        if (speaks && warp_time == warps_in_time - 1 && publishes_carry()) {
            const Wide next = Ty::apply(total_of(warp_time, row), carry);
            owed = !is_finite(next);
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
    // Under BATCH_INVARIANT threads are shared out among as many rows for every tile (log2_fold_rows).
    template <typename F>
    __device__ __forceinline__ void with_earlier(F&& f) const {
        const Maps maps{p};
        f(EarlierChunks<LinearParams, Maps, Warps>{*this, maps, shared.folds, max(log2_rows, p.log2_fold_rows)});
    }
    __device__ __forceinline__ Map group_total(int row) const {
        Map total = block_total(row);
        with_earlier([&](const auto& earlier) {
            earlier.for_folded_chunks_back(row, [&](const Map& m) { total = Ty::compose(m, total); });
        });
        return total;
    }
    __device__ __forceinline__ bool publish_or_owe(void* memory, int64_t place, const Map& total) const {
        if (p.in_place != 0 && !is_finite_map<Ty>(total)) return true;
        publish_value(memory, place, to_record<Ty>(total));
        return false;
    }
};

}  // namespace flashscan::cuda
