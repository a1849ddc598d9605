// SPDX-License-Identifier: Apache-2.0
// The passes of a selective scan on one rank of several. Gathered, the ranks' steps are summarised, an all-gather
// shares the summaries, and the kernel of one GPU runs from the state, and backward from the gradient, that follows
// from them. Forward goes in a wavefront too (wave.h). Backward does not: its pass begins with a walk for the states
// and takes four times as long as the two walks of its summary; a wavefront would spare one of these and wait for its
// first group.
#include <algorithm>
#include <utility>

#include "cuda/launch/rank_threads.h"
#include "cuda/ranks/ranks.h"
#include "cuda/ranks/selective_params.h"
#include "cuda/ranks/wave.h"

namespace flashscan::cuda {
namespace {

struct SelectiveFamily {
    using Problem = SelectiveProblem;
    using Buffers = SelectiveBuffers;
    using Kernel = SelectiveKernel;
    static constexpr bool gathers = true;
    static int64_t state_bytes(const SelectiveProblem& p) { return p.states * size_of(p.matrix_dtype); }
};

class SelectiveRanks final : public SelectiveKernel {
  public:
    SelectiveRanks(const SelectiveProblem& problem, const Options& options, std::unique_ptr<SummarisedSelective> inner,
                   MakeSelective make)
        : p_(problem),
          device_(options.device),
          batch_invariant_(options.batch_invariant),
          ranks_(options.communicator),
          inner_(std::move(inner)),
          wavefront_(problem, options, make),
          enter_kernel_(enter_selective_kernel(p_.matrix_dtype)),
          enter_shape_(threads_in_blocks(numbers(), rank_threads)) {
        lay_out();
    }

    void meet() override {
        if (!alone()) wavefront_.meet();
    }
    void settle(std::span<const int64_t> steps) override {
        if (alone()) return;
        constexpr Pass forward[] = {Pass::forward};
        const int64_t most = most_steps(steps);
        wavefront_.settle(forward, [&](Pass) { return work(most); });
        lay_out();
    }

    std::string describe() const override {
        std::string text = fmt::format("{}; rank {} of {}", inner_->describe(), ranks_.rank, ranks_.size);
        if (alone()) return text;
        const auto bytes = [](const RankPlan& of) { return fmt::format("from {} bytes of each", of.message_bytes); };
        text += "; carries " + wavefront_.describe(Pass::forward, bytes(forward_));
        return text +
               fmt::format("; backward gathered {}, whose pass takes far more than what they sum up", bytes(backward_));
    }
    size_t scratch_bytes(Pass pass) const override { return alone() ? inner_->scratch_bytes(pass) : plan(pass).bytes; }

    void forward(const SelectiveBuffers& x, void* stream) const override {
        if (alone()) return inner_->forward(x, stream);
        const DeviceScope scope(device_);
        if (is_wavefront()) return wavefront_.run(Pass::forward, x, nullptr, false, stream);
        exchange(Pass::forward, x, stream);
        inner_->forward(entered(Pass::forward, x, stream), stream);
    }

    void backward(const SelectiveBuffers& x, void* stream) const override {
        if (alone()) return inner_->backward(x, stream);
        const DeviceScope scope(device_);
        exchange(Pass::backward, x, stream);
        SelectiveBuffers own = entered(Pass::backward, x, stream);
        if (backward_.enter_gradient.count > 0)
            own.grad_state_out =
                enter(backward_, x, backward_.enter_gradient, backward_.local, backward_.gradient, stream);
        inner_->backward(own, stream);
    }

  private:
    // A plan settles these for each pass: places in a message and in scratch, and the launches of enter_selective
    // without a call's pointers.
    struct RankPlan {
        size_t final = 0, deltas = 0, local = 0, message_bytes = 0;
        size_t sent = 0, received = 0, carry = 0, gradient = 0, inner = 0, bytes = 0;
        RankSelectiveParams enter_state, enter_gradient;
    };
    // On an H100 a walk was bound by instructions, and took the time of half the bytes of all states of all steps.
    // Where there are not twice as many blocks as multiprocessors, rows are cut into segments, which are walked before.
    RankWork work(int64_t steps) const {
        constexpr int64_t block_numbers = 512, least_blocks = 2 * filled_multiprocessors, least_segmented = 16;
        const auto row_steps =
            static_cast<double>(p_.packed() ? p_.channels : p_.state_rows() * p_.channels) * static_cast<double>(steps);
        const double numbers_of_row = static_cast<double>(p_.states * size_of(p_.matrix_dtype)) / 2;
        const double walk = row_steps * std::max(numbers_of_row, 4.0 * static_cast<double>(size_of(p_.dtype)));
        const bool segmented = !p_.packed() && !batch_invariant_ && numbers() < least_blocks * block_numbers;
        RankWork w;
        w.ranks = ranks_.size;
        w.summary_us = 0.8 * stream_us(walk);
        w.pass_us = (segmented ? 1.8 : 1) * stream_us(walk);
        w.message_bytes = static_cast<double>(forward_.message_bytes);
        w.state_bytes = static_cast<double>(p_.state_bytes());
        w.rows = numbers();
        w.least_rows = (segmented ? least_segmented : least_blocks) * block_numbers;
        w.most_groups = most_groups(p_, Pass::forward);
        return w;
    }
    bool is_wavefront() const { return wavefront_.is_wavefront(Pass::forward); }

