// SPDX-License-Identifier: Apache-2.0
// How the chunks of linear_chunked find their carries; its opening comment says why.
#pragma once

#include "cuda/kernels/linear_params.h"
#include "cuda/kernels/types.cuh"
#include "cuda/ptx/flags.cuh"

namespace flashscan::cuda {

// A published summary. A reset inside it is told by a NaN that arithmetic does not make.
template <typename Ty>
struct alignas(sizeof(typename Ty::GateWide) + sizeof(typename Ty::Wide) > 8 ? 16 : 8) Record {
    typename Ty::GateWide a;
    typename Ty::Wide x;
};
template <typename Ty>
struct Summary {
    using Map = typename Ty::Map;
    static __device__ __forceinline__ float mark(float) { return __int_as_float(0x7fc0f1a5); }
    static __device__ __forceinline__ double mark(double) { return __longlong_as_double(0x7ff8f1a5f1a50000LL); }
    template <typename T>
    static __device__ __forceinline__ Complex<T> mark(Complex<T>) {
        return {mark(T{}), T(0)};
    }
    static __device__ __forceinline__ bool marked(float a) { return __float_as_int(a) == 0x7fc0f1a5; }
    static __device__ __forceinline__ bool marked(double a) { return __double_as_longlong(a) == 0x7ff8f1a5f1a50000LL; }
    template <typename T>
    static __device__ __forceinline__ bool marked(Complex<T> a) {
        return marked(a.re);
    }
    static __device__ __forceinline__ void store(void* records, int64_t index, const Map& m) {
        static_cast<Record<Ty>*>(records)[index] = {m.cut ? mark(m.a) : m.a, m.x};
    }
    // Past the first-level cache, which is not coherent between multiprocessors.
    static __device__ __forceinline__ Map load(const void* records, int64_t index) {
        using Word = std::conditional_t<alignof(Record<Ty>) == 16, uint4, uint2>;
        constexpr int words = static_cast<int>(sizeof(Record<Ty>) / sizeof(Word));
        union {
            Word words[words];
            Record<Ty> record;
        } u;
        const auto* from = reinterpret_cast<const Word*>(static_cast<const Record<Ty>*>(records) + index);
#pragma unroll
        for (int i = 0; i < words; ++i) u.words[i] = __ldcg(from + i);
        return {u.record.a, u.record.x, marked(u.record.a)};
    }
};

// A block's place in the chain, and the shared memory of its part of it.
template <typename Ty, int Warps, int MaxRows>
struct LookBack {
    using Map = typename Ty::Map;
    using Wide = typename Ty::Wide;
    struct Shared {
        Map totals[Warps][MaxRows];  // of each warp, in the order of the walk
        Map folds[Warps][MaxRows];
        Wide carry[MaxRows];
    };

    const LinearParams& p;
    Shared& shared;
    int64_t chunk, row_group, row_groups;  // row_groups: of all batches
    int rows;                              // of a group, a power of two

    __device__ __forceinline__ int64_t tile(int64_t k) const { return k * row_groups + row_group; }
    __device__ __forceinline__ uint32_t* chunk_flag(int64_t k) const { return p.flags + tile(k); }
    __device__ __forceinline__ uint32_t* group_flag(int64_t g) const { return p.flags + tile(p.chunks + g); }

    __device__ __forceinline__ Map block_total(int row) const {
        Map total = shared.totals[0][row];
        for (int w = 1; w < Warps; ++w) total = Ty::compose(total, shared.totals[w][row]);
        return total;
    }

    // After shared.totals is complete: makes the block's summary known to later chunks.
    __device__ __forceinline__ void publish() const {
        const int thread = static_cast<int>(threadIdx.x);
        if (thread < rows) Summary<Ty>::store(p.records, tile(chunk) * rows + thread, block_total(thread));
        __syncthreads();
        if (thread == 0) ptx::store_release(chunk_flag(chunk), 1);
    }

    // Fills shared.carry with the carries into this chunk; `initial(row)` is that of the first chunk.
    template <typename Initial>
    __device__ __forceinline__ void find_carries(Initial&& initial) const {
        const int thread = static_cast<int>(threadIdx.x);
        const int place = static_cast<int>(chunk % p.group_chunks);
        const int64_t group = chunk / p.group_chunks, start = chunk - place;
        for (int i = thread; i < place; i += 32 * Warps) wait_for(chunk_flag(start + i));
        if (group > 0 && thread == 32 * Warps - 1) wait_for(group_flag(group - 1));
        __syncthreads();
        fold(start, place);
        __syncthreads();
        if (thread < rows) {
            Wide carry = group > 0 ? __ldcg_wide(p.carries, tile(group - 1) * rows + thread) : initial(thread);
            const int folds = rows <= 32 ? Warps : 32 * Warps / rows;
            for (int f = 0; f < folds; ++f) carry = Ty::apply(shared.folds[f][thread], carry);
            shared.carry[thread] = carry;
            if (place == p.group_chunks - 1 && chunk + 1 < p.chunks)
                static_cast<Wide*>(p.carries)[tile(group) * rows + thread] = Ty::apply(block_total(thread), carry);
        }
        __syncthreads();
        if (place == p.group_chunks - 1 && chunk + 1 < p.chunks && thread == 0)
            ptx::store_release(group_flag(group), 1);
    }

  private:
    static __device__ __forceinline__ void wait_for(const uint32_t* flag) {
        while (ptx::load_acquire(flag) == 0) __nanosleep(20);
    }

    static __device__ __forceinline__ Wide __ldcg_wide(const void* carries, int64_t index) {
        using Word = std::conditional_t<sizeof(Wide) == 4, uint32_t, uint2>;
        constexpr int words = static_cast<int>(sizeof(Wide) / sizeof(Word));
        union {
            Word words[words];
            Wide value;
        } u;
#pragma unroll
        for (int i = 0; i < words; ++i)
            u.words[i] = __ldcg(reinterpret_cast<const Word*>(static_cast<const Wide*>(carries) + index) + i);
        return u.value;
    }

    // Composes the summaries of `count` chunks from `start`: every row by 32 Warps / rows threads, each a run of
    // neighbouring chunks, then across the lanes of a warp.
    __device__ __forceinline__ void fold(int64_t start, int count) const {
        const int thread = static_cast<int>(threadIdx.x), lane = thread & 31, parts = 32 * Warps / rows;
        const int row = thread & (rows - 1), part = thread / rows;
        const int first = count * part / parts, last = count * (part + 1) / parts;
        Map m = Ty::identity();
#pragma unroll 4
        for (int i = first; i < last; ++i)
            m = Ty::compose(m, Summary<Ty>::load(p.records, tile(start + i) * rows + row));
        for (int distance = rows; distance < 32; distance *= 2) {
            const Map later = Ty::shuffle_map(m, (lane + distance) & 31);
            if ((lane / rows & (2 * distance / rows - 1)) == 0) m = Ty::compose(m, later);
        }
        if (rows > 32)
            shared.folds[part][row] = m;
        else if (lane < rows)
            shared.folds[thread / 32][row] = m;
    }
};

}  // namespace flashscan::cuda
