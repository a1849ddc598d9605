// SPDX-License-Identifier: Apache-2.0
// The gradient of a gate that is broadcast over batch, time or channels: the sum of g[t] conj(h[t-1]) da/dg over all
// elements that share the gate, in a fixed order. The file also holds the kernel that copies the states of packed
// sequences without steps.
//
// Ownership  Kernels sum over time in registers and shared memory, and "columns" over the channels of a warp. They
//            leave partial sums in the arithmetic's dtype. Gates that many rows share in another way are summed over
//            warps of a block (block_sums.cuh); others count as a gate of each element, with a gradient for each. The
//            kernel reduce_gate_gradient adds these terms in a fixed order: a thread has a gate or several neighbours,
//            or up to a block has a gate where gates are few.
// Bytes      Terms are written once and read once: one for each chunk and row or strip of rows, for each step and
//            strip, for each step and 2 to 8 rows, or for each element.
// Gates      What all elements that share a gate have in common is done once for each gate: where it is given as a log
//            or logit, find_gate_values computes its value before, and its derivative is a factor of the sum. Values
//            are in the arithmetic's dtype. Gates of 16 bits by value become f32 too where terms are of each element,
//            so that kernels for f32 gates write these in f32. Where warps of a block share 16-bit logs or logits, each
//            computes values and derivatives itself.
// Sync       Warps of a block synchronise by __syncthreads; find_gate_values is a launch before the kernel, and
//            reduce_gate_gradient one after it.
// Limits     None.
#pragma once

#include "cuda/device/scan/chained_rows.cuh"
#include "cuda/linear/params.h"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

// The address of a partial sum in global memory.
template <typename GateWide>
__device__ __forceinline__ GateWide* partial_sum(const LinearParams& p, int64_t batch, int64_t time_slot,
                                                 int64_t row_slot) {
    return static_cast<GateWide*>(p.partial) + (batch * p.partial_time + time_slot) * p.partial_rows + row_slot;
}

// All-reduce over lanes by xor shuffles at the distances `from`, 2 `from`, ... below `to`.
template <typename GateWide>
__device__ __forceinline__ GateWide total_over_lanes(GateWide value, int from, int to) {
    for (int distance = from; distance < to; distance *= 2)
        value = value + shuffle(value, static_cast<int>(threadIdx.x & 31U) ^ distance);
    return value;
}

// Sums over time in the kernels "rows" and "columns". A warp has a strip of `Strip` rows: V of each lane, or one that
// all lanes share. Blocks leave a partial sum for each chunk and row, or, if rows are summed too, for each chunk and
// strip.
template <typename GateWide, int V, int Strip>
struct TimeSums {
    static constexpr bool shared_row = Strip == 1;
    static constexpr int lanes = shared_row ? 1 : 32;
    GateWide sum[V]{};

    // Whether sums are wanted, which is the same for all threads of a launch.
    static __device__ __forceinline__ bool wanted(const LinearParams& p) { return p.partial != nullptr; }
    __device__ __forceinline__ void add(const GateWide (&values)[V]) {
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] = sum[v] + values[v];
    }
    // Adds up the sums of a block's warps in the order of the walk and writes them; all threads must call it. If one of
    // them has to walk `again`, it writes nothing and returns true to all.
    __device__ __forceinline__ bool write(const LinearParams& p, const Place& at, int64_t chunk,
                                          const WarpsInTime& warps, bool again) {
        __shared__ GateWide of_warps[chained_warps][V][lanes];
        const int lane = shared_row ? 0 : at.lane;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (shared_row) sum[v] = total_over_lanes(sum[v], 1, 32);
            of_warps[warps.first + warps.mine * warps.step][v][lane] = sum[v];
        }
        if (__syncthreads_or(again) != 0) return true;
        if (warps.mine > 0) return false;
        GateWide strip{};
