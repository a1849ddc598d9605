// SPDX-License-Identifier: Apache-2.0
#include "cuda/instances/operator.h"

#include <vector>

namespace flashscan::cuda {

void add_operator_f32(std::vector<ElementKernels>& table);
void add_operator_bf16(std::vector<ElementKernels>& table);
void add_operator_f16(std::vector<ElementKernels>& table);
void add_operator_f64(std::vector<ElementKernels>& table);
void add_operator_c64(std::vector<ElementKernels>& table);
void add_operator_c128(std::vector<ElementKernels>& table);

const ElementKernels* element_kernels(Dtype dtype, int64_t dim, int channels) {
    static const std::vector<ElementKernels> table = [] {
        std::vector<ElementKernels> all;
        for (auto* add : {add_operator_f32, add_operator_bf16, add_operator_f16, add_operator_f64, add_operator_c64,
                          add_operator_c128})
            add(all);
        return all;
    }();
    for (const ElementKernels& entry : table)
        if (entry.dtype == dtype && entry.dim == dim && entry.forward.channels == channels) return &entry;
    return nullptr;
}

}  // namespace flashscan::cuda
