// SPDX-License-Identifier: Apache-2.0
// Selective scans step by step, W neighbouring channels of a group at once, each with its N states:
//
//     h[n] = exp(d A[n]) h[n] + d u B[n],   y = sum over n of C[n] h[n] + D u,   OUTPUT = y z s(z)
//
// One thread walks the channels of its task from tile to tile of `tile_steps` steps; threads do not wait for each
// other. It copies the tensors of a tile to panels of numbers, [step][W], and B and C of each step to [step][N]. States
// stay in the innermost cache. The exponential of each state and step is about three quarters of the work.
//
// Backward walks the sequence once forward and keeps the states before each tile. Then it goes from the last tile to
// the first. In each it computes the states of all steps again, keeps them, and goes back through the steps with g, the
// gradient of the states, and a = exp(d A[n]):
//
//     g[n] += dy C[n],   dC[n] += dy h[n],   dB[n] += d u g[n],   du += d g[n] B[n]
//     dA[n] += d g[n] a h_before[n],   dd += u g[n] B[n] + A[n] g[n] a h_before[n],   g[n] *= a
//
// Gradients of B and C of a step are sums over channels. They are formed lane by lane over the blocks of the task, and
// over the lanes when a tile is done; the host adds the sums of tasks in a fixed order. Sums over time are formed tile
// by tile. Lanes past the last channel hold zeros in every panel, so that they add nothing.
#pragma once

#include "cpu/kernels/selective_block.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T, bool BStep, bool CStep>
struct SelectiveForward {
    using Block = SelectiveBlock<T, BStep, CStep>;
    static constexpr int W = Block::W;
    static int64_t numbers(int64_t states) { return Block::numbers(states) + 2 * tile_steps * states; }

    static void run(const SelectiveCall& c, const SelectiveTask& task) {
        Pieces<T> pieces{reinterpret_cast<T*>(task.buffer)};
        Block block(c, pieces);
        T* b = pieces.take(tile_steps * c.states);
        T* cs = pieces.take(tile_steps * c.states);
        for (int64_t q = task.first; q < task.last; ++q) {
            const SelectiveSequence& s = c.sequences[q];
            block.start(s, task.begin, task.end - task.begin);
            const Vec<T> d = block.skip();
            for (int64_t i = 0; i < s.length; i += tile_steps) {
                const int64_t steps = s.length - i < tile_steps ? s.length - i : tile_steps;
                block.load_tile(i, steps);
                block.load_gate(i, steps);
                if (BStep) load_matrix(block, c.b, i, steps, b);
                if (CStep) load_matrix(block, c.c, i, steps, cs);
                for (int64_t k = 0; k < steps; ++k) {
                    const Vec<T> sum = block.template advance<true>(k, block.resets(i + k), b + k * c.states,
                                                                    cs + k * c.states, block.h, block.h);
                    store<T>(block.y + k * W, fused(d, load(block.u + k * W), sum) * load(block.z + k * W));
                }
                block.send(block.y, i, steps, c.output);
            }
            block.scatter(block.h, c.last_state, block.state_place());
        }
    }
};

template <typename T, bool BStep, bool CStep>
struct SelectiveBackward {
    using Block = SelectiveBlock<T, BStep, CStep>;
    static constexpr int W = Block::W;

    static int64_t tiles_of(int64_t steps) { return (steps + tile_steps - 1) / tile_steps; }
    static int64_t blocks_of(int64_t channels) { return (channels + W - 1) / W; }
    static int64_t numbers(int64_t states, int64_t time, int64_t channels) {
        const int64_t vectors = states * W;
        return Block::numbers(states) + 2 * tile_steps * states + 2 * Block::panel + vectors * (tile_steps + 1) +
               3 * vectors + 2 * tile_steps * vectors + blocks_of(channels) * vectors * (tiles_of(time) + 1);
    }

    SelectiveBackward(const SelectiveCall& call, const SelectiveTask& the_task)
        : c(call),
          task(the_task),
          N(call.states),
          pieces{reinterpret_cast<T*>(the_task.buffer)},
          block(call, pieces),
          b(pieces.take(tile_steps * N)),
          cs(pieces.take(tile_steps * N)),
          grad_u(pieces.take(Block::panel)),
          grad_out(pieces.take(Block::panel)),
          states(pieces.take((tile_steps + 1) * N * W)),
          sum_a(pieces.take(N * W)),
          sum_b(pieces.take(N * W)),
          sum_c(pieces.take(N * W)),
          tile_b(pieces.take(tile_steps * N * W)),
          tile_c(pieces.take(tile_steps * N * W)),
          carries(pieces.take(blocks_of(task.end - task.begin) * N * W)),
          kept(pieces.at) {}

