// SPDX-License-Identifier: Apache-2.0
// The kernel "chunked", linear_chunked: the linear recurrence of any problem as a single-pass scan. Blocks take chunks
// of time side by side, and each finds its carry by looking back at what earlier blocks published.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, from the last step to the first
//
// A chunk maps the carry c that enters it to A c + X, where A is the product of its gates and X its result for c = 0:
// (A, X) is the chunk's summary, and summaries compose. Rows are (batch, channel) pairs.
//
// Ownership  A block of 8 warps owns a chunk of consecutive steps of some rows; 2^log2_warp_rows warps stand side by
//            side in rows, the others follow each other in time. A lane holds L steps of V rows in registers.
// Passes     1. Every lane loads its steps and summarises them; the summaries of lanes, then of warps, are composed in
//               the order of time into the block's.
//            2. The block publishes its summary, looks back for its carry (look_back.cuh), and every lane walks its
//               steps with its own carry and stores them. Where a carry overflowed on the way, it walks them again
//               (in_order.cuh).
// Bytes      Every element is read once and written once, and a summary of 8 to 32 bytes for each row and chunk.
// Order      The association is fixed by the problem's shape, and with it every bit. blockIdx.x runs through the rows
//            first, so that the chunks before a block's have begun long before it.
// Sequences  With BATCH_INVARIANT each packed sequence is cut into chunks from its own start, so that its bits do not
//            depend on the sequences before it. Which sequence a block's chunk is of follows from SEQ_OFFSETS by a
//            binary search (place_of_chunk); some blocks have none.
// Progress   Blocks wait for blocks of lower index only; the hardware starts blocks in the order of their index, as
//            every single-pass scan relies on.
// Sync       A block's warps synchronise by __syncthreads and named barriers. A value that passes between blocks shows
//            by its own words whether it has arrived (device/exchange/published_values.cuh): there are no flags and no
//            fences.
// Limits     None. Every problem runs; elements that are not aligned are loaded and stored one by one, or with time
//            innermost in words.
// Why        All loads of a tile are in flight at once and all of its steps stay in registers, so 16 warps of 8 KB each
//            meet an H200's bandwidth (bench/results/tried_linear.md has other ways). With rows for all multiprocessors
//            columns_channels_innermost.cuh and rows_time_innermost.cuh are faster. Rows with time innermost pass
//            through shared memory (device/tile/time_words.cuh): the instructions of an element cost as much as its
//            bytes, so vectors or words are copied to where lanes find them.
#pragma once

#include "cuda/device/ptx/launch.cuh"
#include "cuda/device/ptx/thread_index.cuh"
#include "cuda/device/scan/look_back_carries.cuh"
#include "cuda/linear/gate_gradient.cuh"
#include "cuda/linear/in_order.cuh"
#include "cuda/linear/record.cuh"

namespace flashscan::cuda {

template <typename Ty, Access access, bool Backward>
struct ChunkedConfig {
    using Shape = TileShape<typename Ty::X, typename Ty::G, access, Backward, 256>;
    static constexpr int warps = 8;
    static constexpr int resident = 2;  // blocks per multiprocessor, for which __launch_bounds__ limits the registers
    using Buffer = TileBuffer<typename Ty::X, typename Ty::G, Shape>;
    static constexpr int buffers = warps * Buffer::bytes;
    using Sums = ChunkTimeSums<Ty, Shape, warps>;
    using Chain = LookBack<LinearMonoid<Ty>, LinearParams, warps, Shape::max_rows>;
};

// A lane holds this part of its block's chunk.
template <typename Ty, typename Shape>
struct ChunkedTile {
    using GateCopies = Copies<typename Ty::G, Shape>;
    using Data = Copies<typename Ty::X, Shape>;
    typename Data::Fetched states_in;  // backward: states as they were loaded, arranged into steps only in pass 2
    Steps<typename Ty::G, Shape> gate;
    Steps<typename Ty::X, Shape> source;
    Events<Shape::L> events;
    bool eventful;                       // whether any lane of the warp has events
    typename Ty::Map through[Shape::V];  // inclusive scan of the row's summaries over the lanes of the warp
};

// A thread's place in the problem and in its block, with the phases of the kernel as its functions.
template <typename Ty, Access access, bool Down, bool Backward>
struct ChunkedBlock {
    using Config = ChunkedConfig<Ty, access, Backward>;
    using Shape = typename Config::Shape;
    using Buffer = typename Config::Buffer;
    using Tile = ChunkedTile<Ty, Shape>;
    using X = typename Ty::X;
    using G = typename Ty::G;
    using Wide = typename Ty::Wide;
    using GateWide = typename Ty::GateWide;
    using Map = typename Ty::Map;
    using Sums = typename Config::Sums;
    using Chain = typename Config::Chain;
    using Walker = Walk<Ty, Shape, Down, Backward>;
    using Before = StatesBefore<X, Shape, Down>;
    using Sequences = SequenceStates<Ty, Shape, Backward>;
    using Lane = LaneInOrder<Ty, Shape, Down, Backward>;
    static constexpr int L = Shape::L, V = Shape::V, warps = Config::warps;
    // Sequences begin anywhere, so that the kernel of packs of channels has no code for chunks of their own.
    static constexpr bool may_be_by_sequence = access == Access::channels || access == Access::time;
    // From so many blocks side by side in rows on, a block asks for its carry before it loads its tile.
    static constexpr uint32_t asking_blocks = 64;

