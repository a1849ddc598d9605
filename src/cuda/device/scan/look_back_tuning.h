// SPDX-License-Identifier: Apache-2.0
// How many chunks a group of look-back has, for the families that choose it (the chains of carries: element_chain.cuh
// here).
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

// Blocks of rows from which on a chain of carries keeps up with the chunks; measured on an H200, which holds 264 blocks.
inline constexpr int64_t chain_blocks = 48;

// log2 of the chunks of a group: half of a block's threads fold up to 4 summaries each, shared out to `rows` rows.
constexpr int log2_group_chunks(int64_t warps, int64_t rows) {
    constexpr int folded = 4, log2_longest_group = 7;
    return log2_up(folded * std::max<int64_t>(16 * warps / rows, 1), log2_longest_group);
}

}  // namespace flashscan::cuda
