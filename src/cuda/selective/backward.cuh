// SPDX-License-Identifier: Apache-2.0
// The backward pass of the kernel "resident" of selective scans, selective_backward. u is INPUT, d is DELTA with its
// bias and softplus, d' its derivative, z OUTPUT_GATE, h the states and D the weight of u. y is the sum over states of
// C h, plus D u; e is the gradient of y, and g that of the states after a step:
//
//     e[t] = GRAD|OUTPUT[t] silu(z[t])        g[t] = C[t] e[t] + a[t+1] g[t+1]          a = exp(d A)
//     GRAD|INPUT = D e + d sum(g B)           GRAD|C = e h       GRAD|B = d u g
//     GRAD|DELTA = (u sum(g B) + sum(g a h[t-1] A)) d'       GRAD|A = sum over steps of d g a h[t-1]
//     GRAD|OUTPUT_GATE = GRAD|OUTPUT y silu'(z)              GRAD|D = sum over steps of e u
//     GRAD|BIAS = sum over steps of GRAD|DELTA
//
// where the sums in brackets run over the states of a channel.
//
// Ownership  A block owns neighbouring channels of one group and the steps of one row, or of a segment of them; lanes
//            divide the states of a channel, which they have in registers (as in forward.cuh). Before this kernel the
//            walk `states` of forward.cuh stores a checkpoint, the states before a step, for every kept_steps steps,
//            and with segments the walk `adjoint` runs too.
// Order      Tile after tile, from the last step to the first, and within a tile kept_steps steps at a time: a lane
//            recomputes their states forward from a checkpoint into registers, then walks them back. Whole tiles are
//            prefetched into L2 one tile ahead; registers for more are not left.
// Sums       GRAD|B and GRAD|C of a step are sums over the channels of a group: channel_sums.cuh adds those of a block,
//            sums.cuh those of blocks, in SCRATCH. Sums over time stay in registers; sums.cuh adds them over rows.
//            Nothing is atomic, so bits repeat.
// Bytes      Every element of INPUT, DELTA and OUTPUT_GATE, of their gradients and of GRAD|OUTPUT moves once, besides
//            the walks before; checkpoints move once, GRAD|B and GRAD|C once for every block of channels.
// Bound      Three exponentials for each state and step over all launches, instructions, and most of all the passes of
//            shared memory, through which the terms of the sums over channels go. On an H200, 16-bit data, 16 states,
//            8 x 2048 channels x 2048 steps, the kernel takes 886 us; at their full rate exponentials would take 261 of
//            it, instructions 528, shared memory 697. Registers leave four warps a scheduler, which hide no more
//            latency (bench/results/tried_layers.md).
// Sync       Two __syncthreads for each tile. Where a tile's sums of warps have no room (Tile::joined), one for each
//            tile and two for each kept_steps steps.
// Limits     Those of forward.cuh.
#pragma once

#include "cuda/device/ptx/exchange.cuh"
#include "cuda/selective/channel_sums.cuh"
#include "cuda/selective/functions.cuh"

namespace flashscan::cuda {

template <typename Shape>
struct SelectiveBackward {
    using R = typename Shape::R;
    using V = typename Shape::V;
    using Block = SelectiveBlock<Shape>;
    using Numbers = typename Block::Numbers;
    using Tile = SelectiveBackwardTile<Shape>;
    using Matrices = SelectiveMatrices<Shape, Shape::backward_steps>;
    static constexpr int steps = Shape::backward_steps, K = Shape::kept_steps, S = Shape::states;
    // Whether factors are kept in registers; otherwise they are computed again.
    static constexpr bool holds = Shape::large || Shape::wide;
    using Sums = SelectiveChannelSums<Shape>;
    static constexpr int G = Sums::G;
    static constexpr R factor = Sums::factor;
    using X = typename Shape::X;
    using Column = TileColumn<Block, X, steps, Shape::channels>;
    using Places = typename Column::Places;
    static constexpr int joined = Tile::joined;

    struct State {
        Numbers rates, g, sum_a;
        R d, sum_d, sum_bias;
    };
    // Where things of the current tile lie: the thread's first element in tensors that lie alike, and in B and C if
    // these do; and the number of the tile's first step among those that slices have, times the states of a step.
    struct Offsets {
        int64_t tensors, matrices, sums;
    };

    const Block& block;
    Tile& tile;
    const Sums sums;

