// SPDX-License-Identifier: Apache-2.0
#include "cpu/operator_matrices.h"

#include "core/error.h"
#include "core/workspace.h"
#include "cpu/operator.h"

namespace flashscan::cpu {
namespace {

class Products final : public Matrices {
  public:
    Products(const OperatorProblem& problem, const Options& options)
        : Matrices(problem, options),
          cut_(cut_of(options.batch_invariant)),
          pieces_(most_pieces(p_, 1, cut_)),
          shares_(shares_of(p_.chains())),
          buffer_(cache_lines(kernels_.buffer_numbers(p_.dim, parts_, p_.dim) * number_size_)) {}

    std::string describe() const override {
        return fmt::format("{}, {} threads; rows of a matrix in {} shares, {}", name_of(isa_), threads_, shares_,
                           cut_ > 0 ? fmt::format("pieces of {} steps", cut_) : "time in order");
    }
    size_t scratch_bytes(Pass pass) const override { return layout(pass).bytes; }

    void forward(const OperatorBuffers& b, void*) const override {
        MatrixCall call = common();
        call.x = static_cast<const char*>(b.input);
        if (!p_.is_reduction()) call.y = static_cast<char*>(b.output);
        const Scratch at = layout(Pass::forward);
        run_forward(b, call, at,
                    [&](const ChainPiece& piece, const char* carry) { elements_.finish(piece, carry, b); });
    }
    void backward(const OperatorBuffers& b, void*) const override;

  private:
    struct Scratch {
        size_t carries, totals, buffers, gradients, prefixes, bytes;
    };

    // Chains of small matrices leave threads idle; long ones are cut then, though it doubles the work.
    int64_t cut_of(bool batch_invariant) const {
        constexpr int64_t few = 2, rows = 8, steps = 256;
        const Extent chains = batch_invariant ? Extent(1) : p_.chains();
        const bool short_time = !batch_invariant && p_.time <= 2 * steps;
        return chains * ceil_div(p_.dim, rows) < few && !short_time ? steps : 0;
    }
    // How many shares the rows of a matrix are divided into, which changes no bit: the fewest that give every thread
    // the same number of them.
    int64_t shares_of(Extent pieces) const {
        if (cut_ > 0 || pieces >= 4 * threads_ || pieces == 0) return 1;
        const int64_t most = std::max<int64_t>(p_.dim / 4, 1);
        for (int64_t shares = 1; shares < most; ++shares)
            if (pieces * shares >= threads_ && pieces * shares % threads_ == 0) return shares;
        return std::min<int64_t>(most, threads_);
    }
    Scratch layout(Pass pass) const {
        Workspace workspace;
        Scratch s{};
        const auto elements = [&](Extent count) { return workspace.book(count * elements_.bytes()); };
        s.carries = elements(pieces_ + 1);
        s.totals = elements(cut_ > 0 ? pieces_ : Extent());
        s.buffers = workspace.book(Extent(threads_) * buffer_);
        if (pass == Pass::backward) {
            s.gradients = elements(p_.input_count());
            s.prefixes = elements(p_.is_reduction() ? p_.input_count() : Extent());
        }
        s.bytes = workspace.bytes();
        return s;
    }
    // Calls body(k, row, rows, worker) for shares of the rows of all pieces.
    template <typename Body>
    void for_rows(int64_t pieces, Body&& body) const {
        for_each(threads_, pieces * shares_, [&](int64_t i, int64_t worker) {
            const int64_t share = i % shares_, row = share * p_.dim / shares_;
            body(i / shares_, row, (share + 1) * p_.dim / shares_ - row, worker);
        });
    }
    template <typename Finish>
    void run_forward(const OperatorBuffers& b, const MatrixCall& call, const Scratch& at, Finish&& finish) const;

