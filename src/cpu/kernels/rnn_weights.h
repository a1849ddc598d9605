// SPDX-License-Identifier: Apache-2.0
// A recurrent network makes copies of WEIGHT and BIAS in panels and numbers before its steps, and sums over batch and
// time after them:
//
//     GRAD|WEIGHT[g][j][k] = sum over steps n of d_pre_g[n][j] h_before[n][k]
//
// One thread computes a slice of rows j as one product, in pieces of steps that fit the caches. d_pre is read from
// GRAD|INPUT, as it was stored, and h_before from OUTPUT and STATE_IN. A sum runs over the sequences in their order and
// over their steps in the order of computation, whatever the slices are.
#pragma once

#include "cpu/kernels/rnn_memory.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename Cell, typename T>
int64_t panel_numbers(const RnnCall& c, bool backward) {
    int64_t numbers = 0;
    for (int group = 0; group < num_groups<Cell>; ++group)
        numbers += backward ? gates_of<Cell>(group) * c.depth * c.width
                            : c.depth * padded_width<T>(gates_of<Cell>(group) * c.dim);
    return numbers;
}

template <typename Cell, typename T>
struct Packing {
    static constexpr int W = Simd<T>::width, width = panel_width<T>;
    const RnnCall& c;
    T* panels;  // the panels of the gate's group
    int64_t block, depth, gate;

    Packing(const RnnCall& call, int64_t head, int64_t g, bool backward)
        : c(call), panels(reinterpret_cast<T*>(c.panels) + head * c.panel_numbers), block(weight_block(c, head, g)) {
        const int group = group_of<Cell>(g);
        gate = g - first_gate<Cell>(group);
        depth = backward ? gates_of<Cell>(group) * c.depth : c.depth;
        if (group == 1)
            panels +=
                backward ? gates_of<Cell>(0) * c.depth * c.width : c.depth * padded_width<T>(gates_of<Cell>(0) * c.dim);
    }
    T& number(int64_t k, int64_t n) const { return panels[n / width * width * depth + k * width + n % width]; }

    // Packs R^T for y = R h: column gate D + j holds row j of the gate. Where W rows become the lanes of one vector of
    // a panel, squares of W rows by W numbers are transposed in registers; other rows are copied one by one.
    void forward(bool last_gate) const {
        for (int64_t j = 0; j < c.dim;) {
            const bool square = (gate * c.dim + j) % W == 0 && j + W <= c.dim;
            for (int64_t k = 0; k < c.dim; k += W)
                if (square)
                    forward_square(j, k);
                else
                    forward_row(j, k);
            j += square ? W : 1;
        }
        if (!last_gate) return;
        const int64_t end = (gate + 1) * c.dim;
        for (int64_t n = end; n < padded_width<T>(end); ++n)
            for (int64_t k = 0; k < c.depth; ++k) number(k, n) = 0;
    }
    void forward_row(int64_t j, int64_t k) const {
        const Vec<T> v = get<T>(c.weight_number, c.weight, block + j * c.dim + k, c.dim - k);
        T* to = &number(k, gate * c.dim + j);
        for (int i = 0; i < W; ++i) to[i * width] = v[i];
    }
    void forward_square(int64_t j, int64_t k) const {
        Vec<T> v[size_t{W}];
        for (int i = 0; i < W; ++i) v[i] = get<T>(c.weight_number, c.weight, block + (j + i) * c.dim + k, c.dim - k);
        transpose<T>(v);
        T* to = &number(k, gate * c.dim + j);
        for (int i = 0; i < W; ++i) store<T>(to + i * width, v[i]);
    }
    // Packs R for y = R^T d: row gate depth + j holds row j of the gate.
    void backward() const {
        for (int64_t n = 0; n < c.width; n += W)
            for (int64_t j = 0; j < c.depth; ++j) {
                const bool inside = j < c.dim && n < c.dim;
                const Vec<T> v =
                    inside ? get<T>(c.weight_number, c.weight, block + j * c.dim + n, c.dim - n) : Vec<T>{};
                store<T>(&number(gate * c.depth + j, n), v);
            }
    }
};

template <typename Cell, typename T>
void pack_weight(const RnnCall& c, int64_t head, int64_t gate, bool backward) {
    const Packing<Cell, T> packing(c, head, gate, backward);
    if (backward)
        packing.backward();
    else
        packing.forward(gate == Cell::gates - 1 || gate == gates_of<Cell>(0) - 1);
}

// Converts `rows` rows of D numbers of WEIGHT or BIAS, or zeros where `from` is null, to rows of `depth` numbers.
template <typename T>
void pack_rows(const RnnCall& c, const char* from, char* to, int64_t rows) {
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t d = 0; d < c.dim; d += Simd<T>::width)
            store<T>(reinterpret_cast<T*>(to) + row * c.depth + d,
                     from == nullptr ? Vec<T>{} : get<T>(c.weight_number, from, row * c.dim + d, c.dim - d));
}
template <typename Cell, typename T>
void pack_bias(const RnnCall& c) {
    pack_rows<T>(c, c.bias, c.bias_numbers, Cell::biases * c.heads);
}

