// SPDX-License-Identifier: Apache-2.0
// One stream-ordered memory pool for each device.
#include "cuda/launch/scratch_pool.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace flashscan::cuda {
namespace {

class Pool {
  public:
    explicit Pool(int device) : device_(device) {
        const DeviceScope scope(device);
        cudaMemPoolProps properties{};
        properties.allocType = cudaMemAllocationTypePinned;
        properties.location = {cudaMemLocationTypeDevice, device};
        check(cudaMemPoolCreate(&pool_, &properties), "creating a memory pool");
    }
    cudaMemPool_t get() const { return pool_; }

    void keep(size_t bytes) {
        const DeviceScope scope(device_);
        const std::scoped_lock lock(mutex_);
        check(set(kept_ + bytes), "setting up a memory pool");
        kept_ += bytes;
    }
    void drop(size_t bytes) noexcept {
        const std::scoped_lock lock(mutex_);
        kept_ -= bytes;
        release_on(device_, [this] { succeeds(set(kept_)); });
    }

  private:
    cudaError_t set(uint64_t kept) { return cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept); }

    int device_;
    cudaMemPool_t pool_ = nullptr;
    std::mutex mutex_;
    uint64_t kept_ = 0;
};

// Pools are never destroyed, because at exit the driver may be gone first.
Pool& pool_of(int device) {
    static std::mutex mutex;
    static auto& pools = *new std::map<int, Pool>;
    const std::scoped_lock lock(mutex);
    return pools.try_emplace(device, device).first->second;
}

}  // namespace

void* allocate_scratch(size_t bytes, int device, cudaStream_t stream) {
    const DeviceScope scope(device);
    void* memory = nullptr;
    check(cudaMallocFromPoolAsync(&memory, bytes, pool_of(device).get(), stream), "allocating scratch");
    return memory;
}

void release_scratch(void* memory, int device, cudaStream_t stream) noexcept {
    release_on(device, [&] { succeeds(cudaFreeAsync(memory, stream)); });
}

std::shared_ptr<void> keep_scratch(size_t bytes, int device) {
    constexpr size_t most = size_t{1} << 40;  // more memory than a device has; the limit keeps sums from overflowing
    bytes = std::min(bytes, most);
    if (bytes == 0) return nullptr;
    Pool& pool = pool_of(device);
    pool.keep(bytes);
    return {&pool, [bytes](void* kept_in) { static_cast<Pool*>(kept_in)->drop(bytes); }};
}

}  // namespace flashscan::cuda
