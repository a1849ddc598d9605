// SPDX-License-Identifier: Apache-2.0
// A block of up to W channels of one sequence of a selective scan, one channel for each lane of a vector: the panels of
// a tile of it, their copies from and to memory, and one step of its states. The formulas are in selective_steps.h.
#pragma once

#include "cpu/kernels/convert.h"
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/selective.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

inline constexpr int64_t tile_steps = 64;

template <typename T>
FLASHSCAN_INLINE T sum_of_lanes(Vec<T> v) {
    T parts[Simd<T>::width];
    store<T>(parts, v);
    for (int half = Simd<T>::width / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
    return parts[0];
}

// Allocates consecutive pieces of a buffer.
template <typename T>
struct Pieces {
    T* at;
    T* take(int64_t numbers) {
        T* piece = at;
        at += numbers;
        return piece;
    }
};

// The block. Panels are [step][W] numbers, and states and constant matrices [state][W].
template <typename T, bool BStep, bool CStep>
struct SelectiveBlock {
    static constexpr int W = Simd<T>::width;
    static constexpr int64_t panel = tile_steps * W;
    static int64_t numbers(int64_t states) { return 6 * panel + 4 * states * W; }

    SelectiveBlock(const SelectiveCall& call, Pieces<T>& pieces) : c(call), N(call.states) {
        u = pieces.take(panel);
        delta = pieces.take(panel);
        slope = pieces.take(panel);
        z = pieces.take(panel);
        gate_slope = pieces.take(panel);
        y = pieces.take(panel);
        rates = pieces.take(N * W);
        constant_b = pieces.take(N * W);
        constant_c = pieces.take(N * W);
        h = pieces.take(N * W);
        for (T* p = u; p < u + numbers(N); ++p) *p = 0;
    }

    // Begins with channels [begin, begin + count) of a sequence: loads A, constant B and C, and the initial states to
    // h.
    void start(const SelectiveSequence& sequence, int64_t begin, int64_t count) {
        s = &sequence;
        channel = begin;
        lanes = count;
        gather(c.a, channel * N, rates);
        if (!BStep) gather(c.constant_b, channel * N, constant_b);
        if (!CStep) gather(c.constant_c, channel * N, constant_c);
        gather(c.first_state, state_place(), h);
    }
    int64_t state_place() const { return (s->state * c.channels + channel) * N; }
    // gather copies numbers [channel][state] to vectors of channels, [state][W]; scatter copies them back.
    void gather(const char* data, int64_t place, T* to) const {
        const T* from = reinterpret_cast<const T*>(data) + place;
        for (int64_t n = 0; n < N; ++n)
            for (int64_t i = 0; i < W; ++i) to[n * W + i] = data != nullptr && i < lanes ? from[i * N + n] : T(0);
    }
    void scatter(const T* from, char* data, int64_t place) const {
        T* to = reinterpret_cast<T*>(data) + place;
        for (int64_t n = 0; data != nullptr && n < N; ++n)
            for (int64_t i = 0; i < lanes; ++i) to[i * N + n] = from[n * W + i];
    }

    int64_t time_of(int64_t i) const { return c.ascending ? s->begin + i : s->begin + s->length - 1 - i; }
    bool resets(int64_t i) const { return c.reset != nullptr && c.reset[s->batch * c.time + time_of(i)] != 0; }
    // rectangle and place say where `count` channels from `first` on are in steps [i, i + steps) of a tensor.
    Rectangle rectangle(const Tensor& x, int64_t steps, int64_t count) const {
        return {steps, c.ascending ? x.time : -x.time, count, x.channels, 1};
    }
    char* place(const Tensor& x, int64_t i, int64_t first) const {
        return x.data + bytes_of(x.number) * (s->batch * x.batch + time_of(i) * x.time + first * x.channels);
    }
    void bring(const Tensor& x, int64_t i, int64_t steps, T* to) const {
        load_panel<T>(to, W, x.number, place(x, i, channel), rectangle(x, steps, lanes));
        for (int64_t k = 0; lanes < W && k < steps; ++k)
            for (int64_t j = lanes; j < W; ++j) to[k * W + j] = 0;
    }
    void send(const T* from, int64_t i, int64_t steps, const Tensor& x) const {
        if (x.data != nullptr) store_panel<T>(from, W, x.number, place(x, i, channel), rectangle(x, steps, lanes));
    }

    // Loads u, and computes d and its derivative by DELTA, in steps [i, i + steps).
    void load_tile(int64_t i, int64_t steps) {
        bring(c.input, i, steps, u);
        bring(c.delta, i, steps, delta);
        Vec<T> bias = {};
        for (int64_t k = 0; c.bias != nullptr && k < lanes; ++k)
            bias[k] = reinterpret_cast<const T*>(c.bias)[channel + k];
        for (int64_t k = 0; k < steps * W; k += W) {
            const Vec<T> x = load(delta + k) + bias;
            if (!c.softplus) {
                store<T>(delta + k, x);
                store<T>(slope + k, splat<T>(1));
                continue;
            }
            const Vec<T> e = exponential_of_minus_magnitude<T>(x);
            store<T>(delta + k, (x > T(0) ? x : Vec<T>{}) + log1p_of_fraction<T>(e));
            store<T>(slope + k, (x < T(0) ? e : splat<T>(1)) / (e + T(1)));
        }
    }
    // Computes z s(z), with s the sigmoid, and its derivative; without a gate z s(z) is replaced by 1.
    void load_gate(int64_t i, int64_t steps) {
        if (c.gate.data != nullptr) bring(c.gate, i, steps, z);
        for (int64_t k = 0; k < steps * W; k += W) {
            if (c.gate.data == nullptr) {
                store<T>(z + k, splat<T>(1));
                continue;
            }
            const Vec<T> x = load(z + k), open = sigmoid(Lanes<T>(x)).v, shut = sigmoid(Lanes<T>(-x)).v;
            store<T>(z + k, x * open);
            store<T>(gate_slope + k, fused(x * open, shut, open));
        }
    }
    Vec<T> skip() const {
        Vec<T> d = {};
        for (int64_t k = 0; c.d != nullptr && k < lanes; ++k) d[k] = reinterpret_cast<const T*>(c.d)[channel + k];
        return d;
    }

    FLASHSCAN_INLINE Vec<T> b_of(const T* step_b, int64_t n) const {
        return BStep ? splat<T>(step_b[n]) : load(constant_b + n * W);
    }
    FLASHSCAN_INLINE Vec<T> c_of(const T* step_c, int64_t n) const {
        return CStep ? splat<T>(step_c[n]) : load(constant_c + n * W);
    }
    // Computes the states after step k of a tile from those before it, `from`, and writes them to `to`, which may be
    // the same. step_b and step_c are B and C of the step. With `sums` returns the sum over states of C h.
    template <bool sums>
    FLASHSCAN_INLINE Vec<T> advance(int64_t k, bool reset, const T* step_b, const T* step_c, const T* from,
                                    T* to) const {
        const Vec<T> d = load(delta + k * W), entering = d * load(u + k * W);
        Vec<T> sum = {};
        for (int64_t n = 0; n < N; ++n) {
            Vec<T> next = entering * b_of(step_b, n);
            if (!reset) next = fused(exponential<T>(d * load(rates + n * W)), load(from + n * W), next);
            store<T>(to + n * W, next);
            if (sums) sum = fused(c_of(step_c, n), next, sum);
        }
        return sum;
    }

    const SelectiveCall& c;
    const int64_t N;
    const SelectiveSequence* s = nullptr;
    int64_t channel = 0, lanes = 0;
    T *u, *delta, *slope, *z, *gate_slope, *y, *rates, *constant_b, *constant_c, *h;
};

// Loads B or C of the block's group in steps [i, i + steps) of its sequence.
template <typename Block, typename T>
void load_matrix(const Block& block, const Tensor& x, int64_t i, int64_t steps, T* to) {
    const int64_t first = block.channel / block.c.group_channels * block.N;
    load_panel<T>(to, block.N, x.number, block.place(x, i, first), block.rectangle(x, steps, block.N));
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
