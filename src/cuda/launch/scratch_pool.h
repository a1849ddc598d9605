// SPDX-License-Identifier: Apache-2.0
// Scratch memory of calls, from a memory pool of the library's own on each device.
//
// A pool keeps memory that calls have released, so that the next call needs no allocation by the driver, but only as
// much as one call of each existing plan may take. The rest goes back to the device at its next synchronisation, and so
// does all of it after the last plan.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda/runtime.h"

namespace flashscan::cuda {

// They throw Error{out_of_memory} or Error{device_error}.
void* allocate_scratch(size_t bytes, int device, cudaStream_t stream);
void release_scratch(void* memory, int device, cudaStream_t stream) noexcept;

// The pool keeps `bytes` more during the lifetime of the result. It creates the pool, since the first call may be
// captured.
std::shared_ptr<void> keep_scratch(size_t bytes, int device);

}  // namespace flashscan::cuda
