// SPDX-License-Identifier: Apache-2.0
// Rows over a set of factors such that every two levels of every two factors meet in some row.
#pragma once

#include <cstdint>
#include <vector>

namespace support {

// `levels[f]` is the number of levels of factor f; each row holds one level per factor. Greedy and deterministic.
std::vector<std::vector<int>> pairwise_rows(const std::vector<int>& levels, uint64_t seed);

}  // namespace support
