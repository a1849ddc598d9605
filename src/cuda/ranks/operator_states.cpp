// SPDX-License-Identifier: Apache-2.0
#include "cuda/ranks/operator_states.h"

#include <algorithm>

#include "cuda/launch/rank_threads.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/ranks/over_ranks.h"

namespace flashscan::cuda {
namespace {

// Runs forward of `kernel` over the own steps, into the rank's message.
void reduce_steps(const OperatorCall& call, const OperatorKernel& kernel, const void* input, const void* gate,
                  const void* state_in) {
    reduce(call, kernel, input, gate, state_in, call.at(call.places.sent), call.b.seq_offsets);
}

}  // namespace

OperatorStates::OperatorStates(const OperatorProblem& problem, const Options& options, MakeOperator make,
                               const OperatorMessages& messages)
    : p_(problem),
      options_(options),
      make_(make),
      messages_(messages),
      kernels_(messages.told().reads_edges() ? rank_matrix_kernels(p_.dtype) : RankMatrixKernels{}),
      total_(make(total_of(p_), options_)) {
    if (p_.is_affine()) product_ = make(matrices_of(p_), options_);
}

void OperatorStates::settle() {
    const int32_t place = messages_.place(), size = messages_.ranks().size;
    if (place > 0) before_ = over_ranks(OperatorMode::reduction, messages_.tellers_before(place) - 1);
    if (p_.is_reduction()) all_ = over_ranks(OperatorMode::reduction, messages_.tellers_before(size) - 1);
    if (messages_.told().reads_edges()) settle_edges();
}

void OperatorStates::settle_edges() {
    const OperatorTold& told = messages_.told();
    const auto steps = p_.steps();
    edge_.offsets = offsets_of(p_, nullptr);
    edge_.rows = p_.state_rows();
    edge_.channels = p_.channels;
    edge_.element = p_.element();
    edge_.time = p_.time;
    edge_.batch_step = steps.batch * edge_.element;
    edge_.time_step = steps.time * edge_.element;
    edge_.channel_step = steps.channels * edge_.element;
    edge_.reverse = p_.direction == Direction::reverse ? 1 : 0;
    edges_.message_step = p_.direction == Direction::forward ? -told.edge_bytes() : told.edge_bytes();
    edges_.count = messages_.place();
    edges_.exclusive = p_.mode == OperatorMode::exclusive ? 1 : 0;
    edges_.rows = p_.state_rows();
    edges_.row_numbers = p_.channels * p_.element();
    edges_.identity_dim = p_.is_matmul() ? p_.dim : Extent();
    number_threads_ = threads_in_blocks(told.numbers(), rank_threads);
}

size_t OperatorStates::scratch_bytes() const {
    size_t bytes = 0;
    for (const auto* kernel : {&total_, &product_, &before_, &all_})
        if (*kernel) bytes = std::max(bytes, (*kernel)->scratch_bytes(Pass::forward));
    return bytes;
}

std::unique_ptr<OperatorKernel> OperatorStates::over_ranks(OperatorMode mode, int64_t steps) const {
    return make_(elements_of_ranks(p_, mode, steps), options_);
}

bool OperatorStates::counts(Pass pass) const {
    return !messages_.is_last() || (p_.is_reduction() && pass == Pass::forward);
}

void OperatorStates::gather_totals(const OperatorCall& call, Pass pass) const {
    const OperatorBuffers& b = call.b;
    if ((b.input != nullptr || p_.empty()) && counts(pass))
        reduce_steps(call, *total_, b.input, b.gate, messages_.place() == 0 ? b.state_in : nullptr);
    messages_.tell(call, call.places.totals, messages_.told().state_bytes());
}

void OperatorStates::gather_products(const OperatorCall& call, Pass pass) const {
    if (messages_.place() > 0 && counts(pass)) reduce_steps(call, *product_, call.b.gate, nullptr, nullptr);
    messages_.tell(call, call.places.products, messages_.told().product_bytes());
}

void OperatorStates::join_totals(const OperatorCall& call, const OperatorKernel& kernel, int32_t count,
                                 void* to) const {
    const OperatorTold& told = messages_.told();
    const char* const matrices =
        p_.is_affine() ? messages_.told_from(call.at(call.places.products), 1, count, told.product_bytes()) : nullptr;
    reduce(call, kernel, messages_.told_by_tellers(call, call.places.totals, 1, count, call.places.totals_joined),
           matrices, messages_.told_by(call.at(call.places.totals), 0, told.state_bytes()), to);
}

const void* OperatorStates::find_carry(const OperatorCall& call) const {
    if (messages_.place() == 0) return call.b.state_in;
    void* const carry = call.at(call.places.carry);
    join_totals(call, *before_, messages_.place(), carry);
    return carry;
}

const void* OperatorStates::find_in_output(const OperatorCall& call) const {
    const OperatorTold& told = messages_.told();
    const int32_t place = messages_.place();
    char *const sent = call.at(call.places.sent), *const before = call.at(call.places.carry);
    launch_edge(call, sent, reinterpret_cast<uint8_t*>(sent + told.state_bytes()), true);
    messages_.tell(call, call.places.edges, told.edge_bytes());
    if (place == 0) return call.b.state_in;
    if (edges_.exclusive != 0) launch_edge(call, before, nullptr, false);
    RankEdgesParams edges = edges_;
    edges.edges = messages_.told_by(call.at(call.places.edges), place - 1, told.edge_bytes());
    edges.marks = edges.edges + told.state_bytes();
    edges.to = before;
    launch(kernels_.edges, number_threads_, call.stream, edges);
    return before;
}

// Copies the states at the first or the last own step.
void OperatorStates::launch_edge(const OperatorCall& call, void* to, uint8_t* marks, bool last_step) const {
    RankEdgeParams edge = edge_;
    edge.output = call.b.output;
    edge.state_in = messages_.place() == 0 ? call.b.state_in : nullptr;
    edge.edge = to;
    edge.marks = marks;
    edge.offsets.data = call.b.seq_offsets;
    edge.last_step = last_step ? 1 : 0;
    launch(kernels_.edge, number_threads_, call.stream, edge);
}

}  // namespace flashscan::cuda
