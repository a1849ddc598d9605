// SPDX-License-Identifier: Apache-2.0
// Threads of the CPU backend.
#pragma once

#include <cstdint>

namespace flashscan::cpu {

// The threads that a plan created now would use when it asks for `requested` (0: all that OpenMP would use).
int thread_count(int32_t requested);

// Calls body(context, i) for i = 0 .. count-1 on up to `threads` threads. `fixed` gives each thread one contiguous
// range, the same for every call with this count; otherwise threads take indices as they become free. In a process
// forked after the library was loaded everything runs on the calling thread: the threads of OpenMP's pool do not
// survive a fork, and GCC's runtime would wait for them forever.
void parallel_for(int threads, int64_t count, bool fixed, void (*body)(void* context, int64_t i) noexcept,
                  void* context);

template <typename Body>
void parallel_for(int threads, int64_t count, bool fixed, Body& body) {
    parallel_for(
        threads, count, fixed, [](void* context, int64_t i) noexcept { (*static_cast<Body*>(context))(i); }, &body);
}

}  // namespace flashscan::cpu
