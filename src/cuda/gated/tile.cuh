// SPDX-License-Identifier: Apache-2.0
// How the threads of gated layers are laid out over a problem, and what a lane holds of it: L consecutive steps of V
// neighbouring channels, in registers. Steps are counted in the order of the walk, which in backward goes against the
// layer.
//
//   channels innermost   Lanes are neighbouring packs of V channels; a warp has L steps of 32 V channels.
//   time innermost       Lanes are consecutive segments of L steps; a warp has 32 L steps of V channels.
//
// 2^log2_time_warps warps of a block have consecutive steps, which make a chunk; the others have neighbouring channels.
//
// A problem is Plain if its tensors are contiguous along the inner axis and aligned to what a lane loads at once, each
// row is one sequence without resets, the layer goes from the first step to the last, there are fewer than 2^30 steps
// and channels, and strides along the other axis have 32 bits. Lanes then hold elements as they are in memory.
// Otherwise every element is addressed, checked and held by itself.
#pragma once

#include "cuda/device/exchange/published_values.cuh"
#include "cuda/device/math/types.cuh"
#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/tile/long_product.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/device/tile/steps.cuh"
#include "cuda/gated/parts.cuh"

namespace flashscan::cuda {

template <typename X_, bool ByTime, bool Backward, int Pack, int Steps, int Resident>
struct GatedShape {
    using X = X_;
    using R = typename Element<X>::Wide;
    static constexpr bool by_time = ByTime, backward = Backward;
    static constexpr int warps = 8, threads = 32 * warps;
    static constexpr int resident = Resident;  // blocks per multiprocessor, see gated_resident
    static constexpr int V = Pack, L = Steps;
    static constexpr int warp_steps = ByTime ? 32 * L : L, warp_channels = ByTime ? V : 32 * V;
    static constexpr int most_channels = warps * warp_channels;  // the most channels of a block
};

// Blocks per multiprocessor, for which __launch_bounds__ limits a kernel's registers. Parts that are chosen at run
// time, the slopes of a ratio and look-back need more registers.
template <typename Shape, typename Parts>
constexpr bool gated_takes_registers = !Parts::named || (Parts::is_ratio && Shape::backward);
template <typename Shape, typename Parts, bool Plain, bool FewRows>
constexpr int gated_resident =
    !Plain                                                                  ? (Shape::backward && Shape::V > 1 ? 1 : 2)
    : (FewRows || gated_takes_registers<Shape, Parts>)&&Shape::resident > 2 ? Shape::resident - 1
                                                                            : Shape::resident;

// A lane's elements of a tensor; get(i, v) returns that of step i of the walk and channel v. When two 16-bit elements
// of a word are set one after the other, the word holds the first as f32 until the second is set.
template <typename Shape, bool Plain>
struct GatedElements {
    using X = typename Shape::X;
    using R = typename Shape::R;
    static constexpr int L = Shape::L, V = Shape::V;
    static constexpr int count = L * V * static_cast<int>(sizeof(X)) / 4;
    uint32_t word[count];

    // The element's place among the lane's, in the order of memory.
    static constexpr __device__ __forceinline__ int place(int i, int v) {
        if (!Shape::by_time) return i * V + v;
        return v * L + (Shape::backward ? L - 1 - i : i);
    }
    __device__ __forceinline__ R get(int i, int v) const {
        const int e = place(i, v);
        if constexpr (sizeof(X) == 2)
            return Element<X>::widen_half(word[e / 2], e % 2);
        else if constexpr (sizeof(X) == 4)
            return __uint_as_float(word[e]);
        else
            return __hiloint2double(static_cast<int>(word[2 * e + 1]), static_cast<int>(word[2 * e]));
    }
    // To be called for the steps in the order of the walk.
    __device__ __forceinline__ void set(int i, const R (&values)[V]) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const int e = place(i, v);
            if constexpr (sizeof(X) == 8) {
                word[2 * e] = static_cast<uint32_t>(__double2loint(values[v]));
                word[2 * e + 1] = static_cast<uint32_t>(__double2hiint(values[v]));
            } else if constexpr (sizeof(X) == 4) {
                word[e] = __float_as_uint(values[v]);
            } else {
                const bool second = Shape::by_time ? i % 2 == 1 : v % 2 == 1;
                const bool ascends = !(Shape::by_time && Shape::backward);
                const float waits = __uint_as_float(word[e / 2]);
                word[e / 2] = !second   ? __float_as_uint(values[v])
                              : ascends ? Element<X>::narrow_pair(waits, values[v])
                                        : Element<X>::narrow_pair(values[v], waits);
            }
        }
    }
};
template <typename Shape>
struct GatedElements<Shape, false> {
    using R = typename Shape::R;
    R value[Shape::L][Shape::V];
    __device__ __forceinline__ R get(int i, int v) const { return value[i][v]; }
    __device__ __forceinline__ void set(int i, const R (&values)[Shape::V]) {
#pragma unroll
        for (int v = 0; v < Shape::V; ++v) value[i][v] = values[v];
    }
};

