// SPDX-License-Identifier: Apache-2.0
// Cells of recurrent networks, element by element: one step forward and one backward. Compiles as C++ and CUDA C++.
// Elements are of any type that has arithmetic, comparisons, select and the functions of math/activation.h: a number,
// or a vector of them.
//
// A cell is a struct of constants and functions over small arrays that live in registers:
//
//     gates    gates of INPUT and WEIGHT
//     biases   pre-activations, one for each bias; pre[p] = INPUT[p] + (R h)[p] + BIAS[p] unless the cell says else
//     states   h first
//     kept     numbers that backward needs of a step; no kernel has to store them as they are
//     keeps_h  whether the last of these is h itself, which OUTPUT holds too
//     resets_before   whether the product of the last gate takes reset(pre[0], h) in place of h, so that the last of
//                     pre
//              is known after the first
//
//     forward(pre, state, keep)               state: before the step -> after it
//     states_of(keep, state)                  those states after the step that backward of the next one looks at
//     enter(d_state, keep, carry)             adds gradients of the states after a step, as a user gives them
//     slopes_of(keep, previous, slope)        what backward multiplies by, known before the carry; `previous` are the
//                                             states before the step
//     backward(slope, carry, d_pre)           carry: gradient of the states after the step -> before it, less what
//                                             reaches h through R
//     leave(state, carry)                     turns the carry into gradients of `state`, as a user gets them
//
// Cells that reset before the product have more. Backward is first backward(), then the product of R^T and
// the last d_pre, then backward_reset(), which completes d_pre[0].
//
//     first_acts_twice                                    whether the first gate acts on more than the factor of the
//                                                         product: backward() leaves that part of d_pre[0], else 0
//     reset(pre_0, h)                                     the first gate times h
//     backward_reset(keep, previous, d_product, d_pre)    d_product: what reaches that through the product; returns
//     what
//                                                         of it reaches h before the step
//
// The gradient of INPUT is d_pre[0 .. gates-1]; row block g of R takes d_pre[recurrent(g)].
#pragma once

#include <cstddef>

#include "math/activation.h"

namespace flashscan {

namespace cell {

// 1 - x^2 and x (1 - x), the derivatives of tanh and sigmoid by their values.
template <typename T>
FLASHSCAN_HD T tanh_slope(T x) {
    return (T(1) - x) * (T(1) + x);
}
template <typename T>
FLASHSCAN_HD T sigmoid_slope(T x) {
    return x * (T(1) - x);
}

// Cells whose gradients are plain derivatives with respect to each state.
template <std::size_t S>
struct PlainCarry {
    template <typename T, std::size_t K>
    FLASHSCAN_HD static void enter(const T (&d_state)[S], const T (&)[K], T (&carry)[S]) {
        for (std::size_t s = 0; s < S; ++s) carry[s] += d_state[s];
    }
    template <typename T>
    FLASHSCAN_HD static void leave(const T (&)[S], T (&)[S]) {}
};

// Both halves of a step backward.
template <typename Cell, typename T, std::size_t K, std::size_t S, std::size_t P>
FLASHSCAN_HD void backward(const T (&keep)[K], const T (&previous)[S], T (&carry)[S], T (&d_pre)[P]) {
    T slope[Cell::slopes];
    Cell::slopes_of(keep, previous, slope);
    Cell::backward(slope, carry, d_pre);
}

}  // namespace cell

struct LstmCell : cell::PlainCarry<2> {
    static constexpr int gates = 4, biases = 4, states = 2, kept = 5, slopes = 6;
    static constexpr bool keeps_h = false, resets_before = false;
    FLASHSCAN_HD static constexpr int recurrent(int gate) { return gate; }

