// SPDX-License-Identifier: Apache-2.0
#include "cuda/ranks/slices.h"

#include <algorithm>
#include <utility>

#include "core/rounding.h"

namespace flashscan::cuda {
namespace {

// Groups of channels begin at multiples of so many bytes, as rows do that kernels access by whole sectors.
constexpr int64_t channel_bytes = 128;

int64_t channel_unit(int64_t bytes) { return std::max<int64_t>(channel_bytes / bytes, 1); }

// The groups that the axes of a pass can be cut into, 0 for an axis that is not cut, and the channels of a least group.
struct Cuts {
    int64_t batches, channel_units, unit;
    int64_t most() const {
        return batches + channel_units > 0 ? std::max<int64_t>(batches, 1) * std::max<int64_t>(channel_units, 1) : 0;
    }
};
template <typename Problem>
Cuts cuts_of(const Problem& p, bool batch, bool channels, int64_t unit) {
    return {batch && !p.packed() ? int64_t{p.batch} : 0, channels ? ceil_div<int64_t>(p.channels, unit) : 0, unit};
}
Cuts cuts_of(const LinearProblem& p, Pass pass) {
    const auto may_cut = [&](GateBroadcast axis) { return pass == Pass::forward || !p.broadcasts(axis); };
    return cuts_of(p, may_cut(broadcast_batch), may_cut(broadcast_channels), channel_unit(size_of(p.dtype)));
}
// The gradients of PARAM and BIAS are sums over the batch.
Cuts cuts_of(const GatedProblem& p, Pass pass) {
    return cuts_of(p, pass == Pass::forward, true, channel_unit(size_of(p.dtype)));
}
// The result of a reduction is on all ranks. Kernels take channels among those of longer steps, but not of several rows
// that have time innermost.
Cuts cuts_of(const OperatorProblem& p, Pass) {
    if (p.is_reduction()) return {0, 0, 1};
    return cuts_of(p, true, p.layout == Layout::btc || p.batch == 1, channel_unit(p.element() * p.number_bytes()));
}

// Backward adds up gradients over the batch, and of B and C over channels. The channels of several groups, which have B
// and C of their own, are cut between groups alone.
Cuts cuts_of(const SelectiveProblem& p, Pass pass) {
    const int64_t unit = p.groups > 1 ? int64_t{p.channels / p.groups} : channel_unit(size_of(p.dtype));
    const bool forward = pass == Pass::forward;
    return cuts_of(p, forward, forward, unit);
}

template <typename Problem>
RowSlices cut(const Problem& p, const Cuts& cuts, int32_t groups) {
    RowSlices slices;
    slices.group_channels = p.channels;
    const auto channels_of = [&](int32_t parts) { return ceil_div<int64_t>(cuts.channel_units, parts) * cuts.unit; };
    if (cuts.batches == 0 && cuts.channel_units > 0) {
        slices.of = "channels";
        slices.along_channels = true;
        slices.group_channels = channels_of(groups);
        for (int64_t c = 0; c < p.channels; c += slices.group_channels) {
            const int64_t width = std::min<int64_t>(slices.group_channels, p.channels - c);
            slices.list.push_back({0, p.batch, c, width, p.state_rows() * c, p.state_rows() * width});
        }
        return slices;
    }
    if (cuts.batches > 0 && groups >= 2 * cuts.batches && cuts.channel_units > 1) {
        slices.of = "channels of batch entries";
        const int64_t most = channels_of(groups / static_cast<int32_t>(cuts.batches));
        for (int64_t b = 0; b < p.batch; ++b)
            for (int64_t c = 0; c < p.channels; c += most) {
                const int64_t width = std::min<int64_t>(most, p.channels - c);
                slices.list.push_back({b, 1, c, width, b * p.channels + c, width});
            }
        return slices;
    }
    const int64_t most = ceil_div<int64_t>(p.batch, groups);
    for (int64_t b = 0; b < p.batch; b += most) {
        const int64_t count = p.packed() ? int64_t{p.batch} : std::min<int64_t>(most, p.batch - b);
        const int64_t rows = p.packed() ? int64_t{p.state_rows()} : count;
        slices.list.push_back({b, count, 0, p.channels, b * p.channels, rows * p.channels});
    }
    return slices;
}

template <typename Problem>
Problem with_dense(Problem p, Extent width, int64_t number_bytes) {
    p.state_in = p.state_out = p.grad_state_in = p.grad_state_out = {};
    settle_states(p, {1, p.state_rows(), width}, number_bytes);
    return p;
}
template <typename Problem>
Problem with_dense(const Problem& p) {
    return with_dense(p, p.channels, size_of(state_dtype(p.dtype)));
}
template <typename Problem>
Problem part_of(Problem p, const RowSlice& slice) {
    p.batch = slice.batches;
    p.channels = slice.channels;
    return with_dense(p);
}

// Moves pointers from the tensors of all rows to those of a slice.
struct Mover {
    const RowSlice& slice;
    template <typename T>
    void operator()(T*& data, const Strides& s, Dtype dtype) const {
        move(data, slice.batch * s.batch + slice.channel * s.channels, dtype);
    }
    // This one is for a tensor with a number for each channel.
    template <typename T>
    void operator()(T*& data, Dtype dtype) const {
        move(data, slice.channel, dtype);
    }

