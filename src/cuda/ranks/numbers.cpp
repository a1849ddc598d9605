// SPDX-License-Identifier: Apache-2.0
// Composes the passes of a rank of operators on numbers of small problems of the same operators, each run by a kernel of
// one GPU. What the ranks tell lies in memory as a sequence that has their elements for steps and all chains for channels.
//
//     forward   y' = y o total          the totals of all ranks are gathered, and those before this one reduced
//     backward  g = slope g' + local    slopes and local gradients of all ranks are gathered; those behind this one are a
//                                       linear recurrence, of sums, whose slopes are 1, a reduction of sums
//
// Slopes are those of the totals at the states that enter, so that backward finds these again. A reduction's result is the
// reduction of all totals, and its gradient is the sum of those that ranks give. Ranks without steps tell the identity.
#include <algorithm>
#include <utility>

#include "core/workspace.h"
#include "cuda/launch/launch_count.h"
#include "cuda/launch/rank_link.h"
#include "cuda/ranks/ranks.h"
#include "cuda/ranks/slices.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

// Reduces what a range of ranks tell.
OperatorProblem reduction_of_ranks(const OperatorProblem& p, OperatorKind kind, Dtype dtype, int64_t ranks) {
    OperatorProblem over;
    over.kind = kind;
    over.dtype = dtype;
    over.mode = OperatorMode::reduction;
    over.direction = p.direction;
    over.batch = 1;
    over.time = ranks;
    over.channels = p.chains();
    validate(over);
    return over;
}

LinearProblem gradients_of_ranks(const OperatorProblem& p, int64_t ranks) {
    LinearProblem over;
    over.dtype = over.gate_dtype = state_dtype(p.dtype);
    over.layout = Layout::btc;
    over.gate_form = GateForm::value;
    over.direction = p.direction == Direction::forward ? Direction::reverse : Direction::forward;
    over.batch = 1;
    over.time = ranks;
    over.channels = p.chains();
    validate(over);
    return over;
}

class NumbersRanks final : public OperatorKernel {
  public:
    NumbersRanks(const OperatorProblem& problem, const Options& options, std::unique_ptr<OperatorKernel> inner,
                 MakeOperator make, MakeLinear make_linear)
        : p_(problem), device_(options.device), ranks_(options.communicator), inner_(std::move(inner)) {
        if (alone()) return;
        Options own = options;
        own.communicator = {};
        own.kernel.clear();
        const auto over_ranks = [&](OperatorKind kind, Dtype dtype, int64_t ranks) {
            return make(reduction_of_ranks(p_, kind, dtype, ranks), own);
        };
        OperatorProblem steps = p_;
        steps.mode = OperatorMode::reduction;
        total_ = make(steps, own);
        if (place() > 0) before_ = over_ranks(p_.kind, state(), place());
        if (p_.is_reduction()) {
            all_ = over_ranks(p_.kind, state(), ranks_.size);
            store_ = over_ranks(p_.kind, p_.dtype, 0);
        }
        if (p_.differentiable()) {
            if (p_.is_reduction() && is_last()) gradients_ = over_ranks(OperatorKind::add, p_.dtype, ranks_.size);
            if (has_slopes()) ones_ = over_ranks(OperatorKind::mul, state(), 0);
            if (has_slopes() && after() > 0) behind_ = make_linear(gradients_of_ranks(p_, after()), own);
            if (!has_slopes() && after() > 0) sums_behind_ = over_ranks(OperatorKind::add, state(), after());
        }
        forward_ = lay_out(Pass::forward);
        if (p_.differentiable()) backward_ = lay_out(Pass::backward);
    }

    std::string describe() const override {
        return alone() ? fmt::format("{}; rank {} of {}", inner_->describe(), ranks_.rank, ranks_.size)
                       : ranks_.describe(inner_->describe(), forward_.told_bytes, backward_.told_bytes);
    }
    size_t scratch_bytes(Pass pass) const override { return alone() ? inner_->scratch_bytes(pass) : plan(pass).bytes; }

