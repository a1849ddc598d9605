// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels "decode" of recurrent networks.
#include "cuda/launch/by_dtype.cuh"
#include "cuda/rnn/decode/decode.cuh"
#include "cuda/rnn/decode/few_rows.cuh"
#include "cuda/rnn/decode/tensor_cores.cuh"
#include "cuda/rnn/instances/decode_table.h"
#include "math/cells.h"

namespace flashscan::cuda {
namespace {

template <typename X, typename W, typename Formula, bool Pooled>
const void* kernel_of(RnnStepWay way) {
    if (way == RnnStepWay::shared) return reinterpret_cast<const void*>(&rnn_decode<X, W, Formula, Pooled>);
    if (way == RnnStepWay::direct) return reinterpret_cast<const void*>(&rnn_decode_few_rows<X, W, Formula, Pooled>);
    if constexpr (std::is_same_v<X, W>)
        return reinterpret_cast<const void*>(&rnn_decode_tensor_cores<X, Formula, Pooled>);
    else
        return nullptr;
}
template <typename X, typename W>
const void* kernel_of(Cell cell, bool pooled, RnnStepWay way) {
    return with_formula(cell, [=](auto formula) -> const void* {
        using Formula = typename decltype(formula)::Type;
        if constexpr (Formula::resets_before)
            return nullptr;
        else
            return pooled ? kernel_of<X, W, Formula, true>(way) : kernel_of<X, W, Formula, false>(way);
    });
}

}  // namespace

const void* rnn_step_kernel(Dtype dtype, Dtype weight_dtype, Cell cell, bool pooled, RnnStepWay way) {
    return TypesAmong<float, __nv_bfloat16, __half>::visit_pair(
        dtype, weight_dtype, [=]<typename X, typename W>() { return kernel_of<X, W>(cell, pooled, way); });
}

}  // namespace flashscan::cuda
