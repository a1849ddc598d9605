// SPDX-License-Identifier: Apache-2.0
// The scratch memory and the product for GRAD|WEIGHT of a chunk of steps.
#include "cuda/rnn/weight_gradient.h"

#include "cuda/rnn/edges.h"

namespace flashscan::cuda {

RnnChunk::RnnChunk(int device, const RnnShape& s, Workspace& workspace, std::string& refusal)
    : products_(make_grad_weights(device, s, refusal)),
      dtype_(s.dtype),
      wide_(s.wide),
      split_(s.split),
      steps_(s.chunk_steps),
      padded_(s.padded),
      last_(s.together * s.padded),
      factor_bytes_(bytes_of(s.padded_rows() * s.factor(), s.dtype)),
      gradient_bytes_(bytes_of(s.padded_rows() * s.product(), s.dtype)) {
    const Extent chunk = steps_;
    gradients_ = workspace.book(chunk * gradient_bytes_);
    factors_ = workspace.book(chunk * factor_bytes_);
    reset_factors_ = workspace.book(split_ ? chunk * factor_bytes_ : Extent());
    sums_ = workspace.book(bytes_of(s.weights(), s.wide));
    blas_ = workspace.book(products_.workspace_bytes());
}

void RnnChunk::set_place(RnnParams& params, char* base, int64_t place, bool factors) const {
    const auto at = static_cast<size_t>(place);
    params.gradients = base + gradients_ + at * gradient_bytes_;
    params.factors = factors ? base + factors_ + at * factor_bytes_ : nullptr;
    params.reset_factors = factors ? base + reset_factors_ + at * factor_bytes_ : nullptr;
}

void RnnChunk::clear_places(char* base, int64_t first, int64_t end, void* stream) const {
    const auto from = static_cast<size_t>(first), count = static_cast<size_t>(end - first);
    clear(base + gradients_ + from * gradient_bytes_, count * gradient_bytes_, stream);
    clear(base + factors_ + from * factor_bytes_, count * factor_bytes_, stream);
    if (split_) clear(base + reset_factors_ + from * factor_bytes_, count * factor_bytes_, stream);
}

void RnnChunk::finish(char* base, int64_t steps, bool add, void* stream) const {
    clear_places(base, steps, steps_, stream);
    void* const blas = base + blas_;
    products_.together.run(base + factors_, base + gradients_, base + sums_, add, blas, stream);
    if (split_)
        products_.last.run(base + reset_factors_, base + gradients_ + bytes_of(last_, dtype_),
                           base + sums_ + bytes_of(last_ * padded_, wide_), add, blas, stream);
}

}  // namespace flashscan::cuda
