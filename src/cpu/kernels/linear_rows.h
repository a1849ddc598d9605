// SPDX-License-Identifier: Apache-2.0
// Linear recurrence, vectors along time: for data whose innermost axis is time. A vector holds W consecutive steps of
// one lane. With p = a and l = x (backward: p = a and l = a x, whose scan is the carry c), log2(W) times, k = 1, 2, 4
// ..
//
//     l += p shift(l, k),  p *= shift(p, k)        then  h = l + p carry        (backward: g = x + shift(c, 1))
//
// so only the last multiply-add waits for the vector before. Products of gates may overflow or meet an infinity where
// the recurrence does not: a vector whose result is not finite, or that holds a reset, is walked again step by step.
// One thread owns some lanes and reads each as one stream, in place where it lies as the arithmetic wants it, else
// through panels of 8 KB. Moves 2 reads and 1 write a number forward, 3 and 2 backward. Limits: real numbers.
// Pointers are to the lowest time; Mirror walks from the highest.
#pragma once

#include "cpu/kernels/linear_tile.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
struct RowTile {
    int64_t steps;
    const T *x, *gate, *slope;
    T* y;               // null: only the carry is wanted
    const T* previous;  // of the lowest time; null: no gate gradient
    T* grad;
    const uint8_t* reset;
    bool has_first;  // the last step walked has `first` before it instead of previous
    T first;
    T carry, product;
    bool any_reset;
};

template <typename T, bool Mirror>
FLASHSCAN_INLINE void scan(Vec<T>& l, Vec<T>& p) {
    constexpr int width = Simd<T>::width;
    const Vec<T> zero = {}, unit = splat<T>(1);
    l = fused(p, shift<1, Mirror, T>(l, zero), l);
    p *= shift<1, Mirror, T>(p, unit);
    if constexpr (width > 2) {
        l = fused(p, shift<2, Mirror, T>(l, zero), l);
        p *= shift<2, Mirror, T>(p, unit);
    }
    if constexpr (width > 4) {
        l = fused(p, shift<4, Mirror, T>(l, zero), l);
        p *= shift<4, Mirror, T>(p, unit);
    }
    if constexpr (width > 8) {
        l = fused(p, shift<8, Mirror, T>(l, zero), l);
        p *= shift<8, Mirror, T>(p, unit);
    }
}

// Steps [from, to) in walking order one by one.
template <typename T, bool Mirror, bool Backward>
void rows_steps(RowTile<T>& t, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
        const int64_t j = Mirror ? t.steps - 1 - i : i;
        const bool reset = t.reset != nullptr && t.reset[j] != 0;
        const T a = t.gate[j];
        t.any_reset = t.any_reset || reset;
        if constexpr (!Backward) {
            t.carry = reset ? t.x[j] : fused(a, t.carry, t.x[j]);
            if (t.y != nullptr) t.y[j] = t.carry;
            continue;
        }
        const T g = t.x[j] + t.carry;
        t.carry = reset ? T(0) : a * g;
        if (t.y != nullptr) t.y[j] = g;
        if (t.previous == nullptr) continue;
        const T h = t.has_first && i == t.steps - 1 ? t.first : t.previous[j];
        t.grad[j] = reset ? T(0) : g * (t.slope != nullptr ? h * t.slope[j] : h);
    }
}

// Asks for what comes 2 KB later where memory is walked downwards; upwards the hardware does better by itself.
template <typename T, bool Mirror>
FLASHSCAN_INLINE void look_ahead(const T* p) {
    if constexpr (Mirror) prefetch(reinterpret_cast<const char*>(p) - 2048);
}

template <typename T>
FLASHSCAN_INLINE bool resets_within(const uint8_t* reset) {
    constexpr int width = Simd<T>::width, bytes = width < 8 ? width : 8;
    uint64_t any = 0;
    for (int k = 0; k < width; k += bytes) {
        uint64_t word = 0;
        __builtin_memcpy(&word, reset + k, bytes);
        any |= word;
    }
    return any != 0;
}

