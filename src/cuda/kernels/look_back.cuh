// SPDX-License-Identifier: Apache-2.0
// How the chunks of linear_chunked find their carries; its opening comment says why.
//
// Blocks hand each other summaries and carries through memory that the host fills with ones before the launch. They are
// written and read in words of 8 bytes, each a single access, and a word of ones means "not yet": no word that is
// published has that value, so the data are their own flag and nothing orders one word after another.
#pragma once

#include "cuda/kernels/linear_params.h"
#include "cuda/kernels/tile.cuh"
#include "cuda/ptx/shared_words.cuh"

namespace flashscan::cuda {

// A value of type T as words of 8 bytes.
template <typename T>
union Words {
    static constexpr int count = static_cast<int>((sizeof(T) + 7) / 8);
    uint64_t words[count];
    T value;

    __device__ __forceinline__ Words() {
#pragma unroll
        for (int i = 0; i < count; ++i) words[i] = 0;
    }
};

template <typename T>
__device__ __forceinline__ void publish_value(void* memory, int64_t index, const T& value) {
    Words<T> u;
    u.value = value;
    uint64_t* const to = static_cast<uint64_t*>(memory) + index * Words<T>::count;
#pragma unroll
    for (int i = 0; i < Words<T>::count; ++i)
        // Only NaNs of the caller's can look like "not yet"; another NaN says the same.
        ptx::store_word(to + i, u.words[i] == ptx::empty_word ? ptx::empty_word ^ 0x8000000080000000ULL : u.words[i]);
}

template <typename T>
__device__ __forceinline__ T await_value(const void* memory, int64_t index) {
    Words<T> u;
    const uint64_t* const from = static_cast<const uint64_t*>(memory) + index * Words<T>::count;
#pragma unroll
    for (int i = 0; i < Words<T>::count; ++i) u.words[i] = ptx::load_word(from + i);
#pragma unroll
    for (int i = 0; i < Words<T>::count; ++i)
        while (u.words[i] == ptx::empty_word) u.words[i] = ptx::load_word(from + i);
    return u.value;
}

// A summary in memory. A reset inside it is told by a NaN that arithmetic does not make.
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

// A block's place in the chain, and the shared memory of its part of it.
template <typename Ty, int Warps, int MaxRows>
struct LookBack {
    using Map = typename Ty::Map;
    using Wide = typename Ty::Wide;
    static constexpr int threads = 32 * Warps;
    struct Shared {
        Record<Ty> totals[Warps][MaxRows];  // of each warp, in the order of the walk
        Record<Ty> folds[threads];          // [parts left after a warp's tree][rows]
        Wide carry[MaxRows];
    };

    const LinearParams& p;
    Shared& shared;
    uint32_t chunk, row_group, row_groups;  // row_groups: of all batches
    int log2_rows;                          // of a group

    __device__ __forceinline__ int rows() const { return 1 << log2_rows; }
    __device__ __forceinline__ int64_t place(uint32_t k, int row) const {
        return (static_cast<int64_t>(k) * row_groups + row_group << log2_rows) + row;
    }

    __device__ __forceinline__ Map total_of(int warp, int row) const { return to_map<Ty>(shared.totals[warp][row]); }
    __device__ __forceinline__ Map block_total(int row) const {
        Map total = total_of(0, row);
#pragma unroll
        for (int w = 1; w < Warps; ++w) total = Ty::compose(total, total_of(w, row));
        return total;
    }

    // After shared.totals is complete: makes the block's summary known to the later chunks of its group.
    __device__ __forceinline__ void publish() const {
        const int row = static_cast<int>(threadIdx.x);
        const uint32_t group_chunks = static_cast<uint32_t>(p.group_chunks);
        if (row >= rows() || chunk + 1 >= p.chunks || chunk % group_chunks == group_chunks - 1) return;
        publish_value(p.records, place(chunk, row), to_record<Ty>(block_total(row)));
    }

    // Fills shared.carry with the carries into this chunk. Only the first chunk takes `initial(row)` from memory, and
    // the others from it, so that the last chunk may overwrite the memory that it came from.
    template <typename Initial>
    __device__ __forceinline__ void find_carries(Initial&& initial) const {
        const int row = static_cast<int>(threadIdx.x);
        const uint32_t group_chunks = static_cast<uint32_t>(p.group_chunks);
        const uint32_t group = chunk / group_chunks, earlier = chunk - group * group_chunks;
        if (earlier > 0) fold(chunk - earlier, static_cast<int>(earlier));
        __syncthreads();
        if (row < rows()) {
            Wide carry = chunk == 0 ? initial(row) : await_value<Wide>(p.carries, place(group, row));
            if (chunk == 0 && p.chunks > 1) publish_value(p.carries, place(0, row), carry);
            const int folds = earlier == 0 ? 0 : rows() <= 32 ? Warps : threads >> log2_rows;
            for (int f = 0; f < folds; ++f) carry = Ty::apply(to_map<Ty>(shared.folds[(f << log2_rows) + row]), carry);
            shared.carry[row] = carry;
            if (earlier == group_chunks - 1 && chunk + 1 < p.chunks)
                publish_value(p.carries, place(group + 1, row), Ty::apply(block_total(row), carry));
        }
        __syncthreads();
    }

  private:
    // Composes the summaries of `count` chunks from `start`: every row by threads / rows threads, each a run of
    // neighbouring chunks, then across the lanes of a warp.
    __device__ __forceinline__ void fold(uint32_t start, int count) const {
        const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, log2_parts = log2_of<threads> - log2_rows;
        const int row = thread & (rows() - 1), part = thread >> log2_rows;
        const int first = count * part >> log2_parts, last = count * (part + 1) >> log2_parts;
        Map m = Ty::identity();
#pragma unroll 4
        for (int i = first; i < last; ++i)
            m = Ty::compose(
                m, to_map<Ty>(await_value<Record<Ty>>(p.records, place(start + static_cast<uint32_t>(i), row))));
        for (int distance = rows(); distance < 32; distance *= 2) {
            const Map later = Ty::shuffle_map(m, (lane + distance) & 31);
            if ((lane & (2 * distance - 1) & ~(rows() - 1)) == 0) m = Ty::compose(m, later);
        }
        if (rows() >= 32)
            shared.folds[thread] = to_record<Ty>(m);
        else if (lane < rows())
            shared.folds[(thread / 32 << log2_rows) + row] = to_record<Ty>(m);
    }
};

}  // namespace flashscan::cuda
