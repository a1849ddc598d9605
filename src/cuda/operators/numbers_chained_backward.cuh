// SPDX-License-Identifier: Apache-2.0
// The kernels of "numbers" that are chained scans of gradients, number_rows_backward with time innermost and
// number_columns_backward with channels innermost (device/scan/chained_rows.cuh and chained_columns.cuh tell ownership,
// order and synchronisation), for operators whose slopes are not all 1; the kernels of numbers_chained.cuh scan the
// gradients of sums.
//
//     g[t-1] = GRAD|OUTPUT[t-1] + dy[t]/dy[t-1] g[t]        GRAD|INPUT[t] = dy[t]/dx[t] g[t]
//
// Marks      number_rows_marks or number_columns_marks is launched first. It is the forward scan of
//            numbers_chained.cuh, but writes to SCRATCH, in place of OUTPUT, the carry into each tile of the gradient
//            kernel: its mark.
// Passes     The gradient kernel recomputes y of a tile from its mark in the order of the scan, and the slopes with it:
//            with time innermost a warp does, which has one mark, with channels innermost a lane, which has one for
//            each of its rows. It then scans the maps g -> slope g + c of the steps in the opposite order.
// Bytes      INPUT is read twice, by both launches, GRAD|OUTPUT once, and GRAD|INPUT is written once. Every tile's mark
//            is written and read. A tile with channels innermost is a lane's, which has 16 steps of each of its rows,
//            in f64 8; with time innermost it is a warp's, of 32 times as many steps.
// Bound      Memory: both launches together move 3.4 TB/s for products of f32 on an H200.
// Limits     Those of the forward kernels, and no complex numbers. With time innermost INPUT, GRAD|OUTPUT and
//            GRAD|INPUT begin their rows at the same place within 16 bytes.
#pragma once

#include "cuda/operators/numbers_chained.cuh"

namespace flashscan::cuda {

// The monoid of the maps g -> slope g + c. A gradient of zero gives exactly c, even where the product of the slopes has
// overflowed.
template <typename Wide_>
struct SlopeMonoid {
    using Wide = Wide_;
    struct Map {
        Wide slope, c;
    };
    using Record = Map;
    static __device__ __forceinline__ Map identity() { return {one(Wide{}), Wide{}}; }
    static __device__ __forceinline__ Wide start() { return Wide{}; }
    static __device__ __forceinline__ Wide apply(const Map& map, Wide g) {
        return is_zero(g) ? map.c : multiply_add(map.slope, g, map.c);
    }
    static __device__ __forceinline__ Map compose(const Map& early, const Map& late) {
        return {early.slope * late.slope, apply(late, early.c)};
    }
    static __device__ __forceinline__ Map shuffle_map(const Map& map, int lane) {
        return {shuffle(map.slope, lane), shuffle(map.c, lane)};
    }
    static __device__ __forceinline__ Record to_record(const Map& map) { return map; }
    static __device__ __forceinline__ Map to_map(const Record& map) { return map; }
    static __device__ __forceinline__ bool is_cut(const Map&) { return false; }
};

// The steps of a lane in the kernels of gradients, which have more arrays than the scan: 16 of numbers up to 4 bytes,
// 8 of f64.
template <typename Forward>
constexpr int gradient_steps = Forward::L / (Forward::L > 32 ? 4 : 2);
template <typename Forward>
struct NumberGradientShape : Forward {
    static constexpr int L = gradient_steps<Forward>;
};

// The works of the scan that writes only marks.
template <typename X, typename Operator, bool Down>
struct NumberRowsMarks : NumberRowsWork<X, Operator, Down> {
    using Base = NumberRowsWork<X, Operator, Down>;
    using Base::Base, Base::p, Base::at;
    using typename Base::Monoid, typename Base::Shape, typename Base::Wide;

