// SPDX-License-Identifier: Apache-2.0
// Scans and reductions by associative operators on numbers: y[t] = y[t-1] o x[t].
//
// One thread owns a block of lanes (chains that lie side by side, at most 256) and walks it in tiles of 16 KB. A tile
// is one of
//
//     [steps][lanes]   where lanes are adjacent in memory: the lanes of a vector are lanes of the block
//     [lanes][steps]   where steps are adjacent: one lane of the block is walked after the other, and the lanes of a
//                      vector are consecutive steps. log2(W) combinations with shifted vectors, filled with the
//                      identity, scan a vector, and then the carry is combined with it:
//
//                          v = shift(v, k) o v   k = 1, 2, 4 ..        y = carry o v
//
// Forward computes a tile where it lies in memory, if its lanes are whole vectors. Otherwise, and in backward, tiles
// are copied to panels, which hold numbers of the arithmetic, and back. Both give the same bits.
//
// Operators of many instructions take too long to be combined so often. If there are lanes enough, their panels are
// transposed to the first form. Otherwise a lane is cut into segments, which are transposed so that they become lanes:
// the totals of the segments are scanned as above, and then each segment is walked from its carry, which makes two
// combinations a number.
//
// Forward stores nothing for backward. In backward `mark` walks forward and stores the carry before each tile; then
// `backward` goes from the last tile to the first, computes y[t-1] again, and walks g = dy + c, dx = right_slope g,
// c' = left_slope g. Along consecutive steps that is the scan of affine maps of linear_row_steps.h. For each number
// forward moves a read and a write, and backward three reads and a write. Complex numbers are computed one by one.
#pragma once

#include "cpu/kernels/lanes.h"
#include "cpu/kernels/linear_rows.h"
#include "cpu/kernels/operator.h"
#include "cpu/kernels/operator_indices.h"
#include "math/operators.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

template <typename T>
inline constexpr int64_t tile_numbers = 16384 / static_cast<int64_t>(sizeof(T));

template <typename T>
using LanesOf = std::conditional_t<is_integer<T>, Integers<T>, Lanes<T>>;

// The form that numbers of the arithmetic have in panels.
template <typename T>
using OwnForm = std::conditional_t<is_integer<T>, AsInteger<T>, std::conditional_t<sizeof(T) == 8, AsF64, AsF32>>;

// RealPack and ComplexPack say what the walk over lanes computes with at once: a vector of reals, or one complex
// number. `streamed` stores go past the caches.
template <typename T>
struct RealPack {
    using Type = LanesOf<T>;
    static constexpr int64_t numbers = Simd<T>::width;
    template <typename Number>
    static FLASHSCAN_INLINE Type get(const Number* p) {
        return Type(widen(p));
    }
    template <typename Number>
    static FLASHSCAN_INLINE void put(Number* p, Type v, bool streamed = false) {
        streamed ? narrow_streamed(p, v.v) : narrow(p, v.v);
    }
    static FLASHSCAN_INLINE Type of(T x) { return Type(x); }
};
template <typename T>
struct ComplexPack {
    using Type = Complex<T>;
    static constexpr int64_t numbers = 2;
    static FLASHSCAN_INLINE Type get(const T* p) { return {p[0], p[1]}; }
    static FLASHSCAN_INLINE void put(T* p, Type v, bool = false) { p[0] = v.re, p[1] = v.im; }
    static FLASHSCAN_INLINE Type of(T x) { return {x, T(0)}; }
};

// What forward of a tile reads (x) and writes (y), in memory or in a panel: `steps` steps, lowest time first. A step
// has `numbers` adjacent numbers, and begins `pitch` numbers after the step before it. x is prefetched `ahead` numbers
// further on. `start` says that nothing comes before the tile, and `streamed` that y is stored past the caches.
template <typename Form>
struct ForwardTile {
    using Type = typename Form::Type;
    const Type* x;
    Type* y;
    int64_t steps, pitch, numbers, ahead;
    bool start, exclusive, streamed;
};

