// SPDX-License-Identifier: Apache-2.0
// Compiles the kernel "short_rows" of the linear recurrence for real numbers.
#include "cuda/launch/by_dtype.cuh"
#include "cuda/linear/instances/short_rows_table.h"
#include "cuda/linear/short_rows.cuh"

namespace flashscan::cuda {
namespace {

template <typename Ty, int n, bool Down>
void fill(ShortRowsKernels& k) {
    constexpr int tiles = ShortRowsKernels::tiles[n];
    k.kernel[n][Down][0] = reinterpret_cast<const void*>(&linear_short_rows<Ty, tiles, Down, false>);
    k.kernel[n][Down][1] = reinterpret_cast<const void*>(&linear_short_rows<Ty, tiles, Down, true>);
}

template <typename X>
ShortRowsKernels kernels_of() {
    using Ty = Types<X, X>;
    ShortRowsKernels k;
    k.steps = ShortRowsShape<Ty, false>::L;
    fill<Ty, 0, false>(k);
    fill<Ty, 0, true>(k);
    fill<Ty, 1, false>(k);
    fill<Ty, 1, true>(k);
    return k;
}

}  // namespace

ShortRowsKernels short_rows_kernels(Dtype dtype, Dtype gate_dtype) {
    if (is_complex(dtype) || dtype != gate_dtype) return {};
    return RealTypes::visit(dtype, [&]<typename X>() { return kernels_of<X>(); });
}

}  // namespace flashscan::cuda
