// SPDX-License-Identifier: Apache-2.0
// Composes the passes of a rank of linear recurrences and of gated layers of kernels of one GPU and of messages between
// ranks. Which way carries travel is settled by the numbers of steps of all ranks, for each pass; gated layers have the
// second one.
//
//     gathered    summarise, close -> all-gather -> enter -> the kernel of one GPU, from the carry
//     wavefront   that of wave.h; backward an all-gather of the last states of all ranks comes first
#include "cuda/ranks/ranks.h"

#include <algorithm>
#include <utility>

#include "cuda/launch/alignment.h"
#include "cuda/launch/rank_threads.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/launch/view_of.h"
#include "cuda/ranks/families.h"
#include "cuda/ranks/rank_plan.h"
#include "cuda/ranks/table.h"
#include "cuda/ranks/wave.h"

namespace flashscan::cuda {
namespace {

constexpr int rank_warps = rank_threads / 32;
constexpr int64_t least_chunk_steps = 256, most_chunks = 1024;
// With at most so many channels a warp takes each row by itself (summarise_time), since few lanes would read
// neighbours.
constexpr int64_t few_channels = 8;

template <typename Family>
class Ranks final : public Family::Kernel {
    using Problem = typename Family::Problem;
    using Buffers = typename Family::Buffers;
    using Inner = typename Family::Kernel;

  public:
    Ranks(const Problem& problem, const Options& options, std::unique_ptr<Inner> inner, Alone<Family> make)
        : p_(problem),
          options_(options),
          ranks_(options.communicator),
          inner_(std::move(inner)),
          wavefront_(problem, options, make),
          kernels_(rank_kernels(p_.dtype, Family::gate_dtype(p_))) {}

    void meet() override {
        if (!alone()) wavefront_.meet();
    }
    void settle(std::span<const int64_t> steps) override {
        if (alone()) return;
        Family::check_steps(p_, ranks_, steps);
        const int64_t most = most_steps(steps);
        wavefront_.settle(passes, [&](Pass pass) { return work(pass, most); });
        for (const Pass pass : passes) {
            lay_out(pass);
            settle_launches(pass);
        }
    }

    std::string describe() const override {
        if (alone()) return fmt::format("{}; rank {} of {}", inner_->describe(), ranks_.rank, ranks_.size);
        std::string text = is_wavefront(Pass::forward) && is_wavefront(Pass::backward) ? "" : inner_->describe() + "; ";
        text += fmt::format("rank {} of {}", ranks_.rank, ranks_.size);
        for (const Pass pass : passes)
            text += "; carries " + wavefront_.describe(pass, fmt::format("from summaries of {} chunks",
                                                                         plan(pass).summarise.params.chunks));
        return text;
    }
    size_t scratch_bytes(Pass pass) const override { return alone() ? inner_->scratch_bytes(pass) : plan(pass).bytes; }

    void forward(const Buffers& b, void* stream) const override {
        if (alone()) return inner_->forward(b, stream);
        const DeviceScope scope(options_.device);
        if (is_wavefront(Pass::forward)) return wavefront_.run(Pass::forward, b, nullptr, false, stream);
        const RankPlan& of = plan(Pass::forward);
        char* const base = static_cast<char*>(b.scratch);
        summarise(Pass::forward, b, stream);
        exchange(Pass::forward, b, stream);
        Buffers own = b;
        own.scratch = base + of.inner;
        if (place(Pass::forward) != 0) own.state_in = base + of.carry;
        inner_->forward(own, stream);
    }

    void backward(const Buffers& b, void* stream) const override {
        if (alone()) return inner_->backward(b, stream);
        const DeviceScope scope(options_.device);
        const RankPlan& of = plan(Pass::backward);
        char* const base = static_cast<char*>(b.scratch);
        summarise(Pass::backward, b, stream);
        exchange(Pass::backward, b, stream);
        const void* before = place(Pass::forward) != 0 ? base + of.before : b.state_in;
        if (is_wavefront(Pass::backward))
            return wavefront_.run(Pass::backward, b, before, before != b.state_in, stream);
        Buffers own = b;
        own.scratch = base + of.inner;
        own.state_in = before;
        if (place(Pass::backward) != 0) own.grad_state_out = base + of.carry;
        inner_->backward(own, stream);
    }

  private:
    static constexpr Pass passes[] = {Pass::forward, Pass::backward};
    RankPlan& plan(Pass pass) { return pass == Pass::forward ? forward_ : backward_; }
    const RankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    bool is_wavefront(Pass pass) const { return wavefront_.is_wavefront(pass); }
    int64_t rows() const { return p_.state_rows() * p_.channels; }
    // Returns whether nothing comes from another rank.
    bool alone() const { return ranks_.size == 1 || rows() == 0; }
    // Returns this rank's place in the order of the pass.
    int32_t place(Pass pass) const { return ranks_.place(ranks_.rank, order(pass)); }
    Direction order(Pass pass) const { return wavefront_.order(pass); }
    int64_t state_bytes() const { return rows() * size_of(state_dtype(p_.dtype)); }
    int64_t product_bytes() const { return rows() * size_of(state_dtype(Family::gate_dtype(p_))); }

