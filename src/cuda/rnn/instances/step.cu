// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "step" of recurrent networks.
#include "cuda/rnn/instances/step_table.h"
#include "cuda/rnn/step/step.cuh"
#include "math/cells.h"

namespace flashscan::cuda {
namespace {

template <typename X, typename W, typename Formula, bool Pooled>
const void* kernel_of(bool direct) {
    return direct ? reinterpret_cast<const void*>(&rnn_direct_step<X, W, Formula, Pooled>)
                  : reinterpret_cast<const void*>(&rnn_one_step<X, W, Formula, Pooled>);
}
template <typename X, typename W>
const void* kernel_of(Cell cell, bool pooled, bool direct) {
    return with_formula(cell, [=](auto formula) -> const void* {
        using Formula = typename decltype(formula)::Type;
        if constexpr (Formula::resets_before)
            return nullptr;
        else
            return pooled ? kernel_of<X, W, Formula, true>(direct) : kernel_of<X, W, Formula, false>(direct);
    });
}
template <typename X>
const void* kernel_of(Dtype weight_dtype, Cell cell, bool pooled, bool direct) {
    return weight_dtype == Dtype::f32 ? kernel_of<X, float>(cell, pooled, direct)
                                      : kernel_of<X, X>(cell, pooled, direct);
}

}  // namespace

const void* rnn_step_kernel(Dtype dtype, Dtype weight_dtype, Cell cell, bool pooled, bool direct) {
    switch (dtype) {
    case Dtype::f32: return kernel_of<float, float>(cell, pooled, direct);
    case Dtype::bf16: return kernel_of<__nv_bfloat16>(weight_dtype, cell, pooled, direct);
    case Dtype::f16: return kernel_of<__half>(weight_dtype, cell, pooled, direct);
    default: return nullptr;
    }
}

}  // namespace flashscan::cuda
