// SPDX-License-Identifier: Apache-2.0
// The kernels of one rank of several: they summarise what its steps do to any state, and find the state that enters its
// steps from the gathered summaries of all ranks.
//
//     forward   step t maps h to a[t] h + x[t]                    a reset drops h before the step
//     backward  step t maps c to conj(a[t]) (dh[t] + c)           a reset drops the result: no gradient passes it
//
// Steps are taken in the order of the pass; the maps of chunks of them are composed to that of a row, with the
// arithmetic of the other kernels (Types::Map).
//
// Ownership  summarise_rows: a thread has a chunk of a row, lanes have neighbouring channels. summarise_time: a warp
//            has a chunk of a row, lanes have segments of `lane_steps` steps, whose maps it composes by shuffles.
//            close_rank: a warp has a row, lanes have neighbouring chunks. enter_rank: a thread has a row.
// Bytes      Gates and source are read once, a map is written for each row and chunk.
// Order      Chunks follow from the time alone, and every composition has a fixed order.
// Limits     One long sequence among many short packed ones has few chunks.
#pragma once

#include "cuda/device/math/types.cuh"
#include "cuda/device/tile/sequences.cuh"
#include "cuda/launch/rank_threads.h"
#include "cuda/ranks/params.h"

namespace flashscan::cuda {

// The steps of a row: batch entry, first step and number.
struct RankRow {
    int64_t batch, channel, begin, steps;
};
__device__ __forceinline__ RankRow row_steps(const SequenceOffsets& offsets, int64_t row, int64_t channels,
                                             int64_t time) {
    const int64_t entry = row / channels, channel = row - entry * channels;
    if (offsets.data == nullptr) return {entry, channel, 0, time};
    const int64_t begin = offsets.at(entry), end = offsets.at(entry + 1);
    return {0, channel, begin, end > begin ? end - begin : 0};
}

// A chunk of a row: the number of its steps, and its first one, in the order of the pass, in each array. The next step
// is `step` steps further in memory.
struct RankChunk {
    int64_t count, step;
    const char *gate, *source;
    const uint8_t* reset;  // null: no step is reset
};
__device__ __forceinline__ RankChunk chunk_of(const RankSummaryParams& p, int64_t row, int64_t chunk) {
    const RankRow r = row_steps(p.offsets, row, p.channels, p.time);
    const int64_t most = p.offsets.data == nullptr ? p.chunk_steps : (r.steps + p.chunks - 1) / p.chunks;
    const int64_t first = min(r.steps, chunk * most), count = min(r.steps - first, most);
    const int64_t step = p.down ? -1 : 1, t0 = p.down ? r.begin + r.steps - 1 - first : r.begin + first;
    return {count, step, p.gate.data + r.batch * p.gate.batch + r.channel * p.gate.row + t0 * p.gate.time,
            p.source.data + r.batch * p.source.batch + r.channel * p.source.row + t0 * p.source.time,
            p.reset == nullptr ? nullptr : p.reset + r.batch * p.time + t0};
}

template <typename Ty>
__device__ __forceinline__ typename Ty::GateWide rank_gate(const RankSummaryParams& p, typename Ty::G g) {
    const typename Ty::GateWide wide = Element<typename Ty::G>::widen(g);
    return p.gate_form == gate_value ? wide : gate_of(p.gate_form, wide);
}

// Composes the map m with that of the step behind it.
template <typename Ty, bool Backward>
__device__ __forceinline__ void add_step(typename Ty::Map& m, typename Ty::GateWide a, typename Ty::Wide x,
                                         bool reset) {
    if constexpr (Backward) {
        m.x = reset ? typename Ty::Wide{} : conj(a) * (x + m.x);
        m.a = conj(a) * m.a;
        m.cut = m.cut || reset;
    } else {
        m.x = reset ? x : multiply_add(a, m.x, x);
        m.a = a * m.a;
        m.cut = m.cut || reset;
    }
}

template <typename Ty>
__device__ __forceinline__ void store_map(const RankMessage& to, int64_t i, const typename Ty::Map& m, uint8_t mark) {
    static_cast<typename Ty::GateWide*>(to.product)[i] = m.a;
    static_cast<typename Ty::Wide*>(to.sum)[i] = m.x;
    to.marks[i] = static_cast<uint8_t>(mark | (m.cut ? rank_cut : 0));
}
template <typename Ty>
__device__ __forceinline__ typename Ty::Map load_map(const RankMessage& from, int64_t i) {
    return {static_cast<const typename Ty::GateWide*>(from.product)[i],
            static_cast<const typename Ty::Wide*>(from.sum)[i], (from.marks[i] & rank_cut) != 0};
}

template <typename Ty, bool Backward>
__global__ void __launch_bounds__(rank_threads) summarise_rows(const __grid_constant__ RankSummaryParams p) {
    constexpr int L = 8;
    using G = typename Ty::G;
    using X = typename Ty::X;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * rank_threads + threadIdx.x, chunk = blockIdx.y;
    if (row >= p.rows) return;
    const RankChunk c = chunk_of(p, row, chunk);
    typename Ty::Map m = Ty::identity();
    int64_t i = 0;
    for (; i + L <= c.count; i += L) {
        G g[L];
        X x[L];
        bool cut[L];
#pragma unroll
        for (int k = 0; k < L; ++k) {
            g[k] = *reinterpret_cast<const G*>(c.gate + (i + k) * c.step * p.gate.time);
            x[k] = *reinterpret_cast<const X*>(c.source + (i + k) * c.step * p.source.time);
            cut[k] = c.reset != nullptr && c.reset[(i + k) * c.step] != 0;
        }
#pragma unroll
        for (int k = 0; k < L; ++k) add_step<Ty, Backward>(m, rank_gate<Ty>(p, g[k]), Element<X>::widen(x[k]), cut[k]);
    }
    for (; i < c.count; ++i)
        add_step<Ty, Backward>(m, rank_gate<Ty>(p, *reinterpret_cast<const G*>(c.gate + i * c.step * p.gate.time)),
                               Element<X>::widen(*reinterpret_cast<const X*>(c.source + i * c.step * p.source.time)),
                               c.reset != nullptr && c.reset[i * c.step] != 0);
    store_map<Ty>(p.chunk, chunk * p.rows + row, m, 0);
}

// Composes the maps of a warp's lanes, in the order of the lanes, to lane 0.
template <typename Ty>
__device__ __forceinline__ typename Ty::Map compose_lanes(typename Ty::Map m, int lane) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const typename Ty::Map later = Ty::shuffle_map(m, (lane + distance) & 31);
        if (lane % (2 * distance) == 0) m = Ty::compose(m, later);
    }
    return m;
}

