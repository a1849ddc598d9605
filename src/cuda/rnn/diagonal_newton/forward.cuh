// SPDX-License-Identifier: Apache-2.0
// The kernel "diagonal_newton", rnn_diagonal_newton_forward: recurrent networks of heads of one unit, parallel in time.
//
// Time is cut into segments. The states s_w before each are unknowns, of which the first is the carry, and
// s_(w+1) = F_w(s_w), where F_w walks the steps of a segment. Newton's iteration on all of them at once (multiple
// shooting) is, from any start,
//
//     e_w = F_w(s_w),  A_w = F_w'(s_w)           all segments side by side, step by step
//     s'_0 = s_0,  s'_(w+1) = e_w + A_w (s'_w - s_w)           a scan over the segments
//
// A_w is the product of the Jacobians of the steps: 1 x 1, of LSTMs 2 x 2. A segment whose s'_w is s_w within rounding
// is settled, and what its walk wrote stands; others walk again from s'_w. Since s_0 is right, walk k settles segment k
// at the latest, both counted from 0, whatever the network does: the steps are then those of "diagonal", segment after
// segment, and no fallback is needed.
//
// Ownership  A block has 32 units of one row: a lane has a unit, a warp a segment. Where rows are few, a cluster of
//            blocks shares these units and has a segment for each of its warps. Segments that are walked at once are a
//            chunk, whose last states enter the next chunk.
// Bytes      INPUT is read once, into shared memory. OUTPUT and RESERVE are written by every walk but the first, and of
//            the first segment by that too.
// Bound      Instructions of 2 to 5 walks, about 100 for each step of a GRU and lane. With 3 walks 132 multiprocessors
//            take 3 x 8192 x 100 / (132 x 128) = 145 cycles a step for 8192 units and 5 for 256, where "diagonal" takes
//            310 for any number. Where segments are few, each walk takes the latency of a segment's steps.
// Sync       An iteration has two barriers of the block, and in clusters two of the cluster as well.
// Limits     Cells whose steps have a derivative.
#pragma once

#include "cuda/device/ptx/cluster.cuh"
#include "cuda/rnn/diagonal/chain.cuh"
#include "cuda/rnn/diagonal_newton/params.h"

namespace flashscan::cuda {

template <typename X, typename Cell>
struct RnnNewtonForward {
    using Wide = typename Element<X>::Wide;
    using Real = RnnChainReal<X>;
    static constexpr int G = Cell::gates, P = Cell::biases, S = Cell::states, K = Cell::kept;
    static constexpr int fetched = rnn_newton_fetched(G);
    static constexpr int numbers = rnn_newton_numbers(S);
    // A start is right if it is off by no more than this part of the recent magnitude of its state: a few roundings in
    // f32, and for 16-bit data less than the rounding of the data.
    static constexpr double tolerance = sizeof(X) == 4 ? 0x1p-21 : 0x1p-17;

    // What a segment, or a block for all of its segments, shares with the others: the states before and after its
    // steps, the Jacobian of the latter by the former, and the recent magnitude of the states.
    struct Told {
        Wide start[S], end[S], slope[S][S], scale[S];
    };

    const RnnNewtonParams& given;
    const RnnDiagonalParams& f;
    const int blocks, most;
    const int rank, warp, warps;  // the block's place in its cluster; the warp's in its block, which has `warps`
    RnnChain chain;
    Wide* const segments;  // [warps, numbers, 32]
    Wide* const ranks;     // [blocks, numbers, 32]
    Wide* const carried;   // [S, 32]
    int* const flags;      // [blocks]
    X* const inputs;       // [steps, G, 32], of the warp
    Wide weight[G], bias[P];
    Told own;
    int64_t first = 0;  // step of the warp's segment
    int count = 0;      // its steps; the last segments of a row may have none
    // How far its start is from what the ends of the segments before it ask for, relative to the recent magnitude of
    // the states; computed only where RESIDUAL is asked for.
    Wide off = 0;
    uint64_t resets = 0;  // a bit for each of its steps, which find_segment loads 32 at a time, twice
    static_assert(rnn_newton_steps <= 64);

