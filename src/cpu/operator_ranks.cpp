// SPDX-License-Identifier: Apache-2.0
// Scans of numbers on one rank of several. Forward each rank tells what its own steps combine to, and what those before it
// combine to is STATE_IN of an ordinary pass. The gradient that leaves a rank for those before it is linear in the one that
// enters, g' = product * g + local: backward each tells these, from the state that enters it.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/workspace.h"
#include "cpu/operator.h"
#include "reference/values.h"

namespace flashscan::cpu {
namespace {

// A note's flag: the rank has steps, or is the first and has STATE_IN, so that it hands on a state.
constexpr uint32_t has_state = 1;

OperatorProblem reduction_of(OperatorProblem p) {
    p.mode = OperatorMode::reduction;
    return p;
}

// Two states into one, for all rows and channels at once.
OperatorProblem pair_of(const OperatorProblem& p) {
    OperatorProblem pair;
    pair.kind = p.kind;
    pair.dtype = state_dtype(p.dtype);
    pair.mode = OperatorMode::reduction;
    pair.batch = 1;
    pair.time = 2;
    pair.channels = p.chains();
    validate(pair);
    return pair;
}

class OperatorRanks final : public OperatorKernel {
  public:
    OperatorRanks(const OperatorProblem& problem, const Options& options, std::unique_ptr<OperatorKernel> inner,
                  OperatorMaker make)
        : p_(problem),
          ranks_(options.communicator),
          state_(state_dtype(problem.dtype)),
          bytes_(static_cast<size_t>(problem.chains() * size_of(state_))),
          inner_(std::move(inner)) {
        Options own = options;
        own.communicator = {};
        std::string refusal;
        // Neither is called without numbers.
        total_ = make(reduction_of(p_), own, refusal);
        if (total_ && p_.chains() > 0) pair_ = make(pair_of(p_), own, refusal);
        if (!total_ || (!pair_ && p_.chains() > 0)) fail(Code::internal_error, "no kernel for ranks: {}", refusal);
    }

    std::string describe() const override {
        return fmt::format("{}; rank {} of {}, which tell each other {} bytes each", inner_->describe(), ranks_.rank,
                           ranks_.size, message_bytes());
    }
    size_t scratch_bytes(Pass pass) const override { return layout(pass).bytes; }

    void forward(const OperatorBuffers& b, void* stream) const override {
        inner_->forward(enter(b, Pass::forward, layout(Pass::forward), stream), stream);
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        const Scratch at = layout(Pass::backward);
        auto* scratch = static_cast<char*>(b.scratch);
        OperatorBuffers own = enter(b, Pass::backward, at, stream);
        tell_gradients(own, at, scratch, stream);
        if (place() != ranks_.size - 1) own.grad_state_out = find_gradient(at, scratch);
        inner_->backward(own, stream);
    }

    void withdraw(Pass pass, Code code, const char* sentence, void* stream) const override {
        const size_t notes = message_bytes() / sizeof(RankNote) + 1;
        std::vector<RankNote> sent(notes), received(notes * static_cast<size_t>(ranks_.size));
        sent[0] = make_note(ranks_, pass, code, sentence);
        // The call has its error already.
        ranks_.all_gather(ranks_.user, sent.data(), received.data(), message_bytes(), stream);
    }

  private:
    // `told` and `heard` are product and local of gradients.
    struct Scratch {
        size_t sent, received, carry, pair, unused, told, heard, ones, inner, work, bytes;
    };
    size_t message_bytes() const {
        Workspace message;
        message.book(Extent(sizeof(RankNote)));
        message.book(Extent(bytes_));
        return message.bytes();
    }
    Scratch layout(Pass pass) const {
        Workspace workspace;
        Scratch s{};
        const Extent states(bytes_, "SCRATCH"), messages(message_bytes(), "SCRATCH");
        s.sent = workspace.book(messages);
        s.received = workspace.book(messages * ranks_.size);
        s.carry = workspace.book(states);
        s.pair = workspace.book(states * 2);
        s.unused = workspace.book(states);
        size_t work = std::max(total_->scratch_bytes(Pass::forward), pair_ ? pair_->scratch_bytes(Pass::forward) : 0);
        if (pass == Pass::backward) {
            s.told = workspace.book(states * 2);
            s.heard = workspace.book(states * 2 * ranks_.size);
            s.ones = workspace.book(states);
            work = std::max(work, total_->scratch_bytes(Pass::backward));
        }
        s.inner = workspace.book(Extent(inner_->scratch_bytes(pass)));
        s.work = workspace.book(Extent(work));
        s.bytes = workspace.bytes();
        return s;
    }

    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }
    // The message of the rank that is k-th in the order of computation.
    const char* message(const Scratch& at, const char* scratch, int32_t k) const {
        return scratch + at.received + static_cast<size_t>(ranks_.place(k, p_.direction)) * message_bytes();
    }
    const RankNote& note(const Scratch& at, const char* scratch, int32_t k) const {
        return *reinterpret_cast<const RankNote*>(message(at, scratch, k));
    }

    // The arguments of a pass over the own steps, once all ranks have told what theirs combine to.
    OperatorBuffers enter(const OperatorBuffers& b, Pass pass, const Scratch& at, void* stream) const {
        auto* scratch = static_cast<char*>(b.scratch);
        tell_total(b, pass, at, stream);
        OperatorBuffers own = b;
        own.scratch = scratch + at.inner;
        if (place() != 0) own.state_in = find_carry(at, scratch);
        return own;
    }

