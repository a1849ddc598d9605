// SPDX-License-Identifier: Apache-2.0
#include "cpu/threads.h"

#include <omp.h>
#include <pthread.h>

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

}  // namespace flashscan::cpu
