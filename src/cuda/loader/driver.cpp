// SPDX-License-Identifier: Apache-2.0
// Looks up functions of the driver through the runtime.
#include "cuda/loader/driver.h"

#include <mutex>
#include <vector>

#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

// Sets `function` to null where the driver does not have it.
template <typename Function>
void find(const char* name, Function& function) {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
    constexpr unsigned version = 12000;
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
#else
    // Asks for the runtime's own version, in which these functions are as in 12.0.
    const cudaError_t error = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    check(error, "looking up a function of the driver");
    function = result == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(found) : nullptr;
}

template <typename Function>
void need(const char* name, Function& function) {
    find(name, function);
    if (function == nullptr) fail(Code::device_error, "the CUDA driver has no {}", name);
}

Driver load() {
    Driver table{};
    need("cuCtxGetCurrent", table.current_context);
    need("cuCtxSetCurrent", table.set_context);
    need("cuCtxGetDevice", table.device_of_context);
    need("cuDevicePrimaryCtxRetain", table.retain_primary);
#if CUDART_VERSION < 12080  // else the runtime has them
    need("cuLibraryLoadData", table.load_library);
    need("cuLibraryGetKernel", table.find_kernel);
#endif
    find("cuTensorMapEncodeTiled", table.encode_map);
    decltype(&cuDeviceGet) device_of_number = nullptr;
    need("cuDeviceGet", device_of_number);
    int count = 0;
    check(cudaGetDeviceCount(&count), "counting devices");
    table.devices.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i)
        check(device_of_number(&table.devices[static_cast<size_t>(i)], i), "looking up a device");
    return table;
}

}  // namespace

const Driver& driver() {
    static const Driver& table = *new Driver(load());  // never destroyed, as it may be used while the process ends
    return table;
}

CUcontext primary_context(int device) {
    static std::mutex mutex;
    static auto& contexts = *new std::vector<CUcontext>;
    const std::scoped_lock lock(mutex);
    if (device >= static_cast<int>(contexts.size())) contexts.resize(static_cast<size_t>(device) + 1, nullptr);
    CUcontext& context = contexts[static_cast<size_t>(device)];
    if (context != nullptr) return context;
    check(driver().retain_primary(&context, driver().devices[static_cast<size_t>(device)]),
          "making a context on the plan's device");
    return context;
}

}  // namespace flashscan::cuda
