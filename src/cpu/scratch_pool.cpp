// SPDX-License-Identifier: Apache-2.0
#include "cpu/scratch_pool.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>

#include "core/error.h"

namespace flashscan::cpu {
namespace {

// The start of a block, which is followed by the memory that a call has.
struct alignas(256) Block {
    size_t bytes;
    Block* next;
};

constexpr size_t least_kept = 65536;  // the C library keeps smaller blocks itself

// Blocks that no call has, the smallest first.
class Pool {
  public:
    void keep(size_t bytes) {
        const std::scoped_lock lock(mutex_);
        limit_ += bytes;
    }
    void drop(size_t bytes) {
        const std::scoped_lock lock(mutex_);
        limit_ -= bytes;
        while (held_ > limit_) std::free(taken(&first_));
    }

    // Returns the smallest block of at least `bytes`. Where all are smaller, the largest makes room for a new one, so that
    // calls that follow one another share one block, and the result is null. It is null, too, where another call has the
    // lock: a process that was forked meanwhile would wait for it forever.
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

    // Frees the block where the pool would hold too much with it.
    void give(Block* block) {
        const std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock.owns_lock() || block->bytes > limit_ - held_) return std::free(block);
        Block** at = &first_;
        while (*at != nullptr && (*at)->bytes < block->bytes) at = &(*at)->next;
        block->next = *at;
        *at = block;
        held_ += block->bytes;
    }

  private:
    Block* taken(Block** at) {
        Block* block = *at;
        *at = block->next;
        held_ -= block->bytes;
        return block;
    }

    std::mutex mutex_;
    Block* first_ = nullptr;
    size_t limit_ = 0, held_ = 0;  // held_ <= limit_
};

constinit Pool pool;

}  // namespace

void* allocate_scratch(size_t bytes) {
    const size_t whole = (bytes + sizeof(Block) - 1) / sizeof(Block) * sizeof(Block);
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
    bytes = std::min((bytes + sizeof(Block) - 1) / sizeof(Block) * sizeof(Block), most);
    pool.keep(bytes);
    return {&pool, [bytes](void*) { pool.drop(bytes); }};
}

}  // namespace flashscan::cpu
