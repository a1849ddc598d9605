// SPDX-License-Identifier: Apache-2.0
// The kernel matrix_walk_general, which walks chains of matrices of any dtype: r[s] = r[s-1] M[s] + u[s]. params.h says
// how products of matrices and affine maps, forward and backward, become this one recurrence.
//
// Time is cut into chunks. A launch summarises them: a chunk maps r to r P + U, where P is computed like r, from M[0]
// on with all of its d rows, and U like r with zeros before. The summaries form a chain of the same kind with one step
// for each chunk; the r of this chain are the r[-1] of the chunks, from which another launch walks, and the r after the
// last step. This is a reduce-then-scan: n steps cost 2n products, in any number of chunks side by side, and a
// reduction costs n. Nothing depends on timing.
//
// Ownership  A block owns a chunk of a chain's time and Tile::rows of its rows, which stay in shared memory from the
//            first step to the last. M is loaded in k-tiles of some of its rows, through a ring buffer of
//            Tile::stages, by cp.async. How threads divide a product is up to the Tile: product_simt.cuh,
//            product_tensor.cuh or product_warpgroup.cuh.
// Bytes      M is read once for every Tile::rows rows of r in every launch; u is read and r written once.
// Bound      The products of a chunk follow each other: few blocks wait for the latency of a step, on an H200 1.3 us
//            for 16 rows of 64 numbers and 10 us of 256, and many for the multiply-adds or the tensor cores.
// Sync       __syncthreads once for each k-tile, once for each step, and once more where r is emitted. Launches for
//            summaries and for walks follow each other on the stream.
// Limits     Tile::rows rows of d numbers and the k-tiles must fit the shared memory of a block.
#pragma once

#include "cuda/device/ptx/async_copy.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/ptx/wgmma.cuh"
#include "cuda/matrix/chunk.cuh"
#include "cuda/matrix/numbers.cuh"

namespace flashscan::cuda {

template <typename Tile>
inline constexpr int matrix_shared_bytes = static_cast<int>(sizeof(typename Tile::Number)) *
                                           (Tile::row_numbers + Tile::stages * Tile::k_tile * Tile::k_tile_stride);

// Plain is for f32 matrices that are neither transposed nor conjugated, without u and with everything aligned to 16
// bytes. It has a third of the code, the fetching of which takes a noticeable part of small problems.
template <typename Tile, bool Plain>
class MatrixBlock {
    using Number = typename Tile::Number;
    using Real = RealOf<Number>;
    using Word = MatrixWord<Number>;
    static constexpr int width = Word::width, row_words = Tile::dim / width;

  public:
    __device__ __forceinline__ MatrixBlock(const MatrixWalk& walk, Number* shared)
        : w_(walk),
          at_(walk, Tile::rows, !Plain && walk.addend != nullptr),
          row_(shared),
          k_tiles_(shared + Tile::row_numbers),
          d_(walk.dim) {
        copies_ = is_transposed()                               ? Copies::numbers
                  : in_words(w_.matrix, w_.matrix_dtype)        ? Copies::words
                  : sizeof(Number) == 4 && in_octets(w_.matrix) ? Copies::octets
                                                                : Copies::numbers;
        depth_ = (d_ + Tile::depth_unit - 1) / Tile::depth_unit * Tile::depth_unit;
        k_tiles_of_step_ = (d_ + Tile::k_tile - 1) / Tile::k_tile;
    }

    __device__ __forceinline__ void run() {
        // Places outside of the matrix are read too and must be zeros.
        for (int i = threadIdx.x; i < matrix_shared_bytes<Tile> / 16; i += Tile::threads)
            reinterpret_cast<Word*>(row_)[i] = Word{};
        ptx::let_next_launch_begin();
        ptx::wait_for_launch_before();
        clear_counters(w_);
        __syncthreads();
        walk(begin());
        __syncthreads();
        finish();
    }

  private:
    __device__ __forceinline__ bool is_transposed() const { return !Plain && w_.transposed != 0; }
    __device__ __forceinline__ bool is_conjugate() const { return !Plain && w_.conjugate != 0; }

    __device__ __forceinline__ bool in_words(const void* data, Dtype dtype) const {
        return Plain || (dtype == dtype_of<Number> && d_ % width == 0 && reinterpret_cast<uintptr_t>(data) % 16 == 0);
    }
    __device__ __forceinline__ bool in_octets(const void* data) const {
        return (w_.matrix_dtype == Dtype::bf16 || w_.matrix_dtype == Dtype::f16) && d_ % 8 == 0 &&
               reinterpret_cast<uintptr_t>(data) % 16 == 0;
    }
    __device__ __forceinline__ int rows_here() const { return min(Tile::rows, at_.rows - at_.first_row); }

