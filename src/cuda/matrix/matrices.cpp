// SPDX-License-Identifier: Apache-2.0
// Host side of matrix products and affine maps: describes a call's reads and writes as walks over chains of matrices
// (params.h).
#include <algorithm>

#include "cuda/launch/sequence_offsets.h"
#include "cuda/matrix/candidates.h"
#include "cuda/matrix/params.h"
#include "cuda/matrix/pass.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

class Matrices final : public OperatorKernel {
  public:
    Matrices(const OperatorProblem& problem, const Options& options, std::string& refusal)
        : p_(problem),
          device_(options.device),
          numbers_(state_dtype(p_.dtype)),
          kernels_(matrix_kernels(numbers_)),
          forward_walk_(settle_walk(Pass::forward)),
          backward_walk_(settle_walk(Pass::backward)),
          gradient_(settle_gradient()),
          gradient_tiles_(static_cast<int32_t>(ceil_div(p_.dim, matrix_gradient_block_tile))),
          gradient_count_(p_.is_affine() ? p_.input_count() * p_.gate_element() : Extent()) {
        MatrixShape shape;
        shape.dim = static_cast<int32_t>(p_.dim);
        shape.rows = p_.is_affine() ? 1 : shape.dim;
        shape.has_sums = p_.is_affine();
        shape.chains = p_.chains();
        shape.steps = p_.time;
        shape.cuttable = !p_.packed();
        shape.any_steps = p_.packed() && options.batch_invariant;
        shape.plan_chains = options.batch_invariant ? std::min<int64_t>(shape.chains, 1) : shape.chains;
        shape.plain = !p_.is_affine() && p_.dtype == Dtype::f32 && !p_.allow_tf32;
        forward_pass_ = MatrixPass(shape, numbers_, p_.is_reduction(), device_, forward_, refusal);
        if (!refusal.empty()) return;
        if (p_.is_reduction()) {
            prefix_pass_ = forward_pass_.of_all_steps(backward_);
            prefixes_ = backward_.book(elements(p_.input_count()));
        }
        shape.plain = false;
        shape.has_sums = !p_.is_reduction();
        backward_pass_ = MatrixPass(shape, numbers_, false, device_, backward_, refusal);
        gradients_ = backward_.book(elements(p_.array_count()));  // which lie as INPUT does
        gradient_grid_ = settle_gradient_grid();
    }

    std::string describe() const override {
        return fmt::format("forward {}; backward {}", forward_pass_.describe(), backward_pass_.describe());
    }
    size_t scratch_bytes(Pass pass) const override {
        return pass == Pass::forward ? forward_.bytes() : backward_.bytes();
    }

