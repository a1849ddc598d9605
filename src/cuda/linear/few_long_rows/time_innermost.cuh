// SPDX-License-Identifier: Apache-2.0
// The kernel "few_long_rows" with time innermost, linear_few_long_rows_time: the linear recurrence of up to 192 long
// rows, of at least 4 chunks each and some waves together (tuning.cpp), by a persistent kernel, whose blocks walk one
// chunk after another, with specialised warps for carries.
//
//     h[t] = a[t] h[t-1] + x[t]                    forward
//     g[t] = dh[t] + conj(a[t+1]) g[t+1]           backward, from the last step to the first
//
// A chunk maps the carry c that enters it to A c + X, where A is the product of its gates and X its result for c = 0.
// Chunks are numbered through all rows, and a wave is the next n of them, one for each of the n blocks.
//
// Ownership  Block b owns chunks b, b + n, b + 2 n, ... Each of its 8 walking warps owns a part of each chunk, which
//            the bulk copy engine (TMA) loads into the warp's ring buffer of stages in shared memory; a lane holds L
//            steps of it. Three more warps find carries (time_innermost_carries.cuh).
// Passes     1. A warp reads its part of chunk k + 2, backward k + 3, from its ring and summarises it; its total goes
//               to the warp that publishes the chunk's summary.
//            2. It waits for its carry for chunk k, walks its steps and releases the stage, which the copy engine
//               stores and then fills with a later chunk. A carry that overflowed is found in order (in_order.cuh).
// Bytes      Every element is read once and written once, and 32 bytes for each row and chunk.
// Order      The association follows from the shape and the number of blocks, so that a GPU with another number of
//            multiprocessors gives other bits.
// Progress   All blocks wait for each other, so the launch is cooperative and has no more blocks than run at once.
// Sync       Values between blocks carry the number of their wave as a tag; the warps of a block synchronise by
//            mbarriers in shared memory, and by a named barrier where results take the place of their source.
// Limits     Gates are values for each element, of the data's dtype (f32, bf16, f16); nothing is reset or packed; rows
//            begin at multiples of 16 bytes; compute capability 9.0 and newer. BATCH_INVARIANT rules it out. Tried
//            before "chunked"; "rows" leaves it the problems that it is expected to compute faster.
// Why        Chunks that look back (chunked_general.cuh and rows_time_innermost.cuh in linear/) load, wait for their
//            carry and store one after another, with nothing to load meanwhile. Here a carry has two waves' time to
//            arrive, some 5 us, and loads never stop: for one row of 2^24 f32 an H200 takes 64 us forward where
//            "chunked" takes 88, backward 100 instead of 156. The rest above the time of a copy is mostly the latency
//            of the first and of the last carries, which counts for short rows. See bench/results/tried_linear.md for
//            other sizes of chunks and ways to find carries.
#pragma once

#include "cuda/device/ptx/async_proxy.cuh"
#include "cuda/device/ptx/barrier.cuh"
#include "cuda/device/ptx/bulk_bytes.cuh"
#include "cuda/device/ptx/bulk_copy.cuh"
#include "cuda/device/tile/copies.cuh"
#include "cuda/linear/few_long_rows/time_innermost_carries.cuh"
#include "cuda/linear/walk.cuh"

