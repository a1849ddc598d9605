// SPDX-License-Identifier: Apache-2.0
// Composes the pass of a rank of kernels of one GPU and of messages between ranks. Which way carries travel is settled by
// the numbers of steps of all ranks, for each pass; gated layers have the second one.
//
//     gathered    summarise, close -> all-gather -> enter -> the kernel of one GPU, from the carry
//     wavefront   for each group of rows: receive its carry -> the kernel of one GPU -> send what leaves it. Messages are on
//                 a stream of their own, so that they travel while another group is computed, and groups take turns on two
//                 streams, so that one begins while the one before drains. Backward an all-gather of the last states of
//                 all ranks comes first.
#include "cuda/ranks/ranks.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/rank_schedule.h"
#include "core/workspace.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/rank_link.h"
#include "cuda/launch/rank_streams.h"
#include "cuda/ranks/params.h"
#include "cuda/ranks/slices.h"
#include "cuda/ranks/table.h"

namespace flashscan::cuda {
namespace {

constexpr int rank_threads = 256, rank_warps = rank_threads / 32;
constexpr int64_t least_chunk_steps = 256, most_chunks = 1024;
// A warp has rows of fewer channels by itself, as lanes that stand side by side would be few.
constexpr int64_t few_channels = 8;

// The places of a message, and of the summaries of chunks, which are messages too.
struct MessagePlaces {
    size_t product = 0, sum = 0, marks = 0, edge = 0, bytes = 0;
};
struct MessageParts {
    bool map, edge;
};

// What differs between families.
struct LinearFamily {
    using Problem = LinearProblem;
    using Buffers = LinearBuffers;
    using Kernel = LinearKernel;
    static constexpr bool gathers = true;  // whether there are kernels that sum up steps
    static Dtype gate_dtype(const LinearProblem& p) { return p.gate_dtype; }
    static const void* states(const Buffers& b) { return b.output; }
    static Strides state_strides(const LinearProblem& p) { return p.output; }
    // Bytes of a step of a row of data, and of gates, which a pass reads or writes.
    struct Traffic {
        double summary, pass;
    };
    static Traffic traffic(const LinearProblem& p, Pass pass) {
        const auto data = static_cast<double>(size_of(p.dtype));
        const double gate = p.gate_broadcast != 0 ? 0 : static_cast<double>(size_of(p.gate_dtype));
        return {data + gate, pass == Pass::forward ? 2 * data + gate : 3 * data + 2 * gate};
    }
    static void check_steps(const LinearProblem&, const Communicator&, std::span<const int64_t>) {}
};

struct GatedFamily {
    using Problem = GatedProblem;
    using Buffers = GatedBuffers;
    using Kernel = GatedKernel;
    static constexpr bool gathers = false;
    static Dtype gate_dtype(const GatedProblem& p) { return p.dtype; }  // only messages of summaries have gates
    static const void* states(const GatedBuffers& b) { return b.states(); }
    static Strides state_strides(const GatedProblem& p) { return p.hides_state() ? p.reserve : p.output; }
    static LinearFamily::Traffic traffic(const GatedProblem& p, Pass pass) {
        const auto data = static_cast<double>(size_of(p.dtype)), gate = static_cast<double>(size_of(p.gate_dtype));
        const double read =
            (1 + p.parts.has_input_gate() + p.parts.has_output_gate()) * data + (1 + p.parts.has_second_gate()) * gate;
        // Forward writes OUTPUT and maybe h; backward reads h and the gradient of OUTPUT, and has a gradient for all it read.
        return {0, pass == Pass::forward ? read + (1 + p.hides_state()) * data : 2 * read + 2 * data};
    }
    // Whether a rank's first step is that of the sequence is known before it has any only if the first rank has steps.
    static void check_steps(const GatedProblem& p, const Communicator& ranks, std::span<const int64_t> steps) {
        const int32_t first = ranks.place(0, p.direction);
        const bool any = std::any_of(steps.begin(), steps.end(), [](int64_t n) { return n > 0; });
        if (p.parts.first_step && any && steps[static_cast<size_t>(first)] == 0)
            fail(Code::unsupported,
                 "rank {} has no steps; with GATED_FLAG_FIRST_STEP the first rank to compute needs one", first);
    }
};

// Makes the kernel of one GPU.
template <typename Family>
using Alone = std::unique_ptr<typename Family::Kernel> (*)(const typename Family::Problem&, const Options&);

// Settled when a plan is made, for a pass.
template <typename Kernel>
struct FamilyRankPlan {
    RankSchedule schedule;
    RowSlices slices;
    std::vector<std::unique_ptr<Kernel>> kernels;  // of slices; those of equal extents share one
    std::vector<size_t> kernel_of;                 // a slice
    MessagePlaces message;
    int64_t chunks = 0;
    bool time_inner = false;
    // Places in scratch.
    size_t records = 0, sent = 0, received = 0, carry = 0, left = 0, before = 0, bytes = 0;
    std::array<size_t, 2> inner{};  // of a kernel, and in a wavefront of the one that runs beside it
};

template <typename Family>
class Ranks final : public Family::Kernel {
    using Problem = typename Family::Problem;
    using Buffers = typename Family::Buffers;
    using Inner = typename Family::Kernel;
    using RankPlan = FamilyRankPlan<Inner>;

