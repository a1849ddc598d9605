// SPDX-License-Identifier: Apache-2.0
// The kernel "chunked" of gated layers: what its passes share. The layer's elements become an affine map for each step,
//
//     forward    h' = a h + b                with b = m v             (math/gated.h)
//     backward   c' = a (c + e), g = c + e   with e the gradient of h that OUTPUT gives, c what later steps give
//
// Ownership  A block owns a chunk of consecutive steps of 32 neighbouring channels of a batch entry. Its threads form a and
//            b (or e) along the tensors' inner axis and leave them in shared memory; then a lane is a channel, and a warp
//            has some steps of the chunk.
// Order      1. Threads load what the layer needs of their elements, all of it before they use it, and form the maps.
//            2. Every warp composes its steps; the maps of warps are composed in order; the carry comes from the chunk
//               before, through global memory, and goes to the next.
//            3. Every warp walks its steps from its carry. 4. Threads store what follows from h or g.
//            Blocks go through all channels of a chunk before the next chunk. The association is fixed by the chunk's
//            size, which does not depend on the batch.
// Cuts       The first step of a sequence and a reset step take nothing from the step before: no product reaches over
//            them, whatever the numbers are. STATE_IN is part of b at the first step.
// In turn    Where a factor of the chunk exceeds 1, products of factors may overflow, or underflow and grow again, though no
//            state does. Warps then walk one after the other and compose nothing; so they do where packed sequences are to
//            have the bits that each has alone (BATCH_INVARIANT).
// Bytes      Every element of the named arrays once, in backward h of a chunk's first step twice; 8 bytes for each channel
//            and chunk.
// Progress   Blocks wait for blocks of lower index only.
// Sync       Three meetings of a block's warps. Carries validate themselves (device/exchange/published_values.cuh).
// Limits     None of the family: any strides, sequences, resets, directions.
#pragma once

#include "cuda/device/exchange/published_values.cuh"
#include "cuda/device/math/types.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/tile/places.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/device/tile/steps.cuh"
#include "cuda/gated/parts.cuh"

namespace flashscan::cuda {

// Data of type X; `Turns` elements of every tensor are a thread's. ByTime: neighbouring threads have neighbouring steps,
// else channels.
template <typename X_, int Turns, bool ByTime, bool Backward>
struct GatedShape {
    using X = X_;
    using R = typename Element<X>::Wide;
    static constexpr bool backward = Backward;
    static constexpr int warps = 8, threads = 32 * warps, channels = 32, turns = Turns;
    static constexpr int steps = Turns * threads / channels, warp_steps = steps / warps;
    static constexpr int pitch = channels + 1;
    using Places = TilePlaces<steps, channels, threads, ByTime>;
};

enum GatedStepFlags : uint8_t {
    gated_valid = 1,  // belongs to a sequence
    gated_first = 2,  // of its sequence
    gated_last = 4,
    gated_reset = 8
};

template <typename Shape>
struct GatedTile {
    using R = typename Shape::R;
    using Values = R[Shape::steps][Shape::pitch];
    Values a, b;  // b: then h; in backward e, then g
    R factors[Shape::warps][Shape::channels], results[Shape::warps][Shape::channels];  // the map of a warp's steps
    R rate[Shape::channels], rate_slope[Shape::channels], bias[Shape::channels];
    int64_t rows[Shape::steps];  // of the states
    uint8_t flags[Shape::steps];
    bool cuts[Shape::warps];  // the warp's map takes nothing from before
};

// The chunk of a block.
struct GatedPlace {
    int64_t chunk, batch, group;
    static __device__ __forceinline__ GatedPlace here(const GatedParams& p) {
        const auto columns = static_cast<uint32_t>(p.batches * p.groups), groups = static_cast<uint32_t>(p.groups);
        const uint32_t chunk = quotient(blockIdx.x, p.by_columns), column = blockIdx.x - chunk * columns;
        const uint32_t batch = quotient(column, p.by_groups);
        return {chunk, batch, column - batch * groups};
    }
    template <typename Shape>
    __device__ __forceinline__ bool is_plain(const GatedParams& p) const {
        return p.alike && p.offsets.data == nullptr && p.reset == nullptr && chunk > 0 &&
               (chunk + 1) * Shape::steps < p.time && (group + 1) * Shape::channels <= p.channels;
    }
};

// `Plain`: a chunk within one sequence that is not packed, without its ends, without resets, of channels that all exist, in
// tensors that are alike, so that a thread has one offset for all of them.
template <typename Shape, bool Plain>
struct GatedChunk {
    using X = typename Shape::X;
    using R = typename Shape::R;
    using Tile = GatedTile<Shape>;
    using Places = typename Shape::Places;
    using Values = R[Shape::turns];
    using F = Formula<R, !Shape::backward>;
    static constexpr int turns = Shape::turns, steps = Shape::steps;

    const GatedParams& p;
    Tile& tile;
    int64_t chunk, batch, group;
    Places places;
    int64_t offset = 0, turn = 0;  // if Plain: of a thread's first element, and from one element to the next

