// SPDX-License-Identifier: Apache-2.0
// The passes of an operator on one rank of several, composed of small problems of the same operator, each run by a
// kernel of one GPU. What an all-gather leaves lies in memory as a sequence that has the ranks' elements for steps and
// all chains for channels.
//
//     forward   y' = y o total              the totals of all ranks are gathered, and those before this one reduced; of
//               y' = product y + total      affine maps with the products of their matrices, the last one on the left
//     backward  g = slope g' + local        slopes and local gradients of all ranks are gathered, and those behind this
//               g = g' total^H + local      one joined: of numbers they are a linear recurrence, or a reduction of
//               g = product^H g' + local    sums, whose slopes are 1; of custom elements backward of a scan of totals
//
// That is the gathered way. Scans go in a wavefront too (wave.h); backward an all-gather comes first, for the states
// before the own steps, which are the last ones in OUTPUT or, of numbers with slopes, follow from the totals.
//
// Slopes of numbers are those of the totals at the states that enter, so that backward computes these states again.
// Scans of matrices and affine maps find them in OUTPUT. A reduction's result is the reduction of all totals, and its
// gradient is the sum of the ranks' gradients. A rank without steps sends the identity; custom operators have none that
// is known, and leave such ranks out.
#include <algorithm>
#include <utility>
#include <vector>

#include "cuda/launch/rank_threads.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/ranks/matrices_params.h"
#include "cuda/ranks/operator_cost.h"
#include "cuda/ranks/operator_told.h"
#include "cuda/ranks/over_ranks.h"
#include "cuda/ranks/ranks.h"
#include "cuda/ranks/wave.h"

namespace flashscan::cuda {
namespace {

struct OperatorFamily {
    using Problem = OperatorProblem;
    using Buffers = OperatorBuffers;
    using Kernel = OperatorKernel;
    static constexpr bool gathers = true;
    static int64_t state_bytes(const OperatorProblem& p) { return p.element() * p.state_number_bytes(); }
};

class OperatorRanks final : public OperatorKernel {
  public:
    OperatorRanks(const OperatorProblem& problem, const Options& options, std::unique_ptr<OperatorKernel> inner,
                  MakeOperator make, MakeLinear make_linear, bool in_registers)
        : p_(problem),
          told_(p_, options.communicator.size),
          in_registers_(in_registers),
          options_(options),
          ranks_(options.communicator),
          make_(make),
          inner_(std::move(inner)),
          wavefront_(problem, options, make),
          kernels_(rank_matrix_kernels(p_.dtype)) {
        options_.communicator = {};
        options_.kernel.clear();
        if (alone()) return;
        total_ = make(total_of(p_), options_);
        if (p_.is_affine()) product_ = make(matrices_of(p_), options_);
        if (p_.is_reduction()) {
            OperatorProblem store = elements_of_ranks(p_, OperatorMode::reduction, 0);
            store.dtype = p_.dtype;
            store_ = make(store, options_);
        }
        if (p_.differentiable()) {
            if (p_.is_reduction() && is_last())
                gradients_ = numbers_over_ranks(OperatorKind::add, p_.dtype, ranks_.size);
            if (told_.has_slopes()) ones_ = numbers_over_ranks(OperatorKind::mul, state_dtype(p_.dtype), 0);
            if (told_.has_slopes() && after() > 0) behind_ = make_linear(gradients_of_ranks(p_, after()), options_);
            if (told_.is_sum() && after() > 0)
                sums_behind_ = numbers_over_ranks(OperatorKind::add, state_dtype(p_.dtype), after());
        }
        lay_out();
    }

    void meet() override {
        if (!alone()) wavefront_.meet();
    }
    void settle(std::span<const int64_t> steps) override {
        if (alone()) return;
        for (int32_t k = 0; k < ranks_.size; ++k)
            if (tells(k, steps[static_cast<size_t>(ranks_.place(k, p_.direction))])) tellers_.push_back(k);
        if (place() > 0) before_ = over_ranks(OperatorMode::reduction, tellers_before(place()) - 1);
        if (p_.is_reduction()) all_ = over_ranks(OperatorMode::reduction, tellers_before(ranks_.size) - 1);
        if (const int32_t count = tellers_between(); p_.is_custom() && p_.differentiable() && count > 0) {
            with_own_ = over_ranks(OperatorMode::reduction, tellers_before(place() + 1) - 1);
            through_ = over_ranks(OperatorMode::exclusive, count);
        }
        const int64_t most = most_steps(steps);
        wavefront_.settle(passes(),
                          [&](Pass pass) { return operator_work(p_, in_registers_, pass, ranks_.size, most); });
        lay_out();
    }

