// SPDX-License-Identifier: Apache-2.0
// Copies of tiles with time innermost and any strides and addresses. Pieces are copied asynchronously (cp.async) into
// the warp's buffer in shared memory, so that loads under way take no registers. They are laid out so that each lane
// finds its steps as whole vectors. Rows that begin and end at multiples of 16 bytes are copied as vectors, others in
// pieces: one element, or a pair of 16-bit elements.
//
// 16-bit rows that begin in the middle of a word lie half a word off in the buffer, and lanes shift them as they read.
// Only words that belong to the row alone are copied as words; elements at its ends, which share words with others, are
// copied one by one.
#pragma once

#include "cuda/device/ptx/async_copy.cuh"
#include "cuda/device/tile/time_vectors.cuh"

namespace flashscan::cuda {

template <typename T, typename Shape>
struct TimeWords {
    using Tile = Steps<T, Shape>;
    using Vectors = LaneVectors<T, Shape, true>;
    static constexpr int size = static_cast<int>(sizeof(T)), L = Tile::L;
    static constexpr bool halves = size == 2;
    static constexpr int piece_bytes = halves ? 4 : size, piece_steps = halves ? 2 : 1;
    static constexpr int copied_together = alignof(T) < 4 ? 4 : static_cast<int>(alignof(T));
    static constexpr int pieces = L / piece_steps;                    // pieces of a lane
    static constexpr int log2_pieces = 5 + log2_of<pieces>;           // log2 of the pieces of a warp
    static constexpr int turn_bytes = 32 / pieces * Vectors::stride;  // bytes of 32 pieces in the buffer
    static constexpr int buffer_bytes = 32 * Vectors::stride;
    static_assert(pieces <= 32 && (!halves || Vectors::stride > L * size));

    // 16-bit elements alone. Lane i loads the elements at the ends of row i of the warp that share words with others.
    struct Fetched {
        uint32_t first, last;
        int first_at, last_at;  // their offsets in the buffer, or -1 for none
        bool odd;               // whether the row that holds the lane's own steps begins in the middle of a word
    };

    // The steps of a row of the warp in memory. Counted from the word that the row begins in, its whole pieces are
    // [skipped, skipped + whole).
    struct Run {
        char* from;
        int steps, skipped, whole;
    };
    static __device__ __forceinline__ Run run_of(const View& view, const Place& at, int row, int steps) {
        Run run;
        run.from = view.data + at.batch * view.batch + (at.warp_row + row) * view.row + at.warp_t0 * view.time;
        run.steps = row < at.warp_rows ? steps : 0;
        run.skipped = halves && is_odd(run.from) ? 1 : 0;
        run.whole = halves ? max((run.steps + run.skipped) / 2 - run.skipped, 0) : run.steps;
        return run;
    }

    // The offset of a piece of the warp in the buffer.
    static __device__ __forceinline__ int offset_of(int piece) {
        return piece / pieces * Vectors::stride + piece % pieces * piece_bytes;
    }
    static __device__ __forceinline__ char* first_piece(const Run& run) {
        return halves ? word_below(run.from) : run.from;
    }
    static __device__ __forceinline__ bool is_whole(const Run& run, int piece) {
        return static_cast<uint32_t>(piece - run.skipped) < static_cast<uint32_t>(run.whole);
    }

    // Calls f(offset in the buffer, address) for the lane's pieces that are whole.
    template <typename F>
    static __device__ __forceinline__ void for_pieces(const View& view, const Place& at, int steps, F&& f) {
        const int log2_row = log2_pieces - at.log2_rows;
        if (log2_row < 5 || view.time != size) return for_scattered_pieces(view, at, steps, f);
#pragma unroll 1
        for (int row = 0; row < 1 << at.log2_rows; ++row) {
            const Run run = run_of(view, at, row, steps);
            const int turns = (run.skipped + run.whole + 31) / 32;
            char* address = first_piece(run) + at.lane * piece_bytes;
            int offset = offset_of((row << log2_row) + at.lane);
            if (run.skipped + run.whole == 1 << log2_row) {
#pragma unroll 4
                for (int j = 0; j < turns; ++j, address += 32 * piece_bytes, offset += turn_bytes)
                    if (!halves || j > 0 || at.lane >= run.skipped) f(offset, address);
            } else {
#pragma unroll 2
                for (int j = 0; j < turns; ++j, address += 32 * piece_bytes, offset += turn_bytes)
                    if (is_whole(run, j * 32 + at.lane)) f(offset, address);
            }
        }
    }
    // The same where 32 pieces span several rows, or for any strides.
    template <typename F>
    static __device__ __forceinline__ void for_scattered_pieces(const View& view, const Place& at, int steps, F&& f) {
        const int log2_row = log2_pieces - at.log2_rows;
        const int64_t stride = halves ? piece_bytes : view.time;
#pragma unroll 2
        for (int j = 0; j < pieces; ++j) {
            const int piece = j * 32 + at.lane, n = piece & ((1 << log2_row) - 1);
            const Run run = run_of(view, at, piece >> log2_row, steps);
            if (is_whole(run, n)) f(offset_of(piece), first_piece(run) + n * stride);
        }
    }

