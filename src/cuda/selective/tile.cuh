// SPDX-License-Identifier: Apache-2.0
// The passes of a selective scan share how a block is laid out over channels, states and steps, and its tile of steps
// in shared memory.
#pragma once

#include <algorithm>
#include <type_traits>

#include "cuda/device/math/decay.cuh"
#include "cuda/device/ptx/quick_functions.cuh"
#include "cuda/device/scan/lane_sums.cuh"
#include "cuda/device/tile/places.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/selective/params.h"
#include "math/activation.h"

namespace flashscan::cuda {

// Data have type X, states type V. `Lanes` lanes of a warp divide the states of a channel and have `States` of them
// each. ByTime tells that neighbouring threads load neighbouring steps; otherwise they load neighbouring channels.
template <typename X_, typename V_, int Lanes, int States, bool ByTime>
struct SelectiveShape {
    using X = X_;
    using V = V_;
    using R = typename Element<X>::Wide;
    static constexpr bool complex = !std::is_same_v<V, R>, by_time = ByTime;
    using Stored = std::conditional_t<complex, V, X>;  // the type of B and C of a step in memory
    static constexpr int lanes = Lanes, states = States, padded = Lanes * States;
    static constexpr bool large = sizeof(V) > 4;  // numbers that take two registers or more
    // Threads and channels of a block, which has 16 channels or more where 256 threads of f32 can have them: each block
    // has its own sums of GRAD|B and GRAD|C for every step, and 16-bit elements of 16 channels fill a sector of memory.
    static constexpr int threads = std::clamp((large ? 8 : 16) * Lanes, 128, 256), channels = threads / Lanes;
    // Steps from one checkpoint to the next, whose states backward holds in registers: states and factors take 64 of
    // them.
    static constexpr int kept = 128 / (States * static_cast<int>(sizeof(V)));
    static constexpr bool wide = padded * sizeof(V) > 512;  // whether B and C of a step are large
    // Blocks per multiprocessor, for which __launch_bounds__ limits the registers.
    static constexpr int resident = wide ? 1 : (large ? 256 : 512) / threads;
    // Steps of a tile of each pass.
    static constexpr int forward_steps = wide ? 8 : std::min(32, 8 * Lanes), backward_steps = wide ? 8 : 16;
    // Steps whose sums over lanes are computed together.
    static constexpr int summed = std::min(kept, Lanes);
    // The channels of a warp. Of four neighbouring threads, threads 0 and 1, 2 and 3 have the same states and threads 0
    // and 2, 1 and 3 the same channel: 16-byte loads from shared memory take half as long where all pairs of threads
    // whose numbers differ in the last bit, or in the last but one, load the same.
    static constexpr int warp_channels = 32 / Lanes;
    // A lane's numbers begin at multiples of 16 bytes, and those of neighbouring steps lie in different banks.
    static constexpr int matrix_pitch = padded + std::max(1, 16 / static_cast<int>(sizeof(V)));
};

// The numbers of a lane, which are loaded and stored 16 bytes at a time.
template <typename V, int N>
struct alignas(16) LaneNumbers {
    V of[N];
};

// Numbers of the steps and channels of a tile in shared memory. A thread loads those of neighbouring steps 16 bytes at
// a time; with this pitch such loads, by neighbouring channels, have no bank conflicts.
template <typename Shape, int Steps>
struct alignas(16) SelectiveValues {
    typename Shape::R of[Shape::channels][Steps + 4];
};
// The numbers of `Count` neighbouring steps of a channel.
template <int Count, typename R>
struct StepNumbers {
    R of[Count];
};
template <int Count, typename R>
__device__ __forceinline__ StepNumbers<Count, R> steps_from(const R* from) {
    StepNumbers<Count, R> numbers;
    constexpr int pack = 16 / static_cast<int>(sizeof(R));
#pragma unroll
    for (int i = 0; i < Count; ++i) {
        if constexpr (Count % pack == 0)
            numbers.of[i] = reinterpret_cast<const LaneNumbers<R, pack>&>(from[i / pack * pack]).of[i % pack];
        else
            numbers.of[i] = from[i];
    }
    return numbers;
}

// The tile has in shared memory: B and C as rows of `matrix_pitch` numbers, one for each step or, where they are
// constant, one for each channel; BIAS and D of the block's channels; and the resets of the tile's steps.
template <typename Shape, int Steps>
struct SelectiveMatrices {
    static constexpr int rows = std::max(Steps, Shape::channels);
    alignas(16) typename Shape::V b[rows * Shape::matrix_pitch];
    alignas(16) typename Shape::V c[rows * Shape::matrix_pitch];
    typename Shape::R bias[Shape::channels], d[Shape::channels];
    uint8_t resets[Steps];
};

// The derivative d(delta a) / d(delta rate).
template <typename V>
__device__ __forceinline__ constexpr auto rate_unit() {
    if constexpr (std::is_same_v<V, float>)
        return 0.69314718F;
    else if constexpr (std::is_same_v<V, Complex<float>>)
        return 1.0F;
    else
        return 1.0;
}

// Adds the real part of a b to the sum.
template <typename R>
__device__ __forceinline__ R add_real_product(R a, R b, R sum) {
    return multiply_add(a, b, sum);
}
template <typename R>
__device__ __forceinline__ R add_real_product(Complex<R> a, Complex<R> b, R sum) {
    return multiply_add(-a.im, b.im, multiply_add(a.re, b.re, sum));
}

// log(1 + exp(x)). For floats it takes few instructions, and one of the special function unit, which selective scans
// keep busy: a polynomial for log(1 + e) / e with e = exp(-|x|), at most 1, whose relative error is below 2^-22.5 with
// that of its arithmetic.
template <typename R>
__device__ __forceinline__ R softplus(R x) {
    return (x > R(0) ? x : R(0)) + log1p_of(exp_of(x > R(0) ? -x : x));
}
__device__ __forceinline__ float softplus(float x) {
    const float e = ptx::quick_exp2(fabsf(x) * -log2_e);
    float ratio = 0.0052326941F;
    for (const float term :
         {-0.029505238F, 0.078225948F, -0.13663246F, 0.19106007F, -0.24842982F, 0.33319098F, -0.49999493F, 0.99999994F})
        ratio = fmaf(ratio, e, term);
    return fmaf(e, ratio, fmaxf(x, 0.0F));
}
// The pair of 1 / (1 + exp(-x)) and 1 / (1 + exp(x)).
template <typename R>
struct OpenAndShut {
    R open, shut;
};
template <typename R>
__device__ __forceinline__ OpenAndShut<R> sigmoids(R x) {
    return {sigmoid(x), sigmoid(-x)};
}
__device__ __forceinline__ OpenAndShut<float> sigmoids(float x) {
    const float e = exp_negative(x), open = ptx::quick_reciprocal(1.0F + e);
    return {open, e * open};
}

// The threads between lanes that are `offset` apart, a power of two, if a warp has `Channels` channels in the order of
// SelectiveShape.
template <int Channels>
__device__ __forceinline__ constexpr int lane_distance(int offset) {
    return Channels > 1 && offset == 1 ? 2 : offset * Channels;
}
// Sums over the lanes of a channel (device/scan/lane_sums.cuh).
template <typename Shape, int K, typename R>
__device__ __forceinline__ R sum_over_states(R (&values)[K], int lane) {
    return sum_over_lanes<Shape::lanes>(values, lane,
                                        [](int offset) { return lane_distance<Shape::warp_channels>(offset); });
}

// A block: a segment of the steps of one row of the states, for neighbouring channels of one group.
template <typename Shape>
struct SelectiveBlock {
    using X = typename Shape::X;
    using V = typename Shape::V;
    using R = typename Shape::R;
    using Numbers = LaneNumbers<V, Shape::states>;
    static constexpr int threads = Shape::threads;
    static constexpr bool by_time = Shape::by_time;
    static constexpr bool many = Shape::warp_channels > 1;  // whether warps have several channels

