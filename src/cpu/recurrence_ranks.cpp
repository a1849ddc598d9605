// SPDX-License-Identifier: Apache-2.0
// Linear recurrences and gated layers, which are one inside, on one rank of several: what comes from the others becomes
// the states of an ordinary pass over its own steps. A row of states is a sequence, and of packed ones a rank may have
// no step. Nothing is written before all ranks have heard of each other.
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/rank_sums.h"
#include "cpu/gated.h"
#include "cpu/gated_call.h"
#include "cpu/linear.h"
#include "cpu/linear_call.h"
#include "cpu/linear_rank_pass.h"
#include "cpu/threads.h"
#include "reference/values.h"

namespace flashscan::cpu {
namespace {

// Bits of a note's flags: of backward whether a gradient is asked for that reads states, and whether they are given;
// whether STATE_IN is given.
constexpr uint32_t wants_states = 1, has_states = 2, has_state_in = 4;

struct LinearRanks {
    using Problem = LinearProblem;
    using Buffers = LinearBuffers;
    using Kernel = LinearKernel;
    static constexpr const char* reader = "GRAD|GATE";
    static RankProblem problem(const LinearProblem& p, Pass pass, const Options& options, Isa isa, int threads) {
        LinearPartition q = partition(p, pass, false, options.batch_invariant, threads);
        q.variant.wide = size_of(state_dtype(p.dtype)) / (is_complex(p.dtype) ? 2 : 1) == 8;
        q.variant.complex_data = is_complex(p.dtype);
        q.variant.complex_gate = is_complex(p.gate_dtype);
        LinearVariant common = q.variant;
        common.along_time = false;
        return {p.state_rows(),          p.channels, state_dtype(p.dtype), p.empty(), q, kernels_for(isa, q.variant),
                kernels_for(isa, common)};
    }
    static LinearCall call(const LinearProblem& p, const LinearPartition& q, const LinearBuffers& b, Pass pass, bool) {
        return linear_call(p, q, b, pass);
    }
    static const void* states(const LinearBuffers& b) { return b.output; }
    static Strides state_strides(const LinearProblem& p) { return p.output; }
    static bool reads_states(const LinearBuffers& b) { return b.grad_gate != nullptr; }
    static bool needs_start(const LinearProblem&) { return false; }
};

struct GatedRanks {
    using Problem = GatedProblem;
    using Buffers = GatedBuffers;
    using Kernel = GatedKernel;
    static constexpr const char* reader = "a gradient of the decay";
    static RankProblem problem(const GatedProblem& p, Pass pass, const Options& options, Isa isa, int threads) {
        LinearPartition q = gated_partition(p, pass, false, options, threads);
        q.variant.wide = size_of(state_dtype(p.dtype)) == 8;
        const LinearKernels kernels = gated_kernels_for(isa, q.variant);
        return {p.state_rows(), p.channels, state_dtype(p.dtype), p.empty(), q, kernels, kernels};
    }
    static GatedCall call(const GatedProblem& p, const LinearPartition& q, const GatedBuffers& b, Pass pass,
                          bool first) {
        GatedCall call = gated_call(p, q, b, pass);
        call.starts_with_one = first && call.starts_with_one;
        return call;
    }
    static const void* states(const GatedBuffers& b) { return b.states(); }
    static Strides state_strides(const GatedProblem& p) { return p.hides_state() ? p.reserve : p.output; }
    static bool reads_states(const GatedBuffers& b) {
        return b.grad_gate != nullptr || b.grad_second_gate != nullptr || b.grad_param != nullptr ||
               b.grad_bias != nullptr;
    }
    // Whether a rank has to know if its first step is the sequence's before it has heard of the others.
    static bool needs_start(const GatedProblem& p) { return p.parts.first_step; }
};

template <typename Family>
class Ranks final : public Family::Kernel {
    using Buffers = typename Family::Buffers;
    using Problem = typename Family::Problem;

  public:
    Ranks(const Problem& problem, const Options& options, std::unique_ptr<typename Family::Kernel> inner)
        : p_(problem),
          ranks_(options.communicator),
          inner_(std::move(inner)),
          forward_(make_plan(options, Pass::forward)),
          backward_(make_plan(options, Pass::backward)) {}

    std::string describe() const override {
        return fmt::format("{} of {} pieces of their steps",
                           ranks_.describe(inner_->describe(), forward_.message_bytes, backward_.message_bytes),
                           forward_.pieces);
    }
    size_t scratch_bytes(Pass pass) const override { return plan(pass).scratch_bytes; }

    void forward(const Buffers& buffers, void* stream) const override {
        const auto call = own_call(Pass::forward, buffers);
        RankPass pass = begin(Pass::forward, call, buffers, stream);
        set_note(pass, Pass::forward, buffers, state_flag(buffers));
        exchange(pass, Pass::forward);
        Buffers own = buffers;
        own.scratch = pass.inner_scratch();
        const char* carry = pass.find_carry();
        if (place() != 0) own.state_in = carry;
        inner_->forward(own, stream);
    }

    void backward(const Buffers& buffers, void* stream) const override {
        const auto call = own_call(Pass::backward, buffers);
        RankPass pass = begin(Pass::backward, call, buffers, stream);
        set_note(pass, Pass::backward, buffers,
                 state_flag(buffers) | (Family::reads_states(buffers) ? wants_states : 0) |
                     (Family::states(buffers) != nullptr || p_.empty() ? has_states : 0));
        fill_edge(buffers, pass.own_edge());
        exchange(pass, Pass::backward);
        Buffers own = buffers;
        own.scratch = pass.inner_scratch();
        const char* carry = pass.find_carry();
        if (place() != ranks_.size - 1) own.grad_state_out = carry;
        if (place() != 0) own.state_in = state_before(pass);
        inner_->backward(own, stream);
    }

