// SPDX-License-Identifier: Apache-2.0
// Linear recurrence with consecutive steps in the lanes of a vector: computes the steps of one channel, a block of
// 2 * width numbers at a time, which are in two vectors: those at even and those at odd places. With real data a lane
// of both is a pair of steps, f before s, which compose to one:
//
//     p = a_s a_f,  l = a_s x_f + x_s           (backward: l = a_s (a_f x_f + x_s), whose scan is the carry c)
//
// With complex data the vectors are the real and the imaginary parts. A scan over the lanes follows, in log2(W) rounds,
// k = 1, 2, 4 ..
//
//     l += p shift(l, k),  p *= shift(p, k)        then  l + p carry        (backward: g = x + shift(c, 1))
//
// Only the last multiply-add waits for the block before. Products of gates may overflow, meet an infinity or fall below
// the normal numbers where the recurrence does not. So the scanned states and products are tested; the other step of
// each pair follows from them by the recurrence. A block whose result is not finite, whose products lost bits that
// count, or that has a reset, is computed again step by step. Pointers are to the lowest time; Mirror walks from the
// highest.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cpu/kernels/linear_block.h"
#include "cpu/kernels/linear_tile.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The steps of one channel. X is the form (convert.h) of x, y and previous in memory, and A that of the gate and its
// gradient.
template <typename T, bool ComplexData, typename X, typename A>
struct RowTile {
    using Element = std::conditional_t<ComplexData, Complex<T>, T>;
    int64_t steps;
    const typename X::Type* x;
    const typename A::Type* gate;
    const T* slope;                    // derivative of the gate by GATE; null: it is 1
    typename X::Type* y;               // null where only the carry is wanted
    const typename X::Type* previous;  // h before each step; null where no gate gradient is wanted
    typename A::Type* grad;
    const uint8_t* reset;
    bool stream;  // y and grad are written with non-temporal stores
    bool
        // Complex data have a real gate: its imaginary parts are 0, and single steps do not multiply by them.
        real_gate;
    bool has_first;  // before the last step walked the state is `first` and not that in previous
    Element first, carry, product;
    T power;  // the power of the product (linear_product.h)
    bool any_reset;
    bool far;  // whether products of gates left the middle of the range in the last block
};

template <typename T>
FLASHSCAN_INLINE Two<T> splat_two(T x) {
    return {splat<T>(x), splat<T>(0)};
}
template <typename T>
FLASHSCAN_INLINE Two<T> splat_two(Complex<T> x) {
    return {splat<T>(x.re), splat<T>(x.im)};
}
template <typename T>
FLASHSCAN_INLINE void take_first(Two<T> v, T& x) {
    x = v.even[0];
}
template <typename T>
FLASHSCAN_INLINE void take_first(Two<T> v, Complex<T>& x) {
    x = {v.even[0], v.odd[0]};
}

template <int K, bool Mirror, bool Far, typename T>
FLASHSCAN_INLINE void scan_level(Vec<T>& l, Vec<T>& p) {
    l = fused(p, shift<K, Mirror, T>(l, Vec<T>{}), l);
    p = product_of_gates<Far, T>(p, shift<K, Mirror, T>(p, splat<T>(1)));
}
template <int K, bool Mirror, bool, typename T>
FLASHSCAN_INLINE void scan_level(Two<T>& l, Two<T>& p) {
    const Vec<T> zero = {};
    l = multiply_add<T>(p, {shift<K, Mirror, T>(l.even, zero), shift<K, Mirror, T>(l.odd, zero)}, l);
    p = multiply<T>(p, {shift<K, Mirror, T>(p.even, splat<T>(1)), shift<K, Mirror, T>(p.odd, zero)});
}
template <typename T, bool Mirror, bool Far = false, typename V>
FLASHSCAN_INLINE void scan(V& l, V& p) {
    constexpr int width = Simd<T>::width;
    scan_level<1, Mirror, Far, T>(l, p);
    if constexpr (width > 2) scan_level<2, Mirror, Far, T>(l, p);
    if constexpr (width > 4) scan_level<4, Mirror, Far, T>(l, p);
    if constexpr (width > 8) scan_level<8, Mirror, Far, T>(l, p);
}

// The arithmetic of one block of 2 * width numbers. `carry` is the same in every lane; forward and backward replace it
// by the one after the block, and return plain_states(). With Far products of gates that would be subnormal are 0.
template <typename T, bool ComplexData, bool Mirror>
struct RowBlock;