    static void run(const SelectiveCall& call, const SelectiveTask& task) { SelectiveBackward(call, task).walk(); }

  private:
    void walk() {
        for (int64_t i = 0; i < Block::panel; ++i) grad_out[i] = 0;
        clear(task.sum_a, task.begin * N, task.end * N);
        if (!BStep) clear(task.sum_b, task.begin * N, task.end * N);
        if (!CStep) clear(task.sum_c, task.begin * N, task.end * N);
        clear(task.sum_d, task.begin, task.end);
        clear(task.sum_bias, task.begin, task.end);
        for (int64_t q = task.first; q < task.last; ++q) {
            const SelectiveSequence& s = c.sequences[q];
            const int64_t tiles = tiles_of(s.length);
            for_blocks([&](int64_t j, int64_t begin, int64_t count) { keep_states(s, tiles, j, begin, count); });
            for (int64_t tile = tiles - 1; tile >= 0; --tile) {
                const int64_t i = tile * tile_steps, steps = s.length - i < tile_steps ? s.length - i : tile_steps;
                for (int64_t k = 0; k < steps * N * W; ++k) tile_b[k] = tile_c[k] = 0;
                for_blocks([&](int64_t j, int64_t begin, int64_t count) {
                    block.start(s, begin, count);
                    if (j == 0 && BStep) load_matrix(block, c.b, i, steps, b);
                    if (j == 0 && CStep) load_matrix(block, c.c, i, steps, cs);
                    back_through_tile(i, steps, kept + (j * tiles + tile) * N * W, carries + j * N * W);
                });
                if (BStep) put_step_sums(tile_b, i, steps, task.step_b);
                if (CStep) put_step_sums(tile_c, i, steps, task.step_c);
            }
            for_blocks([&](int64_t j, int64_t begin, int64_t count) {
                block.start(s, begin, count);
                block.scatter(carries + j * N * W, c.grad_first_state, block.state_place());
            });
        }
    }

