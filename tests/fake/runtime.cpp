// SPDX-License-Identifier: Apache-2.0
// Memory, streams, graphs and kernels of the machine. Copies are done at once, kernels only noted down.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fake/machine.h"

using namespace fake;

namespace {

#define ENTER(how)                                             \
    if (const cudaError_t error = how(__func__)) return error; \
    const OwnMemory own;                                       \
    Machine& m = machine();                                    \
    const std::scoped_lock lock(m.mutex)

Stream* of(cudaStream_t stream) { return reinterpret_cast<Stream*>(stream); }

template <typename Set, typename Handle>
auto* known(const Set& set, Handle handle) {
    auto* const object = reinterpret_cast<typename Set::value_type>(handle);
    return set.count(object) != 0 ? object : nullptr;
}

cudaError_t allocate(Machine& m, void** memory, size_t bytes, Pool* pool) {
    const auto found = pool != nullptr ? pool->again.find(bytes) : decltype(pool->again)::iterator{};
    if (pool != nullptr && found != pool->again.end()) {
        *memory = found->second;
        pool->again.erase(found);
    } else {
        *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    }
    if (*memory == nullptr) return remember(cudaErrorMemoryAllocation);
    m.blocks[*memory] = {pool != nullptr ? pool->device : current_device(), bytes, pool};
    if (pool == nullptr) return cudaSuccess;
    pool->used += bytes;
    pool->kept -= std::min<uint64_t>(pool->kept, bytes);
    return cudaSuccess;
}

cudaError_t release(Machine& m, void* memory) {
    const auto found = m.blocks.find(memory);
    if (found == m.blocks.end()) return remember(cudaErrorInvalidValue);
    if (Pool* const pool = found->second.pool) {
        pool->used -= found->second.bytes;
        pool->kept += found->second.bytes;
        pool->again.emplace(found->second.bytes, memory);
    } else {
        std::free(memory);
    }
    m.blocks.erase(found);
    return cudaSuccess;
}

void wait(Machine& m) {
    for (Pool* pool : m.pools)
        if (pool->used + pool->kept > pool->threshold)
            pool->kept = pool->threshold > pool->used ? pool->threshold - pool->used : 0;
}

}  // namespace

void fake::launch(cudaStream_t stream, const std::string& what) {
    const OwnMemory own;
    Machine& m = machine();
    const std::scoped_lock lock(m.mutex);
    if (Stream* const s = known(m.streams, stream); s != nullptr && s->captures)
        s->captured.push_back(what);
    else
        m.launches += what + "\n";
}