    template <typename T>
    FLASHSCAN_HD static void forward(const T (&pre)[4], T (&state)[2], T (&keep)[5]) {
        const T i = sigmoid(pre[0]), f = sigmoid(pre[1]), z = tanh_of(pre[2]), o = sigmoid(pre[3]);
        const T c = f * state[1] + i * z;
        keep[0] = i, keep[1] = f, keep[2] = z, keep[3] = o, keep[4] = c;
        state[0] = o * tanh_of(c), state[1] = c;
    }
    template <typename T>
    FLASHSCAN_HD static void states_of(const T (&keep)[5], T (&state)[2]) {
        state[1] = keep[4];
    }
    template <typename T>
    FLASHSCAN_HD static void slopes_of(const T (&keep)[5], const T (&previous)[2], T (&slope)[6]) {
        const T i = keep[0], f = keep[1], z = keep[2], o = keep[3], tanh_c = tanh_of(keep[4]);
        slope[0] = z * cell::sigmoid_slope(i);
        slope[1] = previous[1] * cell::sigmoid_slope(f);
        slope[2] = i * cell::tanh_slope(z);
        slope[3] = tanh_c * cell::sigmoid_slope(o);
        slope[4] = o * cell::tanh_slope(tanh_c);
        slope[5] = f;
    }
    template <typename T>
    FLASHSCAN_HD static void backward(const T (&slope)[6], T (&carry)[2], T (&d_pre)[4]) {
        const T dh = carry[0], dc = carry[1] + dh * slope[4];
        d_pre[0] = dc * slope[0], d_pre[1] = dc * slope[1], d_pre[2] = dc * slope[2], d_pre[3] = dh * slope[3];
        carry[0] = T(0), carry[1] = dc * slope[5];
    }
};

// Pre-activations r, z, INPUT_n + BIAS_n, and R_n h + BIAS_rn.
struct GruCell : cell::PlainCarry<1> {
    static constexpr int gates = 3, biases = 4, states = 1, kept = 5, slopes = 5;
    static constexpr bool keeps_h = true, resets_before = false;
    FLASHSCAN_HD static constexpr int recurrent(int gate) { return gate == 2 ? 3 : gate; }

    template <typename T>
    FLASHSCAN_HD static void forward(const T (&pre)[4], T (&state)[1], T (&keep)[5]) {
        const T r = sigmoid(pre[0]), z = sigmoid(pre[1]), n = tanh_of(pre[2] + r * pre[3]);
        state[0] = sigmoid(-pre[1]) * n + z * state[0];
        keep[0] = r, keep[1] = z, keep[2] = n, keep[3] = pre[3], keep[4] = state[0];
    }
    template <typename T>
    FLASHSCAN_HD static void states_of(const T (&keep)[5], T (&state)[1]) {
        state[0] = keep[4];
    }
    template <typename T>
    FLASHSCAN_HD static void slopes_of(const T (&keep)[5], const T (&previous)[1], T (&slope)[5]) {
        const T r = keep[0], z = keep[1], n = keep[2];
        slope[2] = (T(1) - z) * cell::tanh_slope(n);
        slope[0] = slope[2] * keep[3] * cell::sigmoid_slope(r);
        slope[1] = (previous[0] - n) * cell::sigmoid_slope(z);
        slope[3] = slope[2] * r;
        slope[4] = z;
    }
    template <typename T>
    FLASHSCAN_HD static void backward(const T (&slope)[5], T (&carry)[1], T (&d_pre)[4]) {
        for (std::size_t p = 0; p < 4; ++p) d_pre[p] = carry[0] * slope[p];
        carry[0] = carry[0] * slope[4];
    }
};

struct GruResetBeforeCell : cell::PlainCarry<1> {
    static constexpr int gates = 3, biases = 3, states = 1, kept = 4, slopes = 3;
    static constexpr bool keeps_h = true, resets_before = true, first_acts_twice = false;
    FLASHSCAN_HD static constexpr int recurrent(int gate) { return gate; }

