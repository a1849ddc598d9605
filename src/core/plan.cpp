// SPDX-License-Identifier: Apache-2.0
// The one implementation of Plan, for all families. The constructor checks the problem and chooses the kernel. A call
// checks its arguments, gets scratch, copies states that are not dense, and runs the kernel.
#include "core/plan.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "core/cookie.h"
#include "core/error.h"
#include "core/families.h"
#include "core/index_checks.h"
#include "core/planner.h"
#include "core/rank_sums.h"
#include "core/workspace.h"

namespace flashscan {
namespace {

void* allocate(const Backend& backend, const Options& options, size_t bytes, void* stream) {
    const Allocator& own = options.allocator;
    if (own.allocate == nullptr) return backend.allocate(bytes, options, stream);
    void* memory = own.allocate(own.user, bytes, stream);
    if (memory == nullptr) fail(Code::out_of_memory, "allocator.allocate returned NULL for {} bytes", bytes);
    if (reinterpret_cast<uintptr_t>(memory) % workspace_alignment == 0) return memory;
    own.release(own.user, memory, bytes, stream);
    fail(Code::invalid_pointer, "allocator.allocate returned {}, which is not a multiple of {} bytes", memory,
         workspace_alignment);
}

// Scratch that lives for one call: the caller's if it was passed, else the allocator's or the backend's.
class Scratch {
  public:
    Scratch(const Backend& backend, const Options& options, void* given, size_t bytes, void* stream)
        : backend_(backend), options_(options), bytes_(bytes), stream_(stream) {
        if (given != nullptr || bytes == 0)
            memory_ = given;
        else
            owned_ = memory_ = allocate(backend, options, bytes, stream);
    }
    ~Scratch() {
        if (owned_ == nullptr) return;
        if (options_.allocator.release != nullptr)
            options_.allocator.release(options_.allocator.user, owned_, bytes_, stream_);
        else
            backend_.release(owned_, options_, stream_);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    void* get() const { return memory_; }

  private:
    const Backend& backend_;
    const Options& options_;
    size_t bytes_;
    void* stream_;
    void* memory_ = nullptr;
    void* owned_ = nullptr;
};

template <typename Family>
class FamilyPlan final : public Plan {
  public:
    FamilyPlan(const typename Family::Problem& problem, const Options& options)
        : problem_(problem), options_(options), backend_(&find_backend(options.backend)) {
        validate(problem_);
        if (options_.communicator) Family::check_ranks(problem_);
        backend_->settle(options_);
        auto choice = choose(backend_->name(), Family::candidates(*backend_), problem_, options_);
        kernel_ = std::move(choice.kernel);
        kernel_name_ = std::move(choice.name);
        passed_over_ = std::move(choice.passed_over);
        cookie_ = make_cookie(problem_.describe() + kernel_name_ + Family::memory(problem_, *kernel_));
        lay_out();
        // Over ranks whose plans settle later, the log is told then.
        if (!options_.communicator || !backend_->settles_ranks()) log();
    }

    int64_t steps() const override { return problem_.time; }
    void meet() override { kernel_->meet(); }
    void settle(std::span<const int64_t> steps) override {
        kernel_->settle(steps);
        lay_out();
        log();
    }

    size_t argument_bytes(Pass pass, int32_t id) const override {
        check_pass(pass);
        for (const ArgumentSpec& spec : specs(pass))
            if (spec.id == id) return spec.bytes;
        refuse_unknown(pass, specs(pass), "arg_id", id);
    }

    const std::string& describe() const override { return description_; }
    const Options& options() const override { return options_; }
    const std::string& kernel_name() const override { return kernel_name_; }
    const std::string& kernel_detail() const override { return kernel_detail_; }
    std::span<const ArgumentSpec> arguments(Pass pass) const override {
        check_pass(pass);
        return specs(pass);
    }

    std::string agreement() const override {
        const Communicator& ranks = options_.communicator;
        std::string text = fmt::format("{}{} {} {}", Family::describe_ranks(problem_),
                                       options_.batch_invariant ? " batch-invariant" : "", backend_->name(),
                                       backend_->facts().in_use + (ranks.sums_gradients ? " sums" : ""));
        // Ranks compare how their carries travel, since ranks that choose different ways would wait for each other.
        if (ranks && backend_->settles_ranks())
            text += fmt::format(" carries {} groups {}{}", static_cast<int32_t>(ranks.carries), ranks.groups,
                                ranks.nccl_handle || ranks.send != nullptr ? " sends" : "");
        return text;
    }

    void execute(Pass pass, std::span<const Argument> arguments, void* stream) const override {
        bool started = false;
        try {
            execute(pass, arguments, stream, started);
        } catch (const Error& error) {
            if (!started) kernel_->withdraw(pass, error.code(), error.what(), stream);
            throw;
        } catch (const std::bad_alloc&) {
            if (!started) kernel_->withdraw(pass, Code::out_of_memory, "out of host memory", stream);
            throw;
        }
    }