template <typename T, bool Mirror, bool Stream>
void rows_forward(RowTile<T>& t) {
    constexpr int width = Simd<T>::width, last = Mirror ? 0 : width - 1;
    int64_t i = 0;
    Vec<T> carry = splat<T>(t.carry);
    for (; i + width <= t.steps; i += width) {
        const int64_t j = Mirror ? t.steps - width - i : i;
        look_ahead<T, Mirror>(t.x + j);
        look_ahead<T, Mirror>(t.gate + j);
        Vec<T> h = load(t.x + j), p = load(t.gate + j);
        scan<T, Mirror>(h, p);
        h = fused(p, carry, h);
        if (any_special(h) || (t.reset != nullptr && resets_within<T>(t.reset + j))) [[unlikely]] {
            t.carry = carry[0];
            rows_steps<T, Mirror, false>(t, i, i + width);
            carry = splat<T>(t.carry);
            continue;
        }
        carry = pick<last, T>(h);
        if (t.y == nullptr) continue;
        if constexpr (Stream)
            stream(t.y + j, h);
        else
            store<T>(t.y + j, h);
    }
    t.carry = carry[0];
    rows_steps<T, Mirror, false>(t, i, t.steps);
}

template <typename T, bool Mirror, bool Stream, bool Grad>
void rows_backward(RowTile<T>& t) {
    constexpr int width = Simd<T>::width, last = Mirror ? 0 : width - 1;
    int64_t i = 0;
    Vec<T> carry = splat<T>(t.carry);
    for (; i + width <= t.steps; i += width) {
        const int64_t j = Mirror ? t.steps - width - i : i;
        look_ahead<T, Mirror>(t.x + j);
        look_ahead<T, Mirror>(t.gate + j);
        if constexpr (Grad) look_ahead<T, Mirror>(t.previous + j);
        const Vec<T> x = load(t.x + j);
        Vec<T> p = load(t.gate + j), c = p * x;
        scan<T, Mirror>(c, p);
        c = fused(p, carry, c);
        const Vec<T> g = x + shift<1, Mirror, T>(c, carry);
        if (any_special((c - c) + (g - g)) || (t.reset != nullptr && resets_within<T>(t.reset + j))) [[unlikely]] {
            t.carry = carry[0];
            rows_steps<T, Mirror, true>(t, i, i + width);
            carry = splat<T>(t.carry);
            continue;
        }
        carry = pick<last, T>(c);
        if constexpr (Grad) {
            Vec<T> h;
            if (t.has_first && i + width == t.steps)
                h = shift<1, !Mirror, T>(load(t.previous + j + (Mirror ? 1 : -1)), splat<T>(t.first));
            else
                h = load(t.previous + j);
            if (t.slope != nullptr) h *= load(t.slope + j);
            if constexpr (Stream)
                stream(t.grad + j, g * h);
            else
                store<T>(t.grad + j, g * h);
        }
        if (t.y == nullptr) continue;
        if constexpr (Stream)
            stream(t.y + j, g);
        else
            store<T>(t.y + j, g);
    }
    t.carry = carry[0];
    rows_steps<T, Mirror, true>(t, i, t.steps);
}

// The carry and the product alone.
template <typename T, bool Mirror, bool Backward>
void rows_summarise(RowTile<T>& t) {
    constexpr int width = Simd<T>::width, last = Mirror ? 0 : width - 1;
    int64_t i = 0;
    Vec<T> carry = splat<T>(t.carry), product = splat<T>(1);
    for (; i + width <= t.steps; i += width) {
        const int64_t j = Mirror ? t.steps - width - i : i;
        look_ahead<T, Mirror>(t.x + j);
        look_ahead<T, Mirror>(t.gate + j);
        const Vec<T> x = load(t.x + j), a = load(t.gate + j);
        Vec<T> c = Backward ? a * x : x, p = a;
        scan<T, Mirror>(c, p);
        c = fused(p, carry, c);
        product *= a;
        if (any_special(c) || (t.reset != nullptr && resets_within<T>(t.reset + j))) [[unlikely]] {
            t.carry = carry[0];
            rows_steps<T, Mirror, Backward>(t, i, i + width);
            carry = splat<T>(t.carry);
            continue;
        }
        carry = pick<last, T>(c);
    }
    t.carry = carry[0];
    for (int64_t k = i; k < t.steps; ++k) t.product *= t.gate[Mirror ? t.steps - 1 - k : k];
    for (int k = 0; k < width; ++k) t.product *= product[k];
    rows_steps<T, Mirror, Backward>(t, i, t.steps);
}

// An engine: runs ranges of steps of one block of lanes.
template <typename T>
class Rows {
  public:
    Rows(const LinearCall& p, const LinearBlock& block, Work<T>& work)
        : p_(p), block_(block), w_(work), lanes_(block.c1 - block.c0) {}

