// SPDX-License-Identifier: Apache-2.0
#include "cpu/scratch_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <new>

#include "core/error.h"
#include "core/rounding.h"

namespace flashscan::cpu {
namespace {

// The start of a block, which is followed by the memory that a call has.
struct alignas(256) Block {
    size_t bytes;
    Block* next;
};

constexpr size_t least_kept = 65536;  // the C library keeps smaller blocks itself

// Blocks that no call has, the smallest first. Nothing waits for the lock, for which a process that was forked while
// another thread had it would wait forever.
class Pool {
  public:
    void keep(size_t bytes) { limit_ += bytes; }
    void drop(size_t bytes) {
        limit_ -= bytes;
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (lock.owns_lock()) trim();
    }

    // Returns the smallest block of at least `bytes`, or null. Where all are smaller, the largest makes room for the
    // new one that the call takes, so that calls that follow one another share one block.
    Block* take(size_t bytes) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock() || first_ == nullptr) return nullptr;
        Block** at = &first_;
        while ((*at)->bytes < bytes && (*at)->next != nullptr) at = &(*at)->next;
        Block* block = taken(at);
        if (block->bytes >= bytes) return block;
        std::free(block);
        return nullptr;
    }

    void give(Block* block) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock()) return std::free(block);
        Block** at = &first_;
        while (*at != nullptr && (*at)->bytes < block->bytes) at = &(*at)->next;
        block->next = *at;
        *at = block;
        held_ += block->bytes;
        trim();
    }

  private:
    Block* taken(Block** at) {
        Block* block = *at;
        *at = block->next;
        held_ -= block->bytes;
        return block;
    }
    void trim() {
        while (held_ > limit_) std::free(taken(&first_));
    }

    std::mutex mutex_;
    Block* first_ = nullptr;
    size_t held_ = 0;
    std::atomic<size_t> limit_{0};
};

constinit Pool pool;

}  // namespace

void* allocate_scratch(size_t bytes) {
    const size_t whole = round_up(bytes, sizeof(Block));
    Block* block = whole < least_kept ? nullptr : pool.take(whole);
    if (block == nullptr) {
        void* memory = std::aligned_alloc(alignof(Block), sizeof(Block) + whole);
        if (memory == nullptr) fail(Code::out_of_memory, "no host memory for {} bytes of scratch", bytes);
        block = new (memory) Block{whole, nullptr};
    }
    return block + 1;
}

void release_scratch(void* memory) noexcept {
    Block* block = static_cast<Block*>(memory) - 1;
    if (block->bytes < least_kept) return std::free(block);
    pool.give(block);
}

std::shared_ptr<void> keep_scratch(size_t bytes) {
    constexpr size_t most = size_t{1} << 40;  // keeps sums from overflowing
#if defined(__SANITIZE_ADDRESS__)
    bytes = 0;  // blocks are as large as what was asked for, so that accesses past their ends are found
#endif
    if (bytes < least_kept) return nullptr;
    bytes = std::min(round_up(bytes, sizeof(Block)), most);
    pool.keep(bytes);
    return {&pool, [bytes](void*) { pool.drop(bytes); }};
}

}  // namespace flashscan::cpu
