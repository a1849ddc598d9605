// SPDX-License-Identifier: Apache-2.0
// The scan of a chunk of a gated layer, which is one part of a chained scan over chunks. Each step of the layer is an
// affine map:
//
//     forward    h' = a h + b                with b = m v             (math/gated.h)
//     backward   c' = a (c + e), g = c + e   e is the gradient of h from OUTPUT, c that from later steps
//
// Passes     1. Every lane composes the maps of its steps; with time innermost the maps of a warp's lanes are scanned
//               by shuffles. The maps of warps go to shared memory.
//            2. A lane composes the maps of the warps before its own and applies them to the carry into the chunk,
//               which the chunk before published; the last warp publishes the carry into the next chunk.
//            3. Every lane walks its steps from its carry.
// Order      The association is fixed by the chunk's size, which does not depend on the batch.
// Cuts       The first step of a sequence and a reset step take nothing from the step before: no product of factors
//            reaches across them, whatever the numbers are. STATE_IN is included in b of the first step.
// In turn    Where a factor in a block's chunk may exceed 1, products of factors may overflow, or underflow and
//            grow again, although no state does. Warps, and the lanes of a row, then walk one after the other instead.
// Sequences  With BATCH_INVARIANT each packed sequence is cut into chunks from its own start, so that its bits do not
//            depend on the sequences before it; some blocks have no chunk.
// Bytes      A carry for each pack of channels and chunk.
// Progress   Blocks wait for blocks of lower index only.
// Sync       One __syncthreads, and one for each warp where warps walk in turn. A carry shows by its own words whether
//            it has arrived (device/exchange/published_values.cuh).
#pragma once

#include "cuda/device/ptx/lane_maps.cuh"
#include "cuda/gated/tile.cuh"

namespace flashscan::cuda {

template <typename R>
struct GatedMap {
    R a, x;
    bool cut;  // whether x does not depend on the carry
};

template <typename Shape, bool Plain>
struct GatedScan {
    using R = typename Shape::R;
    using Tile = GatedTile<Shape, Plain>;
    using Values = typename Tile::Values;
    using Map = GatedMap<R>;
    static constexpr int L = Shape::L, V = Shape::V, lanes = Shape::by_time ? 1 : 32;
    struct Carries {
        R of[V];
    };
    // The map of a warp, or with channels innermost of each lane.
    struct alignas(2 * V * sizeof(R) < 16 ? 2 * V * sizeof(R) : 16) Totals {
        R a[V], x[V];
    };
    struct Shared {
        Totals totals[Shape::warps][lanes];
        bool cut[Shape::warps][lanes];
    };

    using Place = std::conditional_t<Plain, uint32_t, int64_t>;

    const Tile& t;
    Shared& shared;
    const Place place;
    Words<Carries> known;

    __device__ __forceinline__ GatedScan(const Tile& tile, Shared& of_block)
        : t(tile), shared(of_block), place(place_of_carries()) {
        if (!takes()) return;
        ptx::wait_for_launch_before();  // the launch before clears the memory that carries are published in
        ask_for_value(t.p.carries, place, known);
    }
    __device__ __forceinline__ bool takes() const { return t.chunk > 0 && t.channels > 0; }
    __device__ __forceinline__ bool hands() const { return t.chunk + 1 < t.chunks && t.channels > 0; }
    // The carries into the lane's chunk are published at this place, those into the next chunk at a distance from it.
    // For Plain problems both are below 2^31.
    __device__ __forceinline__ Place place_of_carries() const {
        return (Place(t.slot) - 1) * step_of_carries() + t.batch * Place(t.p.packs) + Place(t.channel) / V;
    }
    __device__ __forceinline__ Place step_of_carries() const { return Place(t.p.batches) * Place(t.p.packs); }
    __device__ __forceinline__ Carries carry_in() const {
        return takes() ? await_value<Carries>(t.p.carries, place, known) : Carries{};
    }
    __device__ __forceinline__ void hand_on(const Carries& carry) const {
        if (t.chunk == 0) ptx::wait_for_launch_before();
        publish_value(t.p.carries, place + step_of_carries(), carry);
    }

    static __device__ __forceinline__ Map compose(const Map& early, const Map& late) {
        return {late.a * early.a, apply(late, early.x), !Plain && (late.cut || early.cut)};
    }
    static __device__ __forceinline__ R apply(const Map& m, R carry) {
        return !Plain && m.cut ? m.x : multiply_add(m.a, carry, m.x);
    }
    // Composes the map with that of the lane `distance` before, if there is one.
    __device__ __forceinline__ void compose_with_early(Map& m, int distance) const {
        if constexpr (Plain && sizeof(R) == 4) {
            ptx::compose_with_early(m.a, m.x, distance);
        } else {
            const Map early = from_lane(m, t.lane - distance & 31);
            if (t.lane >= distance) m = compose(early, m);
        }
    }
    __device__ __forceinline__ int slot(int warp_time) const {
        return (t.warp_group << t.p.log2_time_warps) + warp_time;
    }
    static __device__ __forceinline__ void read(const Totals& of, bool cut, Map (&m)[V]) {
#pragma unroll
        for (int v = 0; v < V; ++v) m[v] = {of.a[v], of.x[v], cut};
    }
    __device__ __forceinline__ void set_totals(const Map (&m)[V]) const {
        if (Shape::by_time && t.lane != 31) return;
        Totals of;
#pragma unroll
        for (int v = 0; v < V; ++v) of.a[v] = m[v].a, of.x[v] = m[v].x;
        const int lane = Shape::by_time ? 0 : t.lane;
        shared.totals[slot(t.warp_time)][lane] = of;
        if (!Plain) shared.cut[slot(t.warp_time)][lane] = m[0].cut;
    }
    static __device__ __forceinline__ Map from_lane(const Map& m, int lane) {
        return {shuffle(m.a, lane), shuffle(m.x, lane),
                !Plain && __shfl_sync(0xffffffffU, static_cast<int>(m.cut), lane) != 0};
    }