  public:
    Ranks(const Problem& problem, const Options& options, std::unique_ptr<Inner> inner, Alone<Family> make)
        : p_(problem),
          options_(options),
          ranks_(options.communicator),
          inner_(std::move(inner)),
          make_(make),
          kernels_(rank_kernels(p_.dtype, Family::gate_dtype(p_))) {
        options_.communicator = {};
        options_.kernel.clear();
        for (const Pass pass : {Pass::forward, Pass::backward}) lay_out(pass);
    }

    void settle(std::span<const int64_t> steps) override {
        if (alone()) return;
        Family::check_steps(p_, ranks_, steps);
        const int64_t most = *std::max_element(steps.begin(), steps.end());
        for (const Pass pass : {Pass::forward, Pass::backward}) {
            RankPlan& to = plan(pass);
            const char* const why_gathered = ranks_.carries != Carries::chosen ? nullptr
                                             : !can_send(ranks_) ? "the communicator has no send and receive"
                                             : options_.batch_invariant
                                                 ? "BATCH_INVARIANT rules out a choice by the number of rows"
                                                 : nullptr;
            const char* const why = Family::gathers ? why_gathered : "the way that this family has";
            const Carries wanted = !Family::gathers          ? Carries::wavefront
                                   : why_gathered != nullptr ? Carries::gathered
                                                             : ranks_.carries;
            to.schedule = choose_schedule(work(pass, most), wanted, ranks_.groups);
            if (why != nullptr) to.schedule.why = why;
            if (waves(pass)) cut(pass);
            lay_out(pass);
        }
        if (waves(Pass::forward) || waves(Pass::backward)) {
            size_t groups = 0;
            for (const Pass pass : {Pass::forward, Pass::backward})
                groups = std::max(groups, plan(pass).slices.list.size());
            streams_ = std::make_unique<RankStreams>(options_.device, groups);
        }
    }

    std::string describe() const override {
        if (alone()) return fmt::format("{}; rank {} of {}", inner_->describe(), ranks_.rank, ranks_.size);
        std::string text = waves(Pass::forward) && waves(Pass::backward) ? "" : inner_->describe() + "; ";
        text += fmt::format("rank {} of {}", ranks_.rank, ranks_.size);
        for (const Pass pass : {Pass::forward, Pass::backward})
            text +=
                fmt::format("; carries {} {}", pass == Pass::forward ? "forward" : "backward", describe(plan(pass)));
        return text;
    }
    size_t scratch_bytes(Pass pass) const override { return alone() ? inner_->scratch_bytes(pass) : plan(pass).bytes; }

