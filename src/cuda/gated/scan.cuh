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
// Few rows   Where a chunk starts before those before it have ended, a chain of carries from chunk to chunk would take
//            longer than the rest, and chunks look back instead (device/scan/look_back.cuh).
// Order      The association is fixed by the sizes of chunks and of their groups and by which chunks walk in turn. With
//            BATCH_INVARIANT none of these depends on the batch.
// Cuts       The first step of a sequence and a reset step take nothing from the step before: no product of factors
//            reaches across them, whatever the numbers are. STATE_IN is included in b of the first step.
// In turn    Where a factor in a block's chunk may exceed 1, products of factors may overflow, or underflow and
//            grow again, although no state does. Warps, and the lanes of a row, then walk one after the other instead,
//            and what the chunk publishes is the carry after it.
// Sequences  With BATCH_INVARIANT each packed sequence is cut into chunks from the first step of its walk, so that its
//            bits do not depend on the sequences beside it; some blocks have no chunk.
// Bytes      A block publishes one carry or map for each pack of channels. Where chunks look back, it reads a carry
//            and the maps of the earlier chunks of its group and of the earlier groups of its link.
// Progress   Blocks wait for blocks of lower index only.
// Sync       One __syncthreads; one more for each warp where warps walk in turn; where chunks look back, up to one more
//            and a barrier of each half of the block. What is published shows by its own words whether it has arrived
//            (device/exchange/published_values.cuh).
#pragma once

#include "cuda/device/ptx/lane_maps.cuh"
#include "cuda/device/scan/cut_mark.cuh"
#include "cuda/device/scan/look_back_carries.cuh"
#include "cuda/gated/tile.cuh"

namespace flashscan::cuda {

// The maps of a lane's V channels as a monoid of chained scans. Without Cuts no step is cut off from the one before,
// and no map stands for a known carry.
template <typename R, int V, bool Cuts>
struct GatedMonoid {
    struct Wide {
        R of[V];
    };
    struct Map {
        R a[V], x[V];
        bool cut;  // whether the map gives x whatever carry enters it
    };
    struct alignas(2 * V * sizeof(R) < 16 ? 2 * V * sizeof(R) : 16) Record {
        R a[V], x[V];
    };

