// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernels of peer_mail.cu: plain data, no CUDA types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashscan::cuda {

inline constexpr int mail_threads = 256;

// The counters of one piece of a message in the mailbox of the rank that receives it. They count messages, so that no
// call resets them, and calls may be replayed in a graph. The piece is free where both are the same.
struct alignas(64) PieceCounters {
    uint32_t arrived;  // set by the sender
    uint32_t taken;    // set by the receiver
};

// A message in pieces, each of which is a block's. The last one may be shorter.
struct MailParams {
    PieceCounters* counters = nullptr;  // of the pieces
    uint32_t* sent = nullptr;           // the sender's own copy of each `arrived`
    char* data = nullptr;               // of the rank that calls
    char* mailbox = nullptr;            // the message's place in it
    int64_t bytes = 0, piece = 0;       // of the message and of a piece; that is a multiple of 16
};

// The handshake by which two neighbours find out, before their first message, whether messages arrive: each writes a
// pattern of words (its proof) into the other's mailbox, sets a flag there, and polls its own mailbox for the other's.
inline constexpr int proof_threads = 32;
struct alignas(64) Proof {
    uint32_t flag;  // 0 until the words are there
    alignas(64) uint64_t words[2 * proof_threads];
};
// The proofs of both neighbours, at the end of a mailbox.
struct ProofPlaces {
    Proof of_before, of_next;
    alignas(64) uint32_t arrived;  // how many of them have arrived; set by the mailbox's own rank
};

// The handshakes of a rank with its neighbours; each is the work of a block.
struct ProofParams {
    struct Way {
        Proof *there = nullptr, *here = nullptr;  // in the neighbour's mailbox and in the own one
        uint64_t mine = 0, theirs = 0;            // numbers from which the patterns are made
    };
    Way ways[2];
    uint64_t limit_ns = 0;  // how long a block waits
};

const void* prove_kernel();  // its arguments are ProofParams and ProofPlaces::arrived
const void* deliver_kernel();
const void* collect_kernel();

}  // namespace flashscan::cuda
