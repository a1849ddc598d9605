// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>

#include "problem.h"
#include "stream.h"

namespace bench {

std::string StreamVariant::describe() const {
    return fmt::format("{} grid, {} threads, unroll {}{}", one_shot ? "one-shot" : "persistent", threads, unroll,
                       streaming ? ", evict-first" : "");
}

namespace {

void check(int error, const char* what) {
    if (error == cudaSuccess) return;
    cudaGetLastError();  // or the next launch would report this error again
    throw Failure(fmt::format("{}: {}", what, cudaGetErrorString(static_cast<cudaError_t>(error))));
}

using Clock = std::chrono::steady_clock;

class Event {
  public:
    Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
    ~Event() { cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
    double us_since(const Event& start) const {
        float ms = 0;
        check(cudaEventElapsedTime(&ms, start.event_, event_), "cudaEventElapsedTime");
        return static_cast<double>(ms) * 1e3;
    }

  private:
    cudaEvent_t event_{};
};

class CudaMachine final : public Machine {
  public:
    explicit CudaMachine(int device) {
        check(cudaSetDevice(device), "cudaSetDevice");
        check(cudaGetDeviceProperties(&properties_, device), "cudaGetDeviceProperties");
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
        flush_bytes_ = std::max(4 * cache_bytes(), size_t{256} << 20);
        flush_buffer_ = allocate(flush_bytes_);
    }
    ~CudaMachine() override {
        for (const cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
        cudaFree(flush_buffer_);
        cudaStreamDestroy(stream_);
    }
    CudaMachine(const CudaMachine&) = delete;
    CudaMachine& operator=(const CudaMachine&) = delete;

    std::string device() const override {
        return fmt::format("{}, {} SMs, {} MB L2", properties_.name, properties_.multiProcessorCount,
                           properties_.l2CacheSize >> 20);
    }

    std::string driver() const override {
        int version = 0;
        cudaDriverGetVersion(&version);
        std::string text = fmt::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
        // "NVRM version: NVIDIA UNIX ... Kernel Module  <version>  <date>"; not there in some containers.
        std::ifstream file("/proc/driver/nvidia/version");
        for (std::string word; file >> word;)
            if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos)
                return fmt::format("{}, {}", word, text);
        return text;
    }

    size_t cache_bytes() const override { return static_cast<size_t>(properties_.l2CacheSize); }
    size_t free_bytes() const override {
        size_t free = 0, total = 0;
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        return free;
    }
    void* stream() const override { return stream_; }

