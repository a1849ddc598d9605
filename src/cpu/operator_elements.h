// SPDX-License-Identifier: Apache-2.0
// States of matrices and vectors between memory and the carries of pieces, dense in numbers of the arithmetic.
#pragma once

#include <cstring>

#include "core/operator_arguments.h"
#include "cpu/operator_pieces.h"
#include "reference/values.h"

namespace flashscan::cpu {

class Elements {
  public:
    explicit Elements(const OperatorProblem& p)
        : p_(p), state_(state_dtype(p.dtype)), element_(p.element()), bytes_(element_ * size_of(state_)) {}
    int64_t bytes() const { return bytes_; }
    Dtype state() const { return state_; }

    // y[-1]; zeros, or the unit matrix where `unit`, without STATE_IN.
    void start(const ChainPiece& piece, const void* state_in, bool unit, char* carry) const {
        if (state_in != nullptr) {
            std::memcpy(carry, static_cast<const char*>(state_in) + piece.state * bytes_, static_cast<size_t>(bytes_));
            return;
        }
        for (int64_t i = 0; i < element_; ++i)
            reference::store(carry, state_, i, unit && i % (p_.dim + 1) == 0 ? 1 : 0);
    }
    void finish(const ChainPiece& piece, const char* carry, const OperatorBuffers& b) const {
        if (b.state_out != nullptr)
            std::memcpy(static_cast<char*>(b.state_out) + piece.state * bytes_, carry, static_cast<size_t>(bytes_));
        if (!p_.is_reduction()) return;
        for (int64_t i = 0; i < element_; ++i)
            reference::store(b.output, p_.dtype, piece.state * element_ + i, reference::load(carry, state_, i));
    }
    // The gradient of y after the last step.
    void enter(const ChainPiece& piece, const OperatorBuffers& b, char* gradient) const {
        for (int64_t i = 0; i < element_; ++i) {
            const int64_t at = piece.state * element_ + i;
            reference::Wide sum = 0;
            if (b.grad_state_out != nullptr) sum += reference::load(b.grad_state_out, state_, at);
            if (p_.is_reduction()) sum += reference::load(b.grad_output, p_.dtype, at);
            reference::store(gradient, state_, i, sum);
        }
    }
    void leave(const ChainPiece& piece, const char* gradient, const OperatorBuffers& b) const {
        if (b.grad_state_in == nullptr) return;
        std::memcpy(static_cast<char*>(b.grad_state_in) + piece.state * bytes_, gradient, static_cast<size_t>(bytes_));
    }

  private:
    const OperatorProblem& p_;
    Dtype state_;
    int64_t element_, bytes_;
};

}  // namespace flashscan::cpu
