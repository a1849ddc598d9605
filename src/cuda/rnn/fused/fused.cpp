// SPDX-License-Identifier: Apache-2.0
// Host side of "fused": orders the weights, launches the persistent kernels and enqueues the product for GRAD|WEIGHT.
#include <algorithm>
#include <limits>

#include "cuda/launch/alignment.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/rnn/candidates.h"
#include "cuda/rnn/edges.h"
#include "cuda/rnn/fused/params.h"
#include "cuda/rnn/fused/teams.h"

namespace flashscan::cuda {
namespace {

// A launch of backward stores the factors of so many rows for one product.
constexpr int64_t launch_rows = 16384;

class Fused final : public RnnKernel {
  public:
    Fused(const RnnProblem& problem, const Options& options, std::string& refusal)
        : p_(problem),
          device_(options.device),
          s_(problem, false, launch_rows),
          edges_(p_, s_, p_.state_rows()),
          order_weights_(rnn_fused_weight_kernel(problem.dtype, problem.weight_dtype)) {
        kernel_attributes(order_weights_);
        if (!s_.any) return;
        settle_forward(options, refusal);
        if (p_.training && refusal.empty()) settle_backward(options, refusal);
        // The choice of a batch-invariant plan does not depend on the batch.
        const bool chooses = options.kernel.empty() && !options.batch_invariant && !p_.packed();
        if (chooses && refusal.empty()) refusal = prefer_products();
    }

    std::string describe() const override {
        if (!s_.any) return "nothing to do";
        std::string text = cuda::describe(forward_.teams);
        if (p_.training)
            text += fmt::format("; backward {}, {} steps a launch", cuda::describe(backward_.teams),
                                p_.packed() ? p_.time : s_.chunk_steps);
        if (p_.training && s_.tf32) text += ", products for GRAD|WEIGHT in tf32";
        return text;
    }
    size_t scratch_bytes(Pass pass) const override {
        return pass == Pass::forward ? forward_.scratch.bytes() : backward_.scratch.bytes();
    }
    size_t reserve_bytes() const override {
        if (!s_.any) return 0;
        const Extent elements = p_.batch.named("RESERVE") * p_.time * p_.heads * round_up(p_.head_dim, 8);
        return static_cast<size_t>(elements * forward_.teams.kernel->kept * sizeof(float));
    }

    void forward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        edges_.pass_states(b, b.state_in, b.state_out, stream);
        if (!s_.any) return;
        char* const base = static_cast<char*>(b.scratch);
        RnnFusedParams f = begin(forward_, b, stream);
        f.p.bias = edges_.widen_bias(b, base + forward_bias_, stream);
        f.p.input = b.input;
        f.p.state_out = b.state_out;
        f.end = p_.time;
        launch(forward_, f, stream);
    }

    void backward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        edges_.pass_states(b, b.grad_state_out, b.grad_state_in, stream);
        if (!s_.any) return edges_.clear_gradients(b, stream);
        char* const base = static_cast<char*>(b.scratch);
        RnnFusedParams f = begin(backward_, b, stream);
        f.p.states = base + states_;
        f.p.grad_output = b.grad_output;
        f.p.grad_state_out = b.grad_state_out;
        f.p.grad_input = b.grad_input;
        f.p.grad_state_in = b.grad_state_in;
        if (!is_multiple(b.grad_input, 4)) f.input_words = 0;
        f.p.bias_sums = b.grad_bias != nullptr ? base + bias_sums_ : nullptr;
        f.gradients = b.grad_weight != nullptr ? base + gradients_ : nullptr;
        f.factors = b.grad_weight != nullptr ? base + factors_ : nullptr;
        if (p_.packed())
            run_packed(base, f, stream);
        else
            run_launches(base, f, stream);
        edges_.store_grad_bias(b, f.p.bias_sums, stream);
        edges_.store_grad_weight(b, base + weight_sums_, stream);
    }

