// SPDX-License-Identifier: Apache-2.0
// INDEX of running minima and maxima: the step that each y comes from, -1 where that is none of INPUT. This is a walk
// over INPUT of its own, beside that of operator_numbers.h, which keeps the number and the step that was chosen last.
//
// Where lanes are adjacent in memory, those of a vector are lanes of the block. Where steps are, they are consecutive
// steps, of which log2(W) comparisons with shifted vectors find the chosen one before the carry is compared.
#pragma once

#include "cpu/kernels/lanes.h"
#include "cpu/kernels/linear_rows.h"
#include "cpu/kernels/operator.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// Op is a minimum or a maximum of numbers of type T. Vectors of bytes are compared as vectors of i32.
template <typename Op, typename T>
class Indices {
    using W = std::conditional_t<sizeof(T) == 1, int32_t, T>;
    using L = std::conditional_t<is_integer<W>, Integers<W>, Lanes<W>>;
    using Int = typename Simd<W>::Int;  // of as many bits: a mask, or places within a vector
    using Place = std::conditional_t<sizeof(W) == 8, int64_t, int32_t>;
    static constexpr int64_t width = Simd<W>::width;
    static constexpr int64_t panel_steps = 512;

  public:
    Indices(const NumbersCall& call, const OperatorPiece& piece, int64_t* index) : p_(call), q_(piece), index_(index) {}

    void find(const char* state, int64_t* last) {
        for (int64_t l = 0; l < q_.lanes; ++l) {
            T y = 0;
            if (!q_.start) __builtin_memcpy(&y, state + l * static_cast<int64_t>(sizeof(T)), sizeof y);
            y_[l] = static_cast<W>(y);
            found_[l] = -1;
        }
        with_number<T>(p_.number, [&](auto form) {
            if (!p_.tiling.rows) return lanes<decltype(form)>();
            for (int64_t l = 0; l < q_.lanes; ++l)
                p_.ascending ? steps<false, decltype(form)>(l) : steps<true, decltype(form)>(l);
        });
        for (int64_t l = 0; last != nullptr && l < q_.lanes; ++l) last[l] = found_[l];
        if (p_.stream_stores) stream_fence();
    }

  private:
    template <typename Form>
    static FLASHSCAN_INLINE Vec<W> get(const typename Form::Type* p) {
        if constexpr (sizeof(T) == 1) {
            typedef T Bytes __attribute__((vector_size(width)));
            Bytes bytes;
            __builtin_memcpy(&bytes, p, sizeof bytes);
            return __builtin_convertvector(bytes, Vec<W>);
        } else {
            return widen(p);
        }
    }
    static FLASHSCAN_INLINE Int takes_right(Vec<W> l, Vec<W> r) { return Op::right_slope(L(l), L(r)).v != W(0); }

    template <typename Form>
    const typename Form::Type* input(int64_t time, int64_t lane) const {
        return reinterpret_cast<const typename Form::Type*>(p_.x) + place(time, lane);
    }
    int64_t place(int64_t time, int64_t lane) const { return q_.base + time * p_.time_stride + lane * p_.lane_stride; }
    // Writes indices of `n` adjacent elements, the first of them at `at`.
    void put(int64_t at, const int64_t* from, int64_t n) const {
        if (index_ != nullptr) narrow_row(AsInteger<int64_t>{}, index_ + at, from, n, p_.stream_stores);
    }

