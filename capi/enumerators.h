// SPDX-License-Identifier: Apache-2.0
// The enumerators of the interface beside those of the core, and what descriptors of every family have.
#pragma once

#include <string>

#include "core/error.h"
#include "core/extents.h"
#include "core/sequences.h"
#include "flashscan/flashscan.h"

namespace flashscan {

// One enumerator of the interface and what it is in the core.
template <typename Enum>
struct Enumerator {
    const char* name;
    int32_t number;
    Enum value;
};
#define FLASHSCAN_ENUMERATOR(name, value) \
    { #name, FLASHSCAN_##name, value }

inline constexpr Enumerator<Dtype> dtypes[] = {
    FLASHSCAN_ENUMERATOR(DTYPE_F32, Dtype::f32), FLASHSCAN_ENUMERATOR(DTYPE_BF16, Dtype::bf16),
    FLASHSCAN_ENUMERATOR(DTYPE_F16, Dtype::f16), FLASHSCAN_ENUMERATOR(DTYPE_F64, Dtype::f64),
    FLASHSCAN_ENUMERATOR(DTYPE_C64, Dtype::c64), FLASHSCAN_ENUMERATOR(DTYPE_C128, Dtype::c128),
    FLASHSCAN_ENUMERATOR(DTYPE_I32, Dtype::i32), FLASHSCAN_ENUMERATOR(DTYPE_I64, Dtype::i64),
    FLASHSCAN_ENUMERATOR(DTYPE_U8, Dtype::u8),
};
inline constexpr Enumerator<Layout> layouts[] = {
    FLASHSCAN_ENUMERATOR(LAYOUT_BTC, Layout::btc),
    FLASHSCAN_ENUMERATOR(LAYOUT_BCT, Layout::bct),
};
inline constexpr Enumerator<Direction> directions[] = {
    FLASHSCAN_ENUMERATOR(DIRECTION_FORWARD, Direction::forward),
    FLASHSCAN_ENUMERATOR(DIRECTION_REVERSE, Direction::reverse),
};

template <typename Enum, size_t count>
std::string names_of(const Enumerator<Enum> (&enumerators)[count]) {
    std::string names;
    for (const auto& e : enumerators) names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", e.name, e.number);
    return names;
}

// `others` begins the list of what is accepted.
template <typename Enum, size_t count>
Enum needed(int32_t number, const Enumerator<Enum> (&enumerators)[count], const char* field, const char* others = "") {
    for (const auto& e : enumerators)
        if (e.number == number) return e.value;
    fail(Code::invalid_argument, "{} is {}; accepted are {}{}", field, number, others, names_of(enumerators));
}

// Zero stands for the default, which is the core's zero.
template <typename Enum, size_t count>
Enum optional(int32_t number, const Enumerator<Enum> (&enumerators)[count], const char* field) {
    return number == 0 ? Enum{} : needed(number, enumerators, field, "0, ");
}

// `names` says which flags make up `known`.
inline void check_flags(uint32_t flags, uint32_t known, const char* field, const char* names) {
    if ((flags & ~known) != 0) fail(Code::invalid_argument, "{} is {}; accepted are sums of {}", field, flags, names);
}

inline Strides convert(const flashscan_strides& s) { return {s.batch, s.time, s.channels}; }

template <typename Enum, size_t count>
int32_t number_in(const Enumerator<Enum> (&enumerators)[count], Enum value) {
    for (const auto& e : enumerators)
        if (e.value == value) return e.number;
    return 0;
}

template <typename Desc>
void convert_states(Sequences& p, const Desc& d) {
    p.state_in = {d.state_in.row, d.state_in.state};
    p.state_out = {d.state_out.row, d.state_out.state};
    p.grad_state_in = {d.grad_state_in.row, d.grad_state_in.state};
    p.grad_state_out = {d.grad_state_out.row, d.grad_state_out.state};
    if constexpr (requires { d.state_pool; }) p.state_pool = d.state_pool;
}

}  // namespace flashscan
