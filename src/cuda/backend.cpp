// SPDX-License-Identifier: Apache-2.0
#include "cuda/backend.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "cuda/linear.h"
#include "cuda/operator_custom.h"
#include "cuda/operator_elements.h"
#include "cuda/operator_matrices.h"
#include "cuda/rnn.h"
#include "cuda/rnn_fused.h"
#include "cuda/rnn_persistent.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

constexpr LinearCandidate linear[] = {
    {"rows", make_linear_rows},   {"relay", make_linear_relay},   {"columns", make_linear_columns},
    {"waves", make_linear_waves}, {"stream", make_linear_stream}, {"chunked", make_linear_chunked},
};

constexpr RnnCandidate rnn[] = {
    {"fused", make_rnn_fused},
    {"persistent", make_rnn_persistent},
    {"alternating", make_rnn_alternating},
};

constexpr OperatorCandidate operators[] = {
    {"numbers", make_operator_numbers}, {"tiny", make_operator_tiny},        {"matrices", make_operator_matrices},
    {"compiled", make_custom_scan},     {"compiled_tree", make_custom_tree}, {"batched", make_custom_batched},
};

bool checks_wanted() {
    const char* value = std::getenv("FLASHSCAN_CHECK");
    return value != nullptr && std::strcmp(value, "1") == 0;
}

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

// Memory pools of our own keep what was freed, so that a call's scratch costs no driver allocation. They live as long
// as the process: at exit the driver may be gone before us.
class Pools {
  public:
    cudaMemPool_t of(int device) {
        const std::scoped_lock lock(mutex_);
        if (device >= static_cast<int>(pools_.size())) pools_.resize(static_cast<size_t>(device) + 1, nullptr);
        cudaMemPool_t& pool = pools_[static_cast<size_t>(device)];
        if (pool == nullptr) pool = make(device);
        return pool;
    }

  private:
    static cudaMemPool_t make(int device) {
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {cudaMemLocationTypeDevice, device};
        cudaMemPool_t pool = nullptr;
        check(cudaMemPoolCreate(&pool, &properties), "creating a memory pool");
        uint64_t keep = UINT64_MAX;
        check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "setting up a memory pool");
        return pool;
    }

    std::mutex mutex_;
    std::vector<cudaMemPool_t> pools_;
};

Pools& pools() {
    static Pools instance;
    return instance;
}

void check_pointer(const ArgumentSpec& spec, const Argument& argument, int device) {
    cudaPointerAttributes attributes{};
    check(cudaPointerGetAttributes(&attributes, argument.data), "looking up a pointer");
    if (attributes.type == cudaMemoryTypeUnregistered)
        fail(Code::invalid_pointer, "{} is at {}, which is host memory; a CUDA plan needs memory valid on device {}",
             spec.name, argument.data, device);
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != device)
        fail(Code::invalid_pointer, "{} is at {} on device {}; the plan runs on device {}", spec.name, argument.data,
             attributes.device, device);
}

class CudaBackend final : public Backend {
  public:
    const char* name() const override { return "cuda"; }

    int32_t device_count() const override {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess) {
            cudaGetLastError();
            return 0;
        }
        return count;
    }

    void check(const Options& options) const override {
        int count = 0;
        const cudaError_t result = cudaGetDeviceCount(&count);
        if (result != cudaSuccess) {
            cudaGetLastError();
            fail(Code::no_device, "backend is CUDA, but no device can be used: {}", cudaGetErrorString(result));
        }
        if (options.device < 0 || options.device >= count)
            fail(Code::no_device, "device is {}; this machine has CUDA devices 0 to {}", options.device, count - 1);
        if (options.threads != 0) fail(Code::invalid_argument, "threads is {}; a CUDA plan accepts 0", options.threads);
        pools().of(options.device);  // made here, because the first call may be captured
    }

    std::span<const LinearCandidate> linear_candidates() const override { return linear; }
    std::span<const RnnCandidate> rnn_candidates() const override { return rnn; }
    std::span<const OperatorCandidate> operator_candidates() const override { return operators; }

    void* allocate(size_t bytes, const Options& options, void* stream) const override {
        const DeviceScope scope(options.device);
        void* memory = nullptr;
        cuda::check(cudaMallocFromPoolAsync(&memory, bytes, pools().of(options.device), stream_of(stream)),
                    "allocating scratch");
        return memory;
    }

    void release(void* memory, const Options& options, void* stream) const noexcept override {
        try {
            const DeviceScope scope(options.device);
            cudaFreeAsync(memory, stream_of(stream));
        } catch (...) {
            // The device is lost; so is its memory.
        }
    }

    void check_memory(std::span<const ArgumentSpec> specs, std::span<const Argument> arguments,
                      const Options& options) const override {
        if (!checks_wanted()) return;
        const DeviceScope scope(options.device);
        for (const Argument& argument : arguments)
            for (const ArgumentSpec& spec : specs)
                if (spec.id == argument.id && argument.data != nullptr && spec.bytes > 0)
                    check_pointer(spec, argument, options.device);
    }

    std::vector<int64_t> read_offsets(const void* offsets, Dtype dtype, int64_t count, const Options& options,
                                      void* stream) const override {
        if (!checks_wanted()) return {};
        const DeviceScope scope(options.device);
        cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
        cuda::check(cudaStreamIsCapturing(stream_of(stream), &capturing), "asking whether the stream is captured");
        if (capturing != cudaStreamCaptureStatusNone) return {};
        std::vector<int32_t> narrow(dtype == Dtype::i32 ? static_cast<size_t>(count) : 0);
        std::vector<int64_t> values(static_cast<size_t>(count));
        void* to = dtype == Dtype::i32 ? static_cast<void*>(narrow.data()) : values.data();
        cuda::check(cudaMemcpyAsync(to, offsets, static_cast<size_t>(count * size_of(dtype)), cudaMemcpyDefault,
                                    stream_of(stream)),
                    "reading SEQ_OFFSETS");
        cuda::check(cudaStreamSynchronize(stream_of(stream)), "reading SEQ_OFFSETS");
        for (size_t i = 0; i < narrow.size(); ++i) values[i] = narrow[i];
        return values;
    }
};

}  // namespace

const Backend& backend() {
    static const CudaBackend instance;
    return instance;
}

}  // namespace flashscan::cuda