// A tile of backward in panels of steps x pitch numbers, lowest time first.
template <typename T>
struct BackwardTile {
    T *x, *before, *dy;  // dy is overwritten by dx
    int64_t steps, pitch;
    bool start, exclusive;
};

// Forward of a tile of several lanes. Replaces `carry`, which has a number for each of a step, and with Write writes y.
// Lanes are the inner loop, so that the dependent operations of many chains overlap.
template <typename Op, typename Pack, bool Mirror, bool Write, typename Form, typename T>
void lanes_forward(const ForwardTile<Form>& t, T* carry) {
    int64_t s = 0;
    if (t.start) {
        const int64_t at = Mirror ? (t.steps - 1) * t.pitch : 0;
        for (int64_t v = 0; v < t.numbers; v += Pack::numbers) {
            const auto x = Pack::get(t.x + at + v);
            if constexpr (Write) Pack::put(t.y + at + v, t.exclusive ? Pack::of(Op::template identity<T>()) : x);
            Pack::put(carry + v, x);
        }
        s = 1;
    }
    for (; s < t.steps; ++s) {
        const int64_t at = (Mirror ? t.steps - 1 - s : s) * t.pitch;
        for (int64_t v = 0; v < t.numbers; v += Pack::numbers) {
            prefetch(t.x + at + v + t.ahead);
            const auto before = Pack::get(carry + v), c = Op::combine(before, Pack::get(t.x + at + v));
            if constexpr (Write) Pack::put(t.y + at + v, t.exclusive ? before : c, t.streamed);
            Pack::put(carry + v, c);
        }
    }
}

// Backward of a tile of several lanes. Reads y[t-1] from t.before; dx replaces dy.
template <typename Op, typename Pack, bool Mirror, typename T>
void lanes_backward(const BackwardTile<T>& t, T* gradient, T* product) {
    for (int64_t s = t.steps - 1; s >= 0; --s) {
        const int64_t at = (Mirror ? t.steps - 1 - s : s) * t.pitch;
        const bool alone = s == 0 && t.start;
        for (int64_t v = 0; v < t.pitch; v += Pack::numbers) {
            const auto l = Pack::get(t.before + at + v), x = Pack::get(t.x + at + v), dy = Pack::get(t.dy + at + v);
            auto g = Pack::get(gradient + v);
            if (!t.exclusive) g = g + dy;
            Pack::put(t.dy + at + v, alone ? g : Op::right_slope(l, x) * g);
            const auto slope = Op::left_slope(l, x);
            g = slope * g;
            if (t.exclusive) g = g + dy;
            Pack::put(gradient + v, g);
            Pack::put(product + v, slope * Pack::get(product + v));
        }
    }
}

template <typename Op>
concept IsLong = requires {
    Op::is_long;
};

// The identity as carry: -0 is used for 0, so that adding it keeps the sign of a zero.
template <typename Op, typename T>
FLASHSCAN_INLINE T nothing() {
    constexpr T identity = Op::template identity<T>();
    return identity == 0 ? T(-0.0) : identity;
}

template <typename Op, bool Mirror, typename T>
FLASHSCAN_INLINE LanesOf<T> scan_steps(LanesOf<T> v) {
    constexpr int width = Simd<T>::width;
    const Vec<T> none = splat<T>(nothing<Op, T>());
    using L = LanesOf<T>;
    v = Op::combine(L(shift<1, Mirror, T>(v.v, none)), v);
    if constexpr (width > 2) v = Op::combine(L(shift<2, Mirror, T>(v.v, none)), v);
    if constexpr (width > 4) v = Op::combine(L(shift<4, Mirror, T>(v.v, none)), v);
    if constexpr (width > 8) v = Op::combine(L(shift<8, Mirror, T>(v.v, none)), v);
    if constexpr (width > 16) v = Op::combine(L(shift<16, Mirror, T>(v.v, none)), v);
    if constexpr (width > 32) v = Op::combine(L(shift<32, Mirror, T>(v.v, none)), v);
    return v;
}