// Adds up sums [sequences][rows][depth] over the sequences and writes `rows` rows of D numbers.
template <typename T>
void sum_sequences(const RnnCall& c, const char* data, char* to, int64_t rows) {
    const T* sums = reinterpret_cast<const T*>(data);
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t d = 0; d < c.dim; d += Simd<T>::width) {
            Vec<T> sum = {};
            for (int64_t n = 0; n < c.num_sequences; ++n) sum += load(sums + (n * rows + row) * c.depth + d);
            put<T>(c.weight_number, to, row * c.dim + d, c.dim - d, sum);
        }
}
template <typename Cell, typename T>
void bias_gradient(const RnnCall& c) {
    sum_sequences<T>(c, c.bias_sums, c.grad_bias, Cell::biases * c.heads);
}

template <typename Cell, typename T>
struct WeightGradient {
    static constexpr int W = Simd<T>::width;
    static constexpr int64_t piece = 256;  // the steps of a piece
    const RnnCall& c;
    const RnnSlice& q;
    int64_t pitch;
    T *left, *right, *sums;
    int64_t n = 0, i = 0;  // the next step is step i of sequence n

    static int64_t left_pitch(int64_t rows) { return padded_depth<T>(rows); }
    static int64_t numbers(const RnnCall& call, int64_t rows) { return piece * (left_pitch(rows) + call.width); }

    WeightGradient(const RnnCall& call, const RnnSlice& slice)
        : c(call),
          q(slice),
          pitch(left_pitch(slice.end - slice.begin)),
          left(reinterpret_cast<T*>(slice.buffer)),
          right(left + piece * pitch),
          sums(reinterpret_cast<T*>(c.panels) + q.head * c.panel_numbers + (q.gate * c.depth + q.begin) * c.width) {}

    void run() {
        const int64_t rows = q.end - q.begin;
        for (int64_t k = 0; k < rows * c.width; ++k) sums[k] = 0;
        for (int64_t steps = gather(); steps > 0; steps = gather())
            multiply<Left::columns, T>(
                {left, pitch, rows, steps, right, c.width / panel_width<T>, sums, c.width, true});
        for (int64_t j = 0; j < rows; ++j)
            for (int64_t k = 0; k < c.dim; k += W)
                put<T>(c.weight_number, c.grad_weight, weight_block(c, q.head, q.gate) + (q.begin + j) * c.dim + k,
                       c.dim - k, load(sums + j * c.width + k));
    }

    // Copies the factors of the next piece of steps; returns how many steps it has.
    int64_t gather() {
        const int64_t steps = remaining();
        const int64_t first_n = n, first_i = i;
        for (int64_t step = 0; step < steps; ++step, advance()) copy_left(step);
        n = first_n, i = first_i;
        for (int64_t step = 0; step < steps; ++step, advance()) copy_right(step, steps);
        return steps;
    }
    // Skips sequences that are done; returns the number of steps of the next piece.
    int64_t remaining() {
        int64_t steps = 0, at = i;
        while (n < c.num_sequences && i >= c.sequences[n].length) ++n, i = at = 0;
        for (int64_t s = n; s < c.num_sequences && steps < piece; ++s, at = 0) steps += c.sequences[s].length - at;
        return steps < piece ? steps : piece;
    }
    void advance() {
        ++i;
        while (n < c.num_sequences && i >= c.sequences[n].length) ++n, i = 0;
    }

    void copy_left(int64_t step) {
        const RnnSequence& s = c.sequences[n];
        const int64_t t = step_of(c, s, i), at = place(c, c.input, q.gate, s, t, q.head);
        for (int64_t j = q.begin; j < q.end; j += W) {
            Vec<T> v = get<T>(c.input.number, c.input.data, at + j, c.dim - j);
            // The gate has its product in a pre-activation of its own, R_n h + BIAS_rn, whose gradient GRAD|INPUT does
            // not hold: it is that of the gate times the reset gate.
            if (Cell::recurrent(static_cast<int>(q.gate)) != q.gate) v *= reset_gate(s, t, j);
            store<T>(left + step * pitch + (j - q.begin), v);
        }
    }
    void copy_right(int64_t step, int64_t steps) {
        const RnnSequence& s = c.sequences[n];
        const int64_t t = step_of(c, s, i);
        for (int64_t k = 0; k < c.width; k += W) {
            Vec<T> v = {};
            if (k < c.dim && !resets(c, s, t)) v = before(s, k);
            if (group_of<Cell>(q.gate) == 1 && k < c.dim) v *= reset_gate(s, t, k);
            store<T>(right + k / panel_width<T> * panel_width<T> * steps + step * panel_width<T> + k % panel_width<T>,
                     v);
        }
    }
    // Reads h before step i.
    FLASHSCAN_INLINE Vec<T> before(const RnnSequence& s, int64_t k) const {
        if (i > 0)
            return get<T>(c.output.number, c.output.data, place(c, c.output, 0, s, step_of(c, s, i - 1), q.head) + k,
                          c.dim - k);
        if (c.state_in == nullptr) return Vec<T>{};
        return get<T>(number_of_type<T>, c.state_in, state_place(c, 0, s, q.head) + k, c.dim - k);
    }
    FLASHSCAN_INLINE Vec<T> reset_gate(const RnnSequence& s, int64_t t, int64_t d) const {
        return get<T>(number_of_type<T>, c.reserve, reserve_place(c, s, t, q.head) + d, c.dim - d);
    }
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
