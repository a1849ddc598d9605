// SPDX-License-Identifier: Apache-2.0
#include "cuda/rnn.h"

#include <limits>

#include "cuda/kernels/rnn_params.h"
#include "cuda/launch.h"
#include "cuda/rnn_pass.h"

namespace flashscan::cuda {
namespace {

// The kernel of a step, which comes after a product; `early`: it may start while that ends.
void launch_step(const void* kernel, int64_t threads, bool early, void* stream, const RnnParams& params, int64_t step) {
    LaunchShape shape = threads_in_blocks(threads, rnn_step_block);
    shape.overlaps = early;
    launch(kernel, shape, stream, params, step);
}

void clear(void* memory, size_t bytes, void* stream) {
    if (bytes > 0) check(cudaMemsetAsync(memory, 0, bytes, static_cast<cudaStream_t>(stream)), "clearing memory");
}

char* at(const void* memory, int64_t elements, Dtype dtype) {
    return static_cast<char*>(const_cast<void*>(memory)) + elements * size_of(dtype);
}

class Alternating final : public RnnKernel {
  public:
    Alternating(const RnnProblem& problem, const Options& options, std::string& refusal)
        : p_(problem),
          device_(options.device),
          data_(rnn_data_kernels(problem.dtype)),
          cell_(data_.cells[static_cast<int>(problem.cell)]),
          weights_(rnn_weight_kernels(problem.dtype, problem.weight_dtype)),
          s_(problem, options.batch_invariant),
          forward_(options.device, problem, s_, refusal),
          backward_(options.device, problem, s_, refusal) {
        early_ = can_overlap(cell_.forward, device_);
        // Kernels are loaded here, because the first call may be captured.
        for (const void* kernel : {cell_.begin, cell_.forward, cell_.forward_reset, cell_.backward,
                                   cell_.backward_reset, data_.pass_states, data_.find_sequences, weights_.pack_weights,
                                   weights_.unpack_weights, weights_.widen_bias, weights_.sum_bias}) {
            cudaFuncAttributes attributes{};
            if (kernel != nullptr) check(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
        }
    }

    std::string describe() const override {
        if (!s_.any) return "nothing to do";
        std::string text = fmt::format("{} launches a step, products {} x {} x {} by cuBLAS {}", s_.split ? 4 : 2,
                                       s_.together * s_.padded, s_.group, s_.padded, cublas().version());
        if (s_.groups > 1) text += fmt::format(", {} for groups of rows", s_.groups);
        if (p_.training) text += fmt::format(", gradients of {} steps in one", s_.chunk_steps);
        return text;
    }
    size_t scratch_bytes(Pass pass) const override {
        return pass == Pass::forward ? forward_.workspace.bytes() : backward_.workspace.bytes();
    }
    size_t reserve_bytes() const override {
        return static_cast<size_t>(p_.batch * p_.time * p_.width() * cell_.kept * size_of(s_.wide));
    }

    void forward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        pass_states(b, b.state_in, b.state_out, stream);
        if (!s_.any) return;
        char* const base = static_cast<char*>(b.scratch);
        RnnParams params = common(b);
        params.sequence = find_sequences(b, base + forward_.sequence, stream);
        params.states = base + forward_.states;
        params.factors = base + forward_.factors;
        params.reset_factors = base + forward_.reset_factors;
        params.products = base + forward_.result;
        params.input = b.input;
        params.state_out = b.state_out;
        if (b.bias != nullptr) {
            const RnnBiasParams bias{b.bias, base + forward_.bias, p_.counts().biases, 1, p_.width()};
            launch(weights_.widen_bias, threads_in_blocks(p_.bias_count(), rnn_edge_block), stream, bias);
            params.bias = bias.to;
        }
        const void* const weights = pack_weights(b.weight, base + forward_.weights, stream);
        if (has_padding()) {
            clear(params.factors, factor_bytes(), stream);
            if (s_.split) clear(params.reset_factors, factor_bytes(), stream);
        }
        launch(cell_.begin, threads_in_blocks(elements(), rnn_step_block), stream, params);
        void* const blas = base + forward_.blas;
        for (int64_t step = 0; step < p_.time; ++step) {
            multiply(forward_.products.together, weights, params.factors, s_.factor(), base + forward_.result,
                     s_.product(), false, blas, stream);
            if (s_.split) {
                launch_step(cell_.forward_reset, elements(), early_, stream, params, step);
                multiply(forward_.products.last, last_block(weights), params.reset_factors, s_.factor(),
                         at(base + forward_.result, s_.together * s_.padded, s_.wide), s_.product(), false, blas,
                         stream);
            }
            launch_step(cell_.forward, elements(), early_, stream, params, step);
        }
    }

