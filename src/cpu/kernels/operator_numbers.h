// SPDX-License-Identifier: Apache-2.0
// Scans and reductions by associative operators on numbers, y[t] = y[t-1] o x[t]: the walk over tiles, whose arithmetic
// is in operator_number_steps.h.
//
// One thread owns a block of lanes (chains that lie side by side, at most 256) and walks it in tiles of 16 KB. A tile
// is [steps][lanes] where lanes are adjacent in memory. Where steps are, it is [lanes][steps], and one lane of the
// block is walked after the other; operators of many instructions transpose it to the first form if there are lanes
// enough.
//
// Forward computes a tile where it lies in memory, if its lanes are whole vectors. Otherwise, and in backward, tiles
// are copied to panels, which hold numbers of the arithmetic, and back. Both give the same bits.
//
// Forward stores nothing for backward. In backward `mark` walks forward and stores the carry before each tile; then
// `backward` goes from the last tile to the first, computes y[t-1] again, and walks g = dy + c, dx = right_slope g,
// c' = left_slope g. Along consecutive steps that is the scan of affine maps of linear_row_steps.h. For each number
// forward moves a read and a write, and backward three reads and a write. Complex numbers are computed one by one.
#pragma once

#include "cpu/kernels/operator.h"
#include "cpu/kernels/operator_indices.h"
#include "cpu/kernels/operator_number_steps.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
inline constexpr int64_t tile_numbers = 16384 / static_cast<int64_t>(sizeof(T));

// The panels of a block and the walk over its tiles.
template <typename Op, typename T, bool IsComplex>
class NumbersWalk {
  public:
    using Pack = std::conditional_t<IsComplex, ComplexPack<T>, RealPack<T>>;
    static constexpr int parts = IsComplex ? 2 : 1;
    static constexpr bool is_long = IsLong<Op> && !IsComplex;
    static constexpr int64_t room = tile_numbers<T> / parts;  // elements of a panel

    static NumbersTiling tiling(int64_t channels, int64_t steps, bool rows) {
        const auto at_most = [](int64_t a, int64_t b) { return a < b ? a : b; };
        const int64_t most = at_most(channels > 0 ? channels : 1, numbers_lanes);
        if (!rows) return {most, tile_numbers<T> / pitch_of(most), false, false};
        if (is_long && 2 * most >= Pack::numbers) {
            const int64_t lanes = at_most(most, 4 * Pack::numbers);
            return {lanes, tile_numbers<T> / pitch_of(lanes), true, true};
        }
        return {steps < room ? at_most(most, room / (steps > 0 ? steps : 1)) : 1, room, true, false};
    }

    struct Work {
        alignas(64) T x[tile_numbers<T>], before[tile_numbers<T>], dy[tile_numbers<T>], turned[tile_numbers<T>];
        alignas(64) T carry[2 * numbers_lanes], gradient[2 * numbers_lanes], product[2 * numbers_lanes];
    };

    NumbersWalk(const NumbersCall& call, const OperatorPiece& piece, char* work)
        : p_(call),
          q_(piece),
          w_(*reinterpret_cast<Work*>(work)),
          lanes_in_vectors_(!p_.tiling.rows || p_.tiling.turned),
          pitch_(lanes_in_vectors_ ? pitch_of(piece.lanes) : parts) {
        if (pitch_ == piece.lanes * parts || !lanes_in_vectors_) return;
        // The last vector has lanes that do not exist, which hold 0 at first.
        for (T* numbers : {w_.x, w_.before, w_.dy})
            for (int64_t i = 0; i < tile_numbers<T>; ++i) numbers[i] = 0;
        for (T* numbers : {w_.carry, w_.gradient, w_.product})
            for (int64_t i = 0; i < 2 * numbers_lanes; ++i) numbers[i] = 0;
    }

    template <bool Write>
    void forward(char* carry, char* marks) {
        read(w_.carry, carry, 0, q_.lanes);
        for_tiles(false, [&](const Region& r) {
            if (marks != nullptr) save(w_.carry, marks + mark(r), r.lane, r.lanes);
            if (forward_in_place<Write>(r)) return;
            get(r, p_.x, w_.x);
            run_forward<Write>(r, p_.exclusive, w_.x);
            if (Write) put(r, w_.x);
        });
        save(w_.carry, carry, 0, q_.lanes);
        if (p_.stream_stores) stream_fence();
    }

