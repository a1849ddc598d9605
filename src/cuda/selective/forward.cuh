// SPDX-License-Identifier: Apache-2.0
// The kernel "resident" of selective scans, selective_forward: blocks walk the steps with the states resident in
// registers, without a scan over steps:
//
//     d[t] = softplus(DELTA[t] + BIAS)                                   for each channel
//     h[t] = exp(d[t] A) h[t-1] + d[t] INPUT[t] B[t]                     for each channel and state
//     OUTPUT[t] = (sum over states of C[t] h[t] + D INPUT[t]) silu(OUTPUT_GATE[t])
//
// Ownership  A block owns neighbouring channels of one group and the steps of one row of the states, or of a segment of
//            them. `lanes` lanes of a warp divide the states of a channel; each has `states` of them in registers.
// Segments   Where rows and channels are too few for a GPU, the steps of a row are cut into segments (chunks), in a
//            reduce-then-scan. A first walk finds the states that each segment leaves when it starts from zeros, and
//            the sum of its d; carries.cuh computes the carry into each segment from them, since the product of the
//            factors is exp(A sum d).
// Order      Tile after tile of steps, in the order of the walk. All threads load the tile along the tensors' inner
//            axis, one tile ahead, and put what a step needs into shared memory, where the steps of a channel are
//            neighbours; every lane walks the tile; all threads store it. Sums over a channel's lanes are computed for
//            several steps together (sum_over_states), in the same order for every step.
// Bytes      Every element of INPUT, DELTA, OUTPUT_GATE and OUTPUT moves once, B and C once for every block of
//            channels; with segments INPUT, DELTA and B twice.
// Bound      Each state and step takes an exponential, of which a multiprocessor does 16 in a clock: for 16 states and
//            16-bit data that is longer than the bytes take. A state and step takes five more instructions. On an H200,
//            8 x 2048 channels x 2048 steps, the kernel takes 262 us; at their full rate the bytes would take 65 of it,
//            exponentials 136, instructions 181 and shared memory 165. Four warps a scheduler, for which registers
//            suffice, issue in 69 % of the cycles.
// Sync       Two __syncthreads for each tile. No block waits for another.
// Limits     Up to lanes x states states. Packed sequences are not cut into segments.
#pragma once

#include "cuda/selective/functions.cuh"
#include "cuda/selective/tile.cuh"

namespace flashscan::cuda {

enum class SelectiveWalk {
    output,  // writes OUTPUT
    // Writes the checkpoints that backward needs, or only the states that a segment leaves if started from zeros.
    states,
    // Walks the gradients of the states from the last step to the first, and writes those that a segment leaves.
    adjoint
};

template <typename Shape>
struct SelectiveForwardTile : SelectiveMatrices<Shape, Shape::forward_steps> {
    using Values = SelectiveValues<Shape, Shape::forward_steps>;
    Values delta, scaled;  // d; d INPUT, or the gradient of a step's sum over states
    Values output, gate;   // D INPUT, then OUTPUT; silu(OUTPUT_GATE)
};

template <typename Shape, SelectiveWalk Mode>
struct SelectiveForward {
    using R = typename Shape::R;
    using V = typename Shape::V;
    using X = typename Shape::X;
    using Block = SelectiveBlock<Shape>;
    using Numbers = typename Block::Numbers;
    using Tile = SelectiveForwardTile<Shape>;
    static constexpr bool writes = Mode == SelectiveWalk::output, adjoint = Mode == SelectiveWalk::adjoint;
    static constexpr int steps = Shape::forward_steps, K = Shape::summed, S = Shape::states;
    static constexpr R factor = Shape::complex ? R(2) : R(1);
    using Column = TileColumn<Block, X, steps, Shape::channels>;
    using Places = typename Column::Places;
    static constexpr int turns = Places::turns;

    const Block& block;
    Tile& tile;

    // A thread's elements of the tensors. In the walk `adjoint`, `input` is the gradient of OUTPUT.
    struct Columns {
        Places places;
        Column input, delta, gate, output;
        MatrixColumns<Shape, steps> matrices;
    };
    struct State {
        Numbers rates, h;
        R deltas;       // the sum of d so far; NaN after a reset
        Numbers* kept;  // where the next checkpoint goes
    };

    __device__ __forceinline__ const View& input_view() const { return adjoint ? block.p.grad_output : block.p.input; }

