// SPDX-License-Identifier: Apache-2.0
// What a backend gives the core: devices, memory, and an ordered list of kernels for each family.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/communicator.h"
#include "core/cookie.h"
#include "core/gated_arguments.h"
#include "core/linear_arguments.h"
#include "core/operator_arguments.h"
#include "core/rnn_arguments.h"
#include "core/selective_arguments.h"
#include "core/strided_states.h"

namespace flashscan {

// The caller's functions that allocate scratch in place of the backend. They are null where the caller gave none.
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
    bool checks = false;  // whether calls of a GPU check data, for which they wait for the stream (FLASHSCAN_CHECK)
    std::string kernel;   // the name of a forced kernel; empty: the planner chooses
    Allocator allocator;
    Communicator communicator;                       // connects the ranks that hold parts of one sequence
    std::function<void(LogLevel, const char*)> log;  // may be empty
};

// A kernel bound to one problem. It does not change, and any number of threads may call it at once.
template <typename Buffers>
class Kernel {
  public:
    virtual ~Kernel() = default;
    // Says why this kernel was chosen and with which parameters it runs, in one line without a newline.
    virtual std::string describe() const = 0;
    // Returns how many bytes of Buffers::scratch, aligned to 256, a call of `pass` may use.
    virtual size_t scratch_bytes(Pass pass) const = 0;
    // Returns whether a call of `pass` reads and writes states where they lie: with their strides, in the rows of a
    // pool that Buffers::state_indices names, with zeros in OUTPUT for padding. States are dense otherwise, and the
    // plan copies them.
    virtual bool takes_states_in_place(Pass) const { return false; }
    virtual void forward(const Buffers& buffers, void* stream) const = 0;
    virtual void backward(const Buffers& buffers, void* stream) const = 0;
    // Looks for ways to the other ranks. All ranks call it together when each has made its kernel.
    virtual void meet() {}
    // Chooses what depends on the numbers of steps of all ranks, in the order of their numbers; before any call.
    virtual void settle(std::span<const int64_t> /*steps*/) {}
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
    // Returns how many bytes of RESERVE, aligned to 64, the kernel uses. Is called for training plans only.
    virtual size_t reserve_bytes() const = 0;
};
using RnnCandidate = Candidate<RnnKernel, RnnProblem>;

using OperatorKernel = Kernel<OperatorBuffers>;
using OperatorCandidate = Candidate<OperatorKernel, OperatorProblem>;

using GatedKernel = Kernel<GatedBuffers>;
using GatedCandidate = Candidate<GatedKernel, GatedProblem>;

using SelectiveKernel = Kernel<SelectiveBuffers>;
using SelectiveCandidate = Candidate<SelectiveKernel, SelectiveProblem>;

// These facts say for people what a backend was built for, and what of it can be used.
struct BackendFacts {
    std::string built_for;  // architectures or instruction sets
    std::string in_use;     // the instruction set that plans run with; empty: the backend has none
    std::string unusable;   // why no device can be used; empty: one can
    int32_t toolkit = 0, driver = 0;
};

// Selects rows of a tensor by their indices in a pool: rows of the batch or, where sequences are packed, parts of time.
struct RowSelection {
    const int32_t* indices = nullptr;
    int64_t count = 0;
    const void* seq_offsets = nullptr;  // null: not packed
    Dtype offsets_dtype{};
    int64_t pool_rows = 0;  // indices are less than this
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual const char* name() const = 0;
    virtual int32_t device_count() const = 0;
    virtual BackendFacts facts() const = 0;
    // Throws Error unless `options` name a device and settings that this backend has. Fills in those that the
    // environment gives.
    virtual void settle(Options& options) const = 0;
    // The lists of kernels are in order of preference. The last kernel of a list takes every problem; a list is empty
    // where the backend has no kernels for the family.
    virtual std::span<const LinearCandidate> linear_candidates() const = 0;
    virtual std::span<const RnnCandidate> rnn_candidates() const = 0;
    virtual std::span<const OperatorCandidate> operator_candidates() const = 0;
    virtual std::span<const GatedCandidate> gated_candidates() const = 0;
    virtual std::span<const SelectiveCandidate> selective_candidates() const = 0;
    // Allocates scratch for one call, in the order of `stream` where the backend has streams. Throws Error when there
    // is no memory.
    virtual void* allocate(size_t bytes, const Options& options, void* stream) const = 0;
    virtual void release(void* memory, const Options& options, void* stream) const noexcept = 0;
    // Tells the backend that calls of a plan will allocate up to `bytes` at a time. That holds until the plan releases
    // what is returned.
    virtual std::shared_ptr<void> keep_scratch(size_t bytes, const Options& options) const = 0;
    // Checks that `arguments` point to this backend's memory, where that costs nothing or options.checks asks for it.
    virtual void check_memory(std::span<const ArgumentSpec> specs, std::span<const Argument> arguments,
                              const Options& options) const = 0;
    // Writes what RESERVE begins with, in the order of `stream`, where the backend checks RESERVE.
    virtual void write_cookie(void* reserve, const Cookie& cookie, const Options& options, void* stream) const = 0;
    // Returns what RESERVE begins with, read in the order of `stream`, or nothing where the backend does not check
    // RESERVE in this call.
    virtual std::optional<Cookie> read_cookie(const void* reserve, const Options& options, void* stream) const = 0;
    // Copies rows within this backend's memory, in the order of `stream`.
    virtual void copy_rows(const RowCopy& copy, const Options& options, void* stream) const = 0;
    // Copies a tensor to dense memory.
    virtual void pack(const ArgumentSpec& spec, const void* data, void* dense, const Options& options,
                      void* stream) const = 0;
    // Writes to the tensor the sums of `count` dense ones, which are `step` bytes apart, added in their order.
    virtual void add_up(const ArgumentSpec& spec, const void* dense, size_t step, int32_t count, void* data,
                        const Options& options, void* stream) const = 0;
    // Gathers what each rank sends from this backend's memory, in the order of `stream`.
    virtual void gather(const Communicator& ranks, const void* send, void* receive, size_t bytes,
                        const Options& options, void* stream) const = 0;
    // The same while plans are made, from host memory; returns when all is there.
    virtual void gather_on_host(const Communicator& ranks, const void* send, void* receive, size_t bytes,
                                const Options& options) const = 0;
    // Completes a communicator that a caller gave. Throws Error where this backend does not take it.
    virtual void connect(Options& options) const = 0;
    // Whether kernels need Kernel::meet and Kernel::settle, which take further exchanges of notes.
    virtual bool settles_ranks() const = 0;
    // Calls `call`, which calls kernels and copy_rows, and returns how many operations that would have enqueued on a
    // stream. Nothing is enqueued.
    virtual int64_t count_launches(const std::function<void()>& call) const = 0;
    // Returns the values of SEQ_OFFSETS or STATE_INDICES where the backend can read them or was asked to, else an empty
    // list.
    virtual std::vector<int64_t> read_integers(const void* integers, Dtype dtype, int64_t count, const Options& options,
                                               void* stream) const = 0;
    // Fills memory with zeros, in the order of `stream`.
    virtual void clear_memory(void* memory, size_t bytes, const Options& options, void* stream) const = 0;
    // Fills those rows of `data` with zeros whose index is negative. The pointers of `rows` are to this backend's
    // memory.
    virtual void clear_rows(const ArgumentSpec& spec, void* data, const RowSelection& rows, const Options& options,
                            void* stream) const = 0;
};

// Returns the backend of this number; throws Error when the library was built without it. Defined in backends.cpp.
const Backend& find_backend(BackendId id);

}  // namespace flashscan
