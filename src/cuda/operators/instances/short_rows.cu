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
        // logaddexp of f64 calls exp and log1p, and is left to number_rows, which has more registers.
        if constexpr (has_short_steps<X, Operator>) {
            using K = ShortNumberKernels;
            K k{dtype, combine::RowOf<Operator>::number, 16 / static_cast<int>(sizeof(X)), {}, nullptr};
            k.kernel[0] = reinterpret_cast<const void*>(&number_short_rows<X, Operator, K::tiles[0], false>);
            k.kernel[1] = reinterpret_cast<const void*>(&number_short_rows<X, Operator, K::tiles[1], false>);
            if constexpr (sizeof(X) == 2)
                k.kernel[2] = reinterpret_cast<const void*>(&number_short_rows<X, Operator, K::tiles[2], false>);
            k.shared = reinterpret_cast<const void*>(&number_short_rows<X, Operator, K::shared_tiles, true>);
            table.push_back(k);
        }
    });
}

}  // namespace

std::vector<ShortNumberKernels> all_short_number_kernels() {
    std::vector<ShortNumberKernels> table;
    add<float>(table, Dtype::f32);
    add<__nv_bfloat16>(table, Dtype::bf16);
    add<__half>(table, Dtype::f16);
    add<double>(table, Dtype::f64);
    add<int32_t>(table, Dtype::i32);
    add<int64_t>(table, Dtype::i64);
    add<uint8_t>(table, Dtype::u8);
    return table;
}

}  // namespace flashscan::cuda