    std::string describe() const override {
        const std::span<const Pass> all = passes();
        const bool runs = alone() || !std::all_of(all.begin(), all.end(), [&](Pass pass) { return waves(pass); });
        std::string text = runs ? inner_->describe() + "; " : "";
        text += fmt::format("rank {} of {}", ranks_.rank, ranks_.size);
        for (const Pass pass : alone() ? std::span<const Pass>() : all)
            text +=
                "; carries " + wavefront_.describe(pass, fmt::format("from {} bytes of each", plan(pass).told_bytes));
        return text;
    }
    size_t scratch_bytes(Pass pass) const override { return alone() ? inner_->scratch_bytes(pass) : plan(pass).bytes; }

    void forward(const OperatorBuffers& b, void* stream) const override {
        if (alone()) return inner_->forward(b, stream);
        const DeviceScope scope(options_.device);
        if (waves(Pass::forward)) return wavefront_.run(Pass::forward, b, nullptr, false, stream);
        const Call call = begin(forward_, b, stream);
        gather_totals(call);
        gather_products(call);
        OperatorBuffers own = b;
        own.scratch = call.at(forward_.inner);
        if (!p_.is_reduction()) {
            own.state_in = find_carry(call);
            return inner_->forward(own, stream);
        }
        void* const result = call.at(forward_.carry);
        join_totals(call, *all_, ranks_.size, result);
        own = {};
        own.state_in = result;
        own.output = b.output;
        own.state_out = b.state_out;
        own.scratch = call.at(forward_.inner);
        store_->forward(own, stream);
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        if (alone()) return inner_->backward(b, stream);
        const DeviceScope scope(options_.device);
        const Call call = begin(backward_, b, stream);
        OperatorBuffers own = b;
        own.scratch = call.at(backward_.inner);
        if (told_.totals(Pass::backward, waves(Pass::backward))) gather_totals(call);
        gather_products(call);
        if (!told_.is_sum()) own.state_in = told_.reads_edges() ? find_state_before(call) : find_carry(call);
        if (waves(Pass::backward)) return wavefront_.run(Pass::backward, b, own.state_in, false, stream);
        if (p_.is_reduction()) {
            own.grad_output = nullptr;
            own.grad_state_out = gradient_of_all(call);
        }
        gather_locals(call, own);
        if (told_.has_slopes()) gather_slopes(call, own);
        if (after() > 0) own.grad_state_out = find_gradient(call);
        inner_->backward(own, stream);
    }

  private:
    // A plan settles these for each pass: places in scratch, and the bytes that a rank sends. Before each all-gather
    // the rank's message is in `sent`.
    struct RankPlan {
        size_t sent = 0, totals = 0, products = 0, slopes = 0, locals = 0, outputs = 0, edges = 0;
        size_t carry = 0, gradient = 0, other = 0, totals_joined = 0, locals_joined = 0, unused = 0, inner = 0;
        size_t bytes = 0, told_bytes = 0;
    };
    struct Call {
        const RankPlan& of;
        const OperatorBuffers& b;
        void* stream;
        char* at(size_t place) const { return static_cast<char*>(b.scratch) + place; }
    };
    // Begins a call. The rank's message starts as NaN and stays so where no rank needs it or an argument is missing.
    Call begin(const RankPlan& of, const OperatorBuffers& b, void* stream) const {
        const Call call{of, b, stream};
        fill(call.at(of.sent), 0xff, static_cast<size_t>(told_.most_bytes()), stream);
        return call;
    }

    std::unique_ptr<OperatorKernel> over_ranks(OperatorMode mode, int64_t steps) const {
        return make_(elements_of_ranks(p_, mode, steps), options_);
    }
    std::unique_ptr<OperatorKernel> numbers_over_ranks(OperatorKind kind, Dtype dtype, int64_t steps) const {
        return make_(numbers_of_ranks(p_, kind, dtype, steps), options_);
    }
    // Returns whether the total of the rank at a place counts. With custom operators a rank without steps has none, but
    // the first one in MODE_EXCLUSIVE, which needs STATE_IN.
    bool tells(int32_t place, int64_t steps) const {
        if (!p_.is_custom() || steps > 0) return true;
        if (place == 0 && p_.mode != OperatorMode::exclusive)
            fail(Code::unsupported,
                 "rank {} has no steps; a custom operator, whose identity is not known, needs one on the first rank to "
                 "compute, but in MODE_EXCLUSIVE",
                 ranks_.place(0, p_.direction));
        return place == 0;
    }

