// SPDX-License-Identifier: Apache-2.0
#include "cpu/threads.h"

#include <omp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

namespace flashscan::cpu {
namespace {

std::atomic<bool> forked{false};

// Registered when the library is loaded, so before any plan can fork.
const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });

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
    } else if (fixed) {
#pragma omp parallel for schedule(static) num_threads(threads)
        for (int64_t i = 0; i < count; ++i) body(context, i);
    } else {
        const int64_t grain = std::max<int64_t>(1, count / (threads * 16));
#pragma omp parallel for schedule(dynamic, grain) num_threads(threads)
        for (int64_t i = 0; i < count; ++i) body(context, i);
    }
}

}  // namespace flashscan::cpu