    const LinearParams& p;
    Chain chain;
    Place at;
    int warp_row, warp_time;  // the warp's place in the block, in the order of the walk
    int64_t group;            // the block's group of rows, counted within the batch entry
    char* buffer;             // the warp's part of dynamic shared memory

    // Each phase of the kernel computes its place anew, so that it occupies no registers in between.
    static __device__ __forceinline__ ChunkedBlock here(const LinearParams& p, typename Chain::Shared& chain_memory) {
        const int thread = ptx::thread_index(), warp = thread / 32;
        const int warps_in_time = warps >> p.log2_warp_rows;
        const int warp_row = warp & ((1 << p.log2_warp_rows) - 1), warp_time = warp >> p.log2_warp_rows;
        const int log2_rows = log2_of<V> + p.log2_lane_rows + p.log2_warp_rows;
        const uint32_t slot = blockIdx.z * gridDim.y + blockIdx.y;
        ChunkPlace of;
        if (may_be_by_sequence && p.by_sequence != 0) {
            of = place_of_chunk(p.offsets, log2_of<warps * L> + 5 - p.log2_lane_rows - p.log2_warp_rows, slot,
                                thread & 31);
            if constexpr (!Shape::time_inner) {
                const int64_t steps = of.end - of.begin;
                of.begin = p.offsets.in_memory(of.begin, steps);
                of.end = of.begin + steps;
            }
        } else {
            const StepRange steps = steps_that_exist(p.offsets, 0, p.time);
            of = {steps.begin, steps.end, slot, static_cast<uint32_t>(p.chunks), 0};
        }
        const uint32_t row_group = blockIdx.x;
        const uint32_t batch = p.batches > 1 ? quotient(row_group, p.by_row_groups) : 0;
        const int64_t group = row_group - batch * static_cast<uint32_t>(p.row_groups);
        // With time innermost a walk against the order of memory (Down) takes the places from the last to the first.
        const int64_t turn = static_cast<int64_t>(of.chunk) * warps_in_time + warp_time;
        const int64_t chunks = may_be_by_sequence ? of.chunks : p.chunks;
        const int64_t place = Down ? chunks * warps_in_time - 1 - turn : turn;
        const int64_t row0 = (group << log2_rows) + (warp_row << p.log2_lane_rows) * V;
        const int64_t t0 = of.begin + place * (32 >> p.log2_lane_rows) * L;
        return {p,
                {{p, of.chunk, of.chunks, of.first, row_group, gridDim.x, log2_rows}, p, chain_memory, warps_in_time},
                place_of<Shape>(batch, row0, t0, p.rows, of.end, thread & 31, p.log2_lane_rows),
                warp_row,
                warp_time,
                group,
                shared_memory() + warp * (Config::buffers / warps)};
    }

    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }
    __device__ __forceinline__ Segments<Ty, Shape, Down> segments() const { return {at}; }
    __device__ __forceinline__ int row_of(int v) const { return (warp_row << at.log2_rows) * V + at.pack * V + v; }

    // Loads the carry into the block's link without waiting for it. With many rows it has mostly been published by the
    // time a block starts, and this load overlaps those of the tile.
    __device__ __forceinline__ void ask_for_carry(Words<Wide> (&known)[V]) const {
        const bool asks = chain.chunks > 1 && chain.chunk > 0 && gridDim.x >= asking_blocks;
        if (asks) ptx::wait_for_launch_before();  // the launch before clears the memory that carries are published in
#pragma unroll
        for (int v = 0; v < V; ++v) chain.ask_for_link(row_of(v), asks, known[v]);
    }