    void forward(const OperatorBuffers& b, void* stream) const override {
        if (alone()) return inner_->forward(b, stream);
        const DeviceScope scope(device_);
        gather_totals(forward_, b, stream);
        OperatorBuffers own = b;
        own.scratch = at(b, forward_.inner);
        if (!p_.is_reduction()) {
            own.state_in = find_carry(forward_, b, stream);
            return inner_->forward(own, stream);
        }
        void* const result = at(b, forward_.carry);
        reduce(*all_, forward_, b, at(b, forward_.totals), nullptr, result, stream);
        own = {};
        own.state_in = result;
        own.output = b.output;
        own.state_out = b.state_out;
        own.scratch = at(b, forward_.inner);
        store_->forward(own, stream);
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        if (alone()) return inner_->backward(b, stream);
        const DeviceScope scope(device_);
        const RankPlan& of = backward_;
        OperatorBuffers own = b;
        own.scratch = at(b, of.inner);
        if (has_slopes()) {
            gather_totals(of, b, stream);
            own.state_in = find_carry(of, b, stream);
        }
        if (p_.is_reduction()) {
            own.grad_output = nullptr;
            own.grad_state_out = gradient_of_all(b, stream);
        }
        gather_gradients(own, b, stream);
        if (after() > 0) own.grad_state_out = find_gradient(b, stream);
        inner_->backward(own, stream);
    }

