// SPDX-License-Identifier: Apache-2.0
// Look-back: how the blocks of the kernel "chunked" find the carry that enters their chunk. "rows" and "columns" use
// the format of a summary (Record) alone.
//
// Chunks are gathered in groups of 2^log2_group_chunks, groups in links of 2^log2_link_groups. The last chunk of a
// group publishes the group's total without waiting for any carry; where results take the place of their source, a
// total that overflowed waits for one (in_order.cuh). A chunk composes the totals of the earlier groups of its link,
// then the summaries of the earlier chunks of its group, in a tree fixed by its place, and applies them to the carry
// that enters its link, which the last chunk of the link before published. So only the carries of links are known one
// after another. With rows enough a group and a link are one chunk.
//
// The decoupled look-back of single-pass prefix sums combines whatever earlier blocks have published so far. Here the
// place of a chunk fixes what it combines. Blocks exchange summaries and carries through published values
// (device/exchange/published_values.cuh): there are no flags and no fences, and the bits do not depend on which block
// is ready first.
#pragma once

#include "cuda/device/exchange/published_values.cuh"
#include "cuda/device/math/finite.cuh"
#include "cuda/device/ptx/barrier.cuh"
#include "cuda/device/tile/steps.cuh"
#include "cuda/linear/params.h"

namespace flashscan::cuda {

// A summary as it lies in memory. Where a reset or the begin of a sequence cuts it off from the carry, `a` is a NaN of
// particular bits that arithmetic does not produce.
template <typename Ty>
struct Record {
    typename Ty::Wide x;
    typename Ty::GateWide a;
};

__device__ __forceinline__ float cut_mark(float) { return __int_as_float(0x7fc0f1a5); }
__device__ __forceinline__ double cut_mark(double) { return __longlong_as_double(0x7ff8f1a5f1a50000LL); }
template <typename T>
__device__ __forceinline__ Complex<T> cut_mark(Complex<T>) {
    return {cut_mark(T{}), T(0)};
}
__device__ __forceinline__ bool is_cut_mark(float a) { return __float_as_int(a) == 0x7fc0f1a5; }
__device__ __forceinline__ bool is_cut_mark(double a) { return __double_as_longlong(a) == 0x7ff8f1a5f1a50000LL; }
template <typename T>
__device__ __forceinline__ bool is_cut_mark(Complex<T> a) {
    return is_cut_mark(a.re);
}

template <typename Ty>
__device__ __forceinline__ Record<Ty> to_record(const typename Ty::Map& m) {
    return {m.x, m.cut ? cut_mark(m.a) : m.a};
}
template <typename Ty>
__device__ __forceinline__ typename Ty::Map to_map(const Record<Ty>& r) {
    return {r.a, r.x, is_cut_mark(r.a)};
}

template <typename Ty>
__device__ __forceinline__ bool is_finite_map(const typename Ty::Map& m) {
    return is_finite(m.x) && (m.cut || is_finite(m.a));
}
// The map whose carry after it is `carry`, whatever the one before it is.
template <typename Ty>
__device__ __forceinline__ typename Ty::Map cut_map(typename Ty::Wide carry) {
    return {one(typename Ty::GateWide{}), carry, true};
}

// The linear recurrence as a monoid of chained scans (device/scan/chained_rows.cuh).
template <typename Ty>
struct LinearMonoid : Ty {
    using Record = cuda::Record<Ty>;
    using typename Ty::Map, typename Ty::Wide;
    static __device__ __forceinline__ Record to_record(const Map& m) { return cuda::to_record<Ty>(m); }
    static __device__ __forceinline__ Map to_map(const Record& r) { return cuda::to_map<Ty>(r); }
    static __device__ __forceinline__ Wide start() { return {}; }
    static __device__ __forceinline__ bool is_cut(const Map& m) { return m.cut; }
    static __device__ __forceinline__ bool is_finite(const Map& m) { return is_finite_map<Ty>(m); }
    static __device__ __forceinline__ Map cut_to(Wide carry) { return cut_map<Ty>(carry); }
};

// A block's place among the chunks and what it does to find its carry. The second half of the block's threads composes
// ("folds") the summaries of earlier chunks while the first half composes the totals of earlier groups. `speaks` is
// true in the one lane that is elected to publish for a row.
template <typename Ty, int Warps, int MaxRows>
struct LookBack {
    using Map = typename Ty::Map;
    using Wide = typename Ty::Wide;
    static constexpr int threads = 32 * Warps, half = threads / 2;
    struct Shared {
        Record<Ty> totals[MaxRows * Warps];  // [warps in the order of the walk][rows]
        Record<Ty> folds[threads];           // [parts left after a warp's tree][rows]: of totals, then of summaries
    };

