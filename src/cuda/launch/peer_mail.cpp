// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/peer_mail.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>

#include "core/rounding.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/peer_mail_kernels.h"
#include "cuda/launch/rank_link.h"

namespace flashscan::cuda {
namespace {

constexpr size_t most_pieces = 16;                                 // of a message
constexpr size_t piece_bytes = 8192;                               // of a piece, unless there would be too many
constexpr size_t granule = size_t{2} << 20;                        // of memory that another process maps
constexpr int64_t most_bytes = int64_t{64} << 20;                  // of the messages of a plan
constexpr size_t message_overhead = most_pieces * (64 + 16) + 64;  // counters, and what rounding adds
// How long a handshake waits for the neighbour's pattern (peer_mail_kernels.h). Neighbours begin it within milliseconds
// of each other, unless a machine is very busy.
constexpr uint64_t proof_limit_ns = 5'000'000'000;

// Mailboxes of plans that are gone. They are not freed: a neighbour may still have them mapped, and what becomes of
// such a mapping is undefined.
class SpareMailboxes {
  public:
    // Returns memory with any contents, or null where there is none.
    char* take(int device, size_t bytes) {
        void* memory = nullptr;
        {
            const std::lock_guard lock(mutex_);
            const auto found = std::find_if(spare_.begin(), spare_.end(),
                                            [&](const Spare& s) { return s.device == device && s.bytes == bytes; });
            if (found != spare_.end()) {
                memory = found->memory;
                spare_.erase(found);
            }
        }
        if (memory == nullptr && !succeeds(cudaMalloc(&memory, bytes))) return nullptr;
        return static_cast<char*>(memory);
    }
    void give(int device, size_t bytes, char* memory) {
        const std::lock_guard lock(mutex_);
        spare_.push_back({device, bytes, memory});
    }

  private:
    struct Spare {
        int device;
        size_t bytes;
        char* memory;
    };
    std::mutex mutex_;
    std::vector<Spare> spare_;
};

SpareMailboxes& spare_mailboxes() {
    static auto* const spare = new SpareMailboxes;  // outlives plans that are destroyed while the process ends
    return *spare;
}

// Returns a number that no other process of the host has.
uint64_t process_number() {
    // std::random_device of a static libstdc++ needs a newer glibc than wheels promise.
    static const uint64_t drawn = [] {
        uint64_t number = 0;
        if (getrandom(&number, sizeof(number), 0) != static_cast<ssize_t>(sizeof(number)))
            fail(Code::internal_error, "the system gives no random numbers");
        return number;
    }();
    return drawn ^ static_cast<uint64_t>(getpid());
}

// Returns whether NCCL is told, by a variable of its own, that GPUs do not reach each other properly.
bool is_switched_off() {
    const char* text = std::getenv("NCCL_P2P_DISABLE");
    return text != nullptr && std::atoi(text) != 0;
}

// Enqueues `work` on a stream of its own and waits for it. Returns whether all succeeded.
template <typename Work>
bool runs(Work&& work) {
    cudaStream_t stream = nullptr;
    if (!succeeds(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking))) return false;
    const bool enqueued = work(stream), finished = succeeds(cudaStreamSynchronize(stream));
    succeeds(cudaStreamDestroy(stream));
    return enqueued && finished;
}

bool copies(void* to, const void* from, size_t bytes) {
    return runs(
        [&](cudaStream_t stream) { return succeeds(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream)); });
}
bool clears(void* memory, size_t bytes) {
    return runs([&](cudaStream_t stream) { return succeeds(cudaMemsetAsync(memory, 0, bytes, stream)); });
}

// Returns on all ranks whether `mine` is true on all of them.
bool all_agree(const StagedGather& link, int32_t ranks, bool mine) {
    struct alignas(64) Answer {  // as all_gather wants it
        bool yes;
    };
    const Answer own{mine};
    std::vector<Answer> all(static_cast<size_t>(ranks));
    link.gather(&own, all.data(), sizeof(Answer));
    return std::all_of(all.begin(), all.end(), [](const Answer& one) { return one.yes; });
}

}  // namespace

