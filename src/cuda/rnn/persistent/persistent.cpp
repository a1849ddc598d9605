// SPDX-License-Identifier: Apache-2.0
// Host side of "persistent": launches its kernels and enqueues the products for GRAD|WEIGHT.
#include <algorithm>
#include <limits>

#include "cuda/launch/launch.h"
#include "cuda/rnn/candidates.h"
#include "cuda/rnn/edges.h"
#include "cuda/rnn/fused/tuning.h"
#include "cuda/rnn/persistent/tuning.h"
#include "cuda/rnn/weight_gradient.h"

namespace flashscan::cuda {
namespace {

class Persistent final : public RnnKernel {
  public:
    Persistent(const RnnProblem& problem, const Options& options, std::string& refusal)
        : p_(problem),
          device_(options.device),
          cell_(rnn_data_kernels(problem.dtype).cells[static_cast<int>(problem.cell)]),
          s_(problem, false),
          edges_(p_, s_, s_.rows) {
        if (!s_.any) return;
        forward_launch_ = settle(Pass::forward, refusal);
        if (refusal.empty()) book_forward();
        if (p_.training && refusal.empty()) backward_launch_ = settle(Pass::backward, refusal);
        if (p_.training && refusal.empty()) book_backward();
        if (p_.training && refusal.empty()) chunk_ = RnnChunk(device_, s_, backward_, refusal);
        if (options.kernel.empty() && refusal.empty()) refusal = prefer_products();
    }

    std::string describe() const override {
        if (!s_.any) return "nothing to do";
        std::string text = cuda::describe(forward_launch_.params.s);
        if (p_.training)
            text += fmt::format("; backward {}, {} steps a launch", cuda::describe(backward_launch_.params.s),
                                s_.chunk_steps);
        if (p_.training && s_.tf32) text += ", products for GRAD|WEIGHT in tf32";
        return text;
    }
    size_t scratch_bytes(Pass pass) const override {
        return pass == Pass::forward ? forward_.bytes() : backward_.bytes();
    }
    size_t reserve_bytes() const override { return kept_bytes(p_, cell_.kept); }

    void forward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        edges_.pass_states(b, b.state_in, b.state_out, stream);
        if (!s_.any) return;
        char* const base = static_cast<char*>(b.scratch);
        RnnPersistentParams f = common(b, forward_launch_);
        f.p.sequence = edges_.find_sequences(b, base + forward_sequence_, stream);
        f.p.input = b.input;
        f.p.state_out = b.state_out;
        f.p.bias = edges_.widen_bias(b, base + forward_bias_, stream);
        f.p.factors = base + forward_factors_;
        f.p.reset_factors = base + forward_factors_ + 2 * factor_bytes_;
        f.weights = edges_.pack_weights(b, base + forward_weights_, stream);
        f.arrivals = reinterpret_cast<uint32_t*>(base + forward_arrivals_);
        if (s_.padded != p_.head_dim) clear(f.p.factors, 3 * factor_bytes_, stream);
        forward_launch_.run(f, stream);
    }

    void backward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        edges_.pass_states(b, b.grad_state_out, b.grad_state_in, stream);
        if (!s_.any) return edges_.clear_gradients(b, stream);
        char* const base = static_cast<char*>(b.scratch);
        RnnPersistentParams f = common(b, backward_launch_);
        f.p.sequence = edges_.find_sequences(b, base + sequence_, stream);
        f.p.states = base + states_;
        f.p.through = base + through_;
        f.p.grad_output = b.grad_output;
        f.p.grad_state_out = b.grad_state_out;
        f.p.grad_input = b.grad_input;
        f.p.grad_state_in = b.grad_state_in;
        f.p.bias_sums = b.grad_bias != nullptr ? base + bias_sums_ : nullptr;
        f.weights = edges_.pack_weights(b, base + weights_, stream);
        f.arrivals = reinterpret_cast<uint32_t*>(base + arrivals_);
        f.partials = base + partials_;
        const bool sums_weights = b.grad_weight != nullptr;
        if (sums_weights) {
            chunk_.set_place(f.p, base, 0, true);
            if (s_.padded != p_.head_dim) chunk_.clear_places(base, 0, s_.chunk_steps, stream);
        }
        for (f.end = p_.time; f.end > 0; f.end = f.first) {
            f.first = sums_weights ? std::max<int64_t>(f.end - s_.chunk_steps, 0) : 0;
            backward_launch_.run(f, stream);
            if (sums_weights) chunk_.finish(base, f.end - f.first, f.end < p_.time, stream);
        }
        edges_.store_grad_bias(b, f.p.bias_sums, stream);
        edges_.store_grad_weight(b, chunk_.weight_sums(base), stream);
    }

  private:
    // The launch of a pass, whose parameters lack a call's pointers.
    struct TeamLaunch : SettledLaunch<RnnPersistentParams> {
        size_t arrival_bytes = 0;
        void run(const RnnPersistentParams& of_call, void* stream) const {
            clear(of_call.arrivals, arrival_bytes, stream);
            SettledLaunch::run(of_call, stream);
        }
    };

