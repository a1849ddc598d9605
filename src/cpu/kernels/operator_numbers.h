// SPDX-License-Identifier: Apache-2.0
// Scans and reductions by associative operators on numbers: y[t] = y[t-1] o x[t].
//
// One thread owns a block of lanes (at most 256 chains that lie side by side) and walks it in tiles of 16 KB, which are
// copied to panels [steps][lanes] in the type of the arithmetic. The lanes of a vector are lanes of the block. With one
// lane they are consecutive steps: log2(W) combinations with shifted vectors, filled with the identity, scan a vector,
// and then the carry is combined with it:
//
//     v = shift(v, k) o v   k = 1, 2, 4 ..        y = carry o v
//
// Forward stores nothing for backward. In backward `mark` walks forward and stores the carry before each tile; then
// `backward` goes from the last tile to the first, computes y[t-1] again, and walks g = dy + c, dx = right_slope g,
// c' = left_slope g. With one lane that is the scan of affine maps of linear_row_steps.h. For each number forward moves
// a read and a write, and backward three reads and a write. Complex numbers are computed one by one.
#pragma once

#include "cpu/kernels/lanes.h"
#include "cpu/kernels/linear_rows.h"
#include "cpu/kernels/operator.h"
#include "math/operators.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
inline constexpr int64_t tile_numbers = 16384 / static_cast<int64_t>(sizeof(T));

template <typename T>
using LanesOf = std::conditional_t<is_integer<T>, Integers<T>, Lanes<T>>;

// RealPack and ComplexPack say what the walk over lanes computes with at once: a vector of reals, or one complex
// number.
template <typename T>
struct RealPack {
    using Type = LanesOf<T>;
    static constexpr int64_t numbers = Simd<T>::width;
    static FLASHSCAN_INLINE Type get(const T* p) { return Type(load(p)); }
    static FLASHSCAN_INLINE void put(T* p, Type v) { store<T>(p, v.v); }
    static FLASHSCAN_INLINE Type of(T x) { return Type(x); }
};
template <typename T>
struct ComplexPack {
    using Type = Complex<T>;
    static constexpr int64_t numbers = 2;
    static FLASHSCAN_INLINE Type get(const T* p) { return {p[0], p[1]}; }
    static FLASHSCAN_INLINE void put(T* p, Type v) { p[0] = v.re, p[1] = v.im; }
    static FLASHSCAN_INLINE Type of(T x) { return {x, T(0)}; }
};

// A tile in panels of steps x pitch numbers, lowest time first.
template <typename T>
struct NumbersTile {
    T *x, *before, *dy;  // dy is overwritten by dx
    int64_t steps, pitch, lanes;
    bool start;
    bool exclusive;
};

// Forward of a tile of several lanes. Writes the outputs to `to` and replaces `carry`, which has pitch numbers. Lanes
// are the inner loop, so that the dependent operations of many chains overlap.
template <typename Op, typename Pack, bool Mirror, typename T>
void lanes_forward(const NumbersTile<T>& t, T* carry, T* to) {
    int64_t s = 0;
    if (t.start) {
        const int64_t at = Mirror ? (t.steps - 1) * t.pitch : 0;
        for (int64_t v = 0; v < t.pitch; v += Pack::numbers) {
            const auto x = Pack::get(t.x + at + v);
            Pack::put(to + at + v, t.exclusive ? Pack::of(Op::template identity<T>()) : x);
            Pack::put(carry + v, x);
        }
        s = 1;
    }
    for (; s < t.steps; ++s) {
        const int64_t at = (Mirror ? t.steps - 1 - s : s) * t.pitch;
        for (int64_t v = 0; v < t.pitch; v += Pack::numbers) {
            const auto before = Pack::get(carry + v), c = Op::combine(before, Pack::get(t.x + at + v));
            Pack::put(to + at + v, t.exclusive ? before : c);
            Pack::put(carry + v, c);
        }
    }
}

