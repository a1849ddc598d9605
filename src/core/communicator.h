// SPDX-License-Identifier: Apache-2.0
// Sequence parallelism, one sequence over several ranks: the caller's communicator, and the notes that ranks exchange
// to agree before they compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/types.h"

namespace flashscan {

class Plan;
struct Options;

// Functions of NCCL, of which results and types of data are ints.
struct NcclFunctions {
    int (*all_gather)(const void* send, void* receive, size_t count, int type, void* comm, void* stream) = nullptr;
    int (*send)(const void* data, size_t count, int type, int to, void* comm, void* stream) = nullptr;
    int (*receive)(void* data, size_t count, int type, int from, void* comm, void* stream) = nullptr;
    int (*group_start)() = nullptr;
    int (*group_end)() = nullptr;
    int (*comm_count)(void* comm, int* count) = nullptr;
    int (*comm_rank)(void* comm, int* rank) = nullptr;
    int (*comm_device)(void* comm, int* device) = nullptr;
    int (*async_error)(void* comm, int* error) = nullptr;
    const char* (*error_text)(int error) = nullptr;
    const char* (*last_error)(void* comm) = nullptr;  // may be null, NCCL before 2.13 has none
};

// How states travel from rank to rank.
enum class Carries : int32_t {
    chosen = 0,     // by the plan
    gathered = 1,   // all ranks gather summaries of their steps
    wavefront = 2,  // from rank to rank, a group of rows after the other
};

// The ranks that hold one sequence, numbered in the order of time. A size of 0 stands for no communicator.
struct Communicator {
    int32_t rank = 0, size = 0;
    bool sums_gradients = false;  // gradients that are sums over time are those of all ranks
    void* user = nullptr;
    int32_t (*all_gather)(void* user, const void* send, void* receive, size_t bytes, void* stream) = nullptr;

    int32_t (*send)(void* user, const void* data, size_t bytes, int32_t to, void* stream) = nullptr;
    int32_t (*receive)(void* user, void* data, size_t bytes, int32_t from, void* stream) = nullptr;
    Carries carries{};
    int32_t groups = 0;  // of rows of a wavefront; 0: the plan chooses
    // `user` is a communicator of NCCL's; the functions to call it with are the caller's, or the backend's of the
    // loaded NCCL.
    bool nccl_handle = false;
    std::shared_ptr<const NcclFunctions> nccl;

    explicit operator bool() const { return size > 0; }
    // Returns the place of a rank in the order of computation, and also the rank at a place: both are the same sum.
    int32_t place(int32_t of, Direction direction) const {
        return direction == Direction::forward ? of : size - 1 - of;
    }
    // Returns what a plan says of `kernel` on this rank, whose messages have so many bytes.
    std::string describe(const std::string& kernel, size_t forward_bytes, size_t backward_bytes) const;
    // Calls all_gather. Throws Error{callback_failed} where that fails.
    void gather(const void* from, void* to, size_t bytes, void* stream) const;
};

// Returns whether an argument belongs to another rank or to none: the initial state belongs to the first in the order
// of computation, the final state to the last, and INDEX, which counts the steps of one rank, to none.
bool is_elsewhere(const Communicator& ranks, Direction direction, int32_t id);
// Throws Error{unknown_argument} for an argument that does.
void refuse_elsewhere(const Communicator& ranks, Direction direction, int32_t id);

// The note with which each rank's message begins.
struct alignas(64) RankNote {
    int32_t rank = 0, size = 0, version = 0;
    Code code = Code::ok;
    int64_t steps = 0;
    Pass pass = Pass::forward;
    uint32_t flags = 0;   // bits whose meaning a kernel defines
    uint32_t sums = 0;    // those gradients that ranks add up and that the call asks for, as in rank_sums.h
    char text[476] = {};  // ends with a zero: the sentence of a failure, or what all ranks have to agree about
};
static_assert(sizeof(RankNote) == 512);

RankNote make_note(const Communicator& ranks, Pass pass, Code code, std::string_view text);
// Makes the note of `body`, which gives the text; where it throws, the note tells of the failure.
template <typename Body>
RankNote note_of(const Communicator& ranks, Pass pass, Body&& body) {
    try {
        return make_note(ranks, pass, Code::ok, body());
    } catch (const Error& error) {
        return make_note(ranks, pass, error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return make_note(ranks, pass, Code::out_of_memory, "out of host memory");
    }
}
// Throws the same Error on every rank where the note of one of them says that it failed, is in the place of another
// rank's, is of another pass, or asks for other sums. Notes are `step` bytes apart.
void check_notes(const Communicator& ranks, const std::byte* notes, size_t step);

// Sends the note of a rank that has failed in place of its message of `bytes`, so that the others do not wait.
void send_failure(const Communicator& ranks, Pass pass, Code code, std::string_view text, size_t bytes, void* stream);
// Throws the same Error on every rank where the flags of one have `wants` and those of another lack `gives`, of which
// the sentence says that `argument` is not given and `reader` needs it.
void check_given(const Communicator& ranks, const std::byte* notes, size_t step, uint32_t wants, uint32_t gives,
                 const char* argument, const char* reader);

// Calls `make` on every rank, and throws the same Error on all of them if one has failed or if the plans do not agree.
// Plans then learn how many steps each rank has. Without a communicator it only calls `make`.
std::unique_ptr<Plan> make_together(const Options& options, int32_t version,
                                    const std::function<std::unique_ptr<Plan>()>& make);

}  // namespace flashscan
