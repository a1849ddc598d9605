// SPDX-License-Identifier: Apache-2.0
// Copies of a lane's elements between global memory and where the lane keeps them: registers, or the lane's slot in a
// buffer in shared memory.
//
// Where neighbouring lanes hold neighbouring rows, every lane loads its own elements. With time innermost the steps of
// a lane are contiguous, and so are those of a warp; where they are aligned, the warp copies them coalesced, in vectors
// of 16 bytes, and transposes them through the buffer.
#pragma once

#include "cuda/device/ptx/async_copy.cuh"
#include "cuda/device/scan/element_place.cuh"

namespace flashscan::cuda {

// A lane's elements in the order of the walk, in registers; ElementSlot has them in shared memory.
template <typename Op, int L>
struct ElementRegisters {
    typename Op::Element item[L];

    __device__ __forceinline__ const typename Op::Element& get(int i) const { return item[i]; }
    __device__ __forceinline__ void set(int i, const typename Op::Element& y) { item[i] = y; }
};
template <typename Op>
struct ElementSlot {
    const Op& op;
    char* first;
    int step;  // bytes from one element to the next

    __device__ __forceinline__ typename Op::Element get(int i) const { return op.load(first + i * step, true); }
    __device__ __forceinline__ void set(int i, const typename Op::Element& y) { op.store(first + i * step, y, true); }
};

template <typename Op, int L, int Warps>
struct ElementTile {
    using Element = typename Op::Element;
    using Place = ElementPlace<L, Warps>;
    static constexpr int bytes = Op::bytes, run = L * bytes, pitch = element_pitch(bytes, L);
    static constexpr bool whole_vectors = run % 16 == 0, kept = element_is_kept(bytes);
    static constexpr int vectors = whole_vectors ? run / 16 : 1;  // 16-byte vectors of a lane
    static constexpr int at_once = vectors < 4 ? vectors : 4;
    // A lane loads these vectors; its j-th is number 32 j + lane of the warp's.
    struct Fetched {
        uint4 vector[vectors];
    };

    const Op& op;
    const ElementGrid& g;
    const Place& at;
    char* buffer;  // the block's buffer in shared memory

    // To and from registers.
    __device__ __forceinline__ void load(const void* data, Element (&items)[L]) const {
        if (in_vectors()) {
            Fetched fetched;
            fetch(data, fetched);
            arrange(fetched, items);
        } else {
            load_each(data, items);
        }
    }
    // Loads two arrays at once, so that the loads of both are under way together.
    __device__ __forceinline__ void load(const void* one, Element (&first)[L], const void* other,
                                         Element (&second)[L]) const {
        if (in_vectors()) {
            Fetched one_fetched, other_fetched;
            fetch(one, one_fetched);
            fetch(other, other_fetched);
            arrange(one_fetched, first);
            arrange(other_fetched, second);
        } else {
            load_each(one, first);
            load_each(other, second);
        }
    }
    __device__ __forceinline__ void store(void* data, const Element (&items)[L]) const {
        if (in_vectors()) {
            to_slot(items);
            store_vectors(data);
        } else {
            store_each(data, items);
        }
    }
    // Stores elements in the format of states.
    __device__ __forceinline__ void store_wide(void* data, const Element (&items)[L]) const {
        char* const to = static_cast<char*>(data);
#pragma unroll
        for (int i = 0; i < L; ++i)
            if (at.exists(i)) op.store_state(to + at.element(g, at.time(g, i)) * Op::state_bytes, items[i]);
    }

    // To and from the lane's slot.
    __device__ __forceinline__ ElementSlot<Op> slot() const {
        return {op, own_slot() + (g.down != 0 ? (L - 1) * bytes : 0), g.down != 0 ? -bytes : bytes};
    }
    __device__ __forceinline__ void load(const void* data, ElementSlot<Op>& items) const {
        if (in_vectors()) {
            const Area area = area_of(data, g.time);
            if (is_line()) {
#pragma unroll
                for (int j = 0; j < vectors; ++j) ptx::copy_async<16>(line_slot(j), line_memory(area, j));
            } else {
#pragma unroll 1
                for (int j = 0; j < vectors; ++j) {
                    const Vector v = vector_of(area, j);
                    if (exists(area, v)) ptx::copy_async<16>(v.slot, v.memory);
                }
            }
            ptx::end_copy_group();
            ptx::wait_for_copy_groups<0>();
            __syncwarp();
        } else if (g.aligned != 0) {
            ElementRegisters<Op, L> loaded;
            load_each(data, loaded.item);
#pragma unroll
            for (int i = 0; i < L; ++i)
                if (at.exists(i)) items.set(i, loaded.item[i]);
        } else {
            const char* from = origin(data);
#pragma unroll 1
            for (int i = 0; i < L; ++i, from += step_bytes())
                if (at.exists(i)) items.set(i, op.load(from, false));
        }
    }
    __device__ __forceinline__ void store(void* data, const ElementSlot<Op>& items) const {
        if (in_vectors()) {
            __syncwarp();
            store_vectors(data);
        } else {
            char* to = const_cast<char*>(origin(data));
#pragma unroll 1
            for (int i = 0; i < L; ++i, to += step_bytes())
                if (at.exists(i)) op.store(to, items.get(i), g.aligned != 0);
        }
    }