    // Calls body(row, column) for the 16-byte words of the block's rows; some may reach beyond the last column.
    template <typename Body>
    __device__ __forceinline__ void for_words(Body&& body) const {
        const int count = rows_here() * row_words;
#pragma unroll 2
        for (int i = threadIdx.x; i < count; i += Tile::threads)
            if (i % row_words * width < d_) body(i / row_words, i % row_words * width);
    }
    // Loads the numbers of `data` from `at` on, up to the end of the row.
    __device__ __forceinline__ Word load_word(const void* data, Dtype dtype, int64_t at, int column, bool whole) const {
        Word x{};
        if (whole) return *reinterpret_cast<const Word*>(static_cast<const Number*>(data) + at);
#pragma unroll
        for (int n = 0; n < width; ++n)
            if (column + n < d_) x.n[n] = load_number<Number>(data, dtype, at + n);
        return x;
    }
    __device__ __forceinline__ void store_word(void* data, Dtype dtype, int64_t at, int column, bool whole,
                                               const Word& x) const {
        if (whole) {
            *reinterpret_cast<Word*>(static_cast<Number*>(data) + at) = x;
            return;
        }
#pragma unroll
        for (int n = 0; n < width; ++n)
            if (column + n < d_) store_number(data, dtype, at + n, x.n[n]);
    }

    // Fills the block's rows with those of an element of an array.
    __device__ __forceinline__ void load_rows(const void* data, Dtype dtype, int64_t element) const {
        const bool whole = in_words(data, dtype);
        const int64_t from = at_.rows_at(element, d_);
        for_words([&](int row, int column) {
            Tile::write(row_, row, column,
                        load_word(data, dtype, from + static_cast<int64_t>(row) * d_ + column, column, whole));
        });
    }
    // Fills the block's rows with those of M[0].
    __device__ __forceinline__ void load_matrix_rows() const {
        if (!is_transposed() && !is_conjugate()) {
            load_rows(w_.matrix, w_.matrix_dtype, at_.place(0));
            return;
        }
        const int64_t from = at_.place(0) * d_ * d_;
        for_words([&](int row, int column) {
            for (int n = 0; n < width && column + n < d_; ++n) {
                const int own = at_.first_row + row, i = is_transposed() ? column + n : own,
                          j = is_transposed() ? own : column + n;
                const Number x =
                    load_number<Number>(w_.matrix, w_.matrix_dtype, from + static_cast<int64_t>(i) * d_ + j);
                Tile::put(row_, row, column + n, is_conjugate() ? conj(x) : x);
            }
        });
    }
    __device__ __forceinline__ void load_unit_rows() const {
        for (int row = threadIdx.x; row < rows_here(); row += Tile::threads)
            Tile::put(row_, row, at_.first_row + row, one(Number{}));
    }

    // Loads r[-1] of the chunk; where there is none, the rows stay zeros or become those of the unit matrix.
    __device__ __forceinline__ void load_start(MatrixStart kind) const {
        if (kind == MatrixStart::nothing && !at_.adds) load_unit_rows();
        if (kind != MatrixStart::carried) return;
        constexpr Dtype own = dtype_of<Number>;
        if (at_.chunk > 0) {
            load_rows(w_.carries, own, at_.own(w_));
            return;
        }
        if (w_.started != nullptr) load_rows(w_.started, own, at_.chain);
        if (Plain || w_.added_start == nullptr) return;
        __syncthreads();
        pass_on(w_.added_start, w_.added_start_dtype, at_.chain, -1);
    }

    // Puts r of the first steps into shared memory; returns the step to go on with.
    __device__ __forceinline__ int64_t begin() {
        const MatrixStart kind = at_.start(w_);
        const bool skips = kind == MatrixStart::nothing && at_.count > 0;
        if (!skips || (at_.emits && w_.emits_before != 0)) {
            load_start(kind);
            __syncthreads();
            settle(-1);
        }
        if (!skips) return 0;
        __syncthreads();
        if (!at_.adds) load_matrix_rows();
        __syncthreads();
        settle(0);
        return 1;
    }

