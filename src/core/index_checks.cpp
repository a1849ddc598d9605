// SPDX-License-Identifier: Apache-2.0
// The Errors name the index and the value that is not accepted.
#include "core/index_checks.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace flashscan {

void check_offsets(const std::vector<int64_t>& offsets, int64_t time) {
    if (offsets.empty()) return;
    if (offsets[0] != 0) fail(Code::invalid_argument, "SEQ_OFFSETS[0] is {}; accepted is 0", offsets[0]);
    for (size_t i = 1; i < offsets.size(); ++i)
        if (offsets[i] < offsets[i - 1])
            fail(Code::invalid_argument, "SEQ_OFFSETS[{}] is {}, less than SEQ_OFFSETS[{}] = {}; they may not decrease",
                 i, offsets[i], i - 1, offsets[i - 1]);
    if (offsets.back() > time)
        fail(Code::invalid_argument, "SEQ_OFFSETS[{}] is {}; accepted are values up to time = {}", offsets.size() - 1,
             offsets.back(), time);
}

void check_state_indices(const std::vector<int64_t>& indices, int64_t rows, bool written) {
    std::vector<std::pair<int64_t, size_t>> places;
    for (size_t i = 0; i < indices.size(); ++i) {
        if (indices[i] < -1 || indices[i] >= rows)
            fail(Code::invalid_argument,
                 "STATE_INDICES[{}] is {}; accepted are -1 (no state) and rows of the pool, 0 to {}", i, indices[i],
                 rows - 1);
        if (written && indices[i] >= 0) places.emplace_back(indices[i], i);
    }
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i)
        if (places[i - 1].first == places[i].first)
            fail(Code::invalid_argument,
                 "STATE_INDICES[{}] and STATE_INDICES[{}] are both {}; rows that STATE_OUT is written to must differ",
                 places[i - 1].second, places[i].second, places[i].first);
}

}  // namespace flashscan
