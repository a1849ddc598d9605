// SPDX-License-Identifier: Apache-2.0
// Loads and stores of a tile, some steps of a block's channels or states, between global memory and shared memory.
#pragma once

#include <type_traits>

#include "cuda/device/tile/places.cuh"
#include "cuda/selective/block.cuh"

namespace flashscan::cuda {

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

// Puts a thread's numbers of a tile, of which `steps` x `columns` exist, into shared memory; values_from gets them.
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
    // Whether no place is tested: the tile is whole and has an element for each thread in each turn; then B and C lie
    // alike (is_plain). Only where loads run ahead; elsewhere registers do not suffice.
    template <bool Whole>
    static constexpr bool every = Whole&& ahead&& Column::Places::next_are_steps;

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
    // Puts the loaded tile into shared memory; states that do not exist are zeros.
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