// Backward of a tile of several lanes. Reads y[t-1] from t.before; dx replaces dy.
template <typename Op, typename Pack, bool Mirror, typename T>
void lanes_backward(const NumbersTile<T>& t, T* gradient, T* product) {
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

template <typename Op, bool Mirror, typename T>
FLASHSCAN_INLINE LanesOf<T> scan_steps(LanesOf<T> v) {
    constexpr int width = Simd<T>::width;
    // -0 is used for 0, so that adding it keeps the sign of a zero.
    const Vec<T> none = splat<T>(Op::template identity<T>() == 0 ? T(-0.0) : Op::template identity<T>());
    using L = LanesOf<T>;
    v = Op::combine(L(shift<1, Mirror, T>(v.v, none)), v);
    if constexpr (width > 2) v = Op::combine(L(shift<2, Mirror, T>(v.v, none)), v);
    if constexpr (width > 4) v = Op::combine(L(shift<4, Mirror, T>(v.v, none)), v);
    if constexpr (width > 8) v = Op::combine(L(shift<8, Mirror, T>(v.v, none)), v);
    if constexpr (width > 16) v = Op::combine(L(shift<16, Mirror, T>(v.v, none)), v);
    if constexpr (width > 32) v = Op::combine(L(shift<32, Mirror, T>(v.v, none)), v);
    return v;
}

// Forward of a tile of one lane.
template <typename Op, bool Mirror, typename T>
void steps_forward(const NumbersTile<T>& t, T* carry_at, T* to) {
    using L = LanesOf<T>;
    constexpr int width = Simd<T>::width, last = Mirror ? 0 : width - 1;
    T carry = *carry_at;
    int64_t i = 0;
    if (t.start && t.steps > 0) {
        const int64_t j = Mirror ? t.steps - 1 : 0;
        carry = t.x[j];
        to[j] = t.exclusive ? Op::template identity<T>() : carry;
        i = 1;
    }
    Vec<T> c = splat<T>(carry);
    for (; i + width <= t.steps; i += width) {
        const int64_t j = Mirror ? t.steps - width - i : i;
        const L y = Op::combine(L(c), scan_steps<Op, Mirror, T>(L(load(t.x + j))));
        store<T>(to + j, t.exclusive ? shift<1, Mirror, T>(y.v, c) : y.v);
        c = pick<last, T>(y.v);
    }
    carry = c[0];
    for (; i < t.steps; ++i) {
        const int64_t j = Mirror ? t.steps - 1 - i : i;
        const T x = t.x[j], before = carry;
        carry = Op::combine(carry, x);
        to[j] = t.exclusive ? before : carry;
    }
    *carry_at = carry;
}

// Backward of the one step at place j of the panels. g is the gradient and p the product of the left slopes. `alone`
// says that nothing comes before the step.
template <typename Op, typename T>
FLASHSCAN_INLINE void step_backward(const NumbersTile<T>& t, int64_t j, bool alone, T& g, T& p) {
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
void steps_backward(const NumbersTile<T>& t, T* gradient, T* product) {
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

// The panels of a block and the walk over its tiles.
template <typename Op, typename T, bool IsComplex>
class NumbersWalk {
  public:
    using Pack = std::conditional_t<IsComplex, ComplexPack<T>, RealPack<T>>;
    static constexpr int parts = IsComplex ? 2 : 1;
    static constexpr bool vector_steps = !IsComplex;

    static int64_t pitch_of(int64_t lanes) {
        if (vector_steps && lanes == 1) return 1;
        const int64_t numbers = lanes * parts;
        return (numbers + Pack::numbers - 1) / Pack::numbers * Pack::numbers;
    }
    static int64_t tile_steps(int64_t lanes, int32_t) { return tile_numbers<T> / pitch_of(lanes); }

    struct Work {
        alignas(64) T x[tile_numbers<T>], before[tile_numbers<T>], dy[tile_numbers<T>];
        alignas(64) T carry[2 * numbers_lanes], gradient[2 * numbers_lanes], product[2 * numbers_lanes];
    };

    NumbersWalk(const NumbersCall& call, const OperatorPiece& piece, char* work)
        : NumbersWalk(call, piece, *reinterpret_cast<Work*>(work)) {}

    NumbersWalk(const NumbersCall& call, const OperatorPiece& piece, Work& work)
        : p_(call),
          q_(piece),
          pitch_(pitch_of(piece.lanes)),
          most_(tile_steps(piece.lanes, parts)),
          x_(work.x),
          before_(work.before),
          dy_(work.dy),
          carry_(work.carry),
          gradient_(work.gradient),
          product_(work.product) {
        clear(x_), clear(before_), clear(dy_);
        for (int64_t i = 0; i < 2 * numbers_lanes; ++i) carry_[i] = gradient_[i] = product_[i] = 0;
    }

    void forward(char* carry, char* marks, bool write) {
        read(carry_, carry);
        for (int64_t k = 0; k < q_.steps; k += most_) {
            NumbersTile<T> t = tile(k);
            if (marks != nullptr) save(carry_, marks + k / most_ * bytes());
            get(t, p_.x, x_);
            run_forward(t, x_);
            if (write) put(t, x_);
        }
        save(carry_, carry);
    }

    void backward(const char* marks, char* gradient, char* product) {
        read(gradient_, gradient);
        if (product != nullptr) read(product_, product);
        for (int64_t k = (q_.steps - 1) / most_ * most_; k >= 0; k -= most_) {
            NumbersTile<T> t = tile(k);
            read(carry_, marks + k / most_ * bytes());
            if (p_.x != nullptr) get(t, p_.x, x_);
            if (p_.dy != nullptr)
                get(t, p_.dy, dy_);
            else
                clear(dy_);
            NumbersTile<T> again = t;
            again.exclusive = true;
            if (p_.x != nullptr) run_forward(again, before_);
            run_backward(t);
            if (p_.y != nullptr) put(t, dy_);
        }
        save(gradient_, gradient);
        if (product != nullptr) save(product_, product);
    }

  private:
    static void clear(T* panel) {
        for (int64_t i = 0; i < tile_numbers<T>; ++i) panel[i] = 0;
    }
    int64_t bytes() const { return q_.lanes * parts * static_cast<int64_t>(sizeof(T)); }
    void read(T* to, const char* from) const { __builtin_memcpy(to, from, static_cast<size_t>(bytes())); }
    void save(const T* from, char* to) const { __builtin_memcpy(to, from, static_cast<size_t>(bytes())); }

    NumbersTile<T> tile(int64_t k) {
        const int64_t steps = most_ < q_.steps - k ? most_ : q_.steps - k;
        at_ = q_.first + k;
        return {x_, before_, dy_, steps, pitch_, q_.lanes, q_.start && k == 0, p_.exclusive};
    }
    // Returns the offset of the tile's lowest time in the tensors, in bytes.
    int64_t place(const NumbersTile<T>& t) const {
        const int64_t time = p_.ascending ? q_.begin + at_ : q_.end - at_ - t.steps;
        return (q_.base + time * p_.time_stride) * parts * bytes_of(p_.number);
    }
    Rectangle rectangle(const NumbersTile<T>& t) const {
        if (pitch_ == parts && t.lanes == 1) return {1, 0, t.steps, p_.time_stride * parts, parts};
        return {t.steps, p_.time_stride * parts, t.lanes, p_.lane_stride * parts, parts};
    }
    void get(const NumbersTile<T>& t, const char* from, T* panel) const {
        load_panel(panel, pitch_, p_.number, from + place(t), rectangle(t));
    }
    void put(const NumbersTile<T>& t, const T* panel) const {
        store_panel(panel, pitch_, p_.number, p_.y + place(t), rectangle(t));
    }

    void run_forward(const NumbersTile<T>& t, T* to) {
        if constexpr (vector_steps)
            if (t.lanes == 1)
                return p_.ascending ? steps_forward<Op, false>(t, carry_, to) : steps_forward<Op, true>(t, carry_, to);
        p_.ascending ? lanes_forward<Op, Pack, false>(t, carry_, to) : lanes_forward<Op, Pack, true>(t, carry_, to);
    }
    void run_backward(const NumbersTile<T>& t) {
        if constexpr (vector_steps)
            if (t.lanes == 1)
                return p_.ascending ? steps_backward<Op, true>(t, gradient_, product_)
                                    : steps_backward<Op, false>(t, gradient_, product_);
        p_.ascending ? lanes_backward<Op, Pack, false>(t, gradient_, product_)
                     : lanes_backward<Op, Pack, true>(t, gradient_, product_);
    }

    const NumbersCall& p_;
    const OperatorPiece& q_;
    int64_t pitch_, most_, at_ = 0;
    T *x_, *before_, *dy_, *carry_, *gradient_, *product_;  // point into Work
};

template <typename Op, typename T, bool IsComplex>
NumbersKernels numbers_of() {
    using Walk = NumbersWalk<Op, T, IsComplex>;
    NumbersKernels k{};
    k.vector_bytes = vector_bytes;
    k.tile_steps = Walk::tile_steps;
    k.work_bytes = sizeof(typename Walk::Work);
    k.fold = [](const NumbersCall& c, const OperatorPiece& p, char* carry, char* work) {
        Walk(c, p, work).forward(carry, nullptr, false);
    };
    k.scan = [](const NumbersCall& c, const OperatorPiece& p, char* carry, char* work) {
        Walk(c, p, work).forward(carry, nullptr, true);
    };
    k.join = [](int64_t numbers, const char* carry, const char* total, char* next) {
        using One = std::conditional_t<IsComplex, Complex<T>, T>;
        const auto *l = reinterpret_cast<const One*>(carry), *r = reinterpret_cast<const One*>(total);
        for (int64_t i = 0; i < numbers / Walk::parts; ++i) reinterpret_cast<One*>(next)[i] = Op::combine(l[i], r[i]);
    };
    if constexpr (!is_integer<T>) {
        k.mark = [](const NumbersCall& c, const OperatorPiece& p, char* carry, char* marks, char* work) {
            Walk(c, p, work).forward(carry, marks, false);
        };
        k.backward = [](const NumbersCall& c, const OperatorPiece& p, const char* marks, char* gradient, char* product,
                        char* work) { Walk(c, p, work).backward(marks, gradient, product); };
        k.join_backward = [](int64_t numbers, const char* product, const char* local, char* gradient) {
            using One = std::conditional_t<IsComplex, Complex<T>, T>;
            const auto *p = reinterpret_cast<const One*>(product), *c = reinterpret_cast<const One*>(local);
            auto* g = reinterpret_cast<One*>(gradient);
            for (int64_t i = 0; i < numbers / Walk::parts; ++i) g[i] = c[i] + p[i] * g[i];
        };
    }
    return k;
}

// The pointers are null where the operator `kind` has no formula for numbers of type T.
template <typename T>
NumbersKernels numbers_of_kind(int32_t kind) {
    NumbersKernels kernels{};
    combine::with_operator<T>(kind, [&](auto op) { kernels = numbers_of<decltype(op), T, false>(); });
    return kernels;
}
template <typename T>
NumbersKernels complex_numbers_of_kind(int32_t kind) {
    NumbersKernels kernels{};
    combine::with_operator<Complex<T>>(kind, [&](auto op) { kernels = numbers_of<decltype(op), T, true>(); });
    return kernels;
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
