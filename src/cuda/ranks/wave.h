// SPDX-License-Identifier: Apache-2.0
// Chooses how the carries of a pass travel, by the numbers of steps of all ranks, and hands them on in a wavefront
// where that is chosen: for each group of rows, receive its states -> the kernel of one GPU -> send what leaves it.
// Messages go through the memory of the GPUs where these reach each other, else through NCCL or the caller's functions.
// They are on streams of their own, so that they travel while another group is computed, and groups take turns on two
// streams, so that one begins while the one before drains.
//
// A Family has Problem, Buffers and Kernel, `gathers`, which tells whether it has the other way too, and state_bytes,
// those of the state of a channel. slices.h cuts its problems.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/rank_schedule.h"
#include "core/workspace.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/peer_mail.h"
#include "cuda/launch/rank_link.h"
#include "cuda/launch/rank_streams.h"
#include "cuda/ranks/slices.h"

namespace flashscan::cuda {

// Makes the kernel of one GPU.
template <typename Family>
using Alone = std::unique_ptr<typename Family::Kernel> (*)(const typename Family::Problem&, const Options&);

template <typename Family>
class Wavefront {
    using Problem = typename Family::Problem;
    using Buffers = typename Family::Buffers;
    using Kernel = typename Family::Kernel;

  public:
    Wavefront(const Problem& problem, const Options& options, Alone<Family> make)
        : p_(problem), options_(options), ranks_(options.communicator), make_(make) {
        options_.communicator = {};
        options_.kernel.clear();
    }

    // Looks for the other ranks' memory; all ranks call it together, before settle.
    void meet() {
        if (ranks_.carries == Carries::gathered || options_.batch_invariant) return;
        if (most_groups(p_, Pass::forward) == 0 && most_groups(p_, Pass::backward) == 0) return;
        const int32_t groups = ranks_.groups > 0 ? ranks_.groups : most_chosen_groups;
        const Extent states = p_.state_rows().named("states") * p_.channels * state_bytes();
        constexpr int64_t two_passes = 2;
        mail_ = PeerMail::open(ranks_, options_.device, static_cast<size_t>(two_passes * groups), two_passes * states);
    }
    // Chooses a schedule for each of `passes`; work_of(pass) returns the work of a pass.
    template <typename WorkOf>
    void settle(std::span<const Pass> passes, WorkOf&& work_of) {
        size_t groups = 0;
        for (const Pass pass : passes) {
            choose(pass, work_of(pass));
            if (!is_wavefront(pass)) continue;
            cut(pass);
            WavePlan& to = plan(pass);
            groups = std::max(groups, to.slices.list.size());
            if (mail_)
                for (const RowSlice& slice : to.slices.list)
                    to.messages.push_back(mail_->add(static_cast<size_t>(slice.states * state_bytes())));
        }
        if (groups == 0) mail_.reset();
        if (groups > 0) streams_ = std::make_unique<RankStreams>(options_.device, groups, mail_ == nullptr);
    }
    // Returns whether a pass goes in a wavefront; gathered otherwise.
    bool is_wavefront(Pass pass) const { return schedule(pass).carries == Carries::wavefront; }
    // Returns the order in which ranks compute a pass.
    Direction order(Pass pass) const {
        const bool reverse = (p_.direction == Direction::reverse) != (pass == Pass::backward);
        return reverse ? Direction::reverse : Direction::forward;
    }
    const RankSchedule& schedule(Pass pass) const { return plan(pass).schedule; }
    const RowSlices& slices(Pass pass) const { return plan(pass).slices; }
    // Returns "forward in a wavefront of ..." or "forward gathered <what>, ...".
    std::string describe(Pass pass, const std::string& what) const {
        const WavePlan& of = plan(pass);
        const char* const name = pass == Pass::forward ? "forward" : "backward";
        if (!is_wavefront(pass)) return fmt::format("{} gathered {}, {}", name, what, of.schedule.why);
        return fmt::format("{} in a wavefront of {} groups of {}{}, {}, each {}", name, of.slices.list.size(),
                           of.slices.of, mail_ ? " through the memory of the GPUs" : "", of.schedule.why,
                           of.kernels.front()->describe());
    }