    void backward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        pass_states(b, b.grad_state_out, b.grad_state_in, stream);
        if (!s_.any) {
            if (b.grad_weight != nullptr) clear(b.grad_weight, bytes(p_.weight_count()), stream);
            if (b.grad_bias != nullptr) clear(b.grad_bias, bytes(p_.bias_count()), stream);
            return;
        }
        char* const base = static_cast<char*>(b.scratch);
        RnnParams params = common(b);
        params.sequence = find_sequences(b, base + backward_.sequence, stream);
        params.states = base + backward_.states;
        params.through = base + backward_.result;
        params.grad_output = b.grad_output;
        params.grad_state_out = b.grad_state_out;
        params.grad_input = b.grad_input;
        params.grad_state_in = b.grad_state_in;
        params.bias_sums = b.grad_bias != nullptr ? base + backward_.bias_sums : nullptr;
        const void* const weights = pack_weights(b.weight, base + backward_.weights, stream);
        if (has_padding()) clear_chunk(base, 0, b.grad_weight != nullptr ? s_.chunk_steps : 1, stream);
        for (int64_t step = p_.time - 1; step >= 0; --step)
            backward_step(params, base, weights, step, b.grad_weight != nullptr, stream);
        if (b.grad_state_in != nullptr) launch_step(cell_.backward, elements(), early_, stream, params, -1);
        if (b.grad_bias != nullptr) {
            const RnnBiasParams sums{params.bias_sums, b.grad_bias, p_.counts().biases, s_.rows, p_.width()};
            const int64_t blocks = ceil_div(p_.bias_count(), rnn_sum_block_columns);
            launch(weights_.sum_bias, blocks_of(blocks, rnn_edge_block), stream, sums);
        }
        if (b.grad_weight != nullptr)
            launch(weights_.unpack_weights, threads_in_blocks(p_.weight_count(), rnn_edge_block), stream,
                   weight_params(base + backward_.weight_sums, b.grad_weight));
    }

  private:
    int64_t elements() const { return s_.rows * p_.width(); }
    bool has_padding() const { return s_.padded != p_.head_dim || s_.padded_rows() != s_.rows; }
    size_t bytes(int64_t weights) const { return static_cast<size_t>(weights * size_of(p_.weight_dtype)); }
    // Of the factors and of the gradients of one step.
    size_t factor_bytes() const { return static_cast<size_t>(s_.padded_rows() * s_.factor() * size_of(s_.dtype)); }
    size_t gradient_bytes() const { return static_cast<size_t>(s_.padded_rows() * s_.product() * size_of(s_.dtype)); }

    RnnParams common(const RnnBuffers& b) const {
        RnnParams params;
        params.rows = s_.rows;
        params.time = p_.time;
        params.dim = p_.head_dim;
        params.padded = s_.padded;
        params.width = p_.width();
        params.state_rows = p_.state_rows();
        const RnnStrides in = p_.input_strides(), out = p_.output_strides();
        params.input_strides = {in.state, in.batch, in.time};
        params.output_strides = {out.state, out.batch, out.time};
        params.reverse = p_.direction == Direction::reverse;
        params.output_states = static_cast<int32_t>(p_.output_states());
        params.clip = p_.recurrent_clip;
        params.reset = p_.has_reset ? b.reset : nullptr;
        params.state_in = b.state_in;
        params.output = b.output;
        params.kept = p_.training ? b.reserve : nullptr;
        return params;
    }

    RnnSequenceParams sequences(const RnnBuffers& b) const {
        RnnSequenceParams params;
        if (p_.packed()) params.offsets = {b.seq_offsets, p_.num_sequences, p_.offsets_dtype == Dtype::i64, 0};
        params.time = p_.time;
        return params;
    }
    const int64_t* find_sequences(const RnnBuffers& b, void* memory, void* stream) const {
        if (!p_.packed()) return nullptr;
        RnnSequenceParams params = sequences(b);
        params.sequence = static_cast<int64_t*>(memory);
        launch(data_.find_sequences, threads_in_blocks(p_.time, rnn_edge_block), stream, params);
        return params.sequence;
    }
    // Of rows without a step.
    void pass_states(const RnnBuffers& b, const void* from, void* to, void* stream) const {
        if (to == nullptr || p_.state_count() == 0 || (s_.any && !p_.packed())) return;
        const RnnPassParams params{sequences(b), p_.counts().states, p_.state_rows(), p_.width(), from, to};
        launch(data_.pass_states, threads_in_blocks(p_.state_count(), rnn_edge_block), stream, params);
    }