    static __device__ __forceinline__ Map identity() {
        Map m = cut_to({});
        m.cut = false;
        return m;
    }
    static __device__ __forceinline__ Map cut_to(const Wide& carry) {
        Map m;
        m.cut = true;
#pragma unroll
        for (int v = 0; v < V; ++v) m.a[v] = R(1), m.x[v] = carry.of[v];
        return m;
    }
    static __device__ __forceinline__ R apply(const Map& m, int v, R carry) {
        return Cuts && m.cut ? m.x[v] : multiply_add(m.a[v], carry, m.x[v]);
    }
    static __device__ __forceinline__ Wide apply(const Map& m, Wide carry) {
#pragma unroll
        for (int v = 0; v < V; ++v) carry.of[v] = apply(m, v, carry.of[v]);
        return carry;
    }
    static __device__ __forceinline__ Map compose(const Map& early, const Map& late) {
        Map m;
        m.cut = Cuts && (late.cut || early.cut);
#pragma unroll
        for (int v = 0; v < V; ++v) m.a[v] = late.a[v] * early.a[v], m.x[v] = apply(late, v, early.x[v]);
        return m;
    }
    static __device__ __forceinline__ Map shuffle_map(const Map& m, int lane) {
        Map from;
        from.cut = Cuts && __shfl_sync(0xffffffffU, static_cast<int>(m.cut), lane) != 0;
#pragma unroll
        for (int v = 0; v < V; ++v) from.a[v] = shuffle(m.a[v], lane), from.x[v] = shuffle(m.x[v], lane);
        return from;
    }
    static __device__ __forceinline__ Record to_record(const Map& m) {
        Record r;
#pragma unroll
        for (int v = 0; v < V; ++v) r.a[v] = m.a[v], r.x[v] = m.x[v];
        if (Cuts && m.cut) r.a[0] = cut_mark(R(0));
        return r;
    }
    static __device__ __forceinline__ Map to_map(const Record& r) {
        Map m;
        m.cut = Cuts && is_cut_mark(r.a[0]);
#pragma unroll
        for (int v = 0; v < V; ++v) m.a[v] = r.a[v], m.x[v] = r.x[v];
        return m;
    }
    // Maps that may overflow are not formed.
    static __device__ __forceinline__ bool withholds(const GatedParams&, const Map&) { return false; }
    static __device__ __forceinline__ bool withholds(const Wide&) { return false; }
};

// A chunk's place among those of the launch, its number and how many there are, of the row or of a packed sequence.
struct GatedChunk {
    uint32_t slot, chunk, chunks;
};
// How chunks look back. Where there are several chunks, all warps of a block follow each other in time.
template <typename Chain>
__device__ __forceinline__ Chain gated_chain(const GatedParams& p, typename Chain::Shared& shared,
                                             const GatedChunk& of) {
    const auto columns = static_cast<uint32_t>(p.batches * p.groups);
    return {{p, of.chunk, of.chunks, of.slot - of.chunk, blockIdx.x - of.slot * columns, columns,
             log2_of<Chain::most_rows>},
            p,
            shared,
            Chain::warps};
}
// Returns the carry into a warp, and publishes what later chunks need. All threads of a block call it. It is not
// inlined, so that a kernel that also has chains of carries has no registers for it.
template <typename Chain>
__device__ __noinline__ typename Chain::Wide gated_look_back(const GatedParams& p, typename Chain::Shared& shared,
                                                             GatedChunk of, int warp_time, int row, bool speaks) {
    const Chain chain = gated_chain<Chain>(p, shared, of);
    chain.publish();
    chain.fold_earlier();
    const auto carry = chain.enter_link(row, warp_time == 0 && speaks, typename Chain::Wide{});
    __syncwarp();  // the wait leaves lanes diverged
    bool owed = false;
    return chain.advance(row, warp_time, speaks, carry, owed);
}

// FewRows: whether chunks look back. Of a problem that is not Plain its arguments say so, and there is one kernel for
// both: a kernel of many rows, which issues instructions all the time, would lose 5 to 20 % by the registers that
// look-back takes. Bounded: products of the factors of the layer never leave the range of numbers.
template <typename Shape, bool Plain, bool FewRows, bool Bounded>
struct GatedScan {
    using R = typename Shape::R;
    using Tile = GatedTile<Shape, Plain>;
    using Values = typename Tile::Values;
    static constexpr int L = Shape::L, V = Shape::V;
    using Monoid = GatedMonoid<R, V, !Plain || FewRows>;
    using Map = typename Monoid::Map;
    using Carries = typename Monoid::Wide;
    static constexpr int lanes = Shape::by_time ? 1 : 32;  // packs of channels of a warp
    using Chain = LookBack<Monoid, GatedParams, Shape::warps, lanes>;
    using Shared = typename Chain::Shared;
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
    // Whether this lane publishes for its pack, if its warp does.
    __device__ __forceinline__ bool speaks() const { return !Shape::by_time || t.lane == 31; }
    __device__ __forceinline__ int pack() const { return Shape::by_time ? 0 : t.lane; }

    // A chain of carries from chunk to chunk.
    __device__ __forceinline__ bool takes() const { return !looks_back() && t.chunk > 0 && t.channels > 0; }
    // Whether the chunk publishes for a later one. Where chunks look back, it does so for packs without channels too,
    // since later blocks wait for all packs.
    __device__ __forceinline__ bool hands() const { return t.chunk + 1 < t.chunks && (looks_back() || t.channels > 0); }
    // The place of the carry into this chunk; that of the next chunk is step_of_carries() further. For Plain problems
    // both are below 2^31.
    __device__ __forceinline__ Place place_of_carries() const {
        return (Place(t.slot) - 1) * step_of_carries() + t.batch * Place(t.p.packs) + Place(t.channel) / V;
    }
    __device__ __forceinline__ Place step_of_carries() const { return Place(t.p.batches) * Place(t.p.packs); }

    __device__ __forceinline__ bool looks_back() const { return Plain ? FewRows : t.p.log2_group_chunks > 0; }
    __device__ __forceinline__ GatedChunk chunk_of_launch() const { return {t.slot, t.chunk, t.chunks}; }
    __device__ __forceinline__ Chain look_back() const { return gated_chain<Chain>(t.p, shared, chunk_of_launch()); }

