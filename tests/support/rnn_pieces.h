// SPDX-License-Identifier: Apache-2.0
// Steps cut out of a recurrent network, and their results put back to where they come from.
#pragma once

#include "support/rnn_call.h"

namespace support {

// Steps [begin, end) of row `row`, or of all rows where it is negative. States are those of the whole: the caller sets
// what enters the piece. Not packed.
struct RnnPiece {
    RnnPiece(const RnnProblem& whole, const RnnData& data, int64_t row, int64_t begin, int64_t end);

    RnnProblem problem;
    RnnData data;
    // Puts OUTPUT and GRAD|INPUT of the piece into those of the whole.
    void paste(const RnnOutcome& piece, std::map<int32_t, Values>& whole) const;

  private:
    template <typename Visit>  // visit(index in the whole, index in the piece)
    void each(int32_t id, Visit visit) const;
    RnnProblem whole_;
    int64_t row_, begin_;
};

// The states of row `row` of `all`, whose problem is `p`, as those of a problem with one row, and back.
Values state_row(const RnnProblem& p, const Values& all, int64_t row);
void paste_state_row(const RnnProblem& p, const Values& one, int64_t row, Values& all);

Values sum(const Values& a, const Values& b);

}  // namespace support
