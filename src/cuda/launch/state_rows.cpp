// SPDX-License-Identifier: Apache-2.0
// Launches the kernels of state_rows.cuh.
#include "cuda/launch/state_rows.h"

#include "cuda/launch/alignment.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/state_rows_kernels.h"

namespace flashscan::cuda {
namespace {

const StateRowKernels& kernels() {
    static const StateRowKernels all = state_row_kernels();
    return all;
}

// Whether all rows begin and end at multiples of `bytes`.
bool divides(int64_t bytes, const RowCopy& c) {
    return c.bytes % bytes == 0 && c.to_step % bytes == 0 && c.from_step % bytes == 0 &&
           are_multiples({c.to, c.from}, bytes);
}

}  // namespace

void copy_indexed_rows(const RowCopy& copy, void* stream) {
    const bool wide = divides(16, copy);
    StateRowCopy params;
    params.to = copy.to;
    params.from = copy.from;
    params.to_step = copy.to_step;
    params.from_step = copy.from_step;
    params.words = copy.bytes / (wide ? 16 : 4);  // states have elements of 4 bytes or more
    params.count = copy.count;
    params.to_indices = copy.to_indices;
    params.from_indices = copy.from_indices;
    params.pool_rows = copy.pool_rows;
    if (params.words * params.count == 0) return;
    launch(wide ? kernels().copy_wide : kernels().copy_narrow,
           threads_in_blocks(params.words * params.count, state_row_threads), stream, params);
}

void clear_padding(const ArgumentSpec& spec, void* data, const RowSelection& rows, void* stream) {
    if (rows.count == 0 || spec.bytes == 0) return;
    StateRowClear params;
    params.data = static_cast<char*>(data);
    params.bytes = static_cast<int32_t>(size_of(spec.dtype));
    params.axes = static_cast<int32_t>(spec.axes.count);
    params.row_axis = rows.seq_offsets != nullptr ? spec.time_axis : spec.batch_axis;
    for (size_t i = 0; i < spec.axes.count; ++i) {
        params.extents[i] = spec.axes.extents[i];
        params.strides[i] = spec.strides[i] * params.bytes;
    }
    params.rows = rows.count;
    params.pool_rows = rows.pool_rows;
    params.indices = rows.indices;
    if (rows.seq_offsets != nullptr)
        params.offsets = {rows.seq_offsets, rows.count, spec.axes.extents[static_cast<size_t>(spec.time_axis)],
                          rows.offsets_dtype == Dtype::i64, 0};
    launch(kernels().clear, blocks_of(rows.count * clear_blocks, state_row_threads), stream, params);
}

}  // namespace flashscan::cuda