  private:
    void run_launches(char* base, RnnFusedParams& f, void* stream) const {
        if (f.factors != nullptr && s_.padded != p_.head_dim) clear_factors(base, 0, stream);
        for (f.end = p_.time; f.end > 0; f.end = f.first) {
            f.first = f.factors != nullptr ? std::max<int64_t>(f.end - s_.chunk_steps, 0) : 0;
            launch(backward_, f, stream);
            if (f.factors != nullptr) {
                clear_factors(base, f.end - f.first, stream);
                add_grad_weights(base, 0, f.end < p_.time, stream);
            }
            if (f.first > 0) fill_ring(backward_.teams, f.ring, stream);
        }
    }
    // Only the device knows which rows take part in a step, so one launch stores the factors of all steps.
    void run_packed(char* base, RnnFusedParams& f, void* stream) const {
        if (f.factors != nullptr) clear_factors(base, 0, stream);
        if (f.p.bias_sums != nullptr) clear(f.p.bias_sums, bias_sum_bytes_, stream);
        f.end = p_.time;
        launch(backward_, f, stream);
        if (f.factors == nullptr) return;
        for (int64_t step = 0; step < p_.time; step += s_.chunk_steps) add_grad_weights(base, step, step > 0, stream);
    }

    void settle_forward(const Options& options, std::string& refusal) {
        forward_.teams = make_teams(p_, Pass::forward, options, refusal);
        if (!refusal.empty()) return;
        settle(forward_, 0);
        forward_bias_ = forward_.scratch.book(bytes_of(p_.bias_count(), s_.wide));
    }
    void settle_backward(const Options& options, std::string& refusal) {
        backward_.teams = make_teams(p_, Pass::backward, options, refusal);
        if (refusal.empty()) grad_weights_ = make_grad_weights(device_, s_, refusal);
        if (!refusal.empty()) return;
        settle(backward_, backward_.teams.kernel->depth / static_cast<int>(s_.gates));
        backward_.params.input_words = static_cast<int32_t>(p_.head_dim % 2 == 0);
        backward_.params.clip = static_cast<float>(edges_.clip());
        // Steps of the factors, in whole chunks.
        const Extent steps = p_.packed() ? round_up(p_.time, s_.chunk_steps) : s_.chunk_steps;
        bias_sum_bytes_ = bytes_of(p_.counts().biases * p_.state_rows() * p_.width(), s_.wide);
        step_gradient_bytes_ = bytes_of(s_.rows * s_.product(), s_.dtype);
        step_factor_bytes_ = bytes_of(s_.rows * s_.factor(), s_.dtype);
        gradient_bytes_ = static_cast<size_t>(steps * step_gradient_bytes_);
        factor_bytes_ = static_cast<size_t>(steps * step_factor_bytes_);
        Workspace& scratch = backward_.scratch;
        states_ = scratch.book(bytes_of(p_.counts().states * s_.rows * p_.width(), s_.wide));
        bias_sums_ = scratch.book(bias_sum_bytes_);
        gradients_ = scratch.book(gradient_bytes_);
        factors_ = scratch.book(factor_bytes_);
        weight_sums_ = scratch.book(bytes_of(s_.weights(), s_.wide));
        blas_ = scratch.book(grad_weights_.workspace_bytes());
    }

    // Returns why "alternating" is expected to be faster, or an empty string. It is not asked for packed sequences,
    // which "alternating" runs one after another.
    std::string prefer_products() const {
        double ours = fused_step_us(forward_.teams, Pass::forward);
        double theirs = alternating_step_us(p_, Pass::forward);
        if (p_.training) {
            ours += fused_step_us(backward_.teams, Pass::backward);
            theirs += alternating_step_us(p_, Pass::backward);
        }
        if (ours <= theirs) return "";
        return fmt::format(
            "batch is {}; teams would take {} rows of a head at once, about {:.0f} us a step against {:.0f}", p_.batch,
            forward_.teams.teams * forward_.teams.kernel->rows, ours, theirs);
    }

