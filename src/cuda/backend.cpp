// SPDX-License-Identifier: Apache-2.0
// The CUDA backend: its devices, its checks and its memory.
#include "cuda/backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "cuda/candidates.h"
#include "cuda/launch/cookie.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/launch_count.h"
#include "cuda/launch/rank_link.h"
#include "cuda/launch/rank_sums.h"
#include "cuda/launch/scratch_pool.h"
#include "cuda/launch/state_rows.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

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

// The oldest driver that runs the library: one of the runtime's major version, and of 12.4 at least, which unpacks its
// code.
constexpr int oldest_driver = std::max(CUDART_VERSION / 1000 * 1000, 12040);

// The runtime of CUDA 12 itself accepts drivers of 12.0.
bool is_accepted_by_runtime_alone() {
    int driver = 0;
    return oldest_driver % 1000 != 0 && succeeds(cudaDriverGetVersion(&driver)) && driver < oldest_driver;
}

int usable_devices() {
    int count = 0;
    return succeeds(cudaGetDeviceCount(&count)) && !is_accepted_by_runtime_alone() ? count : 0;
}

// Why no device can be used; empty if there is one.
std::string why_unusable() {
    int count = 0, driver = 0;
    const cudaError_t result = cudaGetDeviceCount(&count);
    const bool too_old = result == cudaErrorInsufficientDriver || is_accepted_by_runtime_alone();
    if (succeeds(result) && !too_old) return count > 0 ? "" : "the driver has no CUDA device";
    const bool asked = succeeds(cudaDriverGetVersion(&driver));
    const auto version = [](int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); };
    if (asked && driver == 0) return "there is no NVIDIA driver";
    if (asked && driver < oldest_driver && too_old)
        return fmt::format("the driver supports CUDA {}; accepted are {} and newer", version(driver),
                           version(oldest_driver));
    return cudaGetErrorString(result);
}

class CudaBackend final : public Backend {
  public:
    const char* name() const override { return "cuda"; }

    int32_t device_count() const override { return usable_devices(); }

    BackendFacts facts() const override {
        BackendFacts facts;
        facts.built_for = FLASHSCAN_CUDA_ARCHITECTURES;
        facts.unusable = why_unusable();
        facts.toolkit = CUDART_VERSION;
        static_cast<void>(succeeds(cudaDriverGetVersion(&facts.driver)));
        return facts;
    }

    void settle(Options& options) const override {
        const int count = usable_devices();
        if (count == 0) fail(Code::no_device, "backend is CUDA, but no device can be used: {}", why_unusable());
        if (options.device < 0 || options.device >= count)
            fail(Code::no_device, "device is {}; this machine has CUDA devices 0 to {}", options.device, count - 1);
        if (options.threads != 0) fail(Code::invalid_argument, "threads is {}; a CUDA plan accepts 0", options.threads);
        const char* const checks = std::getenv("FLASHSCAN_CHECK");
        options.checks = checks != nullptr && std::strcmp(checks, "1") == 0;
        if (options.checks) {
            const DeviceScope scope(options.device);
            kernel_attributes(store_cookie_kernel());  // loads it now, since the first call may be captured
        }
    }

    std::span<const LinearCandidate> linear_candidates() const override { return linear_candidates_over_ranks(); }
    std::span<const RnnCandidate> rnn_candidates() const override { return cuda::rnn_candidates(); }
    std::span<const GatedCandidate> gated_candidates() const override { return gated_candidates_over_ranks(); }
    std::span<const SelectiveCandidate> selective_candidates() const override {
        return selective_candidates_over_ranks();
    }
    std::span<const OperatorCandidate> operator_candidates() const override { return operator_candidates_over_ranks(); }

    void* allocate(size_t bytes, const Options& options, void* stream) const override {
        return allocate_scratch(bytes, options.device, stream_of(stream));
    }
    void release(void* memory, const Options& options, void* stream) const noexcept override {
        release_scratch(memory, options.device, stream_of(stream));
    }
    std::shared_ptr<void> keep_scratch(size_t bytes, const Options& options) const override {
        return cuda::keep_scratch(bytes, options.device);
    }

    void check_memory(std::span<const ArgumentSpec> specs, std::span<const Argument> arguments,
                      const Options& options) const override {
        if (!options.checks) return;
        const DeviceScope scope(options.device);
        for (const Argument& argument : arguments)
            for (const ArgumentSpec& spec : specs)
                if (spec.id == argument.id && argument.data != nullptr && spec.bytes > 0)
                    check_pointer(spec, argument, options.device);
    }

