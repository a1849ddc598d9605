// SPDX-License-Identifier: Apache-2.0
#include "cpu/rnn.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/workspace.h"
#include "cpu/rnn_call.h"
#include "cpu/threads.h"

namespace flashscan::cpu {
namespace {

// How the work is shared: sequences of a block, and threads that walk a block together.
struct Sharing {
    int64_t rows = 1, members = 1;
};

// Chooses the sharing of least cost: few enough sequences in a block that all threads have work to the end, otherwise
// many, because each block reads the matrix once a step. Where there are fewer blocks than threads, several threads
// walk one if `products`, the multiplications of a step of a row, are worth the waiting. Costs are in rows.
Sharing share(Extent rows, Extent heads, int threads, double products) {
    constexpr int64_t most = 48, reading = 6;
    // A thread makes about 32 products in a nanosecond. The threads of a block meet a few times a step, which takes
    // some microseconds, and all of them wait for the one that is late.
    const double meeting = 4000 * 32 / products, late = 1.25;
    Sharing best;
    double best_cost = std::numeric_limits<double>::max();
    for (int64_t size = std::min<int64_t>(most, rows); size >= 1; --size) {
        const Extent blocks = ceil_div(rows, size) * heads;
        const auto consider = [&](int64_t members, double cost) {
            if (cost < best_cost) best = {size, members}, best_cost = cost;
        };
        consider(1, static_cast<double>(ceil_div(blocks, threads)) * static_cast<double>(size + reading));
        const int64_t members = threads / blocks;
        if (members > 1)
            consider(members, late * static_cast<double>(size + reading) / static_cast<double>(members) + meeting);
    }
    return best;
}

// Forward multiplies by the matrix without packing it up to direct_products rows times steps, where packing would take
// longer than it saves, and for one row of at least direct_row_units units in any number of steps, where it saves
// nothing. Where bits may not depend on the rows, up to direct_steps steps decide. The matrix is always packed for
// packed sequences, whose bits may not depend on the steps of others, and for heads of fewer than direct_units units,
// whose rows may be shorter than a vector.
constexpr int64_t direct_products = 64, direct_steps = 4, direct_units = 16, direct_row_units = 64;

// Where the threads of one block wait for each other.
struct Meeting {
    Barrier* barrier;
    int members;
};

class Rnn final : public RnnKernel {
  public:
    Rnn(const RnnProblem& problem, const Options& options)
        : p_(problem),
          isa_(choose_isa()),
          batch_invariant_(options.batch_invariant),
          threads_(thread_count(options.threads)),
          size_(size_of(state_dtype(p_.dtype))),
          kernels_(rnn_kernels_for(isa_, p_)),
          sharing_(share(p_.state_rows(), p_.heads, threads_,
                         static_cast<double>(p_.counts().gates * p_.head_dim * p_.head_dim))),
          rows_(sharing_.rows),
          blocks_(ceil_div(p_.state_rows(), rows_)),
          // A few slices for each thread; their number changes no sum.
          slices_(std::clamp<int64_t>(2 * threads_ / (p_.counts().gates * p_.heads), 1, (p_.head_dim + 31) / 32)),
          forward_(book(Pass::forward)),
          backward_(book(Pass::backward)) {}

    std::string describe() const override {
        return fmt::format("{}, {} threads; {} x {} blocks of {} rows and a head, {} threads each, {} steps in order{}",
                           name_of(isa_), threads_, blocks_, p_.heads, rows_, sharing_.members, p_.time,
                           direct() ? ", WEIGHT as it lies" : "");
    }
    size_t scratch_bytes(Pass pass) const override { return layout(pass).bytes; }
    size_t reserve_bytes() const override { return rnn_reserve_bytes(p_, kernels_); }

    void forward(const RnnBuffers& buffers, void*) const override {
        const std::vector<RnnSequence> sequences = rnn_sequences(p_, buffers.seq_offsets);
        const RnnCall call = make_call(buffers, sequences, Pass::forward);
        kernels_.pack_bias(call);
        run_blocks(call, Pass::forward, buffers.scratch);
    }

    void backward(const RnnBuffers& buffers, void*) const override {
        const std::vector<RnnSequence> sequences = rnn_sequences(p_, buffers.seq_offsets);
        RnnCall call = make_call(buffers, sequences, Pass::backward);
        auto* scratch = static_cast<char*>(buffers.scratch);
        if (buffers.grad_weight != nullptr && buffers.grad_input == nullptr)
            call.input.data = scratch + backward_.grad_input;
        if (call.grad_bias != nullptr) call.bias_sums = scratch + backward_.bias;
        run_blocks(call, Pass::backward, scratch);
        if (call.grad_weight != nullptr) run_weight_gradient(call, scratch);
        if (call.grad_bias != nullptr) kernels_.bias_gradient(call);
    }

  private:
    // Offsets in SCRATCH, and the bytes of one block's or slice's buffer in it.
    struct Scratch {
        size_t panels, bias, grad_input, buffers, bytes;
        int64_t block_bytes, slice_bytes;
    };