    const SelectiveParams& p;
    int64_t row, batch, begin, length;  // the row, its first step in memory, and how many steps it has
    int64_t first, end;                 // the segment's steps, counted in the order of the walk
    int64_t part;                       // the segment's number among those of all rows
    int64_t channel0;                   // the block's first channel
    int32_t channels;                   // how many channels it has
    int32_t group, slice;

    // The block of this thread. The walk `adjoint` counts steps from the last one.
    static __device__ __forceinline__ SelectiveBlock here(const SelectiveParams& p, bool adjoint) {
        SelectiveBlock block{p, 0, 0, 0, p.time, 0, p.time, 0, 0, 0, 0, 0};
        const int64_t columns = static_cast<int64_t>(p.groups) * p.slices, column = blockIdx.x % columns;
        block.part = blockIdx.x / columns;
        block.row = block.batch = block.part / p.segments;
        block.group = static_cast<int32_t>(column / p.slices);
        block.slice = static_cast<int32_t>(column % p.slices);
        const int64_t inside = static_cast<int64_t>(block.slice) * Shape::channels;
        block.channel0 = block.group * p.group_channels + inside;
        block.channels = static_cast<int32_t>(min(static_cast<int64_t>(Shape::channels), p.group_channels - inside));
        if (p.offsets.data != nullptr) {
            block.batch = 0;
            block.begin = load_offset(p.offsets, block.row);
            block.end = block.length = max(load_offset(p.offsets, block.row + 1) - block.begin, int64_t{0});
        } else if (p.segments > 1) {
            const int64_t from = (block.part - block.row * p.segments) * p.segment_steps;
            const int64_t to = min(from + p.segment_steps, p.time);
            block.first = adjoint ? p.time - to : from;
            block.end = adjoint ? p.time - from : to;
        }
        return block;
    }

