// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "resident" of selective scans: blocks walk the steps of a row with the states in registers
// (forward.cuh, backward.cuh).
#include <algorithm>

#include "core/workspace.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/launch/view_of.h"
#include "cuda/selective/call.h"
#include "cuda/selective/candidates.h"
#include "cuda/selective/ends.h"
#include "cuda/selective/instances/table.h"
#include "cuda/selective/params.h"

namespace flashscan::cuda {
namespace {

constexpr int sum_threads = 256;

class Resident final : public SummarisedSelective {
  public:
    Resident(const SelectiveProblem& problem, const Options& options)
        : p_(problem),
          device_(options.device),
          kernels_(selective_kernels(p_.dtype, p_.matrix_dtype)),
          passes_(passes_for(kernels_.passes[p_.layout == Layout::bct], p_.states)),
          slices_(ceil_div(p_.channels / p_.groups, passes_.channels)),  // without channels only sums are launched
          size_(size_of(p_.matrix_dtype)),
          segment_steps_(choose_segments(options)),
          segments_(max(ceil_div(p_.time, segment_steps_), 1)),
          parts_(p_.state_rows() * segments_),
          forward_(book_forward()),
          backward_(book_backward()),
          summary_segments_(max(segments_, 2)),
          summary_(book_summary()),
          forward_params_(settle_params(Pass::forward)),
          backward_params_(settle_params(Pass::backward)) {
        for (const void* kernel : {passes_.forward, passes_.states, passes_.adjoint, passes_.backward})
            allow_shared_memory(kernel, device_);
    }

    std::string describe() const override {
        return fmt::format(
            "{} rows x {} segments x {} groups x {} blocks of {} channels, {} states in a lane; backward keeps the "
            "states of every {} steps",
            p_.state_rows(), segments_, p_.groups, slices_, passes_.channels, passes_.states_of_lane, passes_.kept);
    }
    size_t scratch_bytes(Pass pass) const override { return pass == Pass::forward ? forward_.bytes : backward_.bytes; }

    void forward(const SelectiveBuffers& x, void* stream) const override {
        const DeviceScope scope(device_);
        SelectiveParams params = common(x, forward_params_, forward_);
        if (segments_ > 1) {
            launch_blocks(passes_.states, passes_.forward_bytes, without_c(params), stream);
            find_carries(x, params, false, stream);
        }
        point(params.output, x.output);
        params.state_out = x.state_out;
        launch_blocks(passes_.forward, passes_.forward_bytes, params, stream);
    }

    void backward(const SelectiveBuffers& x, void* stream) const override {
        const DeviceScope scope(device_);
        const auto at = [&](size_t offset) { return static_cast<char*>(x.scratch) + offset; };
        SelectiveParams params = common(x, backward_params_, backward_);
        params.kept = at(backward_.kept);
        params.kept_deltas = at(backward_.kept_deltas);
        point(params.grad_output, x.grad_output);
        launch_blocks(passes_.states, passes_.forward_bytes, without_c(params), stream);
        if (segments_ > 1) {
            find_carries(x, params, false, stream);
            walk_adjoint(params, stream);
            find_carries(x, params, true, stream);
        }
        point(params.grad_input, x.grad_input);
        point(params.grad_delta, x.grad_delta);
        point(params.grad_gate, x.grad_output_gate);
        params.grad_state_out = x.grad_state_out;
        params.grad_state_in = x.grad_state_in;
        const auto wanted = [&](bool there, size_t offset) { return there ? at(offset) : nullptr; };
        params.sum_a = wanted(x.grad_a != nullptr, backward_.a);
        params.sum_b = wanted(x.grad_b != nullptr && !p_.b_per_step, backward_.b);
        params.sum_c = wanted(x.grad_c != nullptr && !p_.c_per_step, backward_.c);
        params.sum_d = wanted(x.grad_d != nullptr, backward_.d);
        params.sum_bias = wanted(x.grad_bias != nullptr, backward_.bias);
        params.step_b = wanted(x.grad_b != nullptr && p_.b_per_step, backward_.b);
        params.step_c = wanted(x.grad_c != nullptr && p_.c_per_step, backward_.c);
        launch_blocks(passes_.backward, passes_.backward_bytes, params, stream);

        const auto add = [&](const void* kernel, const void* sums, Extent numbers, void* to) {
            add_parts(kernel, sums, parts_, numbers, to, stream);
        };
        add(kernels_.sums, params.sum_a, matrix_numbers(), x.grad_a);
        if (!p_.b_per_step) add(kernels_.sums, params.sum_b, matrix_numbers(), x.grad_b);
        if (!p_.c_per_step) add(kernels_.sums, params.sum_c, matrix_numbers(), x.grad_c);
        add(kernels_.param_sums, params.sum_d, p_.channels, x.grad_d);
        add(kernels_.param_sums, params.sum_bias, p_.channels, x.grad_bias);
        if (p_.b_per_step) add_slices(params.step_b, p_.grad_b, x.grad_b, x.seq_offsets, stream);
        if (p_.c_per_step) add_slices(params.step_c, p_.grad_c, x.grad_c, x.seq_offsets, stream);
    }

