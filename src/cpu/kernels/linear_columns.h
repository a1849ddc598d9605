// SPDX-License-Identifier: Apache-2.0
// Linear recurrence, vectors across channels: for every step, for every vector of lanes
//
//     forward    h = a h + x                       backward    g = dh + c,  da = g conj(previous a'),  c = conj(a) g
//
// One thread owns a block of channels (at most 8 KB of a step) and walks time with the carried state in its L1 cache.
// Tensors that lie as the arithmetic wants them are read and written in place, whole steps at a time, so that memory
// sees one stream per tensor; any other dtype, stride, broadcast or gate form goes through panels of 8 KB. Lanes are
// numbers: complex data with a real gate are twice as many real lanes, a complex gate pairs neighbours up.
// Moves 2 reads and 1 write a number forward, 3 and 2 backward. Each lane is computed in the order of the definition.
#pragma once

#include "cpu/kernels/linear_tile.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
struct View {
    T* data;
    int64_t pitch;
};

template <typename T>
struct ColumnTile {
    int64_t steps, lanes;
    View<T> x, gate, slope, y, previous, grad;
    T *carry, *product;
    const uint8_t* reset;  // of the first step, null: none
    int64_t reset_step;
};

// How far ahead of a lane to ask for memory, in numbers. 0 where memory is walked upwards without gaps, which the
// hardware does better by itself; 2 KB down where it is walked downwards without gaps; else the next step.
template <typename T>
FLASHSCAN_INLINE int64_t look_ahead(const ColumnTile<T>& t, const View<T>& v) {
    if (v.pitch == t.lanes) return 0;
    if (v.pitch == -t.lanes) return -2048 / int64_t(sizeof(T));
    return (1 + 2048 / (t.lanes * int64_t(sizeof(T)))) * v.pitch;
}

// Calls use(l, n) for whole vectors, n = 0, and for the rest of the lanes; downwards where time is, so that steps that
// touch are one walk through memory.
template <typename T, typename Use>
FLASHSCAN_INLINE void for_lanes(const ColumnTile<T>& t, Use use) {
    constexpr int64_t width = Simd<T>::width;
    const int64_t whole = t.lanes / width, rest = t.lanes % width;
    const bool down = t.x.pitch < 0;
    if (rest != 0) use(whole * width, static_cast<int>(rest));
    for (int64_t k = 0; k < whole; ++k) use((down ? whole - 1 - k : k) * width, 0);
}

template <typename T>
FLASHSCAN_INLINE Vec<T> get(const T* p, int n) {
    return n == 0 ? load(p) : load_part(p, n);
}
template <typename T, bool Stream>
FLASHSCAN_INLINE void put(T* p, Vec<T> v, int n) {
    if (n != 0)
        store_part<T>(p, v, n);
    else if constexpr (Stream)
        stream(p, v);
    else
        store<T>(p, v);
}

template <typename T, bool ComplexGate, bool Stream>
void columns_forward(const ColumnTile<T>& t) {
    const int64_t x_ahead = look_ahead(t, t.x), a_ahead = look_ahead(t, t.gate);
    for (int64_t i = 0; i < t.steps; ++i) {
        const T *x = t.x.data + i * t.x.pitch, *a = t.gate.data + i * t.gate.pitch;
        T* y = t.y.data + i * t.y.pitch;
        if (t.reset != nullptr && t.reset[i * t.reset_step] != 0) {
            for_lanes<T>(
                t, [&](int64_t l, int n) __attribute__((always_inline)) {
                    const Vec<T> h = get(x + l, n);
                    put<T, false>(t.carry + l, h, n);
                    put<T, Stream>(y + l, h, n);
                });
            continue;
        }
        for_lanes<T>(
            t, [&](int64_t l, int n) __attribute__((always_inline)) {
                prefetch(x + l + x_ahead);
                prefetch(a + l + a_ahead);
                const Vec<T> h = multiply_add<ComplexGate, false, T>(get(a + l, n), get(t.carry + l, n), get(x + l, n));
                put<T, false>(t.carry + l, h, n);
                put<T, Stream>(y + l, h, n);
            });
    }
}

