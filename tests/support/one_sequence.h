// SPDX-License-Identifier: Apache-2.0
// One sequence of a problem's batch or packed sequences, as a problem of its own with its part of the data.
#pragma once

#include "support/data.h"

namespace support {

// The problem of sequence `s` alone.
template <typename P>
P alone(const P& p, const Sequence& s) {
    P one = p;
    one.batch = 1;
    one.time = s.length();
    one.sequences = p.sequences > 0 ? 1 : 0;
    return one;
}

// Sets the offsets and resets of `one` to those of sequence `s` alone.
template <typename P, typename D>
void cut_masks(const P& p, const Sequence& s, const D& data, D& one) {
    if (p.sequences > 0) one.offsets = {0, s.length()};
    if constexpr (requires { data.reset; }) {
        const auto first = data.reset.begin() + (data.reset.empty() ? 0 : s.batch * p.time + s.begin);
        one.reset.assign(first, data.reset.empty() ? first : first + s.length());
    }
}

// What a sequence has of an argument of a layer.
enum class Share {
    steps,
    state,
    all  // of parameters, which all sequences share
};

template <typename P>
Share share_of(const P& p, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    if (argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT) return Share::state;
    return has_steps(p, id) ? Share::steps : Share::all;
}

// What a sequence has of the values of a layer's argument, whose rows lie one after another.
template <typename P>
Values cut(const P& p, const Sequence& s, int32_t id, const Values& all) {
    const Share share = share_of(p, id);
    if (share == Share::all || all.empty()) return all;
    const int64_t rows = share == Share::state ? p.state_rows() : p.batch * p.time;
    const int64_t width = static_cast<int64_t>(all.size()) / rows;
    const int64_t first = share == Share::state ? s.state : s.batch * p.time + s.begin;
    const auto begin = all.begin() + first * width;
    return {begin, begin + (share == Share::state ? 1 : s.length()) * width};
}

// A layer's data of sequence `s` alone.
template <typename P, typename D>
D data_of_sequence(const P& p, const Sequence& s, const D& data) {
    D one = data;
    for (auto& [id, values] : one.values) values = cut(p, s, id, values);
    cut_masks(p, s, data, one);
    return one;
}

}  // namespace support
