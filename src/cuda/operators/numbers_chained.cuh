// SPDX-License-Identifier: Apache-2.0
// The kernels of "numbers" that are chained scans, number_rows with time innermost and number_columns with channels
// innermost. launch/chained_tuning.h says which problems they suit; "numbers" runs what they do not take by
// element_scan, as in numbers_general.cuh.
//
//     y[t] = y[t-1] o x[t]
//
// Ownership  A block has up to 8 warps and owns a chunk of steps. A lane holds L steps in registers, with time
//            innermost of one row, with channels innermost of V neighbouring rows. device/scan/chained_rows.cuh and
//            chained_columns.cuh have the rest, and tell how carries travel and what is synchronised.
// Bytes      Every element is read once and written once. Besides, many rows have a carry for each row and
//            chunk; few rows have a summary for each row and chunk, and a carry for each group of chunks.
// Bound      Memory, and what chunks wait for their carries: many rows reach 85 to 95 % of a copy on an H200.
//            Instructions bound logaddexp in f64, products of bytes, and with time innermost minima and maxima of 8 and
//            16 bits (bench/results/tried_operators.md).
// Limits     No products of complex numbers: (1 + 0i) times infinity is NaN, so that 1 is no identity. INDEX has
//            kernels of its own (numbers_chained_index.cuh). No packed sequences, and BATCH_INVARIANT of integers
//            alone, whose bits no bracketing changes. Time innermost: a row begins at the same place within 16 bytes in
//            INPUT and OUTPUT. Channels innermost: the lane's V elements of a step are one aligned word, so that the
//            number of rows and the stride of a step are multiples of V (2 of 16-bit elements, 4 of 8-bit ones, else
//            1).
// Gradients  Those of sums are the same scan in the other direction. numbers_chained_backward.cuh has the others.
// Few rows   Blocks hold their steps in registers while they wait for each other, so that few loads are under way. With
//            time innermost a warp therefore asks for a tile to be brought into L2: that of the block as many blocks
//            later as the device has multiprocessors; at twice the distance nothing is gained. An H100 reaches 90 % of
//            a copy with one row of 2^26 f32, 80 % without that (bench/results/tried_operators.md).
// Zeros      Steps that do not exist are the identity of the operator, which leaves every bit as it is: of sums that is
//            -0, since +0 would make +0 of -0. A row without STATE_IN starts from it too, but for MODE_EXCLUSIVE, whose
//            first result is +0.
#pragma once

#include "cuda/device/ptx/bulk_prefetch.cuh"
#include "cuda/device/scan/chained_columns.cuh"
#include "cuda/device/tile/aligned_packs.cuh"
#include "cuda/device/tile/skewed_vectors.cuh"
#include "cuda/operators/lane_numbers.cuh"
#include "cuda/operators/numbers_chained_params.h"
#include "cuda/operators/numbers_general.cuh"

namespace flashscan::cuda {

__device__ __forceinline__ float negative_zero(float) { return -0.0F; }
__device__ __forceinline__ double negative_zero(double) { return -0.0; }
template <typename T>
__device__ __forceinline__ Complex<T> negative_zero(Complex<T>) {
    return {negative_zero(T{}), negative_zero(T{})};
}

template <typename X, typename Operator>
struct NumberMonoid {
    using Wide = typename Element<X>::Wide;
    using Map = Wide;  // what a run of steps combines to
    using Record = Wide;
    static __device__ __forceinline__ Wide identity() {
        if constexpr (std::is_same_v<Operator, combine::Add> && !std::is_integral_v<Wide>)
            return negative_zero(Wide{});
        else
            return start();
    }
    static __device__ __forceinline__ Wide start() { return combine::Identity<Operator, Wide>::get(); }
    // What a row starts from without STATE_IN.
    static __device__ __forceinline__ Wide start_of_row(bool exclusive) { return exclusive ? start() : identity(); }
    static __device__ __forceinline__ Wide compose(Wide early, Wide late) {
        return combine_numbers<Operator, true>(early, late);
    }
    static __device__ __forceinline__ Wide apply(Wide run, Wide carry) { return compose(carry, run); }
    static __device__ __forceinline__ Wide shuffle_map(Wide run, int lane) { return shuffle(run, lane); }
    static __device__ __forceinline__ Record to_record(Wide run) { return run; }
    static __device__ __forceinline__ Wide to_map(Record run) { return run; }
    static __device__ __forceinline__ bool is_cut(Wide) { return false; }
};

// A lane of a chained scan of numbers or of their gradients. `Down` tells that it walks against the order of memory.
template <typename Params_, typename Shape_, bool Down_>
struct NumberLane {
    using Params = Params_;
    using Shape = Shape_;
    static constexpr bool Down = Down_;
    static constexpr int L = Shape::L, V = Shape::V;

    const Params& p;
    const Place& at;