#pragma unroll
        for (int v = 0; v < V; ++v) {
            for (int w = 1; w < warps.count; ++w) sum[v] = sum[v] + of_warps[warps.first + w * warps.step][v][lane];
            if (v < at.rows) strip = strip + sum[v];
            if (v < at.rows && !p.sum_rows && at.lane < lanes)
                *partial_sum<GateWide>(p, at.batch, chunk, at.row + v) = sum[v];
        }
        if (!p.sum_rows) return false;
        if (!shared_row) strip = total_over_lanes(strip, 1, 32);
        if (at.lane == 0 && at.warp_rows > 0) *partial_sum<GateWide>(p, at.batch, chunk, at.warp_row / Strip) = strip;
        return false;
    }
};

// Sums over the rows of a strip for each step in the kernel "columns", whose lanes have all of their rows or none. The
// gradients lie in the tile in the gates' place.
template <typename Ty, typename Shape, int Strip>
struct StepSums {
    using G = typename Ty::G;
    using GateWide = typename Ty::GateWide;
    using Tile = Steps<G, Shape>;
    static constexpr int L = Shape::L, V = Shape::V;
    static constexpr bool narrow = sizeof(G) == 2;  // a pair's sum has the word of its gates
    static_assert(!narrow || V == 2);

    // Whether sums are wanted, which is the same for all threads of a launch.
    static __device__ __forceinline__ bool wanted(const LinearParams& p) {
        return p.partial != nullptr && p.sum_time == 0;
    }
    // Puts the gradients of step i in the place of 16-bit gates.
    static __device__ __forceinline__ void put(Tile& gate, int i, const GateWide (&values)[V]) {
        gate.word[i] = __float_as_uint(values[0] + values[V - 1]);
    }
    static __device__ __forceinline__ GateWide of_lane(const Tile& gate, int i) {
        if constexpr (narrow) {
            return __uint_as_float(gate.word[i]);
        } else {
            GateWide sum = gate.get(i, 0);
#pragma unroll
            for (int v = 1; v < V; ++v) sum = sum + gate.get(i, v);
            return sum;
        }
    }
    // A reduce-scatter over L lanes: in each round a lane passes half of its steps to another lane and keeps the other
    // half, until it holds the sum of one step.
    template <int Half>
    static __device__ __forceinline__ void fold(GateWide (&sum)[L], int lane) {
        if constexpr (Half > 0) {
            const bool upper = (lane & Half) != 0;
#pragma unroll
            for (int i = 0; i < Half; ++i) {
                const GateWide kept = upper ? sum[i + Half] : sum[i], given = upper ? sum[i] : sum[i + Half];
                sum[i] = kept + shuffle(given, lane ^ Half);
            }
            fold<Half / 2>(sum, lane);
        }
    }
    // Writes a partial sum for each step; all lanes of the warp must call it.
    static __device__ __forceinline__ void write(const LinearParams& p, const Place& at, const Tile& gate) {
        GateWide sum[L];
#pragma unroll
        for (int i = 0; i < L; ++i) sum[i] = i < at.steps ? of_lane(gate, i) : GateWide{};
        fold<L / 2>(sum, at.lane);
        const GateWide total = total_over_lanes(sum[0], L, 32);
        if (at.warp_rows > 0 && at.lane < min(L, at.warp_steps))
            *partial_sum<GateWide>(p, at.batch, at.warp_t0 + at.lane, at.warp_row / Strip) = total;
    }
};

// Sums over time in the kernel "chunked", one for each row of a lane.
template <typename Ty, typename Shape, int Warps>
struct ChunkTimeSums {
    using GateWide = typename Ty::GateWide;
    static constexpr int V = Shape::V, threads = 32 * Warps;
    GateWide sum[V]{};

