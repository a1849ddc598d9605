// SPDX-License-Identifier: Apache-2.0
// Selective scans on one rank of several. The rank's own steps multiply a state by one exponential of a sum over time,
// and add what they make of zeros:
//
//     h' = factor h + final,   factor = exp(A sum of d),   and of its gradient   g = conj(factor) g' + local,
//
// Each rank sends the factor in 64 bits, `final` and, backward, `local` in an all-gather; the states that follow from
// those of the others enter an ordinary pass. A row of states is a sequence; a rank may have no step of a packed one.
// Every rank does the same arithmetic on the same numbers; where a state is not finite all know it, the rank whose
// steps would make it so walks them from the state that enters, and another all-gather gives the result to the others.
// No output is written before.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/rank_sums.h"
#include "core/workspace.h"
#include "cpu/selective.h"
#include "cpu/threads.h"
#include "reference/values.h"

namespace flashscan::cpu {
namespace {

using reference::Wide;

// What a message says about the rank's steps of a row.
enum Mark : char {
    no_steps = 0,
    has_steps = 1,
    has_reset = 2
};

Dtype factor_dtype(const SelectiveProblem& p) { return p.is_complex() ? Dtype::c128 : Dtype::f64; }

// What a plan settles for a pass: places in a message, behind its note, and in scratch.
struct SelectiveRankPlan {
    SelectiveRankPlan(const SelectiveProblem& p, const Communicator& ranks, size_t inner_bytes, Pass pass) {
        const Extent states = p.state_bytes().named("SCRATCH"), size = ranks.size;
        Workspace message, workspace;
        message.book(Extent(sizeof(RankNote)));
        marks = message.book(p.state_rows());
        factors = message.book(p.state_rows() * p.channels * p.states * size_of(factor_dtype(p)));
        final = message.book(states);
        local = message.book(pass == Pass::backward ? states : Extent());
        message_bytes = message.bytes();
        sent = workspace.book(Extent(message_bytes, "SCRATCH"));
        received = workspace.book(size * message_bytes);
        for (size_t* at : {&carry, &next, &state, &gradient}) *at = workspace.book(states);
        round = workspace.book(size * states);
        inner = workspace.book(Extent(inner_bytes));
        scratch_bytes = workspace.bytes();
    }
    size_t marks, factors, final, local, message_bytes;
    size_t sent, received, carry, next, state, gradient, round, inner, scratch_bytes;
};

class SelectiveRanks final : public SelectiveKernel {
  public:
    SelectiveRanks(const SelectiveProblem& problem, const Options& options, std::unique_ptr<SelectiveKernel> inner)
        : p_(problem),
          ranks_(options.communicator),
          threads_(thread_count(options.threads)),
          inner_(std::move(inner)),
          forward_(p_, ranks_, inner_->scratch_bytes(Pass::forward), Pass::forward),
          backward_(p_, ranks_, std::max(inner_->scratch_bytes(Pass::forward), inner_->scratch_bytes(Pass::backward)),
                    Pass::backward) {}

    std::string describe() const override {
        return ranks_.describe(inner_->describe(), forward_.message_bytes, backward_.message_bytes);
    }
    size_t scratch_bytes(Pass pass) const override { return plan(pass).scratch_bytes; }

    void forward(const SelectiveBuffers& x, void* stream) const override {
        const Call call{forward_, Pass::forward, x, static_cast<char*>(x.scratch), stream};
        exchange(call);
        inner_->forward(entered(call), stream);
    }

    void backward(const SelectiveBuffers& x, void* stream) const override {
        const Call call{backward_, Pass::backward, x, static_cast<char*>(x.scratch), stream};
        exchange(call);
        SelectiveBuffers own = entered(call);
        const char* gradient = find(call, true, call.scratch + backward_.gradient);
        if (place() != ranks_.size - 1) own.grad_state_out = gradient;
        inner_->backward(own, stream);
    }

    void withdraw(Pass pass, Code code, const char* sentence, void* stream) const override {
        send_failure(ranks_, pass, code, sentence, plan(pass).message_bytes, stream);
    }

  private:
    struct Call {
        const SelectiveRankPlan& at;
        Pass pass;
        const SelectiveBuffers& x;
        char* scratch;
        void* stream;
    };
    const SelectiveRankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }
    size_t states() const { return static_cast<size_t>(p_.state_bytes()); }
    // The message of the rank that is k-th in the order of computation.
    const char* message(const Call& call, int32_t k) const {
        return call.scratch + call.at.received +
               static_cast<size_t>(ranks_.place(k, p_.direction)) * call.at.message_bytes;
    }

