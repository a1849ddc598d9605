// SPDX-License-Identifier: Apache-2.0
// Few and long rows of the linear recurrence: the order in which chunks of time meet threads.
#pragma once

#include <algorithm>
#include <cstring>

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

// Chunks in the order of rows and of time, a window of them at once: what each does to the carry, the carries one
// after the other, then the outputs while the chunks are still in the threads' caches.
class Windows {
  public:
    Windows(const LinearCall& call, const LinearPartition& q, const LinearKernels& kernels, char* scratch)
        : call_(call),
          q_(q),
          kernels_(kernels),
          scratch_(scratch),
          at_(window_layout(q)),
          sums_(call.grad_gate.data != nullptr && q.step_sums > 0) {
        if (sums_) std::fill_n(totals(), q.gate_numbers, 0.0);
    }
    double* totals() const { return reinterpret_cast<double*>(scratch_ + at_.totals); }
    bool sums() const { return sums_; }

    // Takes the next chunks; false when all were taken.
    bool next() {
        count_ = 0;
        for (; count_ < q_.window && row_ < q_.rows; ++count_) {
            const int64_t steps = row_steps(call_, row_);
            chunks_[count_] = {row_, step_, std::min(q_.chunk, steps - step_)};
            step_ += q_.chunk;
            last_[count_] = step_ >= steps;
            if (last_[count_]) ++row_, step_ = 0;
        }
        return count_ > 0;
    }

    void run(int threads) {
        auto summarise = [&](int64_t k) noexcept {
            if (!last_[k]) flags()[k] = kernels_.summarise(call_, chunks_[k], part(at_.product, k), part(at_.local, k));
        };
        auto apply = [&](int64_t k) noexcept { kernels_.apply(call_, chunks_[k], part(at_.carry, k), chunk_sums(k)); };
        parallel_for(threads, count_, true, summarise);
        for (int64_t k = 0; k < count_; ++k) join(k);
        parallel_for(threads, count_, true, apply);
        for (int64_t k = 0; k < count_; ++k) finish(k);
        std::memcpy(part(at_.carry, 0), part(at_.carry, count_), static_cast<size_t>(q_.row_bytes));
    }

  private:
    char* part(size_t start, int64_t k) const { return scratch_ + start + k * q_.row_bytes; }
    char* flags() const { return scratch_ + at_.flags; }
    double* chunk_sums(int64_t k) const { return reinterpret_cast<double*>(scratch_ + at_.sums) + k * q_.step_sums; }

    void join(int64_t k) const {
        const auto bytes = static_cast<size_t>(q_.row_bytes);
        char* carry = part(at_.carry, k);
        if (chunks_[k].i0 == 0 && call_.start != nullptr)
            std::memcpy(carry, call_.start + chunks_[k].row * q_.row_bytes, bytes);
        else if (chunks_[k].i0 == 0)
            std::memset(carry, 0, bytes);
        if (!last_[k])
            kernels_.join(call_, chunks_[k], flags()[k] != 0, part(at_.product, k), part(at_.local, k), carry,
                          part(at_.carry, k + 1));
    }

    // The last chunk of a row leaves the row's final state in its carry.
    void finish(int64_t k) const {
        const LinearChunk& chunk = chunks_[k];
        if (last_[k] && call_.end != nullptr)
            std::memcpy(call_.end + chunk.row * q_.row_bytes, part(at_.carry, k), static_cast<size_t>(q_.row_bytes));
        if (!sums_) return;
        double* total = totals() + (q_.gate_numbers == q_.step_sums ? 0 : chunk.row * q_.step_sums);
        for (int64_t i = 0; i < q_.step_sums; ++i) total[i] += chunk_sums(k)[i];
    }

    const LinearCall& call_;
    const LinearPartition& q_;
    LinearKernels kernels_;
    char* scratch_;
    WindowLayout at_;
    bool sums_;
    int64_t row_ = 0, step_ = 0, count_ = 0;
    LinearChunk chunks_[most_window];
    bool last_[most_window];
};

}  // namespace flashscan::cpu
