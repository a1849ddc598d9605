// SPDX-License-Identifier: Apache-2.0
// Few and long rows of the linear recurrence: chunks of time on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "cpu/linear_partition.h"
#include "cpu/threads.h"

namespace flashscan::cpu {

inline int64_t offset(const LinearCall& call, int64_t i) {
    return call.wide_offsets ? static_cast<const int64_t*>(call.offsets)[i]
                             : static_cast<const int32_t*>(call.offsets)[i];
}

inline int64_t row_steps(const LinearCall& call, int64_t row) {
    return call.offsets == nullptr ? call.time : offset(call, row + 1) - offset(call, row);
}

// Lets the threads of chunks through one after the other, in the order of their turns. A thread waits only while those
// of earlier chunks run, so never for long; it yields to them where there are more threads than processors.
class Turns {
  public:
    void wait_for(int64_t turn) const {
        for (int spins = 0; done_.load(std::memory_order_acquire) != turn; ++spins)
            if (spins > 4096) std::this_thread::yield();
    }
    void pass() { done_.fetch_add(1, std::memory_order_release); }

  private:
    alignas(64) std::atomic<int64_t> done_{0};
};

// Threads take chunks in the order of rows and of time. Each finds out what its chunk does to the carry, takes the
// carry from the chunk before, hands it on, and writes the outputs while the chunk is still in its cache.
class ChunkChain {
  public:
    // `work` has kernels.work_bytes for each worker.
    ChunkChain(const LinearCall& call, const LinearPartition& q, const LinearKernels& kernels, char* scratch,
               char* work)
        : call_(call),
          q_(q),
          kernels_(kernels),
          scratch_(scratch),
          work_(work),
          at_(chain_layout(q)),
          sums_(call.grad_gate.data != nullptr && q.step_sums > 0) {
        if (sums_) std::fill_n(totals(), q.gate_numbers, 0.0);
    }
    double* totals() const { return reinterpret_cast<double*>(scratch_ + at_.totals); }
    bool sums() const { return sums_; }

    void run() {
        auto work = [this](int64_t worker) noexcept {
            for (Taken taken; take(taken);) one_chunk(taken, worker);
            kernels_.finish();
        };
        parallel_for(q_.workers, q_.workers, true, work);
    }

  private:
    struct Taken {
        int64_t turn;
        LinearChunk chunk;
        bool last;  // of its row
    };

    bool take(Taken& taken) {
        const std::lock_guard lock(taking_);
        if (row_ >= q_.rows) return false;
        const int64_t steps = row_steps(call_, row_);
        taken = {
            turn_++, {row_, step_, std::min(q_.chunk, steps - step_), 0, call_.channels}, step_ + q_.chunk >= steps};
        step_ += q_.chunk;
        if (taken.last) ++row_, step_ = 0;
        return true;
    }

    void one_chunk(const Taken& taken, int64_t worker) {
        const LinearChunk& chunk = taken.chunk;
        char *carry = part(at_.carry, worker), *work = work_ + worker * kernels_.work_bytes;
        const LinearSummary summary{part(at_.product, worker), part(at_.power, worker), part(at_.local, worker)};
        const bool reset = !taken.last && kernels_.summarise(call_, chunk, summary, work);
        joins_.wait_for(taken.turn);
        load_carry(chunk, carry);
        if (!taken.last && !kernels_.join(call_, chunk, reset, summary, carry, scratch_ + at_.next))
            kernels_.walk(call_, chunk, carry, scratch_ + at_.next, work);
        joins_.pass();
        auto* sums = reinterpret_cast<double*>(scratch_ + at_.sums) + worker * q_.step_sums;
        kernels_.apply(call_, chunk, carry, sums, work);
        if (taken.last && call_.end != nullptr)
            std::memcpy(call_.end + chunk.row * q_.row_bytes, carry, static_cast<size_t>(q_.row_bytes));
        if (!sums_) return;
        adds_.wait_for(taken.turn);
        double* total = totals() + (q_.gate_numbers == q_.step_sums ? Extent() : chunk.row * q_.step_sums);
        for (int64_t i = 0; i < q_.step_sums; ++i) total[i] += sums[i];
        adds_.pass();
    }

    void load_carry(const LinearChunk& chunk, char* carry) const {
        const auto bytes = static_cast<size_t>(q_.row_bytes);
        if (chunk.i0 > 0)
            std::memcpy(carry, scratch_ + at_.next, bytes);
        else if (call_.start != nullptr)
            std::memcpy(carry, call_.start + chunk.row * q_.row_bytes, bytes);
        else
            std::memset(carry, 0, bytes);
    }

    char* part(size_t start, int64_t worker) const { return scratch_ + start + worker * q_.row_bytes; }

    const LinearCall& call_;
    const LinearPartition& q_;
    LinearKernels kernels_;
    char *scratch_, *work_;
    ChainLayout at_;
    bool sums_;
    std::mutex taking_;
    int64_t turn_ = 0, row_ = 0, step_ = 0;
    Turns joins_, adds_;
};

}  // namespace flashscan::cpu