    __device__ __forceinline__ void load(Tile& tile) const {
        typename Tile::GateCopies::Fetched gate_in;
        typename Tile::Data::Fetched source_in;
        const bool constant = Shape::time_inner && p.gate.time == 0;
        if (!constant) Tile::GateCopies::fetch(p.gate, at, 0, p.time, buffer + Buffer::gate, gate_in);
        Tile::Data::fetch(p.source, at, 0, p.time, buffer + Buffer::source, source_in);
        if constexpr (Buffer::staged) ptx::end_copy_group();
        constexpr int before = Shape::time_inner ? 0 : 1;
        if (gate_wanted()) Tile::Data::fetch(p.states, at, before, p.time, buffer + Buffer::states, tile.states_in);
        if constexpr (Buffer::staged) ptx::end_copy_group();
        tile.events = events_of<Shape, Down, Backward>(p, at);
        tile.eventful = may_have_events<Shape, Backward>(p) && tile.events.any();
        if constexpr (Buffer::staged) ptx::wait_for_copy_groups<1>();  // gates and source are there, states need not be
        if (constant) {
            if constexpr (Shape::time_inner) Tile::GateCopies::load_constant(p.gate, at, tile.gate);
        } else {
            Tile::GateCopies::arrange(gate_in, at, buffer + Buffer::gate, tile.gate);
        }
        Walker::hold(p, tile.gate);
        Walker::complete(p, at, tile.gate);
        Tile::Data::arrange(source_in, at, buffer + Buffer::source, tile.source);
    }

    // Pass 1: summarises the lane's steps, scans the summaries over the warp's lanes and leaves each warp's total in
    // shared memory.
    __device__ __forceinline__ void summarize(Tile& tile, Sequences& sequences) const {
        const Walker walk{p, at, tile.events, sequences};
        // The general loop also serves sums of gate gradients, where that of Kind::cuts would do otherwise.
        if (tile.eventful && (Walker::needs_general(p) || Sums::wanted(p))) walk.load_sequences();
        const auto of_kind = [&](auto kind) {
            walk.template summarize<decltype(kind)::value>(tile.gate, tile.source, tile.through);
        };
        // The scan over lanes is inside the branch, where the compiler knows whether maps can be cut.
        if (tile.eventful) {
            Walker::with_event_kind(p, of_kind);
            scan_lanes(tile.through);
        } else {
            Walker::with_kind(p, false, of_kind);
            scan_lanes(tile.through);
        }
    }
    __device__ __forceinline__ void scan_lanes(Map (&m)[V]) const {
#pragma unroll
        for (int v = 0; v < V; ++v) {
            segments().scan(m[v]);
            if (segments().is_last())
                chain.shared.totals[(warp_time << chain.log2_rows) + row_of(v)] = to_record<Ty>(m[v]);
        }
    }