template <typename T, bool Mirror>
struct RowBlock<T, false, Mirror> {
    static constexpr int steps = 2 * Simd<T>::width, last = Mirror ? 0 : Simd<T>::width - 1;
    // Turns even and odd places into the earlier and the later step of each pair, and back.
    static FLASHSCAN_INLINE Two<T> ordered(Two<T> v) { return Mirror ? Two<T>{v.odd, v.even} : v; }

    template <bool Far>
    static FLASHSCAN_INLINE bool forward(Two<T> x, Two<T> a, Two<T>& carry, Two<T>& h) {
        x = ordered(x), a = ordered(a);
        Vec<T> l = fused(a.odd, x.even, x.odd), p = product_of_gates<Far, T>(a.odd, a.even);
        scan<T, Mirror, Far>(l, p);
        const Vec<T> later = fused(p, carry.even, l);
        const Vec<T> earlier = fused(a.even, shift<1, Mirror, T>(later, carry.even), x.even);
        h = ordered({earlier, later});
        const bool good = plain_states<T>(later, p);
        carry.even = pick<last, T>(later);
        return good;
    }
    template <bool Far>
    static FLASHSCAN_INLINE bool backward(Two<T> x, Two<T> a, Two<T>& carry, Two<T>& g) {
        x = ordered(x), a = ordered(a);
        Vec<T> l = a.odd * fused(a.even, x.even, x.odd), p = product_of_gates<Far, T>(a.odd, a.even);
        scan<T, Mirror, Far>(l, p);
        const Vec<T> c = fused(p, carry.even, l);
        const Vec<T> earlier = x.even + shift<1, Mirror, T>(c, carry.even);
        const Vec<T> later = fused(a.even, earlier, x.odd);
        g = ordered({earlier, later});
        const bool good = plain_states<T>(c, p);
        carry.even = pick<last, T>(c);
        return good;
    }
    static FLASHSCAN_INLINE void multiply_all(Two<T> a, Two<T>& product, T* power) {
        const Vec<T> pair = a.even * a.odd, next = product.even * pair;
        if ((outside_middle<T>(pair) | outside_middle<T>(next)) != 0) [[unlikely]] {
            multiply_product<false, false, T>(a.even, product.even, power, 0);
            multiply_product<false, false, T>(a.odd, product.even, power, 0);
        } else {
            product.even = next;
        }
    }
    static FLASHSCAN_INLINE T product_in(Two<T> product, int lane) { return product.even[lane]; }
    static FLASHSCAN_INLINE Two<T> gate_gradient(Two<T> g, Two<T> h) { return {g.even * h.even, g.odd * h.odd}; }
    static FLASHSCAN_INLINE Two<T> times_slope(Two<T> h, Two<T> slope, bool) {
        return {h.even * slope.even, h.odd * slope.odd};
    }
    // `h` has the states before those steps that are walked one step earlier. Returns the states before the steps of
    // the block; before the last one walked it is `first`.
    static FLASHSCAN_INLINE Two<T> move_on(Two<T> h, T first) {
        h = ordered(h);
        return ordered({h.odd, shift<1, !Mirror, T>(h.even, splat<T>(first))});
    }
};

template <typename T, bool Mirror>
struct RowBlock<T, true, Mirror> {
    static constexpr int steps = Simd<T>::width, last = Mirror ? 0 : Simd<T>::width - 1;

