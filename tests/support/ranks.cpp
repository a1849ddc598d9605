// SPDX-License-Identifier: Apache-2.0
#include "support/ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <thread>

namespace support {
namespace {

constexpr int32_t too_late = 77;

// Adds the part of a gradient that one rank has summed over its own steps.
void add_parts(RanksOutcome& whole, const Values& part, int32_t dtype, bool added) {
    whole.grad_gate.resize(part.size());
    whole.rounding.resize(part.size());
    for (size_t i = 0; i < part.size(); ++i) {
        whole.grad_gate[i] = added ? part[i] : whole.grad_gate[i] + part[i];
        whole.rounding[i] += std::max(std::abs(part[i]) * unit_roundoff(dtype), ulp(dtype, 0) / 2);
    }
}

// One rank's pass, twice in the same memory.
Outcome run_part(const Problem& p, const Target& target, const Data& data, const flashscan_comm& comm, int32_t device,
                 bool backward) {
    Outcome outcome;
    flashscan_options options = options_of(p, target.backend, target.kernel);
    options.communicator = &comm;
    options.device = device;
    if (target.backend == FLASHSCAN_BACKEND_CUDA) cuda::select_device(device);
    const Plan plan(desc_of(p), options);
    if (failed(plan, outcome)) return outcome;
    Call call = backward ? backward_call(p, plan, target.backend, data, Guard::end)
                         : forward_call(p, plan, target.backend, data, Guard::start);
    if (!run_repeatedly(call, plan, 2, outcome)) return outcome;
    constexpr int32_t grad = FLASHSCAN_GRAD;
    if (!backward) {
        outcome.output = call.values(FLASHSCAN_ARG_OUTPUT);
        if (p.state_out) outcome.state_out = call.values(FLASHSCAN_ARG_STATE_OUT);
        return outcome;
    }
    if ((p.gradients & gradient_input) != 0) outcome.grad_input = call.values(grad | FLASHSCAN_ARG_INPUT);
    if ((p.gradients & gradient_gate) != 0) outcome.grad_gate = call.values(grad | FLASHSCAN_ARG_GATE);
    if ((p.gradients & gradient_state) != 0 && p.state_in)
        outcome.grad_state_in = call.values(grad | FLASHSCAN_ARG_STATE_IN);
    return outcome;
}

}  // namespace

Values steps_of(const Values& values, const std::array<int64_t, 3>& extents, int64_t begin, int64_t end) {
    const auto& [rows, time, inner] = extents;
    Values part;
    for (int64_t row = 0; row < rows && !values.empty(); ++row)
        part.insert(part.end(), values.begin() + (row * time + begin) * inner,
                    values.begin() + (row * time + end) * inner);
    return part;
}

void put_steps(Values& all, const Values& part, const std::array<int64_t, 3>& extents, int64_t begin, int64_t end) {
    const auto& [rows, time, inner] = extents;
    all.resize(static_cast<size_t>(rows * time * inner));
    for (int64_t row = 0; row < rows && !part.empty(); ++row)
        std::copy_n(part.begin() + row * (end - begin) * inner, (end - begin) * inner,
                    all.begin() + (row * time + begin) * inner);
}

Meeting::Meeting(int32_t size, int32_t backend) : backend_(backend) {
    for (int32_t rank = 0; rank < size; ++rank) seats_.push_back({this, rank, nullptr, 0});
}

flashscan_comm Meeting::comm(int32_t rank) {
    flashscan_comm comm{};
    comm.struct_size = sizeof comm;
    comm.kind = FLASHSCAN_COMM_CALLBACKS;
    comm.rank = rank;
    comm.size = size();
    comm.user = &seats_[static_cast<size_t>(rank)];
    comm.flags = flags_;
    comm.carries = std::max(carries_, 0);
    comm.groups = groups_;
    if (!comms_.empty() || nccl_) {
        comm.kind = FLASHSCAN_COMM_NCCL;
        if (nccl_) comm.nccl = &nccl();
        if (!comms_.empty()) comm.user = comms_[static_cast<size_t>(rank)];
        return comm;
    }
    comm.all_gather = all_gather;
    if (carries_ >= 0) comm.send = send, comm.receive = receive;
    return comm;
}

void Meeting::fail_after(int64_t calls, int32_t status) {
    failing_call_ = calls_ + calls;
    failure_ = status;
}

int32_t Meeting::all_gather(void* user, const void* send, void* receive, size_t bytes, void* stream) noexcept {
    auto& seat = *static_cast<Seat*>(user);
    return seat.meeting->gather(seat, send, receive, bytes, stream);
}

int32_t Meeting::send(void* user, const void* data, size_t bytes, int32_t to, void* stream) noexcept {
    auto& seat = *static_cast<Seat*>(user);
    Meeting& here = *seat.meeting;
    Bytes letter(bytes);
    cuda::wait_for(stream);
    cuda::copy(letter.data(), data, bytes);
    const std::scoped_lock lock(here.mutex_);
    here.mail_[{seat.rank, to}].push_back(std::move(letter));
    here.all_here_.notify_all();
    return 0;
}

int32_t Meeting::receive(void* user, void* data, size_t bytes, int32_t from, void* stream) noexcept {
    auto& seat = *static_cast<Seat*>(user);
    Meeting& here = *seat.meeting;
    cuda::wait_for(stream);
    std::unique_lock lock(here.mutex_);
    auto& mail = here.mail_[{from, seat.rank}];
    if (!here.all_here_.wait_for(lock, std::chrono::seconds(30), [&] { return !mail.empty(); })) return too_late;
    const Bytes letter = std::move(mail.front());
    mail.pop_front();
    if (letter.size() != bytes) here.trouble_ += fmt::format("{} bytes come where {} are due; ", letter.size(), bytes);
    cuda::copy(data, letter.data(), std::min(bytes, letter.size()));
    return 0;
}

// Communicators are seats, and no call waits for others outside of a group, as those of NCCL do not.
const flashscan_nccl& Meeting::nccl() {
    static const flashscan_nccl table = [] {
        flashscan_nccl t{};
        t.struct_size = sizeof t;
        t.all_gather = [](const void* from, void* to, size_t bytes, int, void* comm, void* stream) -> int {
            return Meeting::all_gather(comm, from, to, bytes, stream);
        };
        t.send = [](const void* data, size_t bytes, int, int to, void* comm, void* stream) -> int {
            return Meeting::send(comm, data, bytes, to, stream);
        };
        t.receive = [](void* data, size_t bytes, int, int from, void* comm, void* stream) -> int {
            return Meeting::receive(comm, data, bytes, from, stream);
        };
        t.group_start = t.group_end = []() -> int { return 0; };
        t.comm_count = [](void* comm, int* count) -> int {
            *count = static_cast<Seat*>(comm)->meeting->size();
            return 0;
        };
        t.comm_rank = [](void* comm, int* rank) -> int {
            *rank = static_cast<Seat*>(comm)->rank;
            return 0;
        };
        t.comm_device = [](void* comm, int* device) -> int {
            const Seat& seat = *static_cast<Seat*>(comm);
            *device = seat.meeting->device(seat.rank);
            return 0;
        };
        t.async_error = [](void*, int* error) -> int {
            *error = 0;
            return 0;
        };
        t.error_text = [](int) { return "an error of the test's"; };
        return t;
    }();
    return table;
}

// Returns when all ranks are here.
bool Meeting::arrive(std::unique_lock<std::mutex>& lock) {
    const int64_t round = round_;
    if (++arrived_ == seats_.size()) {
        arrived_ = 0;
        ++round_;
        all_here_.notify_all();
        return true;
    }
    if (!all_here_.wait_for(lock, std::chrono::seconds(30), [&] { return round_ != round || late_; })) late_ = true;
    if (late_) all_here_.notify_all();
    return !late_;
}

int32_t Meeting::gather(Seat& seat, const void* send, void* receive, size_t bytes, void* stream) {
    if (backend_ == FLASHSCAN_BACKEND_CUDA) cuda::wait_for(stream);
    std::unique_lock lock(mutex_);
    const auto address = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
    if (address(send) % 64 != 0 || address(receive) % 64 != 0) trouble_ += "send or receive is not aligned; ";
    if (address(send) < address(receive) + bytes * seats_.size() && address(receive) < address(send) + bytes)
        trouble_ += "send and receive overlap; ";
    const auto copy = backend_ == FLASHSCAN_BACKEND_CUDA ? &cuda::copy : +[](void* to, const void* from, size_t count) {
        std::memcpy(to, from, count);
    };
    seat.send = send;
    seat.bytes = bytes;
    if (!arrive(lock)) return too_late;
    const int32_t status = calls_ == failing_call_ ? failure_ : 0;
    for (const Seat& other : seats_) {
        if (other.bytes != bytes)
            trouble_ += fmt::format("rank {} sends {} bytes, rank {} {}; ", seat.rank, bytes, other.rank, other.bytes);
        if (status == 0 && other.bytes == bytes)
            copy(static_cast<char*>(receive) + static_cast<size_t>(other.rank) * bytes, other.send, bytes);
    }
    // A rank keeps what it has sent until all have it.
    if (!arrive(lock)) return too_late;
    if (seat.rank == 0) ++calls_;
    if (!arrive(lock)) return too_late;
    return status;
}

void on_ranks(int32_t size, const std::function<void(int32_t)>& f) {
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < size; ++rank) threads.emplace_back(f, rank);
    for (std::thread& thread : threads) thread.join();
}

