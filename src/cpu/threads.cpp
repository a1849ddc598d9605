// SPDX-License-Identifier: Apache-2.0
#include "cpu/threads.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cfenv>

namespace flashscan::cpu {
namespace {

std::atomic<bool> forked{false};

// Registered when the library is loaded, so before any plan can fork.
const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });

// The calling thread's rounding, treatment of denormal numbers and exception masks, taken over by a worker until it is
// done. Without this a result would depend on which thread computes which part of it.
class FloatingPointMode {
  public:
    FloatingPointMode() { std::fegetenv(&caller_); }

    template <typename Work>
    void share(Work&& work) const {
        if (omp_get_thread_num() == 0) return work();  // the caller itself
        std::fenv_t own;
        std::fegetenv(&own);
        std::fesetenv(&caller_);
        work();
        std::fesetenv(&own);
    }

  private:
    std::fenv_t caller_{};
};

}  // namespace

int thread_count(int32_t requested) {
    constexpr int most = 1024;
    return std::clamp(requested > 0 ? static_cast<int>(requested) : omp_get_max_threads(), 1, most);
}

void parallel_for(int threads, int64_t count, bool fixed, void (*body)(void* context, int64_t i) noexcept,
                  void* context) {
    threads = static_cast<int>(std::min<int64_t>(threads, count));
    if (threads <= 1 || registered != 0 || forked.load(std::memory_order_relaxed)) {
        for (int64_t i = 0; i < count; ++i) body(context, i);
        return;
    }
    const FloatingPointMode mode;
    const int64_t grain = std::max<int64_t>(1, count / (threads * 16));
#pragma omp parallel num_threads(threads)
    mode.share([&] {
        if (fixed) {
#pragma omp for schedule(static) nowait
            for (int64_t i = 0; i < count; ++i) body(context, i);
        } else {
#pragma omp for schedule(dynamic, grain) nowait
            for (int64_t i = 0; i < count; ++i) body(context, i);
        }
    });
}

void parallel_team(int threads, void (*body)(void* context, int i, int count) noexcept, void* context) {
    if (threads <= 1 || registered != 0 || forked.load(std::memory_order_relaxed)) return body(context, 0, 1);
    const FloatingPointMode mode;
#pragma omp parallel num_threads(threads)
    mode.share([&] { body(context, omp_get_thread_num(), omp_get_num_threads()); });
}

// Tells the core that the thread only waits.
static void pause_thread() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Spins for a few microseconds, and then lets others run: where there are more threads than cores, one that is waited
// for may not be running.
void Barrier::wait(int count) noexcept {
    constexpr int spins = 4000;
    if (count <= 1) return;
    const int round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == count - 1) {
        arrived_.store(0, std::memory_order_relaxed);
        round_.store(round + 1, std::memory_order_release);
        return;
    }
    for (int i = 0; round_.load(std::memory_order_acquire) == round; ++i) {
        if (i < spins)
            pause_thread();
        else
            sched_yield();
    }
}

}  // namespace flashscan::cpu
