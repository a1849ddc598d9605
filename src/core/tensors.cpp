// SPDX-License-Identifier: Apache-2.0
// Default strides of tensors, the checks of given ones, and the specs of tensors as arguments.
#include "core/tensors.h"

namespace flashscan {
namespace {

Strides dense(const TensorExtents& e, Layout layout, const char* what) {
    const Extent row = e.time.named(what) * e.channels;
    if (layout == Layout::btc) return {row, e.channels, 1};
    return {row, 1, e.time};
}

void check_axis(int64_t stride, const char* tensor, const char* axis) {
    if (stride < 0) fail(Code::invalid_argument, "{}.{} stride is {}; accepted are strides >= 0", tensor, axis, stride);
}

}  // namespace

int64_t span_bytes(const TensorExtents& e, const Strides& s, Dtype dtype, const char* what) {
    if (e.empty()) return 0;
    const Extent last = (e.batch - 1).named(what) * s.batch + (e.time - 1).named(what) * s.time +
                        (e.channels - 1).named(what) * s.channels;
    return (last + 1) * size_of(dtype);
}

void settle_tensor(Strides& s, const TensorExtents& e, Layout layout, Dtype dtype, bool written, const char* tensor) {
    check_axis(s.batch, tensor, "batch");
    check_axis(s.time, tensor, "time");
    check_axis(s.channels, tensor, "channels");
    if (s == Strides{}) s = dense(e, layout, tensor);
    // A tensor without elements uses none of them.
    if (e.batch <= 1 || e.empty()) s.batch = 0;
    if (e.time <= 1 || e.empty()) s.time = 0;
    if (e.channels <= 1 || e.empty()) s.channels = 0;
    span_bytes(e, s, dtype, tensor);
    const int64_t extents[] = {e.batch, e.time, e.channels};
    const int64_t strides[] = {s.batch, s.time, s.channels};
    if (written && !e.empty() && !strides_nest(extents, strides, 3))
        fail(Code::invalid_argument,
             "{} strides (batch {}, time {}, channels {}) make elements of the {} x {} x {} tensor overlap; a tensor "
             "that "
             "is written needs each stride to step over what the smaller ones cover",
             tensor, s.batch, s.time, s.channels, e.batch, e.time, e.channels);
}

ArgumentSpec tensor_argument(int32_t id, const char* name, Presence presence, bool written, const TensorExtents& e,
                             const Strides& strides, Layout layout, Dtype dtype) {
    const Axes axes = layout == Layout::btc ? Axes{e.batch, e.time, e.channels} : Axes{e.batch, e.channels, e.time};
    ArgumentSpec spec = dense_argument(id, name, presence, written, axes, dtype);
    spec.bytes = static_cast<size_t>(span_bytes(e, strides, dtype, name));
    spec.batch_axis = 0;
    spec.time_axis = layout == Layout::btc ? 1 : 2;
    if (layout == Layout::btc)
        spec.strides = {strides.batch, strides.time, strides.channels};
    else
        spec.strides = {strides.batch, strides.channels, strides.time};
    return spec;
}

int32_t same_memory(const Sequences& p, int32_t id) {
    if (id == id_of(ArgId::output)) return id_of(ArgId::input);
    if (id == grad_of(ArgId::input)) return grad_of(ArgId::output);
    if (id == id_of(ArgId::state_out) && (!p.packed() || p.pooled())) return id_of(ArgId::state_in);
    if (id == grad_of(ArgId::state_in) && !p.packed()) return grad_of(ArgId::state_out);
    return 0;
}

}  // namespace flashscan