    __device__ __forceinline__ bool is_first() const { return first == 0; }
    __device__ __forceinline__ bool is_last() const { return end == length; }
    __device__ __forceinline__ int64_t time_of(int64_t step) const {
        return begin + (p.down ? length - 1 - step : step);
    }
    // How many steps exist of a tile of `Steps` steps from `step` on.
    template <int Steps>
    __device__ __forceinline__ int valid_of(int64_t step) const {
        return static_cast<int>(min(static_cast<int64_t>(Steps), end - step));
    }
    // The thread's number among the lanes of its channel, and the channel's among those of the block.
    __device__ __forceinline__ int lane() const {
        const int thread = static_cast<int>(threadIdx.x) % 32;
        return many ? thread / 2 % 2 + thread / (2 * Shape::warp_channels) * 2 : thread;
    }
    __device__ __forceinline__ int local_channel() const {
        const int warp = static_cast<int>(threadIdx.x) / 32, thread = static_cast<int>(threadIdx.x) % 32;
        if constexpr (many)
            return warp * Shape::warp_channels + thread % 2 + thread / 4 % (Shape::warp_channels / 2) * 2;
        else
            return warp;
    }
    __device__ __forceinline__ bool has_channel() const { return local_channel() < channels; }
    __device__ __forceinline__ int64_t channel() const { return channel0 + local_channel(); }
    __device__ __forceinline__ int first_state() const { return lane() * Shape::states; }

    __device__ __forceinline__ R param(const void* data, int c) const {
        return data == nullptr ? R(0) : static_cast<const R*>(data)[channel0 + c];
    }
    // The offset of the thread's first element of the tile that begins with `step`, in a tensor whose rows begin with
    // `row`; the bytes from one of the thread's elements to the next; and those from one step of the walk to the next.
    template <typename Places>
    __device__ __forceinline__ int64_t offset_of(const Places& places, const View& view, int64_t row,
                                                 int64_t step) const {
        return batch * view.batch + (row + places.column) * view.row + time_of(step + places.step) * view.time;
    }
    template <typename Places>
    __device__ __forceinline__ int64_t turn_of(const View& view) const {
        return Shape::by_time ? Places::rows_of_turn * view.row : Places::steps_of_turn * step_of(view);
    }
    __device__ __forceinline__ int64_t step_of(const View& view) const { return p.down ? -view.time : view.time; }

    // Load and store the lane's numbers of an array [rows][channels][states].
    __device__ __forceinline__ Numbers load_states(const void* data, int64_t of_row) const {
        Numbers numbers{};
        if (data == nullptr || !has_channel()) return numbers;
        const V* from = static_cast<const V*>(data) + (of_row * p.channels + channel()) * p.states + first_state();
#pragma unroll
        for (int s = 0; s < Shape::states; ++s)
            if (first_state() + s < p.states) numbers.of[s] = from[s];
        return numbers;
    }
    __device__ __forceinline__ void store_states(void* data, int64_t of_row, const Numbers& numbers) const {
        if (data == nullptr || !has_channel()) return;
        V* to = static_cast<V*>(data) + (of_row * p.channels + channel()) * p.states + first_state();
#pragma unroll
        for (int s = 0; s < Shape::states; ++s)
            if (first_state() + s < p.states) to[s] = numbers.of[s];
    }
    __device__ __forceinline__ Numbers rates() const {
        Numbers rates = load_states(p.a, 0);
#pragma unroll
        for (int s = 0; s < Shape::states; ++s) rates.of[s] = decay_rate(rates.of[s]);
        return rates;
    }

