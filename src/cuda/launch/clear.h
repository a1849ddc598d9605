// SPDX-License-Identifier: Apache-2.0
// The kernel by which launch.cpp sets memory to ones.
#pragma once

namespace flashscan::cuda {

// It takes (uint64_t* words, int64_t count) and is launched in blocks of 256 threads.
const void* clear_look_back_kernel();

}  // namespace flashscan::cuda
