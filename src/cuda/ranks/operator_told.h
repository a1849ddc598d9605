// SPDX-License-Identifier: Apache-2.0
// This header says what the ranks of an operator all-gather in a pass ("told"), and how many bytes that is: facts that
// are the same on all ranks.
#pragma once

#include <algorithm>

#include "core/operator_problem.h"
#include "core/rounding.h"

namespace flashscan::cuda {

class OperatorTold {
  public:
    OperatorTold(const OperatorProblem& problem, int32_t ranks) : p_(problem), ranks_(ranks) {}

    // Whether gradients of numbers are multiplied by slopes; is_sum: whether they are only added.
    bool has_slopes() const { return p_.on_numbers() && p_.has_slopes(); }
    bool is_sum() const { return p_.on_numbers() && !p_.has_slopes(); }
    // Backward finds the states before the own steps in OUTPUT.
    bool reads_edges() const { return !p_.on_numbers() && !p_.is_custom() && !p_.is_reduction(); }
    // Whether totals are gathered. Backward of scans of matrices needs those of ranks that gradients pass through,
    // which the first and the last are not.
    bool totals(Pass pass, bool waves) const {
        if (pass == Pass::forward) return !waves;
        return reads_edges() ? p_.is_matmul() && ranks_ > 2 && !waves : !is_sum();
    }
    // Whether products of matrices are gathered. The first rank's is not needed, and in a scan not the last one's
    // either.
    bool products(Pass pass, bool waves) const {
        return p_.is_affine() && !waves && (ranks_ > 2 || (p_.is_reduction() && pass == Pass::forward));
    }

    int64_t numbers() const { return p_.chains() * p_.element(); }
    int64_t state_bytes() const { return numbers() * p_.state_number_bytes(); }
    int64_t product_bytes() const { return p_.chains() * p_.gate_element() * p_.state_number_bytes(); }
    int64_t output_bytes() const { return numbers() * p_.number_bytes(); }
    // The edge of all rows and, behind it, its marks. Those of the next rank are aligned as states are.
    int64_t edge_bytes() const {
        constexpr int64_t alignment = 16;
        return reads_edges() ? round_up(state_bytes() + int64_t{p_.state_rows()}, alignment) : 0;
    }
    // The longest message; one of OUTPUT is no longer than one of states.
    int64_t most_bytes() const { return std::max({state_bytes(), product_bytes(), edge_bytes()}); }

  private:
    OperatorProblem p_;
    int32_t ranks_;
};

}  // namespace flashscan::cuda
