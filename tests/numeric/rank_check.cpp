// SPDX-License-Identifier: Apache-2.0
#include "numeric/rank_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace numeric {

using namespace support;

std::ostream& operator<<(std::ostream& stream, const RankCase& c) {
    return stream << c.ranks << " ranks, " << Case{c.problem, {FLASHSCAN_BACKEND_CPU, c.kernel}};
}
std::string name_of_ranks(const testing::TestParamInfo<RankCase>& info) {
    return fmt::format("{}_ranks_{:03}", info.param.ranks, info.index);
}

std::vector<RankCase> rank_cases(const std::vector<Problem>& problems, const char* kernel) {
    std::vector<RankCase> cases;
    for (const Problem& p : problems)
        cases.push_back({p, kernel, rank_counts[(p.seed + cases.size()) % std::size(rank_counts)]});
    return cases;
}

void expect_close(const Comparison& comparison) { EXPECT_TRUE(comparison.ok()) << comparison.sentence; }

// Sums that ranks have rounded to the gate's type are added by the test.
void allow_rounded_sums(Expected& expected, const std::vector<double>& rounding) {
    for (size_t i = 0; i < rounding.size(); ++i) expected.tolerance[i] += rounding[i];
}

void expect_forward(const Problem& p, const Data& data, const RanksOutcome& got, const Reference& reference) {
    expect_close(compare("OUTPUT", p.extents(), written_time(p, data), got.output, reference.output));
    if (p.state_out)
        expect_close(compare("STATE_OUT", {p.state_rows(), 1, p.channels}, 1, got.state_out, reference.state_out));
}

void expect_backward(const Problem& p, const Data& data, const RanksOutcome& got, Reference reference) {
    const int64_t end = written_time(p, data);
    if ((p.gradients & gradient_input) != 0)
        expect_close(compare("GRAD|INPUT", p.extents(), end, got.grad_input, reference.grad_input));
    allow_rounded_sums(reference.grad_gate, got.rounding);
    if ((p.gradients & gradient_gate) != 0)
        expect_close(compare("GRAD|GATE", p.gate_extents(), p.broadcasts(FLASHSCAN_BROADCAST_TIME) ? 1 : end,
                             got.grad_gate, reference.grad_gate));
    if ((p.gradients & gradient_state) != 0 && p.state_in)
        expect_close(
            compare("GRAD|STATE_IN", {p.state_rows(), 1, p.channels}, 1, got.grad_state_in, reference.grad_state_in));
}

void expect_near_reference(const Problem& p, const std::string& kernel, Data data, const std::vector<int64_t>& lengths,
                           Meeting& meeting) {
    const Reference reference = reference_of(p, data);
    const Target target{meeting.backend(), kernel};
    const RanksOutcome forward = run_over_ranks(p, target, data, lengths, meeting, false);
    require(forward);
    expect_forward(p, data, forward, reference);
    if (p.gradients == gradient_state && !p.state_in) return;
    const RanksOutcome backward = run_over_ranks(p, target, data, lengths, meeting, true);
    require(backward);
    expect_backward(p, data, backward, reference);
}

}  // namespace numeric
