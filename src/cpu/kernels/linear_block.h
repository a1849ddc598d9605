// SPDX-License-Identifier: Apache-2.0
// Blocks of steps along time (linear_row_steps.h): the checks whether products of gates within a block lost bits that
// its states need. A block that fails them is computed again step by step.
//
// A block composes steps by products over windows of them. Each window's product is a quotient of two of the products
// p[t] from the block's first step on, so where all p[t] are in the middle of the range none left the normal numbers.
// Gates of at most 1 never make up for what fell below: no more is lost than 2^-120 (f64: 2^-1015) of the largest
// state, also where products below 2^-123 (f64: 2^-1019) are taken to be 0.
#pragma once

#include "cpu/kernels/linear_product.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

using flashscan::conj;

template <typename T>
FLASHSCAN_INLINE Two<T> multiply(Two<T> a, Two<T> b) {
    return {fused(-a.odd, b.odd, a.even * b.even), fused(a.odd, b.even, a.even * b.odd)};
}
template <typename T>
FLASHSCAN_INLINE Two<T> multiply_add(Two<T> a, Two<T> b, Two<T> c) {
    return {fused(-a.odd, b.odd, fused(a.even, b.even, c.even)), fused(a.odd, b.even, fused(a.even, b.odd, c.odd))};
}
template <typename T>
FLASHSCAN_INLINE Two<T> conj(Two<T> a) {
    return {a.even, -a.odd};
}

// The product of products of gates. With Far it is 0 where it might be subnormal, which may cost a processor a hundred
// cycles for each operation. The bits of a number grow as its logarithm does, and so do those of two numbers together
// as that of their product.
template <bool Far, typename T>
FLASHSCAN_INLINE Vec<T> product_of_gates(Vec<T> a, Vec<T> b) {
    if constexpr (!Far) {
        return a * b;
    } else {
        using M = Middle<T>;
        using Int = typename Simd<T>::Int;
        const Int bits = reinterpret_cast<Int>(a), other = reinterpret_cast<Int>(b);
        const Int keeps = ((bits & M::magnitude) >> 1) + ((other & M::magnitude) >> 1) >= M::ample;
        return reinterpret_cast<Vec<T>>(bits & keeps) * b;
    }
}

template <typename T>
FLASHSCAN_INLINE bool all_of(typename Simd<T>::Int mask) {
    return signs(reinterpret_cast<Vec<T>>(mask)) == (1U << Simd<T>::width) - 1;
}

// Returns whether the states are so small, or differ so little in size, that what was lost does not count.
template <typename T>
__attribute__((noinline, cold)) bool keeps_uneven_states(const Vec<T>& state, const Vec<T>& carry) {
    using M = Middle<T>;
    T least = state[0], most = carry[0];
    for (int i = 0; i < Simd<T>::width; ++i) {
        least = state[i] < least ? state[i] : least;
        most = state[i] > most ? state[i] : most;
    }
    return most <= M::faint || least >= most * M::ratio;
}

// Returns whether what was lost does not count. Takes the squares of the gates' magnitudes, and the magnitudes of the
// states and of the carry.
template <typename T>
FLASHSCAN_INLINE bool keeps_far_states(Vec<T> gate_square, Vec<T> state, Vec<T> carry) {
    using M = Middle<T>;
    if (!all_of<T>(gate_square <= T(1.01))) return false;
    const Vec<T> most = larger(state, carry);
    if (all_of<T>((state >= M::plain_low) & (most <= M::plain_high))) return true;
    return keeps_uneven_states<T>(state, carry);
}

// Returns whether all states are finite and all products p[t] are in the middle of the range. Complex products are
// judged by the squares of their magnitudes, which leave the middle twice as early. 0 times a state is 0 or NaN, and
// NaN is not in the middle.
template <typename T>
FLASHSCAN_INLINE bool plain_states(Vec<T> state, Vec<T> p) {
    return outside_middle<T>(fused(state, Vec<T>{}, p)) == 0;
}
template <typename T>
FLASHSCAN_INLINE bool plain_states(Two<T> state, Two<T> p) {
    const Vec<T> zero = {}, square = fused(p.even, p.even, p.odd * p.odd);
    return outside_middle<T>(fused(state.even, zero, fused(state.odd, zero, square))) == 0;
}

// Returns whether the result of a block is accurate although plain_states() is false. `out` is h in forward. In
// backward it is g, and the states are conj(a) g.
template <bool ComplexData, bool Mirror, bool Backward, typename T>
__attribute__((noinline, cold)) bool stands(const Two<T>& gate, const Two<T>& out, const Two<T>& carry) {
    if (any_special(out.even, out.odd)) return false;
    if constexpr (ComplexData) {
        const Two<T> state = Backward ? multiply(conj(gate), out) : out;
        if (any_special(state.even, state.odd)) return false;
        return keeps_far_states<T>(gate.even * gate.even + gate.odd * gate.odd, size_of(state), size_of(carry));
    } else {
        const Vec<T> last = Mirror ? out.even : out.odd, a = Mirror ? gate.even : gate.odd;
        const Vec<T> state = Backward ? a * last : last;
        if (any_special(state)) return false;
        return keeps_far_states<T>(larger(gate.even * gate.even, gate.odd * gate.odd), magnitude<T>(state),
                                   magnitude<T>(carry.even));
    }
}

// The same as far_lanes of linear_product.h for complex products whose real and imaginary parts are in two vectors.
template <typename T>
__attribute__((noinline, cold)) void far_lanes(const Two<T>& gate, Two<T>& product, const Two<T>& next, T* power,
                                               unsigned outside) {
    constexpr int width = Simd<T>::width;
    Vec<T> factor;
    if (recentre<T>(size_of(next), outside, factor, power, width)) {
        product = {next.even * factor, next.odd * factor};
        return;
    }
    for (int i = 0; i < width; ++i) {
        Complex<T> p{product.even[i], product.odd[i]};
        multiply_far(Complex<T>{gate.even[i], gate.odd[i]}, p, power[i]);
        product.even[i] = p.re, product.odd[i] = p.im;
    }
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