  private:
    template <typename T>
    static void move(T*& data, int64_t elements, Dtype dtype) {
        using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
        if (data != nullptr) data = static_cast<Byte*>(data) + elements * size_of(dtype);
    }
};
void forget_states(CommonBuffers& b) {
    b.state_in = b.grad_state_out = nullptr;
    b.state_out = b.grad_state_in = nullptr;
}
// Moves the pointers that linear recurrences and gated layers both have.
template <typename Problem, typename Buffers>
void move_common(const Problem& p, const RowSlice& slice, Buffers& b) {
    const Mover to_slice{slice};
    to_slice(b.input, p.input, p.dtype);
    to_slice(b.gate, p.gate, p.gate_dtype);
    to_slice(b.output, p.output, p.dtype);
    to_slice(b.grad_output, p.grad_output, p.dtype);
    to_slice(b.grad_input, p.grad_input, p.dtype);
    to_slice(b.grad_gate, p.grad_gate, p.gate_dtype);
    if (b.reset != nullptr) b.reset += slice.batch * p.time;
    forget_states(b);
}

}  // namespace

int64_t most_groups(const LinearProblem& p, Pass pass) { return cuts_of(p, pass).most(); }
int64_t most_groups(const GatedProblem& p, Pass pass) { return cuts_of(p, pass).most(); }
int64_t most_groups(const OperatorProblem& p, Pass pass) { return cuts_of(p, pass).most(); }
int64_t most_groups(const SelectiveProblem& p, Pass pass) { return cuts_of(p, pass).most(); }
RowSlices slices_of(const LinearProblem& p, Pass pass, int32_t groups) { return cut(p, cuts_of(p, pass), groups); }
RowSlices slices_of(const GatedProblem& p, Pass pass, int32_t groups) { return cut(p, cuts_of(p, pass), groups); }
RowSlices slices_of(const OperatorProblem& p, Pass pass, int32_t groups) { return cut(p, cuts_of(p, pass), groups); }
RowSlices slices_of(const SelectiveProblem& p, Pass pass, int32_t groups) { return cut(p, cuts_of(p, pass), groups); }
LinearProblem with_dense_states(LinearProblem p) { return with_dense(p); }
GatedProblem with_dense_states(GatedProblem p) { return with_dense(p); }
SelectiveProblem with_dense_states(SelectiveProblem p) {
    return with_dense(p, p.channels * p.states, size_of(p.matrix_dtype));
}
OperatorProblem with_dense_states(OperatorProblem p) {
    const Extent width = p.channels * p.element();
    const int64_t bytes = p.state_number_bytes();
    return with_dense(std::move(p), width, bytes);
}
LinearProblem problem_of(const LinearProblem& p, const RowSlice& slice) {
    LinearProblem part = part_of(p, slice);
    validate(part);  // an axis of one entry has no stride, which kernels rely on
    return part;
}
GatedProblem problem_of(const GatedProblem& p, const RowSlice& slice) { return part_of(p, slice); }
OperatorProblem problem_of(const OperatorProblem& whole, const RowSlice& slice) {
    OperatorProblem p = whole;
    p.array_channels = p.channels;
    p.batch = slice.batches;
    p.channels = slice.channels;
    return with_dense_states(std::move(p));
}
SelectiveProblem problem_of(const SelectiveProblem& whole, const RowSlice& slice) {
    SelectiveProblem p = whole;
    p.batch = slice.batches;
    p.channels = slice.channels;
    p.groups = max(whole.groups * slice.channels / whole.channels, 1);
    p = with_dense_states(p);
    validate(p);  // an axis of one entry has no stride, as above
    return p;
}

LinearBuffers buffers_of(const LinearProblem& p, const RowSlice& slice, LinearBuffers b) {
    move_common(p, slice, b);
    return b;
}

GatedBuffers buffers_of(const GatedProblem& p, const RowSlice& slice, GatedBuffers b) {
    move_common(p, slice, b);
    const Mover to_slice{slice};
    to_slice(b.second_gate, p.second_gate, p.gate_dtype);
    to_slice(b.input_gate, p.input_gate, p.dtype);
    to_slice(b.output_gate, p.output_gate, p.dtype);
    to_slice(b.param, p.param_dtype);
    to_slice(b.bias, p.param_dtype);
    to_slice(b.reserve, p.reserve, p.dtype);
    to_slice(b.grad_second_gate, p.grad_second_gate, p.gate_dtype);
    to_slice(b.grad_input_gate, p.grad_input_gate, p.dtype);
    to_slice(b.grad_output_gate, p.grad_output_gate, p.dtype);
    to_slice(b.grad_param, p.param_dtype);
    to_slice(b.grad_bias, p.param_dtype);
    return b;
}

SelectiveBuffers buffers_of(const SelectiveProblem& p, const RowSlice& slice, SelectiveBuffers b) {
    const Mover to_slice{slice};
    to_slice(b.input, p.input, p.dtype);
    to_slice(b.delta, p.delta, p.dtype);
    to_slice(b.output_gate, p.output_gate, p.dtype);
    to_slice(b.output, p.output, p.dtype);
    // Matrices have a line of numbers for each channel, or for each group of channels.
    const RowSlice lines{.channel = slice.channel * p.states};
    const RowSlice groups{.batch = slice.batch, .channel = p.group_of(slice.channel) * p.states};
    const Mover to_lines{lines}, to_groups{groups};
    to_lines(b.a, p.matrix_dtype);
    p.b_per_step ? to_groups(b.b, p.b, p.step_dtype()) : to_lines(b.b, p.matrix_dtype);
    p.c_per_step ? to_groups(b.c, p.c, p.step_dtype()) : to_lines(b.c, p.matrix_dtype);
    to_slice(b.d, p.param_dtype());
    to_slice(b.bias, p.param_dtype());
    if (b.reset != nullptr) b.reset += slice.batch * p.time;
    forget_states(b);
    return b;
}

OperatorBuffers buffers_of(const OperatorProblem& p, const RowSlice& slice, OperatorBuffers b) {
    const auto steps = p.steps();
    const auto strides_of = [&](int64_t element) {
        return Strides{steps.batch * element, steps.time * element, steps.channels * element};
    };
    const Strides elements = strides_of(p.element()), gates = strides_of(p.gate_element());
    const Mover to_slice{slice};
    to_slice(b.input, elements, p.dtype);
    to_slice(b.gate, gates, p.dtype);
    to_slice(b.output, elements, p.dtype);
    to_slice(b.grad_output, elements, p.dtype);
    to_slice(b.grad_input, elements, p.dtype);
    to_slice(b.grad_gate, gates, p.dtype);
    forget_states(b);
    return b;
}

}  // namespace flashscan::cuda
