// SPDX-License-Identifier: Apache-2.0
// The linear recurrence on one rank of several: what comes from the others becomes the states of an ordinary pass over
// its own steps. Nothing is written before all ranks have heard of each other.
#include <cstring>
#include <utility>
#include <vector>

#include "core/error.h"
#include "cpu/linear.h"
#include "cpu/linear_rank_pass.h"
#include "cpu/threads.h"
#include "reference/values.h"

namespace flashscan::cpu {
namespace {

// Bits of a note's flags.
constexpr uint32_t wants_gate_gradient = 1, has_output = 2;

class LinearRanks final : public LinearKernel {
  public:
    LinearRanks(const LinearProblem& problem, const Options& options, std::unique_ptr<LinearKernel> inner)
        : p_(problem),
          ranks_(options.communicator),
          inner_(std::move(inner)),
          forward_(problem, options, Pass::forward, choose_isa(), thread_count(options.threads),
                   inner_->scratch_bytes(Pass::forward)),
          backward_(problem, options, Pass::backward, choose_isa(), thread_count(options.threads),
                    inner_->scratch_bytes(Pass::backward)) {}

    std::string describe() const override {
        return fmt::format(
            "{}; rank {} of {}, which tell each other {} bytes each forward and {} backward of {} pieces "
            "of their steps",
            inner_->describe(), ranks_.rank, ranks_.size, forward_.message_bytes, backward_.message_bytes,
            forward_.pieces);
    }
    size_t scratch_bytes(Pass pass) const override { return plan(pass).scratch_bytes; }

    void forward(const LinearBuffers& buffers, void* stream) const override {
        RankPass pass = begin(Pass::forward, buffers, stream);
        set_note(pass, Pass::forward, 0);
        pass.exchange();
        LinearBuffers own = buffers;
        own.scratch = pass.inner_scratch();
        const char* carry = pass.find_carry();
        if (place() != 0) own.state_in = carry;
        inner_->forward(own, stream);
    }

    void backward(const LinearBuffers& buffers, void* stream) const override {
        RankPass pass = begin(Pass::backward, buffers, stream);
        set_note(pass, Pass::backward,
                 (buffers.grad_gate != nullptr ? wants_gate_gradient : 0) |
                     (buffers.output != nullptr || p_.time == 0 ? has_output : 0));
        fill_edge(buffers, pass.own_edge());
        pass.exchange();
        check_flags(pass);
        LinearBuffers own = buffers;
        own.scratch = pass.inner_scratch();
        const char* carry = pass.find_carry();
        if (place() != ranks_.size - 1) own.grad_state_out = carry;
        if (place() != 0) own.state_in = state_before(pass);
        inner_->backward(own, stream);
    }

    void withdraw(Pass pass, Code code, const char* sentence, void* stream) const override {
        const size_t notes = plan(pass).message_bytes / sizeof(RankNote) + 1;
        std::vector<RankNote> sent(notes), received(notes * static_cast<size_t>(ranks_.size));
        sent[0] = make_note(ranks_, pass, code, sentence);
        // The call has its error already.
        ranks_.all_gather(ranks_.user, sent.data(), received.data(), plan(pass).message_bytes, stream);
    }

  private:
    const RankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    // In the order of the recurrence, whatever the pass.
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }

    RankPass begin(Pass pass, const LinearBuffers& buffers, void* stream) const {
        const LinearCall call = linear_call(p_, plan(pass).partition, buffers, pass);
        RankPass begun(plan(pass), ranks_, call, static_cast<char*>(buffers.scratch), stream);
        begun.summarise();
        return begun;
    }

    void set_note(RankPass& pass, Pass which, uint32_t flags) const {
        RankNote note = make_note(ranks_, which, Code::ok, "");
        note.steps = p_.time;
        note.flags = flags;
        pass.own_note() = note;
    }

    // Every rank sees the same notes and throws the same Error.
    void check_flags(const RankPass& pass) const {
        int32_t wants = -1, lacks = -1;
        for (int32_t r = 0; r < ranks_.size; ++r) {
            const uint32_t flags = pass.note(r).flags;
            if (wants < 0 && (flags & wants_gate_gradient) != 0) wants = r;
            if (lacks < 0 && (flags & has_output) == 0) lacks = r;
        }
        if (wants >= 0 && lacks >= 0)
            fail(Code::missing_argument, "OUTPUT is not given on rank {}; GRAD|GATE of rank {} needs it there", lacks,
                 wants);
    }

    // The state after the own steps, as OUTPUT has it. The first rank's is STATE_IN where it has no steps.
    void fill_edge(const LinearBuffers& buffers, char* edge) const {
        const size_t bytes = backward_.state_bytes();
        if (p_.time == 0) {
            if (place() == 0 && buffers.state_in != nullptr) std::memcpy(edge, buffers.state_in, bytes);
            return;
        }
        if (buffers.output == nullptr) return;
        const int64_t last = p_.direction == Direction::forward ? p_.time - 1 : Extent();
        for (int64_t b = 0; b < p_.batch; ++b)
            for (int64_t c = 0; c < p_.channels; ++c)
                reference::convert(edge, state_dtype(p_.dtype), b * p_.channels + c, buffers.output, p_.dtype,
                                   b * p_.output.batch + last * p_.output.time + c * p_.output.channels);
    }
    const char* state_before(const RankPass& pass) const {
        int32_t k = place() - 1;
        while (k > 0 && pass.note(ranks_.place(k, p_.direction)).steps == 0) --k;
        return pass.edge(ranks_.place(k, p_.direction));
    }

    LinearProblem p_;
    Communicator ranks_;
    std::unique_ptr<LinearKernel> inner_;
    RankPlan forward_, backward_;
};

}  // namespace

std::unique_ptr<LinearKernel> make_linear_ranks(const LinearProblem& problem, const Options& options,
                                                std::unique_ptr<LinearKernel> inner) {
    return std::make_unique<LinearRanks>(problem, options, std::move(inner));
}

}  // namespace flashscan::cpu