    // Books what a wavefront takes of SCRATCH.
    void book(Pass pass, Workspace& scratch) {
        WavePlan& to = plan(pass);
        const Extent states =
            is_wavefront(pass) ? p_.state_rows().named("SCRATCH") * p_.channels * state_bytes() : Extent();
        to.carry = scratch.book(states);
        to.left = scratch.book(states);
        to.before = scratch.book(to.slices.along_channels ? states : Extent());
        size_t inner = 0;
        for (const auto& kernel : to.kernels) inner = std::max(inner, kernel->scratch_bytes(pass));
        for (size_t& place : to.inner) place = scratch.book(Extent(inner, "SCRATCH"));
    }

    // Runs a pass. `before` are the states before the own steps, which backward reads: [rows, channels] or, `grouped`,
    // group by group.
    void run(Pass pass, const Buffers& b, const void* before, bool grouped, void* stream) const {
        const Call call = begin(pass, b, before, grouped, stream);
        const size_t groups = call.of.slices.list.size();
        RankStreams::Fork fork(*streams_, stream);
        receive_group(call, 0);
        for (size_t k = 0; k < groups; ++k) {
            // The next group is received before this one is sent, as sending may wait for the rank that receives.
            if (k + 1 < groups) receive_group(call, k + 1);
            void* const computing = fork.of_group(k);
            if (call.from >= 0) streams_->wait_for(k, computing);
            compute_group(call, k, computing);
            if (call.to < 0) continue;
            streams_->follow(k, computing);
            send_group(call, k);
        }
        fork.join();
        if (call.leaves != nullptr && call.of.slices.along_channels)
            regroup(pass, call.left, call.leaves, false, stream);
    }