    void backward(const char* marks, char* gradient, char* product) {
        read(w_.gradient, gradient, 0, q_.lanes);
        if (product != nullptr)
            read(w_.product, product, 0, q_.lanes);
        else
            for (int64_t i = 0; i < 2 * numbers_lanes; ++i) w_.product[i] = 0;
        for_tiles(true, [&](const Region& r) {
            read(w_.carry, marks + mark(r), r.lane, r.lanes);
            if (p_.x != nullptr) get(r, p_.x, w_.x);
            if (p_.dy != nullptr)
                get(r, p_.dy, w_.dy);
            else
                for (int64_t i = 0; i < tile_numbers<T>; ++i) w_.dy[i] = 0;
            if (p_.x != nullptr) run_forward<true>(r, true, w_.before);
            run_backward(r);
            if (p_.y != nullptr) put(r, w_.dy);
        });
        save(w_.gradient, gradient, 0, q_.lanes);
        if (product != nullptr) save(w_.product, product, 0, q_.lanes);
        if (p_.stream_stores) stream_fence();
    }

  private:
    // Lanes [lane, lane + lanes) of the block and steps [first, first + steps) of the piece: a tile.
    struct Region {
        int64_t lane, lanes, first, steps;
    };

    static int64_t pitch_of(int64_t lanes) {
        return (lanes * parts + Pack::numbers - 1) / Pack::numbers * Pack::numbers;
    }

    // Rows that are not turned go one after the other, and short ones as many at once as a panel has room for.
    template <typename Use>
    void for_tiles(bool backward, Use use) {
        const int64_t most = p_.tiling.steps, steps = q_.steps < most ? q_.steps : most;
        const int64_t together = lanes_in_vectors_ ? q_.lanes : room / (steps > 0 ? steps : 1);
        const int64_t tiles = (q_.steps + most - 1) / most;
        for (int64_t lane = 0; lane < q_.lanes; lane += together)
            for (int64_t i = 0; i < tiles; ++i) {
                const int64_t first = (backward ? tiles - 1 - i : i) * most;
                use(Region{lane, together < q_.lanes - lane ? together : q_.lanes - lane, first,
                           most < q_.steps - first ? most : q_.steps - first});
            }
    }

    static constexpr int64_t lane_bytes = parts * static_cast<int64_t>(sizeof(T));
    // The place of the carries before a tile in `marks`.
    int64_t mark(const Region& r) const { return (r.first / p_.tiling.steps * q_.lanes + r.lane) * lane_bytes; }
    // The numbers of some lanes, of which a block has an array `all`.
    static void read(T* all, const char* from, int64_t lane, int64_t lanes) {
        __builtin_memcpy(all + lane * parts, from, static_cast<size_t>(lanes * lane_bytes));
    }
    static void save(const T* all, char* to, int64_t lane, int64_t lanes) {
        __builtin_memcpy(to, all + lane * parts, static_cast<size_t>(lanes * lane_bytes));
    }

    // Returns the offset of the tile's lowest time in the tensors, in bytes.
    int64_t place(const Region& r) const {
        const int64_t time = p_.ascending ? q_.begin + q_.first + r.first : q_.end - q_.first - r.first - r.steps;
        return (q_.base + time * p_.time_stride + r.lane * p_.lane_stride) * parts * bytes_of(p_.number);
    }
    Rectangle rectangle(const Region& r) const {
        if (!p_.tiling.rows) return {r.steps, p_.time_stride * parts, r.lanes, p_.lane_stride * parts, parts};
        if (p_.lane_stride == r.steps) return {1, 0, r.lanes * r.steps, parts, parts};
        return {r.lanes, p_.lane_stride * parts, r.steps, parts, parts};
    }
    void get(const Region& r, const char* from, T* panel) {
        if (!p_.tiling.rows) return load_panel(panel, pitch_, p_.number, from + place(r), rectangle(r));
        T* const rows = p_.tiling.turned ? w_.turned : panel;
        load_panel(rows, r.steps * parts, p_.number, from + place(r), rectangle(r));
        if (p_.tiling.turned) turn(rows, r.steps, r.lanes, r.steps, panel, pitch_);
    }
    void put(const Region& r, const T* panel) {
        if (p_.tiling.turned) turn(panel, pitch_, r.steps, r.lanes, w_.turned, r.steps);
        store_panel(p_.tiling.turned ? w_.turned : panel, p_.tiling.rows ? r.steps * parts : pitch_, p_.number,
                    p_.y + place(r), rectangle(r), p_.stream_stores);
    }