    // Puts what a walk needs into shared memory. Separate loops let the functions of several elements overlap.
    template <bool Whole>
    __device__ __forceinline__ void stage(const Places& places, const Offsets& offsets, int64_t step, int valid) const {
        const SelectiveParams& p = block.p;
        constexpr int turns = Places::turns;
        using Values = R[turns];
        const auto fetch = [&](Column& column, const View& view) {
            column.first = view.data + (Whole ? offsets.tensors : block.offset_of(places, view, block.channel0, step));
            column.template fetch<Whole>(block, places, Whole ? p.input : view, valid, block.channels);
        };
        const auto put = [&](typename Tile::Values& to, const Values& values) {
            put_values<Whole>(to, places, valid, block.channels, values);
        };
        {
            Column input, delta;
            fetch(delta, p.delta);
            fetch(input, p.input);
            Values d, slope;
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                d[i] = Element<X>::widen(delta.held[i]) + tile.bias[min(places.column_of(i), Shape::channels - 1)];
                slope[i] = R(1);
            }
            if (p.softplus) {
#pragma unroll
                for (int i = 0; i < turns; ++i) {
                    slope[i] = sigmoids(d[i]).open;
                    d[i] = softplus(d[i]);
                }
            }
            put(tile.delta, d);
            put(tile.slope, slope);
#pragma unroll
            for (int i = 0; i < turns; ++i) {
                slope[i] = Element<X>::widen(input.held[i]);
                d[i] = d[i] * slope[i];
            }
            put(tile.input, slope);
            put(tile.scaled, d);
        }
        __syncwarp();  // keeps the compiler from holding more loads in registers at once
        {
            Column gate, grad_output;
            if (p.gate.data != nullptr) fetch(gate, p.gate);
            fetch(grad_output, p.grad_output);
            Values e, slope;
#pragma unroll
            for (int i = 0; i < turns; ++i) e[i] = Element<X>::widen(grad_output.held[i]);
            if (p.gate.data != nullptr) {
#pragma unroll
                for (int i = 0; i < turns; ++i) {
                    const R z = Element<X>::widen(gate.held[i]);
                    const auto s = sigmoids(z);
                    slope[i] = e[i] * (s.open * (R(1) + z * s.shut));
                    e[i] = e[i] * (z * s.open);
                }
                put(tile.gate, slope);
            }
            put(tile.e, e);
        }
        __syncwarp();
        MatrixColumns<Shape, steps> matrices;
        matrices.offset = offsets.matrices;
        matrices.template fetch<Whole>(block, step, valid);
        matrices.template put<Whole>(block, static_cast<Matrices&>(tile), valid);
        block.stage_resets(tile, step, valid);
    }

    // Asks for the tile that begins with `step` in L2. Each of four warps has a tensor, all of which lie alike.
    __device__ __forceinline__ void prefetch(int64_t step) const {
        const SelectiveParams& p = block.p;
        constexpr int lines = Shape::by_time ? Shape::channels : steps, line_steps = Shape::by_time ? steps : 1;
        constexpr int line_bytes = (Shape::by_time ? steps : Shape::channels) * static_cast<int>(sizeof(X));
        // A line has this many sectors of 32 bytes.
        constexpr int sectors = line_bytes > 32 ? line_bytes / 32 : 1;
        const int warp = static_cast<int>(threadIdx.x) / 32;
        if (warp >= 4) return;
        const char* const data = warp == 0   ? p.delta.data
                                 : warp == 1 ? p.input.data
                                 : warp == 2 ? p.grad_output.data
                                             : p.gate.data;
        if (data == nullptr) return;
        const char* const first = data + block.batch * p.input.batch + block.channel0 * p.input.row +
                                  block.time_of(step + (p.down ? line_steps - 1 : 0)) * p.input.time;
        const int64_t line = Shape::by_time ? p.input.row : block.step_of(p.input);
#pragma unroll
        for (int turn = 0; turn < lines * sectors; turn += 32) {
            const int i = turn + static_cast<int>(threadIdx.x) % 32;
            if (i < lines * sectors) ptx::prefetch(first + i / sectors * line + i % sectors * 32);
        }
    }

