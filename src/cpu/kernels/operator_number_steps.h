// SPDX-License-Identifier: Apache-2.0
// Associative operators on numbers: the arithmetic of one tile (operator_numbers.h), in memory or in a panel. A tile is
// one of
//
//     [steps][lanes]   lanes_forward, lanes_backward: the lanes of a vector are lanes of the block
//     one lane         steps_forward, steps_backward: the lanes of a vector are consecutive steps. log2(W) combinations
//                      with shifted vectors, filled with the identity, scan a vector, and then the carry is combined
//                      with it:
//
//                          v = shift(v, k) o v   k = 1, 2, 4 ..        y = carry o v
//
// segments_forward is for operators of many instructions, which take too long to be combined so often. It cuts a lane
// into segments, which are transposed so that they become lanes: the totals of the segments are scanned as above, and
// then each segment is walked from its carry, which makes two combinations a number.
#pragma once

#include "cpu/kernels/lanes.h"
#include "cpu/kernels/linear_rows.h"
#include "math/operators.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
using LanesOf = std::conditional_t<is_integer<T>, Integers<T>, Lanes<T>>;

// The form that numbers of the arithmetic have in panels.
template <typename T>
using OwnForm = std::conditional_t<is_integer<T>, AsInteger<T>, std::conditional_t<sizeof(T) == 8, AsF64, AsF32>>;

// RealPack and ComplexPack say what the walk over lanes computes with at once: a vector of reals, or one complex
// number. `streamed` stores go past the caches.
template <typename T>
struct RealPack {
    using Type = LanesOf<T>;
    static constexpr int64_t numbers = Simd<T>::width;
    template <typename Number>
    static FLASHSCAN_INLINE Type get(const Number* p) {
        return Type(widen(p));
    }
    template <typename Number>
    static FLASHSCAN_INLINE void put(Number* p, Type v, bool streamed = false) {
        streamed ? narrow_streamed(p, v.v) : narrow(p, v.v);
    }
    static FLASHSCAN_INLINE Type of(T x) { return Type(x); }
};
template <typename T>
struct ComplexPack {
    using Type = Complex<T>;
    static constexpr int64_t numbers = 2;
    static FLASHSCAN_INLINE Type get(const T* p) { return {p[0], p[1]}; }
    static FLASHSCAN_INLINE void put(T* p, Type v, bool = false) { p[0] = v.re, p[1] = v.im; }
    static FLASHSCAN_INLINE Type of(T x) { return {x, T(0)}; }
};

// What forward of a tile reads (x) and writes (y), in memory or in a panel: `steps` steps, lowest time first. A step
// has `numbers` adjacent numbers, and begins `pitch` numbers after the step before it. x is prefetched `ahead` numbers
// further on. `start` says that nothing comes before the tile, and `streamed` that y is stored past the caches.
template <typename Form>
struct ForwardTile {
    using Type = typename Form::Type;
    const Type* x;
    Type* y;
    int64_t steps, pitch, numbers, ahead;
    bool start, exclusive, streamed;
};

// A tile of backward in panels of steps x pitch numbers, lowest time first.
template <typename T>
struct BackwardTile {
    T *x, *before, *dy;  // dy is overwritten by dx
    int64_t steps, pitch;
    bool start, exclusive;
};

// Forward of a tile of several lanes. Replaces `carry`, which has a number for each of a step, and with Write writes y.
// Lanes are the inner loop, so that the dependent operations of many chains overlap.
template <typename Op, typename Pack, bool Mirror, bool Write, typename Form, typename T>
void lanes_forward(const ForwardTile<Form>& t, T* carry) {
    int64_t s = 0;
    if (t.start) {
        const int64_t at = Mirror ? (t.steps - 1) * t.pitch : 0;
        for (int64_t v = 0; v < t.numbers; v += Pack::numbers) {
            const auto x = Pack::get(t.x + at + v);
            if constexpr (Write) Pack::put(t.y + at + v, t.exclusive ? Pack::of(Op::template identity<T>()) : x);
            Pack::put(carry + v, x);
        }
        s = 1;
    }
    for (; s < t.steps; ++s) {
        const int64_t at = (Mirror ? t.steps - 1 - s : s) * t.pitch;
        for (int64_t v = 0; v < t.numbers; v += Pack::numbers) {
            prefetch(t.x + at + v + t.ahead);
            const auto before = Pack::get(carry + v), c = Op::combine(before, Pack::get(t.x + at + v));
            if constexpr (Write) Pack::put(t.y + at + v, t.exclusive ? before : c, t.streamed);
            Pack::put(carry + v, c);
        }
    }
}

