// SPDX-License-Identifier: Apache-2.0
// Selective scans step by step, W neighbouring channels of a group at once, each with its N states:
//
//     h[n] = exp(d A[n]) h[n] + d u B[n],   y = sum over n of C[n] h[n] + D u,   OUTPUT = y z s(z)
//
// A thread walks the channels of its task from tile to tile of `tile_steps` steps. Of a tile it brings the tensors into
// panels of numbers, [step][W], and B and C of each step into [step][N]; states stay in the innermost cache. What costs is
// the exponential of every state and step, about three quarters of the work.
//
// Backward walks the sequence once forward and keeps the states before each tile; then from the last tile to the first, in
// each of which it computes the states again, keeps them, and goes back through the steps with g, the gradient of the
// states:
//
//     g[n] += dy C[n],   dC[n] += dy h[n],   dB[n] += d u g[n],   du += d g[n] B[n]
//     dA[n] += d g[n] a h_before[n],   dd += u g[n] B[n] + A[n] g[n] a h_before[n],   g[n] *= a
//
// Gradients of B and C of a step are sums over channels: lane by lane over the blocks of the task, and over the lanes when
// a tile is done; the host adds the tasks up in order. Sums over time are formed tile by tile. Lanes past the last channel
// hold zeros in every panel, so that they add nothing.
#pragma once

#include "cpu/kernels/convert.h"
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/selective.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

inline constexpr int64_t tile_steps = 64;