template <typename T, bool ComplexGate, bool Stream, bool Grad, bool Slope>
void columns_backward(const ColumnTile<T>& t) {
    const int64_t x_ahead = look_ahead(t, t.x), a_ahead = look_ahead(t, t.gate);
    const int64_t previous_ahead = look_ahead(t, t.previous);
    for (int64_t i = 0; i < t.steps; ++i) {
        const T *x = t.x.data + i * t.x.pitch, *a = t.gate.data + i * t.gate.pitch;
        const T *slope = t.slope.data + i * t.slope.pitch, *previous = t.previous.data + i * t.previous.pitch;
        T *y = t.y.data + i * t.y.pitch, *grad = t.grad.data + i * t.grad.pitch;
        const bool reset = t.reset != nullptr && t.reset[i * t.reset_step] != 0;
        for_lanes<T>(
            t, [&](int64_t l, int n) __attribute__((always_inline)) {
                prefetch(x + l + x_ahead);
                prefetch(a + l + a_ahead);
                if constexpr (Grad) prefetch(previous + l + previous_ahead);
                const Vec<T> g = get(x + l, n) + get(t.carry + l, n);
                const Vec<T> c = multiply<ComplexGate, true, T>(get(a + l, n), g);
                put<T, false>(t.carry + l, reset ? Vec<T>{} : c, n);
                put<T, Stream>(y + l, g, n);
                if constexpr (Grad) {
                    Vec<T> h = get(previous + l, n);
                    if constexpr (Slope) h = multiply<ComplexGate, false, T>(get(slope + l, n), h);
                    put<T, Stream>(grad + l, reset ? Vec<T>{} : multiply<ComplexGate, true, T>(h, g), n);
                }
            });
    }
}

// The state that a zero carry ends in, and the product of the gates; returns whether there was a reset.
template <typename T, bool ComplexGate, bool Backward>
bool columns_summarise(const ColumnTile<T>& t) {
    const int64_t x_ahead = look_ahead(t, t.x), a_ahead = look_ahead(t, t.gate);
    bool any = false;
    for (int64_t i = 0; i < t.steps; ++i) {
        const T *x = t.x.data + i * t.x.pitch, *a = t.gate.data + i * t.gate.pitch;
        const bool reset = t.reset != nullptr && t.reset[i * t.reset_step] != 0;
        any = any || reset;
        for_lanes<T>(
            t, [&](int64_t l, int n) __attribute__((always_inline)) {
                prefetch(x + l + x_ahead);
                prefetch(a + l + a_ahead);
                const Vec<T> gate = get(a + l, n), carry = get(t.carry + l, n), in = get(x + l, n);
                const Vec<T> next = Backward ? multiply<ComplexGate, Backward, T>(gate, in + carry)
                                             : multiply_add<ComplexGate, Backward, T>(gate, carry, in);
                put<T, false>(t.carry + l, reset ? (Backward ? Vec<T>{} : in) : next, n);
                put<T, false>(t.product + l, multiply<ComplexGate, Backward, T>(gate, get(t.product + l, n)), n);
            });
    }
    return any;
}

// An engine: runs ranges of steps of one block of channels.
template <typename T, bool ComplexGate>
class Columns {
  public:
    Columns(const LinearCall& p, const LinearBlock& block, Work<T>& work)
        : p_(p),
          block_(block),
          w_(work),
          channels_(block.c1 - block.c0),
          parts_(p.x.parts),
          lanes_(channels_ * parts_),
          pitch_((lanes_ + Simd<T>::width - 1) / Simd<T>::width * Simd<T>::width),
          whole_(lanes_ == pitch_ || lanes_ >= 4 * Simd<T>::width) {
        if (lanes_ == pitch_) return;
        // Panels are read in whole vectors.
        for (T* panel : {w_.x, w_.y, w_.previous, w_.grad, w_.gate, w_.slope})
            for (int64_t i = 0; i < panel_numbers<T>; ++i) panel[i] = 0;
        for (T* state : {w_.carry, w_.local, w_.product})
            for (int64_t l = lanes_; l < pitch_; ++l) state[l] = 0;
    }

    int64_t tile_steps() const {
        const bool in_place = gate_direct() && direct(p_.x) && direct(p_.y) && direct(p_.previous) &&
                              direct(p_.grad_gate) && !(p_.backward && sums_gate(p_));
        return in_place ? 512 : panel_numbers<T> / pitch_;
    }

