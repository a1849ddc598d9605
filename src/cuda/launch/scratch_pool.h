// SPDX-License-Identifier: Apache-2.0
// Scratch of calls, from a memory pool of the library's own on each device.
//
// A pool keeps what calls have released, so that the next call costs no allocation of the driver, but only up to what
// one call of each living plan may take. What is beyond goes back to the device the next time that somebody waits for
// it; so does all of it after the last plan.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/runtime.h"

namespace flashscan::cuda {

// Throw Error{out_of_memory} or Error{device_error}.
void* allocate_scratch(size_t bytes, int device, cudaStream_t stream);
void release_scratch(void* memory, int device, cudaStream_t stream) noexcept;

// While what it returns lives, the pool keeps `bytes` more. Makes the pool: the first call may be captured.
std::shared_ptr<void> keep_scratch(size_t bytes, int device);

}  // namespace flashscan::cuda