    // The carry that a row of the launch starts from.
    __device__ __forceinline__ Wide edge_of_row(int v) const {
        const Wide* const edge = static_cast<const Wide*>(p.edge_in);
        return edge != nullptr && v < at.rows ? edge[at.batch * p.rows + at.row + v] : Wide{};
    }
    // Finds the carry into the lane's steps: from the edge of the launch or from earlier chunks into the block's chunk,
    // from there through the earlier warps and lanes. Returns two bits for each row: whether the lane has to walk it
    // again, and whether it owes the carry into the next link, whose publish was deferred.
    // `owes` becomes whether the thread owes a summary.
    __device__ __forceinline__ uint32_t find_carry(const Map (&through)[V], const Words<Wide> (&known)[V],
                                                   Wide (&carry)[V], bool& owes) const {
        uint32_t overflowed = 0;
        owes = false;
#pragma unroll
        for (int v = 0; v < V; ++v) carry[v] = chain.chunk == 0 ? edge_of_row(v) : Wide{};
        __syncthreads();
        if (chain.chunks > 1) {
            ptx::wait_for_launch_before();  // the launch before clears the memory that summaries are published in
            owes = chain.publish();
            owes |= chain.fold_earlier();
        } else if (may_be_by_sequence && p.by_sequence != 0) {
            ptx::wait_for_launch_before();  // the next launch must not find the clearing of memory still at work
        }
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (chain.chunks > 1)
                carry[v] = chain.enter_link(row_of(v), warp_time == 0 && segments().mine() == 0, known[v], carry[v]);
            bool owed = false;
            carry[v] = chain.advance(row_of(v), warp_time, segments().is_last(), carry[v], owed);
            carry[v] = segments().enter(through[v], carry[v]);
            const bool again = v < at.rows && !is_finite(carry[v]);
            overflowed |= (static_cast<uint32_t>(again) | static_cast<uint32_t>(owed) << 1) << (2 * v);
        }
        return overflowed;
    }

    // Whether the lane has to walk any of its rows again.
    static __device__ __forceinline__ bool again(uint32_t overflowed) { return (overflowed & 0x55555555U) != 0; }
    // Whether that is so for any lane of the block, or a thread owes a summary, where the block has to know before it
    // stores anything. All threads must call it.
    __device__ __forceinline__ bool corrects(uint32_t overflowed, bool owes) const {
        return p.in_place != 0 && __syncthreads_or(again(overflowed) || owes) != 0;
    }
    // Walks all steps of the block in order and does what is left of the kernel.
    __device__ __forceinline__ void walk_in_order(uint32_t overflowed) const {
        Wide carry[V];
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (v >= at.rows) continue;
            const bool of_link = p.in_place == 0;
            const Wide into = chain.chunks == 1 ? edge_of_row(v)
                              : of_link         ? chain.carry_into_link(row_of(v))
                                                : chain.carry_into_chunk(row_of(v));
            carry[v] = Lane{p, at, at.row + v}.carry(of_link ? chain.warps_of_link(warp_time) : warp_time, into);
        }
        if (p.in_place != 0) __syncthreads();
        Sums sums;
#pragma unroll
        for (int v = 0; v < V; ++v) {
            if (v >= at.rows) continue;
            GateWide terms[L]{};
            carry[v] = Lane{p, at, at.row + v}.walk(carry[v], terms);
            for (int i = 0; i < L; ++i) sums.sum[v] = sums.sum[v] + terms[i];
            if ((overflowed >> (2 * v) & 2) != 0) chain.publish_next(row_of(v), carry[v]);
            const bool speaks = warp_time == chain.warps_in_time - 1 && segments().is_last();
            if (p.in_place != 0 && speaks) chain.publish_owed(row_of(v), carry[v]);
        }
        write_sums(sums, false);
        leave(carry);
    }

    // Does the deferred work: walks rows again, in order, and publishes the carries that the lane owes. On entry
    // `carry` is the computed carry after its steps.
    __device__ __forceinline__ void walk_again(uint32_t overflowed, Wide (&carry)[V]) const {
        if (!__any_sync(0xffffffffU, overflowed != 0)) return;
        __syncwarp();  // other lanes may have stored the lane's results
#pragma unroll
        for (int v = 0; v < V; ++v) {
            const uint32_t bits = overflowed >> (2 * v) & 3;
            if ((bits & 1) != 0) {
                const Wide into = chain.chunks > 1 ? chain.carry_into_link(row_of(v)) : edge_of_row(v);
                carry[v] = Lane{p, at, at.row + v}.again(chain.warps_of_link(warp_time), into, carry[v]);
            }
            if ((bits & 2) != 0) chain.publish_next(row_of(v), carry[v]);
        }
    }

    // Pass 2: walks the lane's steps from their carry and stores the results.
    __device__ __forceinline__ void walk(Tile& tile, Sequences& sequences, Wide (&carry)[V], Sums& sums) const {
        const Walker walk{p, at, tile.events, sequences};
        if constexpr (Backward) {
            walk_back(walk, tile, carry, sums);
        } else {
            const auto of_kind = [&](auto kind) {
                walk.template forward<decltype(kind)::value>(tile.gate, tile.source, carry);
            };
            if (tile.eventful)
                Walker::with_event_kind(p, of_kind);
            else
                Walker::with_kind(p, false, of_kind);
        }
        if (tile.eventful) walk.store_sequences();
        if (p.result.data != nullptr) Tile::Data::store(tile.source, p.result, at, buffer + Buffer::source);
    }

    // Stores the carries that leave the launch.
    __device__ __forceinline__ void leave(const Wide (&carry)[V]) const {
        if (p.edge_out == nullptr) return;
        if (p.edge_out == p.edge_in) __syncthreads();  // other warps may have needed what entered
        const bool last_warp = chain.last() && warp_time == chain.warps_in_time - 1;
        if (!last_warp || !segments().is_last()) return;
#pragma unroll
        for (int v = 0; v < V; ++v)
            if (v < at.rows) static_cast<Wide*>(p.edge_out)[at.batch * p.rows + at.row + v] = carry[v];
    }

    // h one step before the lane's first, in the order of the forward pass. With time innermost the neighbouring lane
    // holds it, or memory does.
    __device__ __forceinline__ Wide edge_of(const Steps<X, Shape>& states) const {
        const Wide held = Before::held_edge(at, states);
        return Before::is_held(p, at) ? held : Before::load_edge(p, at);
    }

    __device__ __forceinline__ void walk_back(const Walker& walk, Tile& tile, Wide (&carry)[V], Sums& sums) const {
        Steps<X, Shape> states{};
        Wide edge{};
        if (gate_wanted()) {
            if constexpr (Buffer::staged) ptx::wait_for_copy_groups<0>();
            Tile::Data::arrange(tile.states_in, at, buffer + Buffer::states, states);
            if constexpr (Shape::time_inner) edge = edge_of(states);
        }
        const Before before{at, states, edge};
        Wide first[V];
#pragma unroll
        for (int v = 0; v < V; ++v) first[v] = walk.before_row(v);
        const bool summing = gate_wanted() && Sums::wanted(p);
        StepWriter<G, Shape, Down> writer{tile.gate};
        const auto set = [&](int i, const GateWide(&values)[V]) { writer.set(i, values); };
        const auto add = [&](int i, const GateWide(&values)[V]) {
            if (i < at.steps) sums.add(values);
        };
        const auto general = [&](auto&& sink) {
            walk.template backward<Kind::general>(tile.gate, tile.source, carry, first, before, sink);
        };
        const auto of_kind = [&](auto kind) {
            walk.template backward<decltype(kind)::value>(tile.gate, tile.source, carry, first, before, set);
        };
        if (summing) {
            general(add);
        } else if (tile.eventful && Walker::needs_general(p)) {
            general(set);
        } else if (tile.eventful) {
            with_value_kind(true, of_kind);
        } else {
            Walker::with_kind(p, false, of_kind);
        }
        if (gate_wanted() && !summing) Tile::GateCopies::store(tile.gate, p.grad_gate, at, buffer + Buffer::gate);
    }

    // Writes sums of gradients, unless a thread has to walk `again`; returns whether one has.
    __device__ __forceinline__ bool write_sums(const Sums& sums, bool again) const {
        if constexpr (Backward)
            if (gate_wanted() && Sums::wanted(p))
                return sums.write(p, at, group, chain.first + chain.chunk, warp_row, warp_time, again);
        return false;
    }
};