    template <typename T>
    FLASHSCAN_HD static T reset(T pre_r, T h) {
        return sigmoid(pre_r) * h;
    }
    template <typename T>
    FLASHSCAN_HD static void forward(const T (&pre)[3], T (&state)[1], T (&keep)[4]) {
        const T z = sigmoid(pre[1]), n = tanh_of(pre[2]);
        state[0] = sigmoid(-pre[1]) * n + z * state[0];
        keep[0] = sigmoid(pre[0]), keep[1] = z, keep[2] = n, keep[3] = state[0];
    }
    template <typename T>
    FLASHSCAN_HD static void states_of(const T (&keep)[4], T (&state)[1]) {
        state[0] = keep[3];
    }
    template <typename T>
    FLASHSCAN_HD static void slopes_of(const T (&keep)[4], const T (&previous)[1], T (&slope)[3]) {
        const T z = keep[1], n = keep[2];
        slope[0] = (previous[0] - n) * cell::sigmoid_slope(z);
        slope[1] = (T(1) - z) * cell::tanh_slope(n);
        slope[2] = z;
    }
    template <typename T>
    FLASHSCAN_HD static void backward(const T (&slope)[3], T (&carry)[1], T (&d_pre)[3]) {
        d_pre[0] = T(0), d_pre[1] = carry[0] * slope[0], d_pre[2] = carry[0] * slope[1];
        carry[0] = carry[0] * slope[2];
    }
    template <typename T>
    FLASHSCAN_HD static T backward_reset(const T (&keep)[4], const T (&previous)[1], T d_product, T (&d_pre)[3]) {
        d_pre[0] = d_product * previous[0] * cell::sigmoid_slope(keep[0]);
        return d_product * keep[0];
    }
};

struct MguCell : cell::PlainCarry<1> {
    static constexpr int gates = 2, biases = 2, states = 1, kept = 3, slopes = 3;
    static constexpr bool keeps_h = true, resets_before = true, first_acts_twice = true;
    FLASHSCAN_HD static constexpr int recurrent(int gate) { return gate; }

    template <typename T>
    FLASHSCAN_HD static T reset(T pre_f, T h) {
        return sigmoid(pre_f) * h;
    }
    template <typename T>
    FLASHSCAN_HD static void forward(const T (&pre)[2], T (&state)[1], T (&keep)[3]) {
        const T f = sigmoid(pre[0]), n = tanh_of(pre[1]);
        state[0] = sigmoid(-pre[0]) * state[0] + f * n;
        keep[0] = f, keep[1] = n, keep[2] = state[0];
    }
    template <typename T>
    FLASHSCAN_HD static void states_of(const T (&keep)[3], T (&state)[1]) {
        state[0] = keep[2];
    }
    template <typename T>
    FLASHSCAN_HD static void slopes_of(const T (&keep)[3], const T (&previous)[1], T (&slope)[3]) {
        const T f = keep[0], n = keep[1];
        slope[0] = (n - previous[0]) * cell::sigmoid_slope(f);
        slope[1] = f * cell::tanh_slope(n);
        slope[2] = T(1) - f;
    }
    template <typename T>
    FLASHSCAN_HD static void backward(const T (&slope)[3], T (&carry)[1], T (&d_pre)[2]) {
        d_pre[0] = carry[0] * slope[0], d_pre[1] = carry[0] * slope[1];
        carry[0] = carry[0] * slope[2];
    }
    template <typename T>
    FLASHSCAN_HD static T backward_reset(const T (&keep)[3], const T (&previous)[1], T d_product, T (&d_pre)[2]) {
        d_pre[0] += d_product * previous[0] * cell::sigmoid_slope(keep[0]);
        return d_product * keep[0];
    }
};

template <bool Relu>
struct ElmanCell : cell::PlainCarry<1> {
    static constexpr int gates = 1, biases = 1, states = 1, kept = 1, slopes = 1;
    static constexpr bool keeps_h = true, resets_before = false;
    FLASHSCAN_HD static constexpr int recurrent(int gate) { return gate; }

    template <typename T>
    FLASHSCAN_HD static void forward(const T (&pre)[1], T (&state)[1], T (&keep)[1]) {
        if constexpr (Relu)
            state[0] = select(pre[0] < T(0), T(0), pre[0]);  // keeps NaN
        else
            state[0] = tanh_of(pre[0]);
        keep[0] = state[0];
    }
    template <typename T>
    FLASHSCAN_HD static void states_of(const T (&keep)[1], T (&state)[1]) {
        state[0] = keep[0];
    }
    template <typename T>
    FLASHSCAN_HD static void slopes_of(const T (&keep)[1], const T (&)[1], T (&slope)[1]) {
        slope[0] = Relu ? keep[0] : cell::tanh_slope(keep[0]);
    }
    template <typename T>
    FLASHSCAN_HD static void backward(const T (&slope)[1], T (&carry)[1], T (&d_pre)[1]) {
        if constexpr (Relu)
            d_pre[0] = select(slope[0] > T(0), carry[0], T(0));
        else
            d_pre[0] = carry[0] * slope[0];
        carry[0] = T(0);
    }
};

}  // namespace flashscan
