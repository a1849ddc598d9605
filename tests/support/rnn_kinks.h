// SPDX-License-Identifier: Apache-2.0
// Finds kinks, where the derivative of a cell jumps, and changes the oracle's data such that every element near one is
// on one side of it, for the error bound of recurrent networks (rnn_bound.cpp).
//
//     cell         raw of           kink
//     ELMAN_RELU   raw              0
//     SLSTM        i - l            0, where m changes from l = logsigmoid(f) + m to i; and log(1 - n), where n's max
//                                   with 1 sets in; none without a past
#pragma once

#include <cmath>
#include <functional>

#include "support/rnn_call.h"

namespace support {

class RnnKinks {
  public:
    // Returns how far an implementation's raw may be off at the i-th step of a sequence.
    using Margin = std::function<double(const Sequence& q, int64_t i, int64_t w)>;

    // `outcome` is what the oracle gave for problem.widened() on `data`, whose gradients matter alone.
    RnnKinks(const RnnProblem& problem, const RnnData& data, const RnnOutcome& outcome, const Margin& margin);

    // Ways to choose sides; none where no element is near a kink.
    int choices() const { return choices_; }
    // Every element that is near goes to a side, by INPUT of the first gate; what the others add to it stays.
    RnnData pushed(int choice) const;
    // How far above 0 an implementation may be at step t of a batch entry where ReLU holds the oracle at 0.
    double reach(int64_t batch, int64_t t, int64_t w) const;

  private:
    struct Place {
        double position = 0, kink = 0, margin = -1;  // -1: without a kink
        bool near() const { return std::abs(position - kink) <= margin; }
    };
    size_t index(const Sequence& q, int64_t t, int64_t w) const;
    double state_before(const Sequence& q, int64_t i, int64_t s, int64_t w) const;
    double raw(const Sequence& q, int64_t i, int64_t gate, int64_t w) const;
    Place place_of(const Sequence& q, int64_t i, int64_t w, const Margin& margin) const;

    const RnnProblem& p_;
    RnnProblem wide_;
    const RnnData& data_;
    const RnnOutcome& base_;
    int choices_ = 0;
    std::vector<Place> places_;
};

}  // namespace support