    static constexpr Pass both_passes[] = {Pass::forward, Pass::backward};
    std::span<const Pass> passes() const { return std::span(both_passes).first(p_.differentiable() ? 2 : 1); }
    bool waves(Pass pass) const { return wavefront_.waves(pass); }

    void lay_out() {
        if (alone()) return;
        for (const Pass pass : passes()) (pass == Pass::forward ? forward_ : backward_) = lay_out(pass);
    }
    RankPlan lay_out(Pass pass) {
        const bool backward = pass == Pass::backward, map = !waves(pass);
        const Extent states(state_bytes(), "SCRATCH"), products(told_.product_bytes(), "SCRATCH"), size = ranks_.size;
        RankPlan to;
        Workspace scratch;
        const auto book = [&](size_t& place, bool there, Extent bytes) {
            place = scratch.book(there ? bytes * size : Extent());
            if (there) to.told_bytes += static_cast<size_t>(bytes);
        };
        to.sent = scratch.book(Extent(told_.most_bytes(), "SCRATCH"));
        book(to.totals, told_.totals(pass, waves(pass)), states);
        book(to.products, told_.products(pass, waves(pass)), products);
        book(to.slopes, backward && map && told_.has_slopes(), states);
        book(to.locals, backward && map, states);
        book(to.outputs, backward && p_.is_reduction(), Extent(told_.output_bytes()));
        book(to.edges, backward && told_.reads_edges(), Extent(told_.edge_bytes()));
        for (size_t* place : {&to.carry, &to.gradient, &to.other}) *place = scratch.book(states);
        const Extent joined = std::ssize(tellers_) < ranks_.size ? states * size : Extent();
        to.totals_joined = scratch.book(joined);
        to.locals_joined = scratch.book(backward ? joined : Extent());
        to.unused = scratch.book(max(states, products) * size);
        size_t inner = map ? inner_->scratch_bytes(pass) : 0;
        for (const auto* kernel :
             {&total_, &product_, &before_, &all_, &store_, &gradients_, &ones_, &sums_behind_, &with_own_})
            if (*kernel) inner = std::max(inner, (*kernel)->scratch_bytes(Pass::forward));
        if (backward && map && told_.has_slopes()) inner = std::max(inner, total_->scratch_bytes(Pass::backward));
        if (backward && through_) inner = std::max(inner, through_->scratch_bytes(Pass::backward));
        if (backward && behind_) inner = std::max(inner, behind_->scratch_bytes(Pass::forward));
        to.inner = scratch.book(Extent(inner, "SCRATCH"));
        wavefront_.book(pass, scratch);
        to.bytes = scratch.bytes();
        return to;
    }
    const RankPlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    // Returns whether nothing comes from another rank.
    bool alone() const { return ranks_.size == 1 || p_.chains() == 0; }
    int32_t place() const { return ranks_.place(ranks_.rank, p_.direction); }
    int32_t after() const { return ranks_.size - 1 - place(); }
    bool is_last() const { return after() == 0; }
    // Returns how many of the first k ranks have totals that count.
    int32_t tellers_before(int32_t k) const {
        return static_cast<int32_t>(std::lower_bound(tellers_.begin(), tellers_.end(), k) - tellers_.begin());
    }
    // Returns how many of those between this rank and the last one have.
    int32_t tellers_between() const {
        return is_last() ? 0 : tellers_before(ranks_.size - 1) - tellers_before(place() + 1);
    }
    int64_t state_bytes() const { return told_.state_bytes(); }
    // The message, in a gathered array, of the rank that is k-th in the order of computation.
    const char* told_by(const char* all, int32_t k, int64_t bytes) const {
        return all + ranks_.place(k, p_.direction) * bytes;
    }
    // The messages, side by side, of the ranks from the k-th to the one before the end-th.
    const char* told_from(const char* all, int32_t k, int32_t end, int64_t bytes) const {
        return told_by(all, p_.direction == Direction::forward ? k : end - 1, bytes);
    }
    static void copy(const Call& call, void* to, const void* from, int64_t bytes, const char* doing) {
        if (counts_launch()) return;
        check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                              static_cast<cudaStream_t>(call.stream)),
              doing);
    }
    void tell(const Call& call, size_t to, int64_t bytes) const {
        gather(ranks_, call.at(call.of.sent), call.at(to), static_cast<size_t>(bytes), call.stream);
    }