    int64_t cut_;
    Extent pieces_;
    int64_t shares_;
    size_t buffer_;
};

template <typename Finish>
void Products::run_forward(const OperatorBuffers& b, const MatrixCall& call, const Scratch& at, Finish&& finish) const {
    auto* scratch = static_cast<char*>(b.scratch);
    const std::vector<ChainPiece> pieces = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, 1, cut_);
    const auto carry = [&](int64_t k) { return scratch + at.carries + k * elements_.bytes(); };
    const auto total = [&](int64_t k) { return scratch + at.totals + k * elements_.bytes(); };
    const auto buffer = [&](int64_t worker) { return scratch + at.buffers + static_cast<size_t>(worker) * buffer_; };
    const auto piece = [&](int64_t k) -> const ChainPiece& { return pieces[static_cast<size_t>(k)]; };
    const auto count = static_cast<int64_t>(pieces.size());
    for (int64_t k = 0; k < count; ++k)
        if (piece(k).first) elements_.start(piece(k), b.state_in, true, carry(k));
    if (cut_ == 0) {
        for_rows(count, [&](int64_t k, int64_t row, int64_t rows, int64_t worker) {
            if (piece(k).at.steps > 0) kernels_.forward(call, piece(k).at, row, rows, carry(k), buffer(worker));
        });
        for (int64_t k = 0; k < count; ++k) finish(piece(k), carry(k));
        return;
    }
    MatrixCall quiet = call;
    quiet.y = quiet.prefix = nullptr;
    const bool writes = call.y != nullptr || call.prefix != nullptr;
    scan_pieces(
        threads_, pieces, true,
        [&](int64_t k, int64_t worker) {
            OperatorPiece alone = piece(k).at;
            alone.start = true;
            kernels_.forward(quiet, alone, 0, p_.dim, total(k), buffer(worker));
        },
        [&](int64_t k) {
            if (piece(k).at.start)
                std::memcpy(carry(k + 1), total(k), static_cast<size_t>(elements_.bytes()));
            else
                kernels_.join(p_.dim, parts_, carry(k), total(k), carry(k + 1), buffer(0));
        },
        [&](int64_t k, int64_t worker) {
            if (piece(k).at.steps > 0 && (writes || piece(k).last))
                kernels_.forward(call, piece(k).at, 0, p_.dim, carry(k), buffer(worker));
            if (piece(k).last) finish(piece(k), carry(k));
        });
}

void Products::backward(const OperatorBuffers& b, void*) const {
    const Scratch at = layout(Pass::backward);
    auto* scratch = static_cast<char*>(b.scratch);
    const auto carry = [&](int64_t k) { return scratch + at.carries + k * elements_.bytes(); };
    const auto buffer = [&](int64_t worker) { return scratch + at.buffers + static_cast<size_t>(worker) * buffer_; };
    MatrixCall call = common();
    call.x = static_cast<const char*>(b.input);
    if (p_.is_reduction() && b.grad_input != nullptr) {
        call.prefix = scratch + at.prefixes;
        run_forward(b, call, at, [](const ChainPiece&, const char*) {});
    }
    // Computes g[t] of all steps, rows in parallel.
    const std::vector<ChainPiece> chains = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, 1, 0);
    const auto count = static_cast<int64_t>(chains.size());
    std::vector<int64_t> first(chains.size() + 1);
    for (size_t k = 0; k < chains.size(); ++k) first[k + 1] = first[k] + chains[k].at.steps;
    call.dy = p_.is_reduction() ? nullptr : static_cast<const char*>(b.grad_output);
    call.prefix = b.grad_input != nullptr ? scratch + at.gradients : nullptr;
    for (int64_t k = 0; k < count; ++k) elements_.enter(chains[static_cast<size_t>(k)], b, carry(k));
    for_rows(count, [&](int64_t k, int64_t row, int64_t rows, int64_t worker) {
        const OperatorPiece& piece = chains[static_cast<size_t>(k)].at;
        if (piece.steps > 0) kernels_.backward(call, piece, row, rows, carry(k), buffer(worker));
    });
    for (int64_t k = 0; k < count; ++k) elements_.leave(chains[static_cast<size_t>(k)], carry(k), b);
    if (b.grad_input == nullptr) return;
    // Computes y[t-1]^H g[t], steps in parallel.
    const int64_t bytes = p_.element() * p_.number_bytes();
    const Number number = number_of(p_.dtype), wide = number_of(elements_.state());
    for_each(threads_, first.back(), [&](int64_t n, int64_t worker) {
        const auto k = static_cast<size_t>(std::upper_bound(first.begin(), first.end(), n) - first.begin()) - 1;
        const ChainPiece& chain = chains[k];
        const int64_t i = n - first[k], here = place(chain.at, i);
        const auto* output = static_cast<const char*>(b.output);
        const char* before = nullptr;
        Number form = wide;
        if (i == 0)
            before = b.state_in == nullptr ? nullptr
                                           : static_cast<const char*>(b.state_in) + chain.state * elements_.bytes();
        else if (p_.is_reduction())
            before = scratch + at.prefixes + here * elements_.bytes();
        else
            before = output + (call.exclusive ? here : place(chain.at, i - 1)) * bytes, form = number;
        kernels_.gradient(call, form, before, scratch + at.gradients + here * elements_.bytes(),
                          static_cast<char*>(b.grad_input) + here * bytes, buffer(worker));
    });
}

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_matrices(const OperatorProblem& problem, const Options& options,
                                                       std::string& refusal) {
    if (!problem.is_matmul()) {
        refusal = "elements are no matrices";
        return nullptr;
    }
    return std::make_unique<Products>(problem, options);
}

}  // namespace flashscan::cpu