    __device__ __forceinline__ GatedChunk(const GatedParams& params, Tile& of_block, const GatedPlace& place)
        : p(params), tile(of_block), chunk(place.chunk), batch(place.batch), group(place.group) {
        if (Plain) offset = offset_in(p.gate, 0);
        if (Plain) turn = turn_of(p.gate);
    }

    __device__ __forceinline__ int lane() const { return static_cast<int>(threadIdx.x) % 32; }
    __device__ __forceinline__ int warp() const { return static_cast<int>(threadIdx.x) / 32; }
    __device__ __forceinline__ int64_t channel_of(int c) const { return group * Shape::channels + c; }
    // A step of the chunk in memory; backward walks against the layer.
    __device__ __forceinline__ bool descends() const { return (p.down != 0) != Shape::backward; }
    __device__ __forceinline__ int64_t time_of(int t) const {
        const int64_t step = chunk * steps + t;
        return descends() ? p.time - 1 - step : step;
    }
    __device__ __forceinline__ bool has(int i) const {
        return Plain ||
               ((tile.flags[places.step_of(i)] & gated_valid) != 0 && channel_of(places.column_of(i)) < p.channels);
    }

    // What the steps of the chunk are, and the channels' parameters. Ends with a meeting.
    __device__ __forceinline__ void look_up() {
        const int thread = static_cast<int>(threadIdx.x);
        if (!Plain && thread < steps) {
            const int64_t time = time_of(thread);
            uint8_t flags = 0;
            int64_t row = batch, begin = 0, end = p.time;
            if (chunk * steps + thread < p.time && time < end_of_steps(p.offsets, p.time)) {
                if (p.offsets.data != nullptr) {
                    row = find_sequence(p.offsets, time);
                    begin = load_offset(p.offsets, row);
                    end = load_offset(p.offsets, row + 1);
                }
                flags = gated_valid;
                if (time == begin) flags |= p.down ? gated_last : gated_first;
                if (time == end - 1) flags |= p.down ? gated_first : gated_last;
                if (p.reset != nullptr && p.reset[batch * p.time + time] != 0) flags |= gated_reset;
            }
            tile.flags[thread] = flags;
            tile.rows[thread] = row;
        }
        if (thread < Shape::channels) {
            const int64_t c = channel_of(thread);
            const bool there = c < p.channels;
            tile.bias[thread] = there && p.bias != nullptr ? parameter(p.bias, c) : R(0);
            gated::Rate<R> rate{R(0), R(0)};
            if (there && p.param != nullptr)
                rate = gated::rate_of(static_cast<Decay>(p.decay), parameter(p.param, c), static_cast<R>(p.decay_rate));
            tile.rate[thread] = rate.value;
            tile.rate_slope[thread] = rate.slope;
        }
        __syncthreads();
    }
    __device__ __forceinline__ R parameter(const void* data, int64_t c) const {
        return p.wide_params ? static_cast<const R*>(data)[c] : Element<X>::widen(static_cast<const X*>(data)[c]);
    }

    __device__ __forceinline__ int64_t offset_in(const View& view, int i) const {
        return batch * view.batch + channel_of(places.column_of(i)) * view.row + time_of(places.step_of(i)) * view.time;
    }
    __device__ __forceinline__ char* first_of(const View& view) const {
        return view.data + (Plain ? offset : offset_in(view, 0));
    }
    // Bytes from one element of a thread to its next.
    __device__ __forceinline__ int64_t turn_of(const View& view) const {
        return Places::rows_of_turn * view.row + Places::steps_of_turn * (descends() ? -view.time : view.time);
    }
    // A thread's elements of a tensor; zeros where there are none.
    template <typename T>
    __device__ __forceinline__ void load_as(const View& view, Values& values, int64_t later = 0) const {
        const char* from = first_of(view) + later * view.time;
        const int64_t next = Plain ? turn : turn_of(view);
#pragma unroll
        for (int i = 0; i < turns; ++i, from += next)
            values[i] = has(i) ? Element<T>::widen(*reinterpret_cast<const T*>(from)) : R(0);
    }
    __device__ __forceinline__ void load(const View& view, Values& values) const {
        if (view.data == nullptr) {
#pragma unroll
            for (int i = 0; i < turns; ++i) values[i] = R(0);
        } else {
            load_as<X>(view, values);
        }
    }
    __device__ __forceinline__ void load_gate(const View& view, Values& values) const {
        if (!Plain && view.data != nullptr && p.wide_gates)
            load_as<R>(view, values);
        else
            load(view, values);
    }
    template <typename T>
    __device__ __forceinline__ void store_as(const View& view, const Values& values) const {
        char* to = first_of(view);
        const int64_t next = Plain ? turn : turn_of(view);
#pragma unroll
        for (int i = 0; i < turns; ++i, to += next)
            if (has(i)) *reinterpret_cast<T*>(to) = Element<T>::narrow(values[i]);
    }
    __device__ __forceinline__ void store(const View& view, const Values& values) const {
        if (view.data != nullptr) store_as<X>(view, values);
    }
    __device__ __forceinline__ void store_gate(const View& view, const Values& values) const {
        if (view.data == nullptr) return;
        if (!Plain && p.wide_gates)
            store_as<R>(view, values);
        else
            store_as<X>(view, values);
    }
    __device__ __forceinline__ uint8_t flags_of(int i) const {
        return Plain ? uint8_t{gated_valid} : tile.flags[places.step_of(i)];
    }
    // Of a thread's element, in [row][channel].
    __device__ __forceinline__ int64_t state_of(int i) const {
        return tile.rows[places.step_of(i)] * p.channels + channel_of(places.column_of(i));
    }
    __device__ __forceinline__ R& in(typename Tile::Values& values, int i) const {
        return values[places.step_of(i)][places.column_of(i)];
    }

