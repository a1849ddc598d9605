// SPDX-License-Identifier: Apache-2.0
// Launches the kernels of edges.cuh.
#include "cuda/rnn/edges.h"

#include <limits>

#include "cuda/launch/alignment.h"
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

template <typename Params>
RnnEdgeLaunch<Params> settle_launch(const void* kernel, const LaunchShape& shape, const Params& params) {
    kernel_attributes(kernel);
    return {{kernel, shape, params}};
}

}  // namespace

RnnEdges::RnnEdges(const RnnProblem& p, const RnnShape& s, int64_t summed_rows)
    : p_(p),
      data_(rnn_data_kernels(p.dtype)),
      passes_states_(p.state_count() > 0 && (!s.any || p.packed())),
      padded_already_(p.heads == 1 && p.weight_dtype == p.dtype && s.padded == p.head_dim),
      params_(settle_params(p, s)),
      sequences_{offsets_of(p, nullptr), p.time, nullptr},
      find_sequences_(threads_in_blocks(p.time, rnn_edge_block)) {
    kernel_attributes(data_.find_sequences);
    const RnnWeightKernels& kernels = rnn_weight_kernels(p.dtype, p.weight_dtype);
    const CellCounts counts = p.counts();
    const RnnPassParams states{sequences_, counts.states, p.state_rows(), p.width(), nullptr, nullptr};
    const RnnWeightParams weights{nullptr, nullptr, s.gates, s.heads, p.head_dim, s.padded};
    const auto threads = [](int64_t count) { return threads_in_blocks(count, rnn_edge_block); };
    const auto sums = [&](Extent columns) {
        const int64_t blocks = ceil_div<int64_t>(columns * p.width(), rnn_sum_block_columns);
        return settle_launch(kernels.sum_bias, blocks_of(blocks, rnn_edge_block),
                             RnnBiasParams{nullptr, nullptr, columns, summed_rows, p.width()});
    };
    pass_states_ = settle_launch(data_.pass_states, threads(p.state_count()), states);
    pack_weights_ = settle_launch(kernels.pack_weights, threads(s.weights()), weights);
    unpack_weights_ = settle_launch(kernels.unpack_weights, threads(p.weight_count()), weights);
    widen_bias_ = settle_launch(kernels.widen_bias, threads(p.bias_count()),
                                RnnBiasParams{nullptr, nullptr, counts.biases, 1, p.width()});
    sum_biases_ = sums(counts.biases);
    sum_gates_ = sums(counts.gates);
}

RnnParams RnnEdges::common(const RnnBuffers& b) const {
    RnnParams params = params_;
    params.reset = b.reset;
    params.state_in = b.state_in;
    params.output = b.output;
    params.kept = p_.training ? b.reserve : nullptr;
    return params;
}

const int64_t* RnnEdges::find_sequences(const RnnBuffers& b, void* memory, void* stream) const {
    if (!p_.packed()) return nullptr;
    RnnSequenceParams params = sequences_;
    params.offsets.data = b.seq_offsets;
    params.sequence = static_cast<int64_t*>(memory);
    launch(data_.find_sequences, find_sequences_, stream, params);
    return params.sequence;
}

void RnnEdges::pass_states(const RnnBuffers& b, const void* from, void* to, void* stream) const {
    if (to == nullptr || !passes_states_) return;
    RnnEdgeLaunch<RnnPassParams> pass = pass_states_;
    pass.params.sequences.offsets.data = b.seq_offsets;
    pass.run(from, to, stream);
}

const void* RnnEdges::widen_bias(const RnnBuffers& b, void* memory, void* stream) const {
    if (b.bias == nullptr) return nullptr;
    widen_bias_.run(b.bias, memory, stream);
    return memory;
}

const void* RnnEdges::pack_weights(const RnnBuffers& b, void* memory, void* stream) const {
    if (padded_already_ && is_multiple(b.weight, Product::alignment)) return b.weight;
    pack_weights_.run(b.weight, memory, stream);
    return memory;
}

void RnnEdges::store_grad_bias(const RnnBuffers& b, const void* sums, void* stream) const {
    if (b.grad_bias != nullptr) sum_biases_.run(sums, b.grad_bias, stream);
}
void RnnEdges::store_grad_diagonal(const RnnBuffers& b, const void* sums, void* stream) const {
    if (b.grad_weight != nullptr) sum_gates_.run(sums, b.grad_weight, stream);
}
void RnnEdges::store_grad_weight(const RnnBuffers& b, const void* sums, void* stream) const {
    if (b.grad_weight != nullptr) unpack_weights_.run(sums, b.grad_weight, stream);
}

void RnnEdges::clear_gradients(const RnnBuffers& b, void* stream) const {
    const auto bytes = [&](int64_t weights) { return static_cast<size_t>(weights * size_of(p_.weight_dtype)); };
    if (b.grad_weight != nullptr) clear(b.grad_weight, bytes(p_.weight_count()), stream);
    if (b.grad_bias != nullptr) clear(b.grad_bias, bytes(p_.bias_count()), stream);
}

}  // namespace flashscan::cuda
