// SPDX-License-Identifier: Apache-2.0
// Host side of "diagonal": recurrent networks of heads of one unit.
#include <algorithm>

#include "core/error.h"
#include "core/workspace.h"
#include "cpu/rnn.h"
#include "cpu/rnn_call.h"
#include "cpu/threads.h"

namespace flashscan::cpu {
namespace {

// Units of a strip: so many that what it reads of a step are whole runs of memory, so few that its buffer, R and BIAS
// fit the innermost cache.
constexpr int64_t most_units = 256, fewest_units = 64;

// The units are those of one head, since they are neighbours in memory. R has an element for each of them.
RnnProblem one_head(RnnProblem p) {
    p.head_dim = p.heads;
    p.heads = 1;
    return p;
}

// A few strips for each thread, within these bounds. Their size changes no bit.
int64_t units_of_strip(const RnnProblem& p, int threads, int64_t vector) {
    const int64_t wanted = ceil_div(int64_t{4} * threads, std::max<int64_t>(p.state_rows(), 1));
    const int64_t units = ceil_div<int64_t>(p.head_dim, wanted);
    return round_up(std::clamp(units, fewest_units, most_units), vector);
}

class Diagonal final : public RnnKernel {
  public:
    Diagonal(const RnnProblem& problem, const Options& options)
        : p_(one_head(problem)),
          isa_(choose_isa()),
          threads_(thread_count(options.threads)),
          size_(size_of(state_dtype(p_.dtype))),
          kernels_(rnn_kernels_for(isa_, p_)),
          units_(units_of_strip(p_, threads_, kernels_.vector_bytes / size_)),
          strips_(ceil_div<int64_t>(p_.head_dim, units_)),
          forward_(book(Pass::forward)),
          backward_(book(Pass::backward)) {}

    std::string describe() const override {
        return fmt::format("{}, {} threads; {} strips of {} units of a sequence, {} steps in order", name_of(isa_),
                           threads_, p_.state_rows() * strips_, std::min<int64_t>(units_, p_.head_dim), p_.time);
    }
    size_t scratch_bytes(Pass pass) const override { return layout(pass).bytes; }
    size_t reserve_bytes() const override { return rnn_reserve_bytes(p_, kernels_); }

    void forward(const RnnBuffers& buffers, void*) const override { run(buffers, Pass::forward); }
    void backward(const RnnBuffers& buffers, void*) const override { run(buffers, Pass::backward); }

  private:
    // Offsets in SCRATCH, and the bytes of a thread's buffer in it.
    struct Scratch {
        size_t weights, bias, weight_sums, buffers, bytes;
        int64_t buffer_bytes;
    };

    const Scratch& layout(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }

    Scratch book(Pass pass) const {
        const bool backward = pass == Pass::backward;
        const Extent depth = rnn_extents(p_, kernels_).depth, rows = p_.state_rows();
        const CellCounts counts = p_.counts();
        const auto bytes = [&](Extent numbers) { return numbers * size_; };
        Workspace workspace;
        Scratch scratch{};
        scratch.weights = workspace.book(bytes(depth.named("SCRATCH") * counts.gates));
        scratch.bias = workspace.book(bytes(depth.named("SCRATCH") * counts.biases * (backward ? rows : Extent(1))));
        if (backward) scratch.weight_sums = workspace.book(bytes(depth.named("SCRATCH") * counts.gates * rows));
        scratch.buffer_bytes = round_up<int64_t>(kernels_.diagonal_numbers(units_, backward) * size_, 64);
        scratch.buffers = workspace.book(Extent(scratch.buffer_bytes) * threads_);
        scratch.bytes = workspace.bytes();
        return scratch;
    }

    void run(const RnnBuffers& buffers, Pass pass) const {
        const std::vector<RnnSequence> sequences = rnn_sequences(p_, buffers.seq_offsets);
        RnnCall call = rnn_call(p_, kernels_, buffers, sequences, pass);
        const bool backward = pass == Pass::backward;
        const Scratch& at = layout(pass);
        auto* const scratch = static_cast<char*>(buffers.scratch);
        call.panels = scratch + at.weights;
        kernels_.pack_diagonal(call);
        if (!backward) {
            call.bias_numbers = scratch + at.bias;
            kernels_.pack_bias(call);
        }
        if (call.grad_bias != nullptr) call.bias_sums = scratch + at.bias;
        if (call.grad_weight != nullptr) call.weight_sums = scratch + at.weight_sums;
        const auto kernel = backward ? kernels_.diagonal_backward : kernels_.diagonal_forward;
        // The longest sequences first.
        for_each(threads_, p_.state_rows() * strips_, [&](int64_t i, int64_t worker) noexcept {
            const int64_t begin = i % strips_ * units_;
            kernel(call, {i / strips_, begin, std::min<int64_t>(begin + units_, p_.head_dim),
                          scratch + at.buffers + worker * at.buffer_bytes});
        });
        if (call.grad_weight != nullptr) kernels_.diagonal_gradient(call);
        if (call.grad_bias != nullptr) kernels_.bias_gradient(call);
    }

    RnnProblem p_;
    Isa isa_;
    int threads_;
    int64_t size_;  // of a number
    RnnKernels kernels_;
    int64_t units_, strips_;  // units of a strip, and strips of a sequence
    Scratch forward_, backward_;
};

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_diagonal(const RnnProblem& problem, const Options& options, std::string& refusal) {
    if (problem.head_dim != 1) {
        refusal = fmt::format("head_dim is {}; takes heads of one unit", problem.head_dim);
        return nullptr;
    }
    return std::make_unique<Diagonal>(problem, options);
}

}  // namespace flashscan::cpu
