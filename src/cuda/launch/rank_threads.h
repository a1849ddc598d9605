// SPDX-License-Identifier: Apache-2.0
// How many threads a block has of the kernels of ranks, as they are compiled and launched.
#pragma once

namespace flashscan::cuda {

inline constexpr int rank_threads = 256;

}  // namespace flashscan::cuda
