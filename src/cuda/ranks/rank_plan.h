// SPDX-License-Identifier: Apache-2.0
// Holds what the plan of a rank of linear recurrences or gated layers settles: launches, and the places of messages.
#pragma once

#include "cuda/launch/launch.h"
#include "cuda/ranks/params.h"

namespace flashscan::cuda {

// The places of a message, and of the summaries of chunks, which are messages too. A message may lack the map, which is
// the product and the sum, and the edge.
struct MessagePlaces {
    bool map = false, has_edge = false;
    size_t product = 0, sum = 0, marks = 0, edge = 0, bytes = 0;
    RankMessage at(char* base) const {
        RankMessage to;
        if (map) to.product = base + product, to.sum = base + sum;
        to.marks = reinterpret_cast<uint8_t*>(base + marks);
        if (has_edge) to.edge = base + edge;
        return to;
    }
};

// A plan settles these for each pass.
struct RankPlan {
    MessagePlaces message, chunk;
    SettledLaunch<RankSummaryParams> summarise;  // none without chunks
    SettledLaunch<RankCloseParams> close;
    SettledLaunch<RankEnterParams> enter;  // none where neither a carry nor a state before this rank is wanted
    bool has_carry = false;                // whether the kernel of one GPU starts from a carry of other ranks
    // Places in scratch.
    size_t records = 0, sent = 0, received = 0, carry = 0, before = 0, inner = 0, bytes = 0;
};

}  // namespace flashscan::cuda
