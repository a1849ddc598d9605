// SPDX-License-Identifier: Apache-2.0
// Copies tensors to dense memory and adds up dense ones into a tensor, for gradients that ranks add up.
#pragma once

#include "core/arguments.h"

namespace flashscan::cuda {

void pack_tensor(const ArgumentSpec& spec, const void* data, void* dense, void* stream);
void add_up_tensors(const ArgumentSpec& spec, const void* dense, size_t step, int32_t count, void* data, void* stream);

}  // namespace flashscan::cuda