    __device__ __forceinline__ bool writes() const { return true; }
    // A tile of this kernel holds two or four tiles of the gradient kernel, of `steps` steps each. In each of these the
    // lane that comes first in the order of the scan writes the carry that enters it.
    __device__ __forceinline__ void walk(Wide (&carry)[1]) const {
        constexpr int steps = 32 * gradient_steps<Shape>, lanes = steps / Shape::L;
        const Segments<Monoid, Shape, Down> segments{at};
        const int64_t t0 = at.warp_t0 + at.segment / lanes * steps;
        if (at.rows == 0 || t0 >= p.time || segments.mine() % lanes != 0) return;
        const int64_t place = (t0 + Base::skew_of(p, at.batch, static_cast<uint32_t>(at.row))) / steps;
        static_cast<Wide*>(p.marks)[this->state(0) * p.mark_places + place] = carry[0];
    }
};
template <typename X, typename Operator>
struct NumberColumnsMarks : NumberColumnsWork<X, Operator, NumberWork<X, Operator, NumberColumnsShape<X>, false>> {
    using Base = NumberColumnsWork<X, Operator, NumberWork<X, Operator, NumberColumnsShape<X>, false>>;
    using Base::Base, Base::p, Base::at, Base::source;
    using typename Base::Shape, typename Base::Wide;
    static constexpr int L = Shape::L, V = Shape::V;

    __device__ __forceinline__ bool writes() const { return true; }
    // A tile of the gradient kernel has `steps` steps, and tile k is followed by k * `steps` steps of the row. So the
    // scan enters it where (k + 1) * `steps` are left. The mark of the tile with the first step is never read.
    __device__ __forceinline__ void walk(Wide (&carry)[V]) const {
        constexpr int steps = gradient_steps<Shape>;
        RunningNumber<Operator, X> running[V];
#pragma unroll
        for (int v = 0; v < V; ++v) running[v].begin(carry[v]);
        const int64_t left = p.time - at.t0;
        const int begins = static_cast<int>(left % steps);
#pragma unroll
        for (int i = 0; i < L; ++i) {
            if (i % steps == begins && i < at.steps) {
                const int64_t place = at.batch * p.mark_places + (left - i) / steps - 1;
                Wide* const to = static_cast<Wide*>(p.marks) + place * p.rows + at.row;
#pragma unroll
                for (int v = 0; v < V; ++v) to[v] = running[v].value();
            }
#pragma unroll
            for (int v = 0; v < V; ++v) running[v].add(source.get(i, v));
        }
    }
};

// The slopes of numbers that are combined one after the other: what a gradient of the new value is multiplied by to
// give those of the old one and of x.
template <typename Operator, typename Wide>
struct RunningSlopes {
    Wide y;
    __device__ __forceinline__ void begin(Wide first) { y = first; }
    __device__ __forceinline__ void add(Wide x, Wide& left, Wide& right) {
        left = Operator::left_slope(y, x);
        right = Operator::right_slope(y, x);
        y = combine_numbers<Operator, false>(y, x);
    }
};
template <typename Wide>
struct RunningSlopes<combine::LogAddExp, Wide> : LogSum<Wide> {};
template <>
struct RunningSlopes<combine::LogAddExp, float> : LogSum<float> {
    using Quick = NearLogSum<true>;
};

// NumberGradientWork is what NumberRowsGradientWork and NumberColumnsGradientWork share. `Down` is the direction of the
// walk over gradients, which is opposite to the scan's.
template <typename X, typename Operator, typename Shape_, bool Down_>
struct NumberGradientWork : NumberLane<NumberGradientParams, Shape_, Down_> {
    using Lane = NumberLane<NumberGradientParams, Shape_, Down_>;
    using Wide = typename Element<X>::Wide;
    using Monoid = SlopeMonoid<Wide>;
    using Map = typename Monoid::Map;
    using Lane::Lane, Lane::Down, Lane::L, Lane::V, Lane::p, Lane::at, Lane::state;
    using typename Lane::Shape;

    Steps<X, Shape> gradient;      // GRAD|OUTPUT, then GRAD|INPUT
    Wide left[L][V], right[L][V];  // the slopes dy[t]/dy[t-1] and dy[t]/dx[t]

    using Scanned = LaneNumbers<X, Shape, !Down>;  // in the order of the scan