    // The carry into the chunk, where warps walk in turn.
    __device__ __forceinline__ Carries carry_in() const {
        if (takes()) return await_value<Carries>(t.p.carries, place, known);
        if (!looks_back()) return {};
        const Chain chain = look_back();
        return t.chunk > 0 ? chain.carry_into_chunk(pack()) : chain.enter_link(pack(), speaks(), Carries{});
    }
    // Publishes the carry into the next chunk.
    __device__ __forceinline__ void hand_on(const Carries& carry) const {
        if (looks_back()) return look_back().publish_late(pack(), carry);
        if (t.chunk == 0) ptx::wait_for_launch_before();
        publish_value(t.p.carries, place + step_of_carries(), carry);
    }

    // Composes the maps of lanes that follow each other in time.
    __device__ __forceinline__ void scan_lanes(Map& m) const {
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            if constexpr (Plain && sizeof(R) == 4) {
#pragma unroll
                for (int v = 0; v < V; ++v) ptx::compose_with_early(m.a[v], m.x[v], distance);
            } else {
                const Map early = Monoid::shuffle_map(m, t.lane - distance & 31);
                if (t.lane >= distance) m = Monoid::compose(early, m);
            }
        }
    }
    __device__ __forceinline__ typename Monoid::Record& total(int warp_time) const {
        return shared.totals[((t.warp_group << t.p.log2_time_warps) + warp_time) * lanes + pack()];
    }
    __device__ __forceinline__ void set_total(const Map& m) const {
        if (speaks()) total(t.warp_time) = Monoid::to_record(m);
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
    // the range of numbers.
    __device__ __forceinline__ void run(const Values& a, Values& b, bool far) const {
        if (looks_back()) ptx::wait_for_launch_before();  // the launch before clears the memory that is published in
        Map through;
        through.cut = false;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            R product = a[0][v], x = Shape::backward ? a[0][v] * b[0][v] : b[0][v];
            if (Shape::backward && t.cuts(0)) x = R(0);
#pragma unroll
            for (int i = 1; i < L; ++i) {
                x = Shape::backward ? a[i][v] * (x + b[i][v]) : multiply_add(a[i][v], x, b[i][v]);
                if (t.cuts(i)) x = Shape::backward ? R(0) : b[i][v];
                product = a[i][v] * product;
            }
            through.a[v] = product, through.x[v] = x;
        }
#pragma unroll
        for (int i = 0; i < L; ++i) through.cut = through.cut || t.cuts(i);
        if constexpr (Shape::by_time) scan_lanes(through);
        set_total(through);
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

    __device__ __forceinline__ void find_carry_and_walk(const Values& a, Values& b, const Map& through) const {
        Carries carry = looks_back() ? find_by_look_back() : find_by_chain(through);
        if constexpr (Shape::by_time) {
            const Map lanes_before = Monoid::shuffle_map(through, t.lane - 1 & 31);
            if (t.lane > 0) carry = Monoid::apply(lanes_before, carry);
        }
        walk(a, b, carry);
    }
    // Both return the carry into the warp, and publish what later chunks need.
    __device__ __forceinline__ Carries find_by_chain(const Map& through) const {
        Map before = Monoid::identity();
#pragma unroll 1
        for (int w = 0; w < t.warp_time; ++w) before = Monoid::compose(before, Monoid::to_map(total(w)));
        Carries carry = takes() ? await_value<Carries>(t.p.carries, place, known) : Carries{};
        __syncwarp();
        if (hands() && t.last_in_time() && speaks()) hand_on(Monoid::apply(Monoid::compose(before, through), carry));
        return Monoid::apply(before, carry);
    }
    __device__ __forceinline__ Carries find_by_look_back() const {
        return gated_look_back<Chain>(t.p, shared, chunk_of_launch(), t.warp_time, pack(), speaks());
    }

    __device__ __forceinline__ void walk_in_turn(const Values& a, Values& b) const {
#pragma unroll 1
        for (int w = 0; w < 1 << t.p.log2_time_warps; ++w) {
            __syncthreads();
            if (t.warp_time != w) continue;
            Carries carry;
            if (w == 0) {
                carry = carry_in();
            } else {
#pragma unroll
                for (int v = 0; v < V; ++v) carry.of[v] = total(w - 1).x[v];
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
            set_total(Monoid::cut_to(carry));
            if (hands() && t.last_in_time() && speaks()) hand_on(carry);
        }
    }
};

}  // namespace flashscan::cuda
