// SPDX-License-Identifier: Apache-2.0
// The errors of the CUDA runtime and driver as Error, and the device of a call.
#pragma once

#include <cuda_runtime_api.h>

#include "core/error.h"
#include "cuda/loader/driver.h"

namespace flashscan::cuda {

// Throws for anything but success. `doing` completes the sentence "CUDA failed while ...".
inline void check(cudaError_t result, const char* doing) {
    if (result == cudaSuccess) return;
    cudaGetLastError();  // a non-sticky error is reported once, here
    fail(result == cudaErrorMemoryAllocation ? Code::out_of_memory : Code::device_error,
         "CUDA failed while {}: {} ({})", doing, cudaGetErrorString(result), cudaGetErrorName(result));
}

// The runtime's error numbers and sentences are those of the driver.
inline void check(CUresult result, const char* doing) { check(static_cast<cudaError_t>(result), doing); }

// For calls whose failure is no error. It clears the runtime's last error, so that the program does not find it later.
inline bool succeeds(cudaError_t result) {
    if (result != cudaSuccess) cudaGetLastError();
    return result == cudaSuccess;
}

inline int device_attribute(cudaDeviceAttr which, int device, const char* doing = "asking what the device is") {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, device), doing);
    return value;
}

// The attributes of a kernel; asking for them loads it.
inline cudaFuncAttributes kernel_attributes(const void* kernel, const char* doing = "loading a kernel") {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), doing);
    return attributes;
}

// The bytes of shared memory that a block of `device` may have.
inline int shared_memory_of_block(int device) {
    return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device, "asking for the shared memory of a block");
}

// Lets launches of `kernel` take all the shared memory that a block of `device` may have. The limit belongs to the
// kernel, so that one made for a plan might be too low for the launches of another plan.
inline void allow_shared_memory(const void* kernel, int device) {
    const int dynamic = shared_memory_of_block(device) - static_cast<int>(kernel_attributes(kernel).sharedSizeBytes);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic),
          "reserving shared memory for a kernel");
}

// Makes `device` current for its lifetime and then restores the caller's context, or none where there was none.
// cudaSetDevice would create a context on the caller's device when it is restored.
class DeviceScope {
  public:
    explicit DeviceScope(int device) {
        int number = 0;
        check(cudaGetDevice(&number), doing);  // while the process ends this fails; the driver could not be called then
        check(driver().current_context(&before_), doing);
        CUdevice current = 0;
        if (before_ != nullptr) check(driver().device_of_context(&current), doing);
        changed_ = before_ == nullptr || current != driver().devices[static_cast<size_t>(device)];
        if (changed_) check(driver().set_context(primary_context(device)), doing);
    }
    ~DeviceScope() {
        if (changed_) driver().set_context(before_);
    }
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;

  private:
    static constexpr const char* doing = "selecting the plan's device";
    CUcontext before_ = nullptr;
    bool changed_ = false;
};

// For destructors: calls release() with `device` current, or without that where it cannot be selected.
template <typename Release>
void release_on(int device, Release release) noexcept {
    try {
        const DeviceScope scope(device);
        return release();
    } catch (...) {
        release();
    }
}

// During its lifetime this thread may make calls that cannot be captured although another thread captures a stream.
class RelaxedCapture {
  public:
    RelaxedCapture() : changed_(succeeds(cudaThreadExchangeStreamCaptureMode(&mode_))) {}
    ~RelaxedCapture() {
        if (changed_) succeeds(cudaThreadExchangeStreamCaptureMode(&mode_));
    }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
    bool changed_;
};

}  // namespace flashscan::cuda
