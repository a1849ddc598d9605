// SPDX-License-Identifier: Apache-2.0
// Counts what a call would enqueue, for flashscan_plan_info.
#pragma once

#include <cstdint>

namespace flashscan::cuda {

// While one lives, what this thread would enqueue is counted and left out.
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

// For all that enqueues something, before it does: whether this thread counts it and it is to be left out.
bool counts_launch();
// Whether this thread counts.
bool is_counting_launches();

}  // namespace flashscan::cuda