    // Lanes are walked one after the other, each as far as possible.
    int64_t tile_steps() const {
        if (!p_.backward || !sums_gate(p_) || p_.sum_time) return int64_t(1) << 62;
        return panel_numbers<T> / (p_.sum_channels ? 1 : lanes_);
    }
    int64_t lanes() const { return lanes_; }
    static void one(T* product, int64_t lanes) {
        for (int64_t l = 0; l < lanes; ++l) product[l] = 1;
    }

    void apply(const Row& row, int64_t i, int64_t n, bool write) {
        const int64_t most = in_place() ? n : panel_numbers<T>;
        for (int64_t next = 0; next < lanes_; ++next) {
            // Lanes downwards too where time is: memory is walked without gaps.
            const int64_t l = p_.ascending ? next : lanes_ - 1 - next;
            for (int64_t k = 0; k < n; k += most) {
                const Part part = part_of(row, i + k, k + most < n ? most : n - k);
                RowTile<T> t = open(row, part, l);
                t.carry = w_.carry[l];
                apply_lane(t, row, part, l, write);
                w_.carry[l] = t.carry;
            }
        }
    }

    bool summarise(const Row& row, int64_t i, int64_t n) {
        const int64_t most = in_place() ? n : panel_numbers<T>;
        bool any = false;
        for (int64_t l = 0; l < lanes_; ++l) {
            for (int64_t k = 0; k < n; k += most) {
                RowTile<T> t = open(row, part_of(row, i + k, k + most < n ? most : n - k), l);
                t.carry = w_.local[l];
                t.product = w_.product[l];
                summarise_lane(t);
                w_.local[l] = t.carry;
                w_.product[l] = t.product;
                any = any || t.any_reset;
            }
        }
        return any;
    }

  private:
    // Walking steps [i, i + n) of a row and the lowest of their times.
    struct Part {
        int64_t i, n, time;
    };
    Part part_of(const Row& row, int64_t i, int64_t n) const {
        return {i, n, p_.ascending ? row.time(p_, i) : row.time(p_, i + n - 1)};
    }

    bool in_place() const {
        for (const Tensor* t : {&p_.x, &p_.y, &p_.gate, &p_.previous, &p_.grad_gate})
            if (t->data != nullptr && (!same_number<T>(t->number) || t->time != 1)) return false;
        return p_.form == 0 && !(p_.backward && sums_gate(p_));
    }

    void summarise_lane(RowTile<T>& t) const {
        if (p_.backward)
            p_.ascending ? rows_summarise<T, false, true>(t) : rows_summarise<T, true, true>(t);
        else
            p_.ascending ? rows_summarise<T, false, false>(t) : rows_summarise<T, true, false>(t);
    }

    char* at(const Tensor& t, const Row& row, int64_t time, int64_t l) const {
        return address(t, row.batch, time, block_.c0 + l);
    }
    static bool direct(const Tensor& t, int64_t n) { return same_number<T>(t.number) && (t.time == 1 || n == 1); }

    const T* read(const Tensor& t, T* panel, const Row& row, int64_t time, int64_t n, int64_t l) const {
        if (direct(t, n)) return reinterpret_cast<const T*>(at(t, row, time, l));
        if (n > 0) load_panel(panel, n, t.number, at(t, row, time, l), {1, 0, n, t.time, 1});
        return panel;
    }

    RowTile<T> open(const Row& row, const Part& part, int64_t l) {
        const int64_t time = part.time, n = part.n;
        RowTile<T> t{};
        t.steps = n;
        t.x = read(p_.x, w_.x, row, time, n, l);
        t.reset = reset_at(p_, row, time);
        t.gate = w_.gate;
        const Tensor& gate = p_.gate;
        if (p_.form == 0 && direct(gate, n) && (gate.time == 1 || n == 1)) {
            t.gate = reinterpret_cast<const T*>(at(gate, row, time, l));
            return t;
        }
        const int64_t distinct = gate.time == 0 ? 1 : n;
        const bool slope = p_.backward && p_.form != 0;
        t.slope = slope ? w_.slope : nullptr;
        load_panel(w_.gate, distinct, gate.number, at(gate, row, time, l), {1, 0, distinct, gate.time, 1});
        transform_gate<T, false>(p_.form, w_.gate, slope ? w_.slope : nullptr, distinct);
        for (int64_t k = distinct; k < n; ++k) {
            w_.gate[k] = w_.gate[0];
            if (slope) w_.slope[k] = w_.slope[0];
        }
        return t;
    }

