// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/ranks/slices.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashscan::cuda {
namespace {

// Groups of channels begin at multiples of so many bytes, as rows do that kernels access by whole sectors.
constexpr int64_t channel_bytes = 128;

bool may_cut(const LinearProblem& p, Pass pass, GateBroadcast axis) {
    return pass == Pass::forward || !p.broadcasts(axis);
}
bool may_cut_batch(const LinearProblem& p, Pass pass) { return !p.packed() && may_cut(p, pass, broadcast_batch); }
int64_t channel_unit(const LinearProblem& p) { return std::max<int64_t>(channel_bytes / size_of(p.dtype), 1); }
int64_t channel_units(const LinearProblem& p, Pass pass) {
    return may_cut(p, pass, broadcast_channels) ? ceil_div<int64_t>(p.channels, channel_unit(p)) : 0;
}

template <typename T>
T* moved(T* data, int64_t elements, Dtype dtype) {
    if (data == nullptr) return nullptr;
    using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    return static_cast<Byte*>(data) + elements * size_of(dtype);
}

}  // namespace

int64_t most_groups(const LinearProblem& p, Pass pass) {
    const int64_t batches = may_cut_batch(p, pass) ? int64_t{p.batch} : 0;
    return std::max(batches, channel_units(p, pass));
}

LinearSlices slices_of(const LinearProblem& p, Pass pass, int32_t groups) {
    const int64_t batches = may_cut_batch(p, pass) ? int64_t{p.batch} : 0;
    LinearSlices slices;
    slices.along_channels = batches < groups && channel_units(p, pass) > batches;
    slices.group_channels = p.channels;
    if (slices.along_channels) {
        slices.group_channels = ceil_div<int64_t>(channel_units(p, pass), groups) * channel_unit(p);
        for (int64_t c = 0; c < p.channels; c += slices.group_channels) {
            const int64_t width = std::min<int64_t>(slices.group_channels, p.channels - c);
            slices.list.push_back({0, p.batch, c, width, p.state_rows() * c, p.state_rows() * width});
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

LinearProblem problem_of(const LinearProblem& p, const LinearSlice& slice) {
    LinearProblem part = p;
    part.batch = slice.batches;
    part.channels = slice.channels;
    part.state_in = part.state_out = part.grad_state_in = part.grad_state_out = {};
    validate(part);
    return part;
}

LinearBuffers buffers_of(const LinearProblem& p, const LinearSlice& slice, LinearBuffers b) {
    const auto place = [&](const Strides& s) { return slice.batch * s.batch + slice.channel * s.channels; };
    b.input = moved(b.input, place(p.input), p.dtype);
    b.gate = moved(b.gate, place(p.gate), p.gate_dtype);
    b.output = moved(b.output, place(p.output), p.dtype);
    if (b.reset != nullptr) b.reset += slice.batch * p.time;
    b.grad_output = moved(b.grad_output, place(p.grad_output), p.dtype);
    b.grad_input = moved(b.grad_input, place(p.grad_input), p.dtype);
    b.grad_gate = moved(b.grad_gate, place(p.grad_gate), p.gate_dtype);
    b.state_in = b.grad_state_out = nullptr;
    b.state_out = b.grad_state_in = nullptr;
    return b;
}

}  // namespace flashscan::cuda