    static __device__ __forceinline__ Wide* memory() {
        extern __shared__ uint4 flashscan_newton_memory[];
        return reinterpret_cast<Wide*>(flashscan_newton_memory);
    }

    __device__ __forceinline__ explicit RnnNewtonForward(const RnnNewtonParams& params)
        : given(params),
          f(params.d),
          blocks(params.blocks),
          most(params.steps),
          rank(static_cast<int>(blockIdx.x) % params.blocks),
          warp(static_cast<int>(threadIdx.x) / 32),
          warps(static_cast<int>(blockDim.x) / 32),
          chain(f, static_cast<int>(blockIdx.x) / params.blocks, static_cast<int>(threadIdx.x) % 32),
          segments(memory()),
          ranks(segments + warps * numbers * 32),
          carried(ranks + (blocks > 1 ? blocks : 0) * numbers * 32),
          flags(reinterpret_cast<int*>(carried + S * 32)),
          inputs(reinterpret_cast<X*>(flags + rnn_newton_flags) + static_cast<ptrdiff_t>(warp) * most * G * 32) {
        load_parameters<X>(f, f.weight, chain.unit, weight);
        load_parameters<X>(f, f.p.bias, chain.unit, bias);
    }

    // The numbers of a slot in the order of Told, the lanes of a number side by side.
    __device__ __forceinline__ void put(Wide* slot, const Told& told) const {
#pragma unroll
        for (int i = 0; i < S; ++i) {
            slot[i * 32 + chain.lane] = told.start[i];
            slot[(S + i) * 32 + chain.lane] = told.end[i];
            slot[(2 * S + i) * 32 + chain.lane] = told.scale[i];
#pragma unroll
            for (int j = 0; j < S; ++j) slot[((3 + i) * S + j) * 32 + chain.lane] = told.slope[i][j];
        }
    }
    __device__ __forceinline__ Told get(const Wide* slot) const {
        Told told;
#pragma unroll
        for (int i = 0; i < S; ++i) {
            told.start[i] = slot[i * 32 + chain.lane];
            told.end[i] = slot[(S + i) * 32 + chain.lane];
            told.scale[i] = slot[(2 * S + i) * 32 + chain.lane];
#pragma unroll
            for (int j = 0; j < S; ++j) told.slope[i][j] = slot[((3 + i) * S + j) * 32 + chain.lane];
        }
        return told;
    }

    // Returns the larger number; where one of them is NaN, the other.
    static __device__ __forceinline__ Wide larger(Wide a, Wide b) { return fmaxf(a, b); }
    static __device__ __forceinline__ Wide magnitude(Wide a) { return fabsf(a); }
    // a - b, which is 0 for infinities and NaNs that are the same.
    static __device__ __forceinline__ Wide difference(Wide a, Wide b) {
        return a == b || (a != a && b != b) ? Wide(0) : a - b;
    }
    // Corrects a segment's end to first order for a change d of its start: end + slope d. d = 0 leaves the end exact,
    // whatever the slope is.
    static __device__ __forceinline__ void apply(const Told& told, const Wide (&d)[S], Wide (&end)[S]) {
#pragma unroll
        for (int i = 0; i < S; ++i) {
            end[i] = told.end[i];
#pragma unroll
            for (int j = 0; j < S; ++j)
                end[i] = d[j] != Wide(0) ? multiply_add(told.slope[i][j], d[j], end[i]) : end[i];
        }
    }
    static __device__ __forceinline__ void multiply(const Wide (&a)[S][S], Wide (&b)[S][S]) {
        Wide product[S][S];
#pragma unroll
        for (int i = 0; i < S; ++i)
#pragma unroll
            for (int j = 0; j < S; ++j) {
                product[i][j] = a[i][0] * b[0][j];
#pragma unroll
                for (int k = 1; k < S; ++k) product[i][j] = multiply_add(a[i][k], b[k][j], product[i][j]);
            }
#pragma unroll
        for (int i = 0; i < S; ++i)
#pragma unroll
            for (int j = 0; j < S; ++j) b[i][j] = product[i][j];
    }
    static __device__ __forceinline__ void set_identity(Wide (&a)[S][S]) {
#pragma unroll
        for (int i = 0; i < S; ++i)
#pragma unroll
            for (int j = 0; j < S; ++j) a[i][j] = Wide(i == j ? 1 : 0);
    }

