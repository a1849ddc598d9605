// SPDX-License-Identifier: Apache-2.0
// Custom operators by a host function: y[t] = y[t-1] o x[t], written where it belongs and read from there by the next
// step, so that no element is copied. Chains run at once; few and long ones are cut into pieces of time, whose totals
// double the calls. Backward walks each chain from its last step, with y[t-1] computed again into scratch.
#include <cstring>

#include "core/error.h"
#include "core/workspace.h"
#include "cpu/gradient_sum.h"
#include "cpu/operator.h"
#include "cpu/operator_pieces.h"

namespace flashscan::cpu {
namespace {

class Host final : public OperatorKernel {
  public:
    Host(const OperatorProblem& problem, const Options& options)
        : p_(problem),
          f_(p_.custom),
          bytes_(static_cast<size_t>(f_.element_bytes)),
          threads_(thread_count(options.threads)),
          cut_(cut_of(options.batch_invariant)),
          pieces_(most_pieces(p_, 1, cut_)) {}

    std::string describe() const override {
        return fmt::format("host function, {} threads; {}", threads_,
                           cut_ > 0 ? fmt::format("pieces of {} steps", cut_) : "a chain after the other");
    }
    size_t scratch_bytes(Pass pass) const override { return layout(pass).bytes; }

    void forward(const OperatorBuffers& b, void*) const override {
        const std::vector<ChainPiece> pieces = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, 1, cut_);
        auto* scratch = static_cast<char*>(b.scratch);
        const auto slot = [&](int64_t k, int64_t which) { return scratch + element(4 * k + which); };
        const auto piece = [&](int64_t k) -> const ChainPiece& { return pieces[static_cast<size_t>(k)]; };
        // Slot 0 of a piece holds y before it, slot 1 its total, slots 2 and 3 are the walk's.
        for (size_t k = 0; k < pieces.size(); ++k)
            if (pieces[k].first && b.state_in != nullptr)
                std::memcpy(slot(static_cast<int64_t>(k), 0), at(b.state_in, pieces[k].state), bytes_);
        OperatorBuffers quiet = b;
        quiet.output = nullptr;
        scan_pieces(
            threads_, pieces, cut_ > 0,
            [&](int64_t k, int64_t) {
                OperatorPiece alone = piece(k).at;
                alone.start = true;
                std::memcpy(slot(k, 1), walk(quiet, alone, nullptr, slot(k, 2)), bytes_);
            },
            [&](int64_t k) {
                if (piece(k).at.start)
                    std::memcpy(slot(k + 1, 0), slot(k, 1), bytes_);
                else
                    f_.host(f_.state, slot(k, 0), slot(k, 1), slot(k + 1, 0));
            },
            [&](int64_t k, int64_t) {
                if (p_.is_reduction() && !piece(k).last) return;
                const char* y = walk(p_.is_reduction() ? quiet : b, piece(k).at, slot(k, 0), slot(k, 2));
                if (piece(k).last && y != nullptr) finish(piece(k), y, b);
            });
    }

    void backward(const OperatorBuffers& b, void*) const override {
        const std::vector<ChainPiece> chains = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, 1, 0);
        const Scratch where = layout(Pass::backward);
        for_each(threads_, static_cast<int64_t>(chains.size()), [&](int64_t k, int64_t) {
            auto* scratch = static_cast<char*>(b.scratch);
            backward_chain(b, chains[static_cast<size_t>(k)], scratch + where.prefixes, scratch + element(4 * k));
        });
    }

  private:
    struct Scratch {
        size_t prefixes, bytes;
    };
    int64_t cut_of(bool batch_invariant) const {
        constexpr int64_t few = 16, steps = 1024;
        return (batch_invariant || p_.chains() < few) && p_.time > 2 * steps ? steps : 0;
    }
    // Elements of scratch lie as densely as the caller's: aligned as the interface promises.
    size_t element(int64_t i) const { return static_cast<size_t>(i) * bytes_; }
    Scratch layout(Pass pass) const {
        Workspace workspace;
        Scratch s{};
        workspace.book(4 * max(pieces_ + 1, p_.chains()) * f_.element_bytes);
        if (pass == Pass::backward) s.prefixes = workspace.book(p_.input_count() * f_.element_bytes);
        s.bytes = workspace.bytes();
        return s;
    }
    const char* at(const void* data, int64_t place) const {
        return static_cast<const char*>(data) + place * f_.element_bytes;
    }
    char* at(void* data, int64_t place) const { return static_cast<char*>(data) + place * f_.element_bytes; }
    int64_t place(const OperatorPiece& q, int64_t i) const {
        const int64_t step = q.first + i, time = p_.direction == Direction::forward ? q.begin + step : q.end - 1 - step;
        return q.base + time * p_.steps().time;
    }

