// SPDX-License-Identifier: Apache-2.0
// Which devices run code that was compiled for a list of architectures.
#pragma once

#include <string_view>

namespace flashscan::cuda {

// Whether a device of compute capability `major`.`minor` runs what was compiled for `architectures`, a list as CMake's
// CUDA_ARCHITECTURES with spaces in it ("80 90a-real"): machine code, or PTX, of which the driver makes it. Names
// without a number ("native", "all") are taken to include the device.
bool runs_on(std::string_view architectures, int major, int minor);

}  // namespace flashscan::cuda
