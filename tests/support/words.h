// SPDX-License-Identifier: Apache-2.0
// Words of problem lines: each function says whether a word is the prefix and something that it knows, which it then
// stores.
#pragma once

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "support/problem.h"

namespace support {

// The words of a line. Those of results up to 2026-11 that have other names today come as these: `states` as `state-in`
// and `state-out`, `log` as `form-log`, `logit` as `form-logit`, `misaligned` as `place-misaligned`.
std::vector<std::string> words_of(std::string_view line);

// A word that sets a field; in text_of these stand in the order of their table.
template <typename P>
struct Flag {
    const char* word;
    bool P::*field;
};
template <typename P, size_t n>
bool flag_named(const Flag<P> (&flags)[n], std::string_view word, P& to) {
    for (const Flag<P>& flag : flags)
        if (word == flag.word) return to.*flag.field = true;
    return false;
}
template <typename P, size_t n>
std::string text_of(const Flag<P> (&flags)[n], const P& problem) {
    std::string text;
    for (const Flag<P>& flag : flags)
        if (problem.*flag.field) text += std::string(" ") + flag.word;
    return text;
}

template <typename Number>
bool number_after(std::string_view word, std::string_view prefix, Number& to) {
    if (!word.starts_with(prefix)) return false;
    Number number{};
    const char* const last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data() + prefix.size(), last, number);
    if (error != std::errc{} || end != last) return false;
    to = number;
    return true;
}

// `names` in the order of what they stand for, the first of which is `first`.
template <typename Names, typename Named>
bool name_after(std::string_view word, std::string_view prefix, const Names& names, Named& to, int32_t first = 0) {
    if (!word.starts_with(prefix)) return false;
    const auto found = std::find(std::begin(names), std::end(names), word.substr(prefix.size()));
    if (found == std::end(names)) return false;
    to = static_cast<Named>(first + static_cast<int32_t>(found - std::begin(names)));
    return true;
}

bool dtype_after(std::string_view word, std::string_view prefix, int32_t& to);
// Bit i of `to` stands for the i-th letter of the alphabet.
bool letters_after(std::string_view word, std::string_view prefix, std::string_view alphabet, uint32_t& to);
std::string spell(uint32_t bits, std::string_view alphabet);

bool placement_after(std::string_view word, std::string_view prefix, Placement& to);
const char* name_of(Placement placement);
bool parse_layout(std::string_view word, int32_t& layout);  // BTC, BCT

}  // namespace support
