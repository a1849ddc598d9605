// SPDX-License-Identifier: Apache-2.0
// Look-back: how chunks of a row that run side by side find what is before them, for kernels of any monoid
// (look_back_carries.cuh, element_chain.cuh).
//
// A chunk's summary is the combination of its steps. Chunks are gathered in groups of 2^log2_group_chunks, groups in
// links of 2^log2_link_groups. A chunk that does not end a group publishes its summary. One that ends a group publishes
// the group's total instead, without waiting for what is before the link, or, where it ends a link, the carry into the
// next link. The last chunk of a row publishes nothing. A chunk combines the totals of the earlier groups of its link
// and the summaries of the earlier chunks of its group, and appends them to the carry into its link. So only the
// carries of links are found one after another. With rows enough a group has one chunk and a link has one group.
//
// The decoupled look-back of single-pass prefix sums combines whatever earlier blocks have published so far. Here the
// place of a chunk fixes what it combines, and in which tree, so that the bits do not depend on which block is ready
// first.
#pragma once

#include "cuda/device/ptx/barrier.cuh"
#include "math/number.h"

namespace flashscan::cuda {

// A block's place among the chunks, groups and links of its rows, and what it publishes. Cut is the type of the
// kernel's arguments, which have log2_group_chunks and log2_link_groups.
template <typename Cut>
struct LookBackPlace {
    const Cut& cut;
    uint32_t chunk, chunks;          // this chunk and how many there are, of the row or of a packed sequence
    uint32_t first;                  // the place of chunk 0 among the chunks of the launch
    uint32_t row_group, row_groups;  // row_groups counts the groups of rows of all batch entries
    int log2_rows;                   // rows of a group of rows

    __device__ __forceinline__ int rows() const { return 1 << log2_rows; }
    __device__ __forceinline__ uint32_t group() const { return chunk >> cut.log2_group_chunks; }
    __device__ __forceinline__ uint32_t link() const { return group() >> cut.log2_link_groups; }
    __device__ __forceinline__ int earlier_chunks() const {
        return static_cast<int>(chunk - (group() << cut.log2_group_chunks));
    }
    __device__ __forceinline__ int earlier_groups() const {
        return static_cast<int>(group() - (link() << cut.log2_link_groups));
    }
    __device__ __forceinline__ bool last_of_group() const {
        return earlier_chunks() == (1 << cut.log2_group_chunks) - 1;
    }
    __device__ __forceinline__ bool last_of_link() const {
        return last_of_group() && earlier_groups() == (1 << cut.log2_link_groups) - 1;
    }
    __device__ __forceinline__ bool last() const { return chunk + 1 >= chunks; }
    __device__ __forceinline__ bool publishes_summary() const { return !last() && !last_of_group(); }
    __device__ __forceinline__ bool publishes_total() const { return last_of_group() && !last_of_link() && !last(); }
    __device__ __forceinline__ bool publishes_carry() const { return last_of_link() && !last(); }
    // Returns where the summary of chunk k, the total of group k or the carry into link k lies, among those of its
    // kind.
    __device__ __forceinline__ int64_t place(uint32_t k, int row) const {
        return (static_cast<int64_t>(first + k) * row_groups + row_group << log2_rows) + row;
    }
};

// The combinations of what earlier chunks of the group and earlier groups of the link have published. The first half of
// a block's threads combines ("folds") totals of groups, the second half summaries of chunks. Several threads take a
// row, and each folds consecutive values; shuffles combine what the lanes of a warp have, and what is left goes to
// shared memory. Where chunks are gathered in groups, a block has at most half as many rows as threads.
//
// Runs has what is combined and how it is exchanged:
//     Run, Stored                    the combination of some steps, in registers and in shared memory
//     unrolled                       how often a thread's loop over values is unrolled
//     Run none()                     the combination of no steps
//     void append(Run& left, const Run& right)    left becomes left o right
//     Run shuffle(const Run&, int lane)
//     Stored store(const Run&), Run load(const Stored&)
//     Run await(bool of_chunk, int64_t place)    waits for a summary of a chunk or a total of a group
template <typename Cut, typename Runs, int Warps>
struct EarlierChunks {
    using Run = typename Runs::Run;
    using Stored = typename Runs::Stored;
    static constexpr int threads = 32 * Warps, half = threads / 2;

