// SPDX-License-Identifier: Apache-2.0
#include "fuzz/invariance.h"
#include "support/gated_check.h"
#include "support/selective_check.h"

namespace fuzz {
namespace {

using namespace invariance;

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
    const auto one = data_of_sequence(p, s, data);
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