    // A pass of the plan: its teams, and the parameters of its launches without a call's pointers.
    struct FusedPass {
        LoadedTeams teams;
        RnnFusedParams params;
        RnnEdgeLaunch<RnnFusedWeightParams> order_weights;
        Workspace scratch;
        size_t weights = 0, ring = 0;
    };
    // `period` is that of k in backward, and 0 in forward.
    void settle(FusedPass& pass, int period) const {
        const LoadedTeams& t = pass.teams;
        const RnnFusedKernel& k = *t.kernel;
        pass.order_weights.kernel = order_weights_;
        pass.order_weights.params = {nullptr,
                                     nullptr,
                                     static_cast<int32_t>(s_.gates),
                                     static_cast<int32_t>(p_.heads),
                                     static_cast<int32_t>(p_.head_dim),
                                     t.blocks,
                                     k.row_gates,
                                     k.groups,
                                     k.unit_warps,
                                     k.parts,
                                     k.planes,
                                     k.tiles,
                                     k.steps,
                                     period,
                                     static_cast<int32_t>(k.scatters)};
        // The ordered weights, in words of 16 bytes.
        const int64_t words = p_.heads * t.blocks * k.product_threads * k.planes * k.tiles * k.steps;
        pass.order_weights.shape = threads_in_blocks(words, rnn_fused_weight_block);
        pass.weights = pass.scratch.book(static_cast<size_t>(words) * 16);
        pass.ring = pass.scratch.book(t.ring_bytes);
        pass.params.offsets = offsets_of(p_, nullptr);
        pass.params.heads = static_cast<int32_t>(p_.heads);
        pass.params.blocks = t.blocks;
        pass.params.teams = static_cast<int32_t>(t.teams);
        pass.params.tiles = static_cast<int32_t>(t.tiles);
        pass.params.jobs = static_cast<int32_t>(t.jobs);
    }

    // Fills the ring and orders the weights. Returns the parameters of the pass.
    RnnFusedParams begin(const FusedPass& pass, const RnnBuffers& b, void* stream) const {
        char* const base = static_cast<char*>(b.scratch);
        RnnFusedParams f = pass.params;
        f.p = edges_.common(b);
        f.offsets.data = b.seq_offsets;
        f.weights = base + pass.weights;
        f.ring = base + pass.ring;
        fill_ring(pass.teams, f.ring, stream);
        pass.order_weights.run(b.weight, base + pass.weights, stream);
        return f;
    }
    static void launch(const FusedPass& pass, const RnnFusedParams& f, void* stream) {
        cuda::launch(pass.teams.kernel->function, pass.teams.shape, stream, f);
    }

    // Clears the factors and gradients from step `steps` of the chunk on, since products take whole chunks.
    void clear_factors(char* base, int64_t steps, void* stream) const {
        const auto from = static_cast<size_t>(steps);
        const size_t gradients = from * step_gradient_bytes_, factors = from * step_factor_bytes_;
        clear(base + gradients_ + gradients, gradient_bytes_ - gradients, stream);
        clear(base + factors_ + factors, factor_bytes_ - factors, stream);
    }
    // Enqueues the product of the chunk that begins at `step`.
    void add_grad_weights(char* base, int64_t step, bool add, void* stream) const {
        const auto at = static_cast<size_t>(step);
        grad_weights_.together.run(base + factors_ + at * step_factor_bytes_,
                                   base + gradients_ + at * step_gradient_bytes_, base + weight_sums_, add,
                                   base + blas_, stream);
    }

    RnnProblem p_;
    int device_;
    RnnShape s_;
    RnnEdges edges_;
    const void* order_weights_;
    RnnProducts grad_weights_;
    FusedPass forward_, backward_;
    size_t forward_bias_ = 0;
    // The following belong to backward.
    size_t states_ = 0, bias_sums_ = 0, gradients_ = 0, factors_ = 0, weight_sums_ = 0, blas_ = 0;
    size_t bias_sum_bytes_ = 0, gradient_bytes_ = 0, factor_bytes_ = 0;
    size_t step_gradient_bytes_ = 0, step_factor_bytes_ = 0;
};

// Returns why no fused kernel takes the problem, or an empty string where one may.
std::string refuse(const RnnProblem& p, int device) {
    if (p.dtype == Dtype::f64) return "dtype is f64; takes f32, bf16 and f16";
    if (row_of(p.cell).resets_before) return "the cell has two products a step, one after the other";
    if (p.time > std::numeric_limits<int32_t>::max())
        return fmt::format("time is {}; takes up to {}", p.time, std::numeric_limits<int32_t>::max());
    const int major = device_attribute(cudaDevAttrComputeCapabilityMajor, device);
    if (major < 9) return fmt::format("the device's compute capability is {}.x; needs 9.0", major);
    return "";
}

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_fused(const RnnProblem& problem, const Options& options, std::string& refusal) {
    refusal = refuse(problem, options.device);
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    auto kernel = std::make_unique<Fused>(problem, options, refusal);
    return refusal.empty() ? std::move(kernel) : nullptr;
}

}  // namespace flashscan::cuda
