// SPDX-License-Identifier: Apache-2.0
// Linear recurrence, vectors across channels: the steps of one tile, for every step, for every vector of lanes
//
//     forward    h = a h + x                       backward    g = dh + c,  da = g conj(previous a'),  c = conj(a) g
//
// Lanes are numbers: complex data with a real gate are twice as many real lanes, a complex gate pairs neighbours up.
// The carried state stays in the L1 cache. Each lane is computed in the order of the definition.
#pragma once

#include "cpu/kernels/linear_tile.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename M>
struct View {
    M* data;
    int64_t pitch;
};

// X: form of x, y and previous in memory; A: of the gate and its gradient.
template <typename T, typename X, typename A>
struct ColumnTile {
    int64_t steps, lanes;
    View<typename X::Type> x, y, previous;
    View<typename A::Type> gate, grad;
    View<T> slope;
    T *carry, *product;
    const uint8_t* reset;  // of the first step, null: none
    int64_t reset_step;
};

// How far ahead of a lane to ask for memory, in numbers: 2 KB where memory is walked without gaps, else the next step.
template <typename Tile, typename M>
FLASHSCAN_INLINE int64_t look_ahead(const Tile& t, const View<M>& v) {
    constexpr int64_t most = 2048 / int64_t(sizeof(M));
    if (v.pitch == t.lanes) return most;
    if (v.pitch == -t.lanes) return -most;
    return (1 + most / t.lanes) * v.pitch;
}

// Calls use(l, n) for whole vectors, n = 0, and for the rest of the lanes; downwards where time is, so that steps that
// touch are one walk through memory.
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
template <typename Form, typename T, bool Stream>
FLASHSCAN_INLINE void put(typename Form::Type* p, Vec<T> v, int n) {
    if (n != 0)
        for (int i = 0; i < n; ++i) p[i] = Form::put(v[i]);
    else if constexpr (Stream)
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
    put<Own<T>, T, false>(p, v, n);
}

template <bool ComplexGate, bool Stream, typename T, typename X, typename A>
void columns_forward(const ColumnTile<T, X, A>& t) {
    const int64_t x_ahead = look_ahead(t, t.x), a_ahead = look_ahead(t, t.gate);
    for (int64_t i = 0; i < t.steps; ++i) {
        const auto* x = t.x.data + i * t.x.pitch;
        const auto* a = t.gate.data + i * t.gate.pitch;
        auto* y = t.y.data + i * t.y.pitch;
        if (t.reset != nullptr && t.reset[i * t.reset_step] != 0) {
            for_lanes<T>(
                t, [&](int64_t l, int n) __attribute__((always_inline)) {
                    const Vec<T> h = get<X, T>(x + l, n);
                    put_state<T>(t.carry + l, h, n);
                    put<X, T, Stream>(y + l, h, n);
                });
            continue;
        }
        for_lanes<T>(
            t, [&](int64_t l, int n) __attribute__((always_inline)) {
                prefetch(x + l + x_ahead);
                prefetch(a + l + a_ahead);
                const Vec<T> h = multiply_add<ComplexGate, false, T>(get<A, T>(a + l, n), get_state(t.carry + l, n),
                                                                     get<X, T>(x + l, n));
                put_state<T>(t.carry + l, h, n);
                put<X, T, Stream>(y + l, h, n);
            });
    }
}

template <bool ComplexGate, bool Stream, bool Grad, bool Slope, typename T, typename X, typename A>
void columns_backward(const ColumnTile<T, X, A>& t) {
    const int64_t x_ahead = look_ahead(t, t.x), a_ahead = look_ahead(t, t.gate);
    const int64_t previous_ahead = look_ahead(t, t.previous);
    for (int64_t i = 0; i < t.steps; ++i) {
        const auto *x = t.x.data + i * t.x.pitch, *previous = t.previous.data + i * t.previous.pitch;
        const auto* a = t.gate.data + i * t.gate.pitch;
        const T* slope = t.slope.data + i * t.slope.pitch;
        auto* y = t.y.data + i * t.y.pitch;
        auto* grad = t.grad.data + i * t.grad.pitch;
        const bool reset = t.reset != nullptr && t.reset[i * t.reset_step] != 0;
        for_lanes<T>(
            t, [&](int64_t l, int n) __attribute__((always_inline)) {
                prefetch(x + l + x_ahead);
                prefetch(a + l + a_ahead);
                if constexpr (Grad) prefetch(previous + l + previous_ahead);
                const Vec<T> g = get<X, T>(x + l, n) + get_state(t.carry + l, n);
                const Vec<T> c = multiply<ComplexGate, true, T>(get<A, T>(a + l, n), g);
                put_state<T>(t.carry + l, reset ? Vec<T>{} : c, n);
                put<X, T, Stream>(y + l, g, n);
                if constexpr (Grad) {
                    Vec<T> h = get<X, T>(previous + l, n);
                    if constexpr (Slope) h = multiply<ComplexGate, false, T>(get_state(slope + l, n), h);
                    put<A, T, Stream>(grad + l, reset ? Vec<T>{} : multiply<ComplexGate, true, T>(h, g), n);
                }
            });
    }
}

// The state that a zero carry ends in, and the product of the gates; returns whether there was a reset.
template <bool ComplexGate, bool Backward, typename T, typename X, typename A>
bool columns_summarise(const ColumnTile<T, X, A>& t) {
    const int64_t x_ahead = look_ahead(t, t.x), a_ahead = look_ahead(t, t.gate);
    bool any = false;
    for (int64_t i = 0; i < t.steps; ++i) {
        const auto* x = t.x.data + i * t.x.pitch;
        const auto* a = t.gate.data + i * t.gate.pitch;
        const bool reset = t.reset != nullptr && t.reset[i * t.reset_step] != 0;
        const bool tidy = i % 16 == 15 || i + 1 == t.steps;
        any = any || reset;
        for_lanes<T>(
            t, [&](int64_t l, int n) __attribute__((always_inline)) {
                prefetch(x + l + x_ahead);
                prefetch(a + l + a_ahead);
                const Vec<T> gate = get<A, T>(a + l, n), carry = get_state(t.carry + l, n), in = get<X, T>(x + l, n);
                const Vec<T> next = Backward ? multiply<ComplexGate, Backward, T>(gate, in + carry)
                                             : multiply_add<ComplexGate, Backward, T>(gate, carry, in);
                put_state<T>(t.carry + l, reset ? (Backward ? Vec<T>{} : in) : next, n);
                Vec<T> product = multiply<ComplexGate, Backward, T>(gate, get_state(t.product + l, n));
                if (tidy) product = without_denormals<ComplexGate, T>(product);
                put_state<T>(t.product + l, product, n);
            });
    }
    return any;
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