    // Completes a step: adds u to r[s-1] M[s], which is in the rows, and emits the result. s = -1 is before the first
    // step.
    __device__ __forceinline__ void settle(int64_t s) const {
        const int64_t adds = w_.adds_before != 0 ? s + 1 : s, emits = w_.emits_before != 0 ? s + 1 : s;
        const bool add = at_.adds && adds >= 0 && adds < at_.all, emit = at_.emits && emits >= 0 && emits < at_.places;
        if (add || emit) pass_on(add ? w_.addend : nullptr, w_.addend_dtype, at_.place(adds), emit ? emits : -1);
    }
    // Adds the rows of `element` of an array, if there is one, and emits the rows as r of step `emits` unless negative.
    __device__ __forceinline__ void pass_on(const void* addend, Dtype addend_dtype, int64_t element,
                                            int64_t emits) const {
        const bool add = addend != nullptr, whole_in = in_words(addend, addend_dtype);
        const bool whole_out = in_words(w_.emitted, w_.emitted_dtype);
        const int64_t from = at_.rows_at(element, d_), to = at_.rows_at(at_.place(emits), d_);
        for_words([&](int row, int column) {
            const int64_t at = static_cast<int64_t>(row) * d_ + column;
            Word x = Tile::read(row_, row, column);
            if (add) {
                const Word u = load_word(addend, addend_dtype, from + at, column, whole_in);
#pragma unroll
                for (int n = 0; n < width; ++n) x.n[n] = x.n[n] + u.n[n];
                Tile::write(row_, row, column, x);
            }
            if (emits >= 0) store_word(w_.emitted, w_.emitted_dtype, to + at, column, whole_out, x);
        });
    }

    // The loop over steps and k-tiles: it fetches k-tiles Tile::stages - 1 ahead of the one that it multiplies.
    __device__ __forceinline__ void walk(int64_t first) {
        Tile tile;
        tile.clear();
        Tile::publish();
        int64_t s = first, fetch_step = first;
        int k_tile = 0, stage = 0, fetch_k_tile = 0, fetch_stage = 0, ahead = Tile::stages - 1;
        while (s < at_.count) {
            if (ahead == 0) {
                ptx::wait_for_copy_groups<Tile::stages - 2>();
                __syncthreads();
            }
            if (fetch_step < at_.count) fetch(fetch_step, fetch_k_tile, fetch_stage);
            ptx::end_copy_group();
            if (++fetch_stage == Tile::stages) fetch_stage = 0;
            if (++fetch_k_tile == k_tiles_of_step_) fetch_k_tile = 0, ++fetch_step;
            if (ahead > 0) {
                --ahead;
                continue;
            }
            const int k = k_tile * Tile::k_tile;
            tile.multiply(row_, k, k_tiles_ + stage * Tile::k_tile * Tile::k_tile_stride, min(Tile::k_tile, depth_ - k),
                          d_, !Plain && w_.matrix_dtype != dtype_of<Number>, !Plain && w_.rounded_factors != 0,
                          is_conjugate());
            if (++stage == Tile::stages) stage = 0;
            if (++k_tile < k_tiles_of_step_) continue;
            __syncthreads();
            tile.store(row_, d_);
            tile.clear();
            if (at_.adds || at_.emits) {
                __syncthreads();
                settle(s);
            }
            Tile::publish();
            k_tile = 0;
            ++s;
        }
    }