// Masks of a lane's steps, in which bit i is for step i.
struct GatedEvents {
    uint32_t valid = 0;            // whether the step belongs to a sequence
    uint32_t first = 0, last = 0;  // whether it is the first or last of its sequence, in the layer's direction
    uint32_t reset = 0;
    static __device__ __forceinline__ bool at(uint32_t mask, int i) { return (mask >> i & 1) != 0; }
};

template <typename Shape, bool Plain>
struct GatedTile {
    using X = typename Shape::X;
    using R = typename Shape::R;
    using Elements = GatedElements<Shape, Plain>;
    static constexpr int L = Shape::L, V = Shape::V;
    using Values = R[L][V];

    const GatedParams& p;
    int lane, warp_time, warp_group;
    using Int = std::conditional_t<Plain, int32_t, int64_t>;
    uint32_t slot;           // the place of the block's chunk among those of the launch
    uint32_t chunk, chunks;  // this chunk and how many there are, of the row or of a packed sequence
    uint32_t batch;
    // The steps [begin, begin + length) of memory are cut into chunks; length is 0 where the slot has no chunk.
    Int begin = 0, length;
    Int channel, step;    // the lane's first
    int channels, steps;  // how many of the lane's exist; without channels there are no steps
    // In backward with channels innermost, a lane with fewer than L steps has its missing steps first, so that the
    // walk's last step, which has special cases, is always a lane's step L - 1. `lacks` is the number of missing steps.
    static constexpr bool ends_aligned = Plain && Shape::backward && !Shape::by_time;
    int lacks = 0;
    bool whole;  // whether all steps and channels of the warp's lanes exist
    GatedEvents events;

    __device__ __forceinline__ explicit GatedTile(const GatedParams& params) : p(params) {
        const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
        const auto columns = static_cast<uint32_t>(p.batches * p.groups), groups = static_cast<uint32_t>(p.groups);
        slot = quotient(blockIdx.x, p.by_columns);
        const uint32_t column = blockIdx.x - slot * columns;
        batch = quotient(column, p.by_groups);
        lane = thread & 31;
        chunk = slot, chunks = static_cast<uint32_t>(p.chunks), length = Int(p.time);
        if constexpr (!Plain) find_chunk();
        warp_time = warp & ((1 << p.log2_time_warps) - 1);
        warp_group = warp >> p.log2_time_warps;
        const Int pack = Int(column - batch * groups) * (Shape::warps >> p.log2_time_warps) + warp_group;
        const Int part = (Int(chunk) << p.log2_time_warps) + warp_time;
        channel = pack * Shape::warp_channels + (Shape::by_time ? 0 : lane * V);
        step = part * Shape::warp_steps + (Shape::by_time ? lane * L : 0);
        channels = static_cast<int>(max(min(Int(p.channels) - channel, Int(V)), Int(0)));
        steps = channels == 0 ? 0 : static_cast<int>(max(min(length - step, Int(L)), Int(0)));
        // This compares the differences before they are clamped: for clamped ones ptxas 13.0 emits a wrong predicate,
        // which is true where one channel of two exists (docs/decisions/cuda.md).
        whole = __all_sync(0xffffffffU, length - step >= L && Int(p.channels) - channel >= V) != 0;
        if constexpr (ends_aligned) {
            lacks = L - steps;
            if (steps > 0) step -= lacks;
        }
        if constexpr (!Plain) find_events();
    }

    __device__ __forceinline__ bool last_in_time() const { return warp_time == (1 << p.log2_time_warps) - 1; }
    __device__ __forceinline__ bool descends() const { return (p.down != 0) != Shape::backward; }
    __device__ __forceinline__ int64_t time_of(int64_t i) const {
        return descends() ? begin + length - 1 - step - i : begin + step + i;
    }
    // Whether step i of the lane exists and is step `wanted` of the walk.
    __device__ __forceinline__ bool is_step(int i, Int wanted) const { return exists(i) && step + i == wanted; }
    __device__ __forceinline__ bool exists(int i) const { return ends_aligned ? i >= lacks : i < steps; }