    // Runs forward of `kernel` for its STATE_OUT, of which packed sequences have one each.
    static void reduce(const Call& call, const OperatorKernel& kernel, const void* input, const void* gate,
                       const void* state_in, void* state_out, const void* seq_offsets = nullptr) {
        OperatorBuffers own;
        own.input = input;
        own.gate = gate;
        own.seq_offsets = seq_offsets;
        own.output = call.at(call.of.unused);
        own.state_in = state_in;
        own.state_out = state_out;
        own.scratch = call.at(call.of.inner);
        kernel.forward(own, call.stream);
    }
    // Does the same for the own steps, into the rank's message.
    static void reduce_steps(const Call& call, const OperatorKernel& kernel, const void* input, const void* gate,
                             const void* state_in) {
        reduce(call, kernel, input, gate, state_in, call.at(call.of.sent), call.b.seq_offsets);
    }

    // All-gathers the totals of the ranks' steps; in a scan the last rank's is not needed. Backward of affine maps may
    // lack INPUT, which only gradients of matrices need: the rank's total and such gradients on other ranks are then
    // NaN.
    void gather_totals(const Call& call) const {
        const OperatorBuffers& b = call.b;
        if ((b.input != nullptr || p_.empty()) && (!is_last() || p_.is_reduction()))
            reduce_steps(call, *total_, b.input, b.gate, place() == 0 ? b.state_in : nullptr);
        tell(call, call.of.totals, state_bytes());
    }
    void gather_products(const Call& call) const {
        const Pass pass = &call.of == &forward_ ? Pass::forward : Pass::backward;
        if (!told_.products(pass, waves(pass))) return;
        if (place() > 0 && (!is_last() || (p_.is_reduction() && pass == Pass::forward)))
            reduce_steps(call, *product_, call.b.gate, nullptr, nullptr);
        tell(call, call.of.products, told_.product_bytes());
    }
    // Returns the messages of the ranks at places k to end - 1, side by side, without ranks whose totals do not count.
    const char* told_by_tellers(const Call& call, size_t told, int32_t k, int32_t end, size_t joined) const {
        const char* const all = call.at(told);
        const int32_t first = tellers_before(k), count = tellers_before(end) - first;
        if (count == end - k) return told_from(all, k, end, state_bytes());
        char* const to = call.at(joined);
        for (int32_t i = 0; i < count; ++i) {
            const int32_t at = p_.direction == Direction::forward ? i : count - 1 - i;
            copy(call, to + at * state_bytes(), told_by(all, tellers_[static_cast<size_t>(first + i)], state_bytes()),
                 state_bytes(), "leaving out ranks without steps");
        }
        return to;
    }
    // Finds the states after the first `count` ranks: the total of the first, joined with those of the others in order.
    void join_totals(const Call& call, const OperatorKernel& kernel, int32_t count, void* to) const {
        reduce(call, kernel, told_by_tellers(call, call.of.totals, 1, count, call.of.totals_joined),
               p_.is_affine() ? told_from(call.at(call.of.products), 1, count, told_.product_bytes()) : nullptr,
               told_by(call.at(call.of.totals), 0, state_bytes()), to);
    }
    // Finds the states that enter the own steps.
    const void* find_carry(const Call& call) const {
        if (place() == 0) return call.b.state_in;
        void* const carry = call.at(call.of.carry);
        join_totals(call, *before_, place(), carry);
        return carry;
    }

