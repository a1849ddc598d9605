// SPDX-License-Identifier: Apache-2.0
// The plain streams that every time is compared with, and the small kernels that make and fetch data on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "machine.h"

namespace bench {

// 2 reads and 1 write (forward), or 3 reads and 2 writes (backward), of equally long arrays.
struct StreamArrays {
    const void* read[3] = {nullptr, nullptr, nullptr};
    void* write[2] = {nullptr, nullptr};
    size_t bytes = 0;  // of one array, a multiple of 16
};

struct StreamVariant {
    bool one_shot = true;   // a thread for every element, or as many blocks as fit at once, striding
    bool streaming = true;  // evict-first loads and stores
    int threads = 256;      // of a block
    int unroll = 4;         // 16-byte vectors of each array in flight in a thread
    std::string describe() const;
};

// These launch on `stream` and return a cudaError_t.
int launch_stream(const StreamArrays& arrays, bool backward, const StreamVariant& variant, int multiprocessors,
                  void* stream);
int launch_nothing(void* stream);  // a kernel that does nothing
int launch_fill(const Box& box, Kind kind, uint64_t seed, void* stream);
int launch_gather(const Box& box, void* to, void* stream);

// Host streams with `threads` OpenMP threads.
struct HostStream {
    const char* name;
    void (*run)(const StreamArrays& arrays, bool backward, int threads);
    bool (*available)();
};
extern const HostStream host_streams[];
extern const int num_host_streams;

}  // namespace bench
