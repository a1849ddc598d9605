// SPDX-License-Identifier: Apache-2.0
// Compiles the scans of short rows of numbers.
#include <vector>

#include "cuda/operators/instances/table.h"
#include "cuda/operators/numbers_short_rows.cuh"

namespace flashscan::cuda {
namespace {

template <typename X>
void add(std::vector<ShortNumberKernels>& table, Dtype dtype) {
    combine::for_each_operator<typename Element<X>::Wide>([&](auto op) {
        using Operator = decltype(op);
        // number_rows is faster: it has more registers for the calls of exp and log1p.
        if constexpr (!has_short_steps<Operator> && std::is_same_v<X, double>) return;
        ShortNumberKernels k{dtype, combine::RowOf<Operator>::number, 16 / static_cast<int>(sizeof(X)), {}};
        k.kernel[0] = reinterpret_cast<const void*>(&number_short_rows<X, Operator, ShortNumberKernels::tiles[0]>);
        k.kernel[1] = reinterpret_cast<const void*>(&number_short_rows<X, Operator, ShortNumberKernels::tiles[1]>);
        if constexpr (sizeof(X) == 2)
            k.kernel[2] = reinterpret_cast<const void*>(&number_short_rows<X, Operator, ShortNumberKernels::tiles[2]>);
        table.push_back(k);
    });
}

}  // namespace

std::vector<ShortNumberKernels> all_short_number_kernels() {
    std::vector<ShortNumberKernels> table;
    add<float>(table, Dtype::f32);
    add<__nv_bfloat16>(table, Dtype::bf16);
    add<__half>(table, Dtype::f16);
    add<double>(table, Dtype::f64);
    return table;
}

}  // namespace flashscan::cuda
