// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "support/memory.h"

namespace support::cuda {
namespace {

constexpr unsigned char sentinel = 0xa5;

void check(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

bool set(const char* variable) {
    const char* text = std::getenv(variable);
    return text != nullptr && std::strcmp(text, "1") == 0;
}

bool exact_bounds() {
    static const bool exact = set("FLASHSCAN_TEST_EXACT");
    return exact;
}

class DeviceBuffer final : public Buffer {
  public:
    DeviceBuffer(size_t bytes, size_t shift) : margin_(exact_bounds() ? 0 : 512), shift_(shift) {
        total_ = margin_ + shift + bytes + margin_;
        void* memory = nullptr;
        check(cudaMalloc(&memory, std::max<size_t>(total_, 1)));
        memory_ = static_cast<unsigned char*>(memory);
        if (margin_ > 0) check(cudaMemsetAsync(memory_, sentinel, total_, static_cast<cudaStream_t>(stream())));
        data_ = memory_ + margin_ + shift;
        bytes_ = bytes;
    }
    ~DeviceBuffer() override { cudaFree(memory_); }

    void write(const Bytes& from) override {
        if (from.empty()) return;
        const auto on = static_cast<cudaStream_t>(stream());
        check(cudaMemcpyAsync(data_, from.data(), from.size(), cudaMemcpyHostToDevice, on));
        check(cudaStreamSynchronize(on));
    }
    Bytes read() const override { return copy(margin_ + shift_, bytes_); }
    bool surroundings_intact() const override {
        if (margin_ == 0) return true;
        const Bytes before = copy(0, margin_ + shift_), after = copy(margin_ + shift_ + bytes_, margin_);
        const auto untouched = [](unsigned char byte) { return byte == sentinel; };
        return std::all_of(before.begin(), before.end(), untouched) &&
               std::all_of(after.begin(), after.end(), untouched);
    }

  private:
    Bytes copy(size_t start, size_t count) const {
        Bytes bytes(count);
        const auto on = static_cast<cudaStream_t>(stream());
        if (count > 0) check(cudaMemcpyAsync(bytes.data(), memory_ + start, count, cudaMemcpyDeviceToHost, on));
        check(cudaStreamSynchronize(on));
        return bytes;
    }
    unsigned char* memory_ = nullptr;
    size_t margin_, shift_, total_ = 0;
};

}  // namespace

std::unique_ptr<Buffer> make_buffer(size_t bytes, size_t shift) { return std::make_unique<DeviceBuffer>(bytes, shift); }

bool mapped() {
    static const bool wanted = set("FLASHSCAN_TEST_MAPPED");
    return wanted;
}

// The device sees the pages where the host does.
void map(void* pages, size_t bytes) {
    check(cudaHostRegister(pages, bytes, cudaHostRegisterMapped));
    void* device = nullptr;
    check(cudaHostGetDevicePointer(&device, pages, 0));
    if (device != pages) throw std::runtime_error("the device maps host memory elsewhere");
}

void unmap(void* pages) { cudaHostUnregister(pages); }

// One per thread, not blocking with respect to the legacy stream: work on the wrong stream is seen as a race.
void* stream() {
    struct Owned {
        Owned() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
        ~Owned() { cudaStreamDestroy(stream); }
        cudaStream_t stream = nullptr;
    };
    thread_local const Owned instance;
    return instance.stream;
}

const char* synchronize() {
    const cudaError_t status = cudaStreamSynchronize(static_cast<cudaStream_t>(stream()));
    return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

int32_t device_count() {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}
void select_device(int32_t device) { check(cudaSetDevice(device)); }
void wait_for(void* on) { check(cudaStreamSynchronize(static_cast<cudaStream_t>(on))); }
void copy(void* to, const void* from, size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream())));
    wait_for(stream());
}

}  // namespace support::cuda
