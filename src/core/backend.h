// SPDX-License-Identifier: Apache-2.0
// What a backend gives the core: devices, memory, and an ordered list of kernels for each family.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/communicator.h"
#include "core/gated_arguments.h"
#include "core/linear_arguments.h"
#include "core/operator_arguments.h"
#include "core/rnn_arguments.h"
#include "core/selective_arguments.h"
#include "core/strided_states.h"

namespace flashscan {

// Memory for scratch in place of the backend's; null functions: none.
struct Allocator {
    void* user = nullptr;
    void* (*allocate)(void* user, size_t bytes, void* stream) = nullptr;
    void (*release)(void* user, void* memory, size_t bytes, void* stream) = nullptr;
};

enum class LogLevel {
    error,
    info
};

struct Options {
    BackendId backend = BackendId::cpu;
    int32_t device = 0;
    int32_t threads = 0;
    bool batch_invariant = false;
    bool caller_scratch = false;
    std::string kernel;  // forced kernel, empty: the planner chooses
    Allocator allocator;
    Communicator communicator;                       // of the ranks that hold the sequence
    std::function<void(LogLevel, const char*)> log;  // may be empty
};

// A kernel bound to one problem. Immutable; called from any number of threads.
template <typename Buffers>
class Kernel {
  public:
    virtual ~Kernel() = default;
    // Why this kernel, and with which parameters: one line, no newline.
    virtual std::string describe() const = 0;
    // Bytes of Buffers::scratch, aligned to 256, that a call of `pass` may use.
    virtual size_t scratch_bytes(Pass pass) const = 0;
    virtual void forward(const Buffers& buffers, void* stream) const = 0;
    virtual void backward(const Buffers& buffers, void* stream) const = 0;
    // Tells the other ranks, which wait for this one, that its call of `pass` has failed before it came to the kernel.
    virtual void withdraw(Pass, Code, const char* /*sentence*/, void* /*stream*/) const {}
};

// An entry of a backend's list. `make` returns null and fills `refusal` when the kernel does not take the problem.
template <typename Kernel, typename Problem>
struct Candidate {
    const char* name;
    std::unique_ptr<Kernel> (*make)(const Problem& problem, const Options& options, std::string& refusal);
};

using LinearKernel = Kernel<LinearBuffers>;
using LinearCandidate = Candidate<LinearKernel, LinearProblem>;

class RnnKernel : public Kernel<RnnBuffers> {
  public:
    // Bytes of RESERVE, aligned to 64; asked of training plans only.
    virtual size_t reserve_bytes() const = 0;
};
using RnnCandidate = Candidate<RnnKernel, RnnProblem>;

using OperatorKernel = Kernel<OperatorBuffers>;
using OperatorCandidate = Candidate<OperatorKernel, OperatorProblem>;

using GatedKernel = Kernel<GatedBuffers>;
using GatedCandidate = Candidate<GatedKernel, GatedProblem>;

using SelectiveKernel = Kernel<SelectiveBuffers>;
using SelectiveCandidate = Candidate<SelectiveKernel, SelectiveProblem>;

// A backend tells people with this what it was built for and what of it can be used.
struct BackendFacts {
    std::string built_for;  // architectures or instruction sets
    std::string in_use;     // of the latter the one that plans run with; empty: none
    std::string unusable;   // why no device can be used; empty: one can
    int32_t toolkit = 0, driver = 0;
};

// Rows of a tensor by their index: those of the batch, or, where they are packed, sequences along time.
struct RowSelection {
    const int32_t* indices = nullptr;
    int64_t count = 0;
    const void* seq_offsets = nullptr;  // null: not packed
    Dtype offsets_dtype{};
    int64_t pool_rows = 0;  // that an index may name
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual const char* name() const = 0;
    virtual int32_t device_count() const = 0;
    virtual BackendFacts facts() const = 0;
    // Throws Error unless `options` name a device and settings that this backend has.
    virtual void check(const Options& options) const = 0;
    // In order of preference; the last takes every problem, unless the backend has none for the family.
    virtual std::span<const LinearCandidate> linear_candidates() const = 0;
    virtual std::span<const RnnCandidate> rnn_candidates() const = 0;
    virtual std::span<const OperatorCandidate> operator_candidates() const = 0;
    virtual std::span<const GatedCandidate> gated_candidates() const = 0;
    virtual std::span<const SelectiveCandidate> selective_candidates() const = 0;
    // Scratch for one call, ordered on `stream` where the backend has streams. Throws Error when there is no memory.
    virtual void* allocate(size_t bytes, const Options& options, void* stream) const = 0;
    virtual void release(void* memory, const Options& options, void* stream) const noexcept = 0;
    // A plan holds what it returns, and with it the promise that its calls allocate up to `bytes` at a time.
    virtual std::shared_ptr<void> keep_scratch(size_t bytes, const Options& options) const = 0;
    // Checks that `arguments` lie in this backend's memory, where that costs nothing or FLASHSCAN_CHECK=1 asks for it.
    virtual void check_memory(std::span<const ArgumentSpec> specs, std::span<const Argument> arguments,
                              const Options& options) const = 0;
    // Write and read the first bytes of RESERVE, in the order of `stream`, where the backend checks RESERVE in this call;
    // false where it does not.
    virtual bool write_cookie(void* to, const void* from, size_t bytes, const Options& options, void* stream) const = 0;
    virtual bool read_cookie(void* to, const void* from, size_t bytes, const Options& options, void* stream) const = 0;
    // Copies rows within this backend's memory, in the order of `stream`.
    virtual void copy_rows(const RowCopy& copy, const Options& options, void* stream) const = 0;
    // Calls `call`, which calls kernels and copy_rows, and returns how much of it would have been enqueued on a stream;
    // nothing is.
    virtual int64_t count_launches(const std::function<void()>& call) const = 0;
    // The values of SEQ_OFFSETS or STATE_INDICES where the backend can or was asked to look at them, else empty.
    virtual std::vector<int64_t> read_integers(const void* integers, Dtype dtype, int64_t count, const Options& options,
                                               void* stream) const = 0;
    // Fills with zeros what belongs to rows whose index is negative. Pointers of `rows` lie in this backend's memory.
    virtual void clear_rows(const ArgumentSpec& spec, void* data, const RowSelection& rows, const Options& options,
                            void* stream) const = 0;
};

// The backend of this number; throws Error when the library was built without it. Defined in backends.cpp.
const Backend& find_backend(BackendId id);

}  // namespace flashscan