    template <bool>
    static FLASHSCAN_INLINE bool forward(Two<T> x, Two<T> a, Two<T>& carry, Two<T>& h) {
        scan<T, Mirror>(x, a);
        h = multiply_add(a, carry, x);
        const bool good = plain_states<T>(h, a);
        carry = {pick<last, T>(h.even), pick<last, T>(h.odd)};
        return good;
    }
    template <bool>
    static FLASHSCAN_INLINE bool backward(Two<T> x, Two<T> a, Two<T>& carry, Two<T>& g) {
        Two<T> p = conj(a), c = multiply(p, x);
        scan<T, Mirror>(c, p);
        c = multiply_add(p, carry, c);
        g = {x.even + shift<1, Mirror, T>(c.even, carry.even), x.odd + shift<1, Mirror, T>(c.odd, carry.odd)};
        const bool good = plain_states<T>(c, p);
        carry = {pick<last, T>(c.even), pick<last, T>(c.odd)};
        return good;
    }
    static FLASHSCAN_INLINE void multiply_all(Two<T> a, Two<T>& product, T* power) {
        const Two<T> next = multiply(product, a);
        const unsigned outside = outside_middle<T>(size_of(next));
        if (outside != 0) [[unlikely]] {
            const Two<T> gate = a, far = next;
            Two<T> p = product;
            far_lanes<T>(gate, p, far, power, outside);
            product = p;
        } else {
            product = next;
        }
    }
    static FLASHSCAN_INLINE Complex<T> product_in(Two<T> product, int lane) {
        return {product.even[lane], product.odd[lane]};
    }
    static FLASHSCAN_INLINE Two<T> gate_gradient(Two<T> g, Two<T> h) { return multiply(conj(h), g); }
    static FLASHSCAN_INLINE Two<T> times_slope(Two<T> h, Two<T> slope, bool real) {
        return real ? Two<T>{h.even * slope.even, h.odd * slope.even} : multiply(slope, h);
    }
    static FLASHSCAN_INLINE Two<T> move_on(Two<T> h, Complex<T> first) {
        return {shift<1, !Mirror, T>(h.even, splat<T>(first.re)), shift<1, !Mirror, T>(h.odd, splat<T>(first.im))};
    }
};

// The arithmetic of one step. A real gate of complex data scales both parts. Rounding is that of linear_column_steps.h,
// so that a sequence of one step, which may go to either engine, gives the same bits.
template <typename T>
FLASHSCAN_INLINE T times(T a, T b, bool) {
    return a * b;
}
template <typename T>
FLASHSCAN_INLINE Complex<T> times(Complex<T> a, Complex<T> b, bool real) {
    return real ? a.re * b : product_of(a, b);
}
template <typename T>
FLASHSCAN_INLINE T next_state(T a, T h, T x, bool) {
    return fused(a, h, x);
}
template <typename T>
FLASHSCAN_INLINE Complex<T> next_state(Complex<T> a, Complex<T> h, Complex<T> x, bool real) {
    if (real) return {fused(a.re, h.re, x.re), fused(a.re, h.im, x.im)};
    return {fused(a.re, h.re, fused(-a.im, h.im, x.re)), fused(a.re, h.im, fused(a.im, h.re, x.im))};
}
template <typename T>
FLASHSCAN_INLINE T gate_gradient(T h, T g, bool) {
    return h * g;
}
template <typename T>
FLASHSCAN_INLINE Complex<T> gate_gradient(Complex<T> h, Complex<T> g, bool real) {
    if (real) return {h.re * g.re + h.im * g.im, 0};
    return product_of(conj(h), g);
}
template <typename Form, typename Element>
FLASHSCAN_INLINE void get_element(const typename Form::Type* p, int64_t j, Element& x) {
    if constexpr (std::is_floating_point_v<Element>)
        x = Form::get(p[j]);
    else
        x = {Form::get(p[2 * j]), Form::get(p[2 * j + 1])};
}
template <typename Form, typename Element>
FLASHSCAN_INLINE void put_element(typename Form::Type* p, int64_t j, Element x) {
    if constexpr (std::is_floating_point_v<Element>)
        p[j] = Form::put(x);
    else
        p[2 * j] = Form::put(x.re), p[2 * j + 1] = Form::put(x.im);
}

// Computes steps [from, to) in walking order one by one.
template <bool Mirror, bool Backward, typename T, bool ComplexData, typename X, typename A>
void rows_steps(RowTile<T, ComplexData, X, A>& t, int64_t from, int64_t to) {
    using Element = typename RowTile<T, ComplexData, X, A>::Element;
    using Own = std::conditional_t<sizeof(T) == 8, AsF64, AsF32>;
    for (int64_t i = from; i < to; ++i) {
        const int64_t j = Mirror ? t.steps - 1 - i : i;
        const bool reset = t.reset != nullptr && t.reset[j] != 0;
        Element x, a;
        get_element<X>(t.x, j, x);
        get_element<A>(t.gate, j, a);
        t.any_reset = t.any_reset || reset;
        if constexpr (!Backward) {
            t.carry = reset ? x : next_state(a, t.carry, x, t.real_gate);
            if (t.y != nullptr) put_element<X>(t.y, j, t.carry);
            continue;
        }
        const Element g = x + t.carry;
        t.carry = reset ? Element{} : times(conj(a), g, t.real_gate);
        if (t.y != nullptr) put_element<X>(t.y, j, g);
        if (t.previous == nullptr) continue;
        Element h = t.first, slope;
        if (!t.has_first || i != t.steps - 1) get_element<X>(t.previous, j, h);
        if (t.slope != nullptr) {
            get_element<Own>(t.slope, j, slope);
            h = times(slope, h, t.real_gate);
        }
        put_element<A>(t.grad, j, reset ? Element{} : gate_gradient(h, g, t.real_gate));
    }
}

