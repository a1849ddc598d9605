// SPDX-License-Identifier: Apache-2.0
#include "fuzz/invariance.h"
#include "support/gated_check.h"
#include "support/selective_check.h"

namespace fuzz {
namespace {

using namespace invariance;

enum class Share {
    steps,
    state,
    all  // of parameters, which all sequences share
};

Share share_of(const GatedProblem&, int32_t id) {
    switch (id & ~grad) {
    case FLASHSCAN_ARG_STATE_IN:
    case FLASHSCAN_ARG_STATE_OUT: return Share::state;
    case FLASHSCAN_ARG_PARAM:
    case FLASHSCAN_ARG_BIAS: return Share::all;
    default: return Share::steps;
    }
}

Share share_of(const SelectiveProblem& p, int32_t id) {
    const int32_t argument = id & ~grad;
    if (argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT) return Share::state;
    return has_steps(p, id) ? Share::steps : Share::all;
}

// What a sequence has of the values of an argument, whose rows lie one after another.
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

// run(problem, target, data, guard) gives an outcome with its values by their id.
template <typename P, typename Run>
void compare_alone(const Session& session, P p, const std::vector<Target>& targets, Run run) {
    p.batch_invariant = true;
    // Strides that depend on how many rows there are make another problem.
    if (p.placement == Placement::time_major || p.placement == Placement::mixed) p.placement = Placement::dense;
    if (p.state_rows() == 0) return;
    const auto data = make_data(p);
    const Sequence s = chosen(p, data.offsets);
    const P q = alone(p, s);
    auto one = data;
    for (auto& [id, values] : one.values) values = cut(p, s, id, data.values.at(id));
    cut_masks(p, s, data, one);
    for (const Target& target : wanted(session, targets)) {
        const auto a = run(p, target, data, Guard::end), b = run(q, target, one, Guard::start);
        if (!completed(session, target, a.status, a.message, a.damage) ||
            !completed(session, target, b.status, b.message, b.damage))
            continue;
        // An empty sequence alone is a plan of no steps, which copies a zero with its sign.
        const bool signs = s.length() > 0;
        for (const auto& [id, values] : a.values)
            if (share_of(p, id) != Share::all)
                report(session, target, fmt::format("output {}{}", (id & grad) != 0 ? "GRAD|" : "", id & ~grad).c_str(),
                       same(b.values.at(id), cut(p, s, id, values), signs));
    }
}

}  // namespace

void gated_invariance(const Session& session, const std::string& line) {
    compare_alone(session, gated_problem_of(line), gated_targets(),
                  [](const GatedProblem& p, const Target& target, const GatedData& data, Guard guard) {
                      return run_gated(p, target, data, {}, guard);
                  });
}

void selective_invariance(const Session& session, const std::string& line) {
    compare_alone(session, selective_problem_of(line), selective_targets(),
                  [](const auto&... arguments) { return run_selective(arguments...); });
}

}  // namespace fuzz