    // Runs a call with made-up addresses, which nothing reads because nothing is enqueued.
    int64_t launches(Pass pass) const override {
        check_pass(pass);
        std::vector<Argument> all;
        uintptr_t next = workspace_alignment;
        for (const ArgumentSpec& spec : specs(pass)) {
            all.push_back({spec.id, reinterpret_cast<void*>(next), spec.bytes});
            next += round_up(spec.bytes, workspace_alignment);
        }
        const Pointers given = check_arguments(pass, specs(pass), all);
        const auto buffers = Family::buffers(problem_, pass, given);
        bool started = false;
        return backend_->count_launches([&] { run(pass, given, buffers, buffers.scratch, nullptr, started); });
    }

  private:
    // Lists the arguments and writes the description, both of which follow from the kernel.
    void lay_out() {
        kernel_detail_ = kernel_->describe();
        forward_ = Family::arguments(problem_, *kernel_, Pass::forward, options_.caller_scratch);
        if (!problem_.pooled())
            backward_ = Family::arguments(problem_, *kernel_, Pass::backward, options_.caller_scratch);
        for (auto* specs : {&forward_, &backward_})
            std::erase_if(*specs, [&](const auto& spec) { return elsewhere(spec.id); });
        if (options_.communicator.sums_gradients) {
            sums_ = RankSums(backward_, sums_of(problem_), options_.communicator);
            if (sums_of(problem_).empty())
                fail(Code::unsupported,
                     "communicator.flags has COMM_FLAG_SUM_GRADIENTS, but no gradient of {} is a sum over time",
                     problem_.describe());
        }
        if (!kernel_->takes_states_in_place(Pass::forward)) forward_states_ = StridedStates(forward_, problem_);
        if (!kernel_->takes_states_in_place(Pass::backward)) backward_states_ = StridedStates(backward_, problem_);
        description_ = fmt::format("{}\nbackend {} device {}\nkernel {}: {}\n{}scratch forward {} backward {} bytes\n",
                                   problem_.describe(), backend_->name(), options_.device, kernel_name_, kernel_detail_,
                                   Family::memory(problem_, *kernel_), scratch_bytes(Pass::forward),
                                   scratch_bytes(Pass::backward));
        for (const StridedStates* states : {&forward_states_, &backward_states_})
            if (!states->none()) description_ += fmt::format("copied through scratch: {}\n", states->describe());
        if (!sums_.none()) description_ += fmt::format("added up over ranks: {}\n", sums_.describe());
        if (!passed_over_.empty()) description_ += "passed over\n" + passed_over_;
        const size_t most = std::max(scratch_bytes(Pass::forward), scratch_bytes(Pass::backward));
        const bool elsewhere = options_.caller_scratch || options_.allocator.allocate != nullptr;
        kept_scratch_ = backend_->keep_scratch(elsewhere ? 0 : most, options_);
    }
    void log() const {
        if (options_.log) options_.log(LogLevel::info, description_.c_str());
    }
    void check_pass(Pass pass) const {
        if (pass == Pass::backward && problem_.pooled())
            fail(Code::invalid_argument, "this plan has no backward pass: its states lie in a pool (state_pool is {})",
                 problem_.state_pool);
        Family::check_pass(problem_, pass);
    }
    bool elsewhere(int32_t id) const { return is_elsewhere(options_.communicator, problem_.direction, id); }
    using Buffers = decltype(Family::buffers(std::declval<const typename Family::Problem&>(), Pass::forward,
                                             std::declval<const Pointers&>()));
    static constexpr bool has_reserve = requires(Buffers buffers) { buffers.reserve; };

    // Sets `started` when the call has come as far as the kernel.
    void execute(Pass pass, std::span<const Argument> arguments, void* stream, bool& started) const {
        check_pass(pass);
        for (const Argument& argument : arguments)
            refuse_elsewhere(options_.communicator, problem_.direction, argument.id);
        const Pointers given = check_arguments(pass, specs(pass), arguments);
        const auto buffers = Family::buffers(problem_, pass, given);
        backend_->check_memory(specs(pass), arguments, options_);
        if (problem_.packed())
            check_offsets(backend_->read_integers(buffers.seq_offsets, problem_.offsets_dtype,
                                                  problem_.num_sequences + 1, options_, stream),
                          problem_.time);
        if (problem_.pooled())
            check_state_indices(backend_->read_integers(given[ArgId::state_indices], Dtype::i32, problem_.state_rows(),
                                                        options_, stream),
                                problem_.state_pool, given[ArgId::state_out] != nullptr);
        if (pass == Pass::backward) check_reserve(buffers, stream);
        const Scratch scratch(*backend_, options_, buffers.scratch, scratch_bytes(pass), stream);
        run(pass, given, buffers, scratch.get(), stream, started);
        if (pass == Pass::forward) mark_reserve(buffers, stream);
    }