    const LinearParams& p;
    Shared& shared;
    uint32_t chunk, chunks;          // this chunk and how many there are, of the row or of a packed sequence
    uint32_t first;                  // the place of chunk 0 among the chunks of the launch
    uint32_t row_group, row_groups;  // row_groups counts the groups of rows of all batch entries
    int log2_rows, warps_in_time;    // rows of a group of rows, and the block's warps that follow in time

    __device__ __forceinline__ int rows() const { return 1 << log2_rows; }
    __device__ __forceinline__ uint32_t group() const { return chunk >> p.log2_group_chunks; }
    __device__ __forceinline__ uint32_t link() const { return group() >> p.log2_link_groups; }
    __device__ __forceinline__ int earlier_chunks() const {
        return static_cast<int>(chunk - (group() << p.log2_group_chunks));
    }
    __device__ __forceinline__ int earlier_groups() const {
        return static_cast<int>(group() - (link() << p.log2_link_groups));
    }
    __device__ __forceinline__ bool last_of_group() const { return earlier_chunks() == (1 << p.log2_group_chunks) - 1; }
    __device__ __forceinline__ bool last_of_link() const {
        return last_of_group() && earlier_groups() == (1 << p.log2_link_groups) - 1;
    }
    __device__ __forceinline__ bool last() const { return chunk + 1 >= chunks; }
    // Returns the place at which chunk, group or link k publishes its value of a row.
    __device__ __forceinline__ int64_t place(uint32_t k, int row) const {
        return (static_cast<int64_t>(first + k) * row_groups + row_group << log2_rows) + row;
    }

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
        if (row >= rows() || last() || last_of_group()) return false;
        return publish_or_owe(p.records, place(chunk, row), block_total(row));
    }
    __device__ __forceinline__ bool publish_or_owe(void* memory, int64_t place, const Map& total) const {
        if (p.in_place != 0 && !is_finite_map<Ty>(total)) return true;
        publish_value(memory, place, to_record<Ty>(total));
        return false;
    }
    // Publishes what a thread owes of a row since publish or fold_earlier: the carry after the chunk takes the place of
    // the summary. Called by the lane that has that carry, which tests the same summary, bit by bit, again.
    __device__ __forceinline__ void publish_owed(int row, Wide carry) const {
        if (last() || last_of_link()) return;
        const bool of_group = last_of_group();
        if (is_finite_map<Ty>(of_group ? group_total(row, earlier_chunks()) : block_total(row))) return;
        publish_value(of_group ? p.totals : p.records, place(of_group ? group() : chunk, row),
                      to_record<Ty>(cut_map<Ty>(carry)));
    }
    // The carries of a row into this link and this chunk, when it does not matter how long it takes to find them.
    __device__ __forceinline__ Wide carry_into_link(int row) const {
        return await_value<Wide>(p.carries, place(link(), row));
    }
    __device__ __forceinline__ Wide carry_into_chunk(int row) const {
        Wide carry = carry_into_link(row);
        const auto pass = [&](const void* memory, uint32_t begin, uint32_t end) {
#pragma unroll 1
            for (uint32_t k = begin; k < end; ++k)
                carry = Ty::apply(to_map<Ty>(await_value<Record<Ty>>(memory, place(k, row))), carry);
        };
        pass(p.totals, group() - static_cast<uint32_t>(earlier_groups()), group());
        pass(p.records, chunk - static_cast<uint32_t>(earlier_chunks()), chunk);
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

    // Composes the totals of the earlier groups of the link and the summaries of the earlier chunks of the group, and
    // publishes the group's total where this is its last chunk. Returns whether the thread owes that. All threads of
    // the block must call it.
    __device__ __forceinline__ bool fold_earlier() const {
        const int thread = static_cast<int>(threadIdx.x);
        const int chunks = earlier_chunks(), groups = earlier_groups();
        if (chunks + groups == 0 && (!last_of_group() || last_of_link())) return false;
        bool owes = false;
        const bool of_chunks = thread >= half;
        const int count = of_chunks ? chunks : groups;
        if (count > 0)
            fold(of_chunks ? p.records : p.totals, (of_chunks ? chunk : group()) - static_cast<uint32_t>(count), count,
                 thread & (half - 1), thread & half);
        if (of_chunks) {
            ptx::named_barrier<1, half>();
            const int row = thread - half;
            if (row < rows() && last_of_group() && !last_of_link() && !last())
                owes = publish_or_owe(p.totals, place(group(), row), group_total(row, chunks));
        } else {
            ptx::named_barrier<2, half>();  // for compute-sanitizer's racecheck, which reports a race without it
        }
        __syncthreads();
        return owes;
    }

    // Returns the carry of a row into a warp of this chunk, given the carry into the link. Where the link ends with
    // this chunk, the elected thread of the last warp (`speaks`) publishes the carry into the next link. If the carry
    // is not finite, it sets `owed` instead: the publish is deferred until the carry is right (in_order.cuh).
    __device__ __forceinline__ Wide advance(int row, int warp_time, bool speaks, Wide carry, bool& owed) const {
        if (chunks > 1) {
            // First the groups, which the first half of the threads has folded, then the chunks. It is a loop so that
            // the code of apply_folds is there once.
#pragma unroll 1
            for (int base = 0; base < threads; base += half) {
                const int count = base == 0 ? earlier_groups() : earlier_chunks();
                if (count > 0) carry = apply_folds(base, row, carry);
            }
        }
        for (int w = 0; w < warp_time; ++w) carry = Ty::apply(total_of(w, row), carry);
        if (speaks && warp_time == warps_in_time - 1 && !last() && last_of_link()) {
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
    // The rows among which `fold` shares out the threads. How many threads a row has decides in which order its
    // summaries are composed, so that under BATCH_INVARIANT the rows are as many for every tile; some may then not
    // exist.
    __device__ __forceinline__ int log2_fold_rows() const { return max(log2_rows, p.log2_fold_rows); }
    __device__ __forceinline__ int fold_rows() const { return 1 << log2_fold_rows(); }
    // How many compositions of a row `fold` leaves in shared memory for each half of the threads.
    __device__ __forceinline__ int folds() const { return fold_rows() <= 32 ? Warps / 2 : half >> log2_fold_rows(); }
    __device__ __forceinline__ Map fold_of(int base, int n, int row) const {
        const int first = fold_rows() <= 32 ? base / 32 << log2_fold_rows() : base;
        return to_map<Ty>(shared.folds[first + (n << log2_fold_rows()) + row]);
    }
    __device__ __forceinline__ Wide apply_folds(int base, int row, Wide carry) const {
        for (int n = 0; n < folds(); ++n) carry = Ty::apply(fold_of(base, n, row), carry);
        return carry;
    }
    __device__ __forceinline__ Map group_total(int row, int chunks) const {
        Map total = block_total(row);
        if (chunks > 0)
            for (int n = folds() - 1; n >= 0; --n) total = Ty::compose(fold_of(half, n, row), total);
        return total;
    }

    // Composes `count` published summaries from `start` on, by half of the block's threads; `thread` counts within the
    // half. half / fold_rows() threads take a row: each composes a run of neighbours, and shuffles compose the runs
    // that lie in one warp.
    __device__ __forceinline__ void fold(const void* records, uint32_t start, int count, int thread, int base) const {
        const int lane = thread & 31, log2_parts = log2_of<half> - log2_fold_rows();
        const int row = thread & (fold_rows() - 1), part = thread >> log2_fold_rows();
        const int first = count * part >> log2_parts;
        const int last = row < rows() ? count * (part + 1) >> log2_parts : first;
        Map m = Ty::identity();
#pragma unroll 4
        for (int i = first; i < last; ++i)
            m = Ty::compose(m,
                            to_map<Ty>(await_value<Record<Ty>>(records, place(start + static_cast<uint32_t>(i), row))));
        __syncwarp();  // the wait leaves lanes diverged, and shuffles of diverged lanes take several times as long
        for (int distance = fold_rows(); distance < 32; distance *= 2) {
            const Map later = Ty::shuffle_map(m, (lane + distance) & 31);
            if ((lane & (2 * distance - 1) & ~(fold_rows() - 1)) == 0) m = Ty::compose(m, later);
        }
        if (fold_rows() >= 32)
            shared.folds[base + thread] = to_record<Ty>(m);
        else if (lane < fold_rows())
            shared.folds[((base + thread) / 32 << log2_fold_rows()) + row] = to_record<Ty>(m);
    }
};

}  // namespace flashscan::cuda
