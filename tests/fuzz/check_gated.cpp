// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "fuzz/loops.h"
#include "fuzz/problems.h"

namespace fuzz {
namespace {

using namespace support;

// Nothing looks at steps that belong to no sequence.
void spoil(const GatedProblem& p, GatedData& data) {
    for (auto& [id, values] : data.values)
        if (static_cast<int64_t>(values.size()) == p.elements() && id != FLASHSCAN_ARG_PARAM &&
            id != FLASHSCAN_ARG_BIAS && id != FLASHSCAN_ARG_STATE_IN &&
            id != (FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_OUT))
            for (int64_t t = written_time(p, data); t < p.time; ++t)
                for (int64_t c = 0; c < p.channels; ++c)
                    values[p.index(0, t, c)] = std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void check_gated(const Session& session, const Line& line) {
    const GatedProblem p = gated_problem_of(line.problem);
    GatedData data = make_data(p);
    const GatedReference reference = reference_of(p, data, gated_loop);
    GatedReference asked = reference;
    if (line.spoiled && p.time > 0) spoil(p, data);
    for (const Target& target : wanted(session, gated_targets()))
        for (const Guard guard : {Guard::end, Guard::start}) {
            if (guard == Guard::start && p.elements() > 2000) continue;
            const GatedOutcome outcome = run_gated(p, target, data, reference.output, guard);
            if (!completed(session, target, outcome.status, outcome.message, outcome.damage)) break;
            for (const auto& [id, values] : outcome.values) {
                asked.expected.at(id) = reference.expected.at(id);
                forgive(dtype_of(p, id), values, asked.expected.at(id));
                const Comparison result = compare(p, data, id, values, asked);
                session.count("comparisons");
                if (!result.ok()) session.finding(text_of(target) + ": " + result.sentence);
            }
        }
}

}  // namespace fuzz
