// SPDX-License-Identifier: Apache-2.0
// Linear recurrence: the walk over rows, chunks of time and tiles, for both engines.
//
// A row longer than a chunk is cut at fixed steps. The carry after each chunk but the last is c' = product * c + local,
// whichever thread computes it, so that the bits do not depend on how chunks are given to threads. Lanes where that is
// not finite are computed step by step from the chunk's carry, so that a carry is finite wherever the definition gives
// a finite one.
#pragma once

#include "cpu/kernels/linear_row_steps.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
void load_carry(const LinearCall& p, const char* from, int64_t row, int64_t c0, int64_t lanes, T* carry) {
    const T* state = reinterpret_cast<const T*>(from) + (row * p.channels + c0) * p.x.parts;
    for (int64_t l = 0; l < lanes; ++l) carry[l] = from == nullptr ? T(0) : state[l];
}

template <typename T>
void save_carry(const LinearCall& p, char* to, int64_t row, int64_t c0, int64_t lanes, const T* carry) {
    if (to == nullptr) return;
    T* state = reinterpret_cast<T*>(to) + (row * p.channels + c0) * p.x.parts;
    for (int64_t l = 0; l < lanes; ++l) state[l] = carry[l];
}

template <typename T>
FLASHSCAN_INLINE bool finite(T x) {
    return x - x == 0;
}

// Returns product * carry + local for one number. The product is one of linear_product.h on which settle() was called.
template <typename T, typename Element>
FLASHSCAN_INLINE Element join_one(Element product, T power, Element carry, Element local) {
    return power != 0 ? moved(product, power, carry) + local : next_state(product, carry, local, false);
}

// Writes the same of each of `lanes` numbers to `next`, or `local` alone after a reset; returns whether all are finite.
template <typename T, bool ComplexGate>
bool join_lanes(int64_t lanes, bool reset, const LinearSummary& summary, const T* carry, T* next) {
    using Element = std::conditional_t<ComplexGate, Complex<T>, T>;
    constexpr int64_t parts = ComplexGate ? 2 : 1;
    const auto *product = static_cast<const T*>(summary.product), *power = static_cast<const T*>(summary.power),
               *local = static_cast<const T*>(summary.local);
    bool good = true;
    for (int64_t i = 0; i < lanes / parts; ++i) {
        Element p, c, l;
        get_element<Own<T>>(product, i, p);
        get_element<Own<T>>(carry, i, c);
        get_element<Own<T>>(local, i, l);
        put_element<Own<T>>(next, i, reset ? l : join_one(p, power[i * parts], c, l));
    }
    for (int64_t l = 0; l < lanes; ++l) good = good && finite(next[l]);
    return good;
}

// Calls settle() for each lane.
template <typename T, bool ComplexGate>
void settle_lanes(int64_t lanes, T* product, T* power) {
    using Element = std::conditional_t<ComplexGate, Complex<T>, T>;
    constexpr int64_t parts = ComplexGate ? 2 : 1;
    for (int64_t i = 0; i < lanes / parts; ++i) {
        if (power[i * parts] == 0) continue;
        Element p;
        get_element<Own<T>>(product, i, p);
        settle(p, power[i * parts]);
        put_element<Own<T>>(product, i, p);
    }
}

// Replaces those numbers of `next` that are not finite by those of `walked`.
template <typename T, bool ComplexGate>
void repair(int64_t lanes, const T* walked, T* next) {
    constexpr int64_t parts = ComplexGate ? 2 : 1;
    for (int64_t l = 0; l < lanes; l += parts)
        if (!finite(next[l]) || !finite(next[l + parts - 1]))
            for (int64_t k = 0; k < parts; ++k) next[l + k] = walked[l + k];
}

template <typename T>
void clear(T* numbers, int64_t n) {
    for (int64_t i = 0; i < n; ++i) numbers[i] = 0;
}

template <typename T, bool ComplexGate, typename Engine>
class Walk {
    using Memory = typename Engine::Memory;