    // Walks tell what segments do to states where there are several: a single one gets a second without steps, and
    // packed sequences are walked twice.
    void summarise(Pass pass, const SelectiveBuffers& x, void* delta_sums, void* stream) const override {
        const DeviceScope scope(device_);
        SelectiveParams params = common(x, pass == Pass::forward ? forward_params_ : backward_params_, summary_);
        params.segments = static_cast<int32_t>(summary_segments_);
        launch_blocks(passes_.states, passes_.forward_bytes, without_c(params), stream);
        find_ends(x, params, false, x.state_out, delta_sums, stream);
        if (pass == Pass::forward || x.grad_state_in == nullptr) return;
        point(params.grad_output, x.grad_output);
        walk_adjoint(params, stream);
        find_ends(x, params, true, x.grad_state_in, nullptr, stream);
    }
    size_t summary_bytes(Pass) const override { return summary_.bytes; }

  private:
    // Offsets in SCRATCH. b and c are partial sums of rows and segments, or, if each step has its own matrices, of
    // slices.
    struct Scratch {
        size_t carries, adjoint_carries, deltas, kept, kept_deltas, a, b, c, d, bias, bytes;
    };

    static const SelectivePasses& passes_for(const std::vector<SelectivePasses>& list, int64_t states) {
        return *std::find_if(list.begin(), list.end(),
                             [&](const SelectivePasses& passes) { return passes.most_states >= states; });
    }
    static bool are_alike(const SelectiveProblem& p) {
        const Strides* const tensors[] = {&p.delta,      &p.output_gate, &p.output,          &p.grad_output,
                                          &p.grad_input, &p.grad_delta,  &p.grad_output_gate};
        return std::all_of(std::begin(tensors), std::end(tensors), [&](const Strides* s) { return *s == p.input; }) &&
               (!p.b_per_step || !p.c_per_step || p.b == p.c);
    }
    Extent matrix_numbers() const { return p_.channels * p_.states; }
    Extent step_numbers() const { return p_.batch.named("SCRATCH") * p_.time * p_.groups * p_.states; }
    Extent kept_chunks() const { return ceil_div(p_.time, passes_.kept); }

    // Returns the steps of a segment. There is more than one segment where rows and channels would leave half of the
    // device idle, and then as many as keep it busy.
    int64_t choose_segments(const Options& options) const {
        constexpr int64_t least_steps = 256, blocks_of_multiprocessor = 4;
        const int64_t blocks = p_.state_rows() * p_.groups * slices_, steps = max(p_.time, 1);
        if (p_.packed() || options.batch_invariant || blocks == 0) return steps;
        const int64_t wanted =
            blocks_of_multiprocessor * device_attribute(cudaDevAttrMultiProcessorCount, device_) / blocks;
        const int64_t segments = std::min(wanted, steps / least_steps);
        return segments <= 1 ? steps : round_up(ceil_div(steps, segments), 32);
    }

    // Books the carries into segments, and the sums of d over them.
    void book_segments(Workspace& workspace, Scratch& scratch, bool adjoint, int64_t segments) const {
        const Extent times = segments > 1 ? p_.state_rows().named("SCRATCH") * segments : Extent(0);
        scratch.carries = workspace.book(times * matrix_numbers() * size_);
        if (adjoint) scratch.adjoint_carries = workspace.book(times * matrix_numbers() * size_);
        scratch.deltas = workspace.book(times * p_.channels * size_of(p_.param_dtype()));
    }
    Scratch book_forward() const {
        Workspace workspace;
        Scratch scratch{};
        book_segments(workspace, scratch, false, segments_);
        scratch.bytes = workspace.bytes();
        return scratch;
    }
    Scratch book_summary() const {
        Workspace workspace;
        Scratch scratch{};
        book_segments(workspace, scratch, true, summary_segments_);
        scratch.bytes = workspace.bytes();
        return scratch;
    }
    Scratch book_backward() const {
        Workspace workspace;
        Scratch scratch{};
        book_segments(workspace, scratch, true, segments_);
        const Extent rows = p_.state_rows().named("SCRATCH");
        const Extent chunks = p_.packed() ? kept_chunks() + rows + 1 : rows * kept_chunks();
        const Extent lanes = ceil_div(p_.states, passes_.states_of_lane);
        scratch.kept = workspace.book(chunks * p_.channels * lanes * passes_.states_of_lane * size_);
        const int64_t param_size = size_of(p_.param_dtype());
        scratch.kept_deltas = workspace.book(segments_ > 1 ? chunks * p_.channels * param_size : Extent(0));
        const auto matrix = [&](bool per_step) {
            return workspace.book((per_step ? slices_ * step_numbers() : parts_ * matrix_numbers()) * size_);
        };
        scratch.a = matrix(false);
        scratch.b = matrix(p_.b_per_step);
        scratch.c = matrix(p_.c_per_step);
        scratch.d = workspace.book(parts_ * p_.channels * param_size);
        scratch.bias = workspace.book(parts_ * p_.channels * param_size);
        scratch.bytes = workspace.bytes();
        return scratch;
    }

