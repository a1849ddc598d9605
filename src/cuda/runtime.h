// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime's errors as Error, and the device of a call.
#pragma once

#include <cuda_runtime_api.h>

#include "core/error.h"

namespace flashscan::cuda {

// Throws for anything but success. `doing` completes the sentence "CUDA failed while ...".
inline void check(cudaError_t result, const char* doing) {
    if (result == cudaSuccess) return;
    cudaGetLastError();  // a non-sticky error is reported once, here
    fail(result == cudaErrorMemoryAllocation ? Code::out_of_memory : Code::device_error,
         "CUDA failed while {}: {} ({})", doing, cudaGetErrorString(result), cudaGetErrorName(result));
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

// Makes `device` current and puts the caller's device back.
class DeviceScope {
  public:
    explicit DeviceScope(int device) {
        check(cudaGetDevice(&before_), "asking for the current device");
        changed_ = before_ != device;
        if (changed_) check(cudaSetDevice(device), "selecting the plan's device");
    }
    ~DeviceScope() {
        if (changed_) cudaSetDevice(before_);
    }
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;

  private:
    int before_ = 0;
    bool changed_ = false;
};

// While it lives, a capture that another thread has begun does not forbid this thread what a capture cannot hold.
class RelaxedCapture {
  public:
    RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

  private:
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace flashscan::cuda
