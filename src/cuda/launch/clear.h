// SPDX-License-Identifier: Apache-2.0
// The kernel with which launch.cpp sets memory to ones.
#pragma once

namespace flashscan::cuda {

// Sets 8-byte words to all ones: (uint64_t* words, int64_t count), blocks of 256 threads.
const void* clear_look_back_kernel();

}  // namespace flashscan::cuda