    void forward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        MatrixWalk walk = forward_walk(b);
        walk.emits_before = static_cast<int32_t>(p_.mode == OperatorMode::exclusive);
        walk.emitted_dtype = p_.dtype;
        walk.emitted = p_.is_reduction() ? nullptr : b.output;
        walk.reduced = p_.is_reduction() ? b.output : nullptr;
        walk.reduced_dtype = p_.dtype;
        walk.finished = b.state_out;
        forward_pass_.run(walk, static_cast<char*>(b.scratch), stream);
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        char* const scratch = static_cast<char*>(b.scratch);
        const bool needs_y = p_.is_affine() ? b.grad_gate != nullptr : b.grad_input != nullptr;
        if (needs_y && p_.is_reduction()) {
            MatrixWalk prefixes = forward_walk(b);
            prefixes.emits_before = 1;
            prefixes.emitted_dtype = numbers_;
            prefixes.emitted = scratch + prefixes_;
            prefix_pass_.run(prefixes, scratch, stream);
        }
        MatrixWalk walk = backward_walk(b);
        // g goes directly into GRAD|INPUT where it is not needed unrounded.
        const bool direct = p_.is_affine() && (!needs_y || (b.grad_input != nullptr && p_.dtype == numbers_));
        walk.emitted_dtype = direct ? p_.dtype : numbers_;
        walk.emitted = direct ? b.grad_input : needs_y ? scratch + gradients_ : nullptr;
        backward_pass_.run(walk, scratch, stream);
        if (!needs_y || p_.input_count() == 0) return;
        MatrixGradient m = gradient(b, scratch);
        m.g = walk.emitted;
        m.grad_input = direct ? nullptr : b.grad_input;
        launch_gradient(m, stream);
    }

  private:
    Extent elements(Extent count) const { return count * p_.element() * size_of(numbers_); }

    // The walk of a pass, without a call's pointers.
    MatrixWalk settle_walk(Pass pass) const {
        const bool backward = pass == Pass::backward;
        MatrixWalk walk;
        walk.dim = static_cast<int32_t>(p_.dim);
        walk.rows = p_.is_affine() ? 1 : walk.dim;
        walk.chains = p_.chains();
        walk.chains_inside = std::max<int64_t>(p_.channels, 1);
        walk.offsets = offsets_of(p_, nullptr);
        walk.places = places();
        walk.matrix_dtype = walk.addend_dtype = walk.added_start_dtype = p_.dtype;
        // Only f32 matrices may be rounded to tf32. With 16-bit matrices, which tf32 holds exactly, the other factor is
        // a state, which the interface promises to keep in f32.
        walk.rounded_factors = static_cast<int32_t>(p_.allow_tf32 && p_.dtype == Dtype::f32);
        walk.transposed = static_cast<int32_t>(p_.is_affine() != backward);
        walk.turned = static_cast<int32_t>((p_.direction == Direction::reverse) != backward);
        if (!backward) return walk;
        walk.conjugate = static_cast<int32_t>(is_complex(p_.dtype));
        walk.adds_before = static_cast<int32_t>(p_.mode == OperatorMode::inclusive);
        walk.emits_before = 1;
        walk.start = MatrixStart::carried;
        return walk;
    }
    MatrixWalk forward_walk(const OperatorBuffers& b) const {
        MatrixWalk walk = forward_walk_;
        walk.offsets.data = b.seq_offsets;
        walk.matrix = p_.is_affine() ? b.gate : b.input;
        walk.addend = p_.is_affine() ? b.input : nullptr;
        walk.start = b.state_in != nullptr ? MatrixStart::carried : MatrixStart::nothing;
        walk.started = b.state_in;
        return walk;
    }
    MatrixWalk backward_walk(const OperatorBuffers& b) const {
        MatrixWalk walk = backward_walk_;
        walk.offsets.data = b.seq_offsets;
        walk.matrix = p_.is_affine() ? b.gate : b.input;
        walk.addend = p_.is_reduction() ? nullptr : b.grad_output;
        walk.started = b.grad_state_out;
        walk.added_start = p_.is_reduction() ? b.grad_output : nullptr;
        walk.finished = b.grad_state_in;
        return walk;
    }

    MatrixPlaces places() const {
        const auto steps = p_.steps();
        return {p_.packed() ? 0 : steps.batch, steps.time, steps.channels};
    }

    MatrixGradient settle_gradient() const {
        MatrixGradient m;
        m.dim = static_cast<int32_t>(p_.dim);
        m.chains_inside = p_.channels;
        m.steps = p_.time;
        m.offsets = offsets_of(p_, nullptr);
        m.places = places();
        m.turned = static_cast<int32_t>(p_.direction == Direction::reverse);
        m.y_is_before = static_cast<int32_t>(p_.mode != OperatorMode::inclusive);
        m.dtype = p_.dtype;
        m.y_dtype = p_.is_reduction() ? numbers_ : p_.dtype;
        return m;
    }
    MatrixGradient gradient(const OperatorBuffers& b, const char* scratch) const {
        MatrixGradient m = gradient_;
        m.offsets.data = b.seq_offsets;
        m.y = p_.is_reduction() ? scratch + prefixes_ : b.output;
        m.state_in = b.state_in;
        m.grad_gate = b.grad_gate;
        return m;
    }
    // A matrix has gradient_tiles_ rows and as many columns of tiles, one for a block. Blocks of affine maps go through
    // all gradient_count_ numbers of the matrices.
    LaunchShape settle_gradient_grid() const {
        if (!p_.is_affine())
            return blocks_of(p_.input_count() * gradient_tiles_ * gradient_tiles_, matrix_gradient_block);
        const int64_t most = int64_t{64} * device_attribute(cudaDevAttrMultiProcessorCount, device_);
        return blocks_of(std::min(most, ceil_div(gradient_count_, matrix_gradient_block)), matrix_gradient_block);
    }
    void launch_gradient(const MatrixGradient& m, void* stream) const {
        if (p_.is_affine())
            launch(kernels_.affine_gradient, gradient_grid_, stream, m, gradient_count_);
        else
            launch(kernels_.gradient, gradient_grid_, stream, m, gradient_tiles_);
    }

    OperatorProblem p_;
    int device_;
    Dtype numbers_;
    const MatrixKernels& kernels_;
    MatrixWalk forward_walk_, backward_walk_;  // these and the next are without a call's pointers
    MatrixGradient gradient_;
    int32_t gradient_tiles_;
    int64_t gradient_count_;
    LaunchShape gradient_grid_;
    Workspace forward_, backward_;
    MatrixPass forward_pass_, prefix_pass_, backward_pass_;
    size_t prefixes_ = 0, gradients_ = 0;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_matrices(const OperatorProblem& problem, const Options& options,
                                                       std::string& refusal) {
    if (!problem.is_affine() && !problem.is_matmul()) {
        refusal = "elements are no matrices";
        return nullptr;
    }
    const DeviceScope scope(options.device);
    auto kernel = std::make_unique<Matrices>(problem, options, refusal);
    return refusal.empty() ? std::move(kernel) : nullptr;
}

}  // namespace flashscan::cuda