    // Starts the copy of rows k_tile * Tile::k_tile and on of M[s] into a stage.
    __device__ __forceinline__ void fetch(int64_t s, int k_tile, int stage) const {
        Number* const to = k_tiles_ + stage * Tile::k_tile * Tile::k_tile_stride;
        const int first = k_tile * Tile::k_tile, there = min(Tile::k_tile, d_ - first);
        const int64_t element = at_.place(s) * d_ * d_, from = element + static_cast<int64_t>(first) * d_;
        if (Plain || copies_ == Copies::words)
            fetch_words(to, static_cast<const Number*>(w_.matrix) + from, there);
        else if (copies_ == Copies::octets)
            fetch_octets(to, from, there);
        else
            fetch_numbers(to, element, first, there);
        if (first + there == depth_ || there == Tile::k_tile) return;
        // Rows are filled up with zeros to a multiple of the depth of a product.
        for (int i = threadIdx.x; i < (min(Tile::k_tile, depth_ - first) - there) * Tile::dim; i += Tile::threads)
            to[(there + i / Tile::dim) * Tile::k_tile_stride + i % Tile::dim] = Number{};
    }
    __device__ __forceinline__ void fetch_words(Number* to, const Number* from, int there) const {
#pragma unroll 2
        for (int i = threadIdx.x; i < there * row_words; i += Tile::threads) {
            const int k = i / row_words, n = i % row_words * width;
            if (n < d_) ptx::copy_async<16>(to + k * Tile::k_tile_stride + n, from + k * d_ + n);
        }
    }
    // Copies eight 16-bit numbers at a time, converted to f32.
    __device__ __forceinline__ void fetch_octets(Number* to, int64_t from, int there) const {
        if constexpr (std::is_same_v<Number, float>) {
            constexpr int in_row = Tile::dim / 8;
#pragma unroll 2
            for (int i = threadIdx.x; i < there * in_row; i += Tile::threads) {
                const int k = i / in_row, n = i % in_row * 8;
                if (n >= d_) continue;
                const uint4 words = *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(w_.matrix) + from +
                                                                    static_cast<int64_t>(k) * d_ + n);
                float4 x[2];
                widen(words.x, x[0].x, x[0].y), widen(words.y, x[0].z, x[0].w);
                widen(words.z, x[1].x, x[1].y), widen(words.w, x[1].z, x[1].w);
                *reinterpret_cast<float4*>(to + k * Tile::k_tile_stride + n) = x[0];
                *reinterpret_cast<float4*>(to + k * Tile::k_tile_stride + n + 4) = x[1];
            }
        }
    }
    __device__ __forceinline__ void widen(uint32_t word, float& low, float& high) const {
        if (w_.matrix_dtype == Dtype::bf16)
            low = Element<__nv_bfloat16>::widen_half(word, 0), high = Element<__nv_bfloat16>::widen_half(word, 1);
        else
            low = Element<__half>::widen_half(word, 0), high = Element<__half>::widen_half(word, 1);
    }
    __device__ __forceinline__ void fetch_numbers(Number* to, int64_t element, int first, int there) const {
        const bool across = is_transposed();
        const int fast = across ? Tile::k_tile : Tile::dim;
        for (int i = threadIdx.x; i < Tile::k_tile * Tile::dim; i += Tile::threads) {
            const int k = across ? i % fast : i / fast, n = across ? i / fast : i % fast;
            if (k >= there || n >= d_) continue;
            const int64_t from = element + (across ? static_cast<int64_t>(n) * d_ + first + k
                                                   : static_cast<int64_t>(first + k) * d_ + n);
            Number* const number = to + k * Tile::k_tile_stride + n;
            if (w_.matrix_dtype != dtype_of<Number>) {
                *number = load_number<Number>(w_.matrix, w_.matrix_dtype, from);
                continue;
            }
            const auto* parts = reinterpret_cast<const Real*>(static_cast<const Number*>(w_.matrix) + from);
#pragma unroll
            for (size_t part = 0; part < sizeof(Number) / sizeof(Real); ++part)
                ptx::copy_async<sizeof(Real)>(reinterpret_cast<Real*>(number) + part, parts + part);
        }
    }

    // Stores r after the last step, or the summary of the chunk.
    __device__ __forceinline__ void finish() const {
        constexpr Dtype own = dtype_of<Number>;
        if (w_.work == MatrixWork::summaries) {
            store_rows(at_.product ? w_.products : w_.sums, own, at_.own(w_));
            return;
        }
        if (!at_.is_last(w_)) return;
        if (w_.finished != nullptr) store_rows(w_.finished, own, at_.chain);
        if (w_.reduced != nullptr) store_rows(w_.reduced, w_.reduced_dtype, at_.chain);
        if (w_.last != nullptr) store_rows(w_.last, w_.last_dtype, at_.last_place(w_));
    }
    __device__ __forceinline__ void store_rows(void* data, Dtype dtype, int64_t element) const {
        const bool whole = in_words(data, dtype);
        const int64_t to = at_.rows_at(element, d_);
        for_words([&](int row, int column) {
            store_word(data, dtype, to + static_cast<int64_t>(row) * d_ + column, column, whole,
                       Tile::read(row_, row, column));
        });
    }

    // How k-tiles are copied: what a thread copies at a time.
    enum class Copies {
        words,   // 16 bytes
        octets,  // eight 16-bit numbers
        numbers  // a number
    };

    const MatrixWalk& w_;
    const MatrixChunk at_;
    Number* const row_;
    Number* const k_tiles_;
    const int d_;
    int depth_, k_tiles_of_step_;
    Copies copies_;
};

template <typename Tile, bool Plain>
__global__ __launch_bounds__(Tile::threads) void matrix_walk_general(const __grid_constant__ MatrixWalk walk) {
#ifndef FLASHSCAN_HAS_WGMMA
    if constexpr (Tile::by_warpgroups) return;
#endif
    extern __shared__ __align__(1024) unsigned char shared[];
    MatrixBlock<Tile, Plain>(walk, reinterpret_cast<typename Tile::Number*>(shared)).run();
}

}  // namespace flashscan::cuda