    // y after the piece, from y before it; null when there is none. `own` are two elements that y may lie in.
    const char* walk(const OperatorBuffers& b, const OperatorPiece& q, const char* y, char* own) const {
        if (q.start) y = nullptr;
        const bool exclusive = p_.mode == OperatorMode::exclusive;
        for (int64_t i = 0; i < q.steps; ++i) {
            const int64_t here = place(q, i);
            const char* x = at(b.input, here);
            // An exclusive scan has STATE_IN, so that there is a y.
            if (b.output != nullptr && exclusive && y != nullptr) std::memcpy(at(b.output, here), y, bytes_);
            char* next = b.output != nullptr && !exclusive ? at(b.output, here) : y == own ? own + bytes_ : own;
            if (y == nullptr)
                std::memcpy(next, x, bytes_);  // NOLINT(clang-analyzer-core.NonNullParamChecker): `own` is not null
            else
                f_.host(f_.state, y, x, next);
            y = next;
        }
        return y;
    }
    void finish(const ChainPiece& piece, const char* y, const OperatorBuffers& b) const {
        if (b.state_out != nullptr) std::memcpy(at(b.state_out, piece.state), y, bytes_);
        if (p_.is_reduction()) std::memcpy(at(b.output, piece.state), y, bytes_);
    }

    void backward_chain(const OperatorBuffers& b, const ChainPiece& chain, char* prefixes, char* own) const {
        const OperatorPiece& q = chain.at;
        // y[t] at the place of x[t].
        const char* y = q.start ? nullptr : at(b.state_in, chain.state);
        for (int64_t i = 0; i + 1 < q.steps; ++i) {
            const int64_t here = place(q, i);
            if (y == nullptr)
                std::memcpy(at(prefixes, here), at(b.input, here), bytes_);
            else
                f_.host(f_.state, y, at(b.input, here), at(prefixes, here));
            y = at(prefixes, here);
        }
        char *g = own, *left = own + bytes_, *right = own + 2 * bytes_;
        std::memset(g, 0, bytes_);
        const auto add = [&](const void* data, int64_t place) {
            if (data != nullptr) add_gradient(p_.dtype, at(data, place), bytes_, g);
        };
        add(b.grad_state_out, chain.state);
        if (p_.is_reduction()) add(b.grad_output, chain.state);
        for (int64_t i = q.steps - 1; i >= 0; --i) {
            const int64_t here = place(q, i);
            if (p_.mode == OperatorMode::inclusive) add(b.grad_output, here);
            if (i == 0 && q.start) {
                if (b.grad_input != nullptr) std::memcpy(at(b.grad_input, here), g, bytes_);
                break;
            }
            const char* before = i > 0 ? at(prefixes, place(q, i - 1)) : at(b.state_in, chain.state);
            f_.host_adjoint(f_.state, before, at(b.input, here), g, left, right);
            if (b.grad_input != nullptr) std::memcpy(at(b.grad_input, here), right, bytes_);
            std::swap(g, left);
            if (p_.mode == OperatorMode::exclusive) add(b.grad_output, here);
        }
        if (b.grad_state_in != nullptr) std::memcpy(at(b.grad_state_in, chain.state), g, bytes_);
    }

    OperatorProblem p_;
    CustomOperator f_;
    size_t bytes_;
    int threads_;
    int64_t cut_;
    Extent pieces_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_host(const OperatorProblem& p, const Options& options,
                                                   std::string& refusal) {
    if (!p.is_custom())
        refusal = "the operator is built in";
    else if (p.custom.host == nullptr)
        refusal = "the custom operator has no host function";
    else if (p.differentiable() && p.custom.host_adjoint == nullptr)
        refusal = "the custom operator has no host adjoint beside its other one";
    else
        return std::make_unique<Host>(p, options);
    return nullptr;
}

}  // namespace flashscan::cpu