    void forward(const Buffers& b, void* stream) const override {
        if (alone()) return inner_->forward(b, stream);
        const DeviceScope scope(options_.device);
        if (waves(Pass::forward)) return wave(Pass::forward, b, nullptr, stream);
        const RankPlan& of = plan(Pass::forward);
        char* const base = static_cast<char*>(b.scratch);
        summarise(Pass::forward, b, stream);
        exchange(Pass::forward, b, stream);
        Buffers own = b;
        own.scratch = base + of.inner[0];
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
        if (waves(Pass::backward)) return wave(Pass::backward, b, before, stream);
        Buffers own = b;
        own.scratch = base + of.inner[0];
        own.state_in = before;
        if (place(Pass::backward) != 0) own.grad_state_out = base + of.carry;
        inner_->backward(own, stream);
    }

  private:
    static std::string describe(const RankPlan& of) {
        if (of.schedule.carries == Carries::gathered)
            return fmt::format("gathered from summaries of {} chunks, {}", of.chunks, of.schedule.why);
        return fmt::format("in a wavefront of {} groups of {}, {}, each {}", of.slices.list.size(),
                           of.slices.along_channels ? "channels" : "batch entries", of.schedule.why,
                           of.kernels.front()->describe());
    }
    RankPlan& plan(Pass pass) { return pass == Pass::forward ? forward_ : backward_; }
    const RankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    bool waves(Pass pass) const { return plan(pass).schedule.carries == Carries::wavefront; }
    int64_t rows() const { return p_.state_rows() * p_.channels; }
    // Nothing comes from another rank.
    bool alone() const { return ranks_.size == 1 || rows() == 0; }
    // In the order of the pass.
    int32_t place(Pass pass) const { return ranks_.place(ranks_.rank, order(pass)); }
    Direction order(Pass pass) const {
        const bool reverse = (p_.direction == Direction::reverse) != (pass == Pass::backward);
        return reverse ? Direction::reverse : Direction::forward;
    }
    int64_t state_bytes() const { return rows() * size_of(state_dtype(p_.dtype)); }
    int64_t product_bytes() const { return rows() * size_of(state_dtype(Family::gate_dtype(p_))); }

    RankWork work(Pass pass, int64_t steps) const {
        const auto row_steps =
            static_cast<double>(p_.packed() ? int64_t{p_.channels} : rows()) * static_cast<double>(steps);
        const auto [summary, whole] = Family::traffic(p_, pass);
        RankWork w;
        w.ranks = ranks_.size;
        w.summary_bytes = summary * row_steps;
        w.pass_bytes = whole * row_steps;
        w.state_bytes = static_cast<double>(state_bytes());
        w.message_bytes = static_cast<double>(product_bytes() + state_bytes() + rows()) +
                          (pass == Pass::backward ? w.state_bytes : 0);
        w.edge_bytes = pass == Pass::backward ? w.state_bytes + static_cast<double>(rows()) : 0;
        w.rows = rows();
        w.most_groups = most_groups(p_, pass);
        return w;
    }

    void cut(Pass pass) {
        RankPlan& to = plan(pass);
        to.slices = slices_of(p_, pass, to.schedule.groups);
        to.kernels.clear();
        to.kernel_of.clear();
        std::vector<std::pair<int64_t, int64_t>> extents;
        for (const RowSlice& slice : to.slices.list) {
            const std::pair<int64_t, int64_t> mine{slice.batches, slice.channels};
            const auto found = std::find(extents.begin(), extents.end(), mine);
            to.kernel_of.push_back(static_cast<size_t>(found - extents.begin()));
            if (found != extents.end()) continue;
            extents.push_back(mine);
            to.kernels.push_back(make_(problem_of(p_, slice), options_));
        }
    }

