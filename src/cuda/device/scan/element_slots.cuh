// SPDX-License-Identifier: Apache-2.0
// Elements of a warp's lanes in shared memory, which the lanes of the warp copy to and from global memory together.
//
// Every lane has a slot, in which its L elements lie in the order of memory, whichever way the walk goes. Copies go in
// parts: the largest power of 2, up to 16 bytes, that divides an element. Neighbouring lanes copy neighbouring parts of
// what lies side by side: of the steps of a row where time is innermost, otherwise of the rows of a step. So a copy
// touches few sectors of memory, whatever an element's size. Where each lane loads its own matrices of 36 or 64 bytes,
// every access of a warp touches 32 sectors.
//
// Bytes      Slots lie an odd number of parts apart, so that lanes that read the same part of theirs meet no bank
//            conflicts (in parts of 2 bytes two lanes may meet).
// Sync       load() starts copies, await() waits for those of the whole warp, store() waits for what the warp's lanes
//            have set. All lanes of a warp call these three together; get() and set() are of a lane's own slot.
// Limits     Arrays that are not aligned to parts are loaded and stored by each lane for itself; so are elements with
//            parts of 2 bytes loaded, which cp.async does not copy.
#pragma once

#include "cuda/device/ptx/async_copy.cuh"
#include "cuda/device/scan/element_place.cuh"

namespace flashscan::cuda {

// An Op has Element, bytes, load and store, as operators of element_scan.cuh have.
template <typename Op_, int L, int Warps>
struct ElementSlots {
    using Op = Op_;
    using Element = typename Op::Element;
    using Place = ElementPlace<L, Warps>;
    static constexpr int bytes = Op::bytes, part = element_part(bytes), parts = bytes / part;
    static constexpr int pitch = (L * parts | 1) * part;                     // bytes from slot to slot
    static constexpr int block_bytes = (32 * Warps * pitch + 15) / 16 * 16;  // of the slots of a block

    const Op& op;
    const ElementGrid& g;
    const Place& at;
    char* buffer;  // the block's

    // Step i of the lane, in the order of the walk.
    __device__ __forceinline__ Element get(int i) const { return op.load(own(i), true); }
    __device__ __forceinline__ void set(int i, const Element& y) const { op.store(own(i), y, true); }

    __device__ __forceinline__ void load(const void* data) const {
        if (part >= 4 && g.aligned != 0) {
            for_parts(static_cast<const char*>(data), [](char* slot, const char* memory) {
                if constexpr (part >= 4) ptx::copy_async<part>(slot, memory);
            });
            ptx::end_copy_group();
        } else {
#pragma unroll 1
            for (int i = at.first; i < at.last; ++i) set(i, op.load(address(data, i), g.aligned != 0));
        }
    }
    // Waits for all copies that lanes of the warp have started, into whichever ElementSlots.
    static __device__ __forceinline__ void await() {
        ptx::wait_for_copy_groups<0>();
        __syncwarp();
    }
    __device__ __forceinline__ void store(void* data) const {
        __syncwarp();
        if (g.aligned != 0) {
            for_parts(static_cast<const char*>(data), [](char* slot, const char* memory) {
                struct alignas(part) Part {
                    char bytes[part];
                };
                *reinterpret_cast<Part*>(const_cast<char*>(memory)) = *reinterpret_cast<const Part*>(slot);
            });
        } else {
#pragma unroll 1
            for (int i = at.first; i < at.last; ++i) op.store(const_cast<char*>(address(data, i)), get(i), false);
        }
    }

  private:
    __device__ __forceinline__ char* slot_of(int lane) const { return buffer + (at.warp * 32 + lane) * pitch; }
    __device__ __forceinline__ char* own(int i) const {
        return slot_of(at.lane) + (g.down != 0 ? L - 1 - i : i) * bytes;
    }
    __device__ __forceinline__ const char* address(const void* data, int i) const {
        return static_cast<const char*>(data) + at.element(g, at.time(g, i)) * bytes;
    }

    // Calls copy(slot, memory), with a part's addresses in both. Together the lanes of the warp call it for all parts
    // of the warp's elements that exist, each for parts of other lanes' elements, too.
    template <typename Copy>
    __device__ __forceinline__ void for_parts(const char* data, Copy&& copy) const {
        const char* const mine = data + at.element(g, at.t0) * bytes;
        if (g.time_inner != 0) {
            if (at.whole && at.log2_lane_rows == 0)
                for_line(mine, copy);
            else
                for_runs(mine, copy);
        } else {
            if (at.whole)
                for_rows<true>(mine, copy);
            else
                for_rows<false>(mine, copy);
        }
    }
    // All steps of the warp exist and are of one row, so they lie side by side: a lane copies the parts 32 n + lane.
    // Between slots there are gaps, and the walk may go against memory, so the place in the slots is kept by additions.
    template <typename Copy>
    __device__ __forceinline__ void for_line(const char* mine, Copy&& copy) const {
        constexpr int run = L * parts;                  // parts of a slot
        const int lowest = g.down != 0 ? 31 : 0;        // the lane whose steps come first in memory
        const int next = g.down != 0 ? -pitch : pitch;  // from its slot to that of the lane whose steps follow
        int offset = at.lane % run;
        char* to = slot_of(lowest) + at.lane / run * next + offset * part;
        const char* from = origin_of(mine, lowest) + at.lane * part;
#pragma unroll 4
        for (int n = 0; n < run; ++n) {
            copy(to, from);
            from += 32 * part;
            to += 32 / run * next + 32 % run * part;
            if constexpr (32 % run != 0) {
                offset += 32 % run;
                if (offset >= run) offset -= run, to += next - run * part;
            }
        }
    }
    // The parts of each lane's steps lie side by side. A lane may have fewer than L, and a row other than its
    // neighbour's.
    template <typename Copy>
    __device__ __forceinline__ void for_runs(const char* mine, Copy&& copy) const {
        const int count = at.last - at.first;
#pragma unroll 1
        for (int n = 0; n < L * parts; ++n) {
            const int index = n * 32 + at.lane, lane = index / (L * parts), offset = index % (L * parts) * part;
            const char* const from = origin_of(mine, lane);
            if (offset < __shfl_sync(0xffffffffU, count, lane) * bytes) copy(slot_of(lane) + offset, from + offset);
        }
    }
    // The parts of a step of neighbouring rows lie side by side. Whole tells that all steps of the warp exist.
    template <bool Whole, typename Copy>
    __device__ __forceinline__ void for_rows(const char* mine, Copy&& copy) const {
        const int64_t step = g.time_stride * bytes;
        const int count = at.last - at.first;
#pragma unroll(Whole ? 2 : 1)
        for (int n = 0; n < parts; ++n) {
            const int index = n * 32 + at.lane, lane = index / parts, offset = index % parts * part;
            const char* from = origin_of(mine, lane) + offset;
            char* const to = slot_of(lane) + offset;
            const int steps = Whole ? L : __shfl_sync(0xffffffffU, count, lane);
#pragma unroll(Whole ? L : 1)
            for (int i = 0; i < L; ++i, from += step)
                if (i < steps) copy(to + i * bytes, from);
        }
    }
    // Returns where the elements of another lane begin in memory; `mine` is where this lane's do.
    static __device__ __forceinline__ const char* origin_of(const char* mine, int lane) {
        return reinterpret_cast<const char*>(
            __shfl_sync(0xffffffffU, reinterpret_cast<unsigned long long>(mine), lane));
    }
};

}  // namespace flashscan::cuda