    // `buffers` has the pointers that were given. States with strides or in a pool are replaced by dense copies in
    // scratch, unless the kernel takes them where they lie.
    void run(Pass pass, const Pointers& given, Buffers buffers, void* scratch, void* stream, bool& started) const {
        const StridedStates& states = pass == Pass::forward ? forward_states_ : backward_states_;
        std::vector<RowCopy> into_scratch, out_of_scratch;  // are filled before anything is written, as that may throw
        if (!states.none()) {
            buffers = Family::buffers(problem_, pass, states.in_scratch(given, scratch));
            into_scratch = states.copies(given, scratch, false);
            out_of_scratch = states.copies(given, scratch, true);
        }
        copy_states(into_scratch, stream);
        buffers.scratch = scratch;
        started = true;
        clear_counts(buffers, stream);
        if constexpr (has_reserve)
            if (marked(buffers)) buffers.reserve = static_cast<std::byte*>(buffers.reserve) + Cookie::bytes;
        if (pass == Pass::forward)
            kernel_->forward(buffers, stream);
        else
            kernel_->backward(buffers, stream);
        if (pass == Pass::backward && !sums_.none()) sums_.add(*backend_, options_, given, scratch, stream);
        if (problem_.pooled() && !problem_.empty() && !kernel_->takes_states_in_place(pass))
            clear_padding(given, stream);
        copy_states(out_of_scratch, stream);
    }
    // A kernel that iterates counts from 0, which is what others leave.
    void clear_counts(const Buffers& buffers, void* stream) const {
        if constexpr (requires { buffers.iterations; })
            for (auto [count, id] :
                 {std::pair<void*, ArgId>{buffers.iterations, ArgId::iterations}, {buffers.residual, ArgId::residual}})
                if (count != nullptr)
                    backend_->clear_memory(count, argument_bytes(Pass::forward, id_of(id)), options_, stream);
    }
    void clear_padding(const Pointers& given, void* stream) const {
        const auto output =
            std::find_if(forward_.begin(), forward_.end(), [](const auto& s) { return s.id == id_of(ArgId::output); });
        const RowSelection rows{static_cast<const int32_t*>(given[ArgId::state_indices]), problem_.state_rows(),
                                given[ArgId::seq_offsets], problem_.offsets_dtype, problem_.state_pool};
        backend_->clear_rows(*output, given[ArgId::output], rows, options_, stream);
    }
    void copy_states(const std::vector<RowCopy>& copies, void* stream) const {
        for (const RowCopy& copy : copies) backend_->copy_rows(copy, options_, stream);
    }
    bool marked(const Buffers& buffers) const { return buffers.reserve != nullptr && !problem_.empty(); }
    Cookie cookie(const Buffers& buffers) const {
        Cookie mine = cookie_;
        mine.state_in = buffers.state_in != nullptr ? 1 : 0;
        return mine;
    }
    void mark_reserve(const Buffers& buffers, void* stream) const {
        if constexpr (has_reserve) {
            if (marked(buffers)) backend_->write_cookie(buffers.reserve, cookie(buffers), options_, stream);
        }
    }
    void check_reserve(const Buffers& buffers, void* stream) const {
        if constexpr (has_reserve) {
            if (!marked(buffers)) return;
            if (const auto found = backend_->read_cookie(buffers.reserve, options_, stream))
                check_cookie(*found, cookie(buffers));
        }
    }
    std::span<const ArgumentSpec> specs(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    size_t scratch_bytes(Pass pass) const { return specs(pass).empty() ? 0 : specs(pass).back().bytes; }

    typename Family::Problem problem_;
    Options options_;
    const Backend* backend_;
    std::unique_ptr<typename Family::Kernel> kernel_;
    std::shared_ptr<void> kept_scratch_;
    std::vector<ArgumentSpec> forward_, backward_;
    StridedStates forward_states_, backward_states_;
    RankSums sums_;
    Cookie cookie_;  // its state_in is set by each call
    std::string kernel_name_, kernel_detail_, passed_over_, description_;
};

}  // namespace

std::unique_ptr<Plan> make_plan(const LinearProblem& problem, const Options& options) {
    return std::make_unique<FamilyPlan<LinearFamily>>(problem, options);
}

std::unique_ptr<Plan> make_plan(const RnnProblem& problem, const Options& options) {
    return std::make_unique<FamilyPlan<RnnFamily>>(problem, options);
}

std::unique_ptr<Plan> make_plan(const OperatorProblem& problem, const Options& options) {
    return std::make_unique<FamilyPlan<OperatorFamily>>(problem, options);
}

std::unique_ptr<Plan> make_plan(const GatedProblem& problem, const Options& options) {
    return std::make_unique<FamilyPlan<GatedFamily>>(problem, options);
}

std::unique_ptr<Plan> make_plan(const SelectiveProblem& problem, const Options& options) {
    return std::make_unique<FamilyPlan<SelectiveFamily>>(problem, options);
}

}  // namespace flashscan
