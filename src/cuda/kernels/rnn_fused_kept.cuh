// SPDX-License-Identifier: Apache-2.0
// What RESERVE of the fused kernels holds of an element's step, in words: the numbers that a cell keeps, in no more than
// its gates and states take in the data's type.
//
// With 16-bit data gates are fixed-point numbers of 16 bits, at most 2^-17 off ([-1, 1]: 2^-16), and states f32. Fixed
// point because many steps multiply by gates that are nearly 1: the gradients of long memories are then off by a
// twentieth of what the products' rounding to bf16 makes, where gates in bf16 themselves would make it several times as
// much. 0 and 1 are exact.
#pragma once

#include "cuda/kernels/rnn_team_number.cuh"
#include "math/rnn.h"

namespace flashscan::cuda {

// The sum of 2^23 and a whole number below it has that number in its last bits.
constexpr float rnn_whole = 8388608.0F;

__device__ __forceinline__ uint32_t fixed_of(Quick x) { return __float_as_uint(fmaf(x.value, 65535.0F, rnn_whole)); }
__device__ __forceinline__ uint32_t signed_fixed_of(Quick x) {
    return __float_as_uint(fmaf(x.value, 32767.0F, rnn_whole + 32768.0F));
}
__device__ __forceinline__ uint32_t low_halves(uint32_t low, uint32_t high) { return __byte_perm(low, high, 0x5410); }
__device__ __forceinline__ float whole_half(uint32_t word, int half) {
    return __uint_as_float(__byte_perm(word, 0x4b000000U, half == 0 ? 0x7610 : 0x7632)) - rnn_whole;
}
__device__ __forceinline__ Quick from_fixed(uint32_t word, int half) {
    return whole_half(word, half) * (1.0F / 65535.0F);
}
__device__ __forceinline__ Quick from_signed_fixed(uint32_t word, int half) {
    return (whole_half(word, half) - 32768.0F) * (1.0F / 32767.0F);
}

// As they are. takes_h: the last of them is h, which is taken from OUTPUT.
template <typename X, typename Cell>
struct RnnKept {
    static constexpr bool takes_h = Cell::keeps_h && Cell::kept > Cell::gates + Cell::states;
    static constexpr int words = takes_h ? Cell::kept - 1 : Cell::kept;
    using Real = typename TeamNumber<X>::Real;

    static __device__ __forceinline__ void pack(const Real (&keep)[Cell::kept], uint32_t (&word)[words]) {
#pragma unroll
        for (int k = 0; k < words; ++k) word[k] = __float_as_uint(value_of(keep[k]));
    }
    static __device__ __forceinline__ void unpack(const uint32_t (&word)[words], Real (&keep)[Cell::kept]) {
#pragma unroll
        for (int k = 0; k < Cell::kept; ++k) keep[k] = k < words ? __uint_as_float(word[k < words ? k : 0]) : 0.0F;
    }
};

template <typename X>
requires(sizeof(X) == 2) struct RnnKept<X, LstmCell> {
    static constexpr bool takes_h = false;
    static constexpr int words = 3;

    static __device__ __forceinline__ void pack(const Quick (&keep)[5], uint32_t (&word)[words]) {
        word[0] = low_halves(fixed_of(keep[0]), fixed_of(keep[1]));
        word[1] = low_halves(signed_fixed_of(keep[2]), fixed_of(keep[3]));
        word[2] = __float_as_uint(keep[4].value);
    }
    static __device__ __forceinline__ void unpack(const uint32_t (&word)[words], Quick (&keep)[5]) {
        keep[0] = from_fixed(word[0], 0), keep[1] = from_fixed(word[0], 1);
        keep[2] = from_signed_fixed(word[1], 0), keep[3] = from_fixed(word[1], 1);
        keep[4] = __uint_as_float(word[2]);
    }
};

// R_n h in the data's type, as what is multiplied by it is a gradient.
template <typename X>
requires(sizeof(X) == 2) struct RnnKept<X, GruCell> {
    static constexpr bool takes_h = true;
    static constexpr int words = 2;

    static __device__ __forceinline__ void pack(const Quick (&keep)[5], uint32_t (&word)[words]) {
        word[0] = low_halves(fixed_of(keep[0]), fixed_of(keep[1]));
        word[1] = low_halves(signed_fixed_of(keep[2]), TeamHalves<X>(keep[3].value).bits[0]);
    }
    static __device__ __forceinline__ void unpack(const uint32_t (&word)[words], Quick (&keep)[5]) {
        keep[0] = from_fixed(word[0], 0), keep[1] = from_fixed(word[0], 1);
        keep[2] = from_signed_fixed(word[1], 0), keep[3] = Element<X>::widen_half(word[1], 1);
        keep[4] = 0.0F;
    }
};

// c / n, which is in [-1, 1], in place of c.
template <typename X>
requires(sizeof(X) == 2) struct RnnKept<X, SlstmCell> {
    static constexpr bool takes_h = false;
    static constexpr int words = 4;

    static __device__ __forceinline__ void pack(const Quick (&keep)[7], uint32_t (&word)[words]) {
        word[0] = low_halves(fixed_of(keep[0]), fixed_of(keep[1]));
        word[1] = low_halves(fixed_of(keep[2]), signed_fixed_of(keep[3]));
        word[2] = low_halves(fixed_of(keep[4]), signed_fixed_of(keep[5] / keep[6]));
        word[3] = __float_as_uint(keep[6].value);
    }
    static __device__ __forceinline__ void unpack(const uint32_t (&word)[words], Quick (&keep)[7]) {
        keep[0] = from_fixed(word[0], 0), keep[1] = from_fixed(word[0], 1);
        keep[2] = from_fixed(word[1], 0), keep[3] = from_signed_fixed(word[1], 1);
        keep[4] = from_fixed(word[2], 0), keep[6] = __uint_as_float(word[3]);
        keep[5] = from_signed_fixed(word[2], 1) * keep[6];
    }
};

}  // namespace flashscan::cuda
