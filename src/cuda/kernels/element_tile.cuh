// SPDX-License-Identifier: Apache-2.0
// Moves the elements of a lane between memory and registers.
//
// With neighbouring rows in neighbouring lanes every element is loaded for itself. With time innermost a lane's steps
// lie together, and a warp's as well: the warp moves them in turn, whole vectors of 16 bytes where they are aligned,
// through a buffer in shared memory from which each lane takes its own.
#pragma once

#include "cuda/kernels/element_place.cuh"

namespace flashscan::cuda {

template <typename Op, int L, int Warps>
struct ElementTile {
    using Element = typename Op::Element;
    using Place = ElementPlace<L, Warps>;
    static constexpr int bytes = Op::bytes, run = L * bytes, pitch = element_pitch(bytes, L);
    static constexpr bool has_buffer = pitch > 0, through_registers = bytes < 16;
    static constexpr int vectors = has_buffer ? run / 16 : 1;  // of a lane
    // Vector j of a lane is the (32 j + lane)-th of the warp.
    struct Fetched {
        uint4 vector[vectors];
    };

    const Op& op;
    const ElementGrid& g;
    const Place& at;
    char* buffer;  // of the block

    __device__ __forceinline__ bool in_vectors() const { return has_buffer && g.vectors != 0; }

    __device__ __forceinline__ void load(const void* data, Element (&items)[L]) const {
        if (in_vectors()) {
            Fetched fetched;
            fetch(data, fetched);
            arrange(fetched, items);
        } else {
            load_each(data, items);
        }
    }
    // Two at once, so that the loads of both are under way.
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
        if (in_vectors())
            store_vectors(data, items);
        else
            store_each(data, items);
    }
    // As states.
    __device__ __forceinline__ void store_wide(void* data, const Element (&items)[L]) const {
        char* const to = static_cast<char*>(data);
#pragma unroll
        for (int i = 0; i < L; ++i)
            if (at.exists(i)) op.store_state(to + at.element(g, at.time(g, i)) * Op::state_bytes, items[i]);
    }

  private:
    __device__ __forceinline__ int64_t step_bytes() const {
        return (g.down != 0 ? -g.time_stride : g.time_stride) * bytes;
    }
    __device__ __forceinline__ void load_each(const void* data, Element (&items)[L]) const {
        const char* from = static_cast<const char*>(data) + at.element(g, at.time(g, 0)) * bytes;
#pragma unroll
        for (int i = 0; i < L; ++i, from += step_bytes())
            if (at.exists(i)) items[i] = op.load(from, g.aligned != 0);
    }
    __device__ __forceinline__ void store_each(void* data, const Element (&items)[L]) const {
        char* to = static_cast<char*>(data) + at.element(g, at.time(g, 0)) * bytes;
#pragma unroll
        for (int i = 0; i < L; ++i, to += step_bytes())
            if (at.exists(i)) op.store(to, items[i], g.aligned != 0);
    }

    // A lane's place in the order of memory: segments of a row, then rows.
    __device__ __forceinline__ int memory_segment() const {
        return g.down != 0 ? at.segments - 1 - at.segment : at.segment;
    }
    __device__ __forceinline__ char* slot_of(int owner) const { return buffer + (at.warp * 32 + owner) * pitch; }
    __device__ __forceinline__ char* own_slot() const {
        return slot_of((at.lane & ~(at.segments - 1)) | memory_segment());
    }

    // A vector of the warp.
    struct Vector {
        char* slot;      // its place in the buffer
        int64_t offset;  // in the tensor, in bytes
        int64_t row;
        int64_t time;    // of its first byte
        int first_byte;  // of an element
    };
    __device__ __forceinline__ Vector vector_of(int j) const {
        const int index = j * 32 + at.lane, owner = index / vectors, inside = index % vectors * 16;
        const int segment = owner & (at.segments - 1), row_in_warp = owner >> (5 - at.log2_lane_rows);
        const int64_t row = at.row - (at.lane >> (5 - at.log2_lane_rows)) + row_in_warp;
        const int64_t begin = at.t0 + static_cast<int64_t>(segment - memory_segment()) * L;
        return {slot_of(owner) + inside, (row * g.row_stride + begin) * bytes + inside, row, begin + inside / bytes,
                inside % bytes};
    }

    // Rows end where vectors do, so that a vector which begins in a row lies in it. What else lies there may be read.
    __device__ __forceinline__ void fetch(const void* data, Fetched& fetched) const {
#pragma unroll
        for (int j = 0; j < vectors; ++j) {
            const Vector v = vector_of(j);
            fetched.vector[j] = uint4{0, 0, 0, 0};
            if (v.row < g.rows && v.time < g.time)
                fetched.vector[j] = *reinterpret_cast<const uint4*>(static_cast<const char*>(data) + v.offset);
        }
    }
    __device__ __forceinline__ void arrange(const Fetched& fetched, Element (&items)[L]) const {
#pragma unroll
        for (int j = 0; j < vectors; ++j) *reinterpret_cast<uint4*>(vector_of(j).slot) = fetched.vector[j];
        __syncwarp();
        const char* const from = own_slot();
        if constexpr (through_registers) {
            uint4 words[vectors];
#pragma unroll
            for (int j = 0; j < vectors; ++j) words[j] = reinterpret_cast<const uint4*>(from)[j];
            const char* const mine = reinterpret_cast<const char*>(words);
#pragma unroll
            for (int i = 0; i < L; ++i) {
                const Element low = op.load(mine + i * bytes, true), high = op.load(mine + (L - 1 - i) * bytes, true);
                items[i] = g.down != 0 ? high : low;
            }
        } else {
#pragma unroll
            for (int i = 0; i < L; ++i) items[i] = op.load(from + (g.down != 0 ? L - 1 - i : i) * bytes, true);
        }
        __syncwarp();
    }

    __device__ __forceinline__ void store_vectors(void* data, const Element (&items)[L]) const {
        char* const to = own_slot();
        if constexpr (through_registers) {
            uint4 words[vectors];
            char* const mine = reinterpret_cast<char*>(words);
#pragma unroll
            for (int i = 0; i < L; ++i) op.store(mine + i * bytes, g.down != 0 ? items[L - 1 - i] : items[i], true);
#pragma unroll
            for (int j = 0; j < vectors; ++j) reinterpret_cast<uint4*>(to)[j] = words[j];
        } else {
#pragma unroll
            for (int i = 0; i < L; ++i) op.store(to + (g.down != 0 ? L - 1 - i : i) * bytes, items[i], true);
        }
        __syncwarp();
        const int64_t end = end_of_steps(g.offsets, g.time);
#pragma unroll
        for (int j = 0; j < vectors; ++j) {
            const Vector v = vector_of(j);
            if (v.row >= g.rows || v.time >= end) continue;
            char* const there = static_cast<char*>(data) + v.offset;
            const int64_t left = (end - v.time) * bytes - v.first_byte;  // bytes of steps that exist
            if (left >= 16) {
                *reinterpret_cast<uint4*>(there) = *reinterpret_cast<const uint4*>(v.slot);
            } else {
                for (int i = 0; i < left; ++i) there[i] = v.slot[i];
            }
        }
        __syncwarp();
    }
};

}  // namespace flashscan::cuda
