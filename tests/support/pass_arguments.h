// SPDX-License-Identifier: Apache-2.0
// Which arguments a pass of a problem writes, and where they lie; `read_by` says what it reads.
#pragma once

#include <flashscan/flashscan.h>

#include <cstdint>
#include <vector>

namespace support {

// Which of gradients_of a problem asks for.
template <typename P>
uint32_t wanted_gradients(const P& p) {
    return p.gradients;
}

// The tensors that the pass writes: all but RESERVE and SCRATCH.
template <typename P>
std::vector<int32_t> written_by(const P& p, bool backward) {
    std::vector<int32_t> ids;
    if (!backward) {
        ids.push_back(FLASHSCAN_ARG_OUTPUT);
        if constexpr (requires { p.index; })
            if (p.index) ids.push_back(FLASHSCAN_ARG_INDEX);
        if (p.state_out) ids.push_back(FLASHSCAN_ARG_STATE_OUT);
        return ids;
    }
    uint32_t wanted = wanted_gradients(p);
    for (const int32_t id : gradients_of(p)) {
        if ((wanted & 1U) != 0 && has_argument(p, id)) ids.push_back(FLASHSCAN_GRAD | id);
        wanted >>= 1U;
    }
    return ids;
}

// The argument in whose memory a problem in place has this output; 0: in its own.
template <typename P>
int32_t place_of(const P& p, int32_t id) {
    constexpr int32_t grad = FLASHSCAN_GRAD;
    if constexpr (requires { p.in_place; }) {
        if (!p.in_place) return 0;
    } else {
        return 0;
    }
    const bool states = p.sequences == 0;  // those of packed sequences may not share memory
    switch (id) {
    case FLASHSCAN_ARG_OUTPUT: return FLASHSCAN_ARG_INPUT;
    case FLASHSCAN_ARG_STATE_OUT: return states && p.state_in ? FLASHSCAN_ARG_STATE_IN : 0;
    case grad | FLASHSCAN_ARG_INPUT: return grad | FLASHSCAN_ARG_OUTPUT;
    case grad | FLASHSCAN_ARG_STATE_IN: return states && p.state_out ? grad | FLASHSCAN_ARG_STATE_OUT : 0;
    default: return 0;
    }
}

}  // namespace support