    RnnWeightParams weight_params(const void* from, void* to) const {
        return {from, to, s_.gates, s_.heads, p_.head_dim, s_.padded};
    }
    // WEIGHT itself where it already is as the products take it.
    const void* pack_weights(const void* weight, void* memory, void* stream) const {
        if (p_.heads == 1 && p_.weight_dtype == p_.dtype && s_.padded == p_.head_dim &&
            reinterpret_cast<uintptr_t>(weight) % Product::alignment == 0)
            return weight;
        launch(weights_.pack_weights, threads_in_blocks(s_.weights(), rnn_edge_block), stream,
               weight_params(weight, memory));
        return memory;
    }
    const void* last_block(const void* weights) const {
        return at(weights, s_.together * s_.padded * s_.padded, s_.dtype);
    }

    // The product with `rows` [padded_rows, row], group by group, into `result` [padded_rows, result_row].
    void multiply(const Product& product, const void* weights, const void* rows, int64_t row, void* result,
                  int64_t result_row, bool add, void* workspace, void* stream) const {
        for (int64_t g = 0; g < s_.groups; ++g)
            product.run(weights, at(rows, g * s_.group * row, s_.dtype), at(result, g * s_.group * result_row, s_.wide),
                        add, workspace, stream);
    }

    void backward_step(RnnParams& params, char* base, const void* weights, int64_t step, bool sums_weights,
                       void* stream) const {
        const int64_t done = p_.time - 1 - step, place = sums_weights ? done % s_.chunk_steps : 0;
        params.gradients = base + backward_.gradients + static_cast<size_t>(place) * gradient_bytes();
        params.factors =
            sums_weights ? base + backward_.factors + static_cast<size_t>(place) * factor_bytes() : nullptr;
        params.reset_factors =
            sums_weights ? base + backward_.reset_factors + static_cast<size_t>(place) * factor_bytes() : nullptr;
        void* const blas = base + backward_.blas;
        // Not early at first: what comes before it may be what wrote this call's arguments.
        launch_step(cell_.backward, elements(), early_ && done > 0, stream, params, step);
        if (s_.split) {
            multiply(backward_.through.last, last_block(weights),
                     at(params.gradients, s_.together * s_.padded, s_.dtype), s_.product(), params.through, s_.factor(),
                     false, blas, stream);
            launch_step(cell_.backward_reset, elements(), early_, stream, params, step);
        }
        if (step > 0 || params.grad_state_in != nullptr)
            multiply(backward_.through.together, weights, params.gradients, s_.product(), params.through, s_.factor(),
                     s_.split, blas, stream);
        if (!sums_weights || (place + 1 < s_.chunk_steps && step > 0)) return;
        clear_chunk(base, place + 1, s_.chunk_steps, stream);
        const bool add = done >= s_.chunk_steps;
        char* const sums = base + backward_.weight_sums;
        backward_.grad_weights.together.run(base + backward_.factors, base + backward_.gradients, sums, add, blas,
                                            stream);
        if (s_.split)
            backward_.grad_weights.last.run(base + backward_.reset_factors,
                                            at(base + backward_.gradients, s_.together * s_.padded, s_.dtype),
                                            at(sums, s_.together * s_.padded * s_.padded, s_.wide), add, blas, stream);
    }
    // The gradients and factors of places [first, end) of a chunk.
    void clear_chunk(char* base, int64_t first, int64_t end, void* stream) const {
        const auto from = static_cast<size_t>(first), count = static_cast<size_t>(end - first);
        clear(base + backward_.gradients + from * gradient_bytes(), count * gradient_bytes(), stream);
        clear(base + backward_.factors + from * factor_bytes(), count * factor_bytes(), stream);
        if (s_.split) clear(base + backward_.reset_factors + from * factor_bytes(), count * factor_bytes(), stream);
    }

    RnnProblem p_;
    int device_;
    const RnnDataKernels& data_;
    const RnnCellKernels& cell_;
    const RnnWeightKernels& weights_;
    RnnShape s_;
    RnnForwardPass forward_;
    RnnBackwardPass backward_;
    bool early_ = false;  // kernels may start before the product before them has ended
};

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_alternating(const RnnProblem& problem, const Options& options,
                                                std::string& refusal) {
    if (problem.heads > std::numeric_limits<int32_t>::max()) {
        refusal =
            fmt::format("heads is {}; cuBLAS batches up to {}", problem.heads, std::numeric_limits<int32_t>::max());
        return nullptr;
    }
    const DeviceScope scope(options.device);
    auto kernel = std::make_unique<Alternating>(problem, options, refusal);
    return refusal.empty() ? std::move(kernel) : nullptr;
}

}  // namespace flashscan::cuda
