// SPDX-License-Identifier: Apache-2.0
#include "cpu/operator_rank_pass.h"

#include <algorithm>
#include <cstring>

#include "core/workspace.h"
#include "cpu/gradient_sum.h"
#include "reference/values.h"

namespace flashscan::cpu {
namespace {

// Bits of a note's flags: whether a gradient is asked for that needs what every rank has to give; whether this one
// gives it.
constexpr uint32_t wants = 1, gives = 2;

// A message says for each row what made its state.
enum Mark : char {
    no_state = 0,
    from_steps = 1,
    from_state_in = 2  // alone
};

}  // namespace

OperatorRankPlan::OperatorRankPlan(const OperatorProblem& p, const Communicator& ranks, const OperatorJoins& j,
                                   size_t inner_bytes, Pass of)
    : pass(of) {
    const bool backward = pass == Pass::backward, edges = OperatorRankPass::reads_edges(p);
    const Extent states(j.state_bytes(), "SCRATCH"), size = ranks.size, none;
    Workspace message, workspace;
    message.book(Extent(sizeof(RankNote)));
    marks = message.book(p.state_rows());
    total = message.book(states);
    product = message.book(Extent(j.product_bytes()));
    edge = message.book(backward && edges ? states : none);
    gradient = message.book(backward && p.is_reduction() ? states : none);
    message_bytes = message.bytes();
    told_bytes = static_cast<size_t>(p.on_numbers() ? states * 2 : states);
    sent = workspace.book(Extent(message_bytes, "SCRATCH"));
    received = workspace.book(size * message_bytes);
    outcomes = workspace.book(p.is_custom() ? size * sizeof(RankNote) : none);
    for (size_t* at : {&carry, &next, &mine}) *at = workspace.book(states);
    for (size_t* at : {&begun, &my_rows}) *at = workspace.book(p.state_rows());
    round = workspace.book(size * states);
    sum = workspace.book(backward ? states : none);
    told = workspace.book(backward ? Extent(told_bytes, "SCRATCH") : none);
    heard = workspace.book(backward ? size * told_bytes : none);
    entering = workspace.book(backward && p.is_custom() ? size * states : none);
    zeros = workspace.book(backward ? states : none);
    joins = workspace.book(Extent(j.scratch_bytes()));
    inner = workspace.book(Extent(inner_bytes));
    scratch_bytes = workspace.bytes();
}

bool OperatorRankPass::has_own_steps(size_t row) const {
    return reference::sequence_of(p_, b_.seq_offsets, static_cast<int64_t>(row)).length() > 0;
}

void OperatorRankPass::copy_row(char* to, const char* from, size_t row) const {
    const size_t start = row * joins_.row_bytes();
    std::memcpy(to + start, from + start, joins_.row_bytes());
}

void OperatorRankPass::add(const void* from, char* to) const {
    if (p_.is_custom()) return add_gradient(p_.dtype, static_cast<const char*>(from), joins_.state_bytes(), to);
    const Dtype state = state_dtype(p_.dtype);
    for (int64_t i = 0; i < static_cast<int64_t>(joins_.state_bytes()) / size_of(state); ++i)
        reference::store(to, state, i, reference::load(to, state, i) + reference::load(from, state, i));
}

void OperatorRankPass::exchange() {
    std::memset(scratch_ + at_.sent, 0, at_.message_bytes);
    uint32_t flags = gives;
    if (at_.pass == Pass::backward && on_matrices(p_)) {
        const bool asked = (p_.is_affine() ? b_.grad_gate : b_.grad_input) != nullptr;
        const bool given = p_.input_count() == 0 || (reads_edges(p_) ? b_.output : b_.input) != nullptr;
        flags = (asked ? wants : 0) | (given ? gives : 0);
    }
    auto& mine = *reinterpret_cast<RankNote*>(scratch_ + at_.sent);
    mine = note_of(ranks_, at_.pass, [&] {
        fill_message();
        return "";
    });
    mine.steps = p_.time;
    mine.flags = flags;
    ranks_.gather(&mine, scratch_ + at_.received, at_.message_bytes, stream_);
    check_notes(ranks_, notes(), at_.message_bytes);
    for (int32_t k = 0; k < ranks_.size; ++k) wanting_ = wanting_ || (note(k).flags & wants) != 0;
    check_given(ranks_, notes(), at_.message_bytes, wants, gives, reads_edges(p_) ? "OUTPUT" : "INPUT",
                p_.is_affine() ? "GRAD|GATE" : "GRAD|INPUT");
}

void OperatorRankPass::settle(const RankNote& mine) {
    char* const all = scratch_ + at_.outcomes;
    ranks_.gather(&mine, all, sizeof mine, stream_);
    check_notes(ranks_, reinterpret_cast<const std::byte*>(all), sizeof mine);
}

// In a scan the last rank sends no total, as no rank needs it.
void OperatorRankPass::fill_message() {
    char *sent = scratch_ + at_.sent, *work = scratch_ + at_.joins;
    for (size_t row = 0; row < rows(); ++row)
        sent[at_.marks + row] = has_own_steps(row) ? from_steps : b_.state_in != nullptr ? from_state_in : no_state;
    if (joins_.state_bytes() == 0) return;
    const bool told = p_.time > 0 && (p_.is_reduction() || !is_last());
    if (b_.state_in != nullptr) std::memcpy(sent + at_.total, b_.state_in, joins_.state_bytes());
    if (told && b_.input != nullptr) joins_.total(b_, b_.state_in, sent + at_.total, work);
    if (told && p_.is_affine()) joins_.product(b_, sent + at_.product, work);
    if (at_.pass == Pass::forward) return;
    if (reads_edges(p_)) fill_edge(sent + at_.edge);
    if (!p_.is_reduction()) return;
    std::memset(scratch_ + at_.zeros, 0, joins_.state_bytes());
    joins_.load_output(b_.grad_output, sent + at_.gradient);
    if (b_.grad_state_out != nullptr) add(b_.grad_state_out, sent + at_.gradient);
}

// Loads a row of OUTPUT at the first or the last own step.
void OperatorRankPass::load_step(size_t row, bool last, char* states) const {
    const reference::Sequence s = reference::sequence_of(p_, b_.seq_offsets, static_cast<int64_t>(row));
    const auto steps = p_.steps();
    const int64_t element = p_.element(), time = s.step(p_.direction, last ? s.length() - 1 : 0);
    for (int64_t c = 0; c < p_.channels; ++c)
        for (int64_t i = 0; i < element; ++i)
            reference::convert(states, state_dtype(p_.dtype), (s.state * p_.channels + c) * element + i, b_.output,
                               p_.dtype, (s.b * steps.batch + time * steps.time + c * steps.channels) * element + i);
}

// Sets the states after the own steps as OUTPUT has them. Those of the first rank are STATE_IN where it has no steps.
void OperatorRankPass::fill_edge(char* edge) const {
    for (size_t row = 0; row < rows(); ++row)
        if (has_own_steps(row)) {
            if (b_.output != nullptr && p_.mode == OperatorMode::inclusive) load_step(row, true, edge);
        } else if (b_.state_in != nullptr) {
            copy_row(edge, static_cast<const char*>(b_.state_in), row);
        }
}

const char* OperatorRankPass::states_before() {
    char *before = scratch_ + at_.mine, *begun = scratch_ + at_.my_rows;
    std::memset(before, 0, joins_.state_bytes());
    for (size_t row = 0; row < rows(); ++row) {
        int32_t k = place() - 1;
        while (k > 0 && !marked(k, row)) --k;
        begun[row] = marked(k, row) ? 1 : 0;
        if (p_.mode == OperatorMode::inclusive || message(k)[at_.marks + row] == from_state_in)
            copy_row(before, message(k) + at_.edge, row);
        else if (b_.output != nullptr && has_own_steps(row))
            load_step(row, false, before);
    }
    return usable(before, begun);
}

const char* OperatorRankPass::usable(char* states, const char* begun) const {
    if (std::count(begun, begun + rows(), 0) == static_cast<int64_t>(rows())) return nullptr;
    for (size_t row = 0; row < rows(); ++row)
        if (begun[row] == 0) joins_.set_identity(states, static_cast<int64_t>(row));
    return states;
}

bool OperatorRankPass::is_finite(const char* states, const char* of) const {
    for (size_t row = 0; row < rows() && on_matrices(p_); ++row)
        if (of[row] != 0 && !joins_.is_finite(states, static_cast<int64_t>(row))) return false;
    return true;
}

void OperatorRankPass::take_from(int32_t k, char* states) {
    const size_t bytes = joins_.state_bytes();
    if (k != place()) std::memset(states, 0, bytes);
    ranks_.gather(states, scratch_ + at_.round, bytes, stream_);
    std::memcpy(states, scratch_ + at_.round + static_cast<size_t>(ranks_.place(k, p_.direction)) * bytes, bytes);
}

const char* OperatorRankPass::find_carry() {
    const size_t bytes = joins_.state_bytes();
    char *carry = scratch_ + at_.carry, *begun = scratch_ + at_.begun;
    char *mine = scratch_ + at_.mine, *my_rows = scratch_ + at_.my_rows;
    std::memset(carry, 0, bytes);
    std::memset(begun, 0, rows());
    const int32_t end = p_.is_reduction() ? ranks_.size : ranks_.size - 1;
    for (int32_t k = 0; k <= end; ++k) {
        if (k == place()) {
            std::memcpy(mine, carry, bytes);
            std::memcpy(my_rows, begun, rows());
        }
        if (at_.pass == Pass::backward && p_.is_custom() && k < ranks_.size) {
            std::memcpy(scratch_ + at_.entering + static_cast<size_t>(k) * bytes, carry, bytes);
            // Without packed sequences all rows have the same number of steps, so they begin at the same place.
            if (std::count(begun, begun + rows(), 0) > 0) first_entered_ = k + 1;
        }
        if (k < end) join_rank(k);
    }
    return usable(mine, my_rows);
}

void OperatorRankPass::join_rank(int32_t k) {
    const size_t bytes = joins_.state_bytes();
    char *carry = scratch_ + at_.carry, *next = scratch_ + at_.next, *begun = scratch_ + at_.begun;
    const char *total = message(k) + at_.total, *marks = message(k) + at_.marks;
    bool joins = false, any = false;
    for (size_t row = 0; row < rows(); ++row) {
        any = any || marked(k, row);
        joins = joins || (marked(k, row) && begun[row] != 0);
    }
    if (!any) return;
    if (joins && bytes > 0) joins_.join(carry, total, message(k) + at_.product, next, scratch_ + at_.joins);
    for (size_t row = 0; row < rows(); ++row)
        if (!marked(k, row))
            copy_row(next, carry, row);
        else if (begun[row] == 0)
            copy_row(next, total, row);
    if (joins && !is_finite(next, marks)) {
        if (k == place()) joins_.total(b_, usable(carry, begun), next, scratch_ + at_.joins);
        take_from(k, next);
    }
    for (size_t row = 0; row < rows(); ++row)
        if (marks[row] != 0) begun[row] = 1;
    std::memcpy(carry, next, bytes);
}

const char* OperatorRankPass::gradient_of_all() {
    char* sum = scratch_ + at_.sum;
    std::memset(sum, 0, joins_.state_bytes());
    for (int32_t k = 0; k < ranks_.size; ++k) add(message(k) + at_.gradient, sum);
    return sum;
}

// Returns the arguments of the own pass for the gradient of the states that enter, and nothing else.
OperatorBuffers OperatorRankPass::to_state_in(const OperatorBuffers& own, const char* grad_state_out,
                                              char* grad_state_in) const {
    OperatorBuffers b = own;
    b.grad_input = b.grad_gate = nullptr;
    b.grad_state_out = grad_state_out;
    b.grad_state_in = grad_state_in;
    return b;
}

// On the last rank this gradient includes GRAD|STATE_OUT. Matrices need no slopes, as all ranks have their totals. The
// first rank makes nothing, since no rank needs it.
void OperatorRankPass::make_local(const OperatorBuffers& own, const OperatorKernel& inner) {
    const size_t bytes = joins_.state_bytes();
    if (bytes == 0) return;
    char *local = scratch_ + at_.told, *slope = local + bytes;
    std::memset(local, 0, at_.told_bytes);
    const auto* last = is_last() ? static_cast<const char*>(own.grad_state_out) : nullptr;
    if (p_.time == 0) {
        if (last != nullptr) std::memcpy(local, last, bytes);
    } else if (own.state_in != nullptr && place() > 0) {
        inner.backward(to_state_in(own, last, local), stream_);
        if (p_.on_numbers() && !is_last()) joins_.slope(own, slope, scratch_ + at_.joins);
    }
}

void OperatorRankPass::gather_locals() {
    if (joins_.state_bytes() > 0) ranks_.gather(scratch_ + at_.told, scratch_ + at_.heard, at_.told_bytes, stream_);
}

void OperatorRankPass::join_gradient(int32_t k, const OperatorBuffers& own, const OperatorKernel& inner) {
    const size_t bytes = joins_.state_bytes();
    char *gradient = scratch_ + at_.carry, *next = scratch_ + at_.next;
    const char* local = scratch_ + at_.heard + static_cast<size_t>(ranks_.place(k, p_.direction)) * at_.told_bytes;
    if (k == ranks_.size - 1) {
        std::memcpy(gradient, local, bytes);
        return;
    }
    if (note(k).steps == 0 || (p_.is_custom() && k < first_entered_)) return;
    if (p_.is_custom()) {
        const char* state = scratch_ + at_.entering + static_cast<size_t>(k) * bytes;
        joins_.pull_back(state, message(k) + at_.total, gradient, local, next, scratch_ + at_.joins);
        std::memcpy(gradient, next, bytes);
        return;
    }
    const char* slope = p_.on_numbers() ? local + bytes : message(k) + (p_.is_affine() ? at_.product : at_.total);
    joins_.join_gradient(gradient, slope, local, next, scratch_ + at_.joins);
    if (!is_finite(next, message(k) + at_.marks)) {
        if (k == place()) inner.backward(to_state_in(own, gradient, next), stream_);
        take_from(k, next);
    }
    std::memcpy(gradient, next, bytes);
}

const char* OperatorRankPass::find_gradient(const OperatorBuffers& own, const OperatorKernel& inner) {
    char* mine = scratch_ + at_.sum;
    const size_t bytes = joins_.state_bytes();
    if (bytes == 0) return mine;
    for (int32_t k = ranks_.size - 1; k >= 0; --k) {
        // The last rank has its gradient already.
        if (k == place() && !is_last()) std::memcpy(mine, scratch_ + at_.carry, bytes);
        if (k > 0) join_gradient(k, own, inner);
    }
    return mine;
}

}  // namespace flashscan::cpu
