// SPDX-License-Identifier: Apache-2.0
// Recurrent networks, step by step: the formulas of math/rnn.h on vectors of neighbouring elements of a head.
//
// A block is one head of some sequences. One thread walks it from the first step to the last. Where there are fewer
// blocks than threads and R is large, several threads walk it together: each owns some of its elements and some columns
// of its products, and they wait at a barrier before a product, which reads all of the left factor, and after it.
// Blocks share nothing. Sequences are sorted by length, so that those that still run at step i are the first of the
// block. Each step multiplies their h (in backward the gradients of the pre-activations), a few rows, by the head's R
// (R^T), and then computes the cell for each element. Each step reads R from the caches, once for every tile of rows.
// Memory sees INPUT and OUTPUT once (in training also what the cell keeps), and R wherever a core's caches do not hold
// its G D D numbers.
//
// Buffers of a block have vector v of row r at (v pitch + r) W, which is the product's Left::blocks. Lanes past D of
// left factors stay 0; those of other buffers hold anything and are never stored.
#pragma once

#include "cpu/kernels/rnn_direct.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The buffers of a block, and this thread's share of the work on it.
template <typename Cell, typename T>
struct Buffers {
    static constexpr int W = Simd<T>::width, G = Cell::gates, S = Cell::states;

    static int64_t factor_numbers(const RnnCall& c, bool backward) { return c.depth * (backward ? G : 1); }
    static int64_t product_pitch(const RnnCall& c, bool backward, int group) {
        return backward ? c.width : padded_width<T>(gates_of<Cell>(group) * c.dim);
    }
    static int64_t numbers(const RnnCall& c, int64_t rows, bool backward) {
        int64_t row = S * c.depth + factor_numbers(c, backward) + c.depth;
        for (int group = 0; group < num_groups<Cell>; ++group) row += product_pitch(c, backward, group);
        return rows * row + W;
    }

    Buffers(const RnnCall& call, const RnnBlock& block, bool backward)
        : c(call), b(block), pitch(block.end - block.begin), is_backward(backward) {
        T* at = reinterpret_cast<T*>(block.buffer);
        begin = first(c.depth / W) * W;
        end = last(c.depth / W) * W;
        states = at;
        factors[0] = backward ? at + S * c.depth * pitch : at;  // forward: h itself
        factors[1] = backward ? factors[0] + gates_of<Cell>(0) * c.depth * pitch : at + S * c.depth * pitch;
        at += pitch * (S * c.depth + factor_numbers(c, backward) + c.depth);
        for (int group = 0; group < num_groups<Cell>; ++group) {
            products[group] = at;
            at += pitch * product_pitch(c, backward, group);
        }
        const T* m = reinterpret_cast<const T*>(c.panels) + b.head * c.panel_numbers;
        for (int group = 0; group < num_groups<Cell>; ++group) {
            matrices[group] = m;
            m += depth_of(group) * product_pitch(c, backward, group);
        }
    }

    // Fills left factors and states with zeros. One of the block's threads does that, and the others wait for it.
    void clear() const {
        const int64_t count = pitch * (S * c.depth + factor_numbers(c, is_backward));
        for (int64_t i = 0; b.member == 0 && i < count; ++i) states[i] = 0;
        wait();
    }
    void wait() const {
        if (b.members > 1) b.wait(b.barrier);
    }
    // This thread's share of `count` things is [first, last).
    int64_t first(int64_t count) const { return count * b.member / b.members; }
    int64_t last(int64_t count) const { return count * (b.member + 1) / b.members; }

    int64_t depth_of(int group) const { return c.depth * (is_backward ? gates_of<Cell>(group) : 1); }
    const RnnSequence& sequence(int64_t r) const { return c.sequences[b.begin + r]; }
    T* state(int s, int64_t r, int64_t d) const { return states + s * c.depth * pitch + (d / W * pitch + r) * W; }
    T* factor(int group, int64_t r, int64_t k) const { return factors[group] + (k / W * pitch + r) * W; }
    // In backward: where the gradient is that gate g's rows of R are multiplied by.
    T* factor_of_gate(int g, int64_t r, int64_t d) const {
        const int group = group_of<Cell>(g);
        return factor(group, r, (g - first_gate<Cell>(group)) * c.depth + d);
    }
    const T* product(int group, int64_t r) const { return products[group] + r * product_pitch(c, is_backward, group); }