template <typename T>
FLASHSCAN_INLINE T sum_of_lanes(Vec<T> v) {
    T parts[Simd<T>::width];
    store<T>(parts, v);
    for (int half = Simd<T>::width / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
    return parts[0];
}

// Hands out pieces of a buffer.
template <typename T>
struct Pieces {
    T* at;
    T* take(int64_t numbers) {
        T* piece = at;
        at += numbers;
        return piece;
    }
};

// One block of up to W channels of one sequence, and the panels of a tile of it.
template <typename T, bool BStep, bool CStep>
struct SelectiveBlock {
    static constexpr int W = Simd<T>::width;
    static constexpr int64_t panel = tile_steps * W;
    static int64_t numbers(int64_t states) { return 6 * panel + 4 * states * W; }

    SelectiveBlock(const SelectiveCall& call, Pieces<T>& pieces) : c(call), N(call.states) {
        u = pieces.take(panel);
        delta = pieces.take(panel);
        slope = pieces.take(panel);
        z = pieces.take(panel);
        gate_slope = pieces.take(panel);
        y = pieces.take(panel);
        rates = pieces.take(N * W);
        constant_b = pieces.take(N * W);
        constant_c = pieces.take(N * W);
        h = pieces.take(N * W);
        for (T* p = u; p < u + numbers(N); ++p) *p = 0;
    }

    // Channels [begin, begin + count), of which h becomes the states before the first step.
    void start(const SelectiveSequence& sequence, int64_t begin, int64_t count) {
        s = &sequence;
        channel = begin;
        lanes = count;
        gather(c.a, channel * N, rates);
        if (!BStep) gather(c.constant_b, channel * N, constant_b);
        if (!CStep) gather(c.constant_c, channel * N, constant_c);
        gather(c.first_state, state_place(), h);
    }
    int64_t state_place() const { return (s->state * c.channels + channel) * N; }
    // Numbers [channel][state] as vectors of channels, and back.
    void gather(const char* data, int64_t place, T* to) const {
        const T* from = reinterpret_cast<const T*>(data) + place;
        for (int64_t n = 0; n < N; ++n)
            for (int64_t i = 0; i < W; ++i) to[n * W + i] = data != nullptr && i < lanes ? from[i * N + n] : T(0);
    }
    void scatter(const T* from, char* data, int64_t place) const {
        T* to = reinterpret_cast<T*>(data) + place;
        for (int64_t n = 0; data != nullptr && n < N; ++n)
            for (int64_t i = 0; i < lanes; ++i) to[i * N + n] = from[n * W + i];
    }

    int64_t time_of(int64_t i) const { return c.ascending ? s->begin + i : s->begin + s->length - 1 - i; }
    bool resets(int64_t i) const { return c.reset != nullptr && c.reset[s->batch * c.time + time_of(i)] != 0; }
    // Where `count` channels from `first` on lie in steps [i, i + steps) of a tensor.
    Rectangle rectangle(const Tensor& x, int64_t steps, int64_t count) const {
        return {steps, c.ascending ? x.time : -x.time, count, x.channels, 1};
    }
    char* place(const Tensor& x, int64_t i, int64_t first) const {
        return x.data + bytes_of(x.number) * (s->batch * x.batch + time_of(i) * x.time + first * x.channels);
    }
    void bring(const Tensor& x, int64_t i, int64_t steps, T* to) const {
        load_panel<T>(to, W, x.number, place(x, i, channel), rectangle(x, steps, lanes));
        for (int64_t k = 0; lanes < W && k < steps; ++k)
            for (int64_t j = lanes; j < W; ++j) to[k * W + j] = 0;
    }
    void send(const T* from, int64_t i, int64_t steps, const Tensor& x) const {
        if (x.data != nullptr) store_panel<T>(from, W, x.number, place(x, i, channel), rectangle(x, steps, lanes));
    }

    // u, d and its derivative by DELTA in steps [i, i + steps).
    void load_tile(int64_t i, int64_t steps) {
        bring(c.input, i, steps, u);
        bring(c.delta, i, steps, delta);
        Vec<T> bias = {};
        for (int64_t k = 0; c.bias != nullptr && k < lanes; ++k)
            bias[k] = reinterpret_cast<const T*>(c.bias)[channel + k];
        for (int64_t k = 0; k < steps * W; k += W) {
            const Vec<T> x = load(delta + k) + bias;
            if (!c.softplus) {
                store<T>(delta + k, x);
                store<T>(slope + k, splat<T>(1));
                continue;
            }
            const Vec<T> e = exponential<T>(x < T(0) ? x : -x);
            store<T>(delta + k, (x > T(0) ? x : Vec<T>{}) + log1p_of_fraction<T>(e));
            store<T>(slope + k, (x < T(0) ? e : splat<T>(1)) / (e + T(1)));
        }
    }
    // z s(z) and its derivative; 1 without a gate.
    void load_gate(int64_t i, int64_t steps) {
        if (c.gate.data != nullptr) bring(c.gate, i, steps, z);
        for (int64_t k = 0; k < steps * W; k += W) {
            if (c.gate.data == nullptr) {
                store<T>(z + k, splat<T>(1));
                continue;
            }
            const Vec<T> x = load(z + k), open = sigmoid(Lanes<T>(x)).v, shut = sigmoid(Lanes<T>(-x)).v;
            store<T>(z + k, x * open);
            store<T>(gate_slope + k, fused(x * open, shut, open));
        }
    }
    Vec<T> skip() const {
        Vec<T> d = {};
        for (int64_t k = 0; c.d != nullptr && k < lanes; ++k) d[k] = reinterpret_cast<const T*>(c.d)[channel + k];
        return d;
    }

    FLASHSCAN_INLINE Vec<T> b_of(const T* step_b, int64_t n) const {
        return BStep ? splat<T>(step_b[n]) : load(constant_b + n * W);
    }
    FLASHSCAN_INLINE Vec<T> c_of(const T* step_c, int64_t n) const {
        return CStep ? splat<T>(step_c[n]) : load(constant_c + n * W);
    }
    // h after step k of a tile, whose B and C are step_b and step_c. `to` has room for its states; it may be h. Returns the
    // sum over states of C h where `sums`.
    template <bool sums>
    FLASHSCAN_INLINE Vec<T> advance(int64_t k, bool reset, const T* step_b, const T* step_c, const T* from,
                                    T* to) const {
        const Vec<T> d = load(delta + k * W), entering = d * load(u + k * W);
        Vec<T> sum = {};
        for (int64_t n = 0; n < N; ++n) {
            Vec<T> next = entering * b_of(step_b, n);
            if (!reset) next = fused(exponential<T>(d * load(rates + n * W)), load(from + n * W), next);
            store<T>(to + n * W, next);
            if (sums) sum = fused(c_of(step_c, n), next, sum);
        }
        return sum;
    }

    const SelectiveCall& c;
    const int64_t N;
    const SelectiveSequence* s = nullptr;
    int64_t channel = 0, lanes = 0;
    T *u, *delta, *slope, *z, *gate_slope, *y, *rates, *constant_b, *constant_c, *h;
};

// B or C of a group in steps [i, i + steps) of a sequence.
template <typename Block, typename T>
void load_matrix(const Block& block, const Tensor& x, int64_t i, int64_t steps, T* to) {
    const int64_t first = block.channel / block.c.group_channels * block.N;
    load_panel<T>(to, block.N, x.number, block.place(x, i, first), block.rectangle(x, steps, block.N));
}

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

    // The states before each tile, and in carries the gradient of those after the last step.
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
            // The panels of d and of the gate are not needed any more.
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
    T *b, *cs;                 // of a tile's steps
    T *grad_u, *grad_out;      // panels
    T* states;                 // before the first step of a tile, and after each
    T *sum_a, *sum_b, *sum_c;  // over a tile
    T *tile_b, *tile_c;        // [step][state][W], over the task's blocks
    T* carries;                // [block][state][W]
    T* kept;                   // [block][tile][state][W]
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