// Computes a tile of one lane before which there is nothing: calls walk() with the identity as carry. What depends on
// the first number alone is then right but for the sign of a zero, and is written again where that may differ: in
// exclusive scans, which begin with 0 and not -0, and for operators of many instructions, whose identity does not keep
// -0. Writing it again after a store past the caches would take long.
template <typename Op, bool Mirror, bool Write, typename Form, typename T, typename Walk>
FLASHSCAN_INLINE void from_nothing(const ForwardTile<Form>& t, T* carry, Walk walk) {
    const int64_t first = Mirror ? t.steps - 1 : 0;
    const auto x = t.x[first];
    *carry = nothing<Op, T>();
    walk();
    if (IsLong<Op> && t.steps == 1) *carry = Form::get(x);
    if constexpr (Write) {
        if (t.exclusive || IsLong<Op>) t.y[first] = t.exclusive ? Form::put(Op::template identity<T>()) : x;
        if (t.exclusive && IsLong<Op> && t.steps > 1) t.y[first + (Mirror ? -1 : 1)] = x;
    }
}

// Forward of a tile of one lane from the carry, by vectors of consecutive steps. Replaces the carry.
template <typename Op, bool Mirror, bool Write, typename Form, typename T>
FLASHSCAN_INLINE void steps_forward(const ForwardTile<Form>& t, T* carry_at) {
    using L = LanesOf<T>;
    constexpr int width = Simd<T>::width, last = Mirror ? 0 : width - 1;
    Vec<T> c = splat<T>(*carry_at);
    int64_t i = 0;
    for (; i + width <= t.steps; i += width) {
        const int64_t j = Mirror ? t.steps - width - i : i;
        prefetch(t.x + j + t.ahead);
        const L y = Op::combine(L(c), scan_steps<Op, Mirror, T>(L(widen(t.x + j))));
        if constexpr (Write) RealPack<T>::put(t.y + j, t.exclusive ? L(shift<1, Mirror, T>(y.v, c)) : y, t.streamed);
        c = pick<last, T>(y.v);
    }
    T carry = c[0];
    for (; i < t.steps; ++i) {
        const int64_t j = Mirror ? t.steps - 1 - i : i;
        const T before = carry;
        carry = Op::combine(carry, Form::get(t.x[j]));
        if constexpr (Write) t.y[j] = Form::put(t.exclusive ? before : carry);
    }
    *carry_at = carry;
}

// Transposes [rows][columns], whose rows are from_pitch apart, to [columns][rows], whose rows are to_pitch apart.
template <typename T>
void turn(const T* from, int64_t from_pitch, int64_t rows, int64_t columns, T* to, int64_t to_pitch) {
    constexpr int64_t width = Simd<T>::width;
    for (int64_t r = 0; r < rows; r += width)
        for (int64_t c = 0; c < columns; c += width) {
            if constexpr (width <= 16)
                if (r + width <= rows && c + width <= columns) {
                    Vec<T> square[size_t{width}];
#pragma GCC unroll 16
                    for (int i = 0; i < width; ++i) square[i] = load(from + (r + i) * from_pitch + c);
                    transpose<T>(square);
#pragma GCC unroll 16
                    for (int i = 0; i < width; ++i) store<T>(to + (c + i) * to_pitch + r, square[i]);
                    continue;
                }
            for (int64_t i = r; i < r + width && i < rows; ++i)
                for (int64_t k = c; k < c + width && k < columns; ++k) to[k * to_pitch + i] = from[i * from_pitch + k];
        }
}