    // Finds the block's chunk where each packed sequence is cut into chunks from the first step of its own walk.
    __device__ __forceinline__ void find_chunk() {
        if (p.by_sequence == 0) return;
        static_assert(1 << log2_of<Shape::warp_steps> == Shape::warp_steps);
        const int log2_steps = log2_of<Shape::warp_steps> + p.log2_time_warps;
        const ChunkPlace of = place_of_chunk(p.offsets, log2_steps, slot, lane);
        chunk = of.chunk, chunks = of.chunks;
        begin = of.begin, length = of.end - of.begin;
    }
    __device__ __forceinline__ void find_events() {
        const int64_t end = end_of_steps(p.offsets, p.time);
        bool reset[L] = {};
        if (p.reset != nullptr && length > 0) {
#pragma unroll
            for (int i = 0; i < L; ++i) reset[i] = p.reset[batch * p.time + time_of(existing(i))] != 0;
        }
        int64_t row = -1, start = 0, finish = p.time;
#pragma unroll
        for (int i = 0; i < L; ++i) {
            const int64_t time = time_of(i);
            if (i >= steps || time >= end) continue;
            if (p.offsets.data != nullptr && (row < 0 || time < start || time >= finish)) {
                row = find_sequence(p.offsets, time);
                start = load_offset(p.offsets, row);
                finish = load_offset(p.offsets, row + 1);
            }
            const uint32_t bit = 1U << i;
            events.valid |= bit;
            if (time == (p.down ? finish - 1 : start)) events.first |= bit;
            if (time == (p.down ? start : finish - 1)) events.last |= bit;
            if (reset[i]) events.reset |= bit;
        }
    }
    // Step i, or if it does not exist the last step that does, of which there must be one. That one is loaded in its
    // place and dropped later, since loads under conditions wait for one another.
    __device__ __forceinline__ int64_t existing(int64_t i) const { return min(i, length - 1 - step); }
    __device__ __forceinline__ char* existing_address(const View& view, int i, int v) const {
        const int64_t c = min(channel + int64_t{v}, p.channels - 1);
        return view.data + batch * view.batch + c * view.row + time_of(existing(i)) * view.time;
    }
    __device__ __forceinline__ bool has(int i, int v) const { return v < channels && events.at(events.valid, i); }
    __device__ __forceinline__ bool is_first(int i) const {
        return Plain ? is_step(i, Shape::backward ? Int(p.time) - 1 : 0) : events.at(events.first, i);
    }
    __device__ __forceinline__ bool is_last(int i) const {
        return Plain ? is_step(i, Shape::backward ? 0 : Int(p.time) - 1) : events.at(events.last, i);
    }
    // Whether step i is reset; and whether its state does not depend on the one before.
    __device__ __forceinline__ bool resets(int i) const { return !Plain && events.at(events.reset, i); }
    __device__ __forceinline__ bool cuts(int i) const {
        return !Plain && !events.at(events.valid & ~events.first & ~events.reset, i);
    }
    // Whether m is 1 at step i.
    __device__ __forceinline__ bool is_unscaled(int i) const {
        return (p.first_step && resets(i)) || (p.starts_unscaled && is_first(i));
    }
    // Makes the maps of steps that do not exist the identity.
    __device__ __forceinline__ void leave_out(Values& a, Values& b) const {
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (!exists(i)) a[i][v] = R(1), b[i][v] = R(0);
    }
    // The index of the state of step i and channel v in [row][channel].
    __device__ __forceinline__ int64_t state_of(int i, int v) const {
        const int64_t row = Plain || p.offsets.data == nullptr ? batch : find_sequence(p.offsets, time_of(i));
        return row * p.channels + channel + v;
    }