    // Starts the loads of the tile that begins with `step`.
    template <bool Whole>
    __device__ __forceinline__ void fetch(Columns& x, int64_t step, int valid) const {
        const auto fetch = [&](Column& column, const View& view) {
            const View& like = Whole ? block.p.input : view;  // all tensors lie alike if Whole
            column.template fetch<Whole>(block, x.places, like, valid, block.channels);
            column.advance(block, like);
        };
        fetch(x.input, input_view());
        fetch(x.delta, block.p.delta);
        if (Mode != SelectiveWalk::states && block.p.gate.data != nullptr) fetch(x.gate, block.p.gate);
        if constexpr (MatrixColumns<Shape, steps>::ahead) x.matrices.template fetch<Whole>(block, step, valid);
    }

    // Puts what a walk needs into shared memory. Separate loops let the functions of several elements overlap.
    template <bool Whole>
    __device__ __forceinline__ void stage(Columns& x, int64_t step, int valid) const {
        const SelectiveParams& p = block.p;
        using Values = R[turns];
        const auto put = [&](typename Tile::Values& to, const Values& values) {
            put_values<Whole>(to, x.places, valid, block.channels, values);
        };
        const auto channel = [&](int i) { return min(x.places.column_of(i), Shape::channels - 1); };
        if constexpr (!MatrixColumns<Shape, steps>::ahead) x.matrices.template fetch<Whole>(block, step, valid);
        Values delta, scaled;
#pragma unroll
        for (int i = 0; i < turns; ++i) {
            delta[i] = Element<X>::widen(x.delta.held[i]) + tile.bias[channel(i)];
            scaled[i] = Element<X>::widen(x.input.held[i]);
        }
        if (p.softplus) {
#pragma unroll
            for (int i = 0; i < turns; ++i) delta[i] = softplus(delta[i]);
        }
        put(tile.delta, delta);
        if constexpr (writes) {
            Values skip;
#pragma unroll
            for (int i = 0; i < turns; ++i) skip[i] = tile.d[channel(i)] * scaled[i];
            put(tile.output, skip);
        }
#pragma unroll
        for (int i = 0; i < turns; ++i) scaled[i] = (adjoint ? factor : delta[i]) * scaled[i];
        if (Mode != SelectiveWalk::states && p.gate.data != nullptr) {
            Values gate;
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                const R z = Element<X>::widen(x.gate.held[i]);
                gate[i] = z * sigmoids(z).open;
                if (adjoint) scaled[i] = scaled[i] * gate[i];
            }
            if constexpr (writes) put(tile.gate, gate);
        }
        put(tile.scaled, scaled);
        x.matrices.template put<Whole>(block, tile, valid);
        block.stage_resets(tile, step, valid);
    }

