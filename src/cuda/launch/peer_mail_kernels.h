// SPDX-License-Identifier: Apache-2.0
// Parameters of the kernels of peer_mail.cu: plain data, no CUDA types.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashscan::cuda {

inline constexpr int mail_threads = 256;

// The counters of one piece of a message in the mailbox of the rank that receives it. They count messages, so that no call
// resets them, and calls may be replayed in a graph. The piece is free where both are the same.
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

const void* deliver_kernel();
const void* collect_kernel();

}  // namespace flashscan::cuda
