// SPDX-License-Identifier: Apache-2.0
// How many chunks a look-back group has, for all kernels whose chunks look back.
#pragma once

#include <algorithm>
#include <cstdint>

namespace flashscan::cuda {

// The least n with 2^n >= count, at most `limit`.
constexpr int log2_up(int64_t count, int limit) {
    int n = 0;
    while (n < limit && int64_t{1} << n < count) ++n;
    return n;
}

// With so many groups of rows, a chain of carries from chunk to chunk is fast enough and look-back needs no groups of
// chunks. It was measured on an H200, which runs 264 blocks at once.
inline constexpr int64_t chain_blocks = 48;

// log2 of the chunks of a group: half of a block's threads compose up to 4 summaries each, for `rows` rows.
constexpr int log2_group_chunks(int64_t warps, int64_t rows) {
    constexpr int folded = 4, log2_longest_group = 7;
    return log2_up(folded * std::max<int64_t>(16 * warps / rows, 1), log2_longest_group);
}

}  // namespace flashscan::cuda
