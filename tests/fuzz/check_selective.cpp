// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "fuzz/loops.h"
#include "fuzz/problems.h"

namespace fuzz {
namespace {

using namespace support;

// Nothing looks at steps that belong to no sequence, nor do results depend on states that a reset at the first step
// drops.
void spoil(const SelectiveProblem& p, SelectiveData& data) {
    constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
    for (auto& [id, values] : data.values) {
        if (!has_steps(p, id)) continue;
        const auto width = values.size() / static_cast<size_t>(p.batch * p.time);
        for (auto i = static_cast<size_t>(written_time(p, data)) * width; p.sequences > 0 && i < values.size(); ++i)
            values[i] = nan_value;
    }
    if (!p.reset || !p.state_in) return;
    for (const Sequence& s : sequences_of(p.batch, p.time, data.offsets)) {
        if (s.length() == 0 || data.reset[static_cast<size_t>(s.batch * p.time + s.step(p.reverse, 0))] == 0) continue;
        for (int64_t c = 0; c < p.channels; ++c)
            for (int64_t n = 0; n < p.states; ++n)
                data.values.at(FLASHSCAN_ARG_STATE_IN)[p.state_at(s.state, c, n)] = n % 2 == 0 ? nan_value : HUGE_VAL;
    }
}

}  // namespace

void check_selective(const Session& session, const Line& line) {
    const SelectiveProblem p = selective_problem_of(line.problem);
    SelectiveData data = make_data(p);
    const std::map<int32_t, Expected> reference = reference_of(p, data, selective_loop);
    if (line.spoiled && p.batch > 0 && p.time > 0) spoil(p, data);
    for (const Target& target : wanted(session, selective_targets()))
        for (const Guard guard : {Guard::end, Guard::start}) {
            if (guard == Guard::start && p.elements() * p.states > 20000) continue;
            const SelectiveOutcome outcome = run_selective(p, target, data, guard);
            if (!completed(session, target, outcome.status, outcome.message, outcome.damage)) break;
            for (const auto& [id, values] : outcome.values) {
                Expected asked = reference.at(id);
                forgive(dtype_of(p, id), values, asked);
                const Comparison result = compare(p, data, id, values, asked);
                session.count("comparisons");
                if (!result.ok()) session.finding(text_of(target) + ": " + result.sentence);
            }
        }
}

}  // namespace fuzz
