// SPDX-License-Identifier: Apache-2.0
// GRAD|WEIGHT for "alternating" and "persistent": the factors and gradients that backward stores are kept for a chunk
// of steps, and one matrix product adds their contribution to the gradient.
#pragma once

#include "cuda/rnn/params.h"
#include "cuda/rnn/pass.h"

namespace flashscan::cuda {

class RnnChunk {
  public:
    RnnChunk() = default;
    // Books the scratch memory that it needs.
    RnnChunk(int device, const RnnShape& shape, Workspace& workspace, std::string& refusal);

    // Sets where step `place` of the chunk stores its gradients and, if `factors`, its factors.
    void set_place(RnnParams& params, char* base, int64_t place, bool factors) const;
    // Clears the places [first, end).
    void clear_places(char* base, int64_t first, int64_t end, void* stream) const;
    // Adds the chunk's contribution to the sums, or starts them with it unless `add`. Products take whole chunks, so
    // places from `steps` on are cleared first.
    void finish(char* base, int64_t steps, bool add, void* stream) const;
    // The sums: [H, G, padded, padded] in the states' dtype.
    char* weight_sums(char* base) const { return base + sums_; }

  private:
    RnnProducts products_;
    Dtype dtype_{}, wide_{};
    bool split_ = false;
    int64_t steps_ = 0, padded_ = 0;
    int64_t last_ = 0;                              // the first element of the last gate in a row of gradients
    size_t factor_bytes_ = 0, gradient_bytes_ = 0;  // bytes of a step
    size_t gradients_ = 0, factors_ = 0, reset_factors_ = 0, sums_ = 0, blas_ = 0;
};

// Bytes of RESERVE of these kernels.
inline size_t kept_bytes(const RnnProblem& p, int kept) {
    return bytes_of(p.batch * p.time * p.width() * kept, state_dtype(p.dtype));
}

}  // namespace flashscan::cuda
