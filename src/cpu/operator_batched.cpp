// SPDX-License-Identifier: Apache-2.0
// Custom operators by a batched callback, one call for each level of a tree over all chains.
//
// z is STATE_IN, if there is one, and x. With A[0] = z, upwards A[k+1][i] = A[k][2i] o A[k][2i+1]; downwards the prefix
// P[k][i] of elements 0 .. (i+1) 2^k - 1 is P[k+1][(i-1)/2] for odd i and P[k+1][i/2-1] o A[k][i] for even i: about 2n
// combinations in 2 log2(n) calls (Blelloch 1990). A prefix is written where it belongs, whatever level it comes from.
// A reduction goes up and combines only what is left over at the levels' ends, in the scan's order.
//
// Backward goes through the same tree in turn: downwards from level 0, then upwards from the top, one adjoint call a
// level. It keeps A, P, their gradients and the operands of a call: about 9n elements.
//
// Operands that lie a constant stride apart are handed over as they lie; others, as of uneven chains, are gathered.
#include "core/error.h"
#include "cpu/gradient_sum.h"
#include "cpu/operator.h"
#include "cpu/operator_tree.h"

namespace flashscan::cpu {
namespace {

class Batched final : public OperatorKernel, private OperatorTree {
  public:
    explicit Batched(const OperatorProblem& problem) : OperatorTree(problem) {}

    std::string describe() const override {
        return fmt::format("batched callback, once for each level of a tree of {} steps", p_.time);
    }
    size_t scratch_bytes(Pass pass) const override { return static_cast<size_t>(slots(pass) * f_.element_bytes); }

    void forward(const OperatorBuffers& b, void*) const override {
        Slots slots{static_cast<char*>(b.scratch), bytes_};
        const std::vector<ChainPiece> pieces = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, 1, 0);
        std::vector<TreeChain> chains = chains_of(b, pieces, slots, !p_.is_reduction());
        char* gathered = slots.take(3 * pairs());
        std::vector<Pairs> calls = up(chains, slots);
        if (!p_.is_reduction()) down(chains, calls);
        run(chains, calls, gathered);
        if (p_.is_reduction()) reduce(chains, slots, gathered);
        for (const TreeChain& chain : chains) {
            if (chain.prefix.empty()) continue;
            put(b.state_out, chain.piece->state, chain.prefix.back());
            if (p_.is_reduction()) put(b.output, chain.piece->state, chain.prefix.back());
        }
    }

    void backward(const OperatorBuffers& b, void*) const override;

  private:
    Extent slots(Pass pass) const {
        if (pass == Pass::forward) return 2 * elements() + 3 * pairs() + 2 * p_.chains();
        return 6 * elements() + 5 * pairs() + 2 * p_.chains();
    }

