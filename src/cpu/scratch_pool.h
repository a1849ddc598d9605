// SPDX-License-Identifier: Apache-2.0
// Scratch memory of calls. Memory that a call has released is kept for the next ones, because the first touch of a new
// page costs about as much as a thousand operations on it do: but only as much as one call of each existing plan may
// take.
#pragma once

#include <cstddef>
#include <memory>

namespace flashscan::cpu {

// Throws Error{out_of_memory}.
void* allocate_scratch(size_t bytes);
void release_scratch(void* memory) noexcept;

// `bytes` more are kept during the lifetime of the result.
std::shared_ptr<void> keep_scratch(size_t bytes);

}  // namespace flashscan::cpu