    bool direct() const {
        if (p_.packed() || p_.head_dim < direct_units) return false;
        if (batch_invariant_) return p_.time <= direct_steps;
        return p_.state_rows() * p_.time <= direct_products ||
               (p_.state_rows() == 1 && p_.head_dim >= direct_row_units);
    }
    const Scratch& layout(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    int64_t slice_rows() const { return ceil_div(p_.head_dim, slices_); }
    RnnCall make_call(const RnnBuffers& buffers, const std::vector<RnnSequence>& sequences, Pass pass) const;
    Scratch book(Pass pass) const;
    void run_blocks(const RnnCall& call, Pass pass, void* scratch) const;
    void run_weight_gradient(const RnnCall& call, char* scratch) const;

    RnnProblem p_;
    Isa isa_;
    bool batch_invariant_;
    int threads_;
    int64_t size_;  // of a number
    RnnKernels kernels_;
    Sharing sharing_;
    int64_t rows_;
    Extent blocks_, slices_;
    Scratch forward_, backward_;
};

RnnCall Rnn::make_call(const RnnBuffers& buffers, const std::vector<RnnSequence>& sequences, Pass pass) const {
    auto* scratch = static_cast<char*>(buffers.scratch);
    RnnCall call = rnn_call(p_, kernels_, buffers, sequences, pass);
    call.panels = scratch + layout(pass).panels;
    call.direct = pass == Pass::forward && direct();
    call.panel_numbers = call.direct ? 0 : kernels_.panel_numbers(call, pass == Pass::backward);
    if (pass == Pass::forward) call.bias_numbers = scratch + layout(pass).bias;
    return call;
}

Rnn::Scratch Rnn::book(Pass pass) const {
    const RnnCall call = rnn_extents(p_, kernels_);
    const bool backward = pass == Pass::backward;
    const auto bytes = [&](Extent numbers) { return numbers * size_; };
    const Extent biases = p_.counts().biases * p_.heads * call.depth;
    Workspace workspace;
    Scratch scratch{};
    const int64_t panels = !backward && direct() ? 0 : kernels_.panel_numbers(call, backward);
    scratch.panels = workspace.book(bytes(p_.heads.named("SCRATCH") * panels));
    scratch.bias = workspace.book(bytes(biases * (backward ? p_.state_rows() : Extent(1))));
    if (backward) scratch.grad_input = workspace.book(p_.input_count() * size_of(p_.dtype));
    // Blocks start at whole cache lines. The steps are done when the slices start.
    const auto aligned = [&](int64_t numbers) { return (numbers * size_ + 63) / 64 * 64; };
    scratch.block_bytes = aligned(kernels_.block_numbers(call, rows_, backward));
    scratch.slice_bytes = backward ? aligned(kernels_.slice_numbers(call, slice_rows())) : 0;
    scratch.buffers = workspace.book(
        max(blocks_ * scratch.block_bytes, slices_ * scratch.slice_bytes * p_.counts().gates) * p_.heads);
    scratch.bytes = workspace.bytes();
    return scratch;
}

void Rnn::run_blocks(const RnnCall& call, Pass pass, void* scratch) const {
    const int64_t gates = p_.counts().gates;
    const bool backward = pass == Pass::backward;
    auto pack = [&](int64_t i) noexcept { kernels_.pack_weight(call, i / gates, i % gates, backward); };
    if (!call.direct) parallel_for(threads_, p_.heads * gates, false, pack);
    char* buffers = static_cast<char*>(scratch) + layout(pass).buffers;
    const auto kernel = backward ? kernels_.backward : kernels_.forward;
    const auto block = [&](int64_t i) {
        const int64_t begin = i / p_.heads * rows_;
        return RnnBlock{i % p_.heads,
                        begin,
                        std::min(begin + rows_, call.num_sequences),
                        buffers + i * layout(pass).block_bytes,
                        0,
                        1,
                        nullptr,
                        nullptr};
    };
    const int64_t blocks = p_.heads * blocks_;
    if (sharing_.members == 1) {
        // The longest sequences first.
        auto task = [&](int64_t i) noexcept { kernel(call, block(i)); };
        return parallel_for(threads_, blocks, false, task);
    }
    std::vector<Barrier> barriers(static_cast<size_t>(blocks));
    // There may be fewer threads than were asked for, even fewer than blocks.
    auto member = [&](int i, int count) noexcept {
        const int64_t members = std::max<int64_t>(1, count / blocks);
        for (int64_t j = i / members; j < blocks; j += count / members) {
            Meeting meeting{&barriers[static_cast<size_t>(j)], static_cast<int>(members)};
            RnnBlock mine = block(j);
            mine.member = i % members;
            mine.members = members;
            mine.wait = [](void* at) { static_cast<Meeting*>(at)->barrier->wait(static_cast<Meeting*>(at)->members); };
            mine.barrier = &meeting;
            kernel(call, mine);
        }
    };
    parallel_team(static_cast<int>(blocks * sharing_.members), member);
}

void Rnn::run_weight_gradient(const RnnCall& call, char* scratch) const {
    const int64_t gates = p_.counts().gates, rows = slice_rows();
    auto task = [&](int64_t i) noexcept {
        const int64_t begin = std::min<int64_t>(i % slices_ * rows, p_.head_dim);
        kernels_.weight_gradient(call, {int64_t{i / slices_ / gates}, int64_t{i / slices_ % gates}, begin,
                                        std::min<int64_t>(begin + rows, p_.head_dim),
                                        scratch + backward_.buffers + i * backward_.slice_bytes});
    };
    parallel_for(threads_, p_.heads * gates * slices_, false, task);
}

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_blocked(const RnnProblem& problem, const Options& options, std::string&) {
    return std::make_unique<Rnn>(problem, options);
}

}  // namespace flashscan::cpu