// Prefetches what lies 2 KB further on in walking order: beside this much arithmetic the hardware prefetches too
// little.
template <bool Mirror, typename T, typename M>
FLASHSCAN_INLINE void look_ahead(const M* p) {
    constexpr int line = 64, bytes = int(sizeof(M)) * 2 * Simd<T>::width;
    const char* next = reinterpret_cast<const char*>(p) + (Mirror ? -2048 : 2048);
    prefetch(next);
    if constexpr (bytes > line) prefetch(next + line);
}

template <int Steps>
FLASHSCAN_INLINE bool resets_within(const uint8_t* reset) {
    constexpr int bytes = std::min(Steps, 8);
    uint64_t any = 0;
    for (int k = 0; k < Steps; k += bytes) {
        uint64_t word = 0;
        __builtin_memcpy(&word, reset + k, bytes);
        any |= word;
    }
    return any != 0;
}

template <bool Backward, typename Block, typename T>
__attribute__((noinline)) bool walk_far_block(const Two<T>& x, const Two<T>& a, Two<T>& carry, Two<T>& out) {
    return Backward ? Block::template backward<true>(x, a, carry, out)
                    : Block::template forward<true>(x, a, carry, out);
}
// Computes a block, replaces the carry, and returns plain_states(). Where that is false, products of gates that would
// be subnormal were 0 if numbers are real; this is tried first where it was so in the block before.
template <bool Backward, typename Block, typename T, bool ComplexData, typename X, typename A>
FLASHSCAN_INLINE bool walk_block(RowTile<T, ComplexData, X, A>& t, Two<T> x, Two<T> a, Two<T>& carry, Two<T>& out) {
    const Two<T> from = carry;
    const auto walk_far = [&]() __attribute__((always_inline)) {
        // The call takes copies, so that the variables of the caller's loop have no address and stay in registers.
        const Two<T> source = x, gate = a;
        Two<T> next = from, result;
        t.far = !walk_far_block<Backward, Block, T>(source, gate, next, result);
        carry = next, out = result;
        return t.far;
    };
    if (!ComplexData && t.far) [[unlikely]] {
        if (walk_far()) return false;
        carry = from;
    }
    const bool plain =
        Backward ? Block::template backward<false>(x, a, carry, out) : Block::template forward<false>(x, a, carry, out);
    if (!ComplexData && !plain) [[unlikely]] {
        walk_far();
        t.far = true;
    }
    return plain;
}

// Ends the block of `Steps` steps from walking step i on. Returns true where the vectors' results `out` and `next` can
// be used; otherwise computes and writes the block step by step, and returns false.
template <bool Mirror, bool Backward, int Steps, typename T, bool ComplexData, typename X, typename A>
FLASHSCAN_INLINE bool end_block(RowTile<T, ComplexData, X, A>& t, int64_t i, bool good, Two<T> out, Two<T> next,
                                Two<T>& carry) {
    const int64_t j = Mirror ? t.steps - Steps - i : i;
    if (!good) [[unlikely]] {
        const Two<T> gate = widen_two(t.gate + j * (ComplexData ? 2 : 1)), to = out, from = carry;
        good = stands<ComplexData, Mirror, Backward, T>(gate, to, from);
    }
    if (!good || (t.reset != nullptr && resets_within<Steps>(t.reset + j))) [[unlikely]] {
        take_first(carry, t.carry);
        rows_steps<Mirror, Backward>(t, i, i + Steps);
        carry = splat_two(t.carry);
        return false;
    }
    carry = next;
    return true;
}

