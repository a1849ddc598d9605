// SPDX-License-Identifier: Apache-2.0
// Numbers of matrices: loads and stores of dtypes that are known at run time, converted to the type that is computed
// with (f32 for 16-bit data), and the split of f32 numbers for tensor cores.
#pragma once

#include "cuda/device/math/split_tf32.cuh"
#include "cuda/launch/by_dtype.cuh"

namespace flashscan::cuda {

template <typename Number>
__device__ __forceinline__ Number load_number(const void* from, Dtype dtype, int64_t i) {
    if constexpr (std::is_same_v<Number, float>) {
        if (dtype == Dtype::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(from)[i]);
        if (dtype == Dtype::f16) return __half2float(static_cast<const __half*>(from)[i]);
    }
    return static_cast<const Number*>(from)[i];
}

template <typename Number>
__device__ __forceinline__ void store_number(void* to, Dtype dtype, int64_t i, Number x) {
    if constexpr (std::is_same_v<Number, float>) {
        if (dtype == Dtype::bf16) {
            static_cast<__nv_bfloat16*>(to)[i] = __float2bfloat16_rn(x);
            return;
        }
        if (dtype == Dtype::f16) {
            static_cast<__half*>(to)[i] = __float2half_rn(x);
            return;
        }
    }
    static_cast<Number*>(to)[i] = x;
}

// Numbers that are loaded and stored together.
template <typename Number>
struct alignas(16) MatrixWord {
    static constexpr int width = 16 / sizeof(Number);
    Number n[width];
};

// The layout of a tile's rows in shared memory, one after the other.
template <typename Number, int Rows, int Stride>
struct MatrixRows {
    using Word = MatrixWord<Number>;
    static constexpr int row_stride = Stride, row_numbers = Rows * Stride;

    static __device__ __forceinline__ Word read(const Number* rows, int row, int column) {
        return *reinterpret_cast<const Word*>(rows + row * Stride + column);
    }
    static __device__ __forceinline__ void write(Number* rows, int row, int column, const Word& x) {
        *reinterpret_cast<Word*>(rows + row * Stride + column) = x;
    }
    static __device__ __forceinline__ void put(Number* rows, int row, int column, Number x) {
        rows[row * Stride + column] = x;
    }
    static __device__ __forceinline__ void publish() {}
};

// Correction factors for the sums of 8 Eights products that tensor cores compute. Rounding towards zero makes such
// a sum smaller by 0.36 (Eights + 1) 2^-24 on average. To compensate for that, as many sums as necessary are multiplied
// by 1 + 2^-23.
template <int Eights>
class MakeUp {
  public:
    __device__ __forceinline__ float next() {
        const float factor = enlarged_ & 1U ? 1.0F + 0x1p-23F : 1.0F;
        enlarged_ = __funnelshift_r(enlarged_, enlarged_, 1);
        return factor;
    }

  private:
    static_assert(Eights == 1 || Eights == 2 || Eights == 4);
    uint32_t enlarged_ = Eights == 1 ? 0x49494949U : Eights == 2 ? 0x55555555U : 0xfefefefeU;
};

}  // namespace flashscan::cuda