    void* allocate(size_t bytes) override {
        void* memory = nullptr;
        check(cudaMalloc(&memory, std::max<size_t>(bytes, 1)), fmt::format("cudaMalloc of {} bytes", bytes).c_str());
        return memory;
    }
    void release(void* memory) override { cudaFree(memory); }
    void poison(void* memory, size_t bytes) override { check(cudaMemsetAsync(memory, 0xff, bytes, stream_), "memset"); }
    void upload(void* to, const void* from, size_t bytes) override {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_), "upload");
        synchronize();
    }
    void synchronize() override { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
    void launch_nothing() override { check(bench::launch_nothing(stream_), "launching nothing"); }
    void fill(const Box& box, Kind kind, uint64_t seed) override {
        check(launch_fill(box, kind, seed, stream_), "fill");
    }

    std::vector<std::byte> gather(const Box& box) override {
        std::vector<std::byte> dense(static_cast<size_t>(box.count() * size_of(box.dtype)));
        const Buffer staging(*this, dense.size());
        check(launch_gather(box, staging.get(), stream_), "gather");
        check(cudaMemcpyAsync(dense.data(), staging.get(), dense.size(), cudaMemcpyDeviceToHost, stream_), "download");
        synchronize();
        return dense;
    }

    Runs time(const Call& call, int runs, double budget_s) override {
        const Clock::time_point begin = Clock::now();
        warm_up(call);
        // A batch is enqueued as a whole, so that no run waits for the host; the flush covers the cost of enqueueing.
        constexpr int batch = 16;
        Event start[batch], stop[batch];
        Runs result;
        for (int done = 0; done < runs && !result.cut_short; done += batch) {
            const int now = std::min(batch, runs - done);
            for (int i = 0; i < now; ++i) {
                if (flush_caches) flush();
                start[i].record(stream_);
                call();
                stop[i].record(stream_);
            }
            synchronize();
            for (int i = 0; i < now; ++i) result.us.push_back(stop[i].us_since(start[i]));
            const std::chrono::duration<double> spent = Clock::now() - begin;
            result.cut_short = spent.count() > budget_s && done + now < runs;
        }
        last_busy_ = Clock::now();
        return result;
    }

    double burst_us(const Call& call) override {
        constexpr int calls = 32;
        const Call replay = record([&] {
            for (int i = 0; i < calls; ++i) call();
        });
        warm_up(replay);
        std::vector<double> us;
        Event start, stop;
        for (int i = 0; i < 10; ++i) {
            flush();
            start.record(stream_);
            replay();
            stop.record(stream_);
            synchronize();
            us.push_back(stop.us_since(start) / calls);
        }
        return median(us);
    }

    Call record_graph(const Call& call) override { return record(call); }

    double timer_floor_us() override {
        return median(time([] {}, 32, 1.0).us);
    }

  protected:
    Ceiling measure_ceiling(bool backward, size_t array_bytes, int runs) override {
        const size_t bytes = (array_bytes + 15) / 16 * 16;
        const int num_arrays = backward ? 5 : 3;
        std::vector<Buffer> buffers;
        for (int i = 0; i < num_arrays; ++i) {
            buffers.emplace_back(*this, bytes);
            const Box box{
                buffers.back().get(), FLASHSCAN_DTYPE_F32, {1, 1, static_cast<int64_t>(bytes / 4)}, {0, 0, 1}};
            fill(box, Kind::data, static_cast<uint64_t>(i));
        }
        const auto at = [&](int i) { return static_cast<void*>(buffers[static_cast<size_t>(i)].get()); };
        const StreamArrays arrays = backward ? StreamArrays{{at(0), at(1), at(2)}, {at(3), at(4)}, bytes}
                                             : StreamArrays{{at(0), at(1), nullptr}, {at(2), nullptr}, bytes};
        const auto median_us = [&](const StreamVariant& v, int times) {
            return median(time(
                              [&] {
                                  check(launch_stream(arrays, backward, v, properties_.multiProcessorCount, stream_),
                                        "stream");
                              },
                              times, 2.0)
                              .us);
        };
        std::vector<std::pair<double, StreamVariant>> tried;
        for (const bool one_shot : {true, false})
            for (const bool streaming : {true, false})
                for (const int threads : {128, 256, 512, 1024})
                    for (const int unroll : {1, 2, 4, 8}) {
                        const StreamVariant variant{one_shot, streaming, threads, unroll};
                        if (threads * unroll * (backward ? 3 : 2) > 16384) continue;  // registers of one block
                        tried.emplace_back(median_us(variant, 7), variant);
                    }
        std::sort(tried.begin(), tried.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        Ceiling best;
        for (size_t i = 0; i < 3; ++i) {
            const double us = median_us(tried[i].second, runs);
            if (best.us == 0 || us < best.us) best = {0, us, tried[i].second.describe()};
        }
        best.gbps = static_cast<double>(bytes) * num_arrays / best.us * 1e-3;
        return best;
    }

  private:
    void flush() { check(cudaMemsetAsync(flush_buffer_, ++flush_value_, flush_bytes_, stream_), "flush"); }

    // At least three calls, and long enough for the clocks to rise again where the device stood idle.
    void warm_up(const Call& call) {
        const Clock::time_point begin = Clock::now();
        const std::chrono::milliseconds least(begin - last_busy_ > std::chrono::milliseconds(20) ? 50 : 1);
        for (int i = 0; i < 3 || Clock::now() - begin < least; ++i) {
            flush();
            call();
            synchronize();
        }
    }

    Call record(const Call& call) {
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
        cudaGraph_t graph = nullptr;
        try {
            call();
        } catch (...) {
            cudaStreamEndCapture(stream_, &graph);
            if (graph != nullptr) cudaGraphDestroy(graph);
            throw;
        }
        check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
        cudaGraphExec_t executable = nullptr;
        const int error = cudaGraphInstantiate(&executable, graph, 0);
        cudaGraphDestroy(graph);
        check(error, "cudaGraphInstantiate");
        graphs_.push_back(executable);
        return [this, executable] { check(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch"); };
    }

    cudaDeviceProp properties_{};
    cudaStream_t stream_{};
    size_t flush_bytes_ = 0;
    void* flush_buffer_ = nullptr;
    int flush_value_ = 0;
    Clock::time_point last_busy_{};
    std::vector<cudaGraphExec_t> graphs_;
};

}  // namespace

std::unique_ptr<Machine> make_cuda_machine(int device) { return std::make_unique<CudaMachine>(device); }

}  // namespace bench
