// SPDX-License-Identifier: Apache-2.0
// Kernels that were compiled at run time, loaded and kept for the life of the process: work that is enqueued and graphs
// that were captured need them after their plan.
#pragma once

#include <vector>

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

// Of each source: compiled for `device` when it is first asked for, else as it was then. What has to be compiled is so at
// once, by a thread each. Many threads may ask.
std::vector<const Module*> find_modules(const std::vector<KernelSource>& sources, const CustomOperator& custom,
                                        int device);

}  // namespace flashscan::cuda
