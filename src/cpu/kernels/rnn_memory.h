// SPDX-License-Identifier: Apache-2.0
// This file says how the numbers of a recurrent network lie in memory, and reads and writes vectors of them.
#pragma once

#include "cpu/kernels/convert.h"
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/rnn.h"
#include "cpu/kernels/rnn_product.h"
#include "math/rnn.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// A group is the gates whose products have the same left factor. In a cell that applies its reset before the product
// the last gate is a group of its own, whose left factor is the reset h; otherwise all gates are one group.
template <typename Cell>
inline constexpr int num_groups = Cell::resets_before ? 2 : 1;
template <typename Cell>
FLASHSCAN_INLINE constexpr int group_of(int64_t gate) {
    return Cell::resets_before && gate == Cell::gates - 1 ? 1 : 0;
}
template <typename Cell>
FLASHSCAN_INLINE constexpr int first_gate(int group) {
    return group == 0 ? 0 : Cell::gates - 1;
}
template <typename Cell>
FLASHSCAN_INLINE constexpr int gates_of(int group) {
    return !Cell::resets_before ? Cell::gates : group == 0 ? Cell::gates - 1 : 1;
}

// get reads a vector of numbers from element `i` on, and put writes one. With fewer than W elements left, only `left`
// of them are read or written, and the other lanes of what get returns are 0.
template <typename T>
FLASHSCAN_INLINE Vec<T> get(Number number, const char* data, int64_t i, int64_t left) {
    Vec<T> v = {};
    with_number<T>(number, [&](auto form) {
        using Type = typename decltype(form)::Type;
        const Type* p = reinterpret_cast<const Type*>(data) + i;
        if (left >= Simd<T>::width) {
            v = widen(p);
        } else {
            Type part[Simd<T>::width] = {};
            for (int64_t k = 0; k < left; ++k) part[k] = p[k];
            v = widen(part);
        }
    });
    return v;
}
template <typename T>
FLASHSCAN_INLINE void put(Number number, char* data, int64_t i, int64_t left, Vec<T> v) {
    with_number<T>(number, [&](auto form) {
        using Type = typename decltype(form)::Type;
        Type* p = reinterpret_cast<Type*>(data) + i;
        if (left >= Simd<T>::width) {
            narrow(p, v);
        } else {
            Type part[Simd<T>::width];
            narrow(part, v);
            for (int64_t k = 0; k < left; ++k) p[k] = part[k];
        }
    });
}
template <typename T>
inline constexpr Number number_of_type = sizeof(T) == 8 ? Number::f64 : Number::f32;

template <typename T, int N>
using LaneArray = Lanes<T>[size_t{N}];

// The time of the step that is i-th in the order of computation.
FLASHSCAN_INLINE int64_t step_of(const RnnCall& c, const RnnSequence& s, int64_t i) {
    return c.ascending ? s.begin + i : s.begin + s.length - 1 - i;
}
FLASHSCAN_INLINE bool resets(const RnnCall& c, const RnnSequence& s, int64_t t) {
    return c.reset != nullptr && c.reset[s.batch * c.time + t] != 0;
}

// The places of element d = 0 of a head: of state or gate j of a step in a tensor, of state j in the states, and of a
// step in RESERVE.
FLASHSCAN_INLINE int64_t place(const RnnCall& c, const RnnTensor& x, int64_t j, const RnnSequence& s, int64_t t,
                               int64_t head) {
    return j * x.state + s.batch * x.batch + t * x.time + head * c.dim;
}
FLASHSCAN_INLINE int64_t state_place(const RnnCall& c, int64_t j, const RnnSequence& s, int64_t head) {
    return ((j * c.state_rows + s.state) * c.heads + head) * c.dim;
}
FLASHSCAN_INLINE int64_t reserve_place(const RnnCall& c, const RnnSequence& s, int64_t t, int64_t head) {
    return ((s.batch * c.time + t) * c.heads + head) * c.dim * c.planes;
}

// The place of the matrix of one gate and head in WEIGHT: its element (j, k) is j D + k further on.
FLASHSCAN_INLINE int64_t weight_block(const RnnCall& c, int64_t head, int64_t gate) {
    return (gate * c.heads + head) * c.dim * c.dim;
}

// Reads what forward kept of the elements d .. d + left - 1 of a step. What is not in RESERVE is h, which OUTPUT has.
template <typename Cell, typename T>
FLASHSCAN_INLINE void get_kept(const RnnCall& c, const RnnSequence& s, int64_t t, int64_t head, int64_t d, int64_t left,
                               LaneArray<T, Cell::kept>& kept) {
    const int64_t start = reserve_place(c, s, t, head) + d;
    for (int k = 0; k < Cell::kept; ++k)
        kept[k] = Lanes<T>(k < c.planes
                               ? get<T>(number_of_type<T>, c.reserve, start + k * c.dim, left)
                               : get<T>(c.output.number, c.output.data, place(c, c.output, 0, s, t, head) + d, left));
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
