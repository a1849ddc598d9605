// SPDX-License-Identifier: Apache-2.0
// The rows of a pass cut into groups, which a wavefront hands on one after the other: entries of the batch, channels of
// entries where there are to be at least twice as many groups as entries, or channels of all rows where the batch must
// not be cut. All ranks cut alike, by what is the same on all of them.
#pragma once

#include <algorithm>
#include <vector>

#include "core/gated_arguments.h"
#include "core/linear_arguments.h"
#include "core/operator_arguments.h"
#include "core/rank_schedule.h"
#include "core/selective_arguments.h"

namespace flashscan::cuda {

struct RowSlice {
    int64_t batch = 0, batches = 0, channel = 0, channels = 0;
    int64_t first_state = 0, states = 0;  // of the states of channels, group by group
};

struct RowSlices {
    const char* of = "batch entries";  // what the groups are
    // Whether groups have channels of all rows, so that their states do not lie side by side, and then the channels of
    // every group but the last.
    bool along_channels = false;
    int64_t group_channels = 0;
    std::vector<RowSlice> list;
};

// The most groups that the rows of a pass can be cut into; 0 where a gradient is a sum over them.
int64_t most_groups(const LinearProblem& problem, Pass pass);
int64_t most_groups(const GatedProblem& problem, Pass pass);
int64_t most_groups(const OperatorProblem& problem, Pass pass);
int64_t most_groups(const SelectiveProblem& problem, Pass pass);
RowSlices slices_of(const LinearProblem& problem, Pass pass, int32_t groups);
RowSlices slices_of(const GatedProblem& problem, Pass pass, int32_t groups);
RowSlices slices_of(const OperatorProblem& problem, Pass pass, int32_t groups);
RowSlices slices_of(const SelectiveProblem& problem, Pass pass, int32_t groups);

// Returns what becomes of the rows for each number of groups that may be asked for, up to the most that a plan makes by
// itself.
template <typename Problem>
std::vector<RowCut> row_cuts(const Problem& problem, Pass pass) {
    const auto most = std::min<int64_t>(most_groups(problem, pass), most_chosen_groups);
    const auto states = static_cast<double>(problem.state_rows() * problem.channels);
    std::vector<RowCut> list(1);
    for (int32_t groups = 1; groups <= most; ++groups) {
        const RowSlices slices = slices_of(problem, pass, groups);
        int64_t largest = 0;
        for (const RowSlice& slice : slices.list) largest = std::max(largest, slice.states);
        list.push_back({static_cast<int32_t>(slices.list.size()), static_cast<double>(largest) / states});
    }
    return list;
}

// The problem whose states are dense, of all rows.
LinearProblem with_dense_states(LinearProblem problem);
GatedProblem with_dense_states(GatedProblem problem);
SelectiveProblem with_dense_states(SelectiveProblem problem);
OperatorProblem with_dense_states(OperatorProblem problem);
// The problem of a slice, whose states are dense.
LinearProblem problem_of(const LinearProblem& problem, const RowSlice& slice);
GatedProblem problem_of(const GatedProblem& problem, const RowSlice& slice);
OperatorProblem problem_of(const OperatorProblem& problem, const RowSlice& slice);
SelectiveProblem problem_of(const SelectiveProblem& problem, const RowSlice& slice);
// The arguments of a slice, but for its states, which a wavefront gives.
LinearBuffers buffers_of(const LinearProblem& problem, const RowSlice& slice, LinearBuffers whole);
GatedBuffers buffers_of(const GatedProblem& problem, const RowSlice& slice, GatedBuffers whole);
OperatorBuffers buffers_of(const OperatorProblem& problem, const RowSlice& slice, OperatorBuffers whole);
SelectiveBuffers buffers_of(const SelectiveProblem& problem, const RowSlice& slice, SelectiveBuffers whole);  // forward

}  // namespace flashscan::cuda