    // Applies one step to the carry; b becomes h, or e becomes g.
    __device__ __forceinline__ R advance(int i, R a, R& b, R carry) const {
        if constexpr (Shape::backward) {
            b = b + carry;
            return t.cuts(i) ? R(0) : a * b;
        } else {
            b = t.cuts(i) ? b : multiply_add(a, carry, b);
            return b;
        }
    }
    __device__ __forceinline__ void walk(const Values& a, Values& b, Carries& carry) const {
#pragma unroll
        for (int i = 0; i < L; ++i)
#pragma unroll
            for (int v = 0; v < V; ++v) carry.of[v] = advance(i, a[i][v], b[i][v], carry.of[v]);
    }

    // Turns the maps of all steps into h or g of all steps. `far` tells that products of the lane's factors may leave
    // the range of numbers, which they never do if Bounded.
    template <bool Bounded>
    __device__ __forceinline__ void run(const Values& a, Values& b, bool far) const {
        Map through[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            Map m{a[0][v], Shape::backward ? a[0][v] * b[0][v] : b[0][v], t.cuts(0)};
            if (Shape::backward && t.cuts(0)) m.x = R(0);
#pragma unroll
            for (int i = 1; i < L; ++i) {
                R x = Shape::backward ? a[i][v] * (m.x + b[i][v]) : multiply_add(a[i][v], m.x, b[i][v]);
                if (t.cuts(i)) x = Shape::backward ? R(0) : b[i][v];
                m = {a[i][v] * m.a, x, m.cut || t.cuts(i)};
            }
            if constexpr (Shape::by_time) {
#pragma unroll
                for (int distance = 1; distance < 32; distance *= 2) compose_with_early(m, distance);
            }
            through[v] = m;
        }
        set_totals(through);
        bool in_turn = false;
        if constexpr (Bounded)
            __syncthreads();
        else
            in_turn = __syncthreads_or(far) != 0;
        if (in_turn)
            walk_in_turn(a, b);
        else
            find_carry_and_walk(a, b, through);
    }

    __device__ __forceinline__ void find_carry_and_walk(const Values& a, Values& b, const Map (&through)[V]) const {
        Map before[V];
#pragma unroll
        for (int v = 0; v < V; ++v) before[v] = {R(1), R(0), false};
        // The first warp's totals; those of the next warp lie `lanes` further.
        const Totals* of = &shared.totals[slot(0)][Shape::by_time ? 0 : t.lane];
#pragma unroll 1
        for (int w = 0; w < t.warp_time; ++w, of += lanes) {
            Map late[V];
            read(*of, !Plain && shared.cut[slot(w)][Shape::by_time ? 0 : t.lane], late);
#pragma unroll
            for (int v = 0; v < V; ++v) before[v] = compose(before[v], late[v]);
        }
        Carries carry = carry_in();
        __syncwarp();
        if (hands() && t.last_in_time() && (!Shape::by_time || t.lane == 31)) {
            Carries next;
#pragma unroll
            for (int v = 0; v < V; ++v) next.of[v] = apply(compose(before[v], through[v]), carry.of[v]);
            hand_on(next);
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            carry.of[v] = apply(before[v], carry.of[v]);
            if constexpr (Shape::by_time) {
                const Map lanes_before = from_lane(through[v], t.lane - 1 & 31);
                if (t.lane > 0) carry.of[v] = apply(lanes_before, carry.of[v]);
            }
        }
        walk(a, b, carry);
    }

    __device__ __forceinline__ void walk_in_turn(const Values& a, Values& b) const {
#pragma unroll 1
        for (int w = 0; w < 1 << t.p.log2_time_warps; ++w) {
            __syncthreads();
            if (t.warp_time != w) continue;
            Carries carry;
            Map m[V];
            if (w == 0) {
                carry = carry_in();
            } else {
                read(shared.totals[slot(w - 1)][Shape::by_time ? 0 : t.lane], false, m);
#pragma unroll
                for (int v = 0; v < V; ++v) carry.of[v] = m[v].x;
            }
            __syncwarp();
            if constexpr (Shape::by_time) {
#pragma unroll 1
                for (int l = 0; l < 32; ++l) {
                    if (t.lane == l) walk(a, b, carry);
                    __syncwarp();
#pragma unroll
                    for (int v = 0; v < V; ++v) carry.of[v] = shuffle(carry.of[v], l);
                }
            } else {
                walk(a, b, carry);
            }
#pragma unroll
            for (int v = 0; v < V; ++v) m[v] = {R(0), carry.of[v], false};
            set_totals(m);
            if (hands() && t.last_in_time() && (!Shape::by_time || t.lane == 31)) hand_on(carry);
        }
    }
};

}  // namespace flashscan::cuda