  private:
    // Settled by a plan, for a pass: places in scratch, and the bytes that a rank tells in all.
    struct RankPlan {
        size_t sent = 0, totals = 0, slopes = 0, locals = 0, outputs = 0, carry = 0, gradient = 0, ones = 0;
        size_t unused = 0, inner = 0, bytes = 0, told_bytes = 0;
    };
    RankPlan lay_out(Pass pass) const {
        const bool backward = pass == Pass::backward, reduces = p_.is_reduction();
        RankPlan to;
        Workspace scratch;
        const Extent states = p_.chains().named("SCRATCH") * p_.state_number_bytes(), all = states * ranks_.size, none;
        const bool totals = !backward || has_slopes(), slopes = backward && has_slopes();
        const Extent outputs = backward && reduces ? p_.chains() * p_.number_bytes() : none;
        to.sent = scratch.book(states);
        to.totals = scratch.book(totals ? all : none);
        to.slopes = scratch.book(slopes ? all : none);
        to.locals = scratch.book(backward ? all : none);
        to.outputs = scratch.book(outputs * ranks_.size);
        to.carry = scratch.book(states);
        to.gradient = scratch.book(backward ? states : none);
        to.ones = scratch.book(slopes ? states : none);
        to.unused = scratch.book(all);
        size_t inner = inner_->scratch_bytes(pass);
        for (const auto* kernel : {&total_, &before_, &all_, &store_, &gradients_, &ones_, &sums_behind_})
            if (*kernel) inner = std::max(inner, (*kernel)->scratch_bytes(Pass::forward));
        if (slopes) inner = std::max(inner, total_->scratch_bytes(Pass::backward));
        if (slopes && behind_) inner = std::max(inner, behind_->scratch_bytes(Pass::forward));
        to.inner = scratch.book(Extent(inner, "SCRATCH"));
        to.bytes = scratch.bytes();
        to.told_bytes = static_cast<size_t>(states * (totals + slopes + backward) + outputs);
        return to;
    }
    const RankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    Dtype state() const { return state_dtype(p_.dtype); }
    bool has_slopes() const { return p_.has_slopes(); }
    // Nothing comes from another rank.
    bool alone() const { return ranks_.size == 1 || p_.chains() == 0; }
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }
    int32_t after() const { return ranks_.size - 1 - place(); }
    bool is_last() const { return after() == 0; }
    size_t state_bytes() const { return static_cast<size_t>(p_.chains() * p_.state_number_bytes()); }
    static char* at(const OperatorBuffers& b, size_t offset) { return static_cast<char*>(b.scratch) + offset; }
    // What the ranks before this one tell in the order of computation, or those behind it, which lie side by side.
    const char* neighbours(const char* all, bool behind) const {
        return all + ((p_.direction == Direction::forward) == behind ? ranks_.rank + 1 : 0) *
                         static_cast<int64_t>(state_bytes());
    }

    // STATE_OUT of a reduction without sequences.
    static void reduce(const OperatorKernel& kernel, const RankPlan& of, const OperatorBuffers& b, const void* input,
                       const void* state_in, void* state_out, void* stream) {
        OperatorBuffers own;
        own.input = input;
        own.output = at(b, of.unused);
        own.state_in = state_in;
        own.state_out = state_out;
        own.scratch = at(b, of.inner);
        kernel.forward(own, stream);
    }

    // No rank needs what the last one makes in a scan.
    void gather_totals(const RankPlan& of, const OperatorBuffers& b, void* stream) const {
        if (b.input == nullptr && !p_.empty())
            fail(Code::missing_argument, "INPUT is not given; gradients of other ranks need it");
        if (!is_last() || p_.is_reduction()) {
            OperatorBuffers own;
            own.input = b.input;
            own.seq_offsets = b.seq_offsets;
            own.state_in = place() == 0 ? b.state_in : nullptr;
            own.output = at(b, of.unused);
            own.state_out = at(b, of.sent);
            own.scratch = at(b, of.inner);
            total_->forward(own, stream);
        }
        gather(ranks_, at(b, of.sent), at(b, of.totals), state_bytes(), stream);
    }
    // The states that enter the own steps.
    const void* find_carry(const RankPlan& of, const OperatorBuffers& b, void* stream) const {
        if (place() == 0) return b.state_in;
        void* const carry = at(b, of.carry);
        reduce(*before_, of, b, neighbours(at(b, of.totals), false), nullptr, carry, stream);
        return carry;
    }

    // The gradient of a reduction's states after all steps, on the last rank.
    const void* gradient_of_all(const OperatorBuffers& b, void* stream) const {
        const RankPlan& of = backward_;
        const auto bytes = static_cast<size_t>(p_.chains() * p_.number_bytes());
        char* const sent = at(b, of.sent);
        if (!counts_launch())
            check(cudaMemcpyAsync(sent, b.grad_output, bytes, cudaMemcpyDeviceToDevice,
                                  static_cast<cudaStream_t>(stream)),
                  "copying the gradient of a reduction");
        gather(ranks_, sent, at(b, of.outputs), bytes, stream);
        if (!is_last()) return nullptr;
        void* const gradient = at(b, of.gradient);
        reduce(*gradients_, of, b, at(b, of.outputs), b.grad_state_out, gradient, stream);
        return gradient;
    }
    // Tells all ranks the gradient that the own steps leave for the states before them, and the slopes of the total.
    void gather_gradients(const OperatorBuffers& own, const OperatorBuffers& b, void* stream) const {
        const RankPlan& of = backward_;
        char* const sent = at(b, of.sent);
        if (place() > 0) {
            OperatorBuffers local = own;
            local.grad_input = nullptr;
            local.grad_state_in = sent;
            inner_->backward(local, stream);
        }
        gather(ranks_, sent, at(b, of.locals), state_bytes(), stream);
        if (!has_slopes()) return;
        if (place() > 0) {
            char* const ones = is_last() ? sent : at(b, of.ones);
            reduce(*ones_, of, b, nullptr, nullptr, ones, stream);
            // The last rank's multiply nothing.
            if (!is_last()) {
                OperatorBuffers slopes;
                slopes.input = b.input;
                slopes.seq_offsets = b.seq_offsets;
                slopes.state_in = own.state_in;
                slopes.grad_state_out = ones;
                slopes.grad_state_in = sent;
                slopes.scratch = own.scratch;
                total_->backward(slopes, stream);
            }
        }
        gather(ranks_, sent, at(b, of.slopes), state_bytes(), stream);
    }
    const void* find_gradient(const OperatorBuffers& b, void* stream) const {
        const RankPlan& of = backward_;
        void* const gradient = at(b, of.gradient);
        const char* const locals = neighbours(at(b, of.locals), true);
        if (!has_slopes()) {
            reduce(*sums_behind_, of, b, locals, nullptr, gradient, stream);
            return gradient;
        }
        LinearBuffers over;
        over.gate = neighbours(at(b, of.slopes), true);
        over.input = locals;
        over.output = at(b, of.unused);
        over.state_out = gradient;
        over.scratch = at(b, of.inner);
        behind_->forward(over, stream);
        return gradient;
    }

    OperatorProblem p_;
    int device_;
    Communicator ranks_;
    std::unique_ptr<OperatorKernel> inner_;
    // These reduce the own steps; the totals of the ranks before this one, and of all; the gradients of all; and the
    // local ones of the ranks behind, whose direction changes nothing in a sum. Without steps, `store_` stores a state as
    // OUTPUT, and `ones_` gives the identity of products.
    std::unique_ptr<OperatorKernel> total_, before_, all_, store_, gradients_, ones_, sums_behind_;
    std::unique_ptr<LinearKernel> behind_;
    RankPlan forward_, backward_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_numbers_ranks(const OperatorProblem& problem, const Options& options,
                                                   std::unique_ptr<OperatorKernel> inner, MakeOperator make,
                                                   MakeLinear make_linear) {
    return std::make_unique<NumbersRanks>(problem, options, std::move(inner), make, make_linear);
}

}  // namespace flashscan::cuda