    // Gradients of the prefixes and of every level, as zeros.
    struct Gradients {
        std::vector<char*> prefix;
        std::vector<std::vector<char*>> level;
    };
    // Adds the adjoint of left o right to the gradients of both.
    struct Adjoints {
        Pairs pairs;  // out: the gradient of left o right
        std::vector<char*> grad_left, grad_right;
        void add(const char* l, const char* r, char* g, char* gl, char* gr) {
            pairs.add(l, r, g), grad_left.push_back(gl), grad_right.push_back(gr);
        }
    };
    void differentiate(const Adjoints& a, char* gathered) const {
        if (a.grad_left.empty()) return;
        const size_t room = static_cast<size_t>(pairs()) * bytes_, count = a.grad_left.size();
        char *left = gathered + 3 * room, *right = gathered + 4 * room;
        check(f_.batched_adjoint(f_.state, gather(a.pairs.left, gathered), gather(a.pairs.right, gathered + room),
                                 gather(a.pairs.out, gathered + 2 * room), left, right, static_cast<int64_t>(count),
                                 nullptr),
              "batched_adjoint");
        for (size_t i = 0; i < count; ++i) {
            add_gradient(p_.dtype, left + i * bytes_, bytes_, a.grad_left[i]);
            add_gradient(p_.dtype, right + i * bytes_, bytes_, a.grad_right[i]);
        }
    }
    std::vector<Gradients> enter(const OperatorBuffers& b, const std::vector<TreeChain>& chains, Slots& slots) const;
    void leave(const OperatorBuffers& b, const std::vector<TreeChain>& chains,
               const std::vector<Gradients>& gradients) const;
};

std::vector<Batched::Gradients> Batched::enter(const OperatorBuffers& b, const std::vector<TreeChain>& chains,
                                               Slots& slots) const {
    std::vector<Gradients> all;
    const auto zero = [&] {
        char* taken = slots.take();
        std::memset(taken, 0, bytes_);
        return taken;
    };
    for (const TreeChain& chain : chains) {
        Gradients g;
        const ChainPiece& piece = *chain.piece;
        for (size_t j = 0; j < chain.prefix.size(); ++j) g.prefix.push_back(zero());
        for (const auto& level : chain.level) {
            g.level.emplace_back();
            for (size_t i = 0; i < level.size(); ++i) g.level.back().push_back(zero());
        }
        const int64_t shift = chain.has_state && p_.mode != OperatorMode::exclusive ? 1 : 0;
        for (int64_t i = 0; !p_.is_reduction() && i < piece.at.steps; ++i)
            add_gradient(p_.dtype, at(b.grad_output, place(piece.at, i)), bytes_,
                         g.prefix[static_cast<size_t>(i + shift)]);
        if (!g.prefix.empty() && b.grad_state_out != nullptr)
            add_gradient(p_.dtype, at(b.grad_state_out, piece.state), bytes_, g.prefix.back());
        if (!g.prefix.empty() && p_.is_reduction())
            add_gradient(p_.dtype, at(b.grad_output, piece.state), bytes_, g.prefix.back());
        all.push_back(std::move(g));
    }
    return all;
}

void Batched::leave(const OperatorBuffers& b, const std::vector<TreeChain>& chains,
                    const std::vector<Gradients>& gradients) const {
    for (size_t c = 0; c < chains.size(); ++c) {
        const ChainPiece& piece = *chains[c].piece;
        const std::vector<char*>& z = gradients[c].level[0];
        const size_t shift = chains[c].has_state ? 1 : 0;
        if (chains[c].has_state) put(b.grad_state_in, piece.state, z[0]);
        for (int64_t i = 0; i < piece.at.steps; ++i)
            put(b.grad_input, place(piece.at, i), z[static_cast<size_t>(i) + shift]);
    }
}

void Batched::backward(const OperatorBuffers& b, void*) const {
    Slots slots{static_cast<char*>(b.scratch), bytes_};
    const std::vector<ChainPiece> pieces = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, 1, 0);
    std::vector<TreeChain> chains = chains_of(b, pieces, slots, false);
    char* gathered = slots.take(5 * pairs());
    std::vector<Pairs> calls = up(chains, slots);
    down(chains, calls);
    run(chains, calls, gathered);
    const std::vector<Gradients> gradients = enter(b, chains, slots);
    const size_t top = levels(chains);
    for (size_t k = 0; k < top; ++k) {
        Adjoints adjoints;
        for (size_t c = 0; c < chains.size(); ++c) {
            const TreeChain& chain = chains[c];
            const Gradients& g = gradients[c];
            for (size_t i = 2; chain.level.size() > k && i < chain.level[k].size(); i += 2)
                adjoints.add(chain.prefix[prefix_at(k, i - 1)], chain.level[k][i], g.prefix[prefix_at(k, i)],
                             g.prefix[prefix_at(k, i - 1)], g.level[k][i]);
        }
        differentiate(adjoints, gathered);
    }
    // A[k][0] is the prefix of 2^k elements.
    for (const Gradients& g : gradients)
        for (size_t k = 0; k < g.level.size() && !g.level[k].empty(); ++k)
            add_gradient(p_.dtype, g.prefix[prefix_at(k, 0)], bytes_, g.level[k][0]);
    for (size_t k = top; k-- > 1;) {
        Adjoints adjoints;
        for (size_t c = 0; c < chains.size(); ++c) {
            const TreeChain& chain = chains[c];
            const Gradients& g = gradients[c];
            for (size_t i = 0; chain.level.size() > k && i < chain.level[k].size(); ++i)
                adjoints.add(chain.level[k - 1][2 * i], chain.level[k - 1][2 * i + 1], g.level[k][i],
                             g.level[k - 1][2 * i], g.level[k - 1][2 * i + 1]);
        }
        differentiate(adjoints, gathered);
    }
    leave(b, chains, gradients);
}

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_batched(const OperatorProblem& p, const Options&, std::string& refusal) {
    if (!p.is_custom())
        refusal = "the operator is built in";
    else if (p.custom.batched == nullptr)
        refusal = "the custom operator has no batched callback";
    else if (p.differentiable() && p.custom.batched_adjoint == nullptr)
        refusal = "the custom operator has no batched adjoint beside its other one";
    else
        return std::make_unique<Batched>(p);
    return nullptr;
}

}  // namespace flashscan::cpu
