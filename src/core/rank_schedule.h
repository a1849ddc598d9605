// SPDX-License-Identifier: Apache-2.0
// Chooses how states travel from rank to rank on GPUs, by what the two ways are expected to take. It asks no device, so
// that the choice is the same on every rank.
//
//     gathered    each rank summarises its steps, all ranks gather the summaries, and then each runs its pass
//     wavefront   rows are in K groups; a rank starts a group when the one before it has finished that group:
//                 (K + P - 1) / K of pass_us and K + P - 1 times steps_us on P ranks; where a GPU has room for two
//                 groups at once, (K + 2 P - 2) / K of pass_us and K / 2 + P - 1 times steps_us
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/communicator.h"

namespace flashscan {

// The multiprocessors that groups are made large enough to fill: those of an H200. It is a constant and asks no device,
// because ranks may have different ones and must cut alike.
inline constexpr int64_t filled_multiprocessors = 132;

// Groups have at least so many rows. Where there are more than few_groups of them, they have four times as many: over
// two H200s 8 groups of a linear recurrence were the best of 4, 8 and 16 for 8192, 16384 and 32768 rows.
inline constexpr int64_t least_group_rows = 1024, few_groups = 8;
inline constexpr int32_t most_chosen_groups = 64;  // that a plan makes by itself

// A RowCut tells what becomes of rows that are to be cut into some number of groups.
struct RowCut {
    int32_t groups = 1;
    double largest = 1;  // the share of all rows that the largest group has
};

// The microseconds that a kernel takes for a stream of so many bytes, but for its launch.
double stream_us(double bytes);

// The times and messages of a pass on the rank that has the most steps, in microseconds without launches.
struct RankWork {
    int32_t ranks = 1;
    double pass_us = 0;  // of the kernels of one GPU on all rows, but for steps_us
    // The pass takes this besides, however few the rows are, since a block walks the steps one after the other.
    double steps_us = 0;
    double summary_us = 0;     // of what a rank does for the others where summaries are gathered
    double message_bytes = 0;  // that each rank sends to all then
    double edge_bytes = 0;     // that each rank sends to all once, before a wavefront begins
    double before_us = 0;      // of what it does for what it sends then
    double state_bytes = 0;    // of the states of all rows
    double blocks = 0;         // that walk all rows; groups run in twos where both fit a GPU. 0: any group fills one
    int64_t rows = 0;
    int64_t least_rows = least_group_rows;  // of a group that the plan makes; fewer leave much of a GPU idle
    int64_t most_groups = 1;                // that the rows can be cut into; 0: a wavefront is not possible
    bool peer_memory = false;               // states pass through it, and not through NCCL or callbacks
    std::vector<RowCut> cuts;               // by the groups that are asked for; even ones where there is none
    const char* why_whole =
        "the gradient of the gate is a sum over the rows, which a wavefront would cut";  // where it is 0

    RowCut cut_into(int32_t groups) const;
};

struct RankSchedule {
    Carries carries = Carries::gathered;
    int32_t groups = 1;
    double us = 0;  // what it is expected to take
    std::string why;
};

double gathered_us(const RankWork& work);
double wavefront_us(const RankWork& work, int32_t groups);

// The estimates decide unless the caller has chosen: `wanted` the way, `groups` (not 0) the groups of a wavefront, of
// which there are at most work.most_groups.
RankSchedule choose_schedule(const RankWork& work, Carries wanted, int32_t groups);

}  // namespace flashscan
