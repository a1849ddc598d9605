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

// The runtime has the driver's numbers and sentences.
inline void check(CUresult result, const char* doing) { check(static_cast<cudaError_t>(result), doing); }

// For calls that may fail without a word: none leaves an error behind that the program would find.
inline bool succeeds(cudaError_t result) {
    if (result != cudaSuccess) cudaGetLastError();
    return result == cudaSuccess;
}

inline int device_attribute(cudaDeviceAttr which, int device, const char* doing = "asking what the device is") {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, device), doing);
    return value;
}

// Of a kernel, which asking loads.
inline cudaFuncAttributes kernel_attributes(const void* kernel, const char* doing = "loading a kernel") {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), doing);
    return attributes;
}

// Bytes that a block of `device` may have.
inline int shared_memory_of_block(int device) {
    return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device, "asking for the shared memory of a block");
}

// Lets launches of `kernel` take all the shared memory that a block of `device` may have. The limit belongs to the kernel:
// one that fits a plan would be too low for another plan's launches.
inline void allow_shared_memory(const void* kernel, int device) {
    const int dynamic = shared_memory_of_block(device) - static_cast<int>(kernel_attributes(kernel).sharedSizeBytes);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic),
          "reserving shared memory for a kernel");
}

// Makes `device` current and puts the caller's context back, or none where there was none: selecting a device by the
// runtime's number would make a context on it.
class DeviceScope {
  public:
    explicit DeviceScope(int device) {
        int number = 0;
        check(cudaGetDevice(&number), doing);  // at the end of the process fails here, while the driver may be gone
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

// For destructors: gives something back on `device`, or where it cannot be selected without that.
template <typename Release>
void release_on(int device, Release release) noexcept {
    try {
        const DeviceScope scope(device);
        return release();
    } catch (...) {
        release();
    }
}

// While it lives, a capture that another thread has begun does not forbid this thread what a capture cannot hold.
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