  public:
    Walk(const LinearCall& p, const LinearBlock& block, void* work)
        : p_(p),
          block_(block),
          w_(*static_cast<Memory*>(work)),
          engine_(p, block, w_),
          lanes_(engine_.lanes()),
          tile_(engine_.tile_steps()),
          sums_(p.backward && p.grad_gate.data != nullptr && sums_gate(p)),
          step_sums_((p.sum_channels ? 1 : block.c1 - block.c0) * p.grad_gate.parts) {}

    void rows() {
        if (sums_ && p_.sum_batch && !p_.sum_time) {
            tiles_across_rows();
            return;
        }
        const bool together = p_.sum_batch || p_.offsets != nullptr;
        for (int64_t r = block_.row0; r < block_.row1; ++r) {
            const Row row = row_of(p_, r);
            if (sums_ && p_.sum_time && (r == block_.row0 || !together)) clear(w_.chunk_sums, step_sums_);
            load_carry(p_, p_.start, r, block_.c0, lanes_, w_.carry);
            const int64_t chunk = p_.chunk > 0 ? p_.chunk : row.steps();
            for (int64_t i = 0; i < row.steps(); i += chunk) one_chunk(row, i, at_most(chunk, row.steps() - i));
            save_carry(p_, p_.end, r, block_.c0, lanes_, w_.carry);
            if (sums_ && p_.sum_time && (r == block_.row1 - 1 || !together))
                flush_sums<T>(p_, block_, row, 0, 1, w_.chunk_sums, block_.sums);
        }
        stream_fence();
    }

    bool summarise(const Row& row, int64_t i, int64_t steps) {
        Engine::one(w_.product, lanes_);
        clear(w_.power, lanes_);
        clear(w_.local, lanes_);
        bool reset = false;
        for (int64_t k = 0; k < steps; k += tile_)
            reset = engine_.summarise(row, i + k, at_most(tile_, steps - k)) || reset;
        settle_lanes<T, ComplexGate>(lanes_, w_.product, w_.power);
        return reset;
    }

    void walk(const Row& row, int64_t i, int64_t steps) {
        for (int64_t k = 0; k < steps; k += tile_) engine_.apply(row, i + k, at_most(tile_, steps - k), false);
    }

    // Writes the outputs of a chunk; sums over time are left in the sums of the thread's memory.
    void apply(const Row& row, int64_t i, int64_t steps) {
        if (sums_ && p_.sum_time) clear(w_.sums, step_sums_);
        for (int64_t k = 0; k < steps; k += tile_) {
            const int64_t n = at_most(tile_, steps - k);
            if (sums_ && !p_.sum_time) clear(w_.sums, n * step_sums_);
            engine_.apply(row, i + k, n, true);
            if (sums_ && !p_.sum_time) flush(row, i + k, n);
        }
    }

    Memory& work() { return w_; }
    int64_t lanes() const { return lanes_; }
    int64_t step_sums() const { return sums_ && p_.sum_time ? step_sums_ : 0; }

  private:
    static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

    void one_chunk(const Row& row, int64_t i, int64_t steps) {
        const bool last = i + steps == row.steps();
        bool good = true;
        if (!last) {
            const bool reset = summarise(row, i, steps);
            good = join_lanes<T, ComplexGate>(lanes_, reset, {w_.product, w_.power, w_.local}, w_.carry, w_.next);
        }
        apply(row, i, steps);
        if (sums_ && p_.sum_time)
            for (int64_t k = 0; k < step_sums_; ++k) w_.chunk_sums[k] += w_.sums[k];
        if (last) return;
        if (!good) repair<T, ComplexGate>(lanes_, w_.carry, w_.next);
        for (int64_t l = 0; l < lanes_; ++l) w_.carry[l] = w_.next[l];
    }

