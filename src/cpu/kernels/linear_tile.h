// SPDX-License-Identifier: Apache-2.0
// Both engines of the linear recurrence share rows, addresses, the forms of gates, and sums of the gate gradient.
#pragma once

#include <type_traits>

#include "cpu/kernels/convert.h"
#include "cpu/kernels/exponential.h"
#include "math/linear.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The size of a panel, the copy of a tensor's tile. One step of a block fits one panel.
inline constexpr int64_t panel_bytes = 8192;
template <typename T>
inline constexpr int64_t panel_numbers = panel_bytes / int64_t(sizeof(T));

// The gap between panels, in numbers. It keeps equal places of two panels from addresses with the same low bits, which
// processors mistake for each other (4K aliasing) and put into the same set of the cache.
template <typename T>
inline constexpr int64_t skew = 320 / int64_t(sizeof(T));

// The memory of one worker, about 145 KB: panels hold a tile of a tensor in the type of the arithmetic.
template <typename T>
struct Work {
    static constexpr size_t size = size_t(panel_numbers<T> + skew<T>);
    alignas(64) T x[size], y[size], previous[size], grad[size];
    alignas(64) T gate[size], slope[size], compact_gate[size], compact_slope[size];
    alignas(64) T carry[size], next[size], product[size], power[size], local[size];
    alignas(64) double sums[size], chunk_sums[size];
};

struct Row {
    int64_t index, batch, begin, end;
    int64_t steps() const { return end - begin; }
    // The time of walking step i.
    int64_t time(const LinearCall& p, int64_t i) const { return p.ascending ? begin + i : end - 1 - i; }
};

FLASHSCAN_INLINE int64_t offset_at(const LinearCall& p, int64_t i) {
    return p.wide_offsets ? static_cast<const int64_t*>(p.offsets)[i] : static_cast<const int32_t*>(p.offsets)[i];
}

FLASHSCAN_INLINE Row row_of(const LinearCall& p, int64_t index) {
    if (p.offsets != nullptr) return {index, 0, offset_at(p, index), offset_at(p, index + 1)};
    return {index, index, 0, p.time};
}

FLASHSCAN_INLINE char* address(const Tensor& t, int64_t batch, int64_t time, int64_t channel) {
    return t.data + (batch * t.batch + time * t.time + channel * t.channels) * bytes_of(t.number);
}

FLASHSCAN_INLINE const uint8_t* reset_at(const LinearCall& p, const Row& row, int64_t time) {
    return p.reset == nullptr ? nullptr : p.reset + row.batch * p.time + time;
}

FLASHSCAN_INLINE bool sums_gate(const LinearCall& p) { return p.sum_batch || p.sum_time || p.sum_channels; }

template <typename T>
using Own = std::conditional_t<sizeof(T) == 8, AsF64, AsF32>;

// Calls use(X, A) with the forms in which a kernel reads numbers in place: X of INPUT, OUTPUT and their gradients, A of
// GATE and its gradient. Whatever else a tensor holds goes through panels of T. `fits` says whether a tensor's layout
// is the kernel's. Numbers of 16 bits are read in place where all tensors of data fit; complex data have none.
template <typename T, bool Complex, typename Fits, typename Use>
FLASHSCAN_INLINE void with_forms(const LinearCall& p, Fits fits, Use use) {
    if constexpr (sizeof(T) == 4 && !Complex) {
        const bool data = fits(p.x) && fits(p.y) && fits(p.previous);
        const bool gate = data && p.form == 0 && p.gate.number == p.x.number && fits(p.gate) && fits(p.grad_gate) &&
                          !(p.backward && sums_gate(p));
        const auto use_half = [&](auto half) { gate ? use(half, half) : use(half, AsF32{}); };
        if (data && p.x.number == Number::bf16) return use_half(AsBf16{});
        if (data && p.x.number == Number::f16) return use_half(AsF16{});
    }
    use(Own<T>{}, Own<T>{});
}

template <typename T>
FLASHSCAN_INLINE Complex<T> complex_slope(int32_t form, Complex<T> g, Complex<T> a) {
    return form == 1 ? a : a * sigmoid(negative(g));
}

template <typename T>
struct GateAndSlope {
    Vec<T> gate, slope;
};
template <typename T>
FLASHSCAN_INLINE GateAndSlope<T> gate_and_slope(int32_t form, Vec<T> g) {
    if (form == 1) {
        const Vec<T> a = exponential<T>(g);
        return {a, a};
    }
    // 1 = sigmoid(g) + sigmoid(-g), the larger and the smaller both from exp(-|g|), which cannot overflow.
    const Vec<T> e = exponential_of_minus_magnitude<T>(g);
    const Vec<T> large = T(1) / (T(1) + e), small = e * large;
    return {g < 0 ? small : large, small * large};
}