    // Finds the states before the own steps, as OUTPUT has them.
    const void* find_state_before(const Call& call) const {
        const OperatorBuffers& b = call.b;
        const bool exclusive = p_.mode == OperatorMode::exclusive;
        char *const sent = call.at(call.of.sent), *const before = call.at(call.of.carry);
        launch_edge(call, sent, reinterpret_cast<uint8_t*>(sent + state_bytes()), true);
        tell(call, call.of.edges, told_.edge_bytes());
        if (place() == 0) return b.state_in;
        if (exclusive) launch_edge(call, before, nullptr, false);
        RankEdgesParams edges;
        edges.edges = told_by(call.at(call.of.edges), place() - 1, told_.edge_bytes());
        edges.marks = edges.edges + state_bytes();
        edges.message_step = p_.direction == Direction::forward ? -told_.edge_bytes() : told_.edge_bytes();
        edges.count = place();
        edges.exclusive = exclusive ? 1 : 0;
        edges.rows = p_.state_rows();
        edges.row_numbers = p_.channels * p_.element();
        edges.identity_dim = p_.is_matmul() ? p_.dim : Extent();
        edges.to = before;
        launch(kernels_.edges, threads_in_blocks(told_.numbers(), rank_threads), call.stream, edges);
        return before;
    }
    // Copies the states at the first or the last own step.
    void launch_edge(const Call& call, void* to, uint8_t* marks, bool last_step) const {
        const OperatorBuffers& b = call.b;
        const auto steps = p_.steps();
        RankEdgeParams edge;
        edge.output = b.output;
        edge.state_in = place() == 0 ? b.state_in : nullptr;
        edge.edge = to;
        edge.marks = marks;
        edge.offsets = offsets_of(p_, b.seq_offsets);
        edge.rows = p_.state_rows();
        edge.channels = p_.channels;
        edge.element = p_.element();
        edge.time = p_.time;
        edge.batch_step = steps.batch * edge.element;
        edge.time_step = steps.time * edge.element;
        edge.channel_step = steps.channels * edge.element;
        edge.reverse = p_.direction == Direction::reverse ? 1 : 0;
        edge.last_step = last_step ? 1 : 0;
        launch(kernels_.edge, threads_in_blocks(told_.numbers(), rank_threads), call.stream, edge);
    }

    // Finds the gradient of a reduction's states after all steps, on the last rank; null on the others.
    const void* gradient_of_all(const Call& call) const {
        copy(call, call.at(call.of.sent), call.b.grad_output, told_.output_bytes(),
             "copying the gradient of a reduction");
        tell(call, call.of.outputs, told_.output_bytes());
        if (!is_last()) return nullptr;
        // Arguments of custom operators may lie at any address, which sums of numbers do not take.
        const void* own = call.b.grad_state_out;
        if (own != nullptr && p_.is_custom()) {
            own = call.at(call.of.other);
            copy(call, call.at(call.of.other), call.b.grad_state_out, state_bytes(),
                 "copying the gradient of a reduction's states");
        }
        void* const gradient = call.at(call.of.gradient);
        reduce(call, *gradients_, call.at(call.of.outputs), nullptr, own, gradient);
        return gradient;
    }
    // All-gathers the gradients that the ranks' own steps leave for the states before them; the first rank's is not
    // needed.
    void gather_locals(const Call& call, const OperatorBuffers& own) const {
        if (place() > 0) {
            OperatorBuffers local = own;
            local.grad_input = local.grad_gate = nullptr;
            local.grad_state_in = call.at(call.of.sent);
            inner_->backward(local, call.stream);
        }
        tell(call, call.of.locals, state_bytes());
    }
    // All-gathers the slopes of the ranks' steps. The last rank's multiply nothing and are ones.
    void gather_slopes(const Call& call, const OperatorBuffers& own) const {
        char *const sent = call.at(call.of.sent), *const ones = is_last() ? sent : call.at(call.of.other);
        if (place() > 0) reduce(call, *ones_, nullptr, nullptr, nullptr, ones);
        if (place() > 0 && !is_last()) {
            OperatorBuffers slopes;
            slopes.input = own.input;
            slopes.seq_offsets = own.seq_offsets;
            slopes.state_in = own.state_in;
            slopes.grad_state_out = ones;
            slopes.grad_state_in = sent;
            slopes.scratch = own.scratch;
            total_->backward(slopes, call.stream);
        }
        tell(call, call.of.slopes, state_bytes());
    }