    // The checkpoint before `step`: its number, where its states are (padded to whole lanes), and where its sum of d
    // is.
    __device__ __forceinline__ int64_t kept_chunk(int64_t step) const {
        const int64_t before = p.offsets.data == nullptr ? row * p.kept_chunks : begin / Shape::kept + row;
        return before + step / Shape::kept;
    }
    __device__ __forceinline__ Numbers* kept_states(int64_t step) const {
        return static_cast<Numbers*>(p.kept) + kept_chunk(step) * p.kept_lanes + lane() * p.channels + channel();
    }
    __device__ __forceinline__ R* kept_delta(int64_t step) const {
        return static_cast<R*>(p.kept_deltas) + kept_chunk(step) * p.channels + channel();
    }
    __device__ __forceinline__ bool keeps() const { return has_channel() && first_state() < p.states; }

    // Whether whole tiles have no special cases.
    __device__ __forceinline__ bool is_plain() const {
        return p.alike && p.reset == nullptr && p.constant_b == nullptr && p.constant_c == nullptr &&
               channels == Shape::channels;
    }

    // Puts what does not change from step to step into shared memory. All threads call it before the first tile.
    template <typename Matrices>
    __device__ __forceinline__ void stage_constants(Matrices& m) const {
        for (int c = static_cast<int>(threadIdx.x); c < channels; c += Shape::threads) {
            m.bias[c] = param(p.bias, c);
            m.d[c] = param(p.d, c);
        }
        const auto stage = [&](const void* data, V* rows) {
            if (data == nullptr) return;
            const Numbers numbers = load_states(data, 0);
            reinterpret_cast<Numbers&>(rows[local_channel() * Shape::matrix_pitch + first_state()]) = numbers;
        };
        stage(p.constant_b, m.b);
        stage(p.constant_c, m.c);
    }
    // Puts the resets of the steps from `step` on, of which `valid` exist, into shared memory.
    template <typename Matrices>
    __device__ __forceinline__ void stage_resets(Matrices& m, int64_t step, int valid) const {
        if (p.reset == nullptr) return;
        for (int t = static_cast<int>(threadIdx.x); t < valid; t += Shape::threads)
            m.resets[t] = p.reset[batch * p.time + time_of(step + t)];
    }
    // A lane's numbers of B or C at a step of the tile.
    template <bool Plain>
    __device__ __forceinline__ const Numbers& numbers_at(const V* rows, const void* constant, int t) const {
        const int line = Plain || constant == nullptr ? t : local_channel();
        return reinterpret_cast<const Numbers&>(rows[line * Shape::matrix_pitch + first_state()]);
    }
};

// A thread's elements of a tensor in a tile of `Steps` steps and `Width` rows.
template <typename Block, typename T, int Steps, int Width>
struct TileColumn {
    using Places = TilePlaces<Steps, Width, Block::threads, Block::by_time>;
    char* first = nullptr;
    T held[Places::turns]{};

