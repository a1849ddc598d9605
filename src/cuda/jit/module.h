// SPDX-License-Identifier: Apache-2.0
// Kernels that were compiled at run time, loaded and kept for the life of the process: work that is enqueued and graphs
// that were captured need them after their plan.
#pragma once

#include "cuda/jit/compile.h"

namespace flashscan::cuda {

class Module {
  public:
    explicit Module(const std::string& cubin);
    // Loads it onto the current device, so that its first launch may be captured.
    const void* kernel(const char* name) const;

  private:
    void* library_ = nullptr;
};

// Compiled for `device` when these sources are first asked for, else as they were then. Many threads may ask.
const Module& find_module(const KernelSource& source, const CustomOperator& custom, int device);

}  // namespace flashscan::cuda
