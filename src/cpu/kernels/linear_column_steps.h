// SPDX-License-Identifier: Apache-2.0
// Linear recurrence with neighbouring channels in the lanes of a vector: computes the steps of one tile in two loops,
// over the steps and inside over the vectors of lanes:
//
//     forward    h = a h + x                       backward    g = dh + c,  da = g conj(previous a'),  c = conj(a) g
//
// Lanes are numbers: complex data with a real gate are twice as many real lanes, and with a complex gate two
// neighbouring lanes are the parts of one number. One thread computes a tile. The carry of all lanes stays in the L1
// cache. Each lane is computed in the order of the definition.
#pragma once

#include "cpu/kernels/linear_product.h"
#include "cpu/kernels/linear_tile.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename M>
struct View {
    M* data;
    int64_t pitch;
};

// One tile. X is the form (convert.h) of x, y and previous in memory, and A that of the gate and its gradient.
template <typename T, typename X, typename A>
struct ColumnTile {
    int64_t steps, lanes;
    View<typename X::Type> x, y, previous;
    View<typename A::Type> gate, grad;
    View<T> slope;
    T *carry, *product, *power;
    bool stream;           // y and grad are written with non-temporal stores
    const uint8_t* reset;  // points to the flag of the first step; null: no resets
    int64_t reset_step;
    FLASHSCAN_INLINE bool reset_at(int64_t i) const { return reset != nullptr && reset[i * reset_step] != 0; }
};

// The distance of prefetches, in numbers: 2 KB where steps are adjacent in memory, else as many whole steps as have 2
// KB of lanes.
template <typename Tile, typename M>
FLASHSCAN_INLINE int64_t look_ahead(const Tile& t, const View<M>& v) {
    constexpr int64_t most = 2048 / int64_t(sizeof(M));
    if (v.pitch == t.lanes) return most;
    if (v.pitch == -t.lanes) return -most;
    return (1 + most / t.lanes) * v.pitch;
}

// Calls use(l, 0) for each whole vector of lanes from l on, and use(l, n) for the n lanes that are left over. Lanes
// descend where time does, so that steps that are adjacent in memory are walked in the order of addresses.
template <typename T, typename Tile, typename Use>
FLASHSCAN_INLINE void for_lanes(const Tile& t, Use use) {
    constexpr int64_t width = Simd<T>::width;
    const int64_t whole = t.lanes / width, rest = t.lanes % width;
    const bool down = t.x.pitch < 0;
    if (rest != 0) use(whole * width, static_cast<int>(rest));
    for (int64_t k = 0; k < whole; ++k) use((down ? whole - 1 - k : k) * width, 0);
}

template <typename Form, typename T>
FLASHSCAN_INLINE Vec<T> get(const typename Form::Type* p, int n) {
    if (n == 0) return widen(p);
    Vec<T> v = {};
    for (int i = 0; i < n; ++i) v[i] = Form::get(p[i]);
    return v;
}
template <typename Form, typename T>
FLASHSCAN_INLINE void put(bool streamed, typename Form::Type* p, Vec<T> v, int n) {
    if (n != 0)
        for (int i = 0; i < n; ++i) p[i] = Form::put(v[i]);
    else if (streamed)
        narrow_streamed(p, v);
    else
        narrow(p, v);
}
template <typename T>
FLASHSCAN_INLINE Vec<T> get_state(const T* p, int n) {
    return get<Own<T>, T>(p, n);
}
template <typename T>
FLASHSCAN_INLINE void put_state(T* p, Vec<T> v, int n) {
    put<Own<T>, T>(false, p, v, n);
}

// A vector of lanes passes this from step to step.
template <typename T>
struct LaneState {
    Vec<T> carry, product;
};

// Calls use(i, l, n, state) for every step i and the lanes of for_lanes. Where a step is one vector its state stays in
// registers: through memory each step would wait twice as long for the one before.
template <bool Product, typename T, typename X, typename A, typename Use>
FLASHSCAN_INLINE void for_steps(const ColumnTile<T, X, A>& t, Use use) {
    const auto get = [&](int64_t l, int n) __attribute__((always_inline)) {
        return LaneState<T>{get_state(t.carry + l, n), Product ? get_state(t.product + l, n) : Vec<T>{}};
    };
    const auto put = [&](int64_t l, int n, const LaneState<T>& state) __attribute__((always_inline)) {
        put_state<T>(t.carry + l, state.carry, n);
        if constexpr (Product) put_state<T>(t.product + l, state.product, n);
    };
    if (t.lanes == Simd<T>::width) {
        LaneState<T> state = get(0, 0);
        for (int64_t i = 0; i < t.steps; ++i) use(i, 0, 0, state);
        put(0, 0, state);
        return;
    }
    for (int64_t i = 0; i < t.steps; ++i)
        for_lanes<T>(
            t, [&](int64_t l, int n) __attribute__((always_inline)) {
                LaneState<T> state = get(l, n);
                use(i, l, n, state);
                put(l, n, state);
            });
}

