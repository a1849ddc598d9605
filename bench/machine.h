// SPDX-License-Identifier: Apache-2.0
// Where a bench runs: memory, data, clocks and the stream ceiling of a CPU or of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "numbers.h"

namespace bench {

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A tensor in the machine's memory: three axes, the last one runs fastest in the order of enumeration.
struct Box {
    void* data = nullptr;
    int32_t dtype = 0;  // 0: bytes
    int64_t extent[3] = {1, 1, 1};
    int64_t stride[3] = {0, 0, 0};  // in elements
    int64_t count() const { return extent[0] * extent[1] * extent[2]; }
};

struct Runs {
    std::vector<double> us;
    bool cut_short = false;  // by the time budget
};

struct Ceiling {
    double gbps = 0;
    double us = 0;
    std::string variant;  // the fastest of those tried
};

using Call = std::function<void()>;

class Machine {
  public:
    virtual ~Machine() = default;
    virtual std::string device() const = 0;
    virtual std::string driver() const = 0;
    virtual size_t cache_bytes() const = 0;
    virtual size_t free_bytes() const = 0;
    virtual void* stream() const = 0;

    virtual void* allocate(size_t bytes) = 0;
    virtual void release(void* memory) = 0;
    virtual void poison(void* memory, size_t bytes) = 0;  // NaN in every dtype
    virtual void upload(void* to, const void* from, size_t bytes) = 0;
    virtual void fill(const Box& box, Kind kind, uint64_t seed) = 0;
    // Copies the box, dense in its order of enumeration, to host memory.
    virtual std::vector<std::byte> gather(const Box& box) = 0;
    virtual void synchronize() = 0;
    virtual void launch_nothing() = 0;  // on a CPU nothing at all

    // Times `call` by itself `runs` times, caches flushed before each unless told otherwise, after a warm-up.
    virtual Runs time(const Call& call, int runs, double budget_s) = 0;
    // Time of one call among many enqueued back to back, caches warm; 0 where that has no meaning.
    virtual double burst_us(const Call& call) = 0;
    // Turns `call` into the replay of a graph that holds it once; throws Failure where there are no graphs.
    virtual Call record_graph(const Call& call) = 0;
    // What two timestamps with nothing between them measure.
    virtual double timer_floor_us() = 0;

    // Fastest plain stream with the traffic of a pass: 2 reads and 1 write, or 3 reads and 2 writes.
    const Ceiling& ceiling(bool backward, size_t array_bytes, int runs);
    const std::map<std::pair<bool, size_t>, Ceiling>& ceilings() const { return ceilings_; }

    bool flush_caches = true;

  protected:
    virtual Ceiling measure_ceiling(bool backward, size_t array_bytes, int runs) = 0;

  private:
    std::map<std::pair<bool, size_t>, Ceiling> ceilings_;
};

// Memory of a machine, given back at the end of scope.
class Buffer {
  public:
    Buffer(Machine& machine, size_t bytes) : machine_(&machine), data_(machine.allocate(bytes)) {}
    ~Buffer() {
        if (data_ != nullptr) machine_->release(data_);
    }
    Buffer(Buffer&& other) noexcept : machine_(other.machine_), data_(std::exchange(other.data_, nullptr)) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    Buffer& operator=(Buffer&&) = delete;
    char* get() const { return static_cast<char*>(data_); }

  private:
    Machine* machine_;
    void* data_;
};

double median(std::vector<double> values);
// The value below which `share` of the values lie.
double quantile(std::vector<double> values, double share);

std::unique_ptr<Machine> make_cpu_machine(int threads);
// Throws Failure where the bench was built without CUDA or the device cannot be used.
std::unique_ptr<Machine> make_cuda_machine(int device);

}  // namespace bench