    // For Plain: a vector of a lane is the V channels of a step, or 16 bytes of steps of a channel. A row of vectors
    // belongs to a step, or to a channel.
    static constexpr int vector_words = Shape::by_time ? 4 : V * static_cast<int>(sizeof(X)) / 4;
    static constexpr int rows = Shape::by_time ? V : L, row_words = L * V * static_cast<int>(sizeof(X)) / 4 / rows;
    // The lane's first row of vectors begins at this address; next_row returns the bytes from one row to the next.
    __device__ __forceinline__ char* first_row(const View& view) const {
        if constexpr (Shape::by_time) {
            const Int time = Shape::backward ? Int(p.time) - L - step : step;
            return view.data + batch * view.batch + long_product(channel, view.row) +
                   int64_t{time} * static_cast<int>(sizeof(X));
        } else {
            const Int time = Shape::backward ? Int(p.time) - 1 - step : step;
            return view.data + batch * view.batch + int64_t{channel} * static_cast<int>(sizeof(X)) +
                   long_product(time, view.time);
        }
    }
    // The address of the element of channel v one step after the lane's last one in the order of the walk. It is for
    // backward, where lanes that have steps have the last one.
    __device__ __forceinline__ const char* address_before(const View& view, int v) const {
        constexpr int64_t element = sizeof(X);
        if constexpr (Shape::by_time) return first_row(view) + v * view.row - element;
        return first_row(view) + v * element + offset_of_row(view, L);
    }
    // The bytes from the lane's first row of vectors to row k.
    __device__ __forceinline__ int64_t offset_of_row(const View& view, int k) const {
        return long_product(Shape::backward && !Shape::by_time ? -k : k, Shape::by_time ? view.row : view.time);
    }
    __device__ __forceinline__ bool has_row(int k, int later) const {
        return Shape::by_time ? k < channels && steps > 0 : exists(k) && step + k + later < Int(p.time);
    }

    // Loads the lane's elements, moved by `later` steps in the order of the walk.
    template <bool Whole>
    __device__ __forceinline__ void load(const View& view, Elements& x, int later = 0) const {
        if constexpr (Plain) {
            const char* const first = first_row(view);
#pragma unroll
            for (int k = 0; k < rows; ++k) {
                const char* const from = k + later == 0 ? first : first + offset_of_row(view, k + later);
#pragma unroll
                for (int w = 0; w < row_words; w += vector_words) {
                    uint32_t* const to = x.word + k * row_words + w;
                    if (Whole || has_row(k, later)) {
                        load_words<vector_words>(from + 4 * w, to);
                    } else {
#pragma unroll
                        for (int n = 0; n < vector_words; ++n) to[n] = 0;
                    }
                }
            }
        } else {
            load_each<X>(view, x);
        }
    }
    template <bool Whole>
    __device__ __forceinline__ void load_gate(const View& view, Elements& x) const {
        if constexpr (Plain)
            load<Whole>(view, x);
        else if (p.wide_gates)
            load_each<R>(view, x);
        else
            load_each<X>(view, x);
    }
    __device__ __forceinline__ char* address(const View& view, int i, int v) const {
        return view.data + batch * view.batch + (channel + v) * view.row + time_of(i) * view.time;
    }
    template <typename T>
    __device__ __forceinline__ void load_each(const View& view, Elements& x) const {
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v) x.value[i][v] = R(0);
        if (view.data == nullptr || steps == 0) return;
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v)
                x.value[i][v] = kept(Element<T>::widen(*reinterpret_cast<const T*>(existing_address(view, i, v))));
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (!has(i, v)) x.value[i][v] = R(0);
    }
    // The compiler would move a load whose value may be dropped under the condition for it.
    static __device__ __forceinline__ float kept(float x) {
        asm volatile("" : "+f"(x));
        return x;
    }
    static __device__ __forceinline__ double kept(double x) {
        asm volatile("" : "+d"(x));
        return x;
    }

    __device__ __forceinline__ void store(const View& view, const Elements& x) const {
        if (view.data == nullptr) return;
        if constexpr (!Plain)
            store_each<X>(view, x);
        else if (whole)
            store_words<true>(view, x);
        else
            store_words<false>(view, x);
    }
    __device__ __forceinline__ void store_gate(const View& view, const Elements& x) const {
        if constexpr (Plain)
            store(view, x);
        else if (view.data != nullptr && p.wide_gates)
            store_each<R>(view, x);
        else
            store(view, x);
    }
    template <bool Whole>
    __device__ __forceinline__ void store_words(const View& view, const Elements& x) const {
        char* const first = first_row(view);
#pragma unroll
        for (int k = 0; k < rows; ++k) {
            char* const to = k == 0 ? first : first + offset_of_row(view, k);
#pragma unroll
            for (int w = 0; w < row_words; w += vector_words)
                if (Whole || has_row(k, 0)) cuda::store_words<vector_words>(x.word + k * row_words + w, to + 4 * w);
        }
    }
    template <typename T>
    __device__ __forceinline__ void store_each(const View& view, const Elements& x) const {
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v)
                if (has(i, v)) *reinterpret_cast<T*>(address(view, i, v)) = Element<T>::narrow(x.value[i][v]);
    }
};

}  // namespace flashscan::cuda