    // Computes the Jacobian of a step, a row at a time, by the cell's backward with a unit vector as the gradient.
    __device__ __forceinline__ void jacobian_of(const Real (&keep)[K], const Wide (&before)[S],
                                                Wide (&rows)[S][S]) const {
        Real previous[S], slopes[Cell::slopes];
        Wide kept[K];
        as_numbers(before, previous);
        as_values(keep, kept);
        Cell::slopes_of(keep, previous, slopes);
#pragma unroll
        for (int i = 0; i < S; ++i) {
            Real carry[S], d[P];
#pragma unroll
            for (int j = 0; j < S; ++j) carry[j] = Real(Wide(i == j ? 1 : 0));
            Cell::backward(slopes, carry, d);
            Wide d_pre[P];
            as_values(d, d_pre);
            as_values(carry, rows[i]);
            rows[i][0] += rnn_chain_through<Cell>(weight, kept, before, d_pre);
        }
    }

    // Computes what is left of the recent magnitude after a step with Jacobian `rows`: as much as would be left of a
    // rounding of that size, |rows| scale, and at most half of it.
    __device__ __forceinline__ void damp(const Wide (&rows)[S][S], Wide (&left)[S]) const {
#pragma unroll
        for (int a = 0; a < S; ++a) {
            Wide through = magnitude(rows[a][0]) * own.scale[0];
#pragma unroll
            for (int b = 1; b < S; ++b) through = multiply_add(magnitude(rows[a][b]), own.scale[b], through);
            left[a] = fminf(through, own.scale[a] * Wide(0.5));
        }
    }

    // Walks the segment from own.start, and finds the rest of `own`. The first walk fetches INPUT.
    __device__ __forceinline__ void walk(bool fetches, bool stores) {
        const RnnParams& p = f.p;
        RnnCursor<const X> input = chain.in_tensor(static_cast<const X*>(p.input), p.input_strides, first);
        RnnCursor<X> output = chain.in_tensor(static_cast<X*>(p.output), p.output_strides, first);
        RnnCursor<Wide> kept = chain.in_reserve<Wide>(f, p.kept, K, first);
        const bool keeps = stores && p.kept != nullptr, all_states = S > 1 && p.output_states > 1;
        Wide state[S];
#pragma unroll
        for (int s = 0; s < S; ++s) state[s] = own.start[s], own.scale[s] = magnitude(state[s]);
        set_identity(own.slope);
        X now[fetched][G], next[fetched][G];
        const auto fetch = [&](int from) {
#pragma unroll
            for (int k = 0; k < fetched; ++k) {
                if (from + k >= count) continue;
#pragma unroll
                for (int g = 0; g < G; ++g) next[k][g] = input.at[g * p.input_strides.state];
                input.move();
            }
        };
        if (fetches) fetch(0);
#pragma unroll 1
        for (int i = 0; i < count; i += fetched) {
            X* const place = inputs + i * (G * 32) + chain.lane;
#pragma unroll
            for (int k = 0; k < fetched; ++k)
#pragma unroll
                for (int g = 0; g < G; ++g) {
                    if (fetches) place[(k * G + g) * 32] = next[k][g];
                    now[k][g] = fetches ? next[k][g] : place[(k * G + g) * 32];
                }
            if (fetches) fetch(i + fetched);
#pragma unroll
            for (int k = 0; k < fetched; ++k) {
                if (i + k >= count) break;
                const bool reset = (resets >> (i + k) & 1) != 0;
                Wide before[S], rows[S][S];
#pragma unroll
                for (int s = 0; s < S; ++s) before[s] = state[s] = reset ? Wide(0) : state[s];
                Real keep[K];
                rnn_chain_step<X, Cell>(now[k], weight, bias, state, keep);
                jacobian_of(keep, before, rows);
                multiply(rows, own.slope);
                Wide left[S];
                damp(rows, left);
#pragma unroll
                for (int a = 0; a < S; ++a) {
                    own.scale[a] = larger(magnitude(state[a]), reset ? Wide(0) : left[a]);
#pragma unroll
                    for (int b = 0; b < S; ++b) own.slope[a][b] = reset ? Wide(0) : own.slope[a][b];
                }
                if (!stores) continue;
                output.at[0] = Element<X>::narrow(state[0]);
                if (all_states)
#pragma unroll
                    for (int s = 1; s < S; ++s) output.at[s * p.output_strides.state] = Element<X>::narrow(state[s]);
                output.move();
                if (!keeps) continue;
#pragma unroll
                for (int j = 0; j < K; ++j) kept.at[j * rnn_diagonal_units] = value_of(keep[j]);
                kept.move();
            }
        }
#pragma unroll
        for (int s = 0; s < S; ++s) own.end[s] = state[s];
    }

