// SPDX-License-Identifier: Apache-2.0
// What cases of one sequence among others and alone have in common.
#pragma once

#include <fmt/format.h>

#include <cstring>

#include "fuzz/problems.h"
#include "support/one_sequence.h"

namespace fuzz {

// A case of gated layers and selective scans.
void gated_invariance(const Session& session, const std::string& line);
void selective_invariance(const Session& session, const std::string& line);

namespace invariance {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

inline bool same(const Values& a, const Values& b, bool signs = true) {
    if (!signs) return a == b;
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof a[0]) == 0);
}

template <typename P>
Sequence chosen(const P& p, const std::vector<int64_t>& offsets) {
    const std::vector<Sequence> all = sequences_of(p.batch, p.time, offsets);
    return all[static_cast<size_t>(uniform(p.seed, 950, 0) * static_cast<double>(all.size()))];
}

inline void report(const Session& session, const Target& target, const char* name, bool equal) {
    session.count("comparisons");
    if (!equal) session.finding(fmt::format("{}: {} of a sequence differs from it alone", text_of(target), name));
}

}  // namespace invariance
}  // namespace fuzz
