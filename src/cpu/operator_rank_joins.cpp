// SPDX-License-Identifier: Apache-2.0
#include "cpu/operator_rank_joins.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/workspace.h"
#include "cpu/gradient_sum.h"
#include "reference/values.h"

namespace flashscan::cpu {
namespace {

// The problem that combines two elements of each chain or, of affine maps, applies one map to a state.
OperatorProblem pair_of(const OperatorProblem& p) {
    OperatorProblem pair;
    pair.kind = p.kind;
    pair.dtype = p.is_custom() ? p.dtype : state_dtype(p.dtype);
    pair.mode = OperatorMode::reduction;
    pair.batch = 1;
    pair.time = p.is_affine() ? 1 : 2;
    pair.channels = p.chains();
    pair.dim = p.dim;
    pair.has_custom = p.has_custom;
    pair.custom = p.custom;
    validate(pair);
    return pair;
}

std::unique_ptr<OperatorKernel> made(const OperatorProblem& p, const Options& options, OperatorMaker make) {
    std::string refusal;
    std::unique_ptr<OperatorKernel> kernel = make(p, options, refusal);
    if (!kernel && p.is_matmul()) kernel = make_operator_matrices(p, options, refusal);
    if (!kernel) fail(Code::internal_error, "no kernel for ranks: {}", refusal);
    return kernel;
}

}  // namespace

OperatorJoins::OperatorJoins(const OperatorProblem& problem, const Options& options, OperatorMaker make)
    : p_(problem),
      state_(p_.is_custom() ? Dtype{} : state_dtype(p_.dtype)),
      rows_(p_.state_rows()),
      numbers_(p_.chains() * p_.element()),
      states_(static_cast<size_t>(Extent(numbers_) * p_.state_number_bytes())),
      products_(p_.is_affine() ? static_cast<size_t>(p_.chains() * p_.gate_element() * p_.state_number_bytes()) : 0) {
    // No kernel is called without numbers.
    if (states_ > 0) {
        if (p_.time > 0) total_ = made(total_of(p_), options, make);
        if (p_.time > 0 && p_.is_affine()) product_ = made(matrices_of(p_), options, make);
        pair_ = made(pair_of(p_), options, make);
    }
    at_ = layout();
}

OperatorJoins::Scratch OperatorJoins::layout() const {
    Workspace workspace;
    Scratch s{};
    const Extent states(states_, "SCRATCH");
    s.output = workspace.book(max(states, Extent(products_)));
    s.pair = workspace.book(states * 2);
    const bool pulls_back = p_.is_custom() && p_.differentiable();
    s.pair_gradients = workspace.book(pulls_back ? states * 2 : Extent());
    s.transposed = workspace.book(Extent(p_.is_custom() ? 0 : std::max(products_, states_)));
    s.ones = workspace.book(states);
    size_t work = 0;
    for (const auto* kernel : {&total_, &product_, &pair_})
        if (*kernel) work = std::max(work, (*kernel)->scratch_bytes(Pass::forward));
    if (total_ && p_.on_numbers() && p_.has_slopes()) work = std::max(work, total_->scratch_bytes(Pass::backward));
    if (pair_ && pulls_back) work = std::max(work, pair_->scratch_bytes(Pass::backward));
    s.work = workspace.book(Extent(work));
    s.bytes = workspace.bytes();
    return s;
}

void OperatorJoins::run(const OperatorKernel& kernel, OperatorBuffers own, void* state_out, char* scratch) const {
    own.output = scratch + at_.output;
    own.state_out = state_out;
    own.scratch = scratch + at_.work;
    kernel.forward(own, nullptr);
}

void OperatorJoins::total(const OperatorBuffers& b, const void* state_in, void* total, char* scratch) const {
    OperatorBuffers own;
    own.input = b.input;
    own.gate = b.gate;
    own.seq_offsets = b.seq_offsets;
    own.state_in = state_in;
    run(*total_, own, total, scratch);
}

void OperatorJoins::product(const OperatorBuffers& b, void* product, char* scratch) const {
    OperatorBuffers own;
    own.input = b.gate;
    own.seq_offsets = b.seq_offsets;
    run(*product_, own, product, scratch);
}

const void* OperatorJoins::put_pair(const char* left, const char* right, char* scratch) const {
    char* pair = scratch + at_.pair;
    std::memcpy(pair, left, states_);
    std::memcpy(pair + states_, right, states_);
    return pair;
}

void OperatorJoins::combine(const char* left, const char* right, char* out, char* scratch) const {
    OperatorBuffers own;
    own.input = put_pair(left, right, scratch);
    run(*pair_, own, out, scratch);
}

void OperatorJoins::apply(const char* matrix, const char* added, const char* state, char* out, char* scratch) const {
    OperatorBuffers own;
    own.input = added;
    own.gate = matrix;
    own.state_in = state;
    run(*pair_, own, out, scratch);
}

void OperatorJoins::join(const char* state, const char* total, const char* product, char* next, char* scratch) const {
    if (p_.is_affine())
        apply(product, total, state, next, scratch);
    else
        combine(state, total, next, scratch);
}

void OperatorJoins::slope(const OperatorBuffers& b, char* slope, char* scratch) const {
    char* ones = scratch + at_.ones;
    const bool slopes = p_.has_slopes();
    for (int64_t i = 0; i < numbers_; ++i) reference::store(slopes ? ones : slope, slopes ? p_.dtype : state_, i, 1);
    if (!slopes) return;
    OperatorBuffers own;
    own.input = b.input;
    own.seq_offsets = b.seq_offsets;
    own.state_in = b.state_in;
    own.grad_output = ones;
    own.grad_state_in = slope;
    own.scratch = scratch + at_.work;
    total_->backward(own, nullptr);
}

// Stores the conjugate transpose of each chain's matrix.
void OperatorJoins::transpose(const char* from, char* to) const {
    const int64_t d = p_.dim;
    for (int64_t chain = 0; chain < p_.chains(); ++chain)
        for (int64_t i = 0; i < d; ++i)
            for (int64_t j = 0; j < d; ++j)
                reference::store(to, state_, (chain * d + i) * d + j,
                                 std::conj(reference::load(from, state_, (chain * d + j) * d + i)));
}

void OperatorJoins::join_gradient(const char* gradient, const char* slope, const char* local, char* next,
                                  char* scratch) const {
    char* transposed = scratch + at_.transposed;
    if (!p_.on_numbers()) transpose(slope, transposed);
    if (p_.is_affine()) return apply(transposed, local, gradient, next, scratch);
    if (p_.is_matmul()) combine(gradient, transposed, next, scratch);
    for (int64_t i = 0; i < numbers_; ++i) {
        const reference::Wide through = p_.is_matmul()
                                            ? reference::load(next, state_, i)
                                            : reference::load(slope, state_, i) * reference::load(gradient, state_, i);
        reference::store(next, state_, i, reference::load(local, state_, i) + through);
    }
}

void OperatorJoins::pull_back(const char* state, const char* total, const char* gradient, const char* local, char* next,
                              char* scratch) const {
    char* gradients = scratch + at_.pair_gradients;
    OperatorBuffers own;
    own.input = put_pair(state, total, scratch);
    own.grad_output = gradient;
    own.grad_input = gradients;
    own.scratch = scratch + at_.work;
    pair_->backward(own, nullptr);
    std::memcpy(next, gradients, states_);
    add_gradient(p_.dtype, local, states_, next);
}

void OperatorJoins::set_identity(char* states, int64_t row) const {
    const int64_t element = p_.element(), count = p_.channels * element;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t at = row * count + i;
        if (p_.on_numbers())
            reference::store_identity(states, state_, at, p_.kind);
        else
            reference::store(states, state_, at, p_.is_matmul() && i % element % (p_.dim + 1) == 0 ? 1 : 0);
    }
}

bool OperatorJoins::is_finite(const char* states, int64_t row) const {
    const int64_t count = p_.channels * p_.element();
    for (int64_t i = row * count; i < (row + 1) * count; ++i) {
        const reference::Wide value = reference::load(states, state_, i);
        if (!std::isfinite(value.real()) || !std::isfinite(value.imag())) return false;
    }
    return true;
}

void OperatorJoins::load_output(const void* output, char* states) const {
    if (p_.is_custom() && states_ > 0)  // of no rows, GRAD|OUTPUT may be null
        std::memcpy(states, output, states_);
    else if (!p_.is_custom())
        for (int64_t i = 0; i < numbers_; ++i) reference::convert(states, state_, i, output, p_.dtype, i);
}

void OperatorJoins::store_output(const char* states, void* output) const {
    if (p_.is_custom() && states_ > 0)  // of no rows, OUTPUT may be null
        std::memcpy(output, states, states_);
    else if (!p_.is_custom())
        for (int64_t i = 0; i < numbers_; ++i) reference::convert(output, p_.dtype, i, states, state_, i);
}

}  // namespace flashscan::cpu
