// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process: an all-gather among them, and problems that are cut over them in time.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "support/call.h"

namespace support {

// The ranks of one communicator meet here. An all-gather that does not get all of them within half a minute fails on
// those that came, so that no test hangs.
class Meeting {
  public:
    // The ranks' memory is that of `backend`.
    explicit Meeting(int32_t size, int32_t backend = FLASHSCAN_BACKEND_CPU);
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

    int32_t size() const { return static_cast<int32_t>(seats_.size()); }
    flashscan_comm comm(int32_t rank);
    // From now on ranks ask for gradients that are sums over time to be those of all of them.
    void sum_gradients() { flags_ = FLASHSCAN_COMM_FLAG_SUM_GRADIENTS; }
    bool sums_gradients() const { return flags_ != 0; }
    // How carries travel, and by how many groups of a wavefront; ranks can send to each other.
    void carry(int32_t carries, int32_t groups) { carries_ = carries, groups_ = groups; }
    // The ranks meet by functions of NCCL's form, which are this meeting's, and take turns on so many devices.
    void pose_as_nccl(int32_t devices = 1) { nccl_ = true, devices_ = devices; }
    // The ranks are those of NCCL's communicators, one for each, and each has a device of its own.
    void meet_elsewhere(const std::vector<void*>& comms) { comms_ = comms; }
    int32_t backend() const { return backend_; }
    int32_t device(int32_t rank) const { return comms_.empty() ? rank % devices_ : rank; }
    // The all-gather after so many from now on returns `status` to all ranks.
    void fail_after(int64_t calls, int32_t status);
    int64_t calls() const { return calls_; }
    // Says what the library asked for and should not have.
    const std::string& trouble() const { return trouble_; }

  private:
    struct Seat {
        Meeting* meeting;
        int32_t rank;
        const void* send;
        size_t bytes;
    };
    static int32_t all_gather(void* user, const void* send, void* receive, size_t bytes, void* stream) noexcept;
    int32_t gather(Seat& seat, const void* send, void* receive, size_t bytes, void* stream);
    static int32_t send(void* user, const void* data, size_t bytes, int32_t to, void* stream) noexcept;
    static int32_t receive(void* user, void* data, size_t bytes, int32_t from, void* stream) noexcept;
    static const flashscan_nccl& nccl();
    bool arrive(std::unique_lock<std::mutex>& lock);

    std::vector<Seat> seats_;
    int32_t backend_;
    uint32_t flags_ = 0;
    int32_t carries_ = -1, groups_ = 0;  // -1: ranks cannot send to each other
    bool nccl_ = false;
    int32_t devices_ = 1;
    std::vector<void*> comms_;
    std::map<std::pair<int32_t, int32_t>, std::deque<Bytes>> mail_;  // from and to
    std::mutex mutex_;
    std::condition_variable all_here_;
    size_t arrived_ = 0;
    int64_t round_ = 0, calls_ = 0, failing_call_ = -1;
    int32_t failure_ = 0;
    bool late_ = false;
    std::string trouble_;
};

// Calls f(rank) on a thread for each rank at once.
void on_ranks(int32_t size, const std::function<void(int32_t)>& f);
// The same for every rank that meets; what f throws becomes text in damage(rank).
void on_ranks(const Meeting& meeting, const std::function<void(int32_t)>& f,
              const std::function<std::string&(int32_t)>& damage);

// Lengths of the parts of `ranks` ranks: uneven, some of them 0.
std::vector<int64_t> cut_of(int64_t time, int32_t ranks, uint64_t seed);

// Steps [begin, end) of values whose axis in the middle is time, and their way back.
Values steps_of(const Values& values, const std::array<int64_t, 3>& extents, int64_t begin, int64_t end);
void put_steps(Values& all, const Values& part, const std::array<int64_t, 3>& extents, int64_t begin, int64_t end);

// SEQ_OFFSETS of the part [begin, end) of packed steps: none where there are none.
std::vector<int64_t> offsets_of(const std::vector<int64_t>& offsets, int64_t begin, int64_t end);

// The steps [begin, end) of one rank.
struct RankSteps {
    int64_t begin = 0, end = 0;
};
RankSteps steps_of_rank(const std::vector<int64_t>& lengths, size_t rank);

// The problem of one rank: its own steps, and states where they belong to it.
template <typename Problem>
Problem problem_of_rank(Problem p, const std::vector<int64_t>& lengths, size_t rank) {
    const size_t first = p.reverse ? lengths.size() - 1 : 0;
    p.time = lengths[rank];
    p.state_in = p.state_in && rank == first;
    p.state_out = p.state_out && rank == lengths.size() - 1 - first;
    p.threads = std::max(p.threads, 1);
    return p;
}
// The resets of one rank's steps.
template <typename Problem>
std::vector<uint8_t> resets_of_rank(const Problem& p, const std::vector<uint8_t>& reset, RankSteps steps) {
    std::vector<uint8_t> part;
    for (int64_t b = 0; p.reset && b < p.batch; ++b)
        part.insert(part.end(), reset.begin() + b * p.time + steps.begin, reset.begin() + b * p.time + steps.end);
    return part;
}

// The part of one rank.
struct RankPart {
    Problem problem;
    Data data;
    int64_t begin = 0;
};
RankPart part_of(const Problem& problem, const Data& data, const std::vector<int64_t>& lengths, size_t rank);

// Runs a pass of the whole problem on ranks, as run_forward and run_backward do on one, and puts the results together.
// GRAD|GATE that is broadcast in time is the sum of all ranks', which the library has made where the ranks ask for
// that, and else the test; `rounding` is what they may have lost as
// each was rounded to the gate's type.
struct RanksOutcome : Outcome {
    std::vector<double> rounding;
    std::vector<Run> ranks;
};
RanksOutcome run_over_ranks(const Problem& problem, const Target& target, const Data& data,
                            const std::vector<int64_t>& lengths, Meeting& meeting, bool backward);
// The same on parts that were cut already.
RanksOutcome run_over_ranks(const Problem& problem, const Target& target, const std::vector<RankPart>& parts,
                            Meeting& meeting, bool backward);

}  // namespace support
