// SPDX-License-Identifier: Apache-2.0
// Launches the kernels of edges.cuh.
#include "cuda/rnn/edges.h"

#include <limits>

#include "cuda/launch/launch.h"
#include "cuda/launch/sequence_offsets.h"

namespace flashscan::cuda {
void clear(void* memory, size_t bytes, void* stream) { fill(memory, 0, bytes, stream); }

namespace {

RnnParams settle_params(const RnnProblem& p, const RnnShape& s) {
    RnnParams params;
    params.rows = s.rows;
    params.time = p.time;
    params.dim = p.head_dim;
    params.padded = s.padded;
    params.width = p.width();
    params.state_rows = p.state_rows();
    const RnnStrides in = p.input_strides(), out = p.output_strides();
    params.input_strides = {in.state, in.batch, in.time};
    params.output_strides = {out.state, out.batch, out.time};
    params.reverse = p.direction == Direction::reverse;
    params.output_states = static_cast<int32_t>(p.output_states());
    params.clip = p.recurrent_clip > 0 ? p.recurrent_clip : std::numeric_limits<double>::infinity();
    return params;
}

}  // namespace

RnnEdges::RnnEdges(const RnnProblem& problem, const RnnShape& shape)
    : p_(problem),
      s_(shape),
      data_(rnn_data_kernels(problem.dtype)),
      weights_(rnn_weight_kernels(problem.dtype, problem.weight_dtype)),
      params_(settle_params(problem, shape)) {
    for (const void* kernel : {data_.pass_states, data_.find_sequences, weights_.pack_weights, weights_.unpack_weights,
                               weights_.widen_bias, weights_.sum_bias})
        kernel_attributes(kernel);
}

RnnParams RnnEdges::common(const RnnBuffers& b) const {
    RnnParams params = params_;
    params.reset = b.reset;
    params.state_in = b.state_in;
    params.output = b.output;
    params.kept = p_.training ? b.reserve : nullptr;
    return params;
}

RnnSequenceParams RnnEdges::sequences(const RnnBuffers& b) const {
    RnnSequenceParams params;
    params.offsets = offsets_of(p_, b.seq_offsets);
    params.time = p_.time;
    return params;
}

const int64_t* RnnEdges::find_sequences(const RnnBuffers& b, void* memory, void* stream) const {
    if (!p_.packed()) return nullptr;
    RnnSequenceParams params = sequences(b);
    params.sequence = static_cast<int64_t*>(memory);
    launch(data_.find_sequences, threads_in_blocks(p_.time, rnn_edge_block), stream, params);
    return params.sequence;
}

void RnnEdges::pass_states(const RnnBuffers& b, const void* from, void* to, void* stream) const {
    if (to == nullptr || p_.state_count() == 0 || (s_.any && !p_.packed())) return;
    const RnnPassParams params{sequences(b), p_.counts().states, p_.state_rows(), p_.width(), from, to};
    launch(data_.pass_states, threads_in_blocks(p_.state_count(), rnn_edge_block), stream, params);
}

const void* RnnEdges::widen_bias(const RnnBuffers& b, void* memory, void* stream) const {
    if (b.bias == nullptr) return nullptr;
    launch(weights_.widen_bias, threads_in_blocks(p_.bias_count(), rnn_edge_block), stream,
           RnnBiasParams{b.bias, memory, p_.counts().biases, 1, p_.width()});
    return memory;
}

RnnWeightParams RnnEdges::weight_params(const void* from, void* to) const {
    return {from, to, s_.gates, s_.heads, p_.head_dim, s_.padded};
}

const void* RnnEdges::pack_weights(const RnnBuffers& b, void* memory, void* stream) const {
    if (p_.heads == 1 && p_.weight_dtype == p_.dtype && s_.padded == p_.head_dim &&
        reinterpret_cast<uintptr_t>(b.weight) % Product::alignment == 0)
        return b.weight;
    launch(weights_.pack_weights, threads_in_blocks(s_.weights(), rnn_edge_block), stream,
           weight_params(b.weight, memory));
    return memory;
}

// Adds up sums [columns, rows, H D] over rows.
void RnnEdges::sum_rows(const void* sums, void* to, int64_t columns, int64_t rows, void* stream) const {
    if (to == nullptr) return;
    const int64_t blocks = ceil_div(columns * p_.width(), rnn_sum_block_columns);
    launch(weights_.sum_bias, blocks_of(blocks, rnn_edge_block), stream,
           RnnBiasParams{sums, to, columns, rows, p_.width()});
}
void RnnEdges::store_grad_bias(const RnnBuffers& b, const void* sums, int64_t rows, void* stream) const {
    sum_rows(sums, b.grad_bias, p_.counts().biases, rows, stream);
}
void RnnEdges::store_grad_diagonal(const RnnBuffers& b, const void* sums, int64_t rows, void* stream) const {
    sum_rows(sums, b.grad_weight, p_.counts().gates, rows, stream);
}

void RnnEdges::store_grad_weight(const RnnBuffers& b, const void* sums, void* stream) const {
    if (b.grad_weight == nullptr) return;
    launch(weights_.unpack_weights, threads_in_blocks(p_.weight_count(), rnn_edge_block), stream,
           weight_params(sums, b.grad_weight));
}

void RnnEdges::clear_gradients(const RnnBuffers& b, void* stream) const {
    const auto bytes = [&](int64_t weights) { return static_cast<size_t>(weights * size_of(p_.weight_dtype)); };
    if (b.grad_weight != nullptr) clear(b.grad_weight, bytes(p_.weight_count()), stream);
    if (b.grad_bias != nullptr) clear(b.grad_bias, bytes(p_.bias_count()), stream);
}

}  // namespace flashscan::cuda