    // Waits until all threads have written the left factor, computes this thread's columns of a product, and waits
    // until all threads have computed theirs.
    void multiply(int group, int64_t rows) const {
        wait();
        if (c.direct)
            multiply_directly(group, rows);
        else
            multiply_panels(group, rows);
        wait();
    }
    void multiply_panels(int group, int64_t rows) const {
        const int64_t y_pitch = product_pitch(c, is_backward, group), panels = y_pitch / panel_width<T>;
        const int64_t column = first(panels) * panel_width<T>;
        FLASHSCAN_ISA::multiply<Left::blocks, T>(
            {factors[group], pitch, rows, depth_of(group), matrices[group] + column * depth_of(group),
             last(panels) - first(panels), products[group] + column, y_pitch, false});
    }
    void multiply_directly(int group, int64_t rows) const {
        const int64_t gates = gates_of<Cell>(group);
        for (int64_t gate = 0; gate < gates; ++gate) {
            const int64_t row = first(c.dim), size = bytes_of(c.weight_number);
            const int64_t block = weight_block(c, b.head, first_gate<Cell>(group) + gate) + row * c.dim;
            multiply_rows<T>({factors[group], pitch, rows, c.dim, c.weight + block * size, c.weight_number,
                              last(c.dim) - row, products[group] + gate * c.dim + row, product_pitch(c, false, group)});
        }
    }
    int64_t longest() const { return pitch > 0 ? sequence(0).length : 0; }
    // The number of `rows` that run at step i.
    int64_t running(int64_t rows, int64_t i) const {
        while (rows > 0 && sequence(rows - 1).length <= i) --rows;
        return rows;
    }

    const RnnCall& c;
    const RnnBlock& b;
    int64_t pitch;
    bool is_backward;
    int64_t begin, end;  // this thread's elements, in whole vectors: the last may reach past D
    T *states, *factors[2], *products[num_groups<Cell>];
    const T* matrices[num_groups<Cell>];
};

template <typename T>
FLASHSCAN_INLINE void store_lanes(T* p, Vec<T> v, int64_t left) {
    if (left >= Simd<T>::width)
        store<T>(p, v);
    else
        store_part<T>(p, v, static_cast<int>(left));
}

// Reads and writes elements of states in the user's layout, from d on. Without data the states are 0 or are not
// written.
template <std::size_t S, typename T>
FLASHSCAN_INLINE void get_states(const RnnCall& c, const char* data, const RnnSequence& s, int64_t head, int64_t d,
                                 int64_t left, Lanes<T> (&state)[S]) {
    for (std::size_t j = 0; j < S; ++j)
        state[j] =
            data == nullptr
                ? Lanes<T>(T(0))
                : Lanes<T>(get<T>(number_of_type<T>, data, state_place(c, static_cast<int64_t>(j), s, head) + d, left));
}
template <std::size_t S, typename T>
FLASHSCAN_INLINE void put_states(const RnnCall& c, char* data, const RnnSequence& s, int64_t head, int64_t d,
                                 int64_t left, const Lanes<T> (&state)[S]) {
    if (data == nullptr) return;
    for (std::size_t j = 0; j < S; ++j)
        put<T>(number_of_type<T>, data, state_place(c, static_cast<int64_t>(j), s, head) + d, left, state[j].v);
}

// Writes the states after a step to OUTPUT, whose first element of the step is `out`, and what the cell keeps of it to
// RESERVE, from `kept_at` on.
template <typename T, int S, int K>
FLASHSCAN_INLINE void put_step(const RnnCall& c, int64_t out, int64_t kept_at, int64_t d, int64_t left,
                               const LaneArray<T, S>& state, const LaneArray<T, K>& kept) {
    for (int j = 0; j < c.output_states; ++j)
        put<T>(c.output.number, c.output.data, out + j * c.output.state + d, left, state[j].v);
    for (int k = 0; c.reserve != nullptr && k < c.planes; ++k)
        put<T>(number_of_type<T>, c.reserve, kept_at + k * c.dim + d, left, kept[k].v);
}

// Reads those states before step i that the cell's backward uses; the others are 0.
template <typename Cell, typename T>
FLASHSCAN_INLINE void previous_states(const RnnCall& c, const RnnSequence& s, int64_t i, int64_t head, int64_t d,
                                      LaneArray<T, Cell::states>& state) {
    if (i == 0) return get_states(c, c.state_in, s, head, d, c.dim - d, state);
    LaneArray<T, Cell::kept> kept;
    get_kept<Cell, T>(c, s, step_of(c, s, i - 1), head, d, c.dim - d, kept);
    for (int j = 0; j < Cell::states; ++j) state[j] = Lanes<T>(T(0));
    Cell::states_of(kept, state);
}

