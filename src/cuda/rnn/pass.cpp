// SPDX-License-Identifier: Apache-2.0
// The shapes of the products of a recurrent network, and the scratch memory of its passes.
#include "cuda/rnn/pass.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashscan::cuda {
namespace {

// Rows of a product for batch-invariant plans: as many as tensor cores multiply without taking longer than for fewer.
constexpr int64_t invariant_rows = 32;

ProductShape forward_shape(const RnnShape& s, int64_t gates) {
    return {.dtype = s.dtype,
            .tf32 = s.tf32,
            .heads = s.heads,
            .m = gates * s.padded,
            .n = s.group,
            .k = s.padded,
            .a = {s.padded, s.gates * s.padded * s.padded, true},
            .b = {s.factor(), s.padded, false},
            .c = {s.product(), s.gates * s.padded, false}};
}

ProductShape through_shape(const RnnShape& s, int64_t gates) {
    return {.dtype = s.dtype,
            .tf32 = s.tf32,
            .heads = s.heads,
            .m = s.padded,
            .n = s.group,
            .k = gates * s.padded,
            .a = {s.padded, s.gates * s.padded * s.padded, false},
            .b = {s.product(), s.gates * s.padded, false},
            .c = {s.factor(), s.padded, false}};
}

ProductShape grad_weight_shape(const RnnShape& s, int64_t gates) {
    return {.dtype = s.dtype,
            .tf32 = s.tf32,
            .heads = s.heads,
            .m = s.padded,
            .n = gates * s.padded,
            .k = s.chunk_steps * s.padded_rows(),
            .a = {s.factor(), s.padded, false},
            .b = {s.product(), s.gates * s.padded, true},
            .c = {s.padded, s.gates * s.padded * s.padded, false}};
}

RnnProducts make_products(int device, const RnnShape& s, ProductShape (*shape)(const RnnShape&, int64_t),
                          std::string& refusal) {
    RnnProducts products;
    products.together = Product(device, shape(s, s.together), refusal);
    if (s.split && refusal.empty()) products.last = Product(device, shape(s, 1), refusal);
    return products;
}

}  // namespace

RnnShape::RnnShape(const RnnProblem& p, bool batch_invariant, int64_t chunk_rows)
    : dtype(p.dtype),
      wide(state_dtype(p.dtype)),
      tf32(p.allow_tf32),
      any(p.batch > 0 && p.time > 0),
      split(row_of(p.cell).resets_before),
      rows(p.batch),
      heads(p.heads),
      gates(p.counts().gates),
      padded(round_up(p.head_dim, Product::alignment / size_of(p.dtype))),
      together(split ? gates - 1 : gates) {
    if (!any) return;
    group = batch_invariant && !p.packed() ? Extent(invariant_rows) : rows;
    groups = ceil_div(rows, group);
    const int64_t chunks = ceil_div(p.time, std::max<int64_t>(chunk_rows / padded_rows(), 1));
    chunk_steps = ceil_div(p.time, chunks);
}

RnnProducts make_grad_weights(int device, const RnnShape& s, std::string& refusal) {
    return make_products(device, s, grad_weight_shape, refusal);
}

RnnForwardPass::RnnForwardPass(int device, const RnnProblem& p, const RnnShape& s, std::string& refusal) {
    if (!s.any) return;
    products = make_products(device, s, forward_shape, refusal);
    weights = workspace.book(bytes_of(s.weights(), s.dtype));
    bias = workspace.book(bytes_of(p.bias_count(), s.wide));
    states = workspace.book(bytes_of(p.counts().states * s.rows * p.width(), s.wide));
    factors = workspace.book(bytes_of(s.padded_rows() * s.factor(), s.dtype));
    reset_factors = workspace.book(s.split ? bytes_of(s.padded_rows() * s.factor(), s.dtype) : 0);
    result = workspace.book(bytes_of(s.padded_rows() * s.product(), s.wide));
    sequence = workspace.book(p.packed() ? bytes_of(p.time, Dtype::i64) : 0);
    blas = workspace.book(products.workspace_bytes());
}

RnnBackwardPass::RnnBackwardPass(int device, const RnnProblem& p, const RnnShape& s, std::string& refusal) {
    if (!s.any || !p.training) return;
    through = make_products(device, s, through_shape, refusal);
    weights = workspace.book(bytes_of(s.weights(), s.dtype));
    states = workspace.book(bytes_of((p.counts().states + (s.split ? 1 : 0)) * s.rows * p.width(), s.wide));
    result = workspace.book(bytes_of(s.padded_rows() * s.factor(), s.wide));
    bias_sums = workspace.book(bytes_of(p.counts().biases * s.rows * p.width(), s.wide));
    sequence = workspace.book(p.packed() ? bytes_of(p.time, Dtype::i64) : 0);
    blas = workspace.book(through.workspace_bytes());
}

}  // namespace flashscan::cuda