    static MessagePlaces book(const Ranks& of, int64_t count, MessageParts parts) {
        Workspace places;
        MessagePlaces at;
        if (parts.map) {
            at.product = places.book(Extent(of.product_bytes(), "SCRATCH") * count);
            at.sum = places.book(Extent(of.state_bytes(), "SCRATCH") * count);
        }
        at.marks = places.book(Extent(of.rows(), "SCRATCH") * count);
        if (parts.edge) at.edge = places.book(Extent(of.state_bytes(), "SCRATCH") * count);
        at.bytes = places.bytes();
        return at;
    }
    MessageParts parts(Pass pass) const { return {!waves(pass), pass == Pass::backward}; }

    void lay_out(Pass pass) {
        if (alone()) return;
        RankPlan& to = plan(pass);
        const bool map = !waves(pass);
        // The last rank's steps lead to no other rank.
        to.chunks = map && place(pass) != ranks_.size - 1 ? chunks() : 0;
        const Strides& source = pass == Pass::forward ? p_.input : p_.grad_output;
        to.time_inner = p_.channels <= few_channels || (p_.time > 1 && source.time < source.channels);
        Workspace scratch;
        to.message = book(*this, 1, parts(pass));
        to.records = scratch.book(Extent(book(*this, to.chunks, {true, false}).bytes, "SCRATCH"));
        const bool gathers = map || pass == Pass::backward;
        to.sent = scratch.book(gathers ? Extent(to.message.bytes, "SCRATCH") : Extent());
        to.received = scratch.book(gathers ? Extent(to.message.bytes, "SCRATCH") * ranks_.size : Extent());
        for (size_t* at : {&to.carry, &to.left, &to.before}) *at = scratch.book(Extent(state_bytes(), "SCRATCH"));
        size_t inner = inner_->scratch_bytes(pass);
        if (!map) {
            inner = 0;
            for (const auto& kernel : to.kernels) inner = std::max(inner, kernel->scratch_bytes(pass));
        }
        for (size_t i = 0; i < (map ? 1 : to.inner.size()); ++i) to.inner[i] = scratch.book(Extent(inner, "SCRATCH"));
        to.bytes = scratch.bytes();
    }

    // Returns the number of chunks of a row. It depends on the time alone, so that other rows change no bits.
    int64_t chunks() const {
        if (p_.time == 0) return 0;
        const int64_t all = std::min(ceil_div<int64_t>(p_.time, least_chunk_steps), most_chunks);
        if (!p_.packed()) return all;
        return options_.batch_invariant ? 1 : std::max<int64_t>(ceil_div<int64_t>(2 * all, p_.num_sequences), 1);
    }

    RankMessage message(char* base, const MessagePlaces& at, MessageParts parts) const {
        RankMessage to;
        if (parts.map) to.product = base + at.product, to.sum = base + at.sum;
        to.marks = reinterpret_cast<uint8_t*>(base + at.marks);
        if (parts.edge) to.edge = base + at.edge;
        return to;
    }
    View view(const Strides& strides, Dtype dtype, const void* data) const {
        const int64_t size = size_of(dtype);
        return {static_cast<char*>(const_cast<void*>(data)), strides.batch * size, strides.channels * size,
                strides.time * size};
    }
    SequenceOffsets offsets(const void* data) const {
        return {p_.packed() ? data : nullptr, p_.num_sequences, p_.time, p_.offsets_dtype == Dtype::i64 ? 1 : 0, 0};
    }
    // Whether steps lie side by side in multiples of 16 bytes, from the ends of each row on.
    bool has_vectors(const View& view, Dtype dtype) const {
        const auto is_multiple = [](int64_t number) { return number % 16 == 0; };
        return !p_.packed() && view.time == size_of(dtype) && is_multiple(p_.time * size_of(dtype)) &&
               is_multiple(view.batch) && is_multiple(view.row) &&
               is_multiple(static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data)));
    }

