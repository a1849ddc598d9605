// SPDX-License-Identifier: Apache-2.0
// Functions of the CUDA driver for which the runtime has no equivalent. They are looked up at run time, so that nothing
// links the driver.
#pragma once

#include <cuda.h>

#include <vector>

namespace flashscan::cuda {

struct Driver {
    decltype(&cuCtxGetCurrent) current_context;
    decltype(&cuCtxSetCurrent) set_context;
    decltype(&cuCtxGetDevice) device_of_context;
    decltype(&cuDevicePrimaryCtxRetain) retain_primary;
    decltype(&cuLibraryLoadData) load_library;
    decltype(&cuLibraryGetKernel) find_kernel;
    decltype(&cuTensorMapEncodeTiled) encode_map;  // null where the driver is too old for it
    std::vector<CUdevice> devices;                 // indexed by the runtime's number of a device
};

// Throws Error{device_error} where there is no driver, or one without the functions that every version has.
const Driver& driver();

// The context that the runtime uses on `device`, made at the first call and kept for the life of the process.
CUcontext primary_context(int device);

}  // namespace flashscan::cuda
