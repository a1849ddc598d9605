// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "step" of recurrent networks.
#include "cuda/rnn/instances/step_table.h"
#include "cuda/rnn/step/step.cuh"
#include "math/cells.h"

namespace flashscan::cuda {
namespace {

template <typename X, typename W>
const void* kernel_of(Cell cell, bool pooled) {
    return with_formula(cell, [=](auto formula) -> const void* {
        using Formula = typename decltype(formula)::Type;
        if constexpr (Formula::resets_before)
            return nullptr;
        else
            return pooled ? reinterpret_cast<const void*>(&rnn_one_step<X, W, Formula, true>)
                          : reinterpret_cast<const void*>(&rnn_one_step<X, W, Formula, false>);
    });
}
template <typename X>
const void* kernel_of(Dtype weight_dtype, Cell cell, bool pooled) {
    return weight_dtype == Dtype::f32 ? kernel_of<X, float>(cell, pooled) : kernel_of<X, X>(cell, pooled);
}

}  // namespace

const void* rnn_step_kernel(Dtype dtype, Dtype weight_dtype, Cell cell, bool pooled) {
    switch (dtype) {
    case Dtype::f32: return kernel_of<float, float>(cell, pooled);
    case Dtype::bf16: return kernel_of<__nv_bfloat16>(weight_dtype, cell, pooled);
    case Dtype::f16: return kernel_of<__half>(weight_dtype, cell, pooled);
    default: return nullptr;
    }
}

}  // namespace flashscan::cuda