    // Calls use(offset, lane) with the place of a tile in the panels and its first lane: once for all lanes of a
    // region, or for one lane after the other.
    template <typename Use>
    void for_lanes(const Region& r, int64_t lane_stride, Use use) {
        if (lanes_in_vectors_) return use(0, 0);
        for (int64_t i = 0; i < r.lanes; ++i) use(i * lane_stride * parts, r.lane + i);
    }
    bool starts(const Region& r) const { return q_.start && r.first == 0; }

    template <bool Mirror, bool Write, typename Form>
    void one_forward(const ForwardTile<Form>& t, T* carry) {
        if (IsComplex || lanes_in_vectors_) return lanes_forward<Op, Pack, Mirror, Write>(t, carry);
        if constexpr (!IsComplex) {
            const auto walk = [&] {
                if constexpr (is_long && std::is_same_v<Form, OwnForm<T>>)
                    segments_forward<Op, Mirror, Write>(t, carry, w_.turned);
                else
                    steps_forward<Op, Mirror, Write>(t, carry);
            };
            t.start ? from_nothing<Op, Mirror, Write>(t, carry, walk) : walk();
        }
    }
    template <bool Write, typename Form>
    void forward_lanes(const Region& r, int64_t lane_stride, const ForwardTile<Form>& first) {
        for_lanes(r, lane_stride, [&](int64_t offset, int64_t lane) {
            ForwardTile<Form> t = first;
            t.x += offset;
            if (Write) t.y += offset;
            T* const carry = w_.carry + lane * parts;
            p_.ascending ? one_forward<false, Write>(t, carry) : one_forward<true, Write>(t, carry);
        });
    }
    template <bool Write>
    void run_forward(const Region& r, bool exclusive, T* to) {
        forward_lanes<Write>(
            r, r.steps, ForwardTile<OwnForm<T>>{w_.x, to, r.steps, pitch_, pitch_, 0, starts(r), exclusive, false});
    }
    // Computes a tile where it lies, if it can; false otherwise. Stores past the caches have to be aligned there; those
    // from panels go to any address.
    template <bool Write>
    bool forward_in_place(const Region& r) {
        if (p_.tiling.rows ? is_long : pitch_ != q_.lanes * parts) return false;
        bool done = false;
        with_number<T>(p_.number, [&](auto form) {
            if constexpr (!IsComplex || std::is_same_v<decltype(form), OwnForm<T>>)
                done = forward_in_form<Write, decltype(form)>(r);
        });
        return done;
    }
    template <bool Write, typename Form>
    bool forward_in_form(const Region& r) {
        using Memory = typename Form::Type;
        constexpr int64_t size = sizeof(Memory), vector = size * Simd<T>::width;
        const bool rows = p_.tiling.rows;
        ForwardTile<Form> t{};
        t.x = reinterpret_cast<const Memory*>(p_.x + place(r));
        t.y = Write ? reinterpret_cast<Memory*>(p_.y + place(r)) : nullptr;
        t.steps = r.steps;
        t.pitch = rows ? parts : p_.time_stride * parts;
        t.numbers = rows ? parts : pitch_;
        t.ahead = (rows ? 2048 / size : (1 + 4096 / (pitch_ * size)) * t.pitch) * (p_.ascending ? 1 : -1);
        t.start = starts(r);
        t.exclusive = p_.exclusive;
        t.streamed = Write && p_.stream_stores;
        const int64_t stride = (rows ? p_.lane_stride * parts : t.pitch) * size;
        // Where the first vector begins, or ends where time descends.
        const uintptr_t edge = reinterpret_cast<uintptr_t>(t.y) + uintptr_t(rows && !p_.ascending ? r.steps * size : 0);
        if (t.streamed && (IsComplex || (rows && t.start && t.exclusive) || edge % vector != 0 || stride % vector != 0))
            return false;
        forward_lanes<Write>(r, p_.lane_stride, t);
        return true;
    }

