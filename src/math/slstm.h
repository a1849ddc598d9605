// SPDX-License-Identifier: Apache-2.0
// The cell of sLSTM; rnn.h says what a cell is.
#pragma once

#include "math/rnn.h"

namespace flashscan {

// The last entry of the carry is dm - c dc - n dn: with C = c exp(m) and N = n exp(m) what a loss on C and N alone
// gives to m is c dc + n dn, and dc, dn with m held constant are then all there is. The excess goes to what m' was
// chosen from. Keeps i' = exp(i - m'), f' = exp(l - m'), sigmoid(-f), tanh(z), sigmoid(o), c', n'.
struct SlstmCell {
    static constexpr int gates = 4, biases = 4, states = 4, kept = 7, slopes = 10;
    static constexpr bool keeps_h = false, resets_before = false;
    FLASHSCAN_HD static constexpr int recurrent(int gate) { return gate; }

    template <typename T>
    FLASHSCAN_HD static void forward(const T (&pre)[4], T (&state)[4], T (&keep)[7]) {
        const auto first = state[2] == T(0);
        const T l = log_sigmoid(pre[1]) + state[3];
        const T m = select(first, pre[0], select(l > pre[0], l, pre[0]));
        const T i = exp_of(pre[0] - m), f = select(first, T(0), exp_of(l - m)), z = tanh_of(pre[2]);
        const T o = sigmoid(pre[3]);
        const T c = select(first, i * z, f * state[1] + i * z);
        const T sum = select(first, i, f * state[2] + i);
        const T n = select(sum < T(1), T(1), sum);
        keep[0] = i, keep[1] = f, keep[2] = sigmoid(-pre[1]), keep[3] = z, keep[4] = o, keep[5] = c, keep[6] = n;
        state[0] = o * (c / n), state[1] = c, state[2] = n, state[3] = m;
    }
    template <typename T>
    FLASHSCAN_HD static void states_of(const T (&keep)[7], T (&state)[4]) {
        state[1] = keep[5], state[2] = keep[6];
    }
    template <typename T>
    FLASHSCAN_HD static void enter(const T (&d_state)[4], const T (&keep)[7], T (&carry)[4]) {
        carry[0] += d_state[0], carry[1] += d_state[1], carry[2] += d_state[2];
        carry[3] += d_state[3] - keep[5] * d_state[1] - keep[6] * d_state[2];
    }
    template <typename T>
    FLASHSCAN_HD static void leave(const T (&state)[4], T (&carry)[4]) {
        const auto first = state[2] == T(0);
        for (std::size_t s = 1; s < 4; ++s) carry[s] = select(first, T(0), carry[s]);
        // A gradient of 0, as behind a reset, makes nothing of a state that is not looked at.
        for (std::size_t s = 1; s < 3; ++s) carry[3] += select(carry[s] == T(0), T(0), state[s] * carry[s]);
    }
    template <typename T>
    FLASHSCAN_HD static void slopes_of(const T (&keep)[7], const T (&previous)[4], T (&slope)[10]) {
        const T i = keep[0], f = keep[1], z = keep[3], o = keep[4], ratio = keep[5] / keep[6];
        slope[0] = i, slope[1] = f, slope[2] = keep[2], slope[3] = z;
        slope[4] = select(previous[2] == T(0), T(0), previous[1]), slope[5] = previous[2];
        slope[6] = o / keep[6];
        slope[7] = slope[6] * ratio;
        slope[8] = i * cell::tanh_slope(z);
        slope[9] = ratio * cell::sigmoid_slope(o);
    }
    template <typename T>
    FLASHSCAN_HD static void backward(const T (&slope)[10], T (&carry)[4], T (&d_pre)[4]) {
        const T i = slope[0], f = slope[1], c = slope[4], n = slope[5], dh = carry[0];
        const T dc = carry[1] + dh * slope[6], to_n = carry[2] - dh * slope[7];
        const auto limited = f * n + i < T(1);
        const T dn = select(limited, T(0), to_n), excess = carry[3] + select(limited, to_n, T(0));
        const auto from_i = i == T(1);
        d_pre[0] = (dc * slope[3] + dn) * i + select(from_i, excess, T(0));
        d_pre[1] = ((dc * c + dn * n) * f + select(from_i, T(0), excess)) * slope[2];
        d_pre[2] = dc * slope[8];
        d_pre[3] = dh * slope[9];
        carry[0] = T(0), carry[1] = f * dc, carry[2] = f * dn, carry[3] = select(from_i, T(0), excess);
    }
};

}  // namespace flashscan
