// SPDX-License-Identifier: Apache-2.0
// Recurrent networks of heads of one unit, whose recurrent matrices are diagonals:
//
//     raw_g[t] = INPUT[t]_g + R_g h[t-1] + BIAS_g,   each a product of two numbers
//
// Nothing is shared between units, so that they are the lanes of vectors, as channels are elsewhere: a call has one
// head of `dim` units here, and `panels` are R as [G][depth]. A strip is some neighbouring units of a sequence. One
// thread walks it from the first step to the last, with the states and the sums over time in its buffer, which fits the
// innermost cache. Memory sees INPUT, OUTPUT and RESERVE once.
#pragma once

#include "cpu/kernels/rnn_steps.h"
#include "cpu/kernels/rnn_weights.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The working arrays of a strip, which both passes use: rows of `pitch` numbers.
template <typename Cell, typename T>
struct StripBuffer {
    static constexpr int W = Simd<T>::width, G = Cell::gates, S = Cell::states, P = Cell::biases;
    static int64_t numbers(int64_t units, bool backward) {
        return padded_depth<T>(units) * (S + (backward ? G + P : 0));
    }

    StripBuffer(const RnnCall& call, const RnnStrip& strip)
        : c(call), q(strip), s(call.sequences[strip.sequence]), pitch(padded_depth<T>(strip.end - strip.begin)) {}

    FLASHSCAN_INLINE T* row(int j, int64_t d) const { return reinterpret_cast<T*>(q.buffer) + j * pitch + d - q.begin; }
    FLASHSCAN_INLINE T* state(int j, int64_t d) const { return row(j, d); }
    FLASHSCAN_INLINE T* weight_sum(int g, int64_t d) const { return row(S + g, d); }
    FLASHSCAN_INLINE T* bias_sum(int p, int64_t d) const { return row(S + G + p, d); }
    FLASHSCAN_INLINE Vec<T> weight(int g, int64_t d) const {
        return load(reinterpret_cast<const T*>(c.panels) + g * c.depth + d);
    }
    FLASHSCAN_INLINE Vec<T> bias(int p, int64_t d) const {
        return load(reinterpret_cast<const T*>(c.bias_numbers) + p * c.depth + d);
    }
    FLASHSCAN_INLINE void load_states(int64_t d, bool reset, LaneArray<T, S>& state) const {
        for (int j = 0; j < S; ++j) state[j] = Lanes<T>(reset ? Vec<T>{} : load(row(j, d)));
    }
    FLASHSCAN_INLINE void store_states(int64_t d, bool reset, const LaneArray<T, S>& state) const {
        for (int j = 0; j < S; ++j) store<T>(row(j, d), reset ? Vec<T>{} : state[j].v);
    }

    const RnnCall& c;
    const RnnStrip& q;
    const RnnSequence& s;
    int64_t pitch;
};

template <typename Cell, typename T>
struct DiagonalForward : StripBuffer<Cell, T> {
    using Buffer = StripBuffer<Cell, T>;
    using Buffer::Buffer, Buffer::c, Buffer::q, Buffer::s, Buffer::W, Buffer::G, Buffer::S, Buffer::P;

    void run() const {
        LaneArray<T, S> state;
        for (int64_t d = q.begin; d < q.end; d += W) {
            get_states(c, c.state_in, s, 0, d, c.dim - d, state);
            this->store_states(d, false, state);
        }
        for (int64_t i = 0; i < s.length; ++i) step(i);
        for (int64_t d = q.begin; d < q.end; d += W) {
            this->load_states(d, false, state);
            put_states(c, c.state_out, s, 0, d, c.dim - d, state);
        }
    }

    void step(int64_t i) const {
        const int64_t t = step_of(c, s, i), in = place(c, c.input, 0, s, t, 0), out = place(c, c.output, 0, s, t, 0);
        const int64_t kept_at = reserve_place(c, s, t, 0);
        const bool reset = resets(c, s, t);
        for (int64_t d = q.begin; d < q.end; d += W) {
            const int64_t left = c.dim - d;
            LaneArray<T, P> pre;
            LaneArray<T, S> state;
            LaneArray<T, Cell::kept> kept;
            this->load_states(d, reset, state);
            for (int p = 0; p < P; ++p) pre[p] = Lanes<T>(this->bias(p, d));
            for (int g = 0; g < G; ++g)
                pre[g] += Lanes<T>(get<T>(c.input.number, c.input.data, in + g * c.input.state + d, left));
            for (int g = 0; g < G; ++g) {
                Lanes<T> factor = state[0];
                if constexpr (Cell::resets_before)
                    if (g == G - 1) factor = Cell::reset(pre[0], factor);
                Lanes<T>& sum = pre[Cell::recurrent(g)];
                sum = Lanes<T>(fused(this->weight(g, d), factor.v, sum.v));
            }
            Cell::forward(pre, state, kept);
            this->store_states(d, false, state);
            put_step<T, S, Cell::kept>(c, out, kept_at, d, left, state, kept);
        }
    }
};

