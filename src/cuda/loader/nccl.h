// SPDX-License-Identifier: Apache-2.0
// NCCL, as the program has it: never a second copy beside it, which would not know the program's communicators.
#pragma once

#include <memory>

#include "core/communicator.h"

namespace flashscan::cuda {

// The numbers of NCCL's interface.
inline constexpr int nccl_bytes = 0;        // the type of data: ncclInt8
inline constexpr int nccl_in_progress = 7;  // of communicators that do not block

// The functions of the NCCL that the program has loaded. Throws Error{dependency_missing} where it has none.
std::shared_ptr<const NcclFunctions> loaded_nccl();

// Throws Error{device_error} with NCCL's own words for a result that is no success. Waits for what is in progress.
void check_nccl(const Communicator& ranks, int result, const char* doing);

}  // namespace flashscan::cuda