  private:
    // A plan settles these for each pass.
    struct WavePlan {
        RankSchedule schedule;
        RowSlices slices;
        std::vector<std::unique_ptr<Kernel>> kernels;  // of slices; those of equal extents share one
        std::vector<size_t> kernel_of;                 // for each slice, the index of its kernel
        std::vector<size_t> messages;                  // for each slice, the number of its message in mail_
        // Places in scratch.
        size_t carry = 0, left = 0, before = 0;
        std::array<size_t, 2> inner{};  // of a kernel, and of the one that runs beside it
    };
    struct Call {
        const WavePlan& of;
        const Buffers& b;
        bool backward;
        int32_t from = -1, to = -1;                 // the neighbours; -1: none
        char *arriving = nullptr, *left = nullptr;  // states of groups in scratch
        // States of all groups, one group after another; in backward all but `before` are gradients of states.
        const char* enters = nullptr;  // the states before this rank's steps in the order of the pass; null for zeros
        const char* before = nullptr;  // the states before this rank's steps in time, which backward reads
        char* out = nullptr;           // where the states after this rank's steps are stored, which the next rank gets
        void* leaves = nullptr;        // the caller's array for the states in `out`, [rows, channels]; null: not wanted
        char* at(size_t place) const { return static_cast<char*>(b.scratch) + place; }
    };
    WavePlan& plan(Pass pass) { return pass == Pass::forward ? forward_ : backward_; }
    const WavePlan& plan(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    int64_t state_bytes() const { return Family::state_bytes(p_); }

    void choose(Pass pass, RankWork work) {
        work.peer_memory = mail_ != nullptr;
        work.cuts = row_cuts(p_, pass);
        const char* const why_gathered = ranks_.carries != Carries::chosen ? nullptr
                                         : !can_send(ranks_)               ? "the communicator has no send and receive"
                                         : options_.batch_invariant
                                             ? "BATCH_INVARIANT rules out a choice by the number of rows"
                                             : nullptr;
        const char* const why = Family::gathers ? why_gathered : "the way that this family has";
        const Carries wanted = !Family::gathers          ? Carries::wavefront
                               : why_gathered != nullptr ? Carries::gathered
                                                         : ranks_.carries;
        RankSchedule& schedule = plan(pass).schedule;
        schedule = choose_schedule(work, wanted, ranks_.groups);
        if (why != nullptr) schedule.why = why;
    }
    void cut(Pass pass) {
        WavePlan& to = plan(pass);
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

    Call begin(Pass pass, const Buffers& b, const void* before, bool grouped, void* stream) const {
        const WavePlan& of = plan(pass);
        const bool backward = pass == Pass::backward;
        Call call{of, b, backward};
        call.arriving = call.at(of.carry);
        call.left = call.at(of.left);
        const int32_t at = ranks_.place(ranks_.rank, order(pass)), last = ranks_.size - 1;
        if (at > 0) call.from = ranks_.place(at - 1, order(pass));
        if (at < last) call.to = ranks_.place(at + 1, order(pass));
        // Where groups are entries of the batch, the caller's states lie group by group already.
        const bool regroups = of.slices.along_channels;
        const auto by_groups = [&](const void* states, char* scratch, bool are) {
            if (are || !regroups || states == nullptr) return static_cast<const char*>(states);
            regroup(pass, states, scratch, true, stream);
            return static_cast<const char*>(scratch);
        };
        call.enters =
            call.from >= 0 ? call.arriving : by_groups(backward ? b.grad_state_out : b.state_in, call.arriving, false);
        call.before = by_groups(before, call.at(of.before), grouped);
        call.leaves = backward ? b.grad_state_in : b.state_out;
        const bool leave_scratch = call.to >= 0 || (call.leaves != nullptr && regroups);
        call.out = leave_scratch ? call.left : static_cast<char*>(call.leaves);
        return call;
    }
    void receive_group(const Call& call, size_t k) const {
        if (call.from < 0) return;
        const RowSlice& slice = call.of.slices.list[k];
        char* const arriving = call.arriving + slice.first_state * state_bytes();
        if (mail_)
            mail_->collect(call.of.messages[k], arriving, streams_->incoming());
        else
            receive(ranks_, arriving, bytes_of(slice), call.from, streams_->incoming());
        streams_->arrived(k);
    }
    void compute_group(const Call& call, size_t k, void* stream) const {
        const RowSlice& slice = call.of.slices.list[k];
        const auto of_group = [place = slice.first_state * state_bytes()](auto* states) {
            return states != nullptr ? states + place : nullptr;
        };
        const Kernel& kernel = *call.of.kernels[call.of.kernel_of[k]];
        Buffers own = buffers_of(p_, slice, call.b);
        own.scratch = call.at(call.of.inner[k % 2]);
        if (call.backward) {
            own.grad_state_out = of_group(call.enters);
            own.grad_state_in = of_group(call.out);
            own.state_in = of_group(call.before);
            return kernel.backward(own, stream);
        }
        own.state_in = of_group(call.enters);
        own.state_out = of_group(call.out);
        kernel.forward(own, stream);
    }
    void send_group(const Call& call, size_t k) const {
        const RowSlice& slice = call.of.slices.list[k];
        const char* const leaving = call.out + slice.first_state * state_bytes();
        if (mail_)
            mail_->deliver(call.of.messages[k], leaving, call.to, streams_->outgoing());
        else
            send(ranks_, leaving, bytes_of(slice), call.to, streams_->outgoing());
    }
    size_t bytes_of(const RowSlice& slice) const { return static_cast<size_t>(slice.states * state_bytes()); }

    // Copies states between [rows, channels] and group by group.
    void regroup(Pass pass, const void* from, void* to, bool into_groups, void* stream) const {
        const int64_t size = state_bytes(), row = p_.channels * size;
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

    Problem p_;
    Options options_;
    Communicator ranks_;
    Alone<Family> make_;
    WavePlan forward_, backward_;
    std::unique_ptr<PeerMail> mail_;  // null where messages go through NCCL or callbacks
    std::unique_ptr<RankStreams> streams_;
};

// Returns the steps of the rank that has most.
inline int64_t most_steps(std::span<const int64_t> steps) { return *std::max_element(steps.begin(), steps.end()); }

}  // namespace flashscan::cuda