void on_ranks(const Meeting& meeting, const std::function<void(int32_t)>& f,
              const std::function<std::string&(int32_t)>& damage) {
    on_ranks(meeting.size(), [&](int32_t rank) {
        try {
            f(rank);
        } catch (const std::exception& error) {
            damage(rank) = error.what();
        }
    });
}

RankSteps steps_of_rank(const std::vector<int64_t>& lengths, size_t rank) {
    const int64_t begin = std::accumulate(lengths.begin(), lengths.begin() + static_cast<int64_t>(rank), int64_t{0});
    return {begin, begin + lengths[rank]};
}

std::vector<int64_t> cut_of(int64_t time, int32_t ranks, uint64_t seed) {
    std::vector<int64_t> ends;
    for (int32_t r = 0; r + 1 < ranks; ++r) {
        const double place = uniform(seed, 900, static_cast<uint64_t>(r));
        // Some ends fall together, at the ends of time above all.
        const double twice = place < 0.15 ? 0 : place > 0.85 ? 1 : place;
        ends.push_back(static_cast<int64_t>(twice * static_cast<double>(time)));
    }
    ends.push_back(time);
    std::sort(ends.begin(), ends.end());
    std::adjacent_difference(ends.begin(), ends.end(), ends.begin());
    return ends;
}