    __device__ __forceinline__ NumberLane(const Params& params, const Place& place) : p(params), at(place) {}
    __device__ __forceinline__ bool writes() const { return p.output.data != nullptr; }
    // The place of the lane's row v among the states.
    __device__ __forceinline__ int64_t state(int v) const { return at.batch * p.rows + at.row + v; }
};

// A lane of a scan. `source` holds its elements of INPUT, which those of OUTPUT then replace.
template <typename X, typename Shape_, bool Down_>
struct NumberScanLane : NumberLane<NumberChainParams, Shape_, Down_> {
    using Lane = NumberLane<NumberChainParams, Shape_, Down_>;
    using Number = typename Element<X>::Wide;
    using Lane::Lane, Lane::Down, Lane::p, Lane::state;
    using typename Lane::Shape;

    Steps<X, Shape> source;

    __device__ __forceinline__ LaneNumbers<X, Shape, Down> numbers() { return {source}; }
    __device__ __forceinline__ Number state_in(int v) const { return static_cast<const Number*>(p.state_in)[state(v)]; }
    __device__ __forceinline__ bool is_left() const { return p.state_out != nullptr || p.reduced != nullptr; }
    __device__ __forceinline__ void leave_state(int v, Number y) const {
        if (p.state_out != nullptr) static_cast<Number*>(p.state_out)[state(v)] = y;
    }
    // The result of a reduction.
    __device__ __forceinline__ void store_reduced(int v, Number y) const {
        store_number<X>(static_cast<char*>(p.reduced) + state(v) * sizeof(X), y, false);
    }
};

// NumberWork is what NumberRowsWork and NumberColumnsWork share ("work" is explained in device/scan/chained_rows.cuh).
template <typename X, typename Operator, typename Shape_, bool Down_>
struct NumberWork : NumberScanLane<X, Shape_, Down_> {
    using Lane = NumberScanLane<X, Shape_, Down_>;
    using Monoid = NumberMonoid<X, Operator>;
    using Wide = typename Monoid::Wide;
    using Lane::Lane, Lane::V, Lane::p, Lane::numbers;

    template <typename Then>
    __device__ __forceinline__ void summarize(Wide (&through)[V], Then&& then) {
#pragma unroll
        for (int v = 0; v < V; ++v) through[v] = combine_all_numbers<X, Operator>(numbers(), v);
        then();
    }
    // Replaces the lane's elements by those of OUTPUT.
    __device__ __forceinline__ void combine_steps(Wide (&carry)[V]) {
        numbers().widen_again();
        combine_tile<Operator>(numbers(), carry, p.exclusive != 0);
    }
    __device__ __forceinline__ Wide enter(int v) const {
        return p.state_in == nullptr ? Monoid::start_of_row(p.exclusive != 0) : this->state_in(v);
    }
    __device__ __forceinline__ void leave(int v, Wide carry) const {
        this->leave_state(v, carry);
        if (p.reduced != nullptr) this->store_reduced(v, carry);
    }
};

// A lane has 128 bytes of a row. 8-bit numbers that are taken one by one have half of that, as their loops are long.
template <typename X, bool Packed = false>
struct NumberRowsShape : TileShape<X, X, Access::time_vectors, false, 256> {
    static constexpr int L = TileShape<X, X, Access::time_vectors, false, 256>::L * (Packed ? 2 : 1);
    static constexpr int skew = 16 / static_cast<int>(sizeof(X)) - 1;
};

// Stores a lane's steps. Places in the buffer are worked out again: kept since the load, they would occupy registers
// throughout the scan.
template <typename Data>
__device__ __forceinline__ void store_row(const typename Data::Tile& tile, const View& view, const Place& at,
                                          const typename Data::Part& part, char* buffer) {
    Place again = at;
    again.lane = ptx::held(at.lane);
    Data::store(tile, view, again, part, buffer);
}

template <typename X, typename Operator, bool Down,
          typename Base_ = NumberWork<X, Operator, NumberRowsShape<X, packs_bytes<X, Operator>>, Down>>
struct NumberRowsWork : Base_ {
    using Base = Base_;
    using typename Base::Shape, typename Base::Wide;
    using Data = SkewedVectors<X, Shape>;
    using Part = typename Data::Part;
    static constexpr int buffer_bytes = Data::buffer_bytes;
    using Base::p, Base::at, Base::source;

    char* buffer;
    const Part part;

