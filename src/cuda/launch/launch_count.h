// SPDX-License-Identifier: Apache-2.0
// Counts what a call would enqueue, for flashscan_plan_info.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

// During the lifetime of an object, what this thread would enqueue is counted instead.
class LaunchCount {
  public:
    LaunchCount();
    ~LaunchCount();
    LaunchCount(const LaunchCount&) = delete;
    LaunchCount& operator=(const LaunchCount&) = delete;
    int64_t count() const { return count_; }

  private:
    friend bool counts_launch();
    int64_t count_ = 0;
};

// To be called before anything is enqueued: counts it and returns true if it is to be counted instead of enqueued.
bool counts_launch();
// Whether this thread is counting.
bool is_counting_launches();

}  // namespace flashscan::cuda
