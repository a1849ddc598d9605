// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: the only thing of src/cuda that other parts of the library see.
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

const Backend& backend();

}  // namespace flashscan::cuda
