// SPDX-License-Identifier: Apache-2.0
// A machine with two GPUs that compute nothing: the CUDA runtime's functions that the library and its tests call, with
// contexts, captures and memory kept account of, so that what the library asks of the runtime is tested without a GPU.
// The n-th call can be made to fail.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace fake {

constexpr int device_count = 2;

struct Failure {
    int64_t call = 0;  // the first is 1; 0: none
    cudaError_t error = cudaSuccess;
    bool all_after = false;
};

struct Stream {
    int device = 0;
    bool captures = false;
    std::vector<std::string> captured;
};
// An event stands for the work of a stream up to it; only whether that was captured is known.
struct Event {
    bool captured = false;
};
struct Graph {
    std::vector<std::string> launches;
};
struct Pool {
    int device = 0;
    uint64_t threshold = 0, used = 0, kept = 0;  // kept: released, and still the pool's
    std::multimap<size_t, void*> again;          // by size: a real pool, too, gives out the same addresses
};
struct Block {
    int device = 0;
    size_t bytes = 0;
    Pool* pool = nullptr;
};

struct Machine {
    std::recursive_mutex mutex;
    Failure failure;
    int64_t calls = 0;               // since the failure was set
    std::string failed;              // the first call that did
    bool gone = false;               // the process ends, and the runtime with it
    std::string launches;            // since then, a line each
    std::vector<std::string> stray;  // calls that made a context of a device that nobody had selected
    std::vector<std::string> driver_after_end;
    bool contexts[device_count] = {};
    int global_captures = 0;
    bool reaches_peers = false;  // whether GPUs reach each other's memory
    int capability = 9;          // the major number of the compute capability
    // Does what kernels are to do, by their names and arguments, where it is given.
    std::function<void(const std::string& kernel, void** arguments)> compute;
    std::set<std::string> broken_captures;  // by calls that a capture of another thread forbids

    std::set<Stream*> streams;
    std::set<Event*> events;
    std::set<Graph*> graphs, executables;
    std::set<Pool*> pools;
    std::map<void*, Block> blocks;
    std::map<const void*, std::string> kernels;
    int libraries = 0;

    // Names the objects that live.
    std::string living() const;
};
Machine& machine();

// While it lives, allocations are the machine's own, which tests of failing allocations leave alone.
class OwnMemory {
  public:
    OwnMemory();
    ~OwnMemory();
    OwnMemory(const OwnMemory&) = delete;
    OwnMemory& operator=(const OwnMemory&) = delete;

  private:
    bool before_ = false;
};

// Every call begins with it: returns cudaSuccess where the call is to work, else what it is to return instead.
cudaError_t enter(const char* name);
// The same for calls that need a context: makes the first device's where this thread has none, as the runtime does.
cudaError_t enter_device(const char* name);
// The same for calls that a global capture of another thread forbids to threads that are not relaxed.
cudaError_t enter_unsafe(const char* name);
cudaError_t remember(cudaError_t error);
// The device of this thread's context; -1: it has none.
int current_device();
// Notes a launch down, in the stream's graph where the stream is captured.
void launch(cudaStream_t stream, const std::string& what);
void set_current_device(int device);
cudaStreamCaptureMode capture_mode();

}  // namespace fake

// For a library that is loaded beside it, as the fake cuBLAS.
extern "C" int fake_enter(const char* name);
extern "C" int fake_enter_unsafe(const char* name);
extern "C" void fake_launch(const char* what, cudaStream_t stream);
