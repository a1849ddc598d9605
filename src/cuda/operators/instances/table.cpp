// SPDX-License-Identifier: Apache-2.0
// The table of table.h. The entries of each dtype are compiled in a file of their own, but for bf16 and f16, which
// share one.
#include "cuda/operators/instances/table.h"

#include <algorithm>
#include <vector>

namespace flashscan::cuda {

void add_operator_f32(std::vector<ElementKernels>& table);
void add_operator_bf16(std::vector<ElementKernels>& table);
void add_operator_f16(std::vector<ElementKernels>& table);
void add_operator_f64(std::vector<ElementKernels>& table);
void add_operator_c64(std::vector<ElementKernels>& table);
void add_operator_c128(std::vector<ElementKernels>& table);
void add_operator_i32(std::vector<ElementKernels>& table);
void add_operator_i64(std::vector<ElementKernels>& table);
void add_operator_u8(std::vector<ElementKernels>& table);
void add_chained_f32(std::vector<ChainedNumberKernels>& table);
void add_chained_bf16(std::vector<ChainedNumberKernels>& table);
void add_chained_f16(std::vector<ChainedNumberKernels>& table);
void add_chained_f64(std::vector<ChainedNumberKernels>& table);
void add_chained_c64(std::vector<ChainedNumberKernels>& table);
void add_chained_c128(std::vector<ChainedNumberKernels>& table);
void add_chained_i32(std::vector<ChainedNumberKernels>& table);
void add_chained_i64(std::vector<ChainedNumberKernels>& table);
void add_chained_u8(std::vector<ChainedNumberKernels>& table);
std::vector<ShortNumberKernels> all_short_number_kernels();
void add_affine_real(std::vector<ElementKernels>& table);
void add_affine_complex(std::vector<ElementKernels>& table);

namespace {

template <typename F>
const ElementKernels* find(F&& fits) {
    static const std::vector<ElementKernels> table = [] {
        std::vector<ElementKernels> all;
        for (auto* add : {add_operator_f32, add_operator_bf16, add_operator_f16, add_operator_f64, add_operator_c64,
                          add_operator_c128, add_operator_i32, add_operator_i64, add_operator_u8, add_affine_real,
                          add_affine_complex})
            add(all);
        return all;
    }();
    const auto found = std::find_if(table.begin(), table.end(), fits);
    return found == table.end() ? nullptr : &*found;
}

}  // namespace

const ElementKernels* number_kernels(Dtype dtype, OperatorKind kind, int channels) {
    return find([&](const ElementKernels& k) {
        return !k.indexed && k.dtype == dtype && k.dim == 0 && k.kind == static_cast<int>(kind) &&
               k.forward.channels == channels;
    });
}

const ElementKernels* indexed_kernels(Dtype dtype, OperatorKind kind) {
    return find(
        [&](const ElementKernels& k) { return k.indexed && k.dtype == dtype && k.kind == static_cast<int>(kind); });
}

namespace {

template <typename Kernels>
const Kernels* find_in(const std::vector<Kernels>& table, Dtype dtype, OperatorKind kind) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const Kernels& k) {
        return k.dtype == dtype && k.kind == static_cast<int>(kind);
    });
    return found == table.end() ? nullptr : &*found;
}

}  // namespace

const ChainedNumberKernels* chained_number_kernels(Dtype dtype, OperatorKind kind) {
    static const std::vector<ChainedNumberKernels> table = [] {
        std::vector<ChainedNumberKernels> all;
        for (auto* add : {add_chained_f32, add_chained_bf16, add_chained_f16, add_chained_f64, add_chained_c64,
                          add_chained_c128, add_chained_i32, add_chained_i64, add_chained_u8})
            add(all);
        return all;
    }();
    return find_in(table, dtype, kind);
}

const ShortNumberKernels* short_number_kernels(Dtype dtype, OperatorKind kind) {
    static const std::vector<ShortNumberKernels> table = all_short_number_kernels();
    return find_in(table, dtype, kind);
}

const ElementKernels* tiny_kernels(Dtype dtype, OperatorKind kind, int64_t dim) {
    return find([&](const ElementKernels& k) {
        return dim > 0 && k.dtype == dtype && k.dim == dim && k.kind == static_cast<int>(kind);
    });
}

}  // namespace flashscan::cuda
