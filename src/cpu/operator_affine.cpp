// SPDX-License-Identifier: Apache-2.0
#include "core/error.h"
#include "core/workspace.h"
#include "cpu/operator.h"
#include "cpu/operator_matrices.h"

namespace flashscan::cpu {
namespace {

class Affine final : public Matrices {
  public:
    Affine(const OperatorProblem& problem, const Options& options)
        : Matrices(problem, options), buffer_(cache_lines(3 * p_.dim * parts_ * number_size_)) {}

    std::string describe() const override {
        return fmt::format(
            "{}, {} threads; {} chains, each step by step: d^2 multiply-adds a step where pieces of time "
            "at once would take d^3",
            name_of(isa_), threads_, p_.chains());
    }
    size_t scratch_bytes(Pass pass) const override { return layout(pass).bytes; }

    void forward(const OperatorBuffers& b, void*) const override {
        MatrixCall call = common();
        call.x = static_cast<const char*>(b.input);
        call.w = static_cast<const char*>(b.gate);
        if (!p_.is_reduction()) call.y = static_cast<char*>(b.output);
        run_forward(b, call, layout(Pass::forward),
                    [&](const ChainPiece& piece, const char* carry) { elements_.finish(piece, carry, b); });
    }

    void backward(const OperatorBuffers& b, void*) const override {
        const Scratch at = layout(Pass::backward);
        auto* scratch = static_cast<char*>(b.scratch);
        MatrixCall call = common();
        call.w = static_cast<const char*>(b.gate);
        if (p_.is_reduction() && b.grad_gate != nullptr) {
            call.x = static_cast<const char*>(b.input);
            call.prefix = scratch + at.prefixes;
            run_forward(b, call, at, [](const ChainPiece&, const char*) {});
        }
        call.dy = p_.is_reduction() ? nullptr : static_cast<const char*>(b.grad_output);
        call.y = static_cast<char*>(b.grad_input);
        call.grad_w = static_cast<char*>(b.grad_gate);
        call.output = static_cast<const char*>(b.output);
        const std::vector<ChainPiece> chains = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, 1, 0);
        for_each(threads_, static_cast<int64_t>(chains.size()), [&](int64_t k, int64_t worker) {
            const ChainPiece& chain = chains[static_cast<size_t>(k)];
            char* carry = scratch + at.carries + k * elements_.bytes();
            elements_.enter(chain, b, carry);
            MatrixCall own = call;
            if (b.state_in != nullptr)
                own.first_state = static_cast<const char*>(b.state_in) + chain.state * elements_.bytes();
            kernels_.affine_backward(own, chain.at, carry, buffer(scratch, at, worker));
            elements_.leave(chain, carry, b);
        });
    }

  private:
    struct Scratch {
        size_t carries, buffers, prefixes, bytes;
    };
    Scratch layout(Pass pass) const {
        Workspace workspace;
        Scratch s{};
        s.carries = workspace.book(p_.chains() * elements_.bytes());
        s.buffers = workspace.book(Extent(threads_) * buffer_);
        if (pass == Pass::backward && p_.is_reduction())
            s.prefixes = workspace.book(p_.input_count() * elements_.bytes());
        s.bytes = workspace.bytes();
        return s;
    }
    char* buffer(char* scratch, const Scratch& at, int64_t worker) const {
        return scratch + at.buffers + static_cast<size_t>(worker) * buffer_;
    }
    template <typename Finish>
    void run_forward(const OperatorBuffers& b, const MatrixCall& call, const Scratch& at, Finish&& finish) const {
        auto* scratch = static_cast<char*>(b.scratch);
        const std::vector<ChainPiece> chains = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, 1, 0);
        for_each(threads_, static_cast<int64_t>(chains.size()), [&](int64_t k, int64_t worker) {
            const ChainPiece& chain = chains[static_cast<size_t>(k)];
            char* carry = scratch + at.carries + k * elements_.bytes();
            elements_.start(chain, b.state_in, false, carry);
            kernels_.affine_forward(call, chain.at, carry, buffer(scratch, at, worker));
            finish(chain, carry);
        });
    }

    size_t buffer_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_affine(const OperatorProblem& problem, const Options& options,
                                                     std::string& refusal) {
    if (!problem.is_affine()) {
        refusal = "elements are no affine maps";
        return nullptr;
    }
    return std::make_unique<Affine>(problem, options);
}

}  // namespace flashscan::cpu