    // Walks kept_steps steps of the tile from `begin` on, of which `valid` exist. Plain tells that all of them exist
    // and that there are neither resets nor constant matrices.
    template <bool Plain>
    __device__ __forceinline__ void walk(int begin, int valid, State& x) const {
        const SelectiveParams& p = block.p;
        const int c = block.local_channel();
        R sums[Shape::kept_steps / K][K];
        const auto deltas = steps_from<Shape::kept_steps>(&tile.delta.of[c][begin]);
        const auto all_scaled = steps_from<Shape::kept_steps>(&tile.scaled.of[c][begin]);
#pragma unroll
        for (int k = 0; k < Shape::kept_steps; ++k) {
            const int t = begin + k;
            R& sum = sums[k / K][k % K] = R(0);
            if (!Plain && k >= valid) continue;
            const bool reset = !Plain && p.reset != nullptr && tile.resets[t] != 0;
            const R delta = deltas.of[k], scaled = all_scaled.of[k];
            if constexpr (adjoint) {
                const Numbers at_c = block.template numbers_at<Plain>(tile.c, p.constant_c, t);
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    const V g = multiply_add(scaled, conj(at_c.of[s]), x.h.of[s]);
                    x.h.of[s] = reset ? V{} : g * conj(decay_of(delta, x.rates.of[s]));
                }
                continue;
            }
            if (reset) x.h = {};
            if constexpr (!writes) x.deltas = reset ? R(NAN) : x.deltas + delta;
            const Numbers b = block.template numbers_at<Plain>(tile.b, p.constant_b, t);
#pragma unroll
            for (int s = 0; s < S; ++s)
                x.h.of[s] = multiply_add(decay_of(delta, x.rates.of[s]), x.h.of[s], scaled * b.of[s]);
            if constexpr (writes) {
                const Numbers at_c = block.template numbers_at<Plain>(tile.c, p.constant_c, t);
#pragma unroll
                for (int s = 0; s < S; ++s) sum = add_real_product(at_c.of[s], x.h.of[s], sum);
            }
        }
        if constexpr (writes) {
#pragma unroll
            for (auto& sum : sums) sum[0] = sum_over_states<Shape>(sum, block.lane());
#pragma unroll
            for (int i = 0; i < Shape::kept_steps / K; ++i) {
                const int k = i * K + block.lane() / (Shape::lanes / K), t = begin + k;
                if ((!Plain && k >= valid) || block.lane() % (Shape::lanes / K) != 0) continue;
                R& output = tile.output.of[c][t];
                const R y = factor * sums[i][0] + output;
                output = p.gate.data == nullptr ? y : y * tile.gate.of[c][t];
            }
        }
    }

    // Does the tile that begins with `step`.
    template <bool Plain>
    __device__ __forceinline__ void pass(Columns& x, int64_t step, int valid, State& state) const {
        const SelectiveParams& p = block.p;
        stage<Plain>(x, step, valid);
        __syncthreads();
        if (step + steps < block.end) {
            const int next = block.template valid_of<steps>(step + steps);
            if (Plain && next == steps)
                fetch<true>(x, step + steps, next);
            else
                fetch<false>(x, step + steps, next);
        }
#pragma unroll 1
        for (int begin = 0; begin < valid; begin += Shape::kept_steps) {
            if (Mode == SelectiveWalk::states && p.kept != nullptr && block.keeps()) {
                *state.kept = state.h;
                state.kept += p.kept_lanes;
                if (p.segments > 1 && block.lane() == 0) *block.kept_delta(step + begin) = state.deltas;
            }
            walk<Plain>(begin, valid - begin, state);
        }
        __syncthreads();
        if constexpr (writes) {
            const View& like = Plain ? p.input : p.output;
            x.output.template store<Plain>(block, x.places, like, valid, block.channels,
                                           values_from<Plain>(tile.output, x.places, valid, block.channels));
            x.output.advance(block, like);
        }
    }

    // The carry into the segment; zeros in walks whose results are used to find it.
    __device__ __forceinline__ Numbers entering() const {
        const SelectiveParams& p = block.p;
        if (p.segments == 1) return block.load_states(p.state_in, block.row);
        return writes ? block.load_states(p.carries, block.part) : Numbers{};
    }

    __device__ __forceinline__ void run() const {
        const SelectiveParams& p = block.p;
        const bool plain = block.is_plain();
        Columns x;
        x.input.move(block, x.places, input_view(), block.channel0, block.first);
        x.delta.move(block, x.places, p.delta, block.channel0, block.first);
        x.gate.move(block, x.places, p.gate, block.channel0, block.first);
        x.output.move(block, x.places, p.output, block.channel0, block.first);
        x.matrices.move(block, block.first);
        State state{block.rates(), entering(), R(0), block.kept_states(block.first)};
        block.stage_constants(tile);
        if (block.first < block.end) fetch<false>(x, block.first, block.template valid_of<steps>(block.first));
        __syncthreads();
        for (int64_t step = block.first; step < block.end; step += steps) {
            const int valid = block.template valid_of<steps>(step);
            if (plain && valid == steps)
                pass<true>(x, step, valid, state);
            else
                pass<false>(x, step, valid, state);
        }
        if constexpr (writes) {
            if (block.is_last()) block.store_states(p.state_out, block.row, state.h);
        } else if (p.segments > 1) {
            block.store_states(adjoint ? p.adjoint_carries : p.carries, block.part, state.h);
            if (!adjoint && block.has_channel() && block.lane() == 0)
                static_cast<R*>(p.segment_deltas)[block.part * p.channels + block.channel()] = state.deltas;
        }
    }
};

template <typename Shape, SelectiveWalk Mode>
__global__ void __launch_bounds__(Shape::threads, Shape::resident)
    selective_forward(const __grid_constant__ SelectiveParams p) {
    extern __shared__ __align__(16) char memory[];
    const auto block = SelectiveBlock<Shape>::here(p, Mode == SelectiveWalk::adjoint);
    SelectiveForward<Shape, Mode>{block, *reinterpret_cast<SelectiveForwardTile<Shape>*>(memory)}.run();
}

}  // namespace flashscan::cuda
