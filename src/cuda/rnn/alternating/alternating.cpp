// SPDX-License-Identifier: Apache-2.0
// Host side of "alternating": enqueues a matrix product by cuBLAS and a kernel for the cell for every step.
#include <limits>

#include "cuda/launch/launch.h"
#include "cuda/rnn/alternating/graph_replay.h"
#include "cuda/rnn/candidates.h"
#include "cuda/rnn/edges.h"
#include "cuda/rnn/params.h"
#include "cuda/rnn/weight_gradient.h"

namespace flashscan::cuda {
namespace {

// Launches the kernel of a step; with `early` it may start before the product ahead of it has ended.
void launch_step(const void* kernel, int64_t threads, bool early, void* stream, const RnnParams& params, int64_t step) {
    LaunchShape shape = threads_in_blocks(threads, rnn_step_block);
    shape.overlaps = early;
    launch(kernel, shape, stream, params, step);
}

char* at(const void* memory, int64_t elements, Dtype dtype) {
    return static_cast<char*>(const_cast<void*>(memory)) + elements * size_of(dtype);
}

class Alternating final : public RnnKernel {
  public:
    Alternating(const RnnProblem& problem, const Options& options, std::string& refusal)
        : p_(problem),
          device_(options.device),
          cell_(rnn_data_kernels(problem.dtype).cells[static_cast<int>(problem.cell)]),
          s_(problem, options.batch_invariant),
          edges_(p_, s_, s_.rows),
          forward_(options.device, problem, s_, refusal),
          backward_(options.device, problem, s_, refusal) {
        if (p_.training && s_.any && refusal.empty()) chunk_ = RnnChunk(device_, s_, backward_.workspace, refusal);
        early_ = can_overlap(cell_.forward, device_);
        for (const void* kernel :
             {cell_.begin, cell_.forward, cell_.forward_reset, cell_.backward, cell_.backward_reset})
            if (kernel != nullptr) kernel_attributes(kernel);
    }

    std::string describe() const override {
        if (!s_.any) return "nothing to do";
        std::string text = fmt::format("{} launches a step, products {} x {} x {} by cuBLAS {}", s_.split ? 4 : 2,
                                       s_.together * s_.padded, s_.group, s_.padded, cublas().version());
        if (s_.tf32) text += " in tf32";
        if (s_.groups > 1) text += fmt::format(", {} for groups of rows", s_.groups);
        if (p_.training) text += fmt::format(", gradients of {} steps in one", s_.chunk_steps);
        return text;
    }
    size_t scratch_bytes(Pass pass) const override {
        return pass == Pass::forward ? forward_.workspace.bytes() : backward_.workspace.bytes();
    }
    size_t reserve_bytes() const override { return kept_bytes(p_, cell_.kept); }

    void forward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        edges_.pass_states(b, b.state_in, b.state_out, stream);
        if (!s_.any) return;
        char* const base = static_cast<char*>(b.scratch);
        RnnParams params = edges_.common(b);
        params.sequence = edges_.find_sequences(b, base + forward_.sequence, stream);
        params.states = base + forward_.states;
        params.factors = base + forward_.factors;
        params.reset_factors = base + forward_.reset_factors;
        params.products = base + forward_.result;
        params.input = b.input;
        params.state_out = b.state_out;
        params.bias = edges_.widen_bias(b, base + forward_.bias, stream);
        const void* const weights = edges_.pack_weights(b, base + forward_.weights, stream);
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
        edges_.pass_states(b, b.grad_state_out, b.grad_state_in, stream);
        if (!s_.any) {
            edges_.clear_gradients(b, stream);
            return;
        }
        char* const base = static_cast<char*>(b.scratch);
        RnnParams params = edges_.common(b);
        params.sequence = edges_.find_sequences(b, base + backward_.sequence, stream);
        params.states = base + backward_.states;
        params.through = base + backward_.result;
        params.grad_output = b.grad_output;
        params.grad_state_out = b.grad_state_out;
        params.grad_input = b.grad_input;
        params.grad_state_in = b.grad_state_in;
        params.bias_sums = b.grad_bias != nullptr ? base + backward_.bias_sums : nullptr;
        const void* const weights = edges_.pack_weights(b, base + backward_.weights, stream);
        if (has_padding()) chunk_.clear_places(base, 0, b.grad_weight != nullptr ? s_.chunk_steps : Extent(1), stream);
        for (int64_t step = p_.time - 1; step >= 0; --step)
            backward_step(params, base, weights, step, b.grad_weight != nullptr, stream);
        if (b.grad_state_in != nullptr) launch_step(cell_.backward, elements(), early_, stream, params, -1);
        edges_.store_grad_bias(b, params.bias_sums, stream);
        edges_.store_grad_weight(b, chunk_.weight_sums(base), stream);
    }

  private:
    int64_t elements() const { return s_.rows * p_.width(); }
    bool has_padding() const { return s_.padded != p_.head_dim || s_.padded_rows() != s_.rows; }
    size_t factor_bytes() const { return bytes_of(s_.padded_rows() * s_.factor(), s_.dtype); }

    const void* last_block(const void* weights) const {
        return at(weights, s_.together * s_.padded * s_.padded, s_.dtype);
    }

    // Multiplies `rows` [padded_rows, row], group by group, and writes `result` [padded_rows, result_row].
    void multiply(const Product& product, const void* weights, const void* rows, int64_t row, void* result,
                  int64_t result_row, bool add, void* workspace, void* stream) const {
        for (int64_t g = 0; g < s_.groups; ++g)
            product.run(weights, at(rows, g * s_.group * row, s_.dtype), at(result, g * s_.group * result_row, s_.wide),
                        add, workspace, stream);
    }

    void backward_step(RnnParams& params, char* base, const void* weights, int64_t step, bool sums_weights,
                       void* stream) const {
        const int64_t done = p_.time - 1 - step, place = sums_weights ? done % s_.chunk_steps : Extent();
        chunk_.set_place(params, base, place, sums_weights);
        void* const blas = base + backward_.blas;
        // The first launch does not start early: the launch ahead of it may be the one that writes this call's
        // arguments.
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
        if (sums_weights && (place + 1 == s_.chunk_steps || step == 0))
            chunk_.finish(base, place + 1, done >= s_.chunk_steps, stream);
    }

    RnnProblem p_;
    int device_;
    const RnnCellKernels& cell_;
    RnnShape s_;
    RnnEdges edges_;
    RnnForwardPass forward_;
    RnnBackwardPass backward_;
    RnnChunk chunk_;
    bool early_ = false;  // whether kernels may start before the product ahead of them has ended
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
    return refusal.empty() ? make_rnn_replay(std::move(kernel), problem, options) : nullptr;
}

}  // namespace flashscan::cuda