// Backward of a tile of several lanes. Reads y[t-1] from t.before; dx replaces dy.
template <typename Op, typename Pack, bool Mirror, typename T>
void lanes_backward(const BackwardTile<T>& t, T* gradient, T* product) {
    for (int64_t s = t.steps - 1; s >= 0; --s) {
        const int64_t at = (Mirror ? t.steps - 1 - s : s) * t.pitch;
        const bool alone = s == 0 && t.start;
        for (int64_t v = 0; v < t.pitch; v += Pack::numbers) {
            const auto l = Pack::get(t.before + at + v), x = Pack::get(t.x + at + v), dy = Pack::get(t.dy + at + v);
            auto g = Pack::get(gradient + v);
            if (!t.exclusive) g = g + dy;
            Pack::put(t.dy + at + v, alone ? g : Op::right_slope(l, x) * g);
            const auto slope = Op::left_slope(l, x);
            g = slope * g;
            if (t.exclusive) g = g + dy;
            Pack::put(gradient + v, g);
            Pack::put(product + v, slope * Pack::get(product + v));
        }
    }
}

template <typename Op>
concept IsLong = requires {
    Op::is_long;
};

// The identity as carry: -0 is used for 0, so that adding it keeps the sign of a zero.
template <typename Op, typename T>
FLASHSCAN_INLINE T nothing() {
    constexpr T identity = Op::template identity<T>();
    return identity == 0 ? T(-0.0) : identity;
}

template <typename Op, bool Mirror, typename T>
FLASHSCAN_INLINE LanesOf<T> scan_steps(LanesOf<T> v) {
    constexpr int width = Simd<T>::width;
    const Vec<T> none = splat<T>(nothing<Op, T>());
    using L = LanesOf<T>;
    v = Op::combine(L(shift<1, Mirror, T>(v.v, none)), v);
    if constexpr (width > 2) v = Op::combine(L(shift<2, Mirror, T>(v.v, none)), v);
    if constexpr (width > 4) v = Op::combine(L(shift<4, Mirror, T>(v.v, none)), v);
    if constexpr (width > 8) v = Op::combine(L(shift<8, Mirror, T>(v.v, none)), v);
    if constexpr (width > 16) v = Op::combine(L(shift<16, Mirror, T>(v.v, none)), v);
    if constexpr (width > 32) v = Op::combine(L(shift<32, Mirror, T>(v.v, none)), v);
    return v;
}

// Computes a tile of one lane before which there is nothing: calls walk() with the identity as carry. What depends on
// the first number alone is then right but for the sign of a zero, and is written again where that may differ: in
// exclusive scans, which begin with 0 and not -0, and for operators of many instructions, whose identity does not keep
// -0. Writing it again after a store past the caches would take long.
template <typename Op, bool Mirror, bool Write, typename Form, typename T, typename Walk>
FLASHSCAN_INLINE void from_nothing(const ForwardTile<Form>& t, T* carry, Walk walk) {
    const int64_t first = Mirror ? t.steps - 1 : 0;
    const auto x = t.x[first];
    *carry = nothing<Op, T>();
    walk();
    if (IsLong<Op> && t.steps == 1) *carry = Form::get(x);
    if constexpr (Write) {
        if (t.exclusive || IsLong<Op>) t.y[first] = t.exclusive ? Form::put(Op::template identity<T>()) : x;
        if (t.exclusive && IsLong<Op> && t.steps > 1) t.y[first + (Mirror ? -1 : 1)] = x;
    }
}

// Forward of a tile of one lane from the carry, by vectors of consecutive steps. Replaces the carry.
template <typename Op, bool Mirror, bool Write, typename Form, typename T>
FLASHSCAN_INLINE void steps_forward(const ForwardTile<Form>& t, T* carry_at) {
    using L = LanesOf<T>;
    constexpr int width = Simd<T>::width, last = Mirror ? 0 : width - 1;
    Vec<T> c = splat<T>(*carry_at);
    int64_t i = 0;
    for (; i + width <= t.steps; i += width) {
        const int64_t j = Mirror ? t.steps - width - i : i;
        prefetch(t.x + j + t.ahead);
        const L y = Op::combine(L(c), scan_steps<Op, Mirror, T>(L(widen(t.x + j))));
        if constexpr (Write) RealPack<T>::put(t.y + j, t.exclusive ? L(shift<1, Mirror, T>(y.v, c)) : y, t.streamed);
        c = pick<last, T>(y.v);
    }
    T carry = c[0];
    for (; i < t.steps; ++i) {
        const int64_t j = Mirror ? t.steps - 1 - i : i;
        const T before = carry;
        carry = Op::combine(carry, Form::get(t.x[j]));
        if constexpr (Write) t.y[j] = Form::put(t.exclusive ? before : carry);
    }
    *carry_at = carry;
}