    __device__ __forceinline__ void add_bias(Values& gate) const {
#pragma unroll
        for (int i = 0; i < turns; ++i) gate[i] = gate[i] + tile.bias[places.column_of(i)];
    }
    // Whether the element's m is 1.
    __device__ __forceinline__ bool is_open(int i) const {
        const uint8_t flags = flags_of(i);
        return (p.first_step && (flags & gated_reset) != 0) || (p.starts_open && (flags & gated_first) != 0);
    }

    // Whether the carry into a step does not count (forward), or what leaves it does not (backward).
    __device__ __forceinline__ bool cuts(int t) const {
        return !Plain && (tile.flags[t] & (gated_valid | gated_first | gated_reset)) != gated_valid;
    }
    // One step of a lane's channel from the carry; b becomes h, or e becomes g.
    __device__ __forceinline__ R advance(int t, R carry) {
        R& b = tile.b[t][lane()];
        if constexpr (Shape::backward) {
            b = b + carry;
            return cuts(t) ? R(0) : tile.a[t][lane()] * b;
        } else {
            b = cuts(t) ? b : multiply_add(tile.a[t][lane()], carry, b);
            return b;
        }
    }
    __device__ __forceinline__ int64_t place_of_carry(int64_t into) const {
        return (((into - 1) * p.batches + batch) * p.groups + group) * Shape::channels + lane();
    }
    __device__ __forceinline__ R carry_in() const {
        return chunk == 0 ? R(0) : await_value<R>(p.carries, place_of_carry(chunk));
    }
    __device__ __forceinline__ void publish(R carry) const {
        if (chunk + 1 < p.chunks) publish_value(p.carries, place_of_carry(chunk + 1), carry);
    }

    // From the maps of all steps to h or g of all steps. Begins and ends with a meeting.
    __device__ __forceinline__ void scan(const Values& a) {
        bool far = p.in_turn != 0;
#pragma unroll
        for (int i = 0; i < turns; ++i) far = far || !(a[i] <= R(1) && a[i] >= R(-1));
        if (__syncthreads_or(far) != 0)
            walk_in_turn();
        else
            compose_and_walk();
        __syncthreads();
    }
    __device__ __forceinline__ void walk_in_turn() {
        for (int w = 0; w < Shape::warps; ++w) {
            if (warp() == w) {
                R carry = w == 0 ? carry_in() : tile.results[w - 1][lane()];
                for (int k = 0; k < Shape::warp_steps; ++k) carry = advance(w * Shape::warp_steps + k, carry);
                tile.results[w][lane()] = carry;
                if (w + 1 == Shape::warps) publish(carry);
            }
            __syncthreads();
        }
    }
    __device__ __forceinline__ void compose_and_walk() {
        const int first = warp() * Shape::warp_steps;
        R factor = R(1), result = R(0);
        bool cut = false;
#pragma unroll
        for (int k = 0; k < Shape::warp_steps; ++k) {
            const int t = first + k;
            const R a = tile.a[t][lane()], b = tile.b[t][lane()];
            if (cuts(t)) {
                cut = true;
                result = Shape::backward ? R(0) : b;
            } else {
                factor = factor * a;
                result = Shape::backward ? a * (result + b) : multiply_add(a, result, b);
            }
        }
        tile.factors[warp()][lane()] = factor;
        tile.results[warp()][lane()] = result;
        if (lane() == 0) tile.cuts[warp()] = cut;
        __syncthreads();
        // The last warp hands the carry on before it walks.
        R carry = carry_in();
        for (int w = 0; w < warp(); ++w) carry = apply(w, carry);
        if (warp() + 1 == Shape::warps) publish(apply(warp(), carry));
#pragma unroll
        for (int k = 0; k < Shape::warp_steps; ++k) carry = advance(first + k, carry);
    }
    // A zero carry meets no factor.
    __device__ __forceinline__ R apply(int w, R carry) const {
        const R result = tile.results[w][lane()];
        return tile.cuts[w] || is_zero(carry) ? result : multiply_add(tile.factors[w][lane()], carry, result);
    }
};

}  // namespace flashscan::cuda
