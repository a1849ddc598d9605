// SPDX-License-Identifier: Apache-2.0
#include "cuda/ranks/operator_gradients.h"

#include <algorithm>
#include <utility>

#include "cuda/launch/launch.h"
#include "cuda/launch/rank_threads.h"
#include "cuda/ranks/over_ranks.h"

namespace flashscan::cuda {

OperatorGradients::OperatorGradients(const OperatorProblem& problem, const Options& options, MakeOperator make,
                                     MakeLinear make_linear, const OperatorMessages& messages,
                                     const OperatorStates& states)
    : p_(problem),
      messages_(messages),
      states_(states),
      join_kernel_(p_.is_matmul() || p_.is_affine() ? rank_matrix_kernels(p_.dtype).join : nullptr) {
    const OperatorTold& told = messages.told();
    join_.chains = p_.chains();
    join_.dim = p_.dim;
    join_.affine = p_.is_affine() ? 1 : 0;
    join_shape_ = threads_in_blocks(told.numbers(), rank_threads);
    const int32_t after = messages.after();
    const auto numbers = [&](OperatorKind kind, Dtype dtype, int64_t steps) {
        return make(numbers_of_ranks(p_, kind, dtype, steps), options);
    };
    if (p_.is_reduction() && after == 0) outputs_ = numbers(OperatorKind::add, p_.dtype, messages.ranks().size);
    if (told.has_slopes()) ones_ = numbers(OperatorKind::mul, state_dtype(p_.dtype), 0);
    if (told.has_slopes() && after > 0) behind_ = make_linear(gradients_of_ranks(p_, after), options);
    if (told.is_sum() && after > 0) sums_behind_ = numbers(OperatorKind::add, state_dtype(p_.dtype), after);
}

void OperatorGradients::settle() {
    const int32_t count = messages_.tellers_between();
    if (!p_.is_custom() || count == 0) return;
    with_own_ = states_.over_ranks(OperatorMode::reduction, messages_.tellers_before(messages_.place() + 1) - 1);
    through_ = states_.over_ranks(OperatorMode::exclusive, count);
}

size_t OperatorGradients::scratch_bytes() const {
    size_t bytes = 0;
    for (const auto* kernel : {&outputs_, &ones_, &sums_behind_, &with_own_})
        if (*kernel) bytes = std::max(bytes, (*kernel)->scratch_bytes(Pass::forward));
    if (messages_.told().has_slopes()) bytes = std::max(bytes, states_.total().scratch_bytes(Pass::backward));
    if (through_) bytes = std::max(bytes, through_->scratch_bytes(Pass::backward));
    if (behind_) bytes = std::max(bytes, behind_->scratch_bytes(Pass::forward));
    return bytes;
}

const void* OperatorGradients::gradient_of_all(const OperatorCall& call) const {
    const OperatorTold& told = messages_.told();
    copy(call, call.at(call.places.sent), call.b.grad_output, told.output_bytes(),
         "copying the gradient of a reduction");
    messages_.tell(call, call.places.outputs, told.output_bytes());
    if (!messages_.is_last()) return nullptr;
    // Arguments of custom operators may lie at any address, which sums of numbers do not take.
    const void* own = call.b.grad_state_out;
    if (own != nullptr && p_.is_custom()) {
        own = call.at(call.places.other);
        copy(call, call.at(call.places.other), call.b.grad_state_out, told.state_bytes(),
             "copying the gradient of a reduction's states");
    }
    void* const gradient = call.at(call.places.gradient);
    reduce(call, *outputs_, call.at(call.places.outputs), nullptr, own, gradient);
    return gradient;
}

void OperatorGradients::gather_locals(const OperatorCall& call, const OperatorKernel& inner,
                                      const OperatorBuffers& own) const {
    if (messages_.place() > 0) {
        OperatorBuffers local = own;
        local.grad_input = local.grad_gate = nullptr;
        local.grad_state_in = call.at(call.places.sent);
        inner.backward(local, call.stream);
    }
    messages_.tell(call, call.places.locals, messages_.told().state_bytes());
}

void OperatorGradients::gather_slopes(const OperatorCall& call, const OperatorBuffers& own) const {
    const bool is_first = messages_.place() == 0, is_last = messages_.is_last();
    char *const sent = call.at(call.places.sent), *const ones = is_last ? sent : call.at(call.places.other);
    if (!is_first) reduce(call, *ones_, nullptr, nullptr, nullptr, ones);
    if (!is_first && !is_last) {
        OperatorBuffers slopes;
        slopes.input = own.input;
        slopes.seq_offsets = own.seq_offsets;
        slopes.state_in = own.state_in;
        slopes.grad_state_out = ones;
        slopes.grad_state_in = sent;
        slopes.scratch = own.scratch;
        states_.total().backward(slopes, call.stream);
    }
    messages_.tell(call, call.places.slopes, messages_.told().state_bytes());
}

const void* OperatorGradients::find_gradient(const OperatorCall& call) const {
    const OperatorTold& told = messages_.told();
    const int32_t first = messages_.place() + 1, end = messages_.ranks().size;
    void* const gradient = call.at(call.places.gradient);
    const char* const behind = messages_.told_from(call.at(call.places.locals), first, end, told.state_bytes());
    if (told.is_sum()) {
        reduce(call, *sums_behind_, behind, nullptr, nullptr, gradient);
        return gradient;
    }
    if (p_.is_custom()) return pull_back(call);
    if (!told.has_slopes()) return join_matrices(call);
    LinearBuffers over;
    over.gate = messages_.told_from(call.at(call.places.slopes), first, end, told.state_bytes());
    over.input = behind;
    over.output = call.at(call.places.unread_output);
    over.state_out = gradient;
    over.scratch = call.at(call.places.inner);
    behind_->forward(over, call.stream);
    return gradient;
}

// Finds it for matrices, going back through one rank after the other.
const void* OperatorGradients::join_matrices(const OperatorCall& call) const {
    const OperatorTold& told = messages_.told();
    const char* const matrices = call.at(p_.is_affine() ? call.places.products : call.places.totals);
    const int64_t matrix_bytes = p_.is_affine() ? told.product_bytes() : told.state_bytes();
    const char* const locals = call.at(call.places.locals);
    const int32_t last = messages_.ranks().size - 1;
    const void* gradient = messages_.told_by(locals, last, told.state_bytes());
    char *to = call.at(call.places.gradient), *other = call.at(call.places.other);
    for (int32_t k = last - 1; k > messages_.place(); --k) {
        RankJoinParams join = join_;
        join.gradient = gradient;
        join.matrix = messages_.told_by(matrices, k, matrix_bytes);
        join.local = messages_.told_by(locals, k, told.state_bytes());
        join.joined = to;
        launch(join_kernel_, join_shape_, call.stream, join);
        gradient = to;
        std::swap(to, other);
    }
    return gradient;
}

// Finds it for custom elements, by backward of an exclusive scan of the totals of the ranks behind from the states
// after the own steps: OUTPUT of that scan has the states that enter these ranks, STATE_OUT what enters the last.
const void* OperatorGradients::pull_back(const OperatorCall& call) const {
    const int32_t first = messages_.place() + 1, end = messages_.ranks().size - 1;
    const char* const last = messages_.told_by(call.at(call.places.locals), end, messages_.told().state_bytes());
    if (!through_) return last;
    void* const state = call.at(call.places.other);
    states_.join_totals(call, *with_own_, first, state);
    OperatorBuffers over;
    over.state_in = state;
    over.input = messages_.told_by_tellers(call, call.places.totals, first, end, call.places.totals_joined);
    over.grad_output = messages_.told_by_tellers(call, call.places.locals, first, end, call.places.locals_joined);
    over.grad_state_out = last;
    over.grad_state_in = call.at(call.places.gradient);
    over.scratch = call.at(call.places.inner);
    through_->backward(over, call.stream);
    return over.grad_state_in;
}

}  // namespace flashscan::cuda
