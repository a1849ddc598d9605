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
    OperatorTold(const OperatorProblem& problem, int32_t ranks)
        : p_(problem),
          ranks_(ranks),
          numbers_(p_.chains() * p_.element()),
          state_bytes_(numbers_ * p_.state_number_bytes()),
          product_bytes_(p_.chains() * p_.gate_element() * p_.state_number_bytes()) {
        constexpr int64_t alignment = 16;
        if (reads_edges()) edge_bytes_ = round_up(state_bytes_ + int64_t{p_.state_rows()}, alignment);
    }

    // Whether gradients of numbers are multiplied by slopes on their way back through steps.
    bool has_slopes() const { return p_.on_numbers() && p_.has_slopes(); }
    // Whether gradients of numbers are only added up, as those of sums are.
    bool is_sum() const { return p_.on_numbers() && !p_.has_slopes(); }
    // Backward finds the states before the own steps in OUTPUT.
    bool reads_edges() const { return !p_.on_numbers() && !p_.is_custom() && !p_.is_reduction(); }
    // Whether totals are gathered. Backward of scans of matrices needs those of ranks that gradients pass through,
    // which the first and the last are not.
    bool totals(Pass pass, bool is_wavefront) const {
        if (pass == Pass::forward) return !is_wavefront;
        return reads_edges() ? p_.is_matmul() && ranks_ > 2 && !is_wavefront : !is_sum();
    }
    // Whether products of matrices are gathered. The first rank's is not needed, and in a scan not the last one's
    // either.
    bool products(Pass pass, bool is_wavefront) const {
        return p_.is_affine() && !is_wavefront && (ranks_ > 2 || (p_.is_reduction() && pass == Pass::forward));
    }

    int64_t numbers() const { return numbers_; }
    int64_t state_bytes() const { return state_bytes_; }
    int64_t product_bytes() const { return product_bytes_; }
    int64_t output_bytes() const { return numbers_ * p_.number_bytes(); }
    // Bytes of the message by which a rank tells its edges: the last state of every row in OUTPUT, then a mark of one
    // byte for each row (RankEdgeMark), rounded up so that the next rank's message is aligned as states are.
    int64_t edge_bytes() const { return edge_bytes_; }
    // The longest message; one of OUTPUT is no longer than one of states.
    int64_t most_bytes() const { return std::max({state_bytes_, product_bytes_, edge_bytes_}); }

  private:
    OperatorProblem p_;
    int32_t ranks_;
    int64_t numbers_, state_bytes_, product_bytes_, edge_bytes_ = 0;
};

}  // namespace flashscan::cuda