    template <bool Mirror>
    void one_backward(const BackwardTile<T>& t, T* gradient, T* product) {
        if (IsComplex || lanes_in_vectors_) return lanes_backward<Op, Pack, Mirror>(t, gradient, product);
        if constexpr (!IsComplex) steps_backward<Op, !Mirror>(t, gradient, product);
    }
    void run_backward(const Region& r) {
        for_lanes(r, r.steps, [&](int64_t offset, int64_t lane) {
            const BackwardTile<T> t{w_.x + offset, w_.before + offset, w_.dy + offset, r.steps,
                                    pitch_,        starts(r),          p_.exclusive};
            T *const gradient = w_.gradient + lane * parts, *const product = w_.product + lane * parts;
            p_.ascending ? one_backward<false>(t, gradient, product) : one_backward<true>(t, gradient, product);
        });
    }

    const NumbersCall& p_;
    const OperatorPiece& q_;
    Work& w_;
    bool lanes_in_vectors_;
    int64_t pitch_;
};

template <typename Op, typename T, bool IsComplex>
NumbersKernels numbers_of() {
    using Walk = NumbersWalk<Op, T, IsComplex>;
    NumbersKernels k{};
    k.vector_bytes = vector_bytes;
    k.tiling = Walk::tiling;
    k.work_bytes = sizeof(typename Walk::Work);
    k.fold = [](const NumbersCall& c, const OperatorPiece& p, char* carry, char* work) {
        Walk(c, p, work).template forward<false>(carry, nullptr);
    };
    k.scan = [](const NumbersCall& c, const OperatorPiece& p, char* carry, char* work) {
        Walk(c, p, work).template forward<true>(carry, nullptr);
    };
    k.join = [](int64_t numbers, const char* carry, const char* total, char* next) {
        using One = std::conditional_t<IsComplex, Complex<T>, T>;
        const auto *l = reinterpret_cast<const One*>(carry), *r = reinterpret_cast<const One*>(total);
        for (int64_t i = 0; i < numbers / Walk::parts; ++i) reinterpret_cast<One*>(next)[i] = Op::combine(l[i], r[i]);
    };
    if constexpr (requires { Op::chooses; } && !IsComplex)
        k.indices = [](const NumbersCall& c, const OperatorPiece& p, const char* state, int64_t* index, int64_t* last) {
            Indices<Op, T>(c, p, index).find(state, last);
        };
    if constexpr (!is_integer<T>) {
        k.mark = [](const NumbersCall& c, const OperatorPiece& p, char* carry, char* marks, char* work) {
            Walk(c, p, work).template forward<false>(carry, marks);
        };
        k.backward = [](const NumbersCall& c, const OperatorPiece& p, const char* marks, char* gradient, char* product,
                        char* work) { Walk(c, p, work).backward(marks, gradient, product); };
        k.join_backward = [](int64_t numbers, const char* product, const char* local, char* gradient) {
            using One = std::conditional_t<IsComplex, Complex<T>, T>;
            const auto *p = reinterpret_cast<const One*>(product), *c = reinterpret_cast<const One*>(local);
            auto* g = reinterpret_cast<One*>(gradient);
            for (int64_t i = 0; i < numbers / Walk::parts; ++i) g[i] = c[i] + p[i] * g[i];
        };
    }
    return k;
}

// The pointers are null where the operator `kind` has no formula for numbers of type T.
template <typename T>
NumbersKernels numbers_of_kind(int32_t kind) {
    NumbersKernels kernels{};
    combine::with_operator<T>(kind, [&](auto op) { kernels = numbers_of<decltype(op), T, false>(); });
    return kernels;
}
template <typename T>
NumbersKernels complex_numbers_of_kind(int32_t kind) {
    NumbersKernels kernels{};
    combine::with_operator<Complex<T>>(kind, [&](auto op) { kernels = numbers_of<decltype(op), T, true>(); });
    return kernels;
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
