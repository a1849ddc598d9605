// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/error.h"
#include "core/workspace.h"
#include "cpu/isa.h"
#include "cpu/number.h"
#include "cpu/operator.h"
#include "cpu/operator_elements.h"
#include "cpu/stream_stores.h"

namespace flashscan::cpu {
namespace {

NumbersKernels kernels_for(Isa isa, const OperatorProblem& p) {
    const auto kind = static_cast<int32_t>(p.kind);
    const Number number = number_of(state_dtype(p.dtype));
    return FLASHSCAN_OF_ISA(isa, numbers_kernels(kind, number, is_complex(p.dtype)));
}

bool steps_are_adjacent(const OperatorProblem& p) { return p.steps().time == 1; }

// Rows whose steps are adjacent are channels of one row, unless the bits must not depend on how many there are.
OperatorProblem in_one_row(OperatorProblem p, bool batch_invariant) {
    if (!steps_are_adjacent(p) || p.packed() || batch_invariant || p.array_channels > p.channels) return p;
    p.layout = Layout::bct;
    p.channels = p.batch * p.channels;
    p.batch = 1;
    return p;
}

class Numbers final : public OperatorKernel {
  public:
    Numbers(const OperatorProblem& problem, const Options& options, Isa isa, const NumbersKernels& kernels)
        : p_(in_one_row(problem, options.batch_invariant)),
          isa_(isa),
          threads_(thread_count(options.threads)),
          state_(state_dtype(p_.dtype)),
          parts_(is_complex(p_.dtype) ? 2 : 1),
          kernels_(kernels),
          tiling_(kernels_.tiling(p_.channels,
                                  p_.time / std::max<int64_t>(p_.packed() ? int64_t{p_.state_rows()} : 1, 1),
                                  steps_are_adjacent(p_))),
          lanes_(tiling_.lanes),
          tile_(tiling_.steps),
          cut_(cut_of(options.batch_invariant)),
          pieces_(most_pieces(p_, lanes_, cut_)) {}

    std::string describe() const override {
        return fmt::format("{}, {} threads; blocks of {} lanes, {}", name_of(isa_), threads_, lanes_,
                           cut_ > 0 ? fmt::format("pieces of {} steps", cut_) : "time in order");
    }

    size_t scratch_bytes(Pass pass) const override { return layout(pass).bytes; }

    void forward(const OperatorBuffers& b, void*) const override {
        const Scratch at = layout(Pass::forward);
        auto* scratch = static_cast<char*>(b.scratch);
        const std::vector<ChainPiece> pieces = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, lanes_, cut_);
        if (b.index != nullptr) find_indices(b);  // after all that allocates, before OUTPUT takes INPUT's place
        NumbersCall call = common();
        call.x = static_cast<const char*>(b.input);
        call.y = static_cast<char*>(b.output);
        call.stream_stores = b.output != b.input && streams_outputs(output_bytes());
        const auto carry = [&](int64_t k) { return scratch + at.carries + k * block_bytes(); };
        const auto total = [&](int64_t k) { return scratch + at.totals + k * block_bytes(); };
        start(pieces, b.state_in, carry);
        const auto work = [&](int64_t worker) { return scratch + at.work + worker * kernels_.work_bytes; };
        const auto run = [&](int64_t k, int64_t worker) {
            const ChainPiece& piece = pieces[static_cast<size_t>(k)];
            if (piece.at.steps > 0)
                (p_.is_reduction() ? kernels_.fold : kernels_.scan)(call, piece.at, carry(k), work(worker));
            if (piece.last) finish(piece, carry(k), b);
        };
        if (p_.is_reduction() && cut_ > 0) {
            scan_pieces(
                threads_, pieces, true,
                [&](int64_t k, int64_t worker) { fold(call, pieces, k, total(k), work(worker)); },
                [&](int64_t k) { join(pieces, k, carry, total); },
                [&](int64_t k, int64_t worker) {
                    if (pieces[static_cast<size_t>(k)].last) run(k, worker);
                });
            return;
        }
        scan_pieces(
            threads_, pieces, cut_ > 0,
            [&](int64_t k, int64_t worker) { fold(call, pieces, k, total(k), work(worker)); },
            [&](int64_t k) { join(pieces, k, carry, total); }, run);
    }