    void apply_lane(RowTile<T>& t, const Row& row, const Part& part, int64_t l, bool write) {
        const int64_t time = part.time, n = part.n;
        const bool write_y = write && p_.y.data != nullptr, y_direct = write_y && direct(p_.y, n);
        const bool grads = write && p_.backward && p_.grad_gate.data != nullptr;
        const bool grad_direct = grads && !sums_gate(p_) && direct(p_.grad_gate, n);
        if (write_y) t.y = y_direct ? reinterpret_cast<T*>(at(p_.y, row, time, l)) : w_.y;
        if (grads) {
            t.grad = grad_direct ? reinterpret_cast<T*>(at(p_.grad_gate, row, time, l)) : w_.grad;
            read_previous(t, row, part, l);
        }
        const bool stream = p_.stream_stores && (!write_y || y_direct) && (!grads || grad_direct) && aligned(t);
        run(t, stream);
        if (write_y && !y_direct) store_panel(w_.y, n, p_.y.number, at(p_.y, row, time, l), {1, 0, n, p_.y.time, 1});
        if (!grads || grad_direct) return;
        if (!sums_gate(p_))
            store_panel(w_.grad, n, p_.grad_gate.number, at(p_.grad_gate, row, time, l),
                        {1, 0, n, p_.grad_gate.time, 1});
        else
            add_sums(n, l);
    }

    bool aligned(const RowTile<T>& t) const {
        const int64_t top = p_.ascending ? 0 : t.steps;
        return reinterpret_cast<uintptr_t>(t.y + top) % vector_bytes == 0 &&
               (t.grad == nullptr || reinterpret_cast<uintptr_t>(t.grad + top) % vector_bytes == 0);
    }

    // OUTPUT one step earlier in the order of the recurrence: one lower where backward walks down.
    void read_previous(RowTile<T>& t, const Row& row, const Part& part, int64_t l) {
        const int64_t time = part.time, n = part.n;
        const int64_t shift = p_.ascending ? 1 : -1;
        t.has_first = part.i + n == row.steps();
        if (t.has_first && p_.first_state != nullptr)
            t.first = reinterpret_cast<const T*>(p_.first_state)[row.index * p_.channels + block_.c0 + l];
        if (p_.previous.time == 1 && same_number<T>(p_.previous.number)) {
            t.previous = reinterpret_cast<const T*>(at(p_.previous, row, time, l)) + shift;
            return;
        }
        // The lowest time has no step before it when backward walks down to the row's first, and so for the highest.
        const int64_t skip = t.has_first && !p_.ascending ? 1 : 0, count = n - (t.has_first ? 1 : 0);
        if (count > 0)
            load_panel(w_.previous + skip, count, p_.previous.number, at(p_.previous, row, time + shift + skip, l),
                       {1, 0, count, p_.previous.time, 1});
        if (t.has_first) w_.previous[skip == 1 ? 0 : n - 1] = t.first;
        t.has_first = false;
        t.previous = w_.previous;
    }

    void run(RowTile<T>& t, bool stream) const {
        if (p_.ascending)
            stream ? run_walk<false, true>(t) : run_walk<false, false>(t);
        else
            stream ? run_walk<true, true>(t) : run_walk<true, false>(t);
    }
    template <bool Mirror, bool Stream>
    void run_walk(RowTile<T>& t) const {
        if (!p_.backward)
            rows_forward<T, Mirror, Stream>(t);
        else if (t.previous != nullptr)
            rows_backward<T, Mirror, Stream, true>(t);
        else
            rows_backward<T, Mirror, Stream, false>(t);
    }

    void add_sums(int64_t n, int64_t l) const {
        if (p_.sum_time) {
            w_.sums[p_.sum_channels ? 0 : l] += add_up(w_.grad, n, 1);
            return;
        }
        const int64_t stride = p_.sum_channels ? 1 : lanes_, first = p_.sum_channels ? 0 : l;
        for (int64_t j = 0; j < n; ++j) w_.sums[j * stride + first] += static_cast<double>(w_.grad[j]);
    }

    const LinearCall& p_;
    const LinearBlock& block_;
    Work<T>& w_;
    int64_t lanes_;
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
