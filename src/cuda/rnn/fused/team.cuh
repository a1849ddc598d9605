// SPDX-License-Identifier: Apache-2.0
// A team is one block, a cluster, or a part of a cooperative grid. Here is how it holds a matrix in registers and
// shared memory and multiplies it, step after step, by vectors that its blocks compute.
//
//     out[m, n] = sum over k of W[m, k] v[k, n]
//
// Ownership  Each block has the rows m of its units, `gates` for each unit, and all of k; n are row_tiles tiles of
//            tile_rows (8 or 4) rows of the batch. Of a block, unit_warps x parts warps multiply; with specialised
//            warps (warp_roles.cuh) others compute the cells. A multiplying warp has 8 `groups` units and one of the
//            parts of k, its part of W in registers as left operands of the tensor cores from the first step to the
//            last. Operands of W that registers do not hold are in shared memory. Half a 16 x 16 operand is one gate of
//            8 units, so that a lane finds all gates of its elements in its own sums.
// Order      Within 32 consecutive k the order is chosen such that the right operands of a lane are 16 consecutive
//            bytes of v. k goes through the units of all blocks `runs` times: once forward, once for each gate
//            backward. Sums of parts are added through shared memory in pairs, a fixed tree: bits depend on nothing but
//            the shape.
// Bytes      W is read once for each job that has another head than the job before; v goes through L2 or shared memory
//            once a step.
// Sync       The all-gather of v (team_vectors.cuh), and a barrier of the block before the parts of sums are added.
// Limits     Tensor cores multiply 16-bit numbers: f32 is split into planes (team_number.cuh).
#pragma once

#include <utility>

#include "cuda/device/ptx/async_copy.cuh"
#include "cuda/device/ptx/held.cuh"
#include "cuda/device/ptx/mma.cuh"
#include "cuda/rnn/fused/team_number.cuh"
#include "cuda/rnn/fused/team_vectors.cuh"

namespace flashscan::cuda {

// Which unit and row a lane's i-th element is. The elements of a warp's sums, e = (group of units, tile of rows, one of
// lane_rows rows), are shared out to `sharing` warps.
template <typename S>
struct TeamElement {
    int unit, row;  // counted in the block, and in the tile of rows
    __device__ __forceinline__ TeamElement(int i) {
        const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
        const int e = i * S::sharing + sharer();
        constexpr int n = S::lane_rows;
        const int unit_warp = S::cell_warps > 0 ? 0 : warp / S::parts;
        unit = (unit_warp * S::groups + e / (n * S::row_tiles)) * 8 + lane / 4;
        row = e / n % S::row_tiles * S::tile_rows + lane % 4 * n + e % n;
    }
    // Whether this warp has elements. Where there are fewer elements than warps that share them, some warps only
    // multiply.
    static __device__ __forceinline__ bool exist() { return S::elements >= S::sharing || sharer() < S::elements; }
    static __device__ __forceinline__ int sharer() {
        const int warp = static_cast<int>(threadIdx.x) / 32;
        return S::cell_warps > 0 ? (warp - S::product_threads / 32) % S::sharing : warp % S::parts;
    }
};

// The sums of all gates of an element, which are stored and loaded together.
template <int Gates>
struct alignas(Gates == 4 ? 16 : 4) TeamSums {
    float gate[Gates];
};

struct TeamOperand {
    uint32_t word[4];
    TeamOperand() = default;
    __device__ __forceinline__ explicit TeamOperand(const uint4& w) : word{w.x, w.y, w.z, w.w} {}
};

// A warp's left operands, in the order of weights.cuh: some in registers, the others in shared memory.
template <typename S>
class TeamWeights {
  public:
    __device__ __forceinline__ explicit TeamWeights(unsigned char* shared)
        : stored_(ptx::held_shared(reinterpret_cast<uint4*>(shared + S::weights_at) + threadIdx.x)) {}