    template <typename Body>
    static __device__ __forceinline__ void for_steps(Body&& body) {
#pragma unroll
        for (int k = 0; k < L; ++k) body(Down ? L - 1 - k : k);
    }
    // Sets the slopes, for y before the lane's steps. `plain` tells that all steps exist and have a step or a state
    // before them. Without one y[t] is x[t], so that slopes are 0 and 1; steps that do not exist pass g on.
    __device__ __forceinline__ void find_slopes(Steps<X, Shape>& source, const Wide (&y)[V], bool plain) {
        const Scanned numbers{source};
        with_running<RunningSlopes<Operator, Wide>>(y, numbers, [&](auto& running) {
#pragma unroll
            for (int k = 0; k < L; ++k)
#pragma unroll
                for (int v = 0; v < V; ++v)
                    running[v].add(numbers.get(k, v), left[numbers.step(k)][v], right[numbers.step(k)][v]);
        });
        if (plain) return;
        const int64_t first = Down ? 0 : p.time - 1;
#pragma unroll
        for (int i = 0; i < L; ++i) {
            const bool exists = i >= at.first && i < at.steps,
                       starts = at.t0 + i == first && p.scan_state_in == nullptr;
#pragma unroll
            for (int v = 0; v < V; ++v) {
                left[i][v] = !exists ? one(Wide{}) : starts ? Wide{} : left[i][v];
                if (starts) right[i][v] = one(Wide{});
            }
        }
    }
    // Turns the gradient g of y[t] into that of y[t-1]; returns the gradient that dy[t]/dx[t] is multiplied by.
    __device__ __forceinline__ Wide step_back(int i, int v, bool exclusive, Wide& g) const {
        const Wide d = gradient.get(i, v), here = exclusive ? g : g + d;
        g = exclusive ? Monoid::apply({left[i][v], d}, g) : left[i][v] * here;
        return here;
    }
    template <typename Then>
    __device__ __forceinline__ void summarize(Map (&through)[V], Then&& then) const {
        const bool exclusive = p.exclusive != 0;
#pragma unroll
        for (int v = 0; v < V; ++v) through[v] = Monoid::identity();
        for_steps([&](int i) {
#pragma unroll
            for (int v = 0; v < V; ++v) {
                step_back(i, v, exclusive, through[v].c);
                through[v].slope = through[v].slope * left[i][v];
            }
        });
        then();
    }
    // Replaces the gradients of OUTPUT by those of INPUT.
    __device__ __forceinline__ void walk_steps(Wide (&g)[V]) {
        const bool exclusive = p.exclusive != 0;
        StepWriter<X, Shape, Down> writer{gradient};
        for_steps([&](int i) {
            Wide results[V];
#pragma unroll
            for (int v = 0; v < V; ++v) results[v] = right[i][v] * step_back(i, v, exclusive, g[v]);
            writer.set(i, results);
        });
    }
    __device__ __forceinline__ Wide enter(int v) const {
        Wide g = p.state_in == nullptr ? Wide{} : static_cast<const Wide*>(p.state_in)[state(v)];
        if (p.grad_reduced != nullptr)
            g = g + load_number<X>(static_cast<const char*>(p.grad_reduced) + state(v) * sizeof(X), false);
        return g;
    }
    __device__ __forceinline__ bool is_left() const { return p.state_out != nullptr; }
    __device__ __forceinline__ void leave(int v, Wide g) const {
        if (p.state_out != nullptr) static_cast<Wide*>(p.state_out)[state(v)] = g;
    }
};

template <typename X, typename Operator, bool Down>
struct NumberRowsGradientWork : NumberGradientWork<X, Operator, NumberGradientShape<NumberRowsShape<X>>, Down> {
    using Base = NumberGradientWork<X, Operator, NumberGradientShape<NumberRowsShape<X>>, Down>;
    using typename Base::Shape, typename Base::Wide;
    using Forward = NumberMonoid<X, Operator>;
    using Data = SkewedVectors<X, Shape>;
    using Part = typename Data::Part;
    static constexpr int buffer_bytes = Data::buffer_bytes, L = Shape::L;
    using Base::p, Base::at, Base::gradient;

    char* buffer;
    const Part part;

