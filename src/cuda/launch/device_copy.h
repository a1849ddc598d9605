// SPDX-License-Identifier: Apache-2.0
// A copy of bytes of the host that a plan keeps on its device.
#pragma once

#include <string>

#include "cuda/runtime.h"

namespace flashscan::cuda {

class DeviceCopy {
  public:
    DeviceCopy(const std::string& bytes, int device) : device_(device) {
        if (bytes.empty()) return;
        const DeviceScope scope(device_);
        const RelaxedCapture relaxed;
        cudaStream_t stream = nullptr;
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "copying custom.state");
        cudaError_t result = cudaMalloc(&memory_, bytes.size());
        if (result == cudaSuccess)
            result = cudaMemcpyAsync(memory_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream);
        if (result == cudaSuccess) result = cudaStreamSynchronize(stream);
        succeeds(cudaStreamDestroy(stream));
        if (result != cudaSuccess && memory_ != nullptr) succeeds(cudaFree(memory_));
        check(result, "copying custom.state");
    }
    // cudaFree waits for work that may still read the memory.
    ~DeviceCopy() {
        if (memory_ == nullptr) return;
        release_on(device_, [this] {
            const RelaxedCapture relaxed;
            succeeds(cudaFree(memory_));
        });
    }
    DeviceCopy(const DeviceCopy&) = delete;
    DeviceCopy& operator=(const DeviceCopy&) = delete;

    void* get() const { return memory_; }

  private:
    int device_;
    void* memory_ = nullptr;
};

}  // namespace flashscan::cuda