namespace flashscan::cuda {

// The steps of neighbouring lanes lie an odd number of 16-byte vectors apart in shared memory, so that reading them in
// vectors has no bank conflicts.
template <typename X, bool Backward>
struct RowShape {
    static constexpr Access access = Access::time_vectors;
    static constexpr bool time_inner = true;
    static constexpr int V = 1, vectors = Backward ? 3 : 5;
    static constexpr int L = vectors * 16 / static_cast<int>(sizeof(X));
    static constexpr int max_rows = 32;
    template <typename T>
    static constexpr int element_bytes = sizeof(T);
};

template <typename X, bool Backward>
struct RowConfig {
    using Ty = Types<X, X>;
    using Shape = RowShape<X, Backward>;
    static constexpr int ahead = Backward ? 3 : 2;  // chunks that are summarised before one is walked
    static constexpr int warps = 8;                 // warps that walk
    static constexpr int threads = 32 * (warps + 3);
    static constexpr int chunk_steps = 32 * warps * Shape::L;
    static constexpr int tile_bytes = 32 * 16 * Shape::vectors;
    static constexpr int beside = 16;  // room before and after a stage's states for the vector that holds their edge
    static constexpr int stage_bytes = 2 * tile_bytes + (Backward ? tile_bytes + 2 * beside : 0);
    using Carries = RowCarries<Ty, warps, ahead>;
};

// One of the warps that walk.
template <typename X, bool Down, bool Backward>
struct RowWarp {
    using Config = RowConfig<X, Backward>;
    using Shape = typename Config::Shape;
    using Carries = typename Config::Carries;
    using Ty = typename Config::Ty;
    using Tile = Steps<X, Shape>;
    using Wide = typename Ty::Wide;
    using Map = typename Ty::Map;
    using Before = StatesBefore<X, Shape, Down>;
    using Walker = Walk<Ty, Shape, Down, Backward, false>;
    static constexpr int L = Shape::L, ahead = Config::ahead, size = static_cast<int>(sizeof(X));

    const LinearParams& p;
    const FewLongRowsParams& w;
    const Carries& carries;
    int lane, warp;
    char* ring;
    uint32_t barriers;

    __device__ __forceinline__ bool gate_wanted() const { return Backward && p.states.data != nullptr; }

    // The lane's place in the block's chunk of wave k.
    __device__ __forceinline__ Place place_at(uint32_t k) const {
        uint32_t turn;
        const uint32_t row = carries.row_of(k, turn);
        const uint32_t batch = p.batches > 1 ? quotient(row, p.by_row_groups) : 0;
        const int64_t step = static_cast<int64_t>(turn) * Config::warps + warp;
        const int64_t place = Down ? p.chunks * Config::warps - 1 - step : step;
        return place_of<Shape>(batch, row - batch * static_cast<uint32_t>(p.rows), place * 32 * L, p.rows, p.time, lane,
                               0);
    }
    __device__ __forceinline__ char* stage(uint32_t slot) const { return ring + slot * Config::stage_bytes; }
    static __device__ __forceinline__ char* source_of(char* stage) { return stage + Config::tile_bytes; }
    static __device__ __forceinline__ char* states_of(char* stage) {
        return stage + 2 * Config::tile_bytes + Config::beside;
    }
    static __device__ __forceinline__ char* address(const View& view, const Place& at) {
        return view.data + at.batch * view.batch + at.warp_row * view.row + at.warp_t0 * size;
    }

    // Starts loading the warp's part of the block's chunk of wave k into a slot of its ring.
    __device__ __forceinline__ void load(uint32_t k, uint32_t slot) const {
        if (k >= carries.count() || lane != 0) return;
        const Place at = place_at(k);
        const uint32_t to = ptx::shared_address(stage(slot)), barrier = barriers + 8 * slot;
        const uint32_t bytes = static_cast<uint32_t>(at.warp_steps * size);
        // The states need one vector more: it holds the state before the first step or after the last.
        const bool before = Down && at.warp_t0 > 0, after = !Down && at.warp_t0 + at.warp_steps < p.time;
        const uint32_t states_bytes = bytes > 0 && gate_wanted() ? bytes + (before || after ? Config::beside : 0) : 0;
        ptx::expect_bytes(barrier, 2 * bytes + states_bytes);
        if (bytes == 0) return;
        ptx::load_bytes(to, address(p.gate, at), bytes, barrier);
        ptx::load_bytes(to + Config::tile_bytes, address(p.source, at), bytes, barrier);
        const int shift = before ? Config::beside : 0;
        if (states_bytes > 0)
            ptx::load_bytes(ptx::shared_address(states_of(stage(slot)) - shift), address(p.states, at) - shift,
                            states_bytes, barrier);
    }
    // Starts storing the results that pass 2 left in a slot of the ring.
    __device__ __forceinline__ void store(const Place& at, uint32_t slot) const {
        ptx::fence_async_proxy();
        __syncwarp();
        if (lane != 0) return;
        const uint32_t from = ptx::shared_address(stage(slot)), bytes = static_cast<uint32_t>(at.warp_steps * size);
        if (bytes > 0 && p.result.data != nullptr)
            ptx::store_bytes(address(p.result, at), from + Config::tile_bytes, bytes);
        if (bytes > 0 && gate_wanted()) ptx::store_bytes(address(p.grad_gate, at), from, bytes);
        ptx::end_store_group();
    }