    // Loads the warp's operands; `from` holds those of all blocks of the team. A thread later reads from shared memory
    // only what it has stored itself, so that no barrier is needed.
    __device__ __forceinline__ void load(const uint4* from, int block) {
        from += (block * (S::product_threads / 32) + static_cast<int>(threadIdx.x) / 32) * (S::operands * 32) +
                static_cast<int>(threadIdx.x) % 32;
#pragma unroll
        for (int i = 0; i < resident; ++i) a_[i] = TeamOperand(from[i * 32]);
        if constexpr (S::stored > 0)
#pragma unroll 4
            for (int i = 0; i < S::stored; ++i) stored_[i * S::product_threads] = from[(resident + i) * 32];
    }
    // Waits for the operands that load() has put into registers. The caller does so ahead of the loop over steps, so
    // that no step waits for their scoreboards. Teams whose vectors come through L2 do not wait here: their products
    // wait for loads in any case.
    __device__ __forceinline__ void await() {
        if constexpr (S::in_shared) {
#pragma unroll
            for (TeamOperand& operand : a_)
#pragma unroll
                for (uint32_t& word : operand.word) ptx::await_load(word);
        }
    }
    __device__ __forceinline__ TeamOperand get(int plane, int m, int k) const {
        const int i = (plane * S::tiles + m) * S::steps + k;
        if constexpr (S::stored > 0)
            if (i >= resident) return TeamOperand(stored_[(i - resident) * S::product_threads]);
        return a_[i];
    }

  private:
    static constexpr int resident = S::operands - S::stored;
    TeamOperand a_[resident];
    uint4* stored_;
};

template <typename S>
struct TeamAccumulators {
    float c[S::chains][S::tiles][S::row_tiles][4] = {};

