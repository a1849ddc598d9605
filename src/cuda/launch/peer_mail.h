// SPDX-License-Identifier: Apache-2.0
// Messages between ranks whose GPUs are in one host, through memory of the GPU that receives: by kernels of one small
// block for some KB, which run beside those that compute. NCCL's take a whole multiprocessor and wait until one is
// free.
//
// Each plan has a mailbox on each rank, with a place for each of its messages. A rank writes into the mailboxes of its
// two neighbours, which it opens when the plan is made: by their address within a process, else as interprocess memory
// (IPC).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "core/communicator.h"

namespace flashscan::cuda {

struct ProofPlaces;

class PeerMail {
  public:
    // Makes the mailboxes of all ranks of a communicator of NCCL's, which call this together, for so many messages of
    // at most `bytes` bytes in all, the same numbers on all ranks. Neighbours try whether messages arrive; if any does
    // not, open returns null on all ranks, which is no error.
    static std::unique_ptr<PeerMail> open(const Communicator& ranks, int device, size_t messages, int64_t bytes);
    ~PeerMail();
    PeerMail(const PeerMail&) = delete;
    PeerMail& operator=(const PeerMail&) = delete;

    // Gives the next message its place, on all ranks alike, and returns its number.
    size_t add(size_t bytes);
    // Enqueue sending a message to a neighbour, and receiving one from a neighbour.
    void deliver(size_t message, const void* data, int32_t to, void* stream) const;
    void collect(size_t message, void* data, void* stream) const;

  private:
    struct Note;
    struct Peer {
        char* mailbox = nullptr;
        bool mapped = false;  // as interprocess memory
    };
    struct Message {
        size_t counters, sent, data, pieces;
        int64_t bytes, piece;
    };
    PeerMail(const Communicator& ranks, int device) : device_(device), rank_(ranks.rank), size_(ranks.size) {}
    Peer& neighbour(int32_t rank) { return peers_[rank < rank_ ? 0 : 1]; }
    const Peer& neighbour(int32_t rank) const { return peers_[rank < rank_ ? 0 : 1]; }
    bool is_rank(int32_t rank) const { return rank >= 0 && rank < size_; }
    static bool loads_kernels();
    Note make_note(size_t messages, int64_t bytes);
    bool reach(const Note& mine, const Note& theirs, Peer& peer) const;
    ProofPlaces& proofs_in(char* mailbox) const;
    bool prove(const Note& mine, std::span<const Note> notes) const;
    void enqueue(const void* kernel, size_t message, const void* data, char* mailbox, void* stream) const;

    int device_;
    int32_t rank_, size_;
    size_t capacity_ = 0, used_ = 0, sent_count_ = 0;
    char* mailbox_ = nullptr;
    uint32_t* sent_ = nullptr;     // the counters of messages to neighbours
    std::array<Peer, 2> peers_{};  // the rank before and the next one
    std::vector<Message> messages_;
};

}  // namespace flashscan::cuda
