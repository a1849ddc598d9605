// SPDX-License-Identifier: Apache-2.0
// Launches the kernels of rank_sums.cu.
#include "cuda/launch/rank_sums.h"

#include "cuda/launch/launch.h"
#include "cuda/launch/rank_sums_kernels.h"
#include "cuda/launch/rank_threads.h"

namespace flashscan::cuda {
namespace {

static_assert(rank_sum_axes == Axes::most);

RankSumParams params_of(const ArgumentSpec& spec) {
    RankSumParams p;
    p.count = spec.axes.product(spec.name);
    p.axes = static_cast<int32_t>(spec.axes.count);
    for (size_t i = 0; i < spec.axes.count; ++i) p.extents[i] = spec.axes.extents[i], p.strides[i] = spec.strides[i];
    return p;
}

}  // namespace

void pack_tensor(const ArgumentSpec& spec, const void* data, void* dense, void* stream) {
    RankSumParams p = params_of(spec);
    p.from = data;
    p.to = dense;
    launch(rank_sum_kernels(spec.dtype).pack, threads_in_blocks(p.count, rank_threads), stream, p);
}

void add_up_tensors(const ArgumentSpec& spec, const void* dense, size_t step, int32_t count, void* data, void* stream) {
    RankSumParams p = params_of(spec);
    p.from = dense;
    p.to = data;
    p.step = static_cast<int64_t>(step);
    p.terms = count;
    launch(rank_sum_kernels(spec.dtype).add_up, threads_in_blocks(p.count, rank_threads), stream, p);
}

}  // namespace flashscan::cuda
