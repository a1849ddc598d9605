// SPDX-License-Identifier: Apache-2.0
//
// A call's launches depend only on the plan and on the call's pointers. The second call with the same pointers captures
// them on a stream of the plan's own and instantiates a graph; this call and every later one launch it. A call enqueues
// launch by launch where its pointers are new, where the caller captures the stream, and where another thread is using
// the graphs: no call waits for another, and the bits are the same either way.
#include "cuda/rnn/alternating/graph_replay.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "cuda/launch/launch_count.h"
#include "cuda/rnn/recent.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

// With fewer steps the launches cost less than the graph; with more its nodes would take too much host memory.
constexpr int64_t fewest_steps = 8, most_steps = 4096;
constexpr size_t kept_calls = 4;
constexpr int64_t most_waits = 1 << 16;

struct Destroy {
    void operator()(cudaGraph_t graph) const { succeeds(cudaGraphDestroy(graph)); }
    // CUDA frees a graph that is running when it is done.
    void operator()(cudaGraphExec_t graph) const { succeeds(cudaGraphExecDestroy(graph)); }
    void operator()(cudaStream_t stream) const { succeeds(cudaStreamDestroy(stream)); }
};
using Graph = std::unique_ptr<CUgraph_st, Destroy>;
using Executable = std::unique_ptr<CUgraphExec_st, Destroy>;
using Stream = std::unique_ptr<CUstream_st, Destroy>;

class Replay final : public RnnKernel {
  public:
    Replay(std::unique_ptr<RnnKernel> kernel, int device, bool pays)
        : kernel_(std::move(kernel)), device_(device), pays_(pays) {}
    ~Replay() override {
        release_on(device_, [this] {
            recent_ = {};
            stream_ = nullptr;
        });
    }

    std::string describe() const override {
        return kernel_->describe() + (pays_ ? "; replayed as a graph when pointers repeat" : "");
    }
    size_t scratch_bytes(Pass pass) const override { return kernel_->scratch_bytes(pass); }
    size_t reserve_bytes() const override { return kernel_->reserve_bytes(); }
    void forward(const RnnBuffers& b, void* stream) const override { run(Pass::forward, b, stream); }
    void backward(const RnnBuffers& b, void* stream) const override { run(Pass::backward, b, stream); }

  private:
    struct Key {
        Pass pass{};
        std::array<const void*, sizeof(RnnBuffers) / sizeof(void*)> pointers{};
        bool operator==(const Key&) const = default;
    };
    static_assert(sizeof(RnnBuffers) % sizeof(void*) == 0);

    static Key key_of(Pass pass, const RnnBuffers& b) {
        Key key{pass, {}};
        std::memcpy(key.pointers.data(), &b, sizeof b);
        return key;
    }
    void enqueue(Pass pass, const RnnBuffers& b, void* stream) const {
        if (pass == Pass::forward)
            kernel_->forward(b, stream);
        else
            kernel_->backward(b, stream);
    }
    void run(Pass pass, const RnnBuffers& b, void* stream) const {
        if (!pays_ || is_counting_launches() || !replay(pass, b, stream)) enqueue(pass, b, stream);
    }

    // Launches the call's graph; returns false where nothing was enqueued.
    bool replay(Pass pass, const RnnBuffers& b, void* stream) const {
        const DeviceScope scope(device_);
        cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
        if (!succeeds(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture)) ||
            capture != cudaStreamCaptureStatusNone)
            return false;
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock) return false;
        auto& call = recent_[key_of(pass, b)];
        if (call.asked == 1) return false;
        if (waits_ > 0) {
            --waits_;
            return false;
        }
        if (call.value == nullptr) call.value = record(pass, b);
        const bool launched =
            call.value != nullptr && succeeds(cudaGraphLaunch(call.value.get(), static_cast<cudaStream_t>(stream)));
        if (!launched) {
            call.value = nullptr;
            waits_ = next_waits_;
        }
        next_waits_ = launched ? 1 : std::min(2 * next_waits_, most_waits);
        return launched;
    }
    // Captures and instantiates a graph. Returns null where that fails; enqueueing without a graph then reports what is
    // wrong.
    Executable record(Pass pass, const RnnBuffers& b) const {
        const RelaxedCapture relaxed;
        Stream stream = std::exchange(stream_, nullptr);  // not kept on failure, as it may still be capturing
        if (stream == nullptr) {
            cudaStream_t made = nullptr;
            if (!succeeds(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking))) return nullptr;
            stream.reset(made);
        }
        if (!succeeds(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed))) return nullptr;
        bool enqueued = true;
        try {
            enqueue(pass, b, stream.get());
        } catch (...) {
            enqueued = false;
        }
        cudaGraph_t captured = nullptr;
        if (!succeeds(cudaStreamEndCapture(stream.get(), &captured))) return nullptr;
        stream_ = std::move(stream);
        const Graph graph(captured);
        cudaGraphExec_t made = nullptr;
        if (!enqueued || !succeeds(cudaGraphInstantiate(&made, captured, 0))) return nullptr;
        return Executable(made);
    }

    std::unique_ptr<RnnKernel> kernel_;
    int device_;
    bool pays_;
    mutable std::mutex mutex_;  // guards the members below
    mutable Stream stream_;
    // After a failure waits_ calls go launch by launch before a graph is tried again, twice as many after each failure.
    mutable int64_t waits_ = 0, next_waits_ = 1;
    mutable Recent<Key, Executable, kept_calls> recent_;
};

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_replay(std::unique_ptr<RnnKernel> kernel, const RnnProblem& problem,
                                           const Options& options) {
    const bool pays = problem.batch > 0 && problem.time >= fewest_steps && problem.time <= most_steps;
    return std::make_unique<Replay>(std::move(kernel), options.device, pays);
}

}  // namespace flashscan::cuda
