// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "fuzz/loops.h"
#include "fuzz/problems.h"

namespace fuzz {
namespace {

using namespace support;

// Nothing looks at steps that belong to no sequence, nor at sLSTM's c and m where n is 0 in STATE_IN.
void spoil(const RnnProblem& p, RnnData& data) {
    const double nan_value = std::numeric_limits<double>::quiet_NaN();
    for (int64_t t = written_time(p, data); t < p.time; ++t)
        for (int64_t w = 0; w < p.width(); ++w) {
            for (int64_t g = 0; g < p.gates(); ++g) data.input[p.input_index(0, t, g, w)] = nan_value;
            for (int64_t s = 0; s < p.output_states(); ++s) data.grad_output[p.output_index(s, 0, t, w)] = nan_value;
        }
    if (p.cell != FLASHSCAN_CELL_SLSTM || !p.state_in) return;
    for (int64_t row = 0; row < p.state_rows(); ++row)
        for (int64_t w = 0; w < p.width(); ++w) {
            if (data.state_in[p.state_index(2, row, w)] != 0.0) continue;
            data.state_in[p.state_index(1, row, w)] = w % 2 == 0 ? nan_value : HUGE_VAL;
            data.state_in[p.state_index(3, row, w)] = w % 3 == 0 ? nan_value : -HUGE_VAL;
        }
}

}  // namespace

void check_rnn(const Session& session, const Line& line) {
    const RnnProblem p = rnn_problem_of(line.problem);
    RnnData data = make_data(p);
    const RnnReference reference = reference_of(p, data, rnn_loop);
    RnnReference asked = reference;
    // With no steps the states pass through whatever n says.
    const bool steps = p.time > 0 && p.sequences == 0;
    if (line.spoiled && (steps || p.cell != FLASHSCAN_CELL_SLSTM)) spoil(p, data);
    for (const Target& target : wanted(session, rnn_targets()))
        for (const Guard guard : {Guard::end, Guard::start}) {
            if (guard == Guard::start && p.batch * p.time * p.width() > 2000) continue;
            const RnnOutcome outcome = run_rnn(p, target, data, guard);
            if (!completed(session, target, outcome.status, outcome.message, outcome.damage)) break;
            for (const auto& [id, values] : outcome.values) {
                asked.at(id) = reference.at(id);
                forgive(dtype_of(p, id), values, asked.at(id));
                const Comparison result = compare(p, data, id, values, asked);
                session.count("comparisons");
                if (!result.ok()) session.finding(text_of(target) + ": " + result.sentence);
            }
        }
}

}  // namespace fuzz
