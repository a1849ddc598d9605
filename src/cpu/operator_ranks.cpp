// SPDX-License-Identifier: Apache-2.0
// Scans and reductions with an operator on one rank of several: what comes from the others becomes the states of an
// ordinary pass over its own steps. Nothing is written before all ranks have heard of each other. Of a reduction all
// ranks have the result, and its gradient is the sum of those that they give.
#include <cstring>
#include <utility>

#include "cpu/operator_rank_pass.h"

namespace flashscan::cpu {
namespace {

Options alone(Options options) {
    options.communicator = {};
    return options;
}

class OperatorRanks final : public OperatorKernel {
  public:
    OperatorRanks(const OperatorProblem& problem, const Options& options, std::unique_ptr<OperatorKernel> inner,
                  OperatorMaker make)
        : p_(problem),
          ranks_(options.communicator),
          inner_(std::move(inner)),
          joins_(p_, alone(options), make),
          forward_(p_, ranks_, joins_, inner_->scratch_bytes(Pass::forward), Pass::forward),
          backward_(p_, ranks_, joins_, p_.differentiable() ? inner_->scratch_bytes(Pass::backward) : 0,
                    Pass::backward) {}

    std::string describe() const override {
        return ranks_.describe(inner_->describe(), forward_.message_bytes, backward_.message_bytes);
    }
    size_t scratch_bytes(Pass pass) const override { return plan(pass).scratch_bytes; }

    void forward(const OperatorBuffers& b, void* stream) const override {
        OperatorRankPass pass(p_, ranks_, joins_, forward_, b, stream);
        pass.exchange();
        pass.attempt([&] { finish(pass, b, stream); });
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        OperatorRankPass pass(p_, ranks_, joins_, backward_, b, stream);
        pass.exchange();
        OperatorBuffers own = b;
        own.scratch = pass.inner_scratch();
        pass.attempt([&] {
            enter(pass, own);
            pass.make_local(own, *inner_);
        });
        pass.gather_locals();
        pass.attempt([&] {
            const char* gradient = pass.find_gradient(own, *inner_);
            if (place() != ranks_.size - 1) own.grad_state_out = gradient;
            inner_->backward(own, stream);
        });
    }

    void withdraw(Pass pass, Code code, const char* sentence, void* stream) const override {
        send_failure(ranks_, pass, code, sentence, plan(pass).message_bytes, stream);
    }

  private:
    const OperatorRankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }

    // Finds the states that enter the own steps, as backward needs them, and of a reduction the gradient of its result.
    void enter(OperatorRankPass& pass, OperatorBuffers& own) const {
        const char* carry = nullptr;
        const bool edges = OperatorRankPass::reads_edges(p_);
        if (!edges && (pass.wants_states() || !p_.is_affine())) carry = pass.find_carry();
        if (edges && place() != 0) carry = pass.states_before();
        if (place() != 0) own.state_in = carry;
        if (!p_.is_reduction()) return;
        own.grad_output = pass.zeros();
        own.grad_state_out = place() == ranks_.size - 1 ? pass.gradient_of_all() : nullptr;
        // No gradient that was asked for depends on them.
        if (p_.is_affine() && place() != 0 && carry == nullptr) own.state_in = pass.zeros();
    }

    void finish(OperatorRankPass& pass, const OperatorBuffers& b, void* stream) const {
        OperatorBuffers own = b;
        own.scratch = pass.inner_scratch();
        const char* carry = pass.find_carry();
        if (place() != 0) own.state_in = carry;
        const char* final = p_.is_reduction() ? pass.final_states() : nullptr;
        if (final == nullptr) return inner_->forward(own, stream);
        joins_.store_output(final, b.output);
        if (b.state_out != nullptr) std::memcpy(b.state_out, final, joins_.state_bytes());
    }

    OperatorProblem p_;
    Communicator ranks_;
    std::unique_ptr<OperatorKernel> inner_;
    OperatorJoins joins_;
    OperatorRankPlan forward_, backward_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_ranks(const OperatorProblem& problem, const Options& options,
                                                    std::unique_ptr<OperatorKernel> inner, OperatorMaker make) {
    return std::make_unique<OperatorRanks>(problem, options, std::move(inner), make);
}

}  // namespace flashscan::cpu