template <bool Mirror, typename T, bool ComplexData, typename X, typename A>
void rows_forward(RowTile<T, ComplexData, X, A>& t) {
    using Block = RowBlock<T, ComplexData, Mirror>;
    constexpr int64_t parts = ComplexData ? 2 : 1;
    int64_t i = 0;
    Two<T> carry = splat_two(t.carry);
    for (; i + Block::steps <= t.steps; i += Block::steps) {
        const int64_t at = (Mirror ? t.steps - Block::steps - i : i) * parts;
        look_ahead<Mirror, T>(t.x + at);
        look_ahead<Mirror, T>(t.gate + at);
        Two<T> h, next = carry;
        const bool good = walk_block<false, Block>(t, widen_two(t.x + at), widen_two(t.gate + at), next, h);
        if (!end_block<Mirror, false, Block::steps>(t, i, good, h, next, carry)) continue;
        if (t.y != nullptr) narrow_two(t.stream, t.y + at, h);
    }
    take_first(carry, t.carry);
    rows_steps<Mirror, false>(t, i, t.steps);
}

template <bool Mirror, typename T, bool ComplexData, typename X, typename A>
void rows_backward(RowTile<T, ComplexData, X, A>& t) {
    using Block = RowBlock<T, ComplexData, Mirror>;
    constexpr int64_t parts = ComplexData ? 2 : 1;
    int64_t i = 0;
    Two<T> carry = splat_two(t.carry);
    for (; i + Block::steps <= t.steps; i += Block::steps) {
        const int64_t at = (Mirror ? t.steps - Block::steps - i : i) * parts;
        look_ahead<Mirror, T>(t.x + at);
        look_ahead<Mirror, T>(t.gate + at);
        if (t.previous != nullptr) look_ahead<Mirror, T>(t.previous + at);
        Two<T> g, next = carry;
        const bool good = walk_block<true, Block>(t, widen_two(t.x + at), widen_two(t.gate + at), next, g);
        if (!end_block<Mirror, true, Block::steps>(t, i, good, g, next, carry)) continue;
        if (t.previous != nullptr) {
            Two<T> h;
            if (t.has_first && i + Block::steps == t.steps)
                h = Block::move_on(widen_two(t.previous + at + (Mirror ? parts : -parts)), t.first);
            else
                h = widen_two(t.previous + at);
            if (t.slope != nullptr) h = Block::times_slope(h, widen_two(t.slope + at), t.real_gate);
            narrow_two(t.stream, t.grad + at, Block::gate_gradient(g, h));
        }
        if (t.y != nullptr) narrow_two(t.stream, t.y + at, g);
    }
    take_first(carry, t.carry);
    rows_steps<Mirror, true>(t, i, t.steps);
}

// Computes only the carry after the steps and the product of the gates, and writes no output.
template <bool Mirror, bool Backward, typename T, bool ComplexData, typename X, typename A>
void rows_summarise(RowTile<T, ComplexData, X, A>& t) {
    using Tile = RowTile<T, ComplexData, X, A>;
    using Element = typename Tile::Element;
    using Block = RowBlock<T, ComplexData, Mirror>;
    constexpr int64_t parts = ComplexData ? 2 : 1;
    int64_t i = 0;
    Two<T> carry = splat_two(t.carry), product = {splat<T>(1), splat<T>(0)};
    T power[Simd<T>::width] = {};
    for (; i + Block::steps <= t.steps; i += Block::steps) {
        const int64_t at = (Mirror ? t.steps - Block::steps - i : i) * parts;
        look_ahead<Mirror, T>(t.x + at);
        look_ahead<Mirror, T>(t.gate + at);
        const Two<T> x = widen_two(t.x + at), a = widen_two(t.gate + at);
        Two<T> out, next = carry;
        const bool good = walk_block<Backward, Block>(t, x, a, next, out);
        Block::multiply_all(a, product, power);
        if (!end_block<Mirror, Backward, Block::steps>(t, i, good, out, next, carry)) continue;
    }
    take_first(carry, t.carry);
    for (int k = 0; k < Simd<T>::width; ++k) {
        const Element one = Block::product_in(product, k);
        multiply_far(Backward ? conj(one) : one, t.product, t.power);
        t.power += power[k];
    }
    for (int64_t k = i; k < t.steps; ++k) {
        Element a;
        get_element<A>(t.gate, Mirror ? t.steps - 1 - k : k, a);
        multiply_far(Backward ? conj(a) : a, t.product, t.power);
    }
    rows_steps<Mirror, Backward>(t, i, t.steps);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