    // Walks the tile's K steps from `begin` on; `valid` steps of the tile exist from there on. Plain: all exist, and
    // there are no special cases.
    template <bool Plain>
    __device__ __forceinline__ void walk(int begin, int valid, const Numbers& before, State& x) const {
        const SelectiveParams& p = block.p;
        const int c = block.local_channel(), lane = block.lane();
        const auto b_at = [&](int t) { return block.template numbers_at<Plain>(tile.Matrices::b, p.constant_b, t); };
        const auto c_at = [&](int t) { return block.template numbers_at<Plain>(tile.Matrices::c, p.constant_c, t); };
        const auto resets = [&](int t) { return !Plain && p.reset != nullptr && tile.resets[t] != 0; };
        Numbers h[K], a[holds ? K : 1];
#pragma unroll
        for (int first = 0; first < K; first += G) {
            const auto deltas = steps_from<G>(&tile.delta.of[c][begin + first]);
            const auto all_scaled = steps_from<G>(&tile.scaled.of[c][begin + first]);
#pragma unroll
            for (int i = 0; i < G; ++i) {
                const int k = first + i, t = begin + k;
                if (!Plain && k >= valid) continue;
                const bool reset = resets(t);
                const R delta = deltas.of[i], scaled = all_scaled.of[i];
                const Numbers b = b_at(t);
                const Numbers& last = k > 0 ? h[k - 1] : before;
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    const V decay = decay_of(delta, x.rates.of[s]), entering = scaled * b.of[s];
                    if constexpr (holds) a[k].of[s] = decay;
                    h[k].of[s] = reset ? entering : multiply_add(decay, last.of[s], entering);
                }
            }
        }
#pragma unroll
        for (int first = K - G; first >= 0; first -= G) {
            // The lanes have read the terms of the steps before. This also keeps the compiler from holding B of the
            // loop above in registers.
            __syncwarp();
            R y[G], through[G], exponents[G];
            const auto deltas = steps_from<G>(&tile.delta.of[c][begin + first]);
            const auto gradients = steps_from<G>(&tile.e.of[c][begin + first]);
#pragma unroll
            for (int i = G - 1; i >= 0; --i) {
                const int k = first + i, t = begin + k;
                y[i] = through[i] = exponents[i] = R(0);
                if (!Plain && k >= valid) continue;
                const R delta = deltas.of[i], e = factor * gradients.of[i];
                const Numbers b = b_at(t), at_c = c_at(t);
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    y[i] = add_real_product(at_c.of[s], h[k].of[s], y[i]);
                    x.g.of[s] = multiply_add(e, conj(at_c.of[s]), x.g.of[s]);
                    through[i] = add_real_product(x.g.of[s], conj(b.of[s]), through[i]);
                }
                sums.template put<Plain>(true, i, t, h[k], gradients.of[i]);
                sums.template put<Plain>(false, i, t, x.g, tile.scaled.of[c][t]);
                if (resets(t)) {
                    x.g = {};
                    continue;
                }
                const Numbers& last = k > 0 ? h[k - 1] : before;
#pragma unroll
                for (int s = 0; s < S; ++s) {
                    const V decay = holds ? a[holds ? k : 0].of[s] : decay_of(delta, x.rates.of[s]);
                    x.g.of[s] = x.g.of[s] * conj(decay);
                    const V exponent = x.g.of[s] * conj(last.of[s]);
                    x.sum_a.of[s] = multiply_add(delta, exponent, x.sum_a.of[s]);
                    exponents[i] = add_real_product(exponent, conj(x.rates.of[s]), exponents[i]);
                }
            }
            if constexpr (!Tile::in_registers) {
                __syncwarp();
                sums.template over_channels<Plain>(begin + first, valid - first);
            }
            const R sum_y = sum_over_states<Shape>(y, lane);
            const R sum_through = sum_over_states<Shape>(through, lane);
            const R sum_exponents = sum_over_states<Shape>(exponents, lane);
            const int k = first + lane / (Shape::lanes / G);
            if ((!Plain && k >= valid) || lane % (Shape::lanes / G) != 0) continue;
            finish(begin + k, c, factor * sum_y, sum_through, sum_exponents, x);
        }
    }

    // Computes the gradients of a step of a channel from its sums over states.
    __device__ __forceinline__ void finish(int t, int c, R y, R through, R exponents, State& x) const {
        const R u = tile.input.of[c][t], e = tile.e.of[c][t];
        const R d_raw = (u * through + exponents * rate_unit<V>()) * tile.slope.of[c][t];
        x.sum_d += e * u;
        x.sum_bias += d_raw;
        if (block.p.gate.data != nullptr) tile.gate.of[c][t] *= y + x.d * u;
        tile.input.of[c][t] = x.d * e + tile.delta.of[c][t] * through;
        tile.slope.of[c][t] = d_raw;
    }

    template <bool Whole>
    __device__ __forceinline__ void store(const Places& places, const Offsets& offsets, int64_t step, int valid) const {
        const View& like = block.p.input;
        const auto put = [&](const View& view, const typename Tile::Values& values) {
            if (view.data == nullptr) return;
            Column column;
            column.first = view.data + (Whole ? offsets.tensors : block.offset_of(places, view, block.channel0, step));
            column.template store<Whole>(block, places, Whole ? like : view, valid, block.channels,
                                         values_from<Whole>(values, places, valid, block.channels));
        };
        put(block.p.grad_input, tile.input);
        put(block.p.grad_delta, tile.slope);
        put(block.p.grad_gate, tile.gate);
    }

    // The checkpoint of the steps that are walked next, and where it lies.
    struct Checkpoint {
        const Numbers* from;
        Numbers states;
    };
    __device__ __forceinline__ Numbers load(const Numbers* kept) const { return block.keeps() ? *kept : Numbers{}; }
    // The states before a step, from a checkpoint; in a segment the contribution of the carry into it is added.
    __device__ __forceinline__ Numbers states_before(Numbers before, int64_t step, const State& x) const {
        if (block.p.segments == 1 || !block.keeps()) return before;
        const R deltas = *block.kept_delta(step);
        const Numbers carry = block.load_states(block.p.carries, block.part);
#pragma unroll
        for (int s = 0; s < S; ++s)
            before.of[s] = join_decayed(carry.of[s], before.of[s], deltas, x.rates.of[s], false);
        return before;
    }

    // Does the tile that begins with `step`.
    template <bool Plain>
    __device__ __forceinline__ void pass(const Places& places, const Offsets& offsets, int64_t step, int valid,
                                         Checkpoint& kept, State& state) const {
        const SelectiveParams& p = block.p;
        stage<Plain>(places, offsets, step, valid);
        __syncthreads();
        if (Plain && step > block.first) prefetch(step - steps);
#pragma unroll 1
        for (int begin = (valid - 1) / K * K; begin >= 0; begin -= K) {
            const Numbers before = states_before(kept.states, step + begin, state);
            if (step + begin > block.first) {
                kept.from -= p.kept_lanes;
                kept.states = load(kept.from);  // this load overlaps the walk
            }
            walk<Plain>(begin, valid - begin, before, state);
            if (begin % joined != 0) continue;
            __syncthreads();
            sums.over_warps(valid - begin, offsets.sums + begin * sums.step_numbers());
            if (joined < steps) __syncthreads();
        }
        store<Plain>(places, offsets, step, valid);
    }

    __device__ __forceinline__ void run() const {
        const SelectiveParams& p = block.p;
        const Places places;
        const R d = block.has_channel() ? block.param(p.d, block.local_channel()) : R(0);
        const Numbers g = p.segments == 1 ? block.load_states(p.grad_state_out, block.row)
                                          : block.load_states(p.adjoint_carries, block.part);
        State state{block.rates(), g, {}, d, R(0), R(0)};
        block.stage_constants(static_cast<Matrices&>(tile));
        sums.own_terms(tile.b, 0) = sums.own_terms(tile.c, 0) = {};
        __syncthreads();
        const bool plain = block.is_plain();
        Checkpoint kept{};
        if (block.first < block.end) {
            kept.from = block.kept_states(block.first + (block.end - block.first - 1) / K * K);
            kept.states = load(kept.from);
        }
        const int64_t tiles = (block.end - block.first + steps - 1) / steps;
        const int64_t last = block.first + (tiles - 1) * steps;
        MatrixColumns<Shape, steps> matrices;
        matrices.move(block, last);
        Offsets offsets{block.offset_of(places, p.input, block.channel0, last), matrices.offset, sums.line_of(last)};
        for (int64_t step = last; step >= block.first; step -= steps) {
            const int valid = block.template valid_of<steps>(step);
            if (plain && valid == steps)
                pass<true>(places, offsets, step, valid, kept, state);
            else
                pass<false>(places, offsets, step, valid, kept, state);
            offsets.tensors -= steps * block.step_of(p.input);
            offsets.matrices -= steps * block.step_of(p.b);
            offsets.sums -= steps * sums.step_numbers();
        }
        leave(state);
    }

    // Stores the sums over the row, and the gradient of its first state.
    __device__ __forceinline__ void leave(State& x) const {
        const SelectiveParams& p = block.p;
        if (block.is_first()) block.store_states(p.grad_state_in, block.row, x.g);
        block.store_states(p.sum_a, block.part, x.sum_a);
        block.store_states(p.sum_b, block.part, sums.own_terms(tile.b, 0));
        block.store_states(p.sum_c, block.part, sums.own_terms(tile.c, 0));
        R over_time[2] = {x.sum_d, x.sum_bias};
#pragma unroll
        for (int offset = Shape::lanes / 2; offset >= 1; offset /= 2)
            for (R& sum : over_time)
                sum += __shfl_xor_sync(0xffffffffU, sum, lane_distance<Shape::warp_channels>(offset));
        if (!block.has_channel() || block.lane() != 0) return;
        const int64_t at = block.part * p.channels + block.channel();
        if (p.sum_d != nullptr) static_cast<R*>(p.sum_d)[at] = over_time[0];
        if (p.sum_bias != nullptr) static_cast<R*>(p.sum_bias)[at] = over_time[1];
    }
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::resident)
    selective_backward(const __grid_constant__ SelectiveParams p) {
    extern __shared__ __align__(16) char memory[];
    const auto block = SelectiveBlock<Shape>::here(p, false);
    auto& tile = *reinterpret_cast<SelectiveBackwardTile<Shape>*>(memory);
    SelectiveBackward<Shape>{block, tile, {block, tile}}.run();
}

}  // namespace flashscan::cuda
