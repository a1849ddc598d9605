// SPDX-License-Identifier: Apache-2.0
// Host side of "decode": one launch for a call of one step.
#include "cuda/launch/launch.h"
#include "cuda/launch/step_rows.h"
#include "cuda/rnn/candidates.h"
#include "cuda/rnn/decode/tuning.h"
#include "cuda/rnn/instances/decode_table.h"

namespace flashscan::cuda {
namespace {

class Step final : public RnnKernel {
  public:
    Step(const RnnProblem& problem, const RnnStepShape& shape, int device)
        : p_(problem),
          shape_(shape),
          device_(device),
          has_vectors_(problem.head_dim % 8 == 0),
          shared_(settle_launch(RnnStepWay::shared)),
          aligned_(settle_launch(shape.way)) {
        allow_shared_memory(shared_.kernel, device_);
    }

    std::string describe() const override {
        constexpr const char* ways[] = {"shared memory", "registers", "registers of tensor cores"};
        return fmt::format("{} blocks of {} units for {} rows, {} bytes of R in {}", shape_.blocks, shape_.units,
                           p_.batch, shape_.weight_bytes, ways[static_cast<int>(shape_.way)]);
    }
    size_t scratch_bytes(Pass) const override { return 0; }
    size_t reserve_bytes() const override { return 0; }
    bool takes_states_in_place(Pass) const override { return true; }

    void forward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        RnnStepParams params = shared_.params;  // those of aligned_ are the same
        params.input = b.input;
        params.weight = b.weight;
        params.bias = b.bias;
        params.output = b.output;
        params.reset = b.reset;
        point(params.states, b);
        params.aligned = static_cast<int32_t>(has_vectors_ && lie_aligned(params.states));
        params.whole = static_cast<int32_t>(has_vectors_ && is_multiple(b.weight, 16));
        (params.aligned != 0 && params.whole != 0 ? aligned_ : shared_).run(params, stream);
    }
    void backward(const RnnBuffers&, void*) const override {}  // plans of it are not for training

  private:
    SettledLaunch<RnnStepParams> settle_launch(RnnStepWay way) const {
        LaunchShape shape =
            blocks_of(shape_.blocks, way == RnnStepWay::matrix ? shape_.matrix_threads : shape_.threads);
        shape.shared_bytes = way == RnnStepWay::shared ? shape_.shared_bytes : 0;
        shape.cooperative = p_.pooled();
        return {rnn_step_kernel(p_.dtype, p_.weight_dtype, p_.cell, p_.pooled(), way), shape,
                settle_params(p_, shape_)};
    }
    static RnnStepParams settle_params(const RnnProblem& p, const RnnStepShape& shape) {
        const int64_t state_size = size_of(state_dtype(p.dtype));
        const RnnStrides in = p.input_strides(), out = p.output_strides();
        RnnStepParams params;
        params.input_strides = {in.state, in.batch, in.time};
        params.output_strides = {out.state, out.batch, out.time};
        params.output_states = static_cast<int32_t>(p.output_states());
        params.states = state_rows_of(p, state_size);
        params.in_state = p.state_in.state * state_size;
        params.out_state = p.state_out.state * state_size;
        params.rows = static_cast<int32_t>(p.batch);
        params.heads = static_cast<int32_t>(p.heads);
        params.dim = static_cast<int32_t>(p.head_dim);
        params.width = static_cast<int32_t>(p.width());
        params.padded = shape.padded;
        params.units = shape.units;
        params.tiles = shape.tiles;
        return params;
    }

    RnnProblem p_;
    RnnStepShape shape_;
    int device_;
    bool has_vectors_;  // whether rows of R and of the states may lie in whole words of 16 bytes
    SettledLaunch<RnnStepParams> shared_, aligned_;  // the second one where R and the states lie in such words
};

std::string refuse(const RnnProblem& p, const Options& options) {
    if (p.time != 1 || p.packed())
        return fmt::format("time is {}{}; takes one step", p.time, p.packed() ? ", packed" : "");
    if (p.training) return "the plan is for training";
    if (p.dtype == Dtype::f64) return "dtype is f64; takes f32, bf16 and f16";
    if (row_of(p.cell).resets_before) return "the cell has two products a step, one after the other";
    if (options.batch_invariant) return "the plan is batch invariant; only few rows run so";
    if (p.batch < 1 || p.batch > rnn_step_most_rows)
        return fmt::format("batch is {}; takes 1 to {}", p.batch, rnn_step_most_rows);
    if (p.pooled() && device_attribute(cudaDevAttrCooperativeLaunch, options.device) == 0)
        return "the device cannot run all blocks of a launch at once";
    return "";
}

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_decode(const RnnProblem& problem, const Options& options, std::string& refusal) {
    refusal = refuse(problem, options);
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    const RnnStepShape shape =
        choose_rnn_step(problem, device_attribute(cudaDevAttrMultiProcessorCount, options.device),
                        shared_memory_of_block(options.device));
    if (shape.blocks == 0) {
        refusal = fmt::format("{} heads of {} units for {} rows do not fit the device's blocks", problem.heads,
                              problem.head_dim, problem.batch);
        return nullptr;
    }
    return std::make_unique<Step>(problem, shape, options.device);
}

}  // namespace flashscan::cuda