    // Steps [i, i + n) of `row` from the carry in work.carry. Without `write` only the carry changes.
    void apply(const Row& row, int64_t i, int64_t n, bool write) {
        ColumnTile<T> t = open(row, i, n);
        const int64_t time = row.time(p_, i);
        const bool grads = write && p_.backward && p_.grad_gate.data != nullptr;
        t.y = write && p_.y.data != nullptr ? target(p_.y, w_.y, row, time) : View<T>{w_.y, 0};
        bool stream = write && p_.stream_stores && aligned(p_.y, t.y);
        const bool grad_direct = grads && !sums_gate(p_) && direct(p_.grad_gate);
        if (grads) {
            t.grad = grad_direct ? target(p_.grad_gate, w_.grad, row, time) : View<T>{w_.grad, pitch_};
            stream = stream && (!grad_direct || aligned(p_.grad_gate, t.grad));
            run_with_previous(t, row, i, n, stream);
        } else {
            run(t, stream, false);
        }
        if (!write) return;
        if (p_.y.data != nullptr && !direct(p_.y)) put_back(p_.y, w_.y, row, time, n);
        if (grads && sums_gate(p_)) add_sums(n);
        if (grads && !sums_gate(p_) && !grad_direct) store_grad(row, time, n);
    }

    bool summarise(const Row& row, int64_t i, int64_t n) {
        ColumnTile<T> t = open(row, i, n);
        t.carry = w_.local;
        t.product = w_.product;
        return p_.backward ? columns_summarise<T, ComplexGate, true>(t) : columns_summarise<T, ComplexGate, false>(t);
    }

    static void one(T* product, int64_t lanes) {
        for (int64_t l = 0; l < lanes; ++l) product[l] = ComplexGate && (l & 1) != 0 ? T(0) : T(1);
    }
    int64_t lanes() const { return lanes_; }

  private:
    int64_t sign() const { return p_.ascending ? 1 : -1; }

    bool direct(const Tensor& t) const {
        return t.data == nullptr ||
               (whole_ && same_number<T>(t.number) && t.parts == parts_ && (t.channels == parts_ || channels_ == 1));
    }
    bool gate_direct() const { return p_.form == 0 && direct(p_.gate); }
    bool aligned(const Tensor& t, const View<T>& v) const {
        return t.data != nullptr && direct(t) && reinterpret_cast<uintptr_t>(v.data) % vector_bytes == 0 &&
               v.pitch * int64_t(sizeof(T)) % vector_bytes == 0;
    }

    View<T> target(const Tensor& t, T* panel, const Row& row, int64_t time) const {
        if (!direct(t)) return {panel, pitch_};
        return {reinterpret_cast<T*>(address(t, row.batch, time, block_.c0)), sign() * t.time};
    }
    View<T> read(const Tensor& t, T* panel, const Row& row, int64_t time, int64_t n) const {
        if (direct(t)) return target(t, panel, row, time);
        if (n > 0)
            load_panel(panel, pitch_, t.number, address(t, row.batch, time, block_.c0),
                       {n, sign() * t.time, channels_, t.channels, t.parts});
        return {panel, pitch_};
    }
    void put_back(const Tensor& t, const T* panel, const Row& row, int64_t time, int64_t n) const {
        store_panel(panel, pitch_, t.number, address(t, row.batch, time, block_.c0),
                    {n, sign() * t.time, channels_, t.channels, t.parts});
    }

    ColumnTile<T> open(const Row& row, int64_t i, int64_t n) {
        const int64_t time = row.time(p_, i);
        ColumnTile<T> t{};
        t.steps = n;
        t.lanes = whole_ ? lanes_ : pitch_;
        t.carry = w_.carry;
        t.x = read(p_.x, w_.x, row, time, n);
        read_gate(t, row, time, n);
        t.reset = reset_at(p_, row, time);
        t.reset_step = sign();
        return t;
    }

    void read_gate(ColumnTile<T>& t, const Row& row, int64_t time, int64_t n) {
        const Tensor& gate = p_.gate;
        if (gate_direct()) {
            t.gate = read(gate, w_.gate, row, time, n);
            return;
        }
        const int64_t steps = gate.time == 0 ? 1 : n;
        const int64_t pitch = steps == 1 ? 0 : pitch_;
        const bool slope = p_.backward && p_.form != 0;
        t.gate = {w_.gate, pitch};
        t.slope = {w_.slope, pitch};
        if (steps == 1 && n > 1 && gate_row_ == row.batch) return;
        gate_row_ = gate.time == 0 ? row.batch : -1;
        const int64_t channels = gate.channels == 0 ? 1 : channels_;
        const bool expand = channels < channels_ || gate.parts < parts_;
        const int64_t from_pitch = expand ? channels * gate.parts : pitch_;
        T *to = expand ? w_.compact_gate : w_.gate, *to_slope = expand ? w_.compact_slope : w_.slope;
        load_panel(to, from_pitch, gate.number, address(gate, row.batch, time, block_.c0),
                   {steps, sign() * gate.time, channels, gate.channels, gate.parts});
        transform_gate<T, ComplexGate>(p_.form, to, slope ? to_slope : nullptr, steps * from_pitch);
        if (!expand) return;
        spread(w_.gate, w_.compact_gate, steps, channels);
        if (slope) spread(w_.slope, w_.compact_slope, steps, channels);
    }

