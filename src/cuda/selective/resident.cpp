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
          forward_(book_walk(false, segments_)),
          backward_(book_backward()),
          summary_segments_(max(segments_, 2)),
          summary_(book_walk(true, summary_segments_)),
          forward_params_(settle_params(Pass::forward)),
          backward_params_(settle_params(Pass::backward)),
          carries_(of_states<SelectiveCarryParams>(kernels_.carries)),
          ends_(of_states<SelectiveEndParams>(selective_ends_kernel(p_.matrix_dtype))),
          forward_grid_(grid_of(segments_, passes_.forward_bytes)),
          backward_grid_(grid_of(segments_, passes_.backward_bytes)) {
        for (const void* kernel : {passes_.forward, passes_.states, passes_.adjoint, passes_.backward})
            allow_shared_memory(kernel, device_);
        ends_.params.parts = static_cast<int32_t>(summary_segments_);
        sum_a_ = sum_of_parts(kernels_.sums, matrix_numbers());
        sum_b_ = sum_of_matrices(p_.b_per_step, p_.grad_b);
        sum_c_ = sum_of_matrices(p_.c_per_step, p_.grad_c);
        channel_sum_ = sum_of_parts(kernels_.param_sums, p_.channels);
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
            launch_blocks(passes_.states, forward_grid_, without_c(params), stream);
            find_carries(x, params, false, stream);
        }
        point(params.output, x.output);
        params.state_out = x.state_out;
        launch_blocks(passes_.forward, forward_grid_, params, stream);
    }

    void backward(const SelectiveBuffers& x, void* stream) const override {
        const DeviceScope scope(device_);
        const auto at = [&](size_t offset) { return static_cast<char*>(x.scratch) + offset; };
        SelectiveParams params = common(x, backward_params_, backward_);
        params.kept = at(backward_.kept);
        params.kept_deltas = at(backward_.kept_deltas);
        point(params.grad_output, x.grad_output);
        launch_blocks(passes_.states, forward_grid_, without_c(params), stream);
        if (segments_ > 1) {
            find_carries(x, params, false, stream);
            walk_adjoint(params, forward_grid_, stream);
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
        launch_blocks(passes_.backward, backward_grid_, params, stream);
        const auto add_up = [&](const Sum& sum, size_t parts, void* to) {
            if (to == nullptr) return;
            SelectiveSumParams of = sum.params;
            of.sums = at(parts);
            of.offsets.data = x.seq_offsets;
            if (of.width != 0)
                point(of.steps, to);
            else
                of.result = to;
            sum.run(of, stream);
        };
        add_up(sum_a_, backward_.a, x.grad_a);
        add_up(sum_b_, backward_.b, x.grad_b);
        add_up(sum_c_, backward_.c, x.grad_c);
        add_up(channel_sum_, backward_.d, x.grad_d);
        add_up(channel_sum_, backward_.bias, x.grad_bias);
    }

    // Walks tell what segments do to states where there are several: a single one gets a second without steps, and
    // packed sequences are walked twice.
    void summarise(Pass pass, const SelectiveBuffers& x, void* delta_sums, void* stream) const override {
        const DeviceScope scope(device_);
        SelectiveParams params = common(x, pass == Pass::forward ? forward_params_ : backward_params_, summary_);
        params.segments = static_cast<int32_t>(summary_segments_);
        // Other plans than those of ranks, which alone come here, may have too many rows for such a grid.
        const LaunchShape grid = grid_of(summary_segments_, passes_.forward_bytes);
        launch_blocks(passes_.states, grid, without_c(params), stream);
        find_ends(x, params, false, x.state_out, delta_sums, stream);
        if (pass == Pass::forward || x.grad_state_in == nullptr) return;
        point(params.grad_output, x.grad_output);
        walk_adjoint(params, grid, stream);
        find_ends(x, params, true, x.grad_state_in, nullptr, stream);
    }
    size_t summary_bytes(Pass) const override { return summary_.bytes; }

  private:
    // Offsets in SCRATCH. b and c are partial sums of rows and segments, or, if each step has its own matrices, of
    // slices.
    struct Scratch {
        size_t carries, adjoint_carries, deltas, kept, kept_deltas, a, b, c, d, bias, bytes;
    };
    using Sum = SettledLaunch<SelectiveSumParams>;  // adds the parts of sums

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
    Scratch book_walk(bool adjoint, int64_t segments) const {
        Workspace workspace;
        Scratch scratch{};
        book_segments(workspace, scratch, adjoint, segments);
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
    // A launch with a thread for each state.
    template <typename Params>
    SettledLaunch<Params> of_states(const void* kernel) const {
        SettledLaunch<Params> l{kernel, threads_in_blocks(p_.state_rows() * matrix_numbers(), sum_threads), {}};
        l.params.rows = p_.state_rows();
        l.params.channels = p_.channels;
        l.params.states = static_cast<int32_t>(p_.states);
        l.params.segments = static_cast<int32_t>(segments_);
        return l;
    }
    template <typename Params>
    static void point_segments(Params& params, const SelectiveBuffers& x, const SelectiveParams& of, bool adjoint) {
        params.ends = adjoint ? of.adjoint_carries : of.carries;
        params.deltas = of.segment_deltas;
        params.a = x.a;
        params.first = adjoint ? x.grad_state_out : x.state_in;
        params.adjoint = adjoint;
    }
    void find_carries(const SelectiveBuffers& x, const SelectiveParams& of, bool adjoint, void* stream) const {
        SelectiveCarryParams params = carries_.params;
        point_segments(params, x, of, adjoint);
        carries_.run(params, stream);
    }
    void find_ends(const SelectiveBuffers& x, const SelectiveParams& of, bool adjoint, void* last, void* delta_sums,
                   void* stream) const {
        SelectiveEndParams params = ends_.params;
        point_segments(params, x, of, adjoint);
        params.last = last;
        params.delta_sums = delta_sums;
        ends_.run(params, stream);
    }
    // Walks the gradients of states through segments that begin with zeros.
    void walk_adjoint(SelectiveParams params, const LaunchShape& grid, void* stream) const {
        params.b = params.c;  // a plain walk takes its strides for those of C
        params.b.data = nullptr;
        params.constant_b = nullptr;
        params.down = !params.down;
        launch_blocks(passes_.adjoint, grid, params, stream);
    }
    LaunchShape grid_of(Extent segments, int shared_bytes) const {
        LaunchShape grid = blocks_of(p_.state_rows() * segments * p_.groups * slices_, passes_.threads);
        grid.shared_bytes = shared_bytes;
        return grid;
    }
    static void launch_blocks(const void* kernel, const LaunchShape& grid, const SelectiveParams& params,
                              void* stream) {
        if (grid.blocks.x != 0) launch(kernel, grid, stream, params);
    }
    Sum sum_of_parts(const void* kernel, Extent numbers) const {
        Sum sum{kernel, threads_in_blocks(numbers, sum_threads), {}};
        sum.params.parts = parts_;
        sum.params.numbers = numbers;
        return sum;
    }
    // The sum for B or C.
    Sum sum_of_matrices(bool per_step, const Strides& strides) const {
        if (!per_step) return sum_a_;
        Sum sum = sum_of_parts(kernels_.sums, step_numbers());
        sum.params.parts = slices_;
        sum.params.steps = view_of(strides, size_of(p_.step_dtype()));
        sum.params.offsets = offsets_of(p_, nullptr);
        sum.params.time = p_.time;
        sum.params.width = static_cast<int32_t>(p_.groups * p_.states);
        return sum;
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
    SelectiveParams forward_params_, backward_params_;  // these and the next are without a call's pointers
    SettledLaunch<SelectiveCarryParams> carries_;
    SettledLaunch<SelectiveEndParams> ends_;
    LaunchShape forward_grid_, backward_grid_;
    Sum sum_a_, sum_b_, sum_c_, channel_sum_;  // the last is for D and BIAS
};

}  // namespace

std::unique_ptr<SummarisedSelective> make_selective_resident(const SelectiveProblem& problem, const Options& options,
                                                             std::string&) {
    const DeviceScope scope(options.device);
    return std::make_unique<Resident>(problem, options);
}

}  // namespace flashscan::cuda
