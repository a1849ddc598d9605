// SPDX-License-Identifier: Apache-2.0
// The cells of recurrent networks as the header has them, in the widest numbers there are and without the library's
// code: what rnn_loop runs.
#pragma once

#include <flashscan/flashscan.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace fuzz {

using Real = long double;

inline Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
inline Real log_sigmoid(Real x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }

// One element's step: raw pre-activations (of n of cells with a reset apart: the product, and the rest) and states
// before it; and what the gradients of the states after it give to those.
struct Step {
    int32_t cell;
    Real raw[4];  // per gate; with a reset that of n is INPUT + BIAS, and raw[3] R_n (s(r) h), of GRU R_n h + BIAS_rn
    Real before[4];  // states

    void forward(Real* after) const {
        const Real *r = raw, *s = before;
        switch (cell) {
        case FLASHSCAN_CELL_LSTM:
            after[1] = sigmoid(r[1]) * s[1] + sigmoid(r[0]) * std::tanh(r[2]);
            after[0] = sigmoid(r[3]) * std::tanh(after[1]);
            return;
        case FLASHSCAN_CELL_GRU:
        case FLASHSCAN_CELL_GRU_RESET_BEFORE: after[0] = sigmoid(-r[1]) * candidate() + sigmoid(r[1]) * s[0]; return;
        case FLASHSCAN_CELL_MGU: after[0] = sigmoid(-r[0]) * s[0] + sigmoid(r[0]) * candidate(); return;
        case FLASHSCAN_CELL_ELMAN: after[0] = std::tanh(r[0]); return;
        case FLASHSCAN_CELL_ELMAN_RELU: after[0] = r[0] < 0 ? 0 : r[0]; return;
        case FLASHSCAN_CELL_SLSTM: return forward_slstm(after);
        default: throw std::logic_error("the loop does not know the cell");
        }
    }
    void forward_slstm(Real* after) const {
        const Real *r = raw, *s = before;
        const bool past = s[2] != 0;
        const Real l = past ? log_sigmoid(r[1]) + s[3] : 0;
        after[3] = past ? std::max(r[0], l) : r[0];
        const Real in = std::exp(r[0] - after[3]), keep = past ? std::exp(l - after[3]) : 0;
        after[1] = (past ? keep * s[1] : 0) + in * std::tanh(r[2]);
        after[2] = std::max((past ? keep * s[2] : 0) + in, Real(1));
        after[0] = sigmoid(r[3]) * after[1] / after[2];
    }
    Real candidate_raw() const {
        if (cell == FLASHSCAN_CELL_MGU) return raw[1] + raw[3];
        return raw[2] + (cell == FLASHSCAN_CELL_GRU ? sigmoid(raw[0]) * raw[3] : raw[3]);
    }
    Real candidate() const { return std::tanh(candidate_raw()); }

    // `d` holds the gradients of the states after the step and becomes those of the states before it, what comes
    // through R h apart. Of gates: dr, in the order of raw.
    void backward(Real* d, Real* dr) const {
        const Real *r = raw, *s = before;
        Real after[4] = {};
        forward(after);
        const auto slope = [](Real x) { return sigmoid(x) * sigmoid(-x); };
        const auto tanh_slope = [](Real x) { return 1 / (std::cosh(x) * std::cosh(x)); };
        switch (cell) {
        case FLASHSCAN_CELL_LSTM: {
            dr[3] = d[0] * std::tanh(after[1]) * slope(r[3]);
            const Real dc = d[1] + d[0] * sigmoid(r[3]) * tanh_slope(after[1]);
            dr[0] = dc * std::tanh(r[2]) * slope(r[0]);
            dr[1] = dc * s[1] * slope(r[1]);
            dr[2] = dc * sigmoid(r[0]) * tanh_slope(r[2]);
            d[0] = 0, d[1] = dc * sigmoid(r[1]);
            return;
        }
        case FLASHSCAN_CELL_GRU:
        case FLASHSCAN_CELL_GRU_RESET_BEFORE: {
            const Real n = candidate(), z = sigmoid(r[1]);
            dr[1] = d[0] * (s[0] - n) * slope(r[1]);
            dr[2] = d[0] * sigmoid(-r[1]) * tanh_slope(candidate_raw());
            dr[0] = cell == FLASHSCAN_CELL_GRU ? dr[2] * r[3] * slope(r[0]) : 0;
            dr[3] = cell == FLASHSCAN_CELL_GRU ? dr[2] * sigmoid(r[0]) : dr[2];
            d[0] *= z;
            return;
        }
        case FLASHSCAN_CELL_MGU:
            dr[0] = d[0] * (candidate() - s[0]) * slope(r[0]);
            dr[1] = dr[3] = d[0] * sigmoid(r[0]) * tanh_slope(candidate_raw());
            d[0] *= sigmoid(-r[0]);
            return;
        case FLASHSCAN_CELL_ELMAN: dr[0] = d[0] * tanh_slope(r[0]), d[0] = 0; return;
        case FLASHSCAN_CELL_ELMAN_RELU: dr[0] = r[0] > 0 ? d[0] : 0, d[0] = 0; return;
        case FLASHSCAN_CELL_SLSTM: return backward_slstm(after, d, dr);
        default: throw std::logic_error("the loop does not know the cell");
        }
    }
    void backward_slstm(const Real* after, Real* d, Real* dr) const {
        const Real *r = raw, *s = before;
        const bool past = s[2] != 0;
        const Real l = past ? log_sigmoid(r[1]) + s[3] : 0, o = sigmoid(r[3]), m = after[3];
        const Real in = std::exp(r[0] - m), keep = past ? std::exp(l - m) : 0;
        const bool floored = (past ? keep * s[2] : 0) + in < 1;
        dr[3] = d[0] * after[1] / after[2] * o * sigmoid(-r[3]);
        const Real dc = d[1] + d[0] * o / after[2];
        const Real dn = floored ? 0 : d[2] - d[0] * o * after[1] / (after[2] * after[2]);
        dr[2] = dc * in / (std::cosh(r[2]) * std::cosh(r[2]));
        const Real from_in = in * (dc * std::tanh(r[2]) + dn), from_keep = past ? keep * (dc * s[1] + dn * s[2]) : 0;
        const Real dm = d[3] - from_in - from_keep;
        const bool to_in = !past || r[0] >= l;
        dr[0] = from_in + (to_in ? dm : 0);
        const Real dl = past ? from_keep + (to_in ? 0 : dm) : 0;
        dr[1] = dl * sigmoid(-r[1]);
        d[0] = 0, d[1] = keep * dc, d[2] = keep * dn, d[3] = dl;
    }
};

}  // namespace fuzz
