// SPDX-License-Identifier: Apache-2.0
// Host side of "diagonal": a launch for all steps of a pass, and one for each sum over rows.
#pragma once

#include "core/workspace.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/rnn/candidates.h"
#include "cuda/rnn/diagonal/params.h"
#include "cuda/rnn/edges.h"
#include "cuda/rnn/instances/diagonal_table.h"

namespace flashscan::cuda {

// Warps for which a multiprocessor has room where each has the most registers.
inline constexpr int64_t rnn_diagonal_deep_resident = 8;

class RnnDiagonal : public RnnKernel {
  public:
    // Backward cuts each row into `segments` segments.
    RnnDiagonal(const RnnProblem& problem, const Options& options, int segments = 1)
        : p_(problem),
          device_(options.device),
          s_(problem, false),
          edges_(p_, s_, p_.state_rows() * segments),
          warps_(ceil_div(p_.width(), rnn_diagonal_units)),
          segments_(segments) {
        const RnnDiagonalKernels kernels = rnn_diagonal_kernels(p_.dtype, p_.cell);
        const int64_t room = rnn_diagonal_deep_resident * device_attribute(cudaDevAttrMultiProcessorCount, device_);
        const bool deep = p_.state_rows() * warps_ <= room;
        kept_ = kernels.kept;
        forward_ = deep ? kernels.deep_forward : kernels.forward;
        if (p_.training) forward_ = deep ? kernels.deep_training : kernels.training;
        backward_ = deep ? kernels.deep_backward : kernels.backward;
        kernel_attributes(forward_.function);
        params_.offsets = offsets_of(p_, nullptr);
        params_.warps = warps_;
        params_.wide_weights = static_cast<int32_t>(p_.weight_dtype == s_.wide);
        params_.clips = static_cast<int32_t>(p_.recurrent_clip > 0);
        forward_shape_ = blocks_of(p_.state_rows() * warps_, rnn_diagonal_units);
        backward_shape_ = blocks_of(p_.state_rows() * warps_ * segments_, rnn_diagonal_units);
        if (!p_.training) return;
        kernel_attributes(backward_.function);
        weight_sums_ = workspace_.book(bytes_of(p_.counts().gates * p_.state_rows() * segments_ * p_.width(), s_.wide));
        bias_sums_ = workspace_.book(bytes_of(p_.counts().biases * p_.state_rows() * segments_ * p_.width(), s_.wide));
    }

    std::string describe() const override {
        std::string text = fmt::format("{} warps of {} units, {} steps fetched at a time", p_.state_rows() * warps_,
                                       rnn_diagonal_units, forward_.steps);
        if (p_.training) text += fmt::format(", {} backward", backward_.steps);
        return text;
    }
    size_t scratch_bytes(Pass pass) const override { return pass == Pass::forward ? 0 : workspace_.bytes(); }
    size_t reserve_bytes() const override {
        return bytes_of(p_.batch.named("RESERVE") * p_.time * warps_ * (rnn_diagonal_units * kept_), s_.wide);
    }

    void forward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        run(forward_.function, forward_shape_, forward_params(b), stream);
    }

    void backward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        char* const base = static_cast<char*>(b.scratch);
        RnnDiagonalParams f = common(b);
        f.p.grad_output = b.grad_output;
        f.p.grad_state_out = b.grad_state_out;
        f.p.grad_input = b.grad_input;
        f.p.grad_state_in = b.grad_state_in;
        f.p.bias_sums = b.grad_bias != nullptr ? base + bias_sums_ : nullptr;
        f.weight_sums = b.grad_weight != nullptr ? base + weight_sums_ : nullptr;
        f.segments = static_cast<int32_t>(segments_);
        find_carries(f, base, stream);
        run(backward_.function, backward_shape_, f, stream);
        edges_.store_grad_bias(b, f.p.bias_sums, stream);
        edges_.store_grad_diagonal(b, f.weight_sums, stream);
    }

  protected:
    // Finds the carries of several segments in scratch memory.
    virtual void find_carries(RnnDiagonalParams&, char*, void*) const {}
    RnnDiagonalParams forward_params(const RnnBuffers& b) const {
        RnnDiagonalParams f = common(b);
        f.p.input = b.input;
        f.p.bias = b.bias;
        f.p.state_out = b.state_out;
        return f;
    }
    RnnDiagonalParams common(const RnnBuffers& b) const {
        RnnDiagonalParams f = params_;
        f.p = edges_.common(b);
        f.offsets.data = b.seq_offsets;
        f.weight = b.weight;
        return f;
    }
    // Rows without steps hand their states on, and sums over no steps are 0.
    static void run(const void* kernel, const LaunchShape& shape, const RnnDiagonalParams& f, void* stream) {
        if (shape.blocks.x > 0) launch(kernel, shape, stream, f);
    }

    RnnProblem p_;
    int device_;
    RnnShape s_;
    RnnEdges edges_;
    Extent warps_;  // that share the units of a row
    int64_t segments_;
    int kept_ = 0;
    RnnDiagonalKernel forward_, backward_;
    RnnDiagonalParams params_;  // without a call's pointers
    LaunchShape forward_shape_, backward_shape_;
    Workspace workspace_;  // of backward
    size_t weight_sums_ = 0, bias_sums_ = 0;
};

}  // namespace flashscan::cuda