    // Reads the lane's steps from shared memory; steps that do not exist become zeros.
    static __device__ __forceinline__ void read(const char* tile, const Place& at, Tile& to) {
        const char* const mine = tile + at.lane * L * size;
#pragma unroll
        for (int j = 0; j < Shape::vectors; ++j) load_words<4>(mine + 16 * j, to.word + 4 * j);
        if (at.steps >= L) return;
#pragma unroll
        for (int i = 0; i < L; ++i)
            if (i >= at.steps) to.set(i, 0, Wide{});
    }
    static __device__ __forceinline__ void write(const Tile& from, const Place& at, char* tile) {
        char* const mine = tile + at.lane * L * size;
#pragma unroll
        for (int j = 0; j < Shape::vectors; ++j) store_words<4>(from.word + 4 * j, mine + 16 * j);
    }
    // h one step before the lane's first, in the order of the forward pass.
    __device__ __forceinline__ Wide edge_of(const char* states, const Place& at) const {
        const int64_t first = Down ? 0 : p.time - 1;
        if (at.steps == 0) return {};
        if (first >= at.t0 && first < at.t0 + at.steps)
            return p.state_in != nullptr ? static_cast<const Wide*>(p.state_in)[at.batch * p.rows + at.row] : Wide{};
        Tile one{};
        load_element<X>(states + (at.lane * L + (Down ? -1 : at.steps)) * size, one.word);
        return one.get(0, 0);
    }

    __device__ __forceinline__ void summarize(uint32_t k, uint32_t slot, uint32_t parity, Map (&through)[1]) const {
        const Place at = place_at(k);
        const Events<L> none;
        const Walker walk{p, at, none};
        ptx::wait_for_phase(barriers + 8 * slot, parity);
        Tile gate, source;
        read(stage(slot), at, gate);
        read(source_of(stage(slot)), at, source);
        Walker::complete(p, at, gate);
        walk.template summarize<Kind::plain>(gate, source, through);
        const Segments<Ty, Shape, Down> segments{at};
        segments.scan(through[0]);
        typename Carries::Slot& shared = carries.slot(k);
        if (!segments.is_last()) return;
        shared.totals[warp] = to_record<Ty>(through[0]);
        carries.signal(shared.totals_barrier);
    }

    // Returns the carry into the lane's steps of chunk k, by a walk in order.
    __device__ __forceinline__ Wide carry_again(uint32_t k, const Place& at, Wide carry) const {
        uint32_t turn;
        carries.row_of(k, turn);
        return carry_in_order<Ty, Down, Backward>(p, at.batch, at.row,
                                                  steps_of_chunk<Down>(p, turn, Config::chunk_steps).first(),
                                                  Down ? at.t0 + L - 1 : at.t0, carries.slot(k).carries[0], carry);
    }

