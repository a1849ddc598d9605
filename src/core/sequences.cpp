// SPDX-License-Identifier: Apache-2.0
// Checks the fields that say how sequences lie in the batch and in time, and the strides of states.
#include "core/sequences.h"

#include <limits>

#include "core/extents.h"

namespace flashscan {

void validate_sequences(Sequences& p) {
    check_extent(p.batch, 0, "batch");
    check_extent(p.time, 0, "time");
    check_extent(p.state_pool, 0, "state_pool");
    if (p.num_sequences < 0)
        fail(Code::invalid_argument, "num_sequences is {}; accepted are 0 (not packed) and up", p.num_sequences);
    if (p.packed() && p.batch != 1)
        fail(Code::invalid_argument, "batch is {} with num_sequences {}; packed sequences need batch 1", p.batch,
             p.num_sequences);
    if (p.offsets_dtype == Dtype{}) p.offsets_dtype = Dtype::i64;
    check_dtype(p.offsets_dtype, {Dtype::i32, Dtype::i64}, "offsets_dtype");
    if (p.packed() && p.offsets_dtype == Dtype::i32 && int64_t{p.time} > std::numeric_limits<int32_t>::max())
        fail(Code::invalid_argument, "offsets_dtype is i32 with time {}; accepted is i64 above 2^31 - 1", p.time);
}

void check_steps(const Sequences& p, Extent inner, Extent bytes, const char* what) {
    const auto check = [&](Extent rows) { static_cast<void>(rows * nonzero(inner) * bytes); };
    check(nonzero(p.batch).named(what) * nonzero(p.time));
    check(nonzero(p.state_rows()).named("bytes of STATE_IN"));
    check(nonzero(p.state_pool).named("bytes of STATE_IN"));
    if (p.packed()) static_cast<void>((p.num_sequences.named("bytes of SEQ_OFFSETS") + 1) * size_of(p.offsets_dtype));
}

namespace {

void settle(StateStrides& strides, const StateExtents& e, Extent bytes, const char* name) {
    if (strides.row < 0) fail(Code::invalid_argument, "{}.row is {}; accepted are strides >= 0", name, strides.row);
    if (strides.state < 0)
        fail(Code::invalid_argument, "{}.state is {}; accepted are strides >= 0", name, strides.state);
    if (e.states == 1 && strides.state != 0)
        fail(Code::invalid_argument, "{}.state is {}, but there is one state; accepted is 0", name, strides.state);
    if (strides.row == 0) strides.row = e.width;
    if (strides.state == 0 && e.states > 1) strides.state = e.rows.named(name) * strides.row;
    if (e.rows == 0 || e.width == 0) return;
    static_cast<void>(((e.rows - 1).named(name) * strides.row + (e.states - 1) * strides.state + e.width) * bytes);
    const int64_t extents[] = {e.states, e.rows, e.width}, steps[] = {strides.state, strides.row, 1};
    if (!strides_nest(extents, steps, 3))
        fail(Code::invalid_argument,
             "{} strides (row {}, state {}) make {} states of {} rows of {} elements overlap; each stride must step "
             "over "
             "what the smaller ones cover",
             name, strides.row, strides.state, e.states, e.rows, e.width);
}

}  // namespace

void settle_states(Sequences& p, const StateExtents& extents, Extent bytes) {
    StateExtents memory = extents;
    if (p.pooled()) memory.rows = p.state_pool;
    settle(p.state_in, memory, bytes, "state_in");
    settle(p.state_out, memory, bytes, "state_out");
    settle(p.grad_state_in, extents, bytes, "grad_state_in");
    settle(p.grad_state_out, extents, bytes, "grad_state_out");
}

std::string describe_sequences(const Sequences& p) {
    std::string text;
    if (p.direction == Direction::reverse) text += " reverse";
    if (p.has_reset) text += " reset";
    if (p.packed()) text += fmt::format(" sequences{}", p.num_sequences);
    if (p.pooled()) text += fmt::format(" pool{}", p.state_pool);
    return text;
}

}  // namespace flashscan