    // Sends what the own steps combine to, with STATE_IN on the first rank. Backward without slopes does not need it.
    void tell_total(const OperatorBuffers& b, Pass pass, const Scratch& at, void* stream) const {
        auto* scratch = static_cast<char*>(b.scratch);
        RankNote mine = make_note(ranks_, pass, Code::ok, "");
        mine.steps = p_.time;
        if (p_.time > 0 || b.state_in != nullptr) mine.flags = has_state;
        char* to = scratch + at.sent + sizeof(RankNote);
        std::memset(to, 0, message_bytes() - sizeof(RankNote));
        if (b.state_in != nullptr) std::memcpy(to, b.state_in, bytes_);
        if (bytes_ > 0 && p_.time > 0 && b.input != nullptr) {
            OperatorBuffers own;
            own.input = b.input;
            own.state_in = b.state_in;
            own.output = scratch + at.unused;
            own.state_out = to;
            own.scratch = scratch + at.work;
            total_->forward(own, stream);
        }
        *reinterpret_cast<RankNote*>(scratch + at.sent) = mine;
        ranks_.gather(scratch + at.sent, scratch + at.received, message_bytes(), stream);
        check_notes(ranks_, reinterpret_cast<const std::byte*>(scratch + at.received), message_bytes());
    }

    // The state that enters the own steps; null where there is none.
    const char* find_carry(const Scratch& at, char* scratch) const {
        char *carry = scratch + at.carry, *pair = scratch + at.pair;
        bool any = false;
        for (int32_t k = 0; k < place(); ++k) {
            if ((note(at, scratch, k).flags & has_state) == 0) continue;
            const char* total = message(at, scratch, k) + sizeof(RankNote);
            if (!any || bytes_ == 0) {
                std::memcpy(carry, total, bytes_);
            } else {
                std::memcpy(pair, carry, bytes_);
                std::memcpy(pair + bytes_, total, bytes_);
                OperatorBuffers own;
                own.input = pair;
                own.output = scratch + at.unused;
                own.state_out = carry;
                own.scratch = scratch + at.work;
                pair_->forward(own, nullptr);
            }
            any = true;
        }
        return any ? carry : nullptr;
    }

    // Product and local of the own steps: of the last rank the gradient itself is known.
    void tell_gradients(const OperatorBuffers& own, const Scratch& at, char* scratch, void* stream) const {
        char *product = scratch + at.told, *local = product + bytes_;
        const bool last = place() == ranks_.size - 1;
        std::memset(product, 0, 2 * bytes_);
        if (bytes_ > 0 && p_.time == 0 && last && own.grad_state_out != nullptr)
            std::memcpy(local, own.grad_state_out, bytes_);
        if (bytes_ > 0 && p_.time > 0 && own.state_in != nullptr) {
            OperatorBuffers b = own;
            b.grad_input = nullptr;
            b.grad_state_in = local;
            if (!last) b.grad_state_out = nullptr;
            inner_->backward(b, stream);
            if (!last) fill_products(own, at, scratch, stream);
        }
        if (bytes_ > 0) ranks_.gather(scratch + at.told, scratch + at.heard, 2 * bytes_, stream);
    }
    // The derivative of the last y with respect to the state that enters.
    void fill_products(const OperatorBuffers& own, const Scratch& at, char* scratch, void* stream) const {
        char *product = scratch + at.told, *ones = scratch + at.ones;
        const bool slopes = p_.has_slopes();
        for (int64_t i = 0; i < p_.chains(); ++i)
            reference::store(slopes ? ones : product, slopes ? p_.dtype : state_, i, 1);
        if (!slopes) return;
        OperatorBuffers b;
        b.input = own.input;
        b.state_in = own.state_in;
        b.grad_output = ones;
        b.grad_state_in = product;
        b.scratch = scratch + at.work;
        total_->backward(b, stream);
    }

    // The gradient of the state that leaves the own steps.
    const char* find_gradient(const Scratch& at, char* scratch) const {
        char* gradient = scratch + at.pair;
        std::memset(gradient, 0, bytes_);
        for (int32_t k = ranks_.size - 1; k > place(); --k) {
            const char* heard = scratch + at.heard + static_cast<size_t>(ranks_.place(k, p_.direction)) * 2 * bytes_;
            if (note(at, scratch, k).steps == 0 && k != ranks_.size - 1) continue;
            for (int64_t i = 0; i < p_.chains(); ++i) {
                const reference::Wide local = reference::load(heard + bytes_, state_, i);
                const reference::Wide before = reference::load(gradient, state_, i);
                const reference::Wide product = k == ranks_.size - 1 ? 0 : reference::load(heard, state_, i) * before;
                reference::store(gradient, state_, i, local + product);
            }
        }
        return gradient;
    }

    OperatorProblem p_;
    Communicator ranks_;
    Dtype state_;
    size_t bytes_;
    std::unique_ptr<OperatorKernel> inner_, total_, pair_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_ranks(const OperatorProblem& problem, const Options& options,
                                                    std::unique_ptr<OperatorKernel> inner, OperatorMaker make) {
    return std::make_unique<OperatorRanks>(problem, options, std::move(inner), make);
}

}  // namespace flashscan::cpu