    template <typename Form>
    void lanes() {
        typedef int64_t Halves __attribute__((vector_size(width * 8)));
        const int64_t ahead = (p_.ascending ? 1 : -1) * (1 + 4096 / (q_.lanes * bytes_of(p_.number))) * p_.time_stride;
        for (int64_t i = 0; i < q_.steps; ++i) {
            const int64_t t = p_.ascending ? q_.begin + i : q_.end - 1 - i;
            const auto* const x = input<Form>(t, 0);
            const bool first = q_.start && i == 0;
            if (p_.exclusive) put(place(t, 0), found_, q_.lanes);
            int64_t l = 0;
            for (; l + width <= q_.lanes; l += width) {
                prefetch(x + l + ahead);
                const Vec<W> now = get<Form>(x + l), y = load(y_ + l);
                const Int taken = first ? Int{} - 1 : takes_right(y, now);
                store<W>(y_ + l, taken ? now : y);
                Halves found;
                __builtin_memcpy(&found, found_ + l, sizeof found);
                found = __builtin_convertvector(taken, Halves) != 0 ? t - Halves{} : found;
                __builtin_memcpy(found_ + l, &found, sizeof found);
            }
            for (; l < q_.lanes; ++l) step(first, static_cast<W>(Form::get(x[l])), t, y_[l], found_[l]);
            if (!p_.exclusive) put(place(t, 0), found_, q_.lanes);
        }
    }

    static FLASHSCAN_INLINE void step(bool first, W x, int64_t t, W& y, int64_t& found) {
        if (!first && !Op::takes_right(y, x)) return;
        y = x;
        found = t;
    }

    // Indices go through a panel. Of an exclusive scan each is that of the step before.
    template <bool Mirror, typename Form>
    void steps(int64_t lane) {
        int64_t panel[size_t(panel_steps + 2)];
        for (int64_t k = 0; k < q_.steps; k += panel_steps) {
            const int64_t n = panel_steps < q_.steps - k ? panel_steps : q_.steps - k;
            const int64_t time = Mirror ? q_.end - k - n : q_.begin + k;  // the lowest of the panel
            int64_t* const to = panel + 1;
            const int64_t before = found_[lane];
            walk<Mirror, Form>(lane, time, n, to);
            if (!p_.exclusive) {
                put(place(time, lane), to, n);
                continue;
            }
            to[Mirror ? n : -1] = before;
            put(place(time, lane), Mirror ? to + 1 : to - 1, n);
        }
    }
    template <bool Mirror, typename Form>
    void walk(int64_t lane, int64_t time, int64_t n, int64_t* to) {
        constexpr int last = Mirror ? 0 : width - 1;
        const auto* const x = input<Form>(time, lane);
        Vec<Place> own = {};
        for (int i = 0; i < width; ++i) own[i] = i;
        W y = y_[lane];
        int64_t found = found_[lane];
        bool none = q_.start && found < 0;
        int64_t i = 0;
        for (; i + width <= n; i += width) {
            const int64_t j = Mirror ? n - width - i : i;
            prefetch(x + j + (Mirror ? -1 : 1) * 2048 / static_cast<int64_t>(sizeof *x));
            Vec<W> v = get<Form>(x + j);
            Vec<Place> chosen = own;
            compare<1, Mirror>(v, chosen);
            const Vec<W> carry = splat<W>(y);
            const Int taken = none ? Int{} - 1 : takes_right(carry, v);
            v = taken ? v : carry;
            for (int l = 0; l < width; ++l) to[j + l] = taken[l] != 0 ? time + j + chosen[l] : found;
            y = v[last];
            found = to[j + last];
            none = false;
        }
        for (; i < n; ++i) {
            const int64_t j = Mirror ? n - 1 - i : i;
            step(none, static_cast<W>(Form::get(x[j])), time + j, y, found);
            to[j] = found;
            none = false;
        }
        y_[lane] = y, found_[lane] = found;
    }
    // Each lane takes what is chosen of those up to it. The first K lanes are compared with themselves, and stay.
    template <int K, bool Mirror>
    static FLASHSCAN_INLINE void compare(Vec<W>& v, Vec<Place>& chosen) {
        if constexpr (K < width) {
            const Vec<W> l = shift<K, Mirror, W>(v, v);
            const Int taken = takes_right(l, v);
            v = taken ? v : l;
            chosen = taken ? chosen : shift<K, Mirror, Place>(chosen, chosen);
            compare<2 * K, Mirror>(v, chosen);
        }
    }

    const NumbersCall& p_;
    const OperatorPiece& q_;
    int64_t* index_;  // null where only `last` is wanted
    W y_[numbers_lanes];
    int64_t found_[numbers_lanes];
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
