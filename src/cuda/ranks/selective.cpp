// SPDX-License-Identifier: Apache-2.0
// Composes the pass of a rank of selective scans: its steps are summed up, all ranks gather the sums, and the kernel of
// one GPU runs from the state, and backward to the gradient, that comes from the others.
#include <algorithm>
#include <utility>

#include "core/workspace.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/rank_link.h"
#include "cuda/ranks/ranks.h"
#include "cuda/ranks/selective_params.h"

namespace flashscan::cuda {
namespace {

constexpr int enter_threads = 256;

class SelectiveRanks final : public SelectiveKernel {
  public:
    SelectiveRanks(const SelectiveProblem& problem, const Options& options, std::unique_ptr<SummarisedSelective> inner)
        : p_(problem),
          device_(options.device),
          ranks_(options.communicator),
          inner_(std::move(inner)),
          forward_(lay_out(Pass::forward)),
          backward_(lay_out(Pass::backward)) {}

    std::string describe() const override {
        return alone() ? fmt::format("{}; rank {} of {}", inner_->describe(), ranks_.rank, ranks_.size)
                       : ranks_.describe(inner_->describe(), forward_.message_bytes, backward_.message_bytes);
    }
    size_t scratch_bytes(Pass pass) const override { return alone() ? inner_->scratch_bytes(pass) : plan(pass).bytes; }

    void forward(const SelectiveBuffers& x, void* stream) const override {
        if (alone()) return inner_->forward(x, stream);
        const DeviceScope scope(device_);
        exchange(Pass::forward, x, stream);
        inner_->forward(entered(Pass::forward, x, stream), stream);
    }

    void backward(const SelectiveBuffers& x, void* stream) const override {
        if (alone()) return inner_->backward(x, stream);
        const DeviceScope scope(device_);
        exchange(Pass::backward, x, stream);
        SelectiveBuffers own = entered(Pass::backward, x, stream);
        if (const int32_t after = ranks_.size - 1 - place(); after > 0) {
            void* const gradient = static_cast<char*>(x.scratch) + backward_.gradient;
            enter(Pass::backward, x, true, after, gradient, stream);
            own.grad_state_out = gradient;
        }
        inner_->backward(own, stream);
    }

  private:
    // Settled by a plan, for a pass: places in a message, and in scratch.
    struct RankPlan {
        size_t final = 0, deltas = 0, local = 0, message_bytes = 0;
        size_t sent = 0, received = 0, carry = 0, gradient = 0, inner = 0, bytes = 0;
    };
    RankPlan lay_out(Pass pass) const {
        RankPlan to;
        const Extent states = p_.state_bytes().named("SCRATCH");
        Workspace message, scratch;
        to.final = message.book(states);
        to.deltas = message.book(p_.state_rows().named("SCRATCH") * p_.channels * size_of(p_.param_dtype()));
        to.local = message.book(pass == Pass::backward ? states : Extent());
        to.message_bytes = message.bytes();
        to.sent = scratch.book(Extent(to.message_bytes, "SCRATCH"));
        to.received = scratch.book(Extent(to.message_bytes, "SCRATCH") * ranks_.size);
        to.carry = scratch.book(states);
        to.gradient = scratch.book(pass == Pass::backward ? states : Extent());
        to.inner = scratch.book(Extent(std::max(inner_->scratch_bytes(pass), inner_->summary_bytes(pass)), "SCRATCH"));
        to.bytes = scratch.bytes();
        return to;
    }
    const RankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    int64_t numbers() const { return p_.state_rows() * p_.channels * p_.states; }
    // Nothing comes from another rank.
    bool alone() const { return ranks_.size == 1 || numbers() == 0; }
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }

    // Tells all ranks what the own steps do to states. No rank needs to know that of the last one, or of the first one's
    // gradients.
    void exchange(Pass pass, const SelectiveBuffers& x, void* stream) const {
        const RankPlan& of = plan(pass);
        char *const base = static_cast<char*>(x.scratch), *const sent = base + of.sent;
        const bool last = place() == ranks_.size - 1;
        if (pass == Pass::backward || !last) {
            SelectiveBuffers own = x;
            own.scratch = base + of.inner;
            own.state_out = last ? nullptr : sent + of.final;
            own.grad_state_in = place() == 0 ? nullptr : sent + of.local;
            inner_->summarise(pass, own, sent + of.deltas, stream);
        }
        gather(ranks_, sent, base + of.received, of.message_bytes, stream);
    }
    // The arguments of the own pass, with the state that enters it.
    SelectiveBuffers entered(Pass pass, const SelectiveBuffers& x, void* stream) const {
        const RankPlan& of = plan(pass);
        SelectiveBuffers own = x;
        own.scratch = static_cast<char*>(x.scratch) + of.inner;
        if (place() > 0) {
            void* const carry = static_cast<char*>(x.scratch) + of.carry;
            enter(pass, x, false, place(), carry, stream);
            own.state_in = carry;
        }
        return own;
    }
    // Goes through the first `count` ranks in the order of the states, or of their gradients.
    void enter(Pass pass, const SelectiveBuffers& x, bool adjoint, int32_t count, void* carry, void* stream) const {
        const RankPlan& of = plan(pass);
        const char* const received = static_cast<const char*>(x.scratch) + of.received;
        const bool up = (p_.direction == Direction::forward) != adjoint;
        RankSelectiveParams e;
        e.ends = received + (adjoint ? of.local : of.final);
        e.deltas = received + of.deltas;
        e.message_step = static_cast<int64_t>(of.message_bytes);
        e.a = x.a;
        e.carry = carry;
        e.numbers = numbers();
        e.row_numbers = p_.channels * p_.states;
        e.first = up ? 0 : ranks_.size - 1;
        e.count = count;
        e.step = up ? 1 : -1;
        e.states = static_cast<int32_t>(p_.states);
        e.adjoint = adjoint ? 1 : 0;
        launch(enter_selective_kernel(p_.matrix_dtype), threads_in_blocks(e.numbers, enter_threads), stream, e);
    }

    SelectiveProblem p_;
    int device_;
    Communicator ranks_;
    std::unique_ptr<SummarisedSelective> inner_;
    RankPlan forward_, backward_;
};

}  // namespace

std::unique_ptr<SelectiveKernel> make_selective_ranks(const SelectiveProblem& problem, const Options& options,
                                                      std::unique_ptr<SummarisedSelective> inner) {
    return std::make_unique<SelectiveRanks>(problem, options, std::move(inner));
}

}  // namespace flashscan::cuda