// Tiles are passed as copies, which stores cannot change, so that the compiler keeps them in registers.
template <bool ComplexGate, typename T, typename X, typename A>
void columns_forward(const ColumnTile<T, X, A> t) {
    const int64_t x_ahead = look_ahead(t, t.x), a_ahead = look_ahead(t, t.gate);
    for_steps<false>(
        t, [&](int64_t i, int64_t l, int n, LaneState<T>& state) __attribute__((always_inline)) {
            const auto* x = t.x.data + i * t.x.pitch + l;
            const auto* a = t.gate.data + i * t.gate.pitch + l;
            prefetch(x + x_ahead);
            prefetch(a + a_ahead);
            const Vec<T> in = get<X, T>(x, n);
            if (t.reset_at(i))
                state.carry = in;
            else
                state.carry = multiply_add<ComplexGate, false, T>(get<A, T>(a, n), state.carry, in);
            put<X, T>(t.stream, t.y.data + i * t.y.pitch + l, state.carry, n);
        });
}

template <bool ComplexGate, bool Grad, bool Slope, typename T, typename X, typename A>
void columns_backward(const ColumnTile<T, X, A> t) {
    const int64_t x_ahead = look_ahead(t, t.x), a_ahead = look_ahead(t, t.gate);
    const int64_t previous_ahead = look_ahead(t, t.previous);
    for_steps<false>(
        t, [&](int64_t i, int64_t l, int n, LaneState<T>& state) __attribute__((always_inline)) {
            const auto* x = t.x.data + i * t.x.pitch + l;
            const auto* a = t.gate.data + i * t.gate.pitch + l;
            const bool reset = t.reset_at(i);
            prefetch(x + x_ahead);
            prefetch(a + a_ahead);
            const Vec<T> g = get<X, T>(x, n) + state.carry;
            const Vec<T> c = multiply<ComplexGate, true, T>(get<A, T>(a, n), g);
            state.carry = reset ? Vec<T>{} : c;
            put<X, T>(t.stream, t.y.data + i * t.y.pitch + l, g, n);
            if constexpr (Grad) {
                const auto* previous = t.previous.data + i * t.previous.pitch + l;
                prefetch(previous + previous_ahead);
                Vec<T> h = get<X, T>(previous, n);
                if constexpr (Slope)
                    h = multiply<ComplexGate, false, T>(get_state(t.slope.data + i * t.slope.pitch + l, n), h);
                put<A, T>(t.stream, t.grad.data + i * t.grad.pitch + l,
                          reset ? Vec<T>{} : multiply<ComplexGate, true, T>(h, g), n);
            }
        });
}

// Computes the state that the steps end in from a carry of zero, and the product of the gates; returns whether there
// was a reset. Vectors are taken in pairs, which share the test whether a product has left the middle of the range.
template <bool ComplexGate, bool Backward, typename T, typename X, typename A>
bool columns_summarise(const ColumnTile<T, X, A> t) {
    const int64_t x_ahead = look_ahead(t, t.x), a_ahead = look_ahead(t, t.gate);
    constexpr int64_t width = Simd<T>::width;
    const auto step = [&](int64_t i, int64_t l, int n, bool reset, Vec<T>& carry) __attribute__((always_inline)) {
        const auto* x = t.x.data + i * t.x.pitch + l;
        const auto* a = t.gate.data + i * t.gate.pitch + l;
        prefetch(x + x_ahead);
        prefetch(a + a_ahead);
        const Vec<T> gate = get<A, T>(a, n), in = get<X, T>(x, n);
        const Vec<T> next = Backward ? multiply<ComplexGate, Backward, T>(gate, in + carry)
                                     : multiply_add<ComplexGate, Backward, T>(gate, carry, in);
        carry = reset ? (Backward ? Vec<T>{} : in) : next;
        return gate;
    };
    const auto one = [&](int64_t i, int64_t l, int n, LaneState<T>& state) __attribute__((always_inline)) {
        const Vec<T> gate = step(i, l, n, t.reset_at(i), state.carry);
        multiply_product<ComplexGate, Backward, T>(gate, state.product, t.power + l, n);
    };
    const auto two = [&](int64_t i, int64_t l, bool reset) __attribute__((always_inline)) {
        Vec<T> low = get_state(t.carry + l, 0), high = get_state(t.carry + l + width, 0);
        const Vec<T> a = step(i, l, 0, reset, low), b = step(i, l + width, 0, reset, high);
        put_state<T>(t.carry + l, low, 0);
        put_state<T>(t.carry + l + width, high, 0);
        multiply_products<ComplexGate, Backward, T>(a, b, t.product + l, t.power + l);
    };
    bool any = false;
    for (int64_t i = 0; t.reset != nullptr && i < t.steps; ++i) any = any || t.reset_at(i);
    if (t.lanes == width) {
        for_steps<true>(t, one);
        return any;
    }
    const int64_t pairs = t.lanes / (2 * width);
    const bool down = t.x.pitch < 0;
    for (int64_t i = 0; i < t.steps; ++i) {
        const bool reset = any && t.reset_at(i);
        for (int64_t l = pairs * 2 * width; l < t.lanes; l += width) {
            const int n = l + width <= t.lanes ? 0 : static_cast<int>(t.lanes - l);
            LaneState<T> state{get_state(t.carry + l, n), get_state(t.product + l, n)};
            one(i, l, n, state);
            put_state<T>(t.carry + l, state.carry, n);
            put_state<T>(t.product + l, state.product, n);
        }
        for (int64_t k = 0; k < pairs; ++k) two(i, (down ? pairs - 1 - k : k) * 2 * width, reset);
    }
    return any;
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