    // Gates of fewer channels or fewer parts than the data, once for every lane.
    void spread(T* to, const T* from, int64_t steps, int64_t channels) const {
        const int64_t parts = p_.gate.parts;
        for (int64_t i = 0; i < steps; ++i)
            for (int64_t c = 0; c < channels_; ++c)
                for (int64_t k = 0; k < parts_; ++k)
                    to[i * pitch_ + c * parts_ + k] =
                        from[(i * channels + (channels == 1 ? 0 : c)) * parts + (parts == 1 ? 0 : k)];
    }

    // The step before the row's first is its initial state, not an element of OUTPUT.
    void run_with_previous(ColumnTile<T> t, const Row& row, int64_t i, int64_t n, bool stream) {
        const int64_t rest = i + n == row.steps() ? n - 1 : n;
        if (rest > 0) {
            t.steps = rest;
            t.previous = read(p_.previous, w_.previous, row, row.time(p_, i + 1), rest);
            run(t, stream, true);
        }
        if (rest == n) return;
        const T* first = reinterpret_cast<const T*>(p_.first_state);
        for (int64_t l = 0; l < lanes_; ++l)
            w_.previous[l] = first == nullptr ? T(0) : first[(row.index * p_.channels + block_.c0) * parts_ + l];
        t.steps = 1;
        for (View<T>* v : {&t.x, &t.gate, &t.slope, &t.y, &t.grad}) v->data += rest * v->pitch;
        if (t.reset != nullptr) t.reset += rest * t.reset_step;
        t.previous = {w_.previous, 0};
        run(t, stream, true);
    }

    void run(const ColumnTile<T>& t, bool stream, bool grad) const {
        if (!p_.backward)
            stream ? columns_forward<T, ComplexGate, true>(t) : columns_forward<T, ComplexGate, false>(t);
        else if (!grad)
            stream ? columns_backward<T, ComplexGate, true, false, false>(t)
                   : columns_backward<T, ComplexGate, false, false, false>(t);
        else if (p_.form == 0)
            stream ? columns_backward<T, ComplexGate, true, true, false>(t)
                   : columns_backward<T, ComplexGate, false, true, false>(t);
        else
            columns_backward<T, ComplexGate, false, true, true>(t);
    }

    // Real gates of complex data take the real part: the sum over both numbers.
    void fold_parts(int64_t n) const {
        if (p_.gate.parts == parts_) return;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t c = 0; c < channels_; ++c)
                w_.grad[i * pitch_ + c] = w_.grad[i * pitch_ + 2 * c] + w_.grad[i * pitch_ + 2 * c + 1];
    }

    void store_grad(const Row& row, int64_t time, int64_t n) const {
        fold_parts(n);
        put_back(p_.grad_gate, w_.grad, row, time, n);
    }

    void add_sums(int64_t n) const {
        fold_parts(n);
        const int64_t parts = p_.gate.parts, numbers = channels_ * parts;
        for (int64_t i = 0; i < n; ++i) {
            const T* grad = w_.grad + i * pitch_;
            const int64_t at = p_.sum_time ? 0 : p_.ascending ? i : n - 1 - i;
            if (p_.sum_channels)
                for (int64_t k = 0; k < parts; ++k) w_.sums[at * parts + k] += add_up(grad + k, channels_, parts);
            else
                for (int64_t l = 0; l < numbers; ++l) w_.sums[at * numbers + l] += static_cast<double>(grad[l]);
        }
    }

    const LinearCall& p_;
    const LinearBlock& block_;
    Work<T>& w_;
    int64_t channels_, parts_, lanes_, pitch_;
    bool whole_;
    int64_t gate_row_ = -1;
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