// The message that describes a rank's mailbox to all others.
struct alignas(64) PeerMail::Note {
    char host[40] = {};  // the number of its boot; empty where there is no mailbox
    char card[32] = {};  // its address on the bus
    uint64_t process = 0, proof = 0;
    int32_t device = 0;
    void* address = nullptr;
    cudaIpcMemHandle_t handle{};

    bool is_open() const { return host[0] != 0; }
};

bool PeerMail::loads_kernels() {
    cudaFuncAttributes attributes{};
    for (const void* kernel : {prove_kernel(), deliver_kernel(), collect_kernel()})
        if (!succeeds(cudaFuncGetAttributes(&attributes, kernel))) return false;
    return true;
}

PeerMail::Note PeerMail::make_note(size_t messages, int64_t bytes) {
    Note note;
    note.device = device_;
    note.process = process_number();
    if (is_switched_off() || bytes > most_bytes) return note;
    // Capacities are powers of two, so that plans of many shapes can take each other's mailboxes.
    capacity_ = std::bit_ceil(
        std::max(static_cast<size_t>(bytes) + messages * message_overhead + sizeof(ProofPlaces), granule));
    const size_t counters = messages * most_pieces * sizeof *sent_;
    void* sent = nullptr;
    if (!succeeds(cudaMalloc(&sent, counters))) return note;
    sent_ = static_cast<uint32_t*>(sent);
    mailbox_ = spare_mailboxes().take(device_, capacity_);
    if (mailbox_ == nullptr || !clears(mailbox_, capacity_) || !clears(sent_, counters) ||
        !succeeds(cudaIpcGetMemHandle(&note.handle, mailbox_)) ||
        !succeeds(cudaDeviceGetPCIBusId(note.card, sizeof note.card, device_)))
        return note;
    note.address = mailbox_;
    note.proof = note.process + reinterpret_cast<uintptr_t>(mailbox_);
    std::ifstream("/proc/sys/kernel/random/boot_id").getline(note.host, sizeof note.host);
    return note;
}

// Opens a neighbour's mailbox.
bool PeerMail::reach(const Note& mine, const Note& theirs, Peer& peer) const {
    if (!mine.is_open() || std::strcmp(mine.host, theirs.host) != 0 || std::strcmp(mine.card, theirs.card) == 0)
        return false;
    if (mine.process == theirs.process) {
        int can = 0;
        if (!succeeds(cudaDeviceCanAccessPeer(&can, device_, theirs.device)) || can == 0) return false;
        const cudaError_t enabled = cudaDeviceEnablePeerAccess(theirs.device, 0);
        if (!succeeds(enabled) && enabled != cudaErrorPeerAccessAlreadyEnabled) return false;
        peer.mailbox = static_cast<char*>(theirs.address);
    } else {
        void* mapped = nullptr;
        if (!succeeds(cudaIpcOpenMemHandle(&mapped, theirs.handle, cudaIpcMemLazyEnablePeerAccess))) return false;
        peer = {static_cast<char*>(mapped), true};
    }
    return true;
}

ProofPlaces& PeerMail::proofs_in(char* mailbox) const {
    return *reinterpret_cast<ProofPlaces*>(mailbox + capacity_ - sizeof(ProofPlaces));
}

// Shakes hands with the neighbours, which all ranks do at once. Returns whether the patterns of both have arrived.
bool PeerMail::prove(const Note& mine, std::span<const Note> notes) const {
    ProofPlaces& own = proofs_in(mailbox_);
    ProofParams p;
    p.limit_ns = proof_limit_ns;
    uint32_t ways = 0, arrived = 0;
    if (is_rank(rank_ - 1))
        p.ways[ways++] = {&proofs_in(neighbour(rank_ - 1).mailbox).of_next, &own.of_before, mine.proof,
                          notes[static_cast<size_t>(rank_ - 1)].proof};
    if (is_rank(rank_ + 1))
        p.ways[ways++] = {&proofs_in(neighbour(rank_ + 1).mailbox).of_before, &own.of_next, mine.proof,
                          notes[static_cast<size_t>(rank_ + 1)].proof};
    const bool ran = runs([&](cudaStream_t stream) {
        try {
            launch(prove_kernel(), blocks_of(ways, proof_threads), stream, p, &own.arrived);
        } catch (const Error&) {  // the other ranks are told, as they wait for an answer
            return false;
        }
        return true;
    });
    return ran && copies(&arrived, &own.arrived, sizeof arrived) && arrived == ways;
}