    __device__ __forceinline__ float sum(int e, int gate) const {
        constexpr int rows = S::lane_rows;
        const int half = e / (rows * S::row_tiles) * S::gates + gate, n = e / rows % S::row_tiles;
        float total = c[0][half / 2][n][half % 2 * 2 + e % rows];
#pragma unroll
        for (int chain = 1; chain < S::chains; ++chain) total += c[chain][half / 2][n][half % 2 * 2 + e % rows];
        return total;
    }
};

// Multiplies all planes of two steps of k by the 8 columns of a right operand, which are rows of the batch (4 of them
// are used where tile_rows is 4). The right operand of plane j is multiplied by the left ones of the
// planes i with i + j < planes; the other products are too small to count.
template <typename X, typename S>
__device__ __forceinline__ void multiply_planes(const TeamWeights<S>& weights, int index, const uint4* v,
                                                TeamAccumulators<S>& sums) {
    using Half = typename TeamNumber<X>::Half;
    const int pair = index / S::row_tiles, n = index % S::row_tiles;
#pragma unroll
    for (int i = 0; i < S::planes; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int m = 0; m < S::tiles; ++m) {
                const TeamOperand a = weights.get(i, m, 2 * pair + half);
#pragma unroll
                for (int j = 0; i + j < S::planes; ++j)
                    ptx::multiply_add<Half>(sums.c[(2 * pair + half + i + j) % S::chains][m][n], a.word,
                                            half == 0 ? v[j].x : v[j].z, half == 0 ? v[j].y : v[j].w);
            }
}

// Uses window C of a lane's items (16 bytes of v each, see team_vectors.cuh): as many as registers hold at once. The
// items are in v already, or were staged: copied from L2 to shared memory once the first window had arrived.
template <int C, typename S, typename Use>
__device__ __forceinline__ void take_window(const TeamVectors<S>& vectors, uint32_t turn, uint4 (&v)[S::window],
                                            const Use& use) {
    constexpr int first = C * S::window;
    if constexpr (C > 0 && S::staged > 0) {
        constexpr int newer = C + S::staged > S::chunks ? S::chunks - 1 - C : S::staged - 1;
        ptx::wait_for_copy_groups<newer>();
#pragma unroll
        for (int i = 0; i < S::window && first + i < S::items; ++i) v[i] = vectors.staged(first + i);
    }
    if constexpr (!S::in_shared) {
        bool late = true;
        while (late) {
            bool mine = false;
#pragma unroll
            for (int i = 0; i < S::window && first + i < S::items; ++i)
                if (vectors.empty(turn, v[i])) {
                    v[i] = vectors.get(turn, first + i);
                    mine = true;
                }
            late = __any_sync(0xffffffffU, static_cast<int>(mine)) != 0;
        }
    }
    if constexpr (S::staged > 0) {
#pragma unroll
        for (int chunk = C == 0 ? 1 : C + S::staged; chunk <= C + S::staged && chunk < S::chunks; ++chunk)
            vectors.stage(turn, chunk);
    }
#pragma unroll
    for (int i = 0; i < S::window && first + i < S::items; i += S::together) {
        use(first + i, v + i);
        if constexpr (S::staged == 0)
#pragma unroll
            for (int j = i; j < i + S::together; ++j)
                if (first + j + S::window < S::items) v[j] = vectors.get(turn, first + j + S::window);
    }
}

// Calls `use` for all items of a turn in order, S::together at once. `early` is run before the first loads start,
// `late` while they are under way. Where the team is a single block, both are run after the products have been issued.
template <typename S, typename Early, typename Late, typename Use>
__device__ __forceinline__ void take_items(const TeamVectors<S>& vectors, uint32_t turn, Early early, Late late,
                                           Use use) {
    uint4 v[S::window];
    const auto get = [&] {
#pragma unroll
        for (int i = 0; i < S::window; ++i) v[i] = vectors.get(turn, i);
    };
    vectors.arrive();
    if constexpr (S::kind != Team::block) early();
    if constexpr (!S::in_shared) get();
    if constexpr (S::kind != Team::block) late();
    vectors.wait(turn);
    if constexpr (S::in_shared) get();
    [&]<int... C>(std::integer_sequence<int, C...>) { (take_window<C>(vectors, turn, v, use), ...); }
    (std::make_integer_sequence<int, S::chunks>());
    if constexpr (S::kind == Team::block) {
        early();
        late();
    }
}

// Sends the block's vectors of a turn, which it has stored (TeamVectors::put), to the team. The weights choose between
// this function and that of team_scatter.cuh.
template <typename X, typename S>
__device__ __forceinline__ void team_send(const TeamWeights<S>&, const TeamVectors<S>& vectors, uint32_t turn) {
    vectors.send(turn);
}

// The warps that have parts of k of the same units exchange sums in [buffer][unit warp][part][element][lane]. Returns
// where the lane's sums of the first part and element are.
template <typename S>
__device__ __forceinline__ TeamSums<S::gates>* team_partials(const TeamVectors<S>& vectors, uint32_t turn,
                                                             unsigned char* shared, int unit_warp) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return reinterpret_cast<TeamSums<S::gates>*>(shared) +
           (vectors.parity(turn) * S::unit_warps + unit_warp) * S::parts * S::elements * 32 + lane;
}
// Stores a warp's sums for the lanes that own the elements; add_sums adds up the parts of a lane's own elements.
template <typename S>
__device__ __forceinline__ void leave_sums(const TeamAccumulators<S>& sums, TeamSums<S::gates>* partials) {
    const int part = static_cast<int>(threadIdx.x) / 32 % S::parts;
#pragma unroll
    for (int e = 0; e < S::elements; ++e) {
        TeamSums<S::gates> all;
#pragma unroll
        for (int gate = 0; gate < S::gates; ++gate) all.gate[gate] = sums.sum(e, gate);
        partials[(part * S::elements + e) * 32] = all;
    }
}
template <typename S>
__device__ __forceinline__ void add_sums(const TeamSums<S::gates>* partials, float (&own)[S::own][S::gates]) {
#pragma unroll
    for (int i = 0; i < S::own; ++i) {
        TeamSums<S::gates> part[S::parts];
#pragma unroll
        for (int j = 0; j < S::parts; ++j)
            part[j] = partials[(j * S::elements + i * S::sharing + TeamElement<S>::sharer()) * 32];
#pragma unroll
        for (int gate = 0; gate < S::gates; ++gate) {
#pragma unroll
            for (int apart = 1; apart < S::parts; apart *= 2)
#pragma unroll
                for (int j = 0; j + apart < S::parts; j += 2 * apart) part[j].gate[gate] += part[j + apart].gate[gate];
            own[i][gate] = part[0].gate[gate];
        }
    }
}

// Computes the sums of a lane's own elements.
template <typename X, typename S, typename Early, typename Late>
__device__ __forceinline__ void team_product(const TeamWeights<S>& weights, const TeamVectors<S>& vectors,
                                             uint32_t turn, unsigned char* shared, Early early, Late late,
                                             float (&own)[S::own][S::gates]) {
    TeamAccumulators<S> sums;
    take_items(vectors, turn, early, late,
               [&](int item, const uint4* v) { multiply_planes<X>(weights, item / S::planes, v, sums); });
    if constexpr (S::parts == 1) {
#pragma unroll
        for (int e = 0; e < S::own; ++e)
#pragma unroll
            for (int gate = 0; gate < S::gates; ++gate) own[e][gate] = sums.sum(e, gate);
    } else {
        TeamSums<S::gates>* const partials =
            team_partials(vectors, turn, shared, static_cast<int>(threadIdx.x) / 32 / S::parts);
        leave_sums<S>(sums, partials);
        __syncthreads();
        if (TeamElement<S>::exist()) add_sums<S>(partials, own);
    }
}

}  // namespace flashscan::cuda