std::vector<int64_t> offsets_of(const std::vector<int64_t>& offsets, int64_t begin, int64_t end) {
    std::vector<int64_t> part;
    for (const int64_t offset : offsets) part.push_back(std::clamp(offset, begin, end) - begin);
    return part;
}

RankPart part_of(const Problem& p, const Data& data, const std::vector<int64_t>& lengths, size_t rank) {
    const RankSteps own = steps_of_rank(lengths, rank);
    RankPart part{problem_of_rank(p, lengths, rank), {}, own.begin};
    // STATE_IN is one rank's alone, and backward has to write something.
    if (p.gradients == gradient_state && !part.problem.state_in) part.problem.gradients = gradient_input;
    const auto steps = [&](const Values& values, const std::array<int64_t, 3>& e) {
        return steps_of(values, e, own.begin, own.end);
    };
    part.data.input = steps(data.input, p.extents());
    part.data.output = steps(data.output, p.extents());
    part.data.grad_output = steps(data.grad_output, p.extents());
    part.data.gate = p.broadcasts(FLASHSCAN_BROADCAST_TIME) ? data.gate : steps(data.gate, p.gate_extents());
    part.data.offsets = offsets_of(data.offsets, own.begin, own.end);
    if (part.problem.state_in) part.data.state_in = data.state_in;
    if (part.problem.state_out) part.data.grad_state_out = data.grad_state_out;
    part.data.reset = resets_of_rank(p, data.reset, own);
    return part;
}

RanksOutcome run_over_ranks(const Problem& p, const Target& target, const Data& data,
                            const std::vector<int64_t>& lengths, Meeting& meeting, bool backward) {
    std::vector<RankPart> parts;
    for (size_t rank = 0; rank < lengths.size(); ++rank) parts.push_back(part_of(p, data, lengths, rank));
    return run_over_ranks(p, target, parts, meeting, backward);
}

RanksOutcome run_over_ranks(const Problem& p, const Target& target, const std::vector<RankPart>& parts,
                            Meeting& meeting, bool backward) {
    std::vector<Outcome> outcomes(parts.size());
    const auto outcome = [&](int32_t rank) -> Outcome& { return outcomes[static_cast<size_t>(rank)]; };
    on_ranks(
        meeting,
        [&](int32_t rank) {
            const RankPart& part = parts[static_cast<size_t>(rank)];
            outcome(rank) =
                run_part(part.problem, target, part.data, meeting.comm(rank), meeting.device(rank), backward);
        },
        [&](int32_t rank) -> std::string& { return outcome(rank).damage; });
    RanksOutcome whole;
    whole.damage = meeting.trouble();
    const auto gate = p.gate_extents();
    for (size_t rank = 0; rank < parts.size(); ++rank) {
        const Outcome& one = outcomes[rank];
        whole.ranks.push_back(one);
        if (one.status != FLASHSCAN_STATUS_OK) {
            whole.status = one.status;
            whole.message += fmt::format("rank {}: {}; ", rank, one.message);
        }
        whole.damage += one.damage;
        const int64_t begin = parts[rank].begin, end = begin + parts[rank].problem.time;
        if (!one.output.empty()) put_steps(whole.output, one.output, p.extents(), begin, end);
        if (!one.grad_input.empty()) put_steps(whole.grad_input, one.grad_input, p.extents(), begin, end);
        if (!one.grad_gate.empty() && p.broadcasts(FLASHSCAN_BROADCAST_TIME)) {
            if (meeting.sums_gradients() && !whole.grad_gate.empty() && whole.grad_gate != one.grad_gate)
                whole.damage += "ranks have different sums; ";
            add_parts(whole, one.grad_gate, p.gate_dtype, meeting.sums_gradients());
        } else if (!one.grad_gate.empty()) {
            put_steps(whole.grad_gate, one.grad_gate, gate, begin, end);
        }
        if (!one.state_out.empty()) whole.state_out = one.state_out;
        if (!one.grad_state_in.empty()) whole.grad_state_in = one.grad_state_in;
    }
    return whole;
}

}  // namespace support