std::unique_ptr<PeerMail> PeerMail::open(const Communicator& ranks, int device, size_t messages, int64_t bytes) {
    if (ranks.nccl == nullptr || ranks.size < 2) return nullptr;
    const DeviceScope scope(device);
    const RelaxedCapture relaxed;
    std::unique_ptr<PeerMail> mail(new PeerMail(ranks, device));
    // Kernels are loaded here: loading one later may wait for running kernels, so for one that waits for a message.
    const bool loaded = loads_kernels();
    std::vector<Note> notes(static_cast<size_t>(ranks.size));
    const Note mine = loaded ? mail->make_note(messages, bytes) : Note();
    // The ranks synchronise before the handshakes and after them, and free this memory only then: freeing memory may
    // wait for kernels, so for one that waits for a message.
    const StagedGather link(ranks, sizeof(Note));
    link.gather(&mine, notes.data(), sizeof(Note));
    const auto with_neighbours = [&](auto&& holds) {
        for (const int32_t rank : {ranks.rank - 1, ranks.rank + 1})
            if (mail->is_rank(rank) && !holds(notes[static_cast<size_t>(rank)], rank)) return false;
        return true;
    };
    const bool reached = with_neighbours(
        [&](const Note& theirs, int32_t rank) { return mail->reach(mine, theirs, mail->neighbour(rank)); });
    if (!all_agree(link, ranks.size, reached)) return nullptr;
    // On some machines what a GPU writes into another's memory does not arrive.
    return all_agree(link, ranks.size, mail->prove(mine, notes)) ? std::move(mail) : nullptr;
}

PeerMail::~PeerMail() {
    release_on(device_, [this] {
        const RelaxedCapture relaxed;
        // cudaFree waits for work of the device, so that nothing uses the mailboxes any more.
        const bool waited = succeeds(cudaFree(sent_));
        if (!waited) return;
        for (const Peer& peer : peers_)
            if (peer.mapped) succeeds(cudaIpcCloseMemHandle(peer.mailbox));
        if (mailbox_ != nullptr) spare_mailboxes().give(device_, capacity_, mailbox_);
    });
}

size_t PeerMail::add(size_t bytes) {
    Message m{};
    m.pieces = std::clamp<size_t>(ceil_div(bytes, piece_bytes), 1, most_pieces);
    m.bytes = static_cast<int64_t>(bytes);
    m.piece = static_cast<int64_t>(round_up(ceil_div(bytes, m.pieces), 16));
    m.counters = used_;
    m.data = used_ + m.pieces * sizeof(PieceCounters);
    m.sent = sent_count_;
    used_ = round_up(m.data + m.pieces * static_cast<size_t>(m.piece), sizeof(PieceCounters));
    sent_count_ += m.pieces;
    messages_.push_back(m);
    return messages_.size() - 1;
}

void PeerMail::enqueue(const void* kernel, size_t message, const void* data, char* mailbox, void* stream) const {
    const Message& m = messages_[message];
    MailParams p;
    p.counters = reinterpret_cast<PieceCounters*>(mailbox + m.counters);
    p.sent = sent_ + m.sent;
    p.data = static_cast<char*>(const_cast<void*>(data));
    p.mailbox = mailbox + m.data;
    p.bytes = m.bytes;
    p.piece = m.piece;
    launch(kernel, blocks_of(static_cast<int64_t>(m.pieces), mail_threads), stream, p);
}

void PeerMail::deliver(size_t message, const void* data, int32_t to, void* stream) const {
    enqueue(deliver_kernel(), message, data, neighbour(to).mailbox, stream);
}

void PeerMail::collect(size_t message, void* data, void* stream) const {
    enqueue(collect_kernel(), message, data, mailbox_, stream);
}

}  // namespace flashscan::cuda
