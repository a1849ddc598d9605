// SPDX-License-Identifier: Apache-2.0
// Compiles the kernel "short_rows" of the linear recurrence for real numbers.
#include "cuda/linear/instances/short_rows_table.h"
#include "cuda/linear/short_rows.cuh"

namespace flashscan::cuda {
namespace {

template <typename X>
ShortRowsKernels kernels_of() {
    using Ty = Types<X, X>;
    ShortRowsKernels k;
    k.steps = ShortRowsShape<Ty, false>::L;
    const auto fill = [&]<int n, bool Down, bool Backward>() {
        k.kernel[n][Down][Backward] =
            reinterpret_cast<const void*>(&linear_short_rows<Ty, ShortRowsKernels::tiles[n], Down, Backward>);
    };
    const auto fill_tiles = [&]<int n>() {
        fill.template operator()<n, false, false>();
        fill.template operator()<n, false, true>();
        fill.template operator()<n, true, false>();
        fill.template operator()<n, true, true>();
    };
    fill_tiles.template operator()<0>();
    fill_tiles.template operator()<1>();
    return k;
}

}  // namespace

ShortRowsKernels short_rows_kernels(Dtype dtype, Dtype gate_dtype) {
    if (dtype != gate_dtype) return {};
    if (dtype == Dtype::f32) return kernels_of<float>();
    if (dtype == Dtype::bf16) return kernels_of<__nv_bfloat16>();
    if (dtype == Dtype::f16) return kernels_of<__half>();
    if (dtype == Dtype::f64) return kernels_of<double>();
    return {};
}

}  // namespace flashscan::cuda