    SelectiveParams settle_params(Pass pass) const {
        SelectiveParams params = params_of(p_, pass);
        params.segments = static_cast<int32_t>(segments_);
        params.segment_steps = segment_steps_;
        params.slices = static_cast<int32_t>(slices_);
        params.alike = are_alike(p_);
        params.kept_chunks = kept_chunks();
        params.kept_lanes = p_.channels * ceil_div(p_.states, passes_.states_of_lane);
        return params;
    }
    SelectiveParams common(const SelectiveBuffers& x, SelectiveParams params, const Scratch& scratch) const {
        point_inputs(params, p_, x);
        params.carries = static_cast<char*>(x.scratch) + scratch.carries;
        params.adjoint_carries = static_cast<char*>(x.scratch) + scratch.adjoint_carries;
        params.segment_deltas = static_cast<char*>(x.scratch) + scratch.deltas;
        return params;
    }

    static SelectiveParams without_c(SelectiveParams params) {
        params.c = {};
        params.constant_c = nullptr;
        return params;
    }
    void find_carries(const SelectiveBuffers& x, const SelectiveParams& of, bool adjoint, void* stream) const {
        SelectiveCarryParams params;
        params.ends = adjoint ? of.adjoint_carries : of.carries;
        params.deltas = of.segment_deltas;
        params.a = x.a;
        params.first = adjoint ? x.grad_state_out : x.state_in;
        params.rows = p_.state_rows();
        params.channels = p_.channels;
        params.states = of.states;
        params.segments = of.segments;
        params.adjoint = adjoint;
        launch(kernels_.carries, threads_in_blocks(p_.state_rows() * matrix_numbers(), sum_threads), stream, params);
    }
    void find_ends(const SelectiveBuffers& x, const SelectiveParams& of, bool adjoint, void* last, void* delta_sums,
                   void* stream) const {
        SelectiveEndParams params;
        params.ends = adjoint ? of.adjoint_carries : of.carries;
        params.deltas = of.segment_deltas;
        params.a = x.a;
        params.first = adjoint ? x.grad_state_out : x.state_in;
        params.last = last;
        params.delta_sums = delta_sums;
        params.rows = p_.state_rows();
        params.channels = p_.channels;
        params.states = of.states;
        params.segments = static_cast<int32_t>(segments_);
        params.parts = of.segments;
        params.adjoint = adjoint;
        launch(selective_ends_kernel(p_.matrix_dtype),
               threads_in_blocks(p_.state_rows() * matrix_numbers(), sum_threads), stream, params);
    }
    // Walks the gradients of states through segments that begin with zeros.
    void walk_adjoint(SelectiveParams params, void* stream) const {
        params.b = params.c;  // a plain walk takes its strides for those of C
        params.b.data = nullptr;
        params.constant_b = nullptr;
        params.down = !params.down;
        launch_blocks(passes_.adjoint, passes_.forward_bytes, params, stream);
    }
    void launch_blocks(const void* kernel, int shared_bytes, const SelectiveParams& params, void* stream) const {
        const int64_t blocks = p_.state_rows() * params.segments * p_.groups * slices_;
        if (blocks == 0) return;
        LaunchShape shape = blocks_of(blocks, passes_.threads);
        shape.shared_bytes = shared_bytes;
        launch(kernel, shape, stream, params);
    }
    void add_parts(const void* kernel, const void* sums, int64_t parts, int64_t numbers, void* to, void* stream) const {
        if (to == nullptr || numbers == 0) return;
        SelectiveSumParams params;
        params.sums = sums;
        params.parts = parts;
        params.numbers = numbers;
        params.result = to;
        launch(kernel, threads_in_blocks(numbers, sum_threads), stream, params);
    }
    void add_slices(const void* sums, const Strides& strides, void* to, const void* seq_offsets, void* stream) const {
        const int64_t numbers = step_numbers();
        if (to == nullptr || numbers == 0) return;
        SelectiveSumParams params;
        params.sums = sums;
        params.parts = slices_;
        params.numbers = numbers;
        params.steps = view_of(strides, size_of(p_.step_dtype()));
        point(params.steps, to);
        params.offsets = offsets_of(p_, seq_offsets);
        params.time = p_.time;
        params.width = static_cast<int32_t>(p_.groups * p_.states);
        launch(kernels_.sums, threads_in_blocks(numbers, sum_threads), stream, params);
    }

    SelectiveProblem p_;
    int device_;
    const SelectiveKernels& kernels_;
    const SelectivePasses& passes_;
    Extent slices_;
    int64_t size_;  // bytes of a number of the states
    Extent segment_steps_, segments_, parts_;
    Scratch forward_, backward_;
    Extent summary_segments_;
    Scratch summary_;
    SelectiveParams forward_params_, backward_params_;  // without a call's pointers
};

}  // namespace

std::unique_ptr<SummarisedSelective> make_selective_resident(const SelectiveProblem& problem, const Options& options,
                                                             std::string&) {
    const DeviceScope scope(options.device);
    return std::make_unique<Resident>(problem, options);
}

}  // namespace flashscan::cuda