    RankWork work(Pass pass, int64_t steps) const {
        const auto row_steps =
            static_cast<double>(p_.packed() ? int64_t{p_.channels} : rows()) * static_cast<double>(steps);
        const auto [summary, whole] = Family::traffic(p_, pass);
        RankWork w;
        w.ranks = ranks_.size;
        w.summary_us = stream_us(summary * row_steps);
        w.pass_us = stream_us(whole * row_steps);
        w.state_bytes = static_cast<double>(state_bytes());
        w.message_bytes = static_cast<double>(product_bytes() + state_bytes() + rows()) +
                          (pass == Pass::backward ? w.state_bytes : 0);
        w.edge_bytes = pass == Pass::backward ? w.state_bytes + static_cast<double>(rows()) : 0;
        w.rows = rows();
        w.most_groups = most_groups(p_, pass);
        return w;
    }

    MessagePlaces book(int64_t count, bool map, bool edge) const {
        Workspace places;
        MessagePlaces at{map, edge};
        if (map) {
            at.product = places.book(Extent(product_bytes(), "SCRATCH") * count);
            at.sum = places.book(Extent(state_bytes(), "SCRATCH") * count);
        }
        at.marks = places.book(Extent(rows(), "SCRATCH") * count);
        if (edge) at.edge = places.book(Extent(state_bytes(), "SCRATCH") * count);
        at.bytes = places.bytes();
        return at;
    }

    void lay_out(Pass pass) {
        RankPlan& to = plan(pass);
        const bool map = !is_wavefront(pass), backward = pass == Pass::backward;
        // The last rank's steps lead to no other rank.
        const int64_t of_row = to.summarise.params.chunks = map && place(pass) != ranks_.size - 1 ? chunks() : 0;
        Workspace scratch;
        to.message = book(1, map, backward);
        to.chunk = book(of_row, true, false);
        to.records = scratch.book(Extent(to.chunk.bytes, "SCRATCH"));
        const bool gathers = map || backward;
        to.sent = scratch.book(gathers ? Extent(to.message.bytes, "SCRATCH") : Extent());
        to.received = scratch.book(gathers ? Extent(to.message.bytes, "SCRATCH") * ranks_.size : Extent());
        for (size_t* at : {&to.carry, &to.before}) *at = scratch.book(Extent(state_bytes(), "SCRATCH"));
        to.inner = scratch.book(map ? Extent(inner_->scratch_bytes(pass), "SCRATCH") : Extent());
        wavefront_.book(pass, scratch);
        to.bytes = scratch.bytes();
    }
    void settle_launches(Pass pass) {
        RankPlan& to = plan(pass);
        const bool backward = pass == Pass::backward;
        const Strides& source = backward ? p_.grad_output : p_.input;
        RankSummaryParams& s = to.summarise.params;
        s.gate = view_of(p_.gate, size_of(p_.gate_dtype));
        s.source = view_of(source, size_of(p_.dtype));
        s.offsets = offsets_of(p_, nullptr);
        s.rows = rows();
        s.channels = p_.channels;
        s.time = p_.time;
        // Whole segments of a warp, so that vectors stay aligned.
        if (s.chunks > 0) s.chunk_steps = round_up(ceil_div<int64_t>(p_.time, s.chunks), least_chunk_steps);
        if constexpr (Family::gathers) s.gate_form = static_cast<int32_t>(p_.gate_form);
        s.down = order(pass) == Direction::reverse ? 1 : 0;
        s.gate_vectors = has_vectors(s.gate, p_.gate_dtype) ? 1 : 0;
        s.source_vectors = has_vectors(s.source, p_.dtype) ? 1 : 0;
        const LaunchShape row_threads = threads_in_blocks(s.rows, rank_threads),
                          row_warps = blocks_of(ceil_div<int64_t>(s.rows, rank_warps), rank_threads);
        const bool time_inner = p_.channels <= few_channels || (p_.time > 1 && source.time < source.channels);
        if (s.chunks > 0) to.summarise.kernel = kernels_.summarise[time_inner ? 1 : 0][backward ? 1 : 0];
        to.summarise.shape = time_inner ? row_warps : row_threads;
        to.summarise.shape.blocks.y = static_cast<unsigned>(s.chunks);
        to.close.kernel = kernels_.close;
        to.close.shape = row_warps;
        RankCloseParams& c = to.close.params;
        c.rows = s.rows;
        c.channels = p_.channels;
        c.time = p_.time;
        c.chunks = s.chunks;
        c.first = place(pass) == 0 ? 1 : 0;
        c.edge_first = place(Pass::forward) == 0 ? 1 : 0;
        c.states = view_of(Family::state_strides(p_), size_of(p_.dtype));
        c.offsets = s.offsets;
        c.reverse = p_.direction == Direction::reverse ? 1 : 0;
        RankEnterParams& e = to.enter.params;
        e.message_step = static_cast<int64_t>(to.message.bytes);
        e.rows = s.rows;
        e.channels = p_.channels;
        e.pass_first = ranks_.place(0, order(pass));
        e.pass_count = place(pass);
        e.pass_step = order(pass) == Direction::forward ? 1 : -1;
        const int32_t at = place(Pass::forward);
        if (backward && at > 0) {
            e.before = ranks_.place(at - 1, p_.direction);
            e.before_step = p_.direction == Direction::forward ? -1 : 1;
            e.before_count = at;
        }
        e.group_channels = is_wavefront(pass) ? wavefront_.slices(pass).group_channels : int64_t{p_.channels};
        to.has_carry = !is_wavefront(pass) && place(pass) != 0;
        if (to.has_carry || e.before >= 0) to.enter.kernel = kernels_.enter;
        to.enter.shape = row_threads;
    }

