// SPDX-License-Identifier: Apache-2.0
#include "core/strided_states.h"

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

StridedStates::StridedStates(std::vector<ArgumentSpec>& specs) {
    if (specs.empty()) return;
    Extent scratch = round_up(Extent(specs.back().bytes, "SCRATCH"), workspace_alignment);
    for (const ArgumentSpec& spec : specs) {
        if (!is_state(spec.id) || spec.bytes == 0) continue;
        const Extent size = element_bytes(spec), dense = spec.axes.product(spec.name) * size;
        // A row is what lies side by side: the innermost axes that are dense.
        size_t outer = spec.axes.count;
        Extent row(1, spec.name);
        while (outer > 0 && (spec.axes.extents[outer - 1] == 1 || spec.strides[outer - 1] == row))
            row = row * spec.axes.extents[--outer];
        if (outer == 0) continue;
        State state{spec.id, spec.name, spec.written, static_cast<size_t>(scratch), row * size, 1, 0, 1, 0};
        state.rows = spec.axes.extents[outer - 1];
        state.row_step = Extent(spec.strides[outer - 1]) * size;
        if (outer == 2) {
            state.states = spec.axes.extents[0];
            state.state_step = Extent(spec.strides[0]) * size;
        }
        states_.push_back(state);
        scratch += round_up(dense, workspace_alignment);
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
            RowCopy copy{dense + i * state.rows * state.row_bytes,
                         state.row_bytes,
                         theirs + i * state.state_step,
                         state.row_step,
                         state.row_bytes,
                         state.rows};
            if (written)
                copy = {theirs + i * state.state_step,
                        state.row_step,
                        copy.to,
                        state.row_bytes,
                        state.row_bytes,
                        state.rows};
            list.push_back(copy);
        }
    }
    return list;
}

}  // namespace flashscan