    // Calls first(offset, address) and last(offset, address) for the ends of the row with the lane's number.
    template <typename First, typename Last>
    static __device__ __forceinline__ void for_ends(const View& view, const Place& at, int steps, First&& first,
                                                    Last&& last) {
        if (at.lane >= min(1 << at.log2_rows, at.warp_rows) || steps <= 0) return;
        const Run run = run_of(view, at, at.lane, steps);
        const int log2_row = log2_pieces - at.log2_rows, begin = at.lane << log2_row, end = run.skipped + run.whole;
        if (run.skipped != 0) first(offset_of(begin) + size, run.from);
        if ((run.steps + run.skipped) % 2 == 0) return;
        // Where the row fills its lanes, its last element goes into the padding after them.
        const int place = end == 1 << log2_row ? offset_of(begin + end - 1) + piece_bytes : offset_of(begin + end);
        last(place, run.from + (run.steps - 1) * size);
    }

    static constexpr int vectors = Vectors::count, vector_steps = 16 / size;
    // Whether the warp's rows in memory are made of aligned vectors of 16 bytes, which is the same for all lanes.
    static __device__ __forceinline__ bool in_vectors(const View& view, const Place& at, int64_t time) {
        const int64_t first = reinterpret_cast<int64_t>(run_of(view, at, 0, 0).from);
        const int64_t others = at.log2_rows == 0 ? 0 : view.row;
        return view.time == size && ((first | others | (time - at.warp_t0) * size) & 15) == 0;
    }
    // Calls f(offset in the buffer, address, steps of the row from there on) for the lane's vectors that exist in part.
    template <typename F>
    static __device__ __forceinline__ void for_vectors(const View& view, const Place& at, int steps, F&& f) {
        char* const from = run_of(view, at, 0, 0).from;
        int offset = Vectors::place(at.lane / vectors, at.lane % vectors);
        if (at.log2_rows == 0 && at.warp_rows > 0 && steps == 32 * L) {
            char* address = from + at.lane * 16;
#pragma unroll
            for (int j = 0; j < vectors; ++j, address += 512, offset += 32 / vectors * Vectors::stride)
                f(offset, address, vector_steps);
            return;
        }
#pragma unroll 1
        for (int j = 0; j < vectors; ++j, offset += 32 / vectors * Vectors::stride) {
            const int vector = j * 32 + at.lane, owner = vector / vectors, row = owner >> (5 - at.log2_rows);
            const int step = (owner & (at.segments() - 1)) * L + vector % vectors * vector_steps;
            if (row < at.warp_rows && step < steps) f(offset, from + row * view.row + step * size, steps - step);
        }
    }

    // Starts the copies. Steps past the lane's last one are copied too if they lie before `time`.
    static __device__ __forceinline__ void fetch(const View& view, const Place& at, int, int64_t time, char* buffer,
                                                 Fetched& fetched) {
        const int steps = static_cast<int>(max(min(time - at.warp_t0, int64_t{L * at.segments()}), int64_t{0}));
        fetched.first_at = fetched.last_at = -1;
        fetched.odd = false;
        if (in_vectors(view, at, time)) {
            for_vectors(view, at, steps,
                        [&](int offset, const char* from, int) { ptx::copy_async<16>(buffer + offset, from); });
            return;
        }
        if constexpr (halves) {
            if (view.time != size) return fetch_elements(view, at, steps, buffer);
            fetched.odd = is_odd(run_of(view, at, at.pack, steps).from);
            for_ends(
                view, at, steps,
                [&](int offset, const char* from) {
                    load_element<T>(from, &fetched.first);
                    fetched.first_at = offset;
                },
                [&](int offset, const char* from) {
                    load_element<T>(from, &fetched.last);
                    fetched.last_at = offset;
                });
        }
        for_pieces(view, at, steps, [&](int offset, const char* from) {
#pragma unroll
            for (int i = 0; i < piece_bytes; i += copied_together)
                ptx::copy_async<copied_together>(buffer + offset + i, from + i);
        });
    }

    // To be called after the wait for the copies. Steps past the lane's last one become zero bits.
    static __device__ __forceinline__ void arrange(const Fetched& fetched, const Place& at, char* buffer, Tile& tile) {
        if constexpr (halves) {
            if (fetched.first_at >= 0) store_element<T>(&fetched.first, buffer + fetched.first_at);
            if (fetched.last_at >= 0) store_element<T>(&fetched.last, buffer + fetched.last_at);
        }
        __syncwarp();
        Vectors::read(tile, at, buffer);
        if constexpr (halves) {
            if (fetched.odd) {
                uint32_t next;
                load_words<1>(buffer + beyond(at), &next);
#pragma unroll
                for (int i = 0; i < pieces; ++i)
                    tile.word[i] = across(tile.word[i], i + 1 < pieces ? tile.word[i + 1] : next);
            }
        }
        __syncwarp();
        Vectors::clear_rest(tile, at);
    }