    void backward(const OperatorBuffers& b, void*) const override;

  private:
    struct Scratch {
        size_t carries, totals, gradients, products, marks, work, bytes;
    };

    // Returns the steps of a piece, 0 where blocks are not cut in time. Long ones are where few blocks would leave
    // threads idle, and always where bits may not depend on the batch.
    int64_t cut_of(bool batch_invariant) const {
        constexpr int64_t few = 8, tiles = 16;
        const Extent blocks = p_.state_rows() * ceil_div(p_.channels, lanes_);
        const int64_t cut = tiles * tile_;
        return (batch_invariant || blocks < few) && p_.time > cut ? cut : 0;
    }
    int64_t output_bytes() const { return p_.batch * p_.time * p_.channels * size_of(p_.dtype); }
    int64_t number_bytes() const { return size_of(state_); }
    int64_t block_bytes() const { return lanes_ * number_bytes(); }
    // The most tiles of a piece.
    int64_t tiles() const { return ceil_div(cut_ > 0 ? Extent(cut_) : nonzero(p_.time), tile_); }

    Scratch layout(Pass pass) const {
        Workspace workspace;
        Scratch s{};
        const auto blocks = [&](Extent count) { return workspace.book(count * block_bytes()); };
        s.carries = blocks(pieces_ + 1);
        s.totals = blocks(cut_ > 0 ? pieces_ : Extent());
        if (pass == Pass::backward) {
            s.gradients = blocks(pieces_);
            s.products = blocks(cut_ > 0 ? pieces_ : Extent());
            s.marks = blocks(most_marks());
        }
        s.work = workspace.book(static_cast<size_t>(std::min<int64_t>(threads_, pieces_) * kernels_.work_bytes));
        s.bytes = workspace.bytes();
        return s;
    }
    // Marks of a piece start at a place that follows from its steps: pieces of packed rows have one tile more at the
    // most.
    Extent most_marks() const {
        if (cut_ > 0) return pieces_ * tiles();
        const Extent blocks = ceil_div(p_.channels, lanes_);
        const Extent rows = p_.packed() ? Extent(1) : p_.batch;
        return (rows * (p_.time / tile_ + 1) + p_.state_rows()) * blocks;
    }

    NumbersCall common() const {
        const auto steps = p_.steps();
        NumbersCall call{};
        call.number = number_of(p_.dtype);
        call.parts = parts_;
        call.time_stride = steps.time;
        call.lane_stride = steps.channels;
        call.ascending = p_.direction == Direction::forward;
        call.exclusive = p_.mode == OperatorMode::exclusive;
        call.tiling = tiling_;
        return call;
    }

    // Indices are the same however many lanes a block has, so that these are fewer where threads would be idle.
    int64_t index_lanes() const {
        const int64_t least = steps_are_adjacent(p_) ? 1 : 16;  // of f32, those of a vector at the most
        const int64_t blocks_of_row = ceil_div(int64_t{threads_}, std::max<int64_t>(p_.state_rows(), 1));
        return std::min(lanes_, round_up(ceil_div(int64_t{p_.channels}, blocks_of_row), least));
    }
    // Sequences are not cut in time here.
    void find_indices(const OperatorBuffers& b) const {
        const std::vector<ChainPiece> whole = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, index_lanes(), 0);
        auto* const index = static_cast<int64_t*>(b.index);
        const auto* const state = static_cast<const char*>(b.state_in);
        NumbersCall call = common();
        call.x = static_cast<const char*>(b.input);
        call.stream_stores = streams_outputs(p_.batch * p_.time * p_.channels * int64_t{sizeof(int64_t)});
        for_each(threads_, static_cast<int64_t>(whole.size()), [&](int64_t k, int64_t) {
            const ChainPiece& piece = whole[static_cast<size_t>(k)];
            kernels_.indices(call, piece.at, state == nullptr ? nullptr : state + piece.state * number_bytes(),
                             p_.is_reduction() ? nullptr : index, p_.is_reduction() ? index + piece.state : nullptr);
        });
    }