    // Whether sums are wanted, which is the same for all threads of a launch.
    static __device__ __forceinline__ bool wanted(const LinearParams& p) {
        return Shape::backward && p.partial != nullptr;
    }
    __device__ __forceinline__ void add(const GateWide (&values)[V]) {
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] = sum[v] + values[v];
    }
    // Writes the block's sums: one partial sum for each row, or one for all rows. `warp_row` and `warp_time` are the
    // warp's place in the block, `group` and `chunk` the block's. If a thread has to walk `again`, it writes nothing
    // and returns true to all.
    __device__ __forceinline__ bool write(const LinearParams& p, const Place& at, int64_t group, int64_t chunk,
                                          int warp_row, int warp_time, bool again) const {
        __shared__ GateWide warp_sums[Shape::max_rows * Warps];
        const int warp_rows = V << at.log2_rows, rows = warp_rows << p.log2_warp_rows;
        const int warps_in_time = Warps >> p.log2_warp_rows, thread = static_cast<int>(threadIdx.x);
        for (int v = 0; v < V; ++v) {
            const GateWide over_segments = Shape::time_inner ? total_over_lanes(sum[v], 1, at.segments())
                                                             : total_over_lanes(sum[v], 1 << at.log2_rows, 32);
            if (at.segment == 0) warp_sums[warp_time * rows + warp_row * warp_rows + at.pack * V + v] = over_segments;
        }
        if (__syncthreads_or(again) != 0) return true;
#pragma unroll 1
        for (int row = thread; row < rows; row += threads)
#pragma unroll 1
            for (int w = 1; w < warps_in_time; ++w) warp_sums[row] = warp_sums[row] + warp_sums[w * rows + row];
        __syncthreads();
        if (!p.sum_rows) {
#pragma unroll 1
            for (int row = thread; row < rows; row += threads)
                if (group * rows + row < p.rows)
                    *partial_sum<GateWide>(p, at.batch, chunk, group * rows + row) = warp_sums[row];
        } else if (thread == 0) {
            GateWide total = warp_sums[0];
            for (int row = 1; row < rows; ++row) total = total + warp_sums[row];
            *partial_sum<GateWide>(p, at.batch, chunk, group) = total;
        }
        return false;
    }
};

// The terms of neighbouring sums, which are loaded as one vector.
template <typename GateWide, int Pack>
struct Terms {
    GateWide of[Pack];

    static __device__ __forceinline__ Terms load(const char* from) {
        if constexpr (Pack == 1) return {{*reinterpret_cast<const GateWide*>(from)}};
        static_assert(Pack == 1 || sizeof(Terms) == sizeof(uint4));
        const uint4 words = *reinterpret_cast<const uint4*>(from);
        Terms terms;
        memcpy(&terms, &words, sizeof(terms));
        return terms;
    }
    __device__ __forceinline__ void add(const Terms& other) {
#pragma unroll
        for (int k = 0; k < Pack; ++k) of[k] = of[k] + other.of[k];
    }
};

