// SPDX-License-Identifier: Apache-2.0
// Exchanges and checks the notes of all ranks, and makes their plans together.
#include "core/communicator.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include "core/arguments.h"
#include "core/backend.h"
#include "core/plan.h"
#include "core/rank_sums.h"

namespace flashscan {
namespace {

const RankNote& note_at(const std::byte* notes, size_t step, int32_t rank) {
    return *reinterpret_cast<const RankNote*>(notes + static_cast<size_t>(rank) * step);
}

// Is called when all ranks have made their plans; throws where the plans differ.
void check_agreement(const Communicator& ranks, const std::vector<RankNote>& notes) {
    const RankNote& first = notes.front();
    for (int32_t r = 1; r < ranks.size; ++r) {
        const RankNote& other = notes[static_cast<size_t>(r)];
        if (other.version != first.version)
            fail(Code::invalid_argument,
                 "the ranks of the communicator have different libraries: rank 0 version {}, rank {} version {}",
                 first.version, r, other.version);
        if (std::strcmp(other.text, first.text) != 0)
            fail(Code::invalid_argument,
                 "the ranks of the communicator make different plans: rank 0 \"{}\", rank {} \"{}\"", first.text, r,
                 other.text);
    }
}

}  // namespace

std::string Communicator::describe(const std::string& kernel, size_t forward_bytes, size_t backward_bytes) const {
    return fmt::format("{}; rank {} of {}, which tell each other {} bytes each forward and {} backward", kernel, rank,
                       size, forward_bytes, backward_bytes);
}

void Communicator::gather(const void* from, void* to, size_t bytes, void* stream) const {
    const int32_t status = all_gather(user, from, to, bytes, stream);
    if (status != 0)
        fail(Code::callback_failed, "communicator.all_gather returned {} to rank {} of {}, for {} bytes of each rank",
             status, rank, size, bytes);
}

bool is_elsewhere(const Communicator& ranks, Direction direction, int32_t id) {
    if (!ranks) return false;
    if (id == id_of(ArgId::index)) return true;
    const int32_t place = ranks.place(ranks.rank, direction), state = id & ~grad_bit;
    return (state == id_of(ArgId::state_in) && place != 0) ||
           (state == id_of(ArgId::state_out) && place != ranks.size - 1);
}

void refuse_elsewhere(const Communicator& ranks, Direction direction, int32_t id) {
    if (!is_elsewhere(ranks, direction, id)) return;
    if (id == id_of(ArgId::index))
        fail(Code::unknown_argument, "INDEX is given to rank {} of {}; plans with a communicator do not take it",
             ranks.rank, ranks.size);
    const bool in = (id & ~grad_bit) == id_of(ArgId::state_in);
    fail(Code::unknown_argument, "{}STATE_{} is given to rank {}; it belongs to rank {} alone, the {} of {} to compute",
         (id & grad_bit) != 0 ? "GRAD|" : "", in ? "IN" : "OUT", ranks.rank,
         ranks.place(in ? 0 : ranks.size - 1, direction), in ? "first" : "last", ranks.size);
}

RankNote make_note(const Communicator& ranks, Pass pass, Code code, std::string_view text) {
    RankNote note;
    note.rank = ranks.rank;
    note.size = ranks.size;
    note.pass = pass;
    note.code = code;
    std::copy_n(text.data(), std::min(text.size(), sizeof note.text - 1), note.text);
    return note;
}

void check_notes(const Communicator& ranks, const std::byte* notes, size_t step) {
    for (int32_t r = 0; r < ranks.size; ++r) {
        const RankNote& note = note_at(notes, step, r);
        if (note.rank != r || note.size != ranks.size)
            fail(Code::invalid_argument,
                 "communicator.all_gather gave, as from rank {} of {}, what a rank {} of {} has sent", r, ranks.size,
                 note.rank, note.size);
    }
    for (int32_t r = 0; r < ranks.size; ++r) {
        const RankNote& note = note_at(notes, step, r);
        if (note.code != Code::ok) fail(note.code, "rank {} of {} has failed: {}", r, ranks.size, note.text);
    }
    const auto name = [](Pass pass) { return pass == Pass::forward ? "forward" : "backward"; };
    const Pass first = note_at(notes, step, 0).pass;
    for (int32_t r = 1; r < ranks.size; ++r)
        if (const Pass pass = note_at(notes, step, r).pass; pass != first)
            fail(Code::invalid_argument, "rank 0 calls the {} pass, rank {} the {} pass", name(first), r, name(pass));
    const uint32_t sums = note_at(notes, step, 0).sums;
    for (int32_t r = 1; r < ranks.size; ++r)
        if (const uint32_t differ = note_at(notes, step, r).sums ^ sums; differ != 0) {
            const bool on_first = (sums & differ & -differ) != 0;
            fail(Code::missing_argument,
                 "{} is given on rank {} and not on rank {}; with COMM_FLAG_SUM_GRADIENTS it is given on all ranks or "
                 "on none",
                 name_of_sum(differ), on_first ? 0 : r, on_first ? r : 0);
        }
}

void send_failure(const Communicator& ranks, Pass pass, Code code, std::string_view text, size_t bytes, void* stream) {
    const size_t notes = bytes / sizeof(RankNote) + 1;
    std::vector<RankNote> sent(notes), received(notes * static_cast<size_t>(ranks.size));
    sent[0] = make_note(ranks, pass, code, text);
    // The call has its error already.
    ranks.all_gather(ranks.user, sent.data(), received.data(), bytes, stream);
}

void check_given(const Communicator& ranks, const std::byte* notes, size_t step, uint32_t wants, uint32_t gives,
                 const char* argument, const char* reader) {
    int32_t wanting = -1, lacking = -1;
    for (int32_t r = 0; r < ranks.size; ++r) {
        const uint32_t flags = note_at(notes, step, r).flags;
        if (wanting < 0 && (flags & wants) != 0) wanting = r;
        if (lacking < 0 && (flags & gives) == 0) lacking = r;
    }
    if (wanting >= 0 && lacking >= 0)
        fail(Code::missing_argument, "{} is not given on rank {}; {} of rank {} needs it there", argument, lacking,
             reader, wanting);
}

std::unique_ptr<Plan> make_together(const Options& options, int32_t version,
                                    const std::function<std::unique_ptr<Plan>()>& make) {
    const Communicator& ranks = options.communicator;
    if (!ranks) return make();
    const Backend& backend = find_backend(options.backend);
    const auto exchange = [&](const RankNote& mine, std::vector<RankNote>& notes) {
        backend.gather_on_host(ranks, &mine, notes.data(), sizeof(RankNote), options);
        check_notes(ranks, reinterpret_cast<const std::byte*>(notes.data()), sizeof(RankNote));
    };
    std::vector<RankNote> notes(static_cast<size_t>(ranks.size));
    std::unique_ptr<Plan> plan;
    RankNote mine = note_of(ranks, Pass::forward, [&] {
        plan = make();
        return plan->agreement();
    });
    mine.version = version;
    if (plan) mine.steps = plan->steps();
    exchange(mine, notes);
    check_agreement(ranks, notes);
    std::vector<int64_t> steps;
    for (const RankNote& note : notes) steps.push_back(note.steps);
    if (!backend.settles_ranks()) return plan;
    plan->meet();
    exchange(note_of(ranks, Pass::forward,
                     [&] {
                         plan->settle(steps);
                         return std::string();
                     }),
             notes);
    return plan;
}

}  // namespace flashscan