extern "C" {

void fake_launch(const char* what, cudaStream_t stream) { launch(stream, what); }

cudaError_t cudaMalloc(void** memory, size_t bytes) {
    ENTER(enter_unsafe);
    return allocate(m, memory, bytes, nullptr);
}
cudaError_t cudaFree(void* memory) {
    ENTER(enter_unsafe);
    return memory == nullptr ? cudaSuccess : release(m, memory);
}
// Host memory is where the fake device sees it anyway.
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    *device = host;
    return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
    ENTER(enter_device);
    auto* const made = *m.pools.insert(new Pool{properties->location.id, 0, 0, 0, {}}).first;
    *pool = reinterpret_cast<cudaMemPool_t>(made);
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* value) {
    ENTER(enter_device);
    Pool* const p = known(m.pools, pool);
    if (p == nullptr || which != cudaMemPoolAttrReleaseThreshold) return remember(cudaErrorInvalidValue);
    std::memcpy(&p->threshold, value, sizeof p->threshold);
    return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** memory, size_t bytes, cudaMemPool_t pool, cudaStream_t) {
    ENTER(enter_device);
    return allocate(m, memory, bytes, known(m.pools, pool));
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
    ENTER(enter_device);
    return release(m, memory);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
    ENTER(enter_device);
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
    ENTER(enter_device);
    if (width > to_pitch || width > from_pitch) return cudaErrorInvalidPitchValue;
    launch(stream, "copy of " + std::to_string(height) + " x " + std::to_string(width) + " bytes");
    for (size_t i = 0; i < height; ++i)
        std::memcpy(static_cast<char*>(to) + i * to_pitch, static_cast<const char*>(from) + i * from_pitch, width);
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
    ENTER(enter_device);
    launch(stream, "fill of " + std::to_string(bytes) + " bytes");
    std::memset(memory, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
    ENTER(enter_device);
    *attributes = {};
    for (const auto& [memory, block] : m.blocks) {
        const auto* const begin = static_cast<const char*>(memory);
        if (pointer < begin || pointer >= begin + block.bytes) continue;
        attributes->type = cudaMemoryTypeDevice;
        attributes->device = block.device;
    }
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
    ENTER(enter_device);
    *stream = reinterpret_cast<cudaStream_t>(*m.streams.insert(new Stream{current_device(), false, {}}).first);
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
    ENTER(enter_device);
    *can = m.reaches_peers ? 1 : 0;
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
    ENTER(enter_device);
    return m.reaches_peers ? cudaSuccess : remember(cudaErrorPeerAccessUnsupported);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
    ENTER(enter_device);
    std::snprintf(text, static_cast<size_t>(bytes), "0000:%02x:00.0", device);
    return cudaSuccess;
}
// No other process opens what it tells.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
    ENTER(enter_device);
    return m.reaches_peers ? cudaSuccess : remember(cudaErrorNotSupported);
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
    ENTER(enter_device);
    return remember(cudaErrorNotSupported);
}
cudaError_t cudaIpcCloseMemHandle(void*) {
    ENTER(enter_device);
    return remember(cudaErrorNotSupported);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    ENTER(enter_device);
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
    ENTER(enter_device);
    *stream = reinterpret_cast<cudaStream_t>(*m.streams.insert(new Stream{current_device(), false, {}}).first);
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
    ENTER(enter_device);
    *event = reinterpret_cast<cudaEvent_t>(*m.events.insert(new Event).first);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    ENTER(enter_device);
    Event* const e = known(m.events, event);
    if (e == nullptr) return remember(cudaErrorInvalidResourceHandle);
    m.events.erase(e);
    delete e;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    ENTER(enter_device);
    Event* const e = known(m.events, event);
    Stream* const s = known(m.streams, stream);
    if (e == nullptr) return remember(cudaErrorInvalidResourceHandle);
    e->captured = s != nullptr && s->captures;
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t event, unsigned) {
    ENTER(enter_device);
    return known(m.events, event) != nullptr ? cudaSuccess : remember(cudaErrorInvalidResourceHandle);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    ENTER(enter_device);
    if (m.streams.erase(of(stream)) == 0) return remember(cudaErrorInvalidResourceHandle);
    delete of(stream);
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
    ENTER(enter_device);
    wait(m);
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
    ENTER(enter_device);
    wait(m);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
    ENTER(enter_device);
    Stream* const s = known(m.streams, stream);
    *status = s != nullptr && s->captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
    ENTER(enter_device);
    Stream* const s = known(m.streams, stream);
    if (s == nullptr || s->captures) return remember(cudaErrorIllegalState);
    s->captures = true;
    s->captured.clear();
    if (mode == cudaStreamCaptureModeGlobal) ++m.global_captures;
    return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
    ENTER(enter_device);
    Stream* const s = known(m.streams, stream);
    if (s == nullptr || !s->captures) return remember(cudaErrorIllegalState);
    s->captures = false;
    if (m.global_captures > 0) --m.global_captures;
    *graph = reinterpret_cast<cudaGraph_t>(*m.graphs.insert(new Graph{s->captured}).first);
    return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
    ENTER(enter_device);
    Graph* const g = known(m.graphs, graph);
    if (g == nullptr) return remember(cudaErrorInvalidValue);
    *executable = reinterpret_cast<cudaGraphExec_t>(*m.executables.insert(new Graph(*g)).first);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    ENTER(enter_device);
    Graph* const g = known(m.executables, executable);
    if (g == nullptr) return remember(cudaErrorInvalidValue);
    for (const std::string& what : g->launches) launch(stream, what);
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    ENTER(enter_device);
    Graph* const g = known(m.graphs, graph);
    m.graphs.erase(g);
    delete g;
    return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    ENTER(enter_device);
    Graph* const g = known(m.executables, executable);
    m.executables.erase(g);
    delete g;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
    ENTER(enter_device);
    if (m.kernels.count(kernel) == 0) return remember(cudaErrorInvalidDeviceFunction);
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 64;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
    ENTER(enter_device);
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t*) {
    ENTER(enter_device);
    *clusters = 16;
    return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int, size_t) {
    ENTER(enter_device);
    *blocks = 2;
    return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
    ENTER(enter_device);
    const auto found = m.kernels.find(kernel);
    if (found == m.kernels.end()) return remember(cudaErrorInvalidDeviceFunction);
    if (Stream* const s = known(m.streams, config->stream); s != nullptr && s->device != current_device())
        return remember(cudaErrorInvalidResourceHandle);
    launch(config->stream, found->second + " " + std::to_string(config->gridDim.x) + " blocks of " +
                               std::to_string(config->blockDim.x));
    if (m.compute) m.compute(found->second, arguments);
    return cudaSuccess;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void*, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
    ENTER(enter_device);
    *library = reinterpret_cast<cudaLibrary_t>(static_cast<intptr_t>(++m.libraries));
    return cudaSuccess;
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
    ENTER(enter_device);
    auto* const made = new char;  // for the life of the process, as the library
    m.kernels[made] = std::string(name) + " of " + std::to_string(reinterpret_cast<intptr_t>(library));
    *kernel = reinterpret_cast<cudaKernel_t>(made);
    return cudaSuccess;
}

// The compiler's stubs of kernels call these.
void** __cudaRegisterFatBinary(void*) { return new void*; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** handle) { delete handle; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
    machine().kernels[host] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaErrorUnknown; }
cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaErrorUnknown; }
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) { return cudaErrorUnknown; }

}  // extern "C"
