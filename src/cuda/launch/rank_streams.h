// SPDX-License-Identifier: Apache-2.0
// The streams of a call that hands carries from rank to rank group by group: beside the caller's own, those of
// messages, which travel while the call computes, and one for every other group of rows, so that a group begins while
// the one before drains. Messages through NCCL have one stream, in the order in which the ranks exchange them. Those
// through peer memory are received on one stream and sent on another, so that a state that is ready is not kept behind
// the wait for the next one. They belong to a plan whose calls are made one at a time, and are part of a capture of the
// caller's stream.
#pragma once

#include <array>
#include <vector>

#include "cuda/runtime.h"

namespace flashscan::cuda {

class RankStreams {
  public:
    // `groups` is the most that a call has. With `both_ways` sent and received messages share one stream.
    RankStreams(int device, size_t groups, bool both_ways);
    ~RankStreams();
    RankStreams(const RankStreams&) = delete;
    RankStreams& operator=(const RankStreams&) = delete;

    void* incoming() const { return streams_[0]; }
    void* outgoing() const { return streams_[both_ways_ ? 0 : 1]; }
    // Makes the other streams wait for what the call has enqueued on its own. join(), or the destructor where an
    // exception comes first, makes the call's stream wait for all of them.
    class Fork {
      public:
        Fork(const RankStreams& streams, void* stream);
        ~Fork();
        Fork(const Fork&) = delete;
        Fork& operator=(const Fork&) = delete;
        void join();
        // The stream that computes group k.
        void* of_group(size_t k) const { return k % 2 == 0 ? stream_ : streams_.streams_[2]; }

      private:
        const RankStreams& streams_;
        void* stream_;
        bool joined_ = false;
    };
    // Marks that message k has arrived, and lets a stream wait for it.
    void arrived(size_t k) const;
    void wait_for(size_t k, void* stream) const;
    // Lets what goes out next follow group k, which `stream` computes.
    void follow(size_t k, void* stream) const;

  private:
    void release() noexcept;
    int device_;
    bool both_ways_;
    std::array<cudaStream_t, 3> streams_{};  // of what comes in, of what goes out, of every other group
    // There is one for the fork, one for the join with each stream, and two for each group: its arrival and its end.
    std::vector<cudaEvent_t> events_;
};

}  // namespace flashscan::cuda
