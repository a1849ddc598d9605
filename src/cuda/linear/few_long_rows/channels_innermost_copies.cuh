// SPDX-License-Identifier: Apache-2.0
// How channels_innermost.cuh moves chunks between memory and shared memory.
//
// A stage of the ring buffer holds a chunk: its gates, its source, and backward the states before its steps. A tile is
// one tensor's part of a stage. One thread, the producer, has the bulk copy engine (TMA) fill stages up to Flight
// chunks at a time, and another thread has it store the results of chunks that were walked. More loads at once would
// not arrive sooner, but the values that blocks exchange would wait behind them.
#pragma once

#include "cuda/device/ptx/async_proxy.cuh"
#include "cuda/device/ptx/bulk_bytes.cuh"
#include "cuda/device/ptx/bulk_copy.cuh"
#include "cuda/device/ptx/cluster.cuh"
#include "cuda/linear/few_long_rows/params.h"
#include "cuda/linear/params.h"
#include "cuda/linear/tensor_maps.h"

namespace flashscan::cuda {

// Which steps of which group of rows a chunk is.
struct StripChunk {
    uint32_t batch, group;
    int64_t t0;
    int steps;
    bool last;  // whether it is the last of its strip in the order of the walk
};

// The ring buffer of a block and its mbarriers. A stage is filled, then walked by all Warps, then stored.
template <int Warps, int Stages, int Flight>
struct StripRing {
    struct Shared {
        uint64_t filled[Stages], walked[Stages], stored[Stages];
    };
    Shared& shared;
    char* stages;
    int stage_bytes;

    __device__ __forceinline__ char* stage(uint32_t k) const { return stages + k % Stages * stage_bytes; }
    static __device__ __forceinline__ void wait(uint64_t& barrier, uint32_t k) {
        ptx::wait_for_phase(ptx::shared_address(&barrier), k / Stages & 1);
    }
    __device__ __forceinline__ void make_barriers() const {
        for (int i = 0; i < Stages; ++i) {
            ptx::make_byte_barrier(ptx::shared_address(&shared.filled[i]));
            ptx::make_barrier(ptx::shared_address(&shared.walked[i]), Warps);
            ptx::make_barrier(ptx::shared_address(&shared.stored[i]), 1);
        }
    }

    __device__ __forceinline__ void await_chunk(uint32_t k) const { wait(shared.filled[k % Stages], k); }
    // Called by a warp that has walked its part of chunk k.
    __device__ __forceinline__ void give_back(uint32_t k, int lane) const {
        ptx::fence_async_proxy();
        __syncwarp();
        if (lane == 0) ptx::arrive(ptx::shared_address(&shared.walked[k % Stages]));
    }

    // The producer's loop: fills stages with the chunks from `first` on; load(k, stage, barrier) starts the loads of
    // one.
    template <typename Load>
    __device__ __forceinline__ void fill(uint32_t first, uint32_t count, Load&& load) const {
        for (uint32_t k = first; k < count; ++k) {
            if (k >= Flight) wait(shared.filled[(k - Flight) % Stages], k - Flight);
            if (k >= Stages) wait(shared.stored[k % Stages], k - Stages);
            load(k, ptx::shared_address(stage(k)), ptx::shared_address(&shared.filled[k % Stages]));
        }
    }
    // The loop of the thread that stores: store(k, stage) starts the stores of a chunk.
    template <typename Store>
    __device__ __forceinline__ void empty(uint32_t count, Store&& store) const {
        for (uint32_t k = 0; k < count; ++k) {
            wait(shared.walked[k % Stages], k);
            store(k, ptx::shared_address(stage(k)));
            ptx::end_store_group();
            ptx::wait_for_stores_to_read<0>();
            ptx::arrive(ptx::shared_address(&shared.stored[k % Stages]));
        }
    }
};

// Loads and stores of a chunk. Dense strips are copied as plain bytes, others as boxes of the tensor maps.
template <typename Config, bool Down>
struct StripCopies {
    static constexpr int size = Config::size, tile = Config::tile_bytes;
    static constexpr int shift = Down ? -1 : 1;  // from a step to the one whose state is h before it, backward

    const LinearParams& p;
    const FewLongStripsParams& w;
    const TensorMaps& maps;
    int rows;  // rows of a chunk

    __device__ __forceinline__ bool gate_wanted() const { return Config::backward && p.states.data != nullptr; }
    __device__ __forceinline__ int step_bytes() const { return rows * size; }
    // The address of step t in a dense strip.
    __device__ __forceinline__ char* address(const View& view, const StripChunk& at, int64_t t) const {
        return view.data + at.batch * view.batch + t * step_bytes();
    }

    __device__ __forceinline__ void load(const StripChunk& at, uint32_t to, uint32_t barrier) const {
        if (w.dense == 0) return load_boxes(at, to, barrier);
        const uint32_t bytes = static_cast<uint32_t>(at.steps * step_bytes());
        const int64_t first = max(at.t0 + shift, int64_t{0}), last = min(at.t0 + at.steps + shift, p.time);
        const uint32_t states_bytes = gate_wanted() ? static_cast<uint32_t>(last - first) * step_bytes() : 0;
        ptx::expect_bytes(barrier, 2 * bytes + states_bytes);
        ptx::load_bytes(to, address(p.gate, at, at.t0), bytes, barrier);
        ptx::load_bytes(to + tile, address(p.source, at, at.t0), bytes, barrier);
        const int64_t place = (first - at.t0 - shift) * step_bytes();
        if (states_bytes > 0)
            ptx::load_bytes(to + 2 * tile + static_cast<uint32_t>(place), address(p.states, at, first), states_bytes,
                            barrier);
    }
    // Calls body(place in the tile, step) for each box of a chunk; a box has all rows of the chunk and some of its
    // steps.
    template <typename Body>
    __device__ __forceinline__ void for_boxes(const StripChunk& at, Body&& body) const {
        for (int t = 0; t < at.steps; t += w.box_steps)
            body(static_cast<uint32_t>(t * step_bytes()), static_cast<int>(at.t0) + t);
    }
    __device__ __forceinline__ void load_boxes(const StripChunk& at, uint32_t to, uint32_t barrier) const {
        const int x = static_cast<int>(at.group) * rows, z = static_cast<int>(at.batch);
        const uint32_t boxes = static_cast<uint32_t>((at.steps + w.box_steps - 1) / w.box_steps);
        ptx::expect_bytes(barrier, boxes * w.box_steps * step_bytes() * (gate_wanted() ? 3 : 2));
        for_boxes(at, [&](uint32_t place, int t) {
            ptx::load_box(to + place, &maps.gate, x, t, z, barrier);
            ptx::load_box(to + tile + place, &maps.source, x, t, z, barrier);
            if (gate_wanted()) ptx::load_box(to + 2 * tile + place, &maps.states, x, t + shift, z, barrier);
        });
    }

    __device__ __forceinline__ void store(const StripChunk& at, uint32_t from) const {
        if (p.result.data != nullptr) store(at, from + tile, p.result, maps.result);
        if (gate_wanted()) store(at, from, p.grad_gate, maps.grad_gate);
    }
    __device__ __forceinline__ void store(const StripChunk& at, uint32_t from, const View& view,
                                          const CUtensorMap& map) const {
        if (w.dense != 0)
            return ptx::store_bytes(address(view, at, at.t0), from, static_cast<uint32_t>(at.steps * step_bytes()));
        for_boxes(at, [&](uint32_t place, int t) {
            ptx::store_box(from + place, &map, static_cast<int>(at.group) * rows, t, static_cast<int>(at.batch));
        });
    }
};

}  // namespace flashscan::cuda