// Replaces n numbers g of GATE by a(g), as `form` says; writes da/dg to `slope` unless that is null.
template <typename T, bool ComplexGate>
void transform_gate(int32_t form, T* gate, T* slope, int64_t n) {
    if (form == 0) {
        for (int64_t i = 0; slope != nullptr && i < n; ++i) slope[i] = ComplexGate && (i & 1) != 0 ? T(0) : T(1);
        return;
    }
    if constexpr (ComplexGate) {
        for (int64_t i = 0; i + 1 < n; i += 2) {
            const Complex<T> g{gate[i], gate[i + 1]};
            const Complex<T> a = form == 1 ? exp_of(g) : sigmoid(g);
            const Complex<T> d = slope != nullptr ? complex_slope(form, g, a) : Complex<T>{};
            gate[i] = a.re, gate[i + 1] = a.im;
            if (slope != nullptr) slope[i] = d.re, slope[i + 1] = d.im;
        }
    } else {
        constexpr int64_t width = Simd<T>::width;
        int64_t i = 0;
        for (; i + width <= n; i += width) {
            const GateAndSlope<T> v = gate_and_slope<T>(form, load(gate + i));
            store<T>(gate + i, v.gate);
            if (slope != nullptr) store<T>(slope + i, v.slope);
        }
        if (i == n) return;
        Vec<T> g = {};
        for (int64_t k = i; k < n; ++k) g[k - i] = gate[k];
        const GateAndSlope<T> v = gate_and_slope<T>(form, g);
        store_part<T>(gate + i, v.gate, static_cast<int>(n - i));
        if (slope != nullptr) store_part<T>(slope + i, v.slope, static_cast<int>(n - i));
    }
}

// Adds each number of a vector to the sum of its lane.
template <typename T>
FLASHSCAN_INLINE void add_in_double(double* sums, Vec<T> v) {
    constexpr int width = Simd<double>::width;
    typedef T Part __attribute__((vector_size(width * sizeof(T))));
    for (int k = 0; k < Simd<T>::width; k += width) {
        Part part;
        __builtin_memcpy(&part, reinterpret_cast<const char*>(&v) + k * int(sizeof(T)), sizeof part);
        store<double>(sums + k, load(sums + k) + __builtin_convertvector(part, VecD));
    }
}

// Returns the sum of n numbers, `step` apart, formed from as many partial sums as a vector has lanes.
template <typename T>
FLASHSCAN_INLINE double add_up(const T* numbers, int64_t n, int64_t step) {
    constexpr int width = Simd<T>::width;
    double partial[size_t(width)] = {};
    int64_t i = 0;
    for (; step == 1 && i + width <= n; i += width) add_in_double<T>(partial, load(numbers + i));
    for (; i < n; ++i) partial[i % width] += static_cast<double>(numbers[i * step]);
    for (int half = width / 2; half > 0; half /= 2)
        for (int k = 0; k < half; ++k) partial[k] += partial[k + half];
    return partial[0];
}

// Writes sums of the gate gradient of the times [time, time + steps), ascending, in the shape [steps or 1][channels or
// 1], to grad_gate, or to the block's `sums` where that is not null.
template <typename T>
void flush_sums(const LinearCall& p, const LinearBlock& block, const Row& row, int64_t time, int64_t steps,
                const double* sums, double* to) {
    const Tensor& t = p.grad_gate;
    const int64_t batch = p.sum_batch ? 0 : row.batch, times = p.sum_time ? 1 : steps;
    const int64_t first = p.sum_channels ? 0 : block.c0, channels = p.sum_channels ? 1 : block.c1 - block.c0;
    if (p.sum_time) time = 0;
    for (int64_t i = 0; i < times; ++i) {
        for (int64_t c = 0; c < channels; ++c) {
            const double* from = sums + (i * channels + c) * t.parts;
            if (to != nullptr) {
                const int64_t all_times = p.sum_time ? 1 : p.time, all_channels = p.sum_channels ? 1 : p.channels;
                const int64_t index = ((batch * all_times + time + i) * all_channels + first + c) * t.parts;
                for (int k = 0; k < t.parts; ++k) to[index + k] = from[k];
                continue;
            }
            char* target = address(t, batch, time + i, first + c);
            with_number<T>(t.number, [&](auto form) {
                auto* numbers = reinterpret_cast<typename decltype(form)::Type*>(target);
                for (int k = 0; k < t.parts; ++k) numbers[k] = form.put(static_cast<T>(from[k]));
            });
        }
    }
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