// Reads the gradients of the states after a step that the user gives, whose first element is `out`.
template <typename T, int S>
FLASHSCAN_INLINE void get_given(const RnnCall& c, int64_t out, int64_t d, int64_t left, LaneArray<T, S>& given) {
    for (int j = 0; j < S; ++j)
        given[j] =
            j < c.output_states
                ? Lanes<T>(get<T>(c.grad_output.number, c.grad_output.data, out + j * c.grad_output.state + d, left))
                : Lanes<T>(T(0));
}

// Reads the gradients of the states after the last step, and writes those of the states before the first one.
template <typename Cell, typename T>
FLASHSCAN_INLINE void enter_last(const RnnCall& c, const RnnSequence& s, int64_t head, int64_t d,
                                 LaneArray<T, Cell::states>& carry) {
    LaneArray<T, Cell::states> given;
    get_states(c, c.grad_state_out, s, head, d, c.dim - d, given);
    for (int j = 0; j < Cell::states; ++j) carry[j] = s.length == 0 ? given[j] : Lanes<T>(T(0));
    if (s.length == 0) return;
    LaneArray<T, Cell::kept> kept;
    get_kept<Cell, T>(c, s, step_of(c, s, s.length - 1), head, d, c.dim - d, kept);
    Cell::enter(given, kept, carry);
}
template <typename Cell, typename T>
FLASHSCAN_INLINE void leave_first(const RnnCall& c, const RnnSequence& s, int64_t head, int64_t d,
                                  LaneArray<T, Cell::states>& carry) {
    LaneArray<T, Cell::states> first;
    get_states(c, c.state_in, s, head, d, c.dim - d, first);
    if (s.length > 0) Cell::leave(first, carry);
    put_states(c, c.grad_state_in, s, head, d, c.dim - d, carry);
}

// Limits gradients that pass R.
template <typename T>
FLASHSCAN_INLINE Vec<T> clipped(const RnnCall& c, Vec<T> through) {
    if (c.clip == 0) return through;
    const T limit = static_cast<T>(c.clip);
    return through > limit ? splat<T>(limit) : through < -limit ? splat<T>(-limit) : through;
}

template <typename Cell, typename T>
struct Forward {
    static constexpr int W = Simd<T>::width, G = Cell::gates, S = Cell::states, P = Cell::biases;
    const RnnCall& c;
    const RnnBlock& b;
    Buffers<Cell, T> m;

    Forward(const RnnCall& call, const RnnBlock& block) : c(call), b(block), m(call, block, false) {}

    void run() {
        m.clear();
        for (int64_t r = 0; r < m.pitch; ++r) start(r);
        int64_t rows = m.pitch;
        for (int64_t i = 0; i < m.longest(); ++i) {
            rows = m.running(rows, i);
            for (int64_t r = 0; r < rows; ++r)
                if (resets(c, m.sequence(r), step_of(c, m.sequence(r), i))) clear(r);
            m.multiply(0, rows);
            if constexpr (Cell::resets_before) {
                for (int64_t r = 0; r < rows; ++r) reset_product(r, i);
                m.multiply(1, rows);
            }
            for (int64_t r = 0; r < rows; ++r) step(r, i);
        }
        for (int64_t r = 0; r < m.pitch; ++r) finish(r);
    }

    void start(int64_t r) {
        for (int64_t d = m.begin; d < m.end; d += W) {
            LaneArray<T, S> state;
            get_states(c, c.state_in, m.sequence(r), b.head, d, c.dim - d, state);
            for (int s = 0; s < S; ++s) store<T>(m.state(s, r, d), state[s].v);
        }
    }
    void clear(int64_t r) {
        for (int64_t d = m.begin; d < m.end; d += W)
            for (int s = 0; s < S; ++s) store<T>(m.state(s, r, d), Vec<T>{});
    }
    void finish(int64_t r) {
        for (int64_t d = m.begin; d < m.end; d += W) {
            LaneArray<T, S> state;
            for (int s = 0; s < S; ++s) state[s] = Lanes<T>(load(m.state(s, r, d)));
            put_states(c, c.state_out, m.sequence(r), b.head, d, c.dim - d, state);
        }
    }