    // Moves to the tile that begins with `step`.
    __device__ __forceinline__ void move(const Block& block, const Places& places, const View& view, int64_t row,
                                         int64_t step) {
        first = view.data + block.offset_of(places, view, row, step);
    }
    __device__ __forceinline__ void advance(const Block& block, const View& view) {
        first += Steps * block.step_of(view);
    }
    // Loads the thread's elements; `steps` x `columns` of the tile exist.
    template <bool Whole>
    __device__ __forceinline__ void fetch(const Block& block, const Places& places, const View& view, int steps,
                                          int columns) {
        const int64_t turn = block.template turn_of<Places>(view);
#pragma unroll
        for (int i = 0; i < Places::turns; ++i)
            if (places.template exists<Whole>(i, steps, columns))
                held[i] = *reinterpret_cast<const T*>(first + i * turn);
    }
    template <bool Whole, typename R>
    __device__ __forceinline__ void store(const Block& block, const Places& places, const View& view, int steps,
                                          int columns, const StepNumbers<Places::turns, R>& values) const {
        const int64_t turn = block.template turn_of<Places>(view);
#pragma unroll
        for (int i = 0; i < Places::turns; ++i)
            if (places.template exists<Whole>(i, steps, columns))
                *reinterpret_cast<T*>(first + i * turn) = Element<T>::narrow(values.of[i]);
    }
};

// Puts a thread's numbers of a tile into shared memory, `steps` x `columns` of the tile exist; and gets them.
template <bool Whole, typename Places, typename Values, typename R>
__device__ __forceinline__ void put_values(Values& to, const Places& places, int steps, int columns,
                                           const R (&numbers)[Places::turns]) {
    constexpr int pack = 16 / static_cast<int>(sizeof(R));
    if constexpr (Whole && Places::next_are_steps && Places::turns % pack == 0) {
#pragma unroll
        for (int i = 0; i < Places::turns; i += pack) {
            LaneNumbers<R, pack> few;
#pragma unroll
            for (int k = 0; k < pack; ++k) few.of[k] = numbers[i + k];
            reinterpret_cast<LaneNumbers<R, pack>&>(to.of[places.column][places.step + i]) = few;
        }
    } else {
#pragma unroll
        for (int i = 0; i < Places::turns; ++i)
            if (places.template exists<Whole>(i, steps, columns))
                to.of[places.column_of(i)][places.step_of(i)] = numbers[i];
    }
}
template <bool Whole, typename Places, typename Values>
__device__ __forceinline__ auto values_from(const Values& from, const Places& places, int steps, int columns) {
    using R = std::decay_t<decltype(from.of[0][0])>;
    if constexpr (Whole && Places::next_are_steps) {
        return steps_from<Places::turns>(&from.of[places.column][places.step]);
    } else {
        StepNumbers<Places::turns, R> numbers{};
#pragma unroll
        for (int i = 0; i < Places::turns; ++i)
            if (places.template exists<Whole>(i, steps, columns))
                numbers.of[i] = from.of[places.column_of(i)][places.step_of(i)];
        return numbers;
    }
}

// B and C, if each step has its own, tile after tile. They are loaded one tile ahead where a thread can hold them.
template <typename Shape, int Steps>
struct MatrixColumns {
    using Block = SelectiveBlock<Shape>;
    using V = typename Shape::V;
    using Stored = typename Shape::Stored;
    using Column = TileColumn<Block, Stored, Steps, Shape::padded>;
    static constexpr bool ahead = Column::Places::turns * sizeof(Stored) <= 32;
    typename Column::Places places;
    Column b, c;
    int64_t offset = 0;  // where the thread's first element of the next tile is, if B and C lie alike

    __device__ __forceinline__ void move(const Block& block, int64_t step) {
        offset = block.offset_of(places, block.p.b, static_cast<int64_t>(block.group) * block.p.states, step);
    }
    // Whether all steps of all turns exist, and a thread has one state; then B and C lie alike (is_plain). Where they
    // are not loaded ahead, registers for that are not left.
    template <bool Whole>
    static constexpr bool every = (ahead && Column::Places::next_are_steps) ? Whole : false;

    // Loads the tile from `step` on, and moves on.
    template <bool Whole>
    __device__ __forceinline__ void fetch(const Block& block, int64_t step, int valid) {
        const View &of_b = block.p.b, &of_c = block.p.c;
        const int64_t at = offset;
        offset += Steps * block.step_of(of_b);
        if constexpr (every<Whole>) {
            if (places.column >= block.p.states) return;
            b.first = of_b.data + at;
            c.first = of_c.data + at;
            if (of_b.data != nullptr) b.template fetch<true>(block, places, of_b, valid, block.p.states);
            if (of_c.data != nullptr) c.template fetch<true>(block, places, of_b, valid, block.p.states);
        } else {
            const int64_t row = static_cast<int64_t>(block.group) * block.p.states;
            b.move(block, places, of_b, row, step);
            c.move(block, places, of_c, row, step);
            if (of_b.data != nullptr) b.template fetch<false>(block, places, of_b, valid, block.p.states);
            if (of_c.data != nullptr) c.template fetch<false>(block, places, of_c, valid, block.p.states);
        }
    }
    // Puts them into shared memory; states that do not exist are zeros.
    template <bool Whole>
    __device__ __forceinline__ void put(const Block& block, SelectiveMatrices<Shape, Steps>& to, int valid) const {
        const auto put = [&](const View& view, const Column& column, V* rows) {
            if (view.data == nullptr) return;
#pragma unroll
            for (int i = 0; i < Column::Places::turns; ++i) {
                if (!places.template exists<every<Whole>>(i, valid, Shape::padded)) continue;
                rows[places.step_of(i) * Shape::matrix_pitch + places.column_of(i)] =
                    Element<Stored>::widen(column.held[i]);
            }
        };
        put(block.p.b, b, to.b);
        put(block.p.c, c, to.c);
    }
};

}  // namespace flashscan::cuda