    // Finds the gradient of the states after the own steps.
    const void* find_gradient(const Call& call) const {
        void* const gradient = call.at(call.of.gradient);
        const char* const locals = call.at(call.of.locals);
        const char* const behind = told_from(locals, place() + 1, ranks_.size, state_bytes());
        if (told_.is_sum()) {
            reduce(call, *sums_behind_, behind, nullptr, nullptr, gradient);
            return gradient;
        }
        if (p_.is_custom()) return pull_back(call);
        if (!told_.has_slopes()) return join_gradients(call);
        LinearBuffers over;
        over.gate = told_from(call.at(call.of.slopes), place() + 1, ranks_.size, state_bytes());
        over.input = behind;
        over.output = call.at(call.of.unused);
        over.state_out = gradient;
        over.scratch = call.at(call.of.inner);
        behind_->forward(over, call.stream);
        return gradient;
    }
    // Finds the gradient of the states after the own steps for matrices, going back through one rank after the other.
    const void* join_gradients(const Call& call) const {
        const char* const matrices = call.at(p_.is_affine() ? call.of.products : call.of.totals);
        const int64_t matrix_bytes = p_.is_affine() ? told_.product_bytes() : state_bytes();
        const char* const locals = call.at(call.of.locals);
        const void* gradient = told_by(locals, ranks_.size - 1, state_bytes());
        char *to = call.at(call.of.gradient), *other = call.at(call.of.other);
        for (int32_t k = ranks_.size - 2; k > place(); --k) {
            RankJoinParams join;
            join.gradient = gradient;
            join.matrix = told_by(matrices, k, matrix_bytes);
            join.local = told_by(locals, k, state_bytes());
            join.joined = to;
            join.chains = p_.chains();
            join.dim = p_.dim;
            join.affine = p_.is_affine() ? 1 : 0;
            launch(kernels_.join, threads_in_blocks(told_.numbers(), rank_threads), call.stream, join);
            gradient = to;
            std::swap(to, other);
        }
        return gradient;
    }

    // Finds it for custom elements, by backward of an exclusive scan of the totals of the ranks behind from the states
    // after the own steps: OUTPUT of that scan has the states that enter these ranks, STATE_OUT what enters the last.
    const void* pull_back(const Call& call) const {
        const char* const last = told_by(call.at(call.of.locals), ranks_.size - 1, state_bytes());
        if (!through_) return last;
        void* const state = call.at(call.of.other);
        join_totals(call, *with_own_, place() + 1, state);
        const int32_t first = place() + 1, end = ranks_.size - 1;
        OperatorBuffers over;
        over.state_in = state;
        over.input = told_by_tellers(call, call.of.totals, first, end, call.of.totals_joined);
        over.grad_output = told_by_tellers(call, call.of.locals, first, end, call.of.locals_joined);
        over.grad_state_out = last;
        over.grad_state_in = call.at(call.of.gradient);
        over.scratch = call.at(call.of.inner);
        through_->backward(over, call.stream);
        return over.grad_state_in;
    }

    OperatorProblem p_;
    OperatorTold told_;
    bool in_registers_;
    Options options_;  // of one GPU
    Communicator ranks_;
    MakeOperator make_;
    std::unique_ptr<OperatorKernel> inner_;
    Wavefront<OperatorFamily> wavefront_;
    RankMatrixKernels kernels_;
    std::unique_ptr<OperatorKernel> total_,  // reduces the own steps
        product_,                            // of affine maps: multiplies the matrices of the own steps
        before_,                             // reduces the totals of the ranks before this one
        all_,                                // of a reduction: reduces the totals of all ranks
        store_,                              // of a reduction: stores a state as OUTPUT, by a reduction of no steps
        gradients_,    // of a reduction, on its last rank: adds the gradients of OUTPUT that all ranks are given
        ones_,         // of numbers with slopes: stores ones, by a product of no steps
        sums_behind_,  // of sums: adds the local gradients of the ranks behind
        with_own_,     // of custom elements: reduces the totals of the ranks up to and with this one
        through_;      // of custom elements: scans the totals of the ranks between this one and the last
    std::unique_ptr<LinearKernel> behind_;  // of numbers with slopes: takes a gradient back through the ranks behind
    std::vector<int32_t> tellers_;          // the places of the ranks whose totals count, in the order of computation
    RankPlan forward_, backward_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_ranks(const OperatorProblem& problem, const Options& options,
                                                    std::unique_ptr<OperatorKernel> inner, MakeOperator make,
                                                    MakeLinear make_linear, bool in_registers) {
    return std::make_unique<OperatorRanks>(problem, options, std::move(inner), make, make_linear, in_registers);
}

}  // namespace flashscan::cuda