// Steps of a lane in the order of memory: elements one by one, or by vectors of 16 bytes where all of them exist and
// are aligned.
template <typename T, int L>
__device__ __forceinline__ void load_segment(const char* at, int64_t stride, int64_t count, bool down, bool vectors,
                                             T (&to)[L]) {
    constexpr int words = L * static_cast<int>(sizeof(T)) / 16;
    if constexpr (words > 0) {
        if (vectors && count == L) {
            union {
                uint4 word[words];
                unsigned char bytes[16 * words];
            } memory;
            const char* lowest = down ? at - (L - 1) * static_cast<int64_t>(sizeof(T)) : at;
#pragma unroll
            for (int i = 0; i < words; ++i) memory.word[i] = reinterpret_cast<const uint4*>(lowest)[i];
#pragma unroll
            for (int i = 0; i < L; ++i) memcpy(&to[i], memory.bytes + (down ? L - 1 - i : i) * sizeof(T), sizeof(T));
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < L; ++i)
        if (i < count) to[i] = *reinterpret_cast<const T*>(at + (down ? -i : i) * stride);
}

template <typename Ty, bool Backward>
__global__ void __launch_bounds__(rank_threads) summarise_time(const __grid_constant__ RankSummaryParams p) {
    constexpr int L = 8;
    using G = typename Ty::G;
    using X = typename Ty::X;
    const int lane = static_cast<int>(threadIdx.x & 31);
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (rank_threads / 32) + threadIdx.x / 32, chunk = blockIdx.y;
    if (row >= p.rows) return;
    const RankChunk c = chunk_of(p, row, chunk);
    typename Ty::Map m = Ty::identity();
    for (int64_t i = 0; i < c.count; i += 32 * L) {
        const int64_t mine = i + lane * L, left = c.count - mine, count = left < L ? left : L;
        G g[L];
        X x[L];
        load_segment(c.gate + mine * c.step * p.gate.time, p.gate.time, count, p.down != 0, p.gate_vectors != 0, g);
        load_segment(c.source + mine * c.step * p.source.time, p.source.time, count, p.down != 0, p.source_vectors != 0,
                     x);
        typename Ty::Map part = Ty::identity();
#pragma unroll
        for (int k = 0; k < L; ++k)
            if (k < count)
                add_step<Ty, Backward>(part, rank_gate<Ty>(p, g[k]), Element<X>::widen(x[k]),
                                       c.reset != nullptr && c.reset[(mine + k) * c.step] != 0);
        m = Ty::compose(m, compose_lanes<Ty>(part, lane));
    }
    if (lane == 0) store_map<Ty>(p.chunk, chunk * p.rows + row, m, 0);
}

template <typename T>
__device__ __forceinline__ T not_a_number(T) {
    return T(NAN);
}
template <typename T>
__device__ __forceinline__ Complex<T> not_a_number(Complex<T>) {
    return {T(NAN), T(NAN)};
}

template <typename Ty>
__global__ void __launch_bounds__(rank_threads) close_rank(const __grid_constant__ RankCloseParams p) {
    using X = typename Ty::X;
    using Wide = typename Ty::Wide;
    const int lane = static_cast<int>(threadIdx.x & 31);
    const int64_t row = static_cast<int64_t>(blockIdx.x) * (rank_threads / 32) + threadIdx.x / 32;
    if (row >= p.rows) return;
    const RankRow r = row_steps(p.offsets, row, p.channels, p.time);
    uint8_t mark = 0;
    if (p.to.edge != nullptr && lane == 0) {
        Wide edge{};
        if (r.steps > 0) {
            const int64_t t = p.reverse ? r.begin : r.begin + r.steps - 1;
            edge = p.states.data == nullptr
                       ? not_a_number(edge)
                       : Element<X>::widen(*reinterpret_cast<const X*>(p.states.data + r.batch * p.states.batch +
                                                                       r.channel * p.states.row + t * p.states.time));
        } else if (p.edge_first && p.state_in != nullptr) {
            edge = static_cast<const Wide*>(p.state_in)[row];
        }
        static_cast<Wide*>(p.to.edge)[row] = edge;
        mark = r.steps > 0 || p.edge_first ? rank_edge : 0;
    }
    if (p.to.sum == nullptr) {
        if (lane == 0) p.to.marks[row] = mark;
        return;
    }
    typename Ty::Map m = Ty::identity();
    const int64_t most = (p.chunks + 31) / 32, begin = lane * most, end = min(p.chunks, begin + most);
    for (int64_t chunk = begin; chunk < end; ++chunk) m = Ty::compose(m, load_map<Ty>(p.chunk, chunk * p.rows + row));
    m = compose_lanes<Ty>(m, lane);
    if (lane != 0) return;
    if (p.first) {
        const Wide start = p.start == nullptr ? Wide{} : static_cast<const Wide*>(p.start)[row];
        m = {m.a, Ty::apply(m, start), true};
    }
    store_map<Ty>(p.to, row, m, mark);
}

template <typename Ty>
__global__ void __launch_bounds__(rank_threads) enter_rank(const __grid_constant__ RankEnterParams p) {
    using Wide = typename Ty::Wide;
    const int64_t row = static_cast<int64_t>(blockIdx.x) * rank_threads + threadIdx.x;
    if (row >= p.rows) return;
    const auto message = [&](int32_t rank) {
        const auto moved = [&](auto* array) {
            const char* at = reinterpret_cast<const char*>(array);
            return reinterpret_cast<decltype(array)>(
                const_cast<char*>(at == nullptr ? at : at + rank * p.message_step));
        };
        return RankMessage{moved(p.first.product), moved(p.first.sum), moved(p.first.marks), moved(p.first.edge)};
    };
    if (p.carry != nullptr) {
        Wide carry{};
        for (int32_t k = 0; k < p.pass_count; ++k)
            carry = Ty::apply(load_map<Ty>(message(p.pass_first + k * p.pass_step), row), carry);
        static_cast<Wide*>(p.carry)[row] = carry;
    }
    if (p.before < 0) return;
    Wide before{};
    for (int32_t k = 0; k < p.before_count; ++k) {
        const RankMessage from = message(p.before + k * p.before_step);
        if ((from.marks[row] & rank_edge) == 0) continue;
        before = static_cast<const Wide*>(from.edge)[row];
        break;
    }
    // Rows lie group by group: those of the channels of the first group, then those of the next.
    const int64_t entry = row / p.channels, channel = row - entry * p.channels;
    const int64_t start = channel / p.group_channels * p.group_channels;
    const int64_t width = min(p.group_channels, p.channels - start);
    static_cast<Wide*>(p.before_to)[p.rows / p.channels * start + entry * width + channel - start] = before;
}

}  // namespace flashscan::cuda