    // The arguments of the own pass.
    SelectiveBuffers entered(const Call& call) const {
        SelectiveBuffers own = call.x;
        own.scratch = call.scratch + call.at.inner;
        const char* carry = find(call, false, call.scratch + call.at.state);
        if (place() != 0) own.state_in = carry;
        return own;
    }
    void exchange(const Call& call) const {
        char* sent = call.scratch + call.at.sent;
        std::memset(sent, 0, call.at.message_bytes);
        RankNote note = note_of(ranks_, call.pass, [&] {
            fill_message(call, sent);
            return "";
        });
        note.steps = p_.time;
        if (ranks_.sums_gradients) note.sums = sums_asked_for(p_, call.x);
        *reinterpret_cast<RankNote*>(sent) = note;
        const char* received = call.scratch + call.at.received;
        ranks_.gather(sent, call.scratch + call.at.received, call.at.message_bytes, call.stream);
        check_notes(ranks_, reinterpret_cast<const std::byte*>(received), call.at.message_bytes);
    }
    // No rank needs the state after the last rank's steps, or the gradient before the first one's.
    void fill_message(const Call& call, char* sent) const {
        const SelectiveBuffers& x = call.x;
        for (int64_t row = 0; row < p_.state_rows(); ++row)
            sent[call.at.marks + static_cast<size_t>(row)] = mark(x, row);
        if (!p_.empty()) fill_factors(x, sent + call.at.factors);
        if (place() != ranks_.size - 1) walk(call, false, x.state_in, sent + call.at.final);
        if (place() != 0 && call.pass == Pass::backward)
            walk(call, true, place() == ranks_.size - 1 ? x.grad_state_out : nullptr, sent + call.at.local);
    }
    char mark(const SelectiveBuffers& x, int64_t row) const {
        const reference::Sequence s = reference::sequence_of(p_, x.seq_offsets, row);
        if (s.length() == 0) return no_steps;
        const uint8_t* reset = p_.has_reset ? x.reset + s.b * p_.time : nullptr;
        return reset != nullptr && std::any_of(reset + s.begin, reset + s.end, [](uint8_t r) { return r != 0; })
                   ? has_reset
                   : has_steps;
    }
    void fill_factors(const SelectiveBuffers& x, char* factors) const {
        for_each(threads_, p_.state_rows() * p_.channels, [&](int64_t i, int64_t) {
            const int64_t c = i % p_.channels;
            const reference::Sequence s = reference::sequence_of(p_, x.seq_offsets, i / p_.channels);
            const double bias = x.bias == nullptr ? 0 : reference::load(x.bias, p_.param_dtype(), c).real();
            double sum = 0;
            for (int64_t t = s.begin; t < s.end; ++t) {
                const int64_t at = s.b * p_.delta.batch + t * p_.delta.time + c * p_.delta.channels;
                const double d = reference::load(x.delta, p_.dtype, at).real() + bias;
                sum += p_.softplus ? std::max(d, 0.0) + std::log1p(std::exp(-std::abs(d))) : d;
            }
            for (int64_t n = 0; n < p_.states; ++n)
                reference::store(factors, factor_dtype(p_), i * p_.states + n,
                                 std::exp(sum * reference::load(x.a, p_.matrix_dtype, c * p_.states + n)));
        });
    }
    // Computes the state after the own steps, or the gradient of the one before them, from `from`, which may be null.
    void walk(const Call& call, bool gradient, const void* from, char* to) const {
        SelectiveBuffers own = call.x;
        own.scratch = call.scratch + call.at.inner;
        own.output = nullptr;
        own.grad_input = own.grad_delta = own.grad_output_gate = nullptr;
        own.grad_a = own.grad_b = own.grad_c = own.grad_d = own.grad_bias = nullptr;
        if (gradient) {
            own.grad_state_out = from;
            own.grad_state_in = to;
            inner_->backward(own, call.stream);
        } else {
            own.state_in = from;
            own.state_out = to;
            inner_->forward(own, call.stream);
        }
    }

    // Finds the state that enters the own steps, or the gradient of the one that leaves them, and returns it in `mine`.
    const char* find(const Call& call, bool gradient, char* mine) const {
        char *carry = call.scratch + call.at.carry, *next = call.scratch + call.at.next;
        char* told = call.scratch + call.at.round;
        for (int32_t i = 0; i < ranks_.size; ++i) {
            const int32_t k = gradient ? ranks_.size - 1 - i : i;
            if (k == place()) std::memcpy(mine, carry, states());
            if (i == ranks_.size - 1 || states() == 0) break;
            if (i == 0) {
                std::memcpy(carry, message(call, k) + (gradient ? call.at.local : call.at.final), states());
                continue;
            }
            if (!join(call, k, gradient, carry, next)) {
                if (k == place())
                    walk(call, gradient, carry, next);
                else
                    std::memset(next, 0, states());
                ranks_.gather(next, told, states(), call.stream);
                std::memcpy(next, told + static_cast<size_t>(ranks_.place(k, p_.direction)) * states(), states());
            }
            std::memcpy(carry, next, states());
        }
        return mine;
    }
    // Joins the k-th rank's summary with `carry` into `next`; returns false where a number of `next` is not finite.
    bool join(const Call& call, int32_t k, bool gradient, const char* carry, char* next) const {
        const char *from = message(call, k), *added = from + (gradient ? call.at.local : call.at.final);
        const Dtype dtype = p_.matrix_dtype;
        std::atomic<bool> finite{true};
        for_each(threads_, p_.state_rows() * p_.channels, [&](int64_t i, int64_t) {
            const char mark = from[call.at.marks + static_cast<size_t>(i / p_.channels)];
            for (int64_t n = 0; n < p_.states; ++n) {
                const int64_t at = i * p_.states + n;
                if (mark == no_steps) {
                    reference::convert(next, dtype, at, carry, dtype, at);
                    continue;
                }
                Wide value = reference::load(added, dtype, at);
                if (mark == has_steps) {
                    const Wide factor = reference::load(from + call.at.factors, factor_dtype(p_), at);
                    value += (gradient ? std::conj(factor) : factor) * reference::load(carry, dtype, at);
                }
                reference::store(next, dtype, at, value);
                const Wide stored = reference::load(next, dtype, at);
                if (!std::isfinite(stored.real()) || !std::isfinite(stored.imag())) finite = false;
            }
        });
        return finite;
    }

    SelectiveProblem p_;
    Communicator ranks_;
    int threads_;
    std::unique_ptr<SelectiveKernel> inner_;
    SelectiveRankPlan forward_, backward_;
};

}  // namespace

std::unique_ptr<SelectiveKernel> make_selective_ranks(const SelectiveProblem& problem, const Options& options,
                                                      std::unique_ptr<SelectiveKernel> inner) {
    return std::make_unique<SelectiveRanks>(problem, options, std::move(inner));
}

}  // namespace flashscan::cpu