    // Fills in the own message.
    void summarise(Pass pass, const Buffers& b, void* stream) const {
        const RankPlan& of = plan(pass);
        const bool backward = pass == Pass::backward;
        char* const base = static_cast<char*>(b.scratch);
        RankSummaryParams s;
        s.gate = view(p_.gate, p_.gate_dtype, b.gate);
        s.source = backward ? view(p_.grad_output, p_.dtype, b.grad_output) : view(p_.input, p_.dtype, b.input);
        s.reset = p_.has_reset ? b.reset : nullptr;
        s.offsets = offsets(b.seq_offsets);
        s.rows = rows();
        s.channels = p_.channels;
        s.time = p_.time;
        s.chunks = of.chunks;
        s.chunk_steps = of.chunks > 0 ? chunk_steps(of.chunks) : 0;
        if constexpr (Family::gathers) s.gate_form = static_cast<int32_t>(p_.gate_form);
        s.down = order(pass) == Direction::reverse ? 1 : 0;
        s.gate_vectors = has_vectors(s.gate, p_.gate_dtype) ? 1 : 0;
        s.source_vectors = has_vectors(s.source, p_.dtype) ? 1 : 0;
        s.chunk = message(base + of.records, book(*this, of.chunks, {true, false}), {true, false});
        if (of.chunks > 0) {
            LaunchShape shape = of.time_inner ? blocks_of(ceil_div<int64_t>(s.rows, rank_warps), rank_threads)
                                              : threads_in_blocks(s.rows, rank_threads);
            shape.blocks.y = static_cast<unsigned>(of.chunks);
            launch(kernels_.summarise[of.time_inner ? 1 : 0][backward ? 1 : 0], shape, stream, s);
        }
        RankCloseParams c;
        c.chunk = s.chunk;
        c.to = message(base + of.sent, of.message, parts(pass));
        c.rows = s.rows;
        c.channels = s.channels;
        c.time = s.time;
        c.chunks = of.chunks;
        c.first = place(pass) == 0 ? 1 : 0;
        c.start = backward ? b.grad_state_out : b.state_in;
        c.edge_first = place(Pass::forward) == 0 ? 1 : 0;
        c.states = view(Family::state_strides(p_), p_.dtype, Family::states(b));
        c.state_in = b.state_in;
        c.offsets = s.offsets;
        c.reverse = p_.direction == Direction::reverse ? 1 : 0;
        launch(kernels_.close, blocks_of(ceil_div<int64_t>(s.rows, rank_warps), rank_threads), stream, c);
    }
    // Whole segments of a warp, so that vectors stay aligned.
    int64_t chunk_steps(int64_t chunks) const {
        return round_up(ceil_div<int64_t>(p_.time, chunks), least_chunk_steps);
    }

    // Tells all ranks, and finds the carry and the state before the own steps.
    void exchange(Pass pass, const Buffers& b, void* stream) const {
        const RankPlan& of = plan(pass);
        const bool backward = pass == Pass::backward;
        char* const base = static_cast<char*>(b.scratch);
        gather(ranks_, base + of.sent, base + of.received, of.message.bytes, stream);
        RankEnterParams e;
        e.first = message(base + of.received, of.message, parts(pass));
        e.message_step = static_cast<int64_t>(of.message.bytes);
        e.rows = rows();
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
        e.group_channels = waves(pass) ? of.slices.group_channels : int64_t{p_.channels};
        e.carry = !waves(pass) && place(pass) != 0 ? base + of.carry : nullptr;
        e.before_to = base + of.before;
        if (e.carry == nullptr && e.before < 0) return;
        launch(kernels_.enter, threads_in_blocks(e.rows, rank_threads), stream, e);
    }