    void withdraw(Pass pass, Code code, const char* sentence, void* stream) const override {
        send_failure(ranks_, pass, code, sentence, plan(pass).message_bytes, stream);
    }

  private:
    RankPlan make_plan(const Options& options, Pass pass) const {
        const int threads = thread_count(options.threads);
        return {Family::problem(p_, pass, options, choose_isa(), threads), options, pass, threads,
                inner_->scratch_bytes(pass)};
    }
    const RankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    // The rank's place in the order of the recurrence, whatever the pass.
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }

    auto own_call(Pass pass, const Buffers& buffers) const {
        return Family::call(p_, plan(pass).partition, buffers, pass, place() == 0);
    }
    RankPass begin(Pass pass, const LinearCall& call, const Buffers& buffers, void* stream) const {
        RankPass begun(plan(pass), ranks_, call, static_cast<char*>(buffers.scratch), stream);
        begun.summarise();
        return begun;
    }

    void set_note(RankPass& pass, Pass which, const Buffers& buffers, uint32_t flags) const {
        RankNote note = make_note(ranks_, which, Code::ok, "");
        note.steps = p_.time;
        note.flags = flags;
        if (ranks_.sums_gradients) note.sums = sums_asked_for(p_, buffers);
        pass.own_note() = note;
    }
    uint32_t state_flag(const Buffers& buffers) const { return buffers.state_in != nullptr ? has_state_in : 0; }

    // Every rank sees the same notes and throws the same Error.
    void exchange(RankPass& pass, Pass which) const {
        pass.exchange();
        check_given(ranks_, pass.notes(), plan(which).message_bytes, wants_states, has_states, "OUTPUT",
                    Family::reader);
        if (Family::needs_start(p_)) check_starts(pass);
    }
    // Throws where the first rank lacks steps that another has: whether a rank's first step is the sequence's follows
    // from its place.
    void check_starts(const RankPass& pass) const {
        const int32_t first = ranks_.place(0, p_.direction);
        if ((pass.note(first).flags & has_state_in) != 0) return;
        for (int64_t row = 0; row < p_.state_rows(); ++row)
            for (int32_t r = 0; r < ranks_.size; ++r)
                if (pass.has_steps(r, row) && !pass.has_steps(first, row))
                    fail(Code::unsupported,
                         "rank {} has neither steps{} nor STATE_IN, and rank {} has steps; with GATED_FLAG_FIRST_STEP "
                         "the "
                         "first rank to compute needs one",
                         first, p_.packed() ? fmt::format(" of sequence {}", row) : "", r);
    }

    // The states after the own steps, as backward reads states. The first rank's is STATE_IN where it has no steps.
    void fill_edge(const Buffers& buffers, char* edge) const {
        const void* states = Family::states(buffers);
        const auto row_bytes = static_cast<size_t>(p_.channels * size_of(state_dtype(p_.dtype)));
        const Strides s = Family::state_strides(p_);
        for (int64_t n = 0; n < p_.state_rows(); ++n) {
            const reference::Sequence row = reference::sequence_of(p_, buffers.seq_offsets, n);
            const auto start = static_cast<size_t>(row.state) * row_bytes;
            if (row.length() == 0) {
                if (place() == 0 && buffers.state_in != nullptr)
                    std::memcpy(edge + start, static_cast<const char*>(buffers.state_in) + start, row_bytes);
                continue;
            }
            const int64_t last = row.step(p_.direction, row.length() - 1);
            for (int64_t c = 0; states != nullptr && c < p_.channels; ++c)
                reference::convert(edge, state_dtype(p_.dtype), row.state * p_.channels + c, states, p_.dtype,
                                   row.b * s.batch + last * s.time + c * s.channels);
        }
    }
    // The states before the own steps.
    const char* state_before(RankPass& pass) const {
        char* before = pass.spare();
        const auto row_bytes = static_cast<size_t>(p_.channels * size_of(state_dtype(p_.dtype)));
        for (int64_t row = 0; row < p_.state_rows(); ++row) {
            int32_t k = place() - 1;
            while (k > 0 && !pass.has_steps(ranks_.place(k, p_.direction), row)) --k;
            const size_t start = static_cast<size_t>(row) * row_bytes;
            std::memcpy(before + start, pass.edge(ranks_.place(k, p_.direction)) + start, row_bytes);
        }
        return before;
    }

    Problem p_;
    Communicator ranks_;
    std::unique_ptr<typename Family::Kernel> inner_;
    RankPlan forward_, backward_;
};

}  // namespace

std::unique_ptr<LinearKernel> make_linear_ranks(const LinearProblem& problem, const Options& options,
                                                std::unique_ptr<LinearKernel> inner) {
    return std::make_unique<Ranks<LinearRanks>>(problem, options, std::move(inner));
}

std::unique_ptr<GatedKernel> make_gated_ranks(const GatedProblem& problem, const Options& options,
                                              std::unique_ptr<GatedKernel> inner) {
    return std::make_unique<Ranks<GatedRanks>>(problem, options, std::move(inner));
}

}  // namespace flashscan::cpu
