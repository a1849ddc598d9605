// SPDX-License-Identifier: Apache-2.0
// Messages between ranks on streams, by NCCL or by the caller's callbacks. While launches are counted, none is sent,
// and each of NCCL's counts as one.
#pragma once

#include <cstddef>

#include "core/backend.h"

namespace flashscan::cuda {

// Returns whether ranks can send to each other, not only gather.
bool can_send(const Communicator& ranks);

void gather(const Communicator& ranks, const void* from, void* to, size_t bytes, void* stream);
void send(const Communicator& ranks, const void* data, size_t bytes, int32_t to, void* stream);
void receive(const Communicator& ranks, void* data, size_t bytes, int32_t from, void* stream);

// Gathers host memory and waits, while a plan is made. With NCCL it passes through the device and connects neighbouring
// ranks, which their first messages in a captured call could not do.
void gather_on_host(const Communicator& ranks, const void* from, void* to, size_t bytes, int device);

// The same with NCCL, on the current device, for gathers of at most `most_bytes` of each rank that share memory. It
// frees that at its end, which may wait for what other GPUs of the process run.
class StagedGather {
  public:
    StagedGather(const Communicator& ranks, size_t most_bytes);
    ~StagedGather();
    StagedGather(const StagedGather&) = delete;
    StagedGather& operator=(const StagedGather&) = delete;
    void gather(const void* from, void* to, size_t bytes) const;

  private:
    const Communicator& ranks_;
    void *stream_ = nullptr, *memory_ = nullptr;
};

// Looks up NCCL's functions, the rank and the size of a communicator that a caller gave. Throws Error where they are
// not those of the options.
void connect(Options& options);

}  // namespace flashscan::cuda
