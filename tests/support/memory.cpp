// SPDX-License-Identifier: Apache-2.0
#include "support/memory.h"

#include <flashscan/flashscan.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

namespace support {
namespace {

constexpr unsigned char sentinel = 0xa5;

class HostBuffer final : public Buffer {
  public:
    HostBuffer(size_t bytes, Guard guard, size_t alignment, size_t shift, bool for_device) : for_device_(for_device) {
        const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        inner_bytes_ = (bytes + shift + page - 1) / page * page;
        mapped_bytes_ = inner_bytes_ + 2 * page;
        void* mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED) throw std::bad_alloc();
        mapped_ = static_cast<unsigned char*>(mapped);
        inner_ = mapped_ + page;
        if (inner_bytes_ > 0 && mprotect(inner_, inner_bytes_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
        std::memset(inner_, sentinel, inner_bytes_);
        if (for_device_ && inner_bytes_ > 0) cuda::map(inner_, inner_bytes_);
        const size_t before = guard == Guard::start ? shift : (inner_bytes_ - bytes) / alignment * alignment;
        data_ = inner_ + before;
        bytes_ = bytes;
    }
    ~HostBuffer() override {
        if (for_device_ && inner_bytes_ > 0) cuda::unmap(inner_);
        munmap(mapped_, mapped_bytes_);
    }

    void write(const Bytes& from) override {
        if (!from.empty()) std::memcpy(data_, from.data(), from.size());
    }
    Bytes read() const override { return {begin(), begin() + bytes_}; }
    bool surroundings_intact() const override {
        return untouched(inner_, begin()) && untouched(begin() + bytes_, inner_ + inner_bytes_);
    }

  private:
    // Each byte is the sentinel if the first one is and each is like the one before.
    static bool untouched(const unsigned char* from, const unsigned char* to) {
        return from == to ||
               (*from == sentinel && std::memcmp(from, from + 1, static_cast<size_t>(to - from - 1)) == 0);
    }
    unsigned char* begin() const { return static_cast<unsigned char*>(data_); }
    unsigned char* mapped_ = nullptr;
    unsigned char* inner_ = nullptr;
    size_t mapped_bytes_ = 0, inner_bytes_ = 0;
    bool for_device_;
};

}  // namespace

std::unique_ptr<Buffer> make_buffer(int32_t backend, size_t bytes, Guard guard, size_t alignment, size_t shift) {
    const bool for_device = backend == FLASHSCAN_BACKEND_CUDA;
    if (for_device && !cuda::mapped()) return cuda::make_buffer(bytes, shift);
    return std::make_unique<HostBuffer>(bytes, guard, alignment, shift, for_device);
}

void* test_stream(int32_t backend) { return backend == FLASHSCAN_BACKEND_CUDA ? cuda::stream() : nullptr; }

const char* synchronize(int32_t backend) { return backend == FLASHSCAN_BACKEND_CUDA ? cuda::synchronize() : nullptr; }

const char* unavailable(int32_t backend) {
    if (backend == FLASHSCAN_BACKEND_CPU) return nullptr;
#if FLASHSCAN_TESTS_CUDA
    static const bool found = [] {
        int32_t count = 0;
        return flashscan_device_count(FLASHSCAN_BACKEND_CUDA, &count) == FLASHSCAN_STATUS_OK && count > 0;
    }();
    return found ? nullptr : "skipped: flashscan_device_count(CUDA) found no device";
#else
    return "skipped: built without CUDA";
#endif
}

#if !FLASHSCAN_TESTS_CUDA
namespace cuda {
std::unique_ptr<Buffer> make_buffer(size_t, size_t) { throw std::bad_alloc(); }
bool mapped() { return false; }
void map(void*, size_t) {}
void unmap(void*) {}
void* stream() { return nullptr; }
const char* synchronize() { return "built without CUDA"; }
int32_t device_count() { return 0; }
void select_device(int32_t) {}
void wait_for(void*) {}
void copy(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
}  // namespace cuda
#endif

}  // namespace support