    void lay_out() {
        if (alone()) return;
        forward_ = lay_out(Pass::forward);
        backward_ = lay_out(Pass::backward);
    }
    RankPlan lay_out(Pass pass) {
        RankPlan to;
        Workspace message, scratch;
        if (pass == Pass::forward && is_wavefront()) {
            wavefront_.book(pass, scratch);
            to.bytes = scratch.bytes();
            return to;
        }
        const Extent states = p_.state_bytes().named("SCRATCH");
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
        to.enter_state = settle_enter(to, false);
        if (pass == Pass::backward) to.enter_gradient = settle_enter(to, true);
        return to;
    }
    // With `adjoint` for the gradients of states, in the order in which gradients pass the ranks.
    RankSelectiveParams settle_enter(const RankPlan& of, bool adjoint) const {
        const bool up = (p_.direction == Direction::forward) != adjoint;
        RankSelectiveParams e;
        e.message_step = static_cast<int64_t>(of.message_bytes);
        e.numbers = numbers();
        e.row_numbers = p_.channels * p_.states;
        e.first = up ? 0 : ranks_.size - 1;
        e.count = adjoint ? ranks_.size - 1 - place() : place();
        e.step = up ? 1 : -1;
        e.states = static_cast<int32_t>(p_.states);
        e.adjoint = adjoint ? 1 : 0;
        return e;
    }
    const RankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    int64_t numbers() const { return p_.state_rows() * p_.channels * p_.states; }
    // Returns whether nothing comes from another rank.
    bool alone() const { return ranks_.size == 1 || numbers() == 0; }
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }

    // All-gathers the summaries of the ranks' steps. What no rank needs, the last rank's states and the first rank's
    // gradients, is NaN.
    void exchange(Pass pass, const SelectiveBuffers& x, void* stream) const {
        const RankPlan& of = plan(pass);
        char *const base = static_cast<char*>(x.scratch), *const sent = base + of.sent;
        const bool backward = pass == Pass::backward, last = place() == ranks_.size - 1;
        fill(sent, 0xff, of.message_bytes, stream);
        if (backward || !last) {
            SelectiveBuffers own = x;
            own.scratch = base + of.inner;
            own.state_out = last ? nullptr : sent + of.final;
            own.grad_state_in = backward && place() > 0 ? sent + of.local : nullptr;
            inner_->summarise(pass, own, sent + of.deltas, stream);
        }
        gather(ranks_, sent, base + of.received, of.message_bytes, stream);
    }
    // Returns the arguments of the own pass, with the state that enters it.
    SelectiveBuffers entered(Pass pass, const SelectiveBuffers& x, void* stream) const {
        const RankPlan& of = plan(pass);
        SelectiveBuffers own = x;
        own.scratch = static_cast<char*>(x.scratch) + of.inner;
        if (of.enter_state.count > 0) own.state_in = enter(of, x, of.enter_state, of.final, of.carry, stream);
        return own;
    }
    // Stores the state that enters this rank, or its gradient, at the place `to` in scratch, and returns where that is.
    // Messages have those of the ranks' own steps at the place `ends`.
    const void* enter(const RankPlan& of, const SelectiveBuffers& x, RankSelectiveParams e, size_t ends, size_t to,
                      void* stream) const {
        char *const base = static_cast<char*>(x.scratch), *const received = base + of.received;
        e.ends = received + ends;
        e.deltas = received + of.deltas;
        e.a = x.a;
        e.carry = base + to;
        launch(enter_kernel_, enter_shape_, stream, e);
        return e.carry;
    }

    SelectiveProblem p_;
    int device_;
    bool batch_invariant_;
    Communicator ranks_;
    std::unique_ptr<SummarisedSelective> inner_;
    Wavefront<SelectiveFamily> wavefront_;
    const void* enter_kernel_;
    LaunchShape enter_shape_;
    RankPlan forward_, backward_;
};

}  // namespace

std::unique_ptr<SelectiveKernel> make_selective_ranks(const SelectiveProblem& problem, const Options& options,
                                                      std::unique_ptr<SummarisedSelective> inner, MakeSelective make) {
    return std::make_unique<SelectiveRanks>(problem, options, std::move(inner), make);
}

}  // namespace flashscan::cuda
