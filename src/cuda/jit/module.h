// SPDX-License-Identifier: Apache-2.0
// Kernels that were compiled at run time. They are never unloaded, since enqueued work and captured graphs may need
// them after their plan has been destroyed.
#pragma once

#include <vector>

#include "cuda/jit/compile.h"

namespace flashscan::cuda {

class Module {
  public:
    explicit Module(const std::string& cubin);
    // Returns a kernel, loaded onto the current device so that its first launch may be captured.
    const void* kernel(const char* name) const;

  private:
    void* library_ = nullptr;
};

// Returns the module of each source, compiled for `device` at the first request. Sources that have to be compiled are
// compiled at the same time, by one thread each. It is thread-safe.
std::vector<const Module*> find_modules(const std::vector<KernelSource>& sources, const CustomOperator& custom,
                                        int device);

}  // namespace flashscan::cuda