    const LookBackPlace<Cut>& at;
    const Runs& runs;
    Stored* folds;  // [parts left after a warp's tree][rows]: of totals, then of summaries
    // Threads are shared out among 2^log2_rows rows. These may be more than the block has, so that the order of
    // combination does not depend on the block; threads of rows that do not exist fold nothing.
    int log2_rows;

    // Folds, and calls publish_total(row) in a thread of the second half for each row, if this chunk publishes its
    // group's total. All threads of the block must call it.
    template <typename Publish>
    __device__ __forceinline__ void fold(Publish&& publish_total) const {
        const int thread = static_cast<int>(threadIdx.x);
        const int chunks = at.earlier_chunks(), groups = at.earlier_groups();
        if (chunks + groups == 0 && (!at.last_of_group() || at.last_of_link())) return;
        const bool of_chunks = thread >= half;
        const int count = of_chunks ? chunks : groups;
        if (count > 0)
            fold_published(of_chunks, (of_chunks ? at.chunk : at.group()) - static_cast<uint32_t>(count), count,
                           thread & (half - 1), thread & half);
        if (of_chunks) {
            ptx::named_barrier<1, half>();
            const int row = thread - half;
            if (row < at.rows() && at.publishes_total()) publish_total(row);
        } else {
            ptx::named_barrier<2, half>();  // for compute-sanitizer's racecheck, which reports a race without it
        }
        __syncthreads();
    }
    // Calls append(run) with the folds of a row, in the order of time: those of groups, then those of chunks.
    template <typename Append>
    __device__ __forceinline__ void for_folds(int row, Append&& append) const {
        // It is a loop so that the code of `append` is there once.
#pragma unroll 1
        for (int base = 0; base < threads; base += half) {
            if ((base == 0 ? at.earlier_groups() : at.earlier_chunks()) == 0) continue;
            for (int n = 0; n < count_of_row(); ++n) append(fold_of(base, n, row));
        }
    }
    // Calls prepend(run) with the folds of a row's chunks, the last one first.
    template <typename Prepend>
    __device__ __forceinline__ void for_folded_chunks_back(int row, Prepend&& prepend) const {
        if (at.earlier_chunks() == 0) return;
        for (int n = count_of_row() - 1; n >= 0; --n) prepend(fold_of(half, n, row));
    }

  private:
    __device__ __forceinline__ int rows() const { return 1 << log2_rows; }
    // How many folds of a row there are in shared memory for each half of the threads.
    __device__ __forceinline__ int count_of_row() const { return rows() <= 32 ? Warps / 2 : half >> log2_rows; }
    __device__ __forceinline__ Run fold_of(int base, int n, int row) const {
        return runs.load(folds[(rows() <= 32 ? base / 32 << log2_rows : base) + (n << log2_rows) + row]);
    }
    // Folds `count` published values from `start` on, by half of the block's threads; `thread` counts within the half.
    __device__ __forceinline__ void fold_published(bool of_chunks, uint32_t start, int count, int thread,
                                                   int base) const {
        const int lane = thread & 31, log2_parts = 31 - __clz(half) - log2_rows;
        const int row = thread & (rows() - 1), part = thread >> log2_rows;
        // Where there are fewer values than parts, the first threads have one each and whole warps have none, since
        // to append what is empty costs elements next to nothing.
        const int each = (count + (1 << log2_parts) - 1) >> log2_parts;
        const int first = part * each, last = row < at.rows() ? min(count, first + each) : first;
        Run run = runs.none();
#pragma unroll Runs::unrolled
        for (int i = first; i < last; ++i)
            runs.append(run, runs.await(of_chunks, at.place(start + static_cast<uint32_t>(i), row)));
        __syncwarp();  // the wait leaves lanes diverged, and shuffles of diverged lanes take several times as long
        for (int distance = rows(); distance < 32; distance *= 2) {
            const Run later = runs.shuffle(run, (lane + distance) & 31);
            if ((lane & (2 * distance - 1) & ~(rows() - 1)) == 0) runs.append(run, later);
        }
        if (rows() >= 32)
            folds[base + thread] = runs.store(run);
        else if (lane < rows())
            folds[((base + thread) / 32 << log2_rows) + row] = runs.store(run);
    }
};

}  // namespace flashscan::cuda
