// SPDX-License-Identifier: Apache-2.0
#include "fake/machine.h"

// Defined by support/failing_memory.cpp in programs whose tests let allocations fail.
extern "C" __attribute__((weak)) bool failing_memory_switch(bool on);

namespace fake {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
thread_local int device = -1;
thread_local cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;

}  // namespace

OwnMemory::OwnMemory() : before_(failing_memory_switch != nullptr && failing_memory_switch(false)) {}
OwnMemory::~OwnMemory() {
    if (failing_memory_switch != nullptr) failing_memory_switch(before_);
}

Machine& machine() {
    static Machine& instance = *new Machine;
    return instance;
}

std::string Machine::living() const {
    std::string text;
    const auto add = [&](size_t count, const char* what) {
        if (count > 0) text += std::to_string(count) + " " + what + ", ";
    };
    size_t bytes = 0;
    for (const auto& [memory, block] : blocks) bytes += block.bytes;
    add(streams.size(), "streams");
    add(events.size(), "events");
    add(graphs.size(), "graphs");
    add(executables.size(), "executable graphs");
    add(pools.size(), "pools");
    add(blocks.size(), "blocks");
    add(bytes, "bytes");
    return text;
}

cudaError_t remember(cudaError_t error) {
    if (error != cudaSuccess) last_error = error;
    return error;
}

cudaError_t enter(const char* name) {
    const OwnMemory own;
    Machine& m = machine();
    const std::scoped_lock lock(m.mutex);
    if (m.gone) return cudaErrorCudartUnloading;
    ++m.calls;
    const Failure& f = m.failure;
    const bool fails = f.call > 0 && (m.calls == f.call || (f.all_after && m.calls > f.call));
    if (!fails) return cudaSuccess;
    if (m.failed.empty()) m.failed = name;
    return remember(f.error);
}

cudaError_t enter_device(const char* name) {
    if (const cudaError_t error = enter(name)) return error;
    if (device >= 0) return cudaSuccess;
    const OwnMemory own;
    Machine& m = machine();
    const std::scoped_lock lock(m.mutex);
    m.stray.emplace_back(name);
    m.contexts[0] = true;
    device = 0;
    return cudaSuccess;
}

cudaError_t enter_unsafe(const char* name) {
    if (const cudaError_t error = enter_device(name)) return error;
    Machine& m = machine();
    const std::scoped_lock lock(m.mutex);
    if (m.global_captures == 0 || mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
    m.broken_captures.insert(name);
    return remember(cudaErrorStreamCaptureUnsupported);
}

int current_device() { return device; }
void set_current_device(int to) {
    device = to;
    if (to >= 0) machine().contexts[to] = true;
}
cudaStreamCaptureMode capture_mode() { return mode; }

}  // namespace fake

using namespace fake;

extern "C" {

// Other libraries have a runtime of their own, whose errors are none of this one.
int fake_enter(const char* name) {
    const cudaError_t before = last_error, error = enter(name);
    last_error = before;
    return error;
}
int fake_enter_unsafe(const char* name) {
    const cudaError_t before = last_error, error = enter_unsafe(name);
    last_error = before;
    return error;
}

cudaError_t cudaGetLastError() {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t) { return "as was asked for"; }
const char* cudaGetErrorName(cudaError_t error) {
    switch (error) {
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorCudartUnloading: return "cudaErrorCudartUnloading";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    default: return "another error";
    }
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* to) {
    if (const cudaError_t error = enter(__func__)) return error;
    std::swap(*to, mode);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
    if (const cudaError_t error = enter(__func__)) return error;
    *count = device_count;
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    if (const cudaError_t error = enter(__func__)) return error;
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* current) {
    if (const cudaError_t error = enter(__func__)) return error;
    *current = device < 0 ? 0 : device;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int to) {
    if (const cudaError_t error = enter(__func__)) return error;
    set_current_device(to);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
    if (const cudaError_t error = enter(__func__)) return error;
    switch (which) {
    case cudaDevAttrComputeCapabilityMajor: *value = machine().capability; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMultiProcessorCount: *value = 132; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; break;
    case cudaDevAttrCooperativeLaunch: *value = 1; break;
    default: return remember(cudaErrorInvalidValue);
    }
    return cudaSuccess;
}

}  // extern "C"

// The driver. A context is its device's number plus one.
namespace {

CUcontext context_of(int of) { return reinterpret_cast<CUcontext>(static_cast<intptr_t>(of + 1)); }
int device_of(CUcontext context) { return static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1; }

CUresult enter_driver(const char* name) {
    Machine& m = machine();
    if (m.gone) m.driver_after_end.emplace_back(name);
    return static_cast<CUresult>(enter(name));
}

CUresult get_current(CUcontext* context) {
    if (const CUresult error = enter_driver("cuCtxGetCurrent")) return error;
    *context = context_of(device);
    return CUDA_SUCCESS;
}
CUresult set_current(CUcontext context) {
    if (const CUresult error = enter_driver("cuCtxSetCurrent")) return error;
    device = device_of(context);
    return CUDA_SUCCESS;
}
CUresult get_context_device(CUdevice* current) {
    if (const CUresult error = enter_driver("cuCtxGetDevice")) return error;
    if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
    *current = device;
    return CUDA_SUCCESS;
}
CUresult get_device(CUdevice* got, int number) {
    if (const CUresult error = enter_driver("cuDeviceGet")) return error;
    *got = number;
    return CUDA_SUCCESS;
}
CUresult retain_primary(CUcontext* context, CUdevice of) {
    if (const CUresult error = enter_driver("cuDevicePrimaryCtxRetain")) return error;
    machine().contexts[of] = true;
    *context = context_of(of);
    return CUDA_SUCCESS;
}
CUresult encode_map(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                    const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    return enter_driver("cuTensorMapEncodeTiled");
}

}  // namespace

extern "C" cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                                        unsigned long long, cudaDriverEntryPointQueryResult* result) {
    if (const cudaError_t error = enter(__func__)) return error;
    const OwnMemory own;
    static const std::map<std::string, void*> functions = {
        {"cuCtxGetCurrent", reinterpret_cast<void*>(get_current)},
        {"cuCtxSetCurrent", reinterpret_cast<void*>(set_current)},
        {"cuCtxGetDevice", reinterpret_cast<void*>(get_context_device)},
        {"cuDeviceGet", reinterpret_cast<void*>(get_device)},
        {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(retain_primary)},
        {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(encode_map)},
    };
    const auto found = functions.find(symbol);
    *function = found != functions.end() ? found->second : nullptr;
    *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

// Tests of failing calls use these; see support/failing_calls.h.
extern "C" {

void failing_calls_begin(int64_t call, int error, int all_after) {
    Machine& m = machine();
    const std::scoped_lock lock(m.mutex);
    m.failure = {call, static_cast<cudaError_t>(error), all_after != 0};
    m.calls = 0;
    m.failed.clear();
    m.launches.clear();
}

const char* failing_calls_end() {
    static std::string failed;
    Machine& m = machine();
    const std::scoped_lock lock(m.mutex);
    m.failure = {};
    failed = m.failed;
    return failed.c_str();
}

const char* failing_calls_launches() {
    static std::string launches;
    Machine& m = machine();
    const std::scoped_lock lock(m.mutex);
    launches = m.launches;
    return launches.c_str();
}

const char* failing_calls_living() {
    static std::string living;
    Machine& m = machine();
    const std::scoped_lock lock(m.mutex);
    living = m.living();
    return living.c_str();
}

}  // extern "C"
