// SPDX-License-Identifier: Apache-2.0
// What a backend gives the core: devices, memory, and an ordered list of kernels for each family.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "core/arguments.h"
#include "core/linear_problem.h"

namespace flashscan {

struct Options {
    BackendId backend = BackendId::cpu;
    int32_t device = 0;
    int32_t threads = 0;
    bool batch_invariant = false;
    bool caller_scratch = false;
    std::string kernel;  // forced kernel, empty: the planner chooses
};

// A kernel bound to one problem. Immutable; called from any number of threads.
class LinearKernel {
  public:
    virtual ~LinearKernel() = default;
    // Why this kernel, and with which parameters: one line, no newline.
    virtual std::string describe() const = 0;
    // Bytes of LinearBuffers::scratch, aligned to 256, that a call of `pass` may use.
    virtual size_t scratch_bytes(Pass pass) const = 0;
    virtual void forward(const LinearBuffers& buffers, void* stream) const = 0;
    virtual void backward(const LinearBuffers& buffers, void* stream) const = 0;
};

// An entry of a backend's list. `make` returns null and fills `refusal` when the kernel does not take the problem.
struct LinearCandidate {
    const char* name;
    std::unique_ptr<LinearKernel> (*make)(const LinearProblem& problem, const Options& options, std::string& refusal);
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual const char* name() const = 0;
    virtual int32_t device_count() const = 0;
    // Throws Error unless `options` name a device and settings that this backend has.
    virtual void check(const Options& options) const = 0;
    // In order of preference; the last takes every problem.
    virtual std::span<const LinearCandidate> linear_candidates() const = 0;
    // Scratch for one call, ordered on `stream` where the backend has streams. Throws Error when there is no memory.
    virtual void* allocate(size_t bytes, const Options& options, void* stream) const = 0;
    virtual void release(void* memory, const Options& options, void* stream) const noexcept = 0;
    // Checks that `arguments` lie in this backend's memory, where that costs nothing or FLASHSCAN_CHECK=1 asks for it.
    virtual void check_memory(std::span<const ArgumentSpec> specs, std::span<const Argument> arguments,
                              const Options& options) const = 0;
    // The values of SEQ_OFFSETS where the backend can or was asked to look at them, else empty.
    virtual std::vector<int64_t> read_offsets(const void* offsets, Dtype dtype, int64_t count, const Options& options,
                                              void* stream) const = 0;
};

// The backend of this number; throws Error when the library was built without it. Defined in backends.cpp.
const Backend& find_backend(BackendId id);

}  // namespace flashscan
