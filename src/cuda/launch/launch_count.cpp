// SPDX-License-Identifier: Apache-2.0
// The count of launches of the current thread.
#include "cuda/launch/launch_count.h"

namespace flashscan::cuda {
namespace {

thread_local LaunchCount* counting = nullptr;

}  // namespace

LaunchCount::LaunchCount() { counting = this; }
LaunchCount::~LaunchCount() { counting = nullptr; }

bool is_counting_launches() { return counting != nullptr; }

bool counts_launch() {
    if (counting == nullptr) return false;
    ++counting->count_;
    return true;
}

}  // namespace flashscan::cuda