    void write_cookie(void* reserve, const Cookie& cookie, const Options& options, void* stream) const override {
        if (!options.checks) return;
        const DeviceScope scope(options.device);
        launch(store_cookie_kernel(), blocks_of(1, 1), stream, reserve, cookie);
    }
    std::optional<Cookie> read_cookie(const void* reserve, const Options& options, void* stream) const override {
        Cookie cookie;
        if (!copy_and_wait(&cookie, reserve, Cookie::bytes, options, stream, "reading RESERVE")) return {};
        return cookie;
    }

    // A kernel where rows are indexed, else one two-dimensional copy, or a copy for each row where the distance between
    // rows is longer than that one takes.
    void copy_rows(const RowCopy& copy, const Options& options, void* stream) const override {
        const DeviceScope scope(options.device);
        constexpr int64_t longest_step = std::numeric_limits<int32_t>::max();
        if (copy.to_indices != nullptr || copy.from_indices != nullptr) return copy_indexed_rows(copy, stream);
        const auto bytes = static_cast<size_t>(copy.bytes);
        if (std::max(copy.to_step, copy.from_step) <= longest_step) {
            if (counts_launch()) return;
            cuda::check(cudaMemcpy2DAsync(copy.to, static_cast<size_t>(copy.to_step), copy.from,
                                          static_cast<size_t>(copy.from_step), bytes, static_cast<size_t>(copy.count),
                                          cudaMemcpyDeviceToDevice, stream_of(stream)),
                        "copying the rows of a state");
            return;
        }
        for (int64_t i = 0; i < copy.count; ++i) {
            if (counts_launch()) continue;
            cuda::check(cudaMemcpyAsync(static_cast<std::byte*>(copy.to) + i * copy.to_step,
                                        static_cast<const std::byte*>(copy.from) + i * copy.from_step, bytes,
                                        cudaMemcpyDeviceToDevice, stream_of(stream)),
                        "copying a row of a state");
        }
    }

    void pack(const ArgumentSpec& spec, const void* data, void* dense, const Options& options,
              void* stream) const override {
        const DeviceScope scope(options.device);
        pack_tensor(spec, data, dense, stream);
    }
    void add_up(const ArgumentSpec& spec, const void* dense, size_t step, int32_t count, void* data,
                const Options& options, void* stream) const override {
        const DeviceScope scope(options.device);
        add_up_tensors(spec, dense, step, count, data, stream);
    }
    void gather(const Communicator& ranks, const void* from, void* to, size_t bytes, const Options& options,
                void* stream) const override {
        const DeviceScope scope(options.device);
        cuda::gather(ranks, from, to, bytes, stream);
    }
    void gather_on_host(const Communicator& ranks, const void* from, void* to, size_t bytes,
                        const Options& options) const override {
        cuda::gather_on_host(ranks, from, to, bytes, options.device);
    }
    void connect(Options& options) const override { cuda::connect(options); }
    bool settles_ranks() const override { return true; }

    int64_t count_launches(const std::function<void()>& call) const override {
        const LaunchCount launches;
        call();
        return launches.count();
    }

    std::vector<int64_t> read_integers(const void* integers, Dtype dtype, int64_t count, const Options& options,
                                       void* stream) const override {
        std::vector<int32_t> narrow(dtype == Dtype::i32 ? static_cast<size_t>(count) : 0);
        std::vector<int64_t> values(static_cast<size_t>(count));
        void* to = dtype == Dtype::i32 ? static_cast<void*>(narrow.data()) : values.data();
        if (!copy_and_wait(to, integers, static_cast<size_t>(count * size_of(dtype)), options, stream,
                           "reading SEQ_OFFSETS or STATE_INDICES"))
            return {};
        for (size_t i = 0; i < narrow.size(); ++i) values[i] = narrow[i];
        return values;
    }

    void clear_memory(void* memory, size_t bytes, const Options& options, void* stream) const override {
        const DeviceScope scope(options.device);
        fill(memory, 0, bytes, stream);
    }
    void clear_rows(const ArgumentSpec& spec, void* data, const RowSelection& rows, const Options& options,
                    void* stream) const override {
        const DeviceScope scope(options.device);
        clear_padding(spec, data, rows, stream);
    }

  private:
    // Copies and waits. Returns false, without a copy, where checks are not wanted or the stream is being captured.
    static bool copy_and_wait(void* to, const void* from, size_t bytes, const Options& options, void* stream,
                              const char* what) {
        if (!options.checks) return false;
        const DeviceScope scope(options.device);
        cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
        cuda::check(cudaStreamIsCapturing(stream_of(stream), &capturing), "asking whether the stream is captured");
        if (capturing != cudaStreamCaptureStatusNone) return false;
        cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_of(stream)), what);
        cuda::check(cudaStreamSynchronize(stream_of(stream)), what);
        return true;
    }
};

}  // namespace

const Backend& backend() {
    static const CudaBackend instance;
    return instance;
}

}  // namespace flashscan::cuda