// Not inlined: it is rarely called, and its code then lies apart from the rest.
template <typename Block>
__device__ __noinline__ void walk_chunk_in_order(const LinearParams& p, typename Block::Chain::Shared& chain_memory,
                                                 uint32_t overflowed) {
    Block::here(p, chain_memory).walk_in_order(overflowed);
}

template <typename Ty, Access access, bool Down, bool Backward>
__global__ void __launch_bounds__(32 * ChunkedConfig<Ty, access, Backward>::warps,
                                  ChunkedConfig<Ty, access, Backward>::resident)
    linear_chunked(const __grid_constant__ LinearParams p) {
    using Block = ChunkedBlock<Ty, access, Down, Backward>;
    using Config = typename Block::Config;
    __shared__ typename Config::Chain::Shared chain_memory;
    if (blockIdx.z * gridDim.y + blockIdx.y >= p.chunks) return;

    typename Block::Tile tile;
    typename Block::Sequences sequences;
    Words<typename Ty::Wide> known[Block::V];
    {
        const Block block = Block::here(p, chain_memory);
        block.ask_for_carry(known);
        block.load(tile);
        block.summarize(tile, sequences);
    }
    typename Ty::Wide carry[Block::V];
    typename Config::Sums sums;
    const Block block = Block::here(p, chain_memory);
    bool owes;
    const uint32_t overflowed = block.find_carry(tile.through, known, carry, owes);
    if (block.corrects(overflowed, owes)) [[unlikely]]
        return walk_chunk_in_order<Block>(p, chain_memory, overflowed);
    block.walk(tile, sequences, carry, sums);
    if (block.write_sums(sums, Block::again(overflowed))) [[unlikely]]
        return walk_chunk_in_order<Block>(p, chain_memory, overflowed);
    block.walk_again(overflowed, carry);
    block.leave(carry);
}

}  // namespace flashscan::cuda