    // Copies states between [rows, channels] and group by group.
    void regroup(Pass pass, const void* from, void* to, bool into_groups, void* stream) const {
        const int64_t size = size_of(state_dtype(p_.dtype)), row = p_.channels * size;
        const auto* source = static_cast<const char*>(from);
        auto* target = static_cast<char*>(to);
        for (const RowSlice& slice : plan(pass).slices.list) {
            if (counts_launch()) continue;
            const int64_t width = slice.channels * size, whole = slice.channel * size, group = slice.first_state * size;
            check(cudaMemcpy2DAsync(
                      target + (into_groups ? group : whole), static_cast<size_t>(into_groups ? width : row),
                      source + (into_groups ? whole : group), static_cast<size_t>(into_groups ? row : width),
                      static_cast<size_t>(width), static_cast<size_t>(p_.state_rows()), cudaMemcpyDeviceToDevice,
                      static_cast<cudaStream_t>(stream)),
                  "copying states of groups of channels");
        }
    }

    // `before`: the states before the own steps, which backward reads; on the first rank they are [rows, channels].
    void wave(Pass pass, const Buffers& b, const void* before, void* stream) const {
        const RankPlan& of = plan(pass);
        const bool backward = pass == Pass::backward;
        char* const base = static_cast<char*>(b.scratch);
        char *const carry = base + of.carry, *const left = base + of.left;
        const int64_t size = size_of(state_dtype(p_.dtype));
        const int32_t at = place(pass), last = ranks_.size - 1;
        const int32_t from = at > 0 ? ranks_.place(at - 1, order(pass)) : -1;
        const int32_t to = at < last ? ranks_.place(at + 1, order(pass)) : -1;
        const void* enters = backward ? b.grad_state_out : b.state_in;
        void* leaves = backward ? b.grad_state_in : b.state_out;
        // The states of the caller are as they are where groups are entries of the batch.
        const bool regroups = of.slices.along_channels;
        if (from < 0 && enters != nullptr && regroups) {
            regroup(pass, enters, carry, true, stream);
            enters = carry;
        }
        if (backward && before != nullptr && before == b.state_in && regroups) {
            regroup(pass, before, base + of.before, true, stream);
            before = base + of.before;
        }
        char* const out = leaves != nullptr && !regroups && to < 0 ? static_cast<char*>(leaves) : left;
        const size_t groups = of.slices.list.size();
        RankStreams::Fork fork(*streams_, stream);
        const auto receive_group = [&](size_t k) {
            if (from < 0 || k >= groups) return;
            const RowSlice& slice = of.slices.list[k];
            receive(ranks_, carry + slice.first_state * size, static_cast<size_t>(slice.states * size), from,
                    streams_->messages());
            streams_->arrived(k);
        };
        receive_group(0);
        for (size_t k = 0; k < groups; ++k) {
            const RowSlice& slice = of.slices.list[k];
            const int64_t place = slice.first_state * size;
            // The next group's is asked for before this one's is sent: sending may wait for the rank that takes it.
            receive_group(k + 1);
            Buffers own = buffers_of(p_, slice, b);
            own.scratch = base + of.inner[k % 2];
            void* const computing = fork.of_group(k);
            const void* in = from >= 0           ? carry + place
                             : enters != nullptr ? static_cast<const char*>(enters) + place
                                                 : nullptr;
            void* done = to >= 0 || leaves != nullptr ? out + place : nullptr;
            if (backward) {
                own.grad_state_out = in;
                own.grad_state_in = done;
                own.state_in = before != nullptr ? static_cast<const char*>(before) + place : nullptr;
            } else {
                own.state_in = in;
                own.state_out = done;
            }
            const Inner& kernel = *of.kernels[of.kernel_of[k]];
            if (from >= 0) streams_->wait_for(k, computing);
            backward ? kernel.backward(own, computing) : kernel.forward(own, computing);
            if (to < 0) continue;
            streams_->follow(k, computing);
            send(ranks_, out + place, static_cast<size_t>(slice.states * size), to, streams_->messages());
        }
        fork.join();
        if (leaves != nullptr && regroups) regroup(pass, left, leaves, false, stream);
    }

    Problem p_;
    Options options_;
    Communicator ranks_;
    std::unique_ptr<Inner> inner_;
    Alone<Family> make_;
    RankKernels kernels_;
    RankPlan forward_, backward_;
    std::unique_ptr<RankStreams> streams_;
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
