// SPDX-License-Identifier: Apache-2.0
// Threads of the CPU backend.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace flashscan::cpu {

// The threads that a plan created now would use when it asks for `requested` (0: all that OpenMP would use).
int thread_count(int32_t requested);

// Calls body(context, i) for i = 0 .. count-1 on up to `threads` threads. `fixed` gives each thread one contiguous
// range, the same for every call with this count; otherwise threads take indices as they become free. All compute in
// the floating-point environment of the calling thread and have their own again when they are done. In a process
// forked after the library was loaded everything runs on the calling thread: the threads of OpenMP's pool do not
// survive a fork, and GCC's runtime would wait for them forever.
void parallel_for(int threads, int64_t count, bool fixed, void (*body)(void* context, int64_t i) noexcept,
                  void* context);

template <typename Body>
void parallel_for(int threads, int64_t count, bool fixed, Body& body) {
    parallel_for(
        threads, count, fixed, [](void* context, int64_t i) noexcept { (*static_cast<Body*>(context))(i); }, &body);
}

// Calls body(context, i, count) at once on `count` threads, i = 0 .. count-1, which may wait for each other; count is
// `threads`, or what OpenMP has of them. All else is as in parallel_for.
void parallel_team(int threads, void (*body)(void* context, int i, int count) noexcept, void* context);

template <typename Body>
void parallel_team(int threads, Body& body) {
    parallel_team(
        threads, [](void* context, int i, int count) noexcept { (*static_cast<Body*>(context))(i, count); }, &body);
}

// Where threads of a team wait until `count` of them are there, the same number each time.
class Barrier {
  public:
    void wait(int count) noexcept;

  private:
    std::atomic<int> arrived_{0}, round_{0};
};

// Calls body(i, worker) for i = 0 .. count-1; calls at the same time have different workers below `threads`.
template <typename Body>
void for_each(int threads, int64_t count, Body&& body) {
    std::atomic<int64_t> next{0};
    auto work = [&](int64_t worker) noexcept {
        for (int64_t i = next++; i < count; i = next++) body(i, worker);
    };
    parallel_for(threads, std::min<int64_t>(threads, count), true, work);
}

}  // namespace flashscan::cpu