  private:
    __device__ __forceinline__ bool in_vectors() const { return whole_vectors && g.vectors != 0; }
    __device__ __forceinline__ int64_t step_bytes() const {
        return (g.down != 0 ? -g.time_stride : g.time_stride) * bytes;
    }
    __device__ __forceinline__ const char* origin(const void* data) const {
        return static_cast<const char*>(data) + at.element(g, at.time(g, 0)) * bytes;
    }

    // Calls f(step, aligned) for the steps that exist. Conditions that are the same for all steps are tested outside of
    // the loop, so that no branch separates the loads.
    template <typename F>
    __device__ __forceinline__ void for_steps(F&& f) const {
        if (!Op::has_parts || g.aligned != 0) {
            if (at.whole) {
#pragma unroll
                for (int i = 0; i < L; ++i) f(i, true);
            } else {
#pragma unroll
                for (int i = 0; i < L; ++i)
                    if (at.exists(i)) f(i, true);
            }
        } else {
#pragma unroll
            for (int i = 0; i < L; ++i)
                if (at.exists(i)) f(i, false);
        }
    }
    __device__ __forceinline__ void load_each(const void* data, Element (&items)[L]) const {
        const char* const from = origin(data);
        const int64_t step = step_bytes();
        for_steps([&](int i, bool aligned) { items[i] = op.load(from + i * step, aligned); });
    }
    __device__ __forceinline__ void store_each(void* data, const Element (&items)[L]) const {
        char* const to = const_cast<char*>(origin(data));
        const int64_t step = step_bytes();
        for_steps([&](int i, bool aligned) { op.store(to + i * step, items[i], aligned); });
    }

    // The lane's segment in the order of memory. A slot's owner is counted in that order too: segments of a row, then
    // rows.
    __device__ __forceinline__ int memory_segment() const {
        return g.down != 0 ? at.segments - 1 - at.segment : at.segment;
    }
    __device__ __forceinline__ char* slot_of(int owner) const { return buffer + (at.warp * 32 + owner) * pitch; }
    __device__ __forceinline__ char* own_slot() const {
        return g.time_inner != 0 ? slot_of((at.lane & ~(at.segments - 1)) | memory_segment()) : slot_of(at.lane);
    }

    // The warp copies such an area: the same bytes of neighbouring rows.
    struct Area {
        const char* data;    // where the first row begins
        int64_t row_stride;  // in bytes
        int rows, bytes;     // rows, and bytes of each row, that exist
    };
    __device__ __forceinline__ Area area_of(const void* data, int64_t end) const {
        const int64_t row = at.row - (at.lane >> (5 - at.log2_lane_rows)), t0 = at.t0 - memory_segment() * L;
        return {static_cast<const char*>(data) + (row * g.row_stride + t0) * bytes, g.row_stride * bytes,
                static_cast<int>(min(g.rows - row, int64_t{32})),
                static_cast<int>(max(min(end - t0, int64_t{32 * L}), int64_t{0})) * bytes};
    }
    // A vector of the warp: its places in the buffer and in the area.
    struct Vector {
        char* slot;
        int row, first_byte;
        const char* memory;
    };
    __device__ __forceinline__ Vector vector_of(const Area& area, int j) const {
        const int index = j * 32 + at.lane, owner = index / vectors, row = owner >> (5 - at.log2_lane_rows);
        const int first_byte = index * 16 - (row << (5 - at.log2_lane_rows)) * run;
        return {slot_of(owner) + index % vectors * 16, row, first_byte, area.data + row * area.row_stride + first_byte};
    }
    // Whether a vector lies in the area. Rows end where vectors do, so a vector that begins in a row lies in it; steps
    // past the last sequence may be read with it.
    __device__ __forceinline__ static bool exists(const Area& area, const Vector& v) {
        return v.row < area.rows && v.first_byte < area.bytes;
    }