    // Scans the block's segments and returns their composition: the start of the first, the end to which that start
    // leads, its Jacobian, and the scale of the last. `before` receives the exclusive prefix; the first warp has none.
    __device__ __forceinline__ Told compose(Told& before) const {
        Told all = own;
        Wide d[S];
        set_identity(all.slope);
#pragma unroll 1
        for (int v = 0; v < warps; ++v) {
            const Told told = get(segments + v * numbers * 32);
#pragma unroll
            for (int s = 0; s < S; ++s) {
                d[s] = v == 0 ? Wide(0) : difference(all.end[s], told.start[s]);
                if (v == 0) all.start[s] = told.start[s];
                all.scale[s] = told.scale[s];
            }
            if (v == warp) before = all;
            apply(told, d, all.end);
            multiply(told.slope, all.slope);
        }
        return all;
    }

    __device__ __forceinline__ void tell_carry(int block) const {
        Wide* const to = blocks > 1 ? ptx::pointer_in(carried, block) : carried;
#pragma unroll
        for (int s = 0; s < S; ++s) to[s * 32 + chain.lane] = own.end[s];
    }

    // One Newton correction, after walk k of all segments: finds the segment's new start by a scan over the ends and
    // Jacobians of the segments before it, adopts it if the segment has to walk again, and returns whether it has to.
    // `again` becomes whether any segment of the cluster has to.
    __device__ __forceinline__ bool correct(int64_t segment, int k, bool& again) {
        put(segments + warp * numbers * 32, own);
        __syncthreads();
        Told before = own;
        const Told all = compose(before);
        Wide start[S], scale[S], d[S] = {};
#pragma unroll
        for (int s = 0; s < S; ++s) start[s] = own.start[s], scale[s] = Wide(0);
        if (blocks > 1) {
            for (int r = rank + 1 + warp; r < blocks; r += warps)
                put(ptx::pointer_in(ranks, r) + rank * numbers * 32, all);
            ptx::cluster_barrier();
            Wide end[S] = {};
#pragma unroll 1
            for (int r = 0; r < rank; ++r) {
                const Told told = get(ranks + r * numbers * 32);
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    if (r > 0) d[s] = difference(end[s], told.start[s]);
                    scale[s] = told.scale[s];
                }
                apply(told, d, end);
            }
            if (rank > 0)
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    d[s] = difference(end[s], all.start[s]);
                    if (warp == 0) start[s] = end[s];
                }
        }
        if (warp > 0) {
            apply(before, d, start);
#pragma unroll
            for (int s = 0; s < S; ++s) scale[s] = before.scale[s];
        }
        bool walks = k == 0;
#pragma unroll
        for (int s = 0; s < S; ++s) {
            // Relative to an infinite magnitude every finite difference is small, although later states may be finite
            // again. The start then has to be equal.
            if (scale[s] == Wide(INFINITY)) scale[s] = Wide(0);
            walks = walks || !(magnitude(difference(start[s], own.start[s])) <= scale[s] * Wide(tolerance));
        }
        walks = __any_sync(0xffffffffU, walks) && segment > k && count > 0;
        if (given.residual != nullptr) {
            off = Wide(0);
#pragma unroll
            for (int s = 0; s < S; ++s) {
                const Wide by = magnitude(difference(start[s], own.start[s]));
                if (by > Wide(0) && count > 0) off = larger(off, by / scale[s]);
            }
        }
        if (rank == blocks - 1 && warp == warps - 1)
            for (int r = 0; r < blocks; ++r) tell_carry(r);
        again = __syncthreads_or(walks) != 0;
        if (blocks > 1) {
            const int thread = static_cast<int>(threadIdx.x);
            if (thread < blocks) *ptx::pointer_in(flags + rank, thread) = static_cast<int>(again);
            __syncwarp();  // the barrier takes whole warps
            ptx::cluster_barrier();
            again = __any_sync(0xffffffffU, chain.lane < blocks && flags[chain.lane] != 0) != 0;
        }
        if (walks)
#pragma unroll
            for (int s = 0; s < S; ++s) own.start[s] = start[s];
        return walks;
    }

    // Adds a chunk, whose segments were walked `walks` times, to ITERATIONS and RESIDUAL of its row.
    __device__ __forceinline__ void tell_counts(int64_t segment, int walks) const {
        if (given.iterations != nullptr && segment == 0 && chain.lane == 0)
            atomicMax(given.iterations + chain.row, walks);
        if (given.residual == nullptr) return;
        // Numbers of at least 0 are in the order of their bits.
        const int most_off = __reduce_max_sync(0xffffffffU, __float_as_int(static_cast<float>(off)));
        if (most_off > 0 && chain.lane == 0) atomicMax(reinterpret_cast<int*>(given.residual) + chain.row, most_off);
    }

    __device__ __forceinline__ void find_segment(int64_t chunk, int64_t segment, int steps) {
        first = chunk + segment * steps;
        count = static_cast<int>(max(min(chain.count - first, int64_t{steps}), int64_t{0}));
        resets = 0;
        if (f.p.reset == nullptr) return;
        resets = RnnChain::resets_of(f.p, chain.load_resets(f.p, first));
        if (count > 32)
            resets |= static_cast<uint64_t>(RnnChain::resets_of(f.p, chain.load_resets(f.p, first + 32))) << 32;
    }

    __device__ __forceinline__ void run() {
        const int64_t side_by_side = static_cast<int64_t>(blocks) * warps, segment = rank * warps + warp;
        const int64_t chunks = (chain.count + side_by_side * most - 1) / (side_by_side * most);
        const int64_t cut = chunks * side_by_side;
        const int steps = chunks == 0 ? 0 : max(static_cast<int>((chain.count + cut - 1) / cut), rnn_newton_least);
        chain.load_states(f.p, f.p.state_in, own.start);
        if (chain.count == 0 && segment == 0) chain.store_rows(f.p, f.p.state_out, own.start);
        // Blocks write to each other's shared memory once all of them are there.
        if (blocks > 1) ptx::cluster_barrier();
#pragma unroll 1
        for (int64_t chunk = 0; chunk < chain.count; chunk += side_by_side * steps) {
            find_segment(chunk, segment, steps);
            bool walks = count > 0, again = true;
#pragma unroll
            for (int s = 0; s < S; ++s) own.end[s] = own.start[s], own.scale[s] = Wide(0);
            set_identity(own.slope);
            int k = 0;
#pragma unroll 1
            for (; again; ++k) {
                if (walks) walk(k == 0, k > 0 || segment == 0);
                walks = correct(segment, k, again);
            }
            tell_counts(segment, k);
            if (count > 0 && first + count == chain.count) chain.store_rows(f.p, f.p.state_out, own.end);
#pragma unroll
            for (int s = 0; s < S; ++s) own.start[s] = carried[s * 32 + chain.lane];
        }
    }
};

template <typename X, typename Cell>
__global__ void __launch_bounds__(32 * rnn_newton_warps, 1)
    rnn_diagonal_newton_forward(const __grid_constant__ RnnNewtonParams params) {
    RnnNewtonForward<X, Cell>(params).run();
}

}  // namespace flashscan::cuda
