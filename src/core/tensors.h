// SPDX-License-Identifier: Apache-2.0
// Tensors over batch, time and channels: their default strides, the checks of given ones, and their size in memory.
#pragma once

#include "core/arguments.h"
#include "core/sequences.h"

namespace flashscan {

struct TensorExtents {
    Extent batch, time, channels;
    bool empty() const { return batch == 0 || time == 0 || channels == 0; }
};

// Returns the bytes from the first to the last element; `what` names the tensor in the Error where that does not fit.
int64_t span_bytes(const TensorExtents& extents, const Strides& strides, Dtype dtype, const char* what);

// Fills in strides that are all zero, and checks others: none is negative, and no two elements of a tensor that is
// `written` share memory. Strides of axes that are not used become zero.
void settle_tensor(Strides& strides, const TensorExtents& extents, Layout layout, Dtype dtype, bool written,
                   const char* tensor);

// Returns the spec of such a tensor as an argument.
ArgumentSpec tensor_argument(int32_t id, const char* name, Presence presence, bool written,
                             const TensorExtents& extents, const Strides& strides, Layout layout, Dtype dtype);

// Returns the argument whose memory the argument `id` may share, or 0. They may share it because each element is read
// before the same thread writes it. States of packed sequences may not, because parts of time run at once and an
// initial state may be read after the final state was written; states in a pool may, because they are copied first.
int32_t same_memory(const Sequences& p, int32_t id);

}  // namespace flashscan