    // Whether the warp's steps are all of one row and all exist. Its vectors are then contiguous, and an addition finds
    // the next one.
    __device__ __forceinline__ bool is_line() const { return 32 % vectors == 0 && at.whole && at.log2_lane_rows == 0; }
    __device__ __forceinline__ char* line_slot(int j) const {
        return slot_of(at.lane / vectors) + at.lane % vectors * 16 + j * (32 / vectors) * pitch;
    }
    __device__ __forceinline__ char* line_memory(const Area& area, int j) const {
        return const_cast<char*>(area.data) + at.lane * 16 + j * 512;
    }

    __device__ __forceinline__ void fetch(const void* data, Fetched& fetched) const {
        const Area area = area_of(data, g.time);
#pragma unroll
        for (int j = 0; j < vectors; ++j) {
            const Vector v = vector_of(area, j);
            fetched.vector[j] = uint4{0, 0, 0, 0};
            if (exists(area, v)) fetched.vector[j] = *reinterpret_cast<const uint4*>(v.memory);
        }
    }
    __device__ __forceinline__ void arrange(const Fetched& fetched, Element (&items)[L]) const {
#pragma unroll
        for (int j = 0; j < vectors; ++j) *reinterpret_cast<uint4*>(vector_of(Area{}, j).slot) = fetched.vector[j];
        __syncwarp();
        const char* const from = own_slot();
        if constexpr (!kept) {
            uint4 words[vectors];
#pragma unroll
            for (int j = 0; j < vectors; ++j) words[j] = reinterpret_cast<const uint4*>(from)[j];
            const char* const mine = reinterpret_cast<const char*>(words);
#pragma unroll
            for (int i = 0; i < L; ++i) items[i] = op.load(mine + i * bytes, true);
            turn(items);
        } else {
#pragma unroll
            for (int i = 0; i < L; ++i) items[i] = op.load(from + (g.down != 0 ? L - 1 - i : i) * bytes, true);
        }
        __syncwarp();
    }

    // Reverses the elements where the walk goes against the order of memory. They are swapped by value, since indexing
    // that depends on g.down would move them to local memory.
    __device__ __forceinline__ void turn(Element (&items)[L]) const {
        if (g.down == 0) return;
#pragma unroll
        for (int i = 0; i < L / 2; ++i) {
            const Element low = items[i], high = items[L - 1 - i];
            items[i] = high;
            items[L - 1 - i] = low;
        }
    }

    __device__ __forceinline__ void to_slot(const Element (&items)[L]) const {
        char* const to = own_slot();
        if constexpr (!kept) {
            Element turned[L];
#pragma unroll
            for (int i = 0; i < L; ++i) turned[i] = items[i];
            turn(turned);
            uint4 words[vectors];
            char* const mine = reinterpret_cast<char*>(words);
#pragma unroll
            for (int i = 0; i < L; ++i) op.store(mine + i * bytes, turned[i], true);
#pragma unroll
            for (int j = 0; j < vectors; ++j) reinterpret_cast<uint4*>(to)[j] = words[j];
        } else {
#pragma unroll
            for (int i = 0; i < L; ++i) op.store(to + (g.down != 0 ? L - 1 - i : i) * bytes, items[i], true);
        }
        __syncwarp();
    }
    __device__ __forceinline__ void store_vectors(void* data) const {
        const Area area = area_of(data, end_of_steps(g.offsets, g.time));
        if (kept && is_line()) {
#pragma unroll
            for (int j = 0; j < vectors; ++j)
                *reinterpret_cast<uint4*>(line_memory(area, j)) = *reinterpret_cast<const uint4*>(line_slot(j));
            __syncwarp();
            return;
        }
#pragma unroll(kept ? 1 : at_once)
        for (int j = 0; j < vectors; ++j) {
            const Vector v = vector_of(area, j);
            if (!exists(area, v)) continue;
            char* const there = const_cast<char*>(v.memory);
            if (v.first_byte + 16 <= area.bytes)
                *reinterpret_cast<uint4*>(there) = *reinterpret_cast<const uint4*>(v.slot);
            else
                store_bytes(there, v.slot, area.bytes - v.first_byte);
        }
        __syncwarp();
    }
    static __device__ __noinline__ void store_bytes(char* to, const char* from, int count) {
#pragma unroll 1
        for (int i = 0; i < count; ++i) to[i] = from[i];
    }
};

}  // namespace flashscan::cuda