    template <typename Carry>
    void start(const std::vector<ChainPiece>& pieces, const void* state_in, Carry carry) const {
        for (size_t k = 0; k < pieces.size(); ++k) {
            if (!pieces[k].first) continue;
            if (state_in != nullptr)
                std::memcpy(carry(static_cast<int64_t>(k)),
                            static_cast<const char*>(state_in) + pieces[k].state * number_bytes(),
                            static_cast<size_t>(pieces[k].at.lanes * number_bytes()));
            else
                for (int64_t lane = 0; lane < pieces[k].at.lanes; ++lane)
                    reference::store_identity(carry(static_cast<int64_t>(k)), state_, lane, p_.kind);
        }
    }
    void fold(const NumbersCall& call, const std::vector<ChainPiece>& pieces, int64_t k, char* total,
              char* work) const {
        OperatorPiece piece = pieces[static_cast<size_t>(k)].at;
        piece.start = true;
        kernels_.fold(call, piece, total, work);
    }
    template <typename Carry, typename Total>
    void join(const std::vector<ChainPiece>& pieces, int64_t k, Carry carry, Total total) const {
        const OperatorPiece& piece = pieces[static_cast<size_t>(k)].at;
        if (piece.start)
            std::memcpy(carry(k + 1), total(k), static_cast<size_t>(block_bytes()));
        else
            kernels_.join(piece.lanes * parts_, carry(k), total(k), carry(k + 1));
    }
    void finish(const ChainPiece& piece, const char* carry, const OperatorBuffers& b) const {
        const auto bytes = static_cast<size_t>(piece.at.lanes * number_bytes());
        if (b.state_out != nullptr)
            std::memcpy(static_cast<char*>(b.state_out) + piece.state * number_bytes(), carry, bytes);
        if (!p_.is_reduction()) return;
        for (int64_t lane = 0; lane < piece.at.lanes; ++lane)
            reference::convert(b.output, p_.dtype, piece.state + lane, carry, state_, lane);
    }
    // The gradient of y after the last step.
    void enter(const ChainPiece& piece, char* gradient, const OperatorBuffers& b) const {
        for (int64_t lane = 0; lane < piece.at.lanes; ++lane) {
            reference::Wide sum = 0;
            if (b.grad_state_out != nullptr) sum += reference::load(b.grad_state_out, state_, piece.state + lane);
            if (p_.is_reduction()) sum += reference::load(b.grad_output, p_.dtype, piece.state + lane);
            reference::store(gradient, state_, lane, sum);
        }
    }

    OperatorProblem p_;
    Isa isa_;
    int threads_;
    Dtype state_;
    int32_t parts_;
    NumbersKernels kernels_;
    NumbersTiling tiling_;
    int64_t lanes_, tile_, cut_;
    Extent pieces_;
};