template <typename Cell, typename T>
struct DiagonalBackward : StripBuffer<Cell, T> {
    using Buffer = StripBuffer<Cell, T>;
    using Buffer::Buffer, Buffer::c, Buffer::q, Buffer::s, Buffer::W, Buffer::G, Buffer::S, Buffer::P;
    static constexpr int K = Cell::kept;

    void run() const {
        LaneArray<T, S> carry;
        for (int64_t d = q.begin; d < q.end; d += W) {
            enter_last<Cell, T>(c, s, 0, d, carry);
            this->store_states(d, false, carry);
            for (int j = S; j < S + G + P; ++j) store<T>(this->row(j, d), Vec<T>{});
        }
        for (int64_t i = s.length - 1; i >= 0; --i) step(i);
        for (int64_t d = q.begin; d < q.end; d += W) {
            this->load_states(d, false, carry);
            leave_first<Cell, T>(c, s, 0, d, carry);
            for (int g = 0; c.weight_sums != nullptr && g < G; ++g)
                store<T>(sums_at(c.weight_sums, G, g, d), load(this->weight_sum(g, d)));
            for (int p = 0; c.bias_sums != nullptr && p < P; ++p)
                store<T>(sums_at(c.bias_sums, P, p, d), load(this->bias_sum(p, d)));
        }
    }
    T* sums_at(char* sums, int rows, int row, int64_t d) const {
        return reinterpret_cast<T*>(sums) + (q.sequence * rows + row) * c.depth + d;
    }

    // Reads the states before a step that backward looks at, and h among them in any case.
    FLASHSCAN_INLINE void previous_of(int64_t i, bool reset, int64_t d, LaneArray<T, S>& state) const {
        if (reset) {
            for (int j = 0; j < S; ++j) state[j] = Lanes<T>(T(0));
            return;
        }
        previous_states<Cell, T>(c, s, i, 0, d, state);
        if (!Cell::keeps_h && i > 0) {
            const int64_t before = place(c, c.output, 0, s, step_of(c, s, i - 1), 0);
            state[0] = Lanes<T>(get<T>(c.output.number, c.output.data, before + d, c.dim - d));
        }
    }

    void step(int64_t i) const {
        const int64_t t = step_of(c, s, i), in = place(c, c.input, 0, s, t, 0);
        const int64_t out = place(c, c.grad_output, 0, s, t, 0);
        const bool reset = resets(c, s, t);
        for (int64_t d = q.begin; d < q.end; d += W) {
            const int64_t left = c.dim - d;
            LaneArray<T, S> given, previous, carry;
            LaneArray<T, K> kept;
            LaneArray<T, P> d_pre;
            get_given<T, S>(c, out, d, left, given);
            get_kept<Cell, T>(c, s, t, 0, d, left, kept);
            previous_of(i, reset, d, previous);
            this->load_states(d, false, carry);
            Cell::enter(given, kept, carry);
            cell::backward<Cell>(kept, previous, carry, d_pre);
            Vec<T> through = {};
            for (int g = G - 1; g >= 0; --g) {
                Lanes<T> factor = previous[0];
                const Vec<T> gradient = d_pre[Cell::recurrent(g)].v, weight = this->weight(g, d);
                if constexpr (Cell::resets_before)
                    if (g == G - 1) {
                        factor = kept[0] * factor;
                        through = Cell::backward_reset(kept, previous, Lanes<T>(weight * gradient), d_pre).v;
                        add_product(g, d, gradient, factor.v);
                        continue;
                    }
                through = fused(weight, gradient, through);
                add_product(g, d, gradient, factor.v);
            }
            carry[0] += Lanes<T>(clipped<T>(c, through));
            this->store_states(d, reset, carry);
            for (int g = 0; c.input.data != nullptr && g < G; ++g)
                put<T>(c.input.number, c.input.data, in + g * c.input.state + d, left, d_pre[g].v);
            for (int p = 0; p < P; ++p) store<T>(this->bias_sum(p, d), load(this->bias_sum(p, d)) + d_pre[p].v);
        }
    }
    FLASHSCAN_INLINE void add_product(int g, int64_t d, Vec<T> gradient, Vec<T> factor) const {
        store<T>(this->weight_sum(g, d), fused(gradient, factor, load(this->weight_sum(g, d))));
    }
};

template <typename Cell, typename T>
void pack_diagonal(const RnnCall& c) {
    pack_rows<T>(c, c.weight, c.panels, Cell::gates);
}
template <typename Cell, typename T>
void diagonal_gradient(const RnnCall& c) {
    sum_sequences<T>(c, c.weight_sums, c.grad_weight, Cell::gates);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