    TeamLaunch settle(Pass pass, std::string& refusal) const {
        TeamLaunch to;
        to.kernel = pass == Pass::forward ? cell_.persistent_forward : cell_.persistent_backward;
        to.params.s = choose(to.kernel, pass, refusal);
        to.params.heads = static_cast<int32_t>(p_.heads);
        to.params.gates = static_cast<int32_t>(s_.gates);
        to.shape = launch_shape(to.params.s);
        to.arrival_bytes = static_cast<size_t>(to.params.s.teams) * rnn_persistent_line * sizeof(uint32_t);
        return to;
    }
    RnnPersistentShape choose(const void* kernel, Pass pass, std::string& refusal) const {
        const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount, device_);
        const auto choose_of = [&](bool clusters) {
            return choose_persistent(p_, pass, s_.rows, s_.padded, multiprocessors, shared_memory_of_block(device_),
                                     clusters);
        };
        allow_shared_memory(kernel, device_);
        RnnPersistentShape shape = choose_of(allow_clusters(kernel));
        if (shape.clustered != 0 && resident_clusters(kernel, launch_shape(shape)) < shape.teams)
            shape = choose_of(false);
        if (shape.blocks == 0)
            refusal = fmt::format("head_dim is {}; a step's vectors do not fit shared memory", p_.head_dim);
        return shape;
    }
    // Allows the kernel clusters of up to 16 blocks; returns whether the device has clusters.
    bool allow_clusters(const void* kernel) const {
        if (!can_overlap(kernel, device_)) return false;
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), "loading a kernel");
        return true;
    }
    static LaunchShape launch_shape(const RnnPersistentShape& s) {
        LaunchShape shape = blocks_of(s.blocks * s.teams, rnn_persistent_threads);
        shape.shared_bytes = s.shared_bytes;
        shape.cooperative = s.clustered == 0;
        shape.cluster = s.clustered != 0 ? s.blocks : 0;
        return shape;
    }
    // Returns why "alternating" is expected to be faster, or an empty string.
    std::string prefer_products() const {
        const double launches = s_.split ? 1.7 : 1;  // the time of a step's launches, relative to that of other cells
        double ours = persistent_step_us(p_, Pass::forward, s_.padded, forward_launch_.params.s);
        double theirs = launches * alternating_step_us(p_, Pass::forward);
        if (p_.training) {
            ours += persistent_step_us(p_, Pass::backward, s_.padded, backward_launch_.params.s);
            theirs += launches * alternating_step_us(p_, Pass::backward);
        }
        if (ours <= theirs) return "";
        return fmt::format("batch is {}; its blocks would take about {:.0f} us a step, products {:.0f}", p_.batch, ours,
                           theirs);
    }

    void book_forward() {
        factor_bytes_ = bytes_of(s_.rows * s_.factor(), s_.dtype);
        forward_weights_ = forward_.book(bytes_of(s_.weights(), s_.dtype));
        forward_bias_ = forward_.book(bytes_of(p_.bias_count(), s_.wide));
        forward_factors_ = forward_.book(3 * factor_bytes_);
        forward_arrivals_ = forward_.book(forward_launch_.arrival_bytes);
        forward_sequence_ = forward_.book(p_.packed() ? bytes_of(p_.time, Dtype::i64) : 0);
    }
    void book_backward() {
        const RnnPersistentShape& shape = backward_launch_.params.s;
        const int64_t parts = int64_t{2} * shape.teams * shape.blocks * shape.tiles * 8;
        weights_ = backward_.book(bytes_of(s_.weights(), s_.dtype));
        states_ = backward_.book(bytes_of(p_.counts().states * s_.rows * p_.width(), s_.wide));
        through_ = backward_.book(bytes_of(s_.rows * s_.factor(), s_.wide));
        partials_ = backward_.book(bytes_of(parts * s_.padded, s_.wide));
        bias_sums_ = backward_.book(bytes_of(p_.counts().biases * s_.rows * p_.width(), s_.wide));
        arrivals_ = backward_.book(backward_launch_.arrival_bytes);
        sequence_ = backward_.book(p_.packed() ? bytes_of(p_.time, Dtype::i64) : 0);
    }

    RnnPersistentParams common(const RnnBuffers& b, const TeamLaunch& of) const {
        RnnPersistentParams f = of.params;
        f.p = edges_.common(b);
        return f;
    }

    RnnProblem p_;
    int device_;
    const RnnCellKernels& cell_;
    RnnShape s_;
    RnnEdges edges_;
    TeamLaunch forward_launch_, backward_launch_;
    RnnChunk chunk_;
    Workspace forward_, backward_;
    size_t factor_bytes_ = 0;
    size_t forward_weights_ = 0, forward_bias_ = 0, forward_factors_ = 0, forward_arrivals_ = 0, forward_sequence_ = 0;
    size_t weights_ = 0, states_ = 0, through_ = 0, partials_ = 0, bias_sums_ = 0, arrivals_ = 0, sequence_ = 0;
};

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_persistent(const RnnProblem& problem, const Options& options,
                                               std::string& refusal) {
    if (options.batch_invariant) refusal = "the plan is batch invariant; who adds up what depends on the batch";
    if (problem.heads > std::numeric_limits<int32_t>::max()) refusal = fmt::format("heads is {}", problem.heads);
    const DeviceScope scope(options.device);
    if (refusal.empty() && device_attribute(cudaDevAttrCooperativeLaunch, options.device) == 0)
        refusal = "the device cannot run all blocks of a launch at once";
    if (!refusal.empty()) return nullptr;
    auto kernel = std::make_unique<Persistent>(problem, options, refusal);
    return refusal.empty() ? std::move(kernel) : nullptr;
}

}  // namespace flashscan::cuda