// Computes sums, `Pack` neighbours of the second kept axis a thread. Threads of a block that share sums are neighbours
// or lie as far apart as sums are computed at once. A thread asks for eight terms before it adds them.
template <typename G, int Pack>
__device__ __forceinline__ void sum_terms(const ReduceParams& p) {
    using GateWide = typename Element<G>::Wide;
    using Sums = Terms<GateWide, Pack>;
    constexpr int asked = 8;
    __shared__ Sums of_threads[reduce_threads];
    const ReduceAxis &y = p.kept[0], &x = p.kept[1], &outer = p.summed[0], &inner = p.summed[1];
    const bool neighbours = p.neighbours != 0;
    const int width = p.width, at_once = reduce_threads / width, thread = static_cast<int>(threadIdx.x);
    const int mine = neighbours ? thread / width : thread % at_once;
    const int part = neighbours ? thread % width : thread / at_once, apart = neighbours ? 1 : at_once;
    const StepRange steps = steps_that_exist(p.offsets, 0, p.offsets.time);
    const auto exists = [&](int64_t i, int64_t j) {
        const int64_t step = p.time_axis == 0 ? i : j;
        return p.time_axis < 0 || (step >= steps.begin && step < steps.end);
    };
    for (int64_t i = blockIdx.y; i < y.count; i += gridDim.y)
        for (int64_t first = static_cast<int64_t>(blockIdx.x) * at_once * Pack; first < x.count;
             first += static_cast<int64_t>(gridDim.x) * at_once * Pack) {
            const int64_t j = first + mine * Pack;
            Sums sum{};
            if (j < x.count && (Pack > 1 || exists(i, j)))
                for (int64_t o = 0; o < outer.count; ++o) {
                    const char* const from = p.terms + i * y.terms + j * x.terms + o * outer.terms;
                    for (int64_t term = part; term < inner.count; term += asked * width) {
                        Sums terms[asked];
#pragma unroll
                        for (int k = 0; k < asked; ++k) {
                            const int64_t at = term + k * width;
                            terms[k] = at < inner.count ? Sums::load(from + at * inner.terms) : Sums{};
                        }
#pragma unroll
                        for (int k = 0; k < asked; ++k) sum.add(terms[k]);
                    }
                }
            if (width > 1) {
                of_threads[thread] = sum;
                for (int parts = width / 2; parts > 0; parts /= 2) {
                    __syncthreads();
                    if (part >= parts) continue;
                    sum.add(of_threads[thread + parts * apart]);
                    of_threads[thread] = sum;
                }
                __syncthreads();
            }
            if (part != 0 || j >= x.count) continue;
#pragma unroll
            for (int k = 0; k < Pack; ++k) {
                if (!exists(i, j + k)) continue;
                GateWide total = sum.of[k];
                // A sum of zeros, as of resets, is zero whatever the gate is.
                if (p.gate_form != gate_value && !is_zero(total)) {
                    const char* const from = p.gate + i * y.gate + (j + k) * x.gate;
                    const GateWide gate = Element<G>::widen(*reinterpret_cast<const G*>(from));
                    total = multiply(total, conj(gate_derivative(p.gate_form, gate, gate_of(p.gate_form, gate))));
                }
                *reinterpret_cast<G*>(p.gradient + i * y.gradient + (j + k) * x.gradient) = Element<G>::narrow(total);
            }
        }
}

// Adds up terms and writes the gradient, zeros where there are no terms.
template <typename G>
__global__ void __launch_bounds__(reduce_threads) reduce_gate_gradient(const __grid_constant__ ReduceParams p) {
    constexpr int pack = reduce_bytes / static_cast<int>(sizeof(typename Element<G>::Wide));
    if constexpr (pack > 1)
        if (p.pack > 1) return sum_terms<G, pack>(p);
    sum_terms<G, 1>(p);
}

// Writes the values of gates to dense memory, in the arithmetic's dtype. A thread takes one gate after another.
template <typename G>
__global__ void __launch_bounds__(reduce_threads) find_gate_values(const __grid_constant__ GateValuesParams p) {
    using GateWide = typename Element<G>::Wide;
    const GateAxis &y = p.axis[0], &x = p.axis[1];
    for (int64_t i = blockIdx.y; i < y.count; i += gridDim.y)
        for (int64_t j = static_cast<int64_t>(blockIdx.x) * reduce_threads + threadIdx.x; j < x.count;
             j += static_cast<int64_t>(gridDim.x) * reduce_threads) {
            const char* const from = p.from + i * y.stride + j * x.stride;
            const GateWide gate = Element<G>::widen(*reinterpret_cast<const G*>(from));
            static_cast<GateWide*>(p.to)[i * x.count + j] =
                p.gate_form == gate_value ? gate : gate_of(p.gate_form, gate);
        }
}

// Copies the carry that enters a packed sequence without steps to the one that leaves it. A block takes a sequence at a
// time, a thread a channel.
template <typename Wide>
__global__ void __launch_bounds__(256) pass_empty_sequences(const __grid_constant__ EmptyParams p) {
    for (int64_t n = blockIdx.x; n < p.offsets.sequences; n += gridDim.x) {
        if (load_offset(p.offsets, n) != load_offset(p.offsets, n + 1)) continue;
        for (int64_t c = threadIdx.x; c < p.channels; c += blockDim.x) {
            const int64_t index = n * p.channels + c;
            static_cast<Wide*>(p.carry_out)[index] =
                p.carry_in != nullptr ? static_cast<const Wide*>(p.carry_in)[index] : Wide{};
        }
    }
}

}  // namespace flashscan::cuda
