// SPDX-License-Identifier: Apache-2.0
// Host side of "diagonal_newton": forward in one launch, by Newton's iteration or step by step where only backward
// gains; backward as "diagonal", in segments where rows are long.
#include "cuda/rnn/diagonal/diagonal.h"
#include "cuda/rnn/diagonal_newton/tuning.h"
#include "cuda/rnn/instances/diagonal_newton_table.h"

namespace flashscan::cuda {
namespace {

class Newton final : public RnnDiagonal {
  public:
    Newton(const RnnProblem& problem, const Options& options, std::string& refusal)
        : RnnDiagonal(problem, options, choose_rnn_newton_backward(problem, multiprocessors_of(options.device))),
          kernels_(rnn_newton_kernels(p_.dtype, p_.cell)) {
        if (segments_ > 1) {
            kernel_attributes(kernels_.maps);
            kernel_attributes(kernels_.carries);
            const int64_t number = p_.state_rows() * segments_ * p_.width(), states = p_.counts().states;
            maps_ = workspace_.book(bytes_of((states + 1) * states * number, s_.wide));
            carries_ = workspace_.book(bytes_of(states * number, s_.wide));
            carries_shape_ = threads_in_blocks(p_.state_rows() * p_.width(), rnn_newton_scan_block);
        }
        std::string reason = choose_forward(options);
        // Backward in segments is worth a plan whose forward is faster step by step.
        by_steps_ = !reason.empty() && options.kernel.empty() && segments_ > 1;
        if (!by_steps_) refusal = std::move(reason);
    }

    std::string describe() const override {
        std::string text =
            by_steps_
                ? fmt::format("forward step by step, {} fetched at a time", forward_.steps)
                : fmt::format("{} segments of up to {} steps at once in clusters of {} blocks, by Newton's iteration",
                              shape_.blocks * shape_.warps, shape_.steps, shape_.blocks);
        if (p_.training && segments_ > 1)
            text += fmt::format("; backward {} segments, {} steps fetched at a time", segments_, backward_.steps);
        else if (p_.training)
            text += fmt::format("; backward step by step, {} fetched at a time", backward_.steps);
        return text;
    }

    void forward(const RnnBuffers& b, void* stream) const override {
        if (by_steps_) return RnnDiagonal::forward(b, stream);
        const DeviceScope scope(device_);
        const RnnNewtonParams f{forward_params(b), shape_.blocks, shape_.steps, b.iterations, b.residual};
        launch(kernels_.forward, newton_shape_, stream, f);
    }

  private:
    static int multiprocessors_of(int device) { return device_attribute(cudaDevAttrMultiProcessorCount, device); }

    void find_carries(RnnDiagonalParams& f, char* scratch, void* stream) const override {
        if (segments_ == 1) return;
        f.maps = scratch + maps_;
        f.carries = scratch + carries_;
        run(kernels_.maps, backward_shape_, f, stream);
        launch(kernels_.carries, carries_shape_, stream, f);
    }

    LaunchShape launch_shape() const {
        LaunchShape shape = blocks_of(p_.state_rows() * warps_ * shape_.blocks, 32 * shape_.warps);
        shape.shared_bytes = shape_.shared_bytes;
        shape.cluster = shape_.blocks > 1 ? shape_.blocks : 0;
        return shape;
    }
    // Cuts forward. Returns why it cannot run, or why "diagonal" is expected to be faster, or an empty string.
    std::string choose_forward(const Options& options) {
        const int multiprocessors = multiprocessors_of(device_);
        const bool clusters = can_overlap(kernels_.forward, device_);  // both came with compute capability 9.0
        shape_ = choose_rnn_newton(p_, multiprocessors, shared_memory_of_block(device_), clusters);
        if (shape_.warps == 0)
            return fmt::format("INPUT of {} steps for each warp does not fit shared memory", rnn_newton_least);
        allow_shared_memory(kernels_.forward, device_);
        if (clusters)
            check(cudaFuncSetAttribute(kernels_.forward, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                  "loading a kernel");
        // A part of a GPU may have room for no cluster of so many blocks. Where some run and others wait for them, two
        // turns of clusters take about as long as one turn of clusters of half as many blocks, and nothing is gained by
        // halving.
        while (shape_.blocks > 1 && resident_clusters(kernels_.forward, launch_shape()) == 0) shape_.blocks /= 2;
        newton_shape_ = launch_shape();
        if (!options.kernel.empty() || rnn_newton_pays(p_, shape_, multiprocessors)) return "";
        return fmt::format("time is {}; all steps would take about {:.0f} cycles, step by step {:.0f}", p_.time,
                           rnn_newton_cycles(p_, shape_, multiprocessors), rnn_diagonal_cycles(p_, multiprocessors));
    }

    RnnNewtonKernels kernels_;
    size_t maps_ = 0, carries_ = 0;
    RnnNewtonShape shape_;
    LaunchShape newton_shape_, carries_shape_;
    bool by_steps_ = false;  // forward is that of "diagonal", whose RESERVE is the same
};

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_diagonal_newton(const RnnProblem& problem, const Options& options,
                                                    std::string& refusal) {
    if (problem.head_dim != 1)
        refusal = fmt::format("head_dim is {}; takes heads of one unit", problem.head_dim);
    else if (problem.cell == Cell::slstm || problem.dtype == Dtype::f64)
        refusal = "takes no sLSTM, whose max has no derivative, and no f64";
    else if (options.batch_invariant)
        refusal = "batch_invariant is set; how many segments run at once depends on the rows";
    else if (problem.state_rows() == 0 || problem.width() == 0)
        refusal = "there are no rows";
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    auto kernel = std::make_unique<Newton>(problem, options, refusal);
    return refusal.empty() ? std::move(kernel) : nullptr;
}

}  // namespace flashscan::cuda