    // These read BIAS, INPUT and the product of a gate, which step() adds in the order of the definition.
    FLASHSCAN_INLINE Vec<T> bias(int p, int64_t d) const {
        return load(reinterpret_cast<const T*>(c.bias_numbers) + (p * c.heads + b.head) * c.depth + d);
    }
    FLASHSCAN_INLINE Vec<T> input(int g, int64_t start, int64_t d) const {
        return get<T>(c.input.number, c.input.data, start + g * c.input.state + d, c.dim - d);
    }
    FLASHSCAN_INLINE Vec<T> product(int g, int64_t r, int64_t d) const {
        const int group = group_of<Cell>(g);
        return load(m.product(group, r) + (g - first_gate<Cell>(group)) * c.dim + d);
    }

    // Computes the left factor of the last gate's product where the reset is applied before it.
    void reset_product(int64_t r, int64_t i) {
        const RnnSequence& s = m.sequence(r);
        const int64_t start = place(c, c.input, 0, s, step_of(c, s, i), b.head);
        for (int64_t d = m.begin; d < m.end; d += W) {
            const Lanes<T> pre((input(0, start, d) + bias(0, d)) + product(0, r, d));
            store_lanes<T>(m.factor(1, r, d), Cell::reset(pre, Lanes<T>(load(m.state(0, r, d)))).v, c.dim - d);
        }
    }

    void step(int64_t r, int64_t i) {
        const RnnSequence& s = m.sequence(r);
        const int64_t t = step_of(c, s, i), in = place(c, c.input, 0, s, t, b.head);
        const int64_t out = place(c, c.output, 0, s, t, b.head), kept_at = reserve_place(c, s, t, b.head);
        for (int64_t d = m.begin; d < m.end; d += W) {
            const int64_t left = c.dim - d;
            LaneArray<T, P> pre;
            LaneArray<T, S> state;
            LaneArray<T, Cell::kept> kept;
            for (int p = 0; p < P; ++p) pre[p] = Lanes<T>(bias(p, d));
            for (int g = 0; g < G; ++g) pre[g] += Lanes<T>(input(g, in, d));
            for (int g = 0; g < G; ++g) pre[Cell::recurrent(g)] += Lanes<T>(product(g, r, d));
            for (int j = 0; j < S; ++j) state[j] = Lanes<T>(load(m.state(j, r, d)));
            Cell::forward(pre, state, kept);
            store_lanes<T>(m.state(0, r, d), state[0].v, left);
            for (int j = 1; j < S; ++j) store<T>(m.state(j, r, d), state[j].v);
            put_step<T, S, Cell::kept>(c, out, kept_at, d, left, state, kept);
        }
    }
};

template <typename Cell, typename T>
struct Backward {
    static constexpr int W = Simd<T>::width, G = Cell::gates, S = Cell::states, P = Cell::biases, K = Cell::kept;
    const RnnCall& c;
    const RnnBlock& b;
    Buffers<Cell, T> m;  // its states are the gradients that are carried backward

    Backward(const RnnCall& call, const RnnBlock& block) : c(call), b(block), m(call, block, true) {}

    void run() {
        m.clear();
        for (int64_t r = 0; r < m.pitch; ++r) start(r);
        for (int64_t i = m.longest() - 1; i >= 0; --i) {
            const int64_t rows = m.running(m.pitch, i);
            for (int64_t r = 0; r < rows; ++r) step(r, i);
            if constexpr (Cell::resets_before) {
                m.multiply(1, rows);
                for (int64_t r = 0; r < rows; ++r) reset_gradient(r, i);
            }
            m.multiply(0, rows);
            for (int64_t r = 0; r < rows; ++r) through_product(r, i);
        }
        for (int64_t r = 0; r < m.pitch; ++r) finish(r);
    }

    FLASHSCAN_INLINE void previous_or_reset(const RnnSequence& s, int64_t i, int64_t d, LaneArray<T, S>& state) const {
        if (resets(c, s, step_of(c, s, i)))
            for (int j = 0; j < S; ++j) state[j] = Lanes<T>(T(0));
        else
            previous_states<Cell, T>(c, s, i, b.head, d, state);
    }

    void start(int64_t r) {
        const RnnSequence& s = m.sequence(r);
        for (int64_t p = 0; c.bias_sums != nullptr && p < P; ++p)
            for (int64_t d = m.begin; d < m.end; d += W) store<T>(bias_sum(r, static_cast<int>(p), d), Vec<T>{});
        for (int64_t d = m.begin; d < m.end; d += W) {
            LaneArray<T, S> carry;
            enter_last<Cell, T>(c, s, b.head, d, carry);
            for (int j = 0; j < S; ++j) store<T>(m.state(j, r, d), carry[j].v);
        }
    }
    void finish(int64_t r) {
        const RnnSequence& s = m.sequence(r);
        for (int64_t d = m.begin; d < m.end; d += W) {
            LaneArray<T, S> carry;
            for (int j = 0; j < S; ++j) carry[j] = Lanes<T>(load(m.state(j, r, d)));
            leave_first<Cell, T>(c, s, b.head, d, carry);
        }
    }

