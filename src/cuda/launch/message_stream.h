// SPDX-License-Identifier: Apache-2.0
// A stream beside that of a call, on which messages between ranks travel while the call computes. It belongs to a plan whose
// calls are made one at a time, and is part of a capture of the call's stream.
#pragma once

#include <vector>

#include "cuda/runtime.h"

namespace flashscan::cuda {

class MessageStream {
  public:
    // For up to so many groups of messages in a call.
    MessageStream(int device, size_t groups);
    ~MessageStream();
    MessageStream(const MessageStream&) = delete;
    MessageStream& operator=(const MessageStream&) = delete;

    void* get() const { return stream_; }
    // Lets the messages follow what the call has enqueued, and then the call follow all messages: in join, or where an
    // exception leaves the scope before it.
    class Fork {
      public:
        Fork(const MessageStream& messages, void* stream);
        ~Fork();
        Fork(const Fork&) = delete;
        Fork& operator=(const Fork&) = delete;
        void join();

      private:
        const MessageStream& messages_;
        void* stream_;
        bool joined_ = false;
    };
    // Marks that message k has arrived, and lets the call wait for it.
    void arrived(size_t k) const;
    void wait_for(size_t k, void* stream) const;
    // Lets the next message follow group k of the call.
    void follow(size_t k, void* stream) const;

  private:
    void release() noexcept;
    int device_;
    cudaStream_t stream_ = nullptr;
    std::vector<cudaEvent_t> events_;  // fork, join, and of each group its arrival and its end
};

}  // namespace flashscan::cuda