    // For sums over the batch but not over time: computes a tile of time in all rows before the next tile. Rows are not
    // cut into chunks here.
    void tiles_across_rows() {
        for (int64_t i = 0; i < p_.time; i += tile_) {
            const int64_t n = at_most(tile_, p_.time - i);
            clear(w_.sums, n * step_sums_);
            for (int64_t r = block_.row0; r < block_.row1; ++r) {
                const char* from = i == 0 ? p_.start : p_.carries;
                load_carry(p_, from, r, block_.c0, lanes_, w_.carry);
                engine_.apply(row_of(p_, r), i, n, true);
                save_carry(p_, i + n == p_.time ? p_.end : p_.carries, r, block_.c0, lanes_, w_.carry);
            }
            flush(row_of(p_, block_.row0), i, n);
        }
        stream_fence();
    }

    void flush(const Row& row, int64_t i, int64_t n) {
        const int64_t lowest = p_.ascending ? row.time(p_, i) : row.time(p_, i + n - 1);
        flush_sums<T>(p_, block_, row, lowest, n, w_.sums, block_.sums);
    }

    const LinearCall& p_;
    const LinearBlock& block_;
    Memory& w_;
    Engine engine_;
    int64_t lanes_, tile_;
    bool sums_;
    int64_t step_sums_;
};

template <typename T, bool ComplexGate, typename Engine>
struct Entry {
    using Walker = Walk<T, ComplexGate, Engine>;

    static void rows(const LinearCall& p, const LinearBlock& block, void* work) { Walker(p, block, work).rows(); }

    static bool summarise(const LinearCall& p, const LinearChunk& chunk, const LinearSummary& summary, void* work) {
        const LinearBlock block{chunk.row, chunk.row + 1, chunk.c0, chunk.c1, nullptr};
        Walker walker(p, block, work);
        const bool reset = walker.summarise(row_of(p, chunk.row), chunk.i0, chunk.steps);
        for (int64_t l = 0; l < walker.lanes(); ++l) {
            static_cast<T*>(summary.product)[l] = walker.work().product[l];
            static_cast<T*>(summary.power)[l] = walker.work().power[l];
            static_cast<T*>(summary.local)[l] = walker.work().local[l];
        }
        return reset;
    }

    static bool join(const LinearCall& p, const LinearChunk& chunk, bool reset, const LinearSummary& summary,
                     const void* carry, void* next) {
        return join_lanes<T, ComplexGate>((chunk.c1 - chunk.c0) * p.x.parts, reset, summary,
                                          static_cast<const T*>(carry), static_cast<T*>(next));
    }

    static void walk(const LinearCall& p, const LinearChunk& chunk, const void* carry, void* next, void* work) {
        const LinearBlock block{chunk.row, chunk.row + 1, chunk.c0, chunk.c1, nullptr};
        Walker walker(p, block, work);
        for (int64_t l = 0; l < walker.lanes(); ++l) walker.work().carry[l] = static_cast<const T*>(carry)[l];
        walker.walk(row_of(p, chunk.row), chunk.i0, chunk.steps);
        repair<T, ComplexGate>(walker.lanes(), walker.work().carry, static_cast<T*>(next));
    }

    static void apply(const LinearCall& p, const LinearChunk& chunk, void* carry, double* sums, void* work) {
        const LinearBlock block{chunk.row, chunk.row + 1, chunk.c0, chunk.c1, nullptr};
        Walker walker(p, block, work);
        auto* state = static_cast<T*>(carry);
        for (int64_t l = 0; l < walker.lanes(); ++l) walker.work().carry[l] = state[l];
        walker.apply(row_of(p, chunk.row), chunk.i0, chunk.steps);
        for (int64_t l = 0; l < walker.lanes(); ++l) state[l] = walker.work().carry[l];
        for (int64_t k = 0; k < walker.step_sums(); ++k) sums[k] = walker.work().sums[k];
    }

    static void finish() { stream_fence(); }

    static LinearKernels table() {
        return {sizeof(typename Engine::Memory), rows, summarise, join, walk, apply, finish};
    }
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
