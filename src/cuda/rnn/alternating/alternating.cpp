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
        in_order_ = early_ = threads_in_blocks(s_.rows * p_.width(), rnn_step_block);
        early_.overlaps = can_overlap(cell_.forward, device_);
        factor_bytes_ = bytes_of(s_.padded_rows() * s_.factor(), s_.dtype);
        forward_group_ = {bytes_of(s_.group * s_.factor(), s_.dtype), bytes_of(s_.group * s_.product(), s_.wide)};
        backward_group_ = {bytes_of(s_.group * s_.product(), s_.dtype), bytes_of(s_.group * s_.factor(), s_.wide)};
        const Extent last = s_.together * s_.padded;
        last_weights_ = bytes_of(last * s_.padded, s_.dtype);
        last_products_ = bytes_of(last, s_.wide);
        last_gradients_ = bytes_of(last, s_.dtype);
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
        const auto* const weights = static_cast<const char*>(edges_.pack_weights(b, base + forward_.weights, stream));
        if (has_padding()) {
            clear(params.factors, factor_bytes_, stream);
            if (s_.split) clear(params.reset_factors, factor_bytes_, stream);
        }
        launch(cell_.begin, in_order_, stream, params);
        char *const blas = base + forward_.blas, *const result = base + forward_.result;
        const RnnProducts& products = forward_.products;
        for (int64_t step = 0; step < p_.time; ++step) {
            multiply(products.together, weights, params.factors, result, forward_group_, false, blas, stream);
            if (s_.split) {
                launch(cell_.forward_reset, early_, stream, params, step);
                multiply(products.last, weights + last_weights_, params.reset_factors, result + last_products_,
                         forward_group_, false, blas, stream);
            }
            launch(cell_.forward, early_, stream, params, step);
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
        const auto* const weights = static_cast<const char*>(edges_.pack_weights(b, base + backward_.weights, stream));
        if (has_padding()) chunk_.clear_places(base, 0, b.grad_weight != nullptr ? s_.chunk_steps : Extent(1), stream);
        for (int64_t step = p_.time - 1; step >= 0; --step)
            backward_step(params, base, weights, step, b.grad_weight != nullptr, stream);
        if (b.grad_state_in != nullptr) launch(cell_.backward, early_, stream, params, int64_t{-1});
        edges_.store_grad_bias(b, params.bias_sums, stream);
        edges_.store_grad_weight(b, chunk_.weight_sums(base), stream);
    }

  private:
    // Bytes from a group of rows to the next in an operand and in the result of a product.
    struct GroupBytes {
        size_t operand = 0, result = 0;
    };
    bool has_padding() const { return s_.padded != p_.head_dim || s_.padded_rows() != s_.rows; }

    // Multiplies the rows of an operand, group by group.
    void multiply(const Product& product, const void* weights, const void* rows, void* result, const GroupBytes& bytes,
                  bool add, void* workspace, void* stream) const {
        const auto* from = static_cast<const char*>(rows);
        auto* to = static_cast<char*>(result);
        for (int64_t g = 0; g < s_.groups; ++g, from += bytes.operand, to += bytes.result)
            product.run(weights, from, to, add, workspace, stream);
    }

    void backward_step(RnnParams& params, char* base, const char* weights, int64_t step, bool sums_weights,
                       void* stream) const {
        const int64_t done = p_.time - 1 - step, place = sums_weights ? done % s_.chunk_steps : Extent();
        chunk_.set_place(params, base, place, sums_weights);
        void* const blas = base + backward_.blas;
        // The first launch does not start early: the launch ahead of it may be the one that writes this call's
        // arguments.
        launch(cell_.backward, done > 0 ? early_ : in_order_, stream, params, step);
        if (s_.split) {
            multiply(backward_.through.last, weights + last_weights_,
                     static_cast<const char*>(params.gradients) + last_gradients_, params.through, backward_group_,
                     false, blas, stream);
            launch(cell_.backward_reset, early_, stream, params, step);
        }
        if (step > 0 || params.grad_state_in != nullptr)
            multiply(backward_.through.together, weights, params.gradients, params.through, backward_group_, s_.split,
                     blas, stream);
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
    // The launches of a kernel of the cell: behind the product ahead of it, or early, which may start before that has
    // ended.
    LaunchShape in_order_, early_;
    size_t factor_bytes_ = 0;
    GroupBytes forward_group_, backward_group_;
    size_t last_weights_ = 0, last_products_ = 0, last_gradients_ = 0;  // where the last gate's begin
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