void Numbers::backward(const OperatorBuffers& b, void*) const {
    const Scratch at = layout(Pass::backward);
    auto* scratch = static_cast<char*>(b.scratch);
    const std::vector<ChainPiece> pieces = pieces_of(p_, b.seq_offsets, b.state_in != nullptr, lanes_, cut_);
    NumbersCall call = common();
    call.x = static_cast<const char*>(b.input);
    call.dy = p_.is_reduction() ? nullptr : static_cast<const char*>(b.grad_output);
    call.exclusive = call.exclusive && call.dy != nullptr;
    const auto part = [&](size_t start, int64_t k) { return scratch + start + k * block_bytes(); };
    const auto carry = [&](int64_t k) { return part(at.carries, k); };
    const auto total = [&](int64_t k) { return part(at.totals, k); };
    const auto gradient = [&](int64_t k) { return part(at.gradients, k); };
    std::vector<int64_t> first_mark(pieces.size() + 1);
    for (size_t k = 0; k < pieces.size(); ++k)
        first_mark[k + 1] = first_mark[k] + (pieces[k].at.steps + tile_ - 1) / tile_;
    const auto marks = [&](int64_t k) { return part(at.marks, first_mark[static_cast<size_t>(k)]); };
    const auto work = [&](int64_t worker) { return scratch + at.work + worker * kernels_.work_bytes; };
    start(pieces, b.state_in, carry);
    // Finds the carries into pieces, and the marks of their tiles, which lie as densely as the lanes.
    scan_pieces(
        threads_, pieces, cut_ > 0,
        [&](int64_t k, int64_t worker) {
            if (b.input != nullptr) fold(call, pieces, k, total(k), work(worker));
        },
        [&](int64_t k) {
            if (b.input != nullptr) join(pieces, k, carry, total);
        },
        [&](int64_t k, int64_t worker) {
            const OperatorPiece& piece = pieces[static_cast<size_t>(k)].at;
            if (b.input != nullptr && piece.steps > 0) kernels_.mark(call, piece, carry(k), marks(k), work(worker));
        });
    const auto count = static_cast<int64_t>(pieces.size());
    if (cut_ > 0) {
        NumbersCall quiet = call;
        quiet.y = nullptr;
        for_each(threads_, count, [&](int64_t k, int64_t worker) {
            const ChainPiece& piece = pieces[static_cast<size_t>(k)];
            if (piece.first) return;
            char* product = part(at.products, k);
            for (int64_t lane = 0; lane < piece.at.lanes; ++lane) {
                reference::store(product, state_, lane, 1);
                reference::store(total(k), state_, lane, 0);
            }
            kernels_.backward(quiet, piece.at, marks(k), total(k), product, work(worker));
        });
    }
    for (int64_t k = count - 1; k >= 0; --k) {
        const ChainPiece& piece = pieces[static_cast<size_t>(k)];
        if (piece.last) enter(piece, gradient(k), b);
        if (piece.first) continue;
        std::memcpy(gradient(k - 1), gradient(k), static_cast<size_t>(block_bytes()));
        kernels_.join_backward(piece.at.lanes * parts_, part(at.products, k), total(k), gradient(k - 1));
    }
    call.y = static_cast<char*>(b.grad_input);
    call.stream_stores = b.grad_input != b.grad_output && b.grad_input != b.input && streams_outputs(output_bytes());
    for_each(threads_, count, [&](int64_t k, int64_t worker) {
        const ChainPiece& piece = pieces[static_cast<size_t>(k)];
        if (piece.at.steps > 0) kernels_.backward(call, piece.at, marks(k), gradient(k), nullptr, work(worker));
        if (piece.first && b.grad_state_in != nullptr)
            std::memcpy(static_cast<char*>(b.grad_state_in) + piece.state * number_bytes(), gradient(k),
                        static_cast<size_t>(piece.at.lanes * number_bytes()));
    });
}

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_numbers(const OperatorProblem& problem, const Options& options,
                                                      std::string& refusal) {
    if (!problem.on_numbers()) {
        refusal = "elements are no numbers";
        return nullptr;
    }
    const Isa isa = choose_isa();
    const NumbersKernels kernels = kernels_for(isa, problem);
    if (kernels.scan != nullptr) return std::make_unique<Numbers>(problem, options, isa, kernels);
    refusal = fmt::format("there is none for {} of {}", name_of(problem.kind), name_of(problem.dtype));
    return nullptr;
}

}  // namespace flashscan::cpu
