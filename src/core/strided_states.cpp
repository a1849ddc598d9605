// SPDX-License-Identifier: Apache-2.0
// Finds the states that are not dense, and lists the copies between them and scratch.
#include "core/strided_states.h"

#include <utility>

#include "core/workspace.h"

namespace flashscan {
namespace {

bool is_state(int32_t id) {
    const int32_t argument = id & ~grad_bit;
    return argument == id_of(ArgId::state_in) || argument == id_of(ArgId::state_out);
}

size_t element_bytes(const ArgumentSpec& spec) {
    return spec.dtype == Dtype{} ? 1 : static_cast<size_t>(size_of(spec.dtype));
}

}  // namespace

StridedStates::StridedStates(std::vector<ArgumentSpec>& specs, const Sequences& sequences) {
    if (specs.empty()) return;
    pool_rows_ = sequences.state_pool;
    Extent scratch = round_up(Extent(specs.back().bytes, "SCRATCH"), workspace_alignment);
    for (const ArgumentSpec& spec : specs) {
        if (!is_state(spec.id) || spec.bytes == 0) continue;
        const auto row_axis = static_cast<size_t>(spec.batch_axis);
        const Extent size = element_bytes(spec), rows = spec.axes.extents[row_axis];
        const Extent states = row_axis == 1 ? spec.axes.extents[0] : Extent(1);
        Extent width(1, spec.name);
        for (size_t i = row_axis + 1; i < spec.axes.count; ++i) width = width * spec.axes.extents[i];
        const bool indexed = sequences.pooled() && (spec.id & grad_bit) == 0;
        const bool dense =
            (rows == 1 || spec.strides[row_axis] == width) && (states == 1 || spec.strides[0] == rows * width);
        if (dense && !indexed) continue;
        State state{spec.id, spec.name, spec.written, indexed, static_cast<size_t>(scratch), width * size, rows, 0,
                    1,       0};
        if (indexed) state.rows = sequences.state_rows();
        state.row_step = Extent(spec.strides[row_axis]) * size;
        if (row_axis == 1) {
            state.states = states;
            state.state_step = Extent(spec.strides[0]) * size;
        }
        states_.push_back(state);
        scratch += round_up(states * state.rows * width * size, workspace_alignment);
    }
    if (none()) return;
    specs.back().bytes = static_cast<size_t>(scratch);
    specs.back().axes = {scratch};
}

std::string StridedStates::describe() const {
    std::string text;
    for (const State& state : states_) text += fmt::format("{}{}", text.empty() ? "" : ", ", state.name);
    return text;
}

Pointers StridedStates::in_scratch(const Pointers& given, void* scratch) const {
    Pointers moved = given;
    for (const State& state : states_)
        if (given.get(state.id) != nullptr) moved.set(state.id, static_cast<std::byte*>(scratch) + state.offset);
    return moved;
}

std::vector<RowCopy> StridedStates::copies(const Pointers& given, void* scratch, bool written) const {
    std::vector<RowCopy> list;
    for (const State& state : states_) {
        auto* theirs = static_cast<std::byte*>(given.get(state.id));
        if (theirs == nullptr || state.written != written) continue;
        auto* dense = static_cast<std::byte*>(scratch) + state.offset;
        for (int64_t i = 0; i < state.states; ++i) {
            RowCopy copy;
            copy.to = dense + i * state.rows * state.row_bytes;
            copy.to_step = copy.bytes = state.row_bytes;
            copy.from = theirs + i * state.state_step;
            copy.from_step = state.row_step;
            copy.count = state.rows;
            if (state.indexed) copy.from_indices = static_cast<const int32_t*>(given[ArgId::state_indices]);
            copy.pool_rows = pool_rows_;
            if (written) {
                copy.from = std::exchange(copy.to, theirs + i * state.state_step);
                std::swap(copy.to_step, copy.from_step);
                std::swap(copy.to_indices, copy.from_indices);
            }
            list.push_back(copy);
        }
    }
    return list;
}

}  // namespace flashscan