// Transposes [rows][columns], whose rows are from_pitch apart, to [columns][rows], whose rows are to_pitch apart.
template <typename T>
void turn(const T* from, int64_t from_pitch, int64_t rows, int64_t columns, T* to, int64_t to_pitch) {
    constexpr int64_t width = Simd<T>::width;
    for (int64_t r = 0; r < rows; r += width)
        for (int64_t c = 0; c < columns; c += width) {
            if constexpr (width <= 16)
                if (r + width <= rows && c + width <= columns) {
                    Vec<T> square[size_t{width}];
#pragma GCC unroll 16
                    for (int i = 0; i < width; ++i) square[i] = load(from + (r + i) * from_pitch + c);
                    transpose<T>(square);
#pragma GCC unroll 16
                    for (int i = 0; i < width; ++i) store<T>(to + (c + i) * to_pitch + r, square[i]);
                    continue;
                }
            for (int64_t i = r; i < r + width && i < rows; ++i)
                for (int64_t k = c; k < c + width && k < columns; ++k) to[k * to_pitch + i] = from[i * from_pitch + k];
        }
}

// Forward of a tile of one lane from the carry, by segments that become lanes. `turned` has room for a tile.
template <typename Op, bool Mirror, bool Write, typename Form, typename T>
void segments_forward(const ForwardTile<Form>& t, T* carry, T* turned) {
    constexpr int64_t width = Simd<T>::width;
    ForwardTile<Form> rest = t;
    // Segments have a multiple of `width` steps, so that whole squares are transposed.
    for (int64_t lanes = 8 * width; lanes >= width; lanes /= 2) {
        const int64_t steps = rest.steps / lanes / width * width;
        if (steps == 0) continue;
        rest.steps -= lanes * steps;
        const int64_t at = Mirror ? rest.steps : 0;
        turn(rest.x + at, steps, lanes, steps, turned, lanes);
        alignas(64) T carries[size_t(8 * width)];
        ForwardTile<Form> totals{carries, carries, lanes, 1, 1, 0, false, true, false};
        ForwardTile<Form> segments{turned, turned, steps, lanes, lanes, 0, true, t.exclusive, false};
        lanes_forward<Op, RealPack<T>, Mirror, false>(segments, carries);
        steps_forward<Op, Mirror, true>(totals, carry);
        segments.start = false;
        // The carry has the bits of the last output, which the last segments alone give.
        const int64_t first = Write || Mirror ? 0 : lanes - width;
        if (!Write) segments.x += first, segments.numbers = width;
        lanes_forward<Op, RealPack<T>, Mirror, Write>(segments, carries + first);
        *carry = carries[Mirror ? 0 : lanes - 1];
        if constexpr (Write) turn(turned, lanes, steps, lanes, rest.y + at, steps);
        if (!Mirror) rest.x += lanes * steps;
        if (!Mirror && Write) rest.y += lanes * steps;
    }
    steps_forward<Op, Mirror, Write>(rest, carry);
}

// Backward of the one step at place j of the panels. g is the gradient and p the product of the left slopes. `alone`
// says that nothing comes before the step.
template <typename Op, typename T>
FLASHSCAN_INLINE void step_backward(const BackwardTile<T>& t, int64_t j, bool alone, T& g, T& p) {
    const T l = t.before[j], x = t.x[j], dy = t.dy[j];
    if (!t.exclusive) g += dy;
    t.dy[j] = alone ? g : Op::right_slope(l, x) * g;
    const T slope = Op::left_slope(l, x);
    g *= slope;
    p *= slope;
    if (t.exclusive) g += dy;
}

// Backward of a tile of one lane. Steps i are counted in the order of backward, and Mirror says that this order
// descends.
template <typename Op, bool Mirror, typename T>
void steps_backward(const BackwardTile<T>& t, T* gradient, T* product) {
    constexpr int width = Simd<T>::width, last = Mirror ? 0 : width - 1;
    T g = *gradient, p = *product;
    const int64_t whole = t.start ? t.steps - 1 : t.steps;
    int64_t i = 0;
    for (; i + width <= whole; i += width) {
        const int64_t j = Mirror ? t.steps - width - i : i;
        const Lanes<T> l(load(t.before + j)), x(load(t.x + j));
        const Vec<T> dy = load(t.dy + j), slope = Op::left_slope(l, x).v, carry = splat<T>(g);
        Vec<T> c = t.exclusive ? dy : slope * dy, q = slope;
        flashscan::cpu::FLASHSCAN_ISA::scan<T, Mirror>(c, q);
        c = fused(q, carry, c);
        const Vec<T> into = shift<1, Mirror, T>(c, carry);
        if (any_special(c)) [[unlikely]] {
            for (int64_t k = i; k < i + width; ++k) step_backward<Op>(t, Mirror ? t.steps - 1 - k : k, false, g, p);
            continue;
        }
        store<T>(t.dy + j, Op::right_slope(l, x).v * (t.exclusive ? into : dy + into));
        g = c[last];
        p *= q[last];
    }
    for (; i < t.steps; ++i) step_backward<Op>(t, Mirror ? t.steps - 1 - i : i, t.start && i == t.steps - 1, g, p);
    *gradient = g;
    *product = p;
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