    static __device__ __forceinline__ int skew_of(const NumberChainParams& p, uint32_t batch, uint32_t row) {
        return NumberRowsWork<X, Operator, Down>::skew_of(p, batch, row);
    }
    __device__ __forceinline__ NumberRowsGradientWork(const NumberGradientParams& params, const Place& place,
                                                      char* memory)
        : Base(params, place), buffer(memory), part(Part::of(at)) {
        Steps<X, Shape> source;
        if (part.whole())
            load<true>(source);
        else
            load<false>(source);
        Wide y[1] = {Forward::identity()};
        if (at.warp_steps > 0 && at.rows > 0) {
            const int64_t place_of_mark = (at.warp_t0 + skew_of(p, at.batch, static_cast<uint32_t>(at.row))) / (32 * L);
            y[0] = static_cast<const Wide*>(p.marks)[this->state(0) * p.mark_places + place_of_mark];
        }
        const Segments<Forward, Shape, !Down> segments{at};
        Wide through = combine_all_numbers<X, Operator>(typename Base::Scanned{source}, 0);
        segments.scan(through);
        y[0] = segments.enter(through, y[0]);
        const int64_t first = Down ? 0 : p.time - 1;
        const bool starts = p.scan_state_in == nullptr && at.warp_t0 <= first && first < at.warp_t0 + 32 * L;
        this->find_slopes(source, y, part.whole() && !starts);
    }
    template <bool Whole>
    __device__ __forceinline__ void load(Steps<X, Shape>& source) {
        typename Data::Fetched x, dy;
        Data::template fetch<Whole>(p.input, at, part, Forward::identity(), x);
        if (p.grad_output.data != nullptr) Data::template fetch<Whole>(p.grad_output, at, part, Wide{}, dy);
        Data::arrange(x, at, part, buffer, source);
        gradient = {};
        if (p.grad_output.data != nullptr) Data::arrange(dy, at, part, buffer, gradient);
    }
    __device__ __forceinline__ void walk(Wide (&g)[1]) {
        this->walk_steps(g);
        if (this->writes()) store_row<Data>(gradient, p.output, at, part, buffer);
    }
};

template <typename X, typename Operator>
struct NumberColumnsGradientWork : NumberGradientWork<X, Operator, NumberGradientShape<NumberColumnsShape<X>>, false> {
    using Base = NumberGradientWork<X, Operator, NumberGradientShape<NumberColumnsShape<X>>, false>;
    using typename Base::Shape, typename Base::Wide;
    using Forward = NumberMonoid<X, Operator>;
    using Data = AlignedPacks<X, Shape>;
    static constexpr bool skewed = false;
    static constexpr int L = Shape::L, V = Shape::V;
    using Base::p, Base::at, Base::gradient;

    __device__ __forceinline__ NumberColumnsGradientWork(const NumberGradientParams& params, const Place& place, char*)
        : Base(params, place) {
        Steps<X, Shape> source;
        Data::template fetch<false>(p.input, at, {}, 0, p.time, source);
        gradient = {};
        if (p.grad_output.data != nullptr) Data::template fetch<false>(p.grad_output, at, {}, 0, p.time, gradient);
        const bool starts = at.t0 + L >= p.time;  // whether the lane has the first step of the scan
        Wide y[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            y[v] = Forward::identity();
            if (v >= at.rows) continue;
            if (starts && p.scan_state_in != nullptr) y[v] = static_cast<const Wide*>(p.scan_state_in)[this->state(v)];
            if (!starts)
                y[v] = static_cast<const Wide*>(p.marks)[(at.batch * p.mark_places + at.t0 / L) * p.rows + at.row + v];
        }
        fill_absent(source, at.steps, Forward::identity());
        this->find_slopes(source, y, at.steps == L && !(starts && p.scan_state_in == nullptr));
    }
    __device__ __forceinline__ void walk(Wide (&g)[V]) {
        this->walk_steps(g);
        if (this->writes()) Data::store(gradient, p.output, at, {});
    }
};

template <typename X, typename Operator, bool Down>
__global__ void __launch_bounds__(32 * chained_warps, rows_resident<X, Operator>)
    number_rows_marks(const __grid_constant__ NumberChainParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedRows<NumberRowsMarks<X, Operator, Down>>>(p, sets);
}

template <typename X, typename Operator>
__global__ void __launch_bounds__(32 * chained_warps, chained_resident<X, Operator>)
    number_columns_marks(const __grid_constant__ NumberChainParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedColumns<NumberColumnsMarks<X, Operator>>>(p, sets);
}

// Blocks per multiprocessor: 3, or 2 for f64 and for pairs of rows, whose steps take more registers.
template <typename X, int V>
constexpr int gradients_resident = V == 1 && sizeof(X) <= 4 ? 3 : 2;

template <typename X, typename Operator, bool Down>
__global__ void __launch_bounds__(32 * chained_warps, gradients_resident<X, 1>)
    number_rows_backward(const __grid_constant__ NumberGradientParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedRows<NumberRowsGradientWork<X, Operator, Down>>>(p, sets);
}

template <typename X, typename Operator>
__global__ void __launch_bounds__(32 * chained_warps, gradients_resident<X, NumberColumnsShape<X>::V>)
    number_columns_backward(const __grid_constant__ NumberGradientParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedColumns<NumberColumnsGradientWork<X, Operator>>>(p, sets);
}

}  // namespace flashscan::cuda
