// SPDX-License-Identifier: Apache-2.0
// LTO-IR as a user's own compiler makes it.
#pragma once

#include <string>

namespace support {

// Compiles CUDA source for GPUs of compute capability 8.0 and newer; empty where NVRTC could not be loaded.
std::string lto_ir_of(const std::string& source);

}  // namespace support
