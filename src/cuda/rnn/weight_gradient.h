// SPDX-License-Identifier: Apache-2.0
// GRAD|WEIGHT for the kernels that go step by step: the factors and gradients that steps of backward leave are kept for
// a chunk of steps, of which one product makes the gradient.
#pragma once

#include "cuda/rnn/params.h"
#include "cuda/rnn/pass.h"

namespace flashscan::cuda {

class RnnChunk {
  public:
    RnnChunk() = default;
    // Books what it needs of a call's memory.
    RnnChunk(int device, const RnnShape& shape, Workspace& workspace, std::string& refusal);

    // Where step `place` of the chunk leaves what it makes; its factors only if they are wanted.
    void set_place(RnnParams& params, char* base, int64_t place, bool factors) const;
    // Zeros to places [first, end).
    void clear_places(char* base, int64_t first, int64_t end, void* stream) const;
    // Adds the chunk to the sums, or begins them. Products take whole chunks: places from `steps` on are cleared.
    void finish(char* base, int64_t steps, bool add, void* stream) const;
    // [H, G, padded, padded] in the states' dtype.
    char* weight_sums(char* base) const { return base + sums_; }

  private:
    RnnProducts products_;
    Dtype dtype_{}, wide_{};
    bool split_ = false;
    int64_t steps_ = 0, padded_ = 0;
    int64_t last_ = 0;                              // where the last gate begins in a row of gradients
    size_t factor_bytes_ = 0, gradient_bytes_ = 0;  // of a step
    size_t gradients_ = 0, factors_ = 0, reset_factors_ = 0, sums_ = 0, blas_ = 0;
};

// RESERVE of these kernels.
inline size_t kept_bytes(const RnnProblem& p, int kept) {
    return bytes_of(p.batch * p.time * p.width() * kept, state_dtype(p.dtype));
}

}  // namespace flashscan::cuda