// Forward of a tile of one lane from the carry, by segments that become lanes. `turned` has room for a tile.
template <typename Op, bool Mirror, bool Write, typename Form, typename T>
void segments_forward(const ForwardTile<Form>& t, T* carry, T* turned) {
    constexpr int64_t width = Simd<T>::width;
    ForwardTile<Form> rest = t;
    // Segments have a multiple of `width` steps, so that whole squares are transposed.
    for (int64_t lanes = 8 * width; lanes >= width; lanes /= 2) {
        const int64_t steps = rest.steps / lanes / width * width;
        if (steps == 0) continue;
        rest.steps -= lanes * steps;
        const int64_t at = Mirror ? rest.steps : 0;
        turn(rest.x + at, steps, lanes, steps, turned, lanes);
        alignas(64) T carries[size_t(8 * width)];
        ForwardTile<Form> totals{carries, carries, lanes, 1, 1, 0, false, true, false};
        ForwardTile<Form> segments{turned, turned, steps, lanes, lanes, 0, true, t.exclusive, false};
        lanes_forward<Op, RealPack<T>, Mirror, false>(segments, carries);
        steps_forward<Op, Mirror, true>(totals, carry);
        segments.start = false;
        // The carry has the bits of the last output, which the last segments alone give.
        const int64_t first = Write || Mirror ? 0 : lanes - width;
        if (!Write) segments.x += first, segments.numbers = width;
        lanes_forward<Op, RealPack<T>, Mirror, Write>(segments, carries + first);
        *carry = carries[Mirror ? 0 : lanes - 1];
        if constexpr (Write) turn(turned, lanes, steps, lanes, rest.y + at, steps);
        if (!Mirror) rest.x += lanes * steps;
        if (!Mirror && Write) rest.y += lanes * steps;
    }
    steps_forward<Op, Mirror, Write>(rest, carry);
}

// Backward of the one step at place j of the panels. g is the gradient and p the product of the left slopes. `alone`
// says that nothing comes before the step.
template <typename Op, typename T>
FLASHSCAN_INLINE void step_backward(const BackwardTile<T>& t, int64_t j, bool alone, T& g, T& p) {
    const T l = t.before[j], x = t.x[j], dy = t.dy[j];
    if (!t.exclusive) g += dy;
    t.dy[j] = alone ? g : Op::right_slope(l, x) * g;
    const T slope = Op::left_slope(l, x);
    g *= slope;
    p *= slope;
    if (t.exclusive) g += dy;
}

// Backward of a tile of one lane. Steps i are counted in the order of backward, and Mirror says that this order
// descends.
template <typename Op, bool Mirror, typename T>
void steps_backward(const BackwardTile<T>& t, T* gradient, T* product) {
    constexpr int width = Simd<T>::width, last = Mirror ? 0 : width - 1;
    T g = *gradient, p = *product;
    const int64_t whole = t.start ? t.steps - 1 : t.steps;
    int64_t i = 0;
    for (; i + width <= whole; i += width) {
        const int64_t j = Mirror ? t.steps - width - i : i;
        const Lanes<T> l(load(t.before + j)), x(load(t.x + j));
        const Vec<T> dy = load(t.dy + j), slope = Op::left_slope(l, x).v, carry = splat<T>(g);
        Vec<T> c = t.exclusive ? dy : slope * dy, q = slope;
        flashscan::cpu::FLASHSCAN_ISA::scan<T, Mirror>(c, q);
        c = fused(q, carry, c);
        const Vec<T> into = shift<1, Mirror, T>(c, carry);
        if (any_special(c)) [[unlikely]] {
            for (int64_t k = i; k < i + width; ++k) step_backward<Op>(t, Mirror ? t.steps - 1 - k : k, false, g, p);
            continue;
        }
        store<T>(t.dy + j, Op::right_slope(l, x).v * (t.exclusive ? into : dy + into));
        g = c[last];
        p *= q[last];
    }
    for (; i < t.steps; ++i) step_backward<Op>(t, Mirror ? t.steps - 1 - i : i, t.start && i == t.steps - 1, g, p);
    *gradient = g;
    *product = p;
}

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
        k.indices = [](const IndexCall& c, const OperatorPiece& p, const char* state, int64_t* last) {
            Indices<Op, T>(c, p).find(state, last);
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
