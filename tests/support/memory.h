// SPDX-License-Identifier: Apache-2.0
// Buffers in a backend's memory whose surroundings are watched. On the CPU an access past one side hits a guard page
// at once and the other side is filled with sentinel bytes; on CUDA there are sentinel bytes on both sides, or, with
// FLASHSCAN_TEST_EXACT=1, nothing, so that compute-sanitizer sees the true bounds, or, with FLASHSCAN_TEST_MAPPED=1,
// host memory that the device maps, with the CPU's guard pages.
#pragma once

#include <memory>

#include "support/number.h"

namespace support {

enum class Guard {
    end,
    start
};

class Buffer {
  public:
    virtual ~Buffer() = default;
    Buffer() = default;
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    void* data() const { return data_; }
    size_t bytes() const { return bytes_; }
    virtual void write(const Bytes& from) = 0;
    virtual Bytes read() const = 0;
    // Whether the bytes around the buffer are as they were.
    virtual bool surroundings_intact() const = 0;

  protected:
    void* data_ = nullptr;
    size_t bytes_ = 0;
};

// `shift` bytes past an aligned address (CUDA, and the CPU with Guard::start; with Guard::end the address follows from
// the size). `alignment` is at most a page.
std::unique_ptr<Buffer> make_buffer(int32_t backend, size_t bytes, Guard guard, size_t alignment, size_t shift);

// The stream that tests on this thread pass for `backend` (null for the CPU), and waiting for it; the CUDA error if
// there was one.
void* test_stream(int32_t backend);
const char* synchronize(int32_t backend);
// Why tests on `backend` cannot run here; null when they can.
const char* unavailable(int32_t backend);

namespace cuda {
std::unique_ptr<Buffer> make_buffer(size_t bytes, size_t shift);
// Whether buffers are host memory that the device maps; maps such pages and lets go of them.
bool mapped();
void map(void* pages, size_t bytes);
void unmap(void* pages);
void* stream();
const char* synchronize();
// The devices of this machine, and the one of this thread from now on.
int32_t device_count();
void select_device(int32_t device);
// Waits for a stream; copies between any memory and waits. Throw.
void wait_for(void* stream);
void copy(void* to, const void* from, size_t bytes);
}  // namespace cuda

}  // namespace support