    __device__ __forceinline__ void walk(uint32_t k, uint32_t slot, const Map& through) const {
        const Place at = place_at(k);
        const Events<L> none;
        const Walker walk{p, at, none};
        char* const here = stage(slot);
        Tile gate, source, states{};
        Wide edge{};
        const auto read_all = [&] {
            read(here, at, gate);
            read(source_of(here), at, source);
            if (gate_wanted()) {
                read(states_of(here), at, states);
                edge = edge_of(states_of(here), at);
            }
        };
        read_all();
        const Segments<Ty, Shape, Down> segments{at};
        typename Carries::Slot& shared = carries.slot(k);
        carries.wait(shared.carries_barrier, k);
        Wide carry[1] = {segments.enter(through, shared.carries[warp])};
        if (!is_finite(carry[0])) [[unlikely]] {
            carry[0] = carry_again(k, at, carry[0]);
            read_all();  // so that the tile need not be kept in registers meanwhile
        }
        // Other warps may still read the steps that this one's results take the place of.
        if (p.in_place != 0) {
            __syncwarp();
            ptx::named_barrier<1, 32 * Config::warps>();
        }
        Walker::complete(p, at, gate);
        if constexpr (Backward)
            walk.template backward<Kind::plain>(gate, source, carry, carry, Before{at, states, edge},
                                                [&](int i, const Wide(&values)[1]) { gate.set(i, values); });
        else
            walk.template forward<Kind::plain>(gate, source, carry);
        write(source, at, source_of(here));
        if (gate_wanted()) write(gate, at, here);
        store(at, slot);
        uint32_t turn;
        const uint32_t row = carries.row_of(k, turn);
        if (p.edge_out != nullptr && turn + 1 == p.chunks && warp == Config::warps - 1 && segments.is_last())
            static_cast<Wide*>(p.edge_out)[row] = carry[0];
    }

    __device__ __forceinline__ void begin() const {
        if (lane != 0) return;
        for (int i = 0; i < w.ring; ++i) ptx::make_byte_barrier(barriers + 8 * i);
        for (int i = 0; i < w.ring - 1; ++i) load(i, i);
    }
    __device__ __forceinline__ void run() const {
        const uint32_t stages = static_cast<uint32_t>(w.ring), count = carries.count();
        Map through[ahead + 1][1];
        uint32_t slot = 0, parity = 0, walked = 0, last = stages - 1;
        for (uint32_t k = 0; k < count + ahead; ++k) {
#pragma unroll
            for (int i = 0; i < ahead; ++i) through[i][0] = through[i + 1][0];
            if (k < count) summarize(k, slot, parity, through[ahead]);
            if (++slot == stages) {
                slot = 0;
                parity ^= 1;
            }
            if (k < ahead) continue;
            if (lane == 0) ptx::wait_for_stores_to_read<0>();
            load(k - ahead + stages - 1, last);
            walk(k - ahead, walked, through[0][0]);
            last = walked;
            if (++walked == stages) walked = 0;
        }
        if (lane == 0) ptx::wait_for_stores_to_read<0>();
    }
};

template <typename X, bool Down, bool Backward>
__global__ void __launch_bounds__(RowConfig<X, Backward>::threads, 1)
    linear_few_long_rows_time(const __grid_constant__ LinearParams p, const __grid_constant__ FewLongRowsParams w) {
// Older devices have no bulk copy engine; the host does not launch this kernel there.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    using Config = RowConfig<X, Backward>;
    using Carries = typename Config::Carries;
    __shared__ typename Carries::Shared shared;
    __shared__ uint64_t barriers[Config::warps * most_stages];
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const Carries carries{p, w, shared};
    const RowWarp<X, Down, Backward> walker{p,
                                            w,
                                            carries,
                                            static_cast<int>(threadIdx.x) & 31,
                                            warp,
                                            shared_memory() + warp * w.ring * Config::stage_bytes,
                                            ptx::shared_address(barriers + warp * most_stages)};
    if (warp < Config::warps) walker.begin();
    if (threadIdx.x == Config::threads - 1) carries.make_barriers();
    __syncthreads();
    if (warp < Config::warps)
        walker.run();
    else if (warp == Config::warps)
        carries.publish();
    else if (warp == Config::warps + 1)
        carries.receive();
    else if (blockIdx.x == 0)
        carries.template reduce<Down, Backward>(Config::chunk_steps);
#endif
}

}  // namespace flashscan::cuda