    T* bias_sum(int64_t r, int p, int64_t d) const {
        return reinterpret_cast<T*>(c.bias_sums) + (((b.begin + r) * P + p) * c.heads + b.head) * c.depth + d;
    }
    FLASHSCAN_INLINE void add_bias(int64_t r, int p, int64_t d, Lanes<T> gradient) const {
        if (c.bias_sums == nullptr) return;
        T* sum = bias_sum(r, p, d);
        store<T>(sum, load(sum) + gradient.v);
    }
    FLASHSCAN_INLINE void put_gate(int g, int64_t start, int64_t d, Lanes<T> gradient) const {
        if (c.input.data != nullptr)
            put<T>(c.input.number, c.input.data, start + g * c.input.state + d, c.dim - d, gradient.v);
    }

    void step(int64_t r, int64_t i) {
        const RnnSequence& s = m.sequence(r);
        const int64_t t = step_of(c, s, i), in = place(c, c.input, 0, s, t, b.head);
        const int64_t out = place(c, c.grad_output, 0, s, t, b.head);
        constexpr int first = Cell::resets_before ? 1 : 0;  // reset_gradient() completes the first gate's gradient
        for (int64_t d = m.begin; d < m.end; d += W) {
            const int64_t left = c.dim - d;
            LaneArray<T, S> given, previous, carry;
            LaneArray<T, K> kept;
            LaneArray<T, P> d_pre;
            get_given<T, S>(c, out, d, left, given);
            for (int j = 0; j < S; ++j) carry[j] = Lanes<T>(load(m.state(j, r, d)));
            get_kept<Cell, T>(c, s, t, b.head, d, left, kept);
            previous_or_reset(s, i, d, previous);
            Cell::enter(given, kept, carry);
            cell::backward<Cell>(kept, previous, carry, d_pre);
            for (int j = 0; j < S; ++j) store<T>(m.state(j, r, d), carry[j].v);
            for (int g = first; g < G; ++g) put_gate(g, in, d, d_pre[g]);
            for (int g = 0; g < G; ++g) store_lanes<T>(m.factor_of_gate(g, r, d), d_pre[Cell::recurrent(g)].v, left);
            for (int p = first; p < P; ++p) add_bias(r, p, d, d_pre[p]);
        }
    }

    // Adds the rest of the first gate's gradient, and replaces the product by what reaches h through the reset.
    void reset_gradient(int64_t r, int64_t i) {
        const RnnSequence& s = m.sequence(r);
        const int64_t t = step_of(c, s, i), in = place(c, c.input, 0, s, t, b.head);
        for (int64_t d = m.begin; d < m.end; d += W) {
            LaneArray<T, K> kept;
            LaneArray<T, S> previous;
            LaneArray<T, P> d_pre = {};
            get_kept<Cell, T>(c, s, t, b.head, d, c.dim - d, kept);
            previous_or_reset(s, i, d, previous);
            d_pre[0] = Lanes<T>(load(m.factor_of_gate(0, r, d)));
            T* part = m.products[num_groups<Cell> - 1] + r * c.width + d;
            const Lanes<T> through = Cell::backward_reset(kept, previous, Lanes<T>(load(part)), d_pre);
            store<T>(part, through.v);
            put_gate(0, in, d, d_pre[0]);
            store_lanes<T>(m.factor_of_gate(0, r, d), d_pre[0].v, c.dim - d);
            add_bias(r, 0, d, d_pre[0]);
        }
    }

    void through_product(int64_t r, int64_t i) {
        const RnnSequence& s = m.sequence(r);
        const bool reset = resets(c, s, step_of(c, s, i));
        for (int64_t d = m.begin; d < m.end; d += W) {
            Vec<T> through = load(m.product(0, r) + d);
            if constexpr (Cell::resets_before) through += load(m.product(1, r) + d);
            store<T>(m.state(0, r, d), reset ? Vec<T>{} : load(m.state(0, r, d)) + clipped<T>(c, through));
            for (int j = 1; reset && j < S; ++j) store<T>(m.state(j, r, d), Vec<T>{});
        }
    }
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