    // In the place of `fetch` and `arrange`, for a tensor of which all steps of a row are one element.
    static __device__ __forceinline__ void load_constant(const View& view, const Place& at, Tile& tile) {
        constexpr int words = halves ? 1 : size / 4;
        uint32_t element[words] = {};
        if (at.steps > 0) load_element<T>(view.data + at.batch * view.batch + at.row * view.row, element);
        if constexpr (halves) element[0] |= element[0] << 16;
#pragma unroll
        for (int i = 0; i < Tile::count; ++i) tile.word[i] = element[i % words];
        Vectors::clear_rest(tile, at);
    }

    static __device__ __forceinline__ void store(const Tile& tile, const View& view, const Place& at, char* buffer) {
        if (in_vectors(view, at,
                       at.warp_t0)) {  // only where the row begins counts: a last vector is stored in elements
            Vectors::write(tile, at, buffer);
            __syncwarp();
            for_vectors(view, at, at.warp_steps, [&](int offset, char* to, int steps) {
                if (steps >= vector_steps) return copy_words<4>(buffer + offset, to);
#pragma unroll 1
                for (int i = 0; i < steps; ++i) copy_element<T>(buffer + offset + i * size, to + i * size);
            });
            __syncwarp();
            return;
        }
        if constexpr (halves) {
            if (view.time != size) return store_elements(tile, view, at, buffer);
            put_halves(tile, is_odd(run_of(view, at, at.pack, at.warp_steps).from), at, buffer);
        } else {
            Vectors::write(tile, at, buffer);
        }
        __syncwarp();
        for_pieces(view, at, at.warp_steps, [&](int offset, char* to) {
            if constexpr (halves)
                copy_words<1>(buffer + offset, to);
            else
                copy_element<T>(buffer + offset, to);
        });
        if constexpr (halves) {
            const auto copy = [&](int offset, char* to) { copy_element<T>(buffer + offset, to); };
            for_ends(view, at, at.warp_steps, copy, copy);
        }
        __syncwarp();
    }

  private:
    // The offset of the word after the lane's own: the first word of the next lane, or padding after a row's last lane.
    static __device__ __forceinline__ int beyond(const Place& at) {
        return Vectors::place(at.lane, 0) + (at.segment + 1 < at.segments() ? Vectors::stride : L * size);
    }

    // Writes the lane's steps to the buffer, moved by half a word where its row is odd.
    static __device__ __forceinline__ void put_halves(const Tile& tile, bool odd, const Place& at, char* buffer) {
        uint32_t before = __shfl_up_sync(0xffffffffU, tile.word[pieces - 1], 1);
        if (!odd) return Vectors::write(tile, at, buffer);
        Tile moved;
#pragma unroll
        for (int i = 0; i < pieces; ++i) {
            moved.word[i] = across(before, tile.word[i]);
            before = tile.word[i];
        }
        Vectors::write(moved, at, buffer);
        const uint32_t end = before >> 16;
        if (at.segment == at.segments() - 1) store_element<T>(&end, buffer + beyond(at));
    }

    // Used for 16-bit steps that are not contiguous: calls f(offset in the buffer, address) for the lane's j-th
    // element.
    template <typename F>
    static __device__ __forceinline__ void for_element(const View& view, const Place& at, int steps, int j, F&& f) {
        const int element = j * 32 + at.lane, log2_row = log2_pieces + 1 - at.log2_rows;
        const int row = element >> log2_row, step = element & ((1 << log2_row) - 1);
        if (row >= at.warp_rows || step >= steps) return;
        f(offset_of(element / 2) + element % 2 * size, run_of(view, at, row, steps).from + step * view.time);
    }

    static __device__ __forceinline__ void fetch_elements(const View& view, const Place& at, int steps, char* buffer) {
        constexpr int together = L < 8 ? L : 8;  // loads that are under way together
#pragma unroll 1
        for (int j = 0; j < L; j += together) {
            uint32_t bits[together];
#pragma unroll
            for (int i = 0; i < together; ++i)
                for_element(view, at, steps, j + i, [&](int, const char* from) { load_element<T>(from, bits + i); });
#pragma unroll
            for (int i = 0; i < together; ++i)
                for_element(view, at, steps, j + i,
                            [&](int offset, const char*) { store_element<T>(bits + i, buffer + offset); });
        }
    }

    static __device__ __forceinline__ void store_elements(const Tile& tile, const View& view, const Place& at,
                                                          char* buffer) {
        Vectors::write(tile, at, buffer);
        __syncwarp();
#pragma unroll 4
        for (int j = 0; j < L; ++j)
            for_element(view, at, at.warp_steps, j,
                        [&](int offset, char* to) { copy_element<T>(buffer + offset, to); });
        __syncwarp();
    }
};

}  // namespace flashscan::cuda