    // Returns the number of chunks of a row. It depends on the time alone, so that other rows change no bits.
    int64_t chunks() const {
        if (p_.time == 0) return 0;
        const int64_t all = std::min(ceil_div<int64_t>(p_.time, least_chunk_steps), most_chunks);
        if (!p_.packed()) return all;
        return options_.batch_invariant ? 1 : std::max<int64_t>(ceil_div<int64_t>(2 * all, p_.num_sequences), 1);
    }

    // Returns whether steps lie side by side in multiples of 16 bytes from the ends of each row on, if the tensor
    // begins at such a multiple.
    bool has_vectors(const View& view, Dtype dtype) const {
        return !p_.packed() && view.time == size_of(dtype) && p_.time * size_of(dtype) % 16 == 0 &&
               view.batch % 16 == 0 && view.row % 16 == 0;
    }

    // Fills in the own message.
    void summarise(Pass pass, const Buffers& b, void* stream) const {
        const RankPlan& of = plan(pass);
        const bool backward = pass == Pass::backward;
        char* const base = static_cast<char*>(b.scratch);
        const auto aligned = [](const View& view) { return is_multiple(view.data, 16); };
        RankSummaryParams s = of.summarise.params;
        point(s.gate, b.gate);
        point(s.source, backward ? b.grad_output : b.input);
        s.reset = p_.has_reset ? b.reset : nullptr;
        s.offsets.data = b.seq_offsets;
        if (!aligned(s.gate)) s.gate_vectors = 0;
        if (!aligned(s.source)) s.source_vectors = 0;
        s.chunk = of.chunk.at(base + of.records);
        of.summarise.run(s, stream);
        RankCloseParams c = of.close.params;
        c.chunk = s.chunk;
        c.to = of.message.at(base + of.sent);
        c.start = backward ? b.grad_state_out : b.state_in;
        point(c.states, Family::states(b));
        c.state_in = b.state_in;
        c.offsets.data = b.seq_offsets;
        of.close.run(c, stream);
    }

    // All-gathers the messages, and finds the carry into the own steps and, backward, the state before them.
    void exchange(Pass pass, const Buffers& b, void* stream) const {
        const RankPlan& of = plan(pass);
        char* const base = static_cast<char*>(b.scratch);
        gather(ranks_, base + of.sent, base + of.received, of.message.bytes, stream);
        RankEnterParams e = of.enter.params;
        e.first = of.message.at(base + of.received);
        e.carry = of.has_carry ? base + of.carry : nullptr;
        e.before_to = base + of.before;
        of.enter.run(e, stream);
    }

    Problem p_;
    Options options_;
    Communicator ranks_;
    std::unique_ptr<Inner> inner_;
    Wavefront<Family> wavefront_;
    RankKernels kernels_;
    RankPlan forward_, backward_;
};

}  // namespace

std::unique_ptr<LinearKernel> make_linear_ranks(const LinearProblem& problem, const Options& options,
                                                std::unique_ptr<LinearKernel> inner, MakeLinear make) {
    return std::make_unique<Ranks<LinearFamily>>(problem, options, std::move(inner), make);
}

std::unique_ptr<GatedKernel> make_gated_ranks(const GatedProblem& problem, const Options& options,
                                              std::unique_ptr<GatedKernel> inner, MakeGated make) {
    return std::make_unique<Ranks<GatedFamily>>(problem, options, std::move(inner), make);
}

const char* why_no_gated_ranks(const GatedProblem& problem, const Options& options) {
    const Communicator& ranks = options.communicator;
    if (ranks.size == 1) return nullptr;
    if (!can_send(ranks)) return "takes a communicator only with send and receive";
    if (ranks.carries == Carries::gathered) return "hands carries from rank to rank and has no CARRIES_GATHERED";
    if (problem.packed() && problem.parts.first_step)
        return "takes no communicator where sequences are packed and their first steps are special";
    return nullptr;
}

}  // namespace flashscan::cuda