    template <typename Visit>
    void for_blocks(const Visit& visit) const {
        for (int64_t j = 0, begin = task.begin; begin < task.end; ++j, begin += W)
            visit(j, begin, task.end - begin < W ? task.end - begin : W);
    }
    static void clear(char* sums, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) reinterpret_cast<T*>(sums)[i] = 0;
    }

    // Walks forward and keeps the states before each tile; loads the gradient of the final states to carries.
    void keep_states(const SelectiveSequence& s, int64_t tiles, int64_t j, int64_t begin, int64_t count) {
        block.start(s, begin, count);
        block.gather(c.grad_last_state, block.state_place(), carries + j * N * W);
        for (int64_t tile = 0; tile < tiles; ++tile) {
            T* at = kept + (j * tiles + tile) * N * W;
            for (int64_t k = 0; k < N * W; ++k) at[k] = block.h[k];
            if (tile + 1 == tiles) return;
            const int64_t i = tile * tile_steps;
            block.load_tile(i, tile_steps);
            if (BStep) load_matrix(block, c.b, i, tile_steps, b);
            for (int64_t k = 0; k < tile_steps; ++k)
                block.template advance<false>(k, block.resets(i + k), b + k * N, nullptr, block.h, block.h);
        }
    }

    void back_through_tile(int64_t i, int64_t steps, const T* before, T* g) {
        const Vec<T> d = block.skip();
        block.load_tile(i, steps);
        block.load_gate(i, steps);
        block.bring(c.grad_output, i, steps, grad_out);
        for (int64_t k = 0; k < N * W; ++k) states[k] = before[k], sum_a[k] = sum_b[k] = sum_c[k] = 0;
        for (int64_t k = 0; k < steps; ++k)
            store<T>(block.y + k * W, block.template advance<true>(k, block.resets(i + k), b + k * N, cs + k * N,
                                                                   states + k * N * W, states + (k + 1) * N * W));
        Vec<T> sum_d = {}, sum_bias = {};
        for (int64_t k = steps - 1; k >= 0; --k) {
            const Vec<T> out = load(grad_out + k * W), dy = out * load(block.z + k * W), u = load(block.u + k * W);
            const Gradients step = back_through_step(k, block.resets(i + k), dy, g);
            const Vec<T> d_raw = step.delta * load(block.slope + k * W);
            sum_d = fused(dy, u, sum_d);
            sum_bias += d_raw;
            store<T>(grad_u + k * W, fused(d, dy, step.u));
            // Step k of the panels of d and of the gate is not read again, so the gradients replace it.
            store<T>(block.delta + k * W, d_raw);
            store<T>(block.z + k * W, out * fused(d, u, load(block.y + k * W)) * load(block.gate_slope + k * W));
        }
        block.send(grad_u, i, steps, c.grad_input);
        block.send(block.delta, i, steps, c.grad_delta);
        block.send(block.z, i, steps, c.grad_gate);
        add(sum_a, task.sum_a);
        if (!BStep) add(sum_b, task.sum_b);
        if (!CStep) add(sum_c, task.sum_c);
        for (int64_t k = 0; k < block.lanes; ++k) {
            reinterpret_cast<T*>(task.sum_d)[block.channel + k] += sum_d[k];
            reinterpret_cast<T*>(task.sum_bias)[block.channel + k] += sum_bias[k];
        }
    }

    struct Gradients {
        Vec<T> u, delta;
    };
    FLASHSCAN_INLINE Gradients back_through_step(int64_t k, bool reset, Vec<T> dy, T* g) {
        const Vec<T> delta = load(block.delta + k * W), u = load(block.u + k * W), entering = delta * u;
        const T *before = states + k * N * W, *after = before + N * W;
        T *b_sums = BStep ? tile_b + k * N * W : sum_b, *c_sums = CStep ? tile_c + k * N * W : sum_c;
        Vec<T> through = {}, of_rates = {};
        for (int64_t n = 0; n < N; ++n) {
            const int64_t at = n * W;
            const Vec<T> now = fused(dy, block.c_of(cs + k * N, n), load(g + at));
            store<T>(c_sums + at, fused(dy, load(after + at), load(c_sums + at)));
            store<T>(b_sums + at, fused(entering, now, load(b_sums + at)));
            through = fused(now, block.b_of(b + k * N, n), through);
            if (reset) {
                store<T>(g + at, Vec<T>{});
                continue;
            }
            const Vec<T> rate = load(block.rates + at), next = now * exponential<T>(delta * rate);
            const Vec<T> exponent = next * load(before + at);
            store<T>(sum_a + at, fused(delta, exponent, load(sum_a + at)));
            of_rates = fused(exponent, rate, of_rates);
            store<T>(g + at, next);
        }
        return {delta * through, fused(u, through, of_rates)};
    }

    void add(const T* from, char* sums) const {
        T* to = reinterpret_cast<T*>(sums) + block.channel * N;
        for (int64_t i = 0; i < block.lanes; ++i)
            for (int64_t n = 0; n < N; ++n) to[i * N + n] += from[n * W + i];
    }
    void put_step_sums(const T* from, int64_t i, int64_t steps, char* sums) const {
        const int64_t group = task.begin / c.group_channels;
        for (int64_t k = 0; k < steps; ++k) {
            T* to =
                reinterpret_cast<T*>(sums) + ((block.s->batch * c.time + block.time_of(i + k)) * c.groups + group) * N;
            for (int64_t n = 0; n < N; ++n) to[n] = sum_of_lanes<T>(load(from + (k * N + n) * W));
        }
    }

    const SelectiveCall& c;
    const SelectiveTask& task;
    const int64_t N;
    Pieces<T> pieces;
    Block block;
    T *b, *cs;                 // B and C of a tile's steps, [step][state]
    T *grad_u, *grad_out;      // panels of GRAD|INPUT and GRAD|OUTPUT
    T* states;                 // the states before the first step of a tile, and after each step
    T *sum_a, *sum_b, *sum_c;  // sums over the steps of a tile, [state][W]
    T *tile_b, *tile_c;        // sums over the task's blocks, [step][state][W]
    T* carries;                // g of each block, [block][state][W]
    T* kept;                   // the states before each tile, [block][tile][state][W]
};

template <typename T, bool BStep, bool CStep>
SelectiveKernels selective_kernels_of() {
    return {Simd<T>::width, SelectiveForward<T, BStep, CStep>::run, SelectiveBackward<T, BStep, CStep>::run,
            SelectiveForward<T, BStep, CStep>::numbers, SelectiveBackward<T, BStep, CStep>::numbers};
}

template <typename T>
SelectiveKernels selective_kernels_of(bool b_per_step, bool c_per_step) {
    if (b_per_step) return c_per_step ? selective_kernels_of<T, true, true>() : selective_kernels_of<T, true, false>();
    return c_per_step ? selective_kernels_of<T, false, true>() : selective_kernels_of<T, false, false>();
}

SelectiveKernels selective_kernels(bool wide, bool b_per_step, bool c_per_step) {
    return wide ? selective_kernels_of<double>(b_per_step, c_per_step)
                : selective_kernels_of<float>(b_per_step, c_per_step);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