    static __device__ __forceinline__ int skew_of(const NumberChainParams& p, uint32_t batch, uint32_t row) {
        const uint32_t address = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p.input.data)) +
                                 batch * static_cast<uint32_t>(p.input.batch) +
                                 row * static_cast<uint32_t>(p.input.row);
        return Shape::skew == 0 ? 0 : static_cast<int>(address % 16 / sizeof(X));
    }
    __device__ __forceinline__ NumberRowsWork(const NumberChainParams& params, const Place& place, char* memory)
        : Base(params, place), buffer(memory), part(Part::of(at)) {
        if (p.ahead > 0) prefetch_ahead();
        typename Data::Fetched fetched;
        const auto absent = NumberMonoid<X, Operator>::identity();
        if (part.whole())
            Data::template fetch<true>(p.input, at, part, absent, fetched);
        else
            Data::template fetch<false>(p.input, at, part, absent, fetched);
        Data::arrange(fetched, at, part, buffer, source);
    }
    // Brings the tile of a later block into L2 if it is a whole one of the row.
    __device__ __forceinline__ void prefetch_ahead() const {
        constexpr int steps = 32 * Shape::L, size = static_cast<int>(sizeof(X));
        const int64_t offset = Down ? -p.ahead : p.ahead, t = at.warp_t0 + offset;
        if (at.lane == 0 && at.warp_rows > 0 && t >= 0 && t + steps <= p.time)
            ptx::prefetch_bytes(Data::origin(p.input, at) + offset * size, steps * size);
    }
    __device__ __forceinline__ void walk(Wide (&carry)[1]) {
        this->combine_steps(carry);
        if (this->writes()) store_row<Data>(source, p.output, at, part, buffer);
    }
};

// A lane has 128 bytes of its rows. Where a step takes few instructions, 256 bytes of wider numbers make chunks twice
// as long, so that half as many carries are exchanged, with two blocks on a multiprocessor in place of three.
template <typename X, bool Long = false>
struct NumberColumnsShape : TileShape<X, X, Access::channel_packs, false, 256> {
    static constexpr int L = TileShape<X, X, Access::channel_packs, false, 256>::L * (Long ? 2 : 1);
};
template <typename X, typename Operator>
constexpr bool has_long_columns = sizeof(X) >= 4 && !is_long_operator<Operator>;

// Sets the steps of a lane that do not exist, from number `steps` on.
template <typename X, typename Shape>
__device__ __forceinline__ void fill_absent(Steps<X, Shape>& tile, int steps, typename Steps<X, Shape>::Wide value) {
    if (steps >= Shape::L) return;
#pragma unroll
    for (int i = 0; i < Shape::L; ++i) {
        if (i < steps) continue;
#pragma unroll
        for (int v = 0; v < Shape::V; ++v) tile.set(i, v, value);
    }
}

template <typename X, typename Operator,
          typename Base_ = NumberWork<X, Operator, NumberColumnsShape<X, has_long_columns<X, Operator>>, false>>
struct NumberColumnsWork : Base_ {
    using Base = Base_;
    using typename Base::Shape, typename Base::Wide;
    using Data = AlignedPacks<X, Shape>;
    static constexpr bool skewed = false;
    static constexpr int L = Shape::L, V = Shape::V;
    using Base::p, Base::at, Base::source;

    __device__ __forceinline__ NumberColumnsWork(const NumberChainParams& params, const Place& place, char*)
        : Base(params, place) {
        Data::template fetch<false>(p.input, at, {}, 0, p.time, source);
        fill_absent(source, at.steps, NumberMonoid<X, Operator>::identity());
    }
    __device__ __forceinline__ void walk(Wide (&carry)[V]) {
        this->combine_steps(carry);
        if (this->writes()) Data::store(source, p.output, at, {});
    }
};

// Blocks per multiprocessor, for which __launch_bounds__ limits the registers: 3, and 2 for numbers of 8 bits that are
// taken one by one, for complex numbers and for long operators in f64, whose steps take more registers. number_rows has
// one more where registers allow it, since blocks of few rows wait for each other with their steps in registers. i64
// publishes a carry in two words, and packed bytes but sums take more constants.
template <typename X, typename Operator>
constexpr bool has_short_steps = std::is_same_v<typename Element<X>::Wide, float> || !is_long_operator<Operator>;
template <typename X, typename Operator>
constexpr int chained_resident = NumberPart<X>::count == 1 &&
                                         (sizeof(X) >= 2 || packs_bytes<X, Operator>)&&has_short_steps<X, Operator>
                                     ? 3
                                     : 2;
template <typename X, typename Operator>
constexpr bool spares_registers = has_short_steps<X, Operator> && !has_all_bits<X> &&
                                  (!packs_bytes<X, Operator> || std::is_same_v<Operator, combine::Add>);
template <typename X, typename Operator>
constexpr int rows_resident = chained_resident<X, Operator> + (spares_registers<X, Operator> ? 1 : 0);

template <typename X, typename Operator, bool Down>
__global__ void __launch_bounds__(32 * chained_warps, rows_resident<X, Operator>)
    number_rows(const __grid_constant__ NumberChainParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedRows<NumberRowsWork<X, Operator, Down>>>(p, sets);
}

template <typename X, typename Operator>
__global__ void __launch_bounds__(32 * chained_warps, has_long_columns<X, Operator> ? 2 : chained_resident<X, Operator>)
    number_columns(const __grid_constant__ NumberChainParams p, const __grid_constant__ ChainedSets sets) {
    run_chained<ChainedColumns<NumberColumnsWork<X, Operator>>>(p, sets);
}

}  // namespace flashscan::cuda
