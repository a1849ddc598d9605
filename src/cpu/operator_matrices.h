// SPDX-License-Identifier: Apache-2.0
// What the kernels of matrix products and of affine maps share.
#pragma once

#include "core/backend.h"
#include "cpu/isa.h"
#include "cpu/number.h"
#include "cpu/operator_elements.h"

namespace flashscan::cpu {

inline MatrixKernels matrix_kernels_for(Isa isa, bool wide) { return FLASHSCAN_OF_ISA(isa, matrix_kernels(wide)); }

class Matrices : public OperatorKernel {
  public:
    Matrices(const OperatorProblem& problem, const Options& options)
        : p_(problem),
          elements_(p_),
          isa_(choose_isa()),
          threads_(thread_count(options.threads)),
          parts_(is_complex(p_.dtype) ? 2 : 1),
          number_size_(size_of(elements_.state()) / parts_),
          kernels_(matrix_kernels_for(isa_, number_size_ == 8)) {}

  protected:
    MatrixCall common() const {
        MatrixCall call{};
        call.number = number_of(p_.dtype);
        call.parts = parts_;
        call.dim = p_.dim;
        call.time_stride = p_.steps().time;
        call.ascending = p_.direction == Direction::forward;
        call.exclusive = p_.mode == OperatorMode::exclusive;
        return call;
    }
    int64_t place(const OperatorPiece& q, int64_t i) const {
        const int64_t time = p_.direction == Direction::forward ? q.begin + i : q.end - 1 - i;
        return q.base + time * p_.steps().time;
    }
    static size_t cache_lines(int64_t bytes) { return static_cast<size_t>((bytes + 63) / 64 * 64); }

    OperatorProblem p_;
    Elements elements_;
    Isa isa_;
    int threads_;
    int32_t parts_;
    int64_t number_size_;
    MatrixKernels kernels_;
};

}  // namespace flashscan::cpu
