// SPDX-License-Identifier: Apache-2.0
#include "support/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace support {
namespace {

std::string text(Value value) {
    return value.imag() == 0 ? fmt::format("{:.9g}", value.real())
                             : fmt::format("({:.9g}, {:.9g})", value.real(), value.imag());
}

void expect_close(const Comparison& comparison) {
    if (!comparison.ok()) ADD_FAILURE() << comparison.sentence;
}

// Whether the outcome is one to look into; a forced kernel may refuse.
bool usable(const Case& c, const Outcome& outcome, const char* pass) {
    if (outcome.status == FLASHSCAN_STATUS_OK) {
        EXPECT_EQ(outcome.damage, "") << pass;
        return true;
    }
    EXPECT_TRUE(!c.target.kernel.empty() && outcome.status == FLASHSCAN_STATUS_UNSUPPORTED)
        << pass << ": " << flashscan_status_name(outcome.status) << ": " << outcome.message;
    return false;
}

void check_forward(const Case& c, const Outcome& outcome, const Data& data, const Reference& reference) {
    const Problem& p = c.problem;
    expect_close(compare("OUTPUT", p.extents(), written_time(p, data), outcome.output, reference.output));
    if (p.state_out)
        expect_close(compare("STATE_OUT", {p.state_rows(), 1, p.channels}, 1, outcome.state_out, reference.state_out));
}

void check_backward(const Case& c, const Outcome& outcome, const Data& data, const Reference& reference) {
    const Problem& p = c.problem;
    const int64_t end = written_time(p, data);
    if (!outcome.grad_input.empty())
        expect_close(compare("GRAD|INPUT", p.extents(), end, outcome.grad_input, reference.grad_input));
    if (!outcome.grad_gate.empty())
        expect_close(compare("GRAD|GATE", p.gate_extents(), p.broadcasts(FLASHSCAN_BROADCAST_TIME) ? 1 : end,
                             outcome.grad_gate, reference.grad_gate));
    if (!outcome.grad_state_in.empty())
        expect_close(compare("GRAD|STATE_IN", {p.state_rows(), 1, p.channels}, 1, outcome.grad_state_in,
                             reference.grad_state_in));
}

}  // namespace

Outcome linear_reference(const Problem& problem, const Data& data, bool backward) {
    const Target oracle{FLASHSCAN_BACKEND_CPU, "reference"};
    Outcome outcome = backward ? run_backward(problem, oracle, data, Guard::end, 1)
                               : run_forward(problem, oracle, data, Guard::end, 1);
    require(outcome);
    return outcome;
}

std::ostream& operator<<(std::ostream& stream, const Case& c) {
    return stream << "FLASHSCAN_TEST_TARGET=" << text_of(c.target) << " FLASHSCAN_TEST_CASE='" << text_of(c.problem)
                  << "'";
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
    return fmt::format("{}_{:03}", text_of(info.param.target), info.index);
}

std::vector<Case> cases_on(const std::vector<Target>& targets, const std::vector<Problem>& problems) {
    std::vector<Case> cases;
    for (const Problem& problem : problems)
        for (const Target& target : targets) cases.push_back({problem, target});
    return cases;
}

Comparison compare(const std::string& name, const std::array<int64_t, 3>& extents, int64_t time_end, const Values& got,
                   const Expected& expected) {
    Comparison result;
    if (got.size() != expected.value.size() || got.size() != expected.tolerance.size()) {
        result.sentence = fmt::format("{}: {} values, expected {}", name, got.size(), expected.value.size());
        return result;
    }
    size_t bad = 0, first = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        const auto t = static_cast<int64_t>(i) / extents[2] % extents[1];
        if (t >= time_end) continue;
        const double x = excess(got[i], expected.value[i], expected.tolerance[i]);
        result.worst = std::max(result.worst, x);
        if (!(x <= 1) && bad++ == 0) first = i;
    }
    if (bad > 0) {
        const auto at = static_cast<int64_t>(first);
        result.sentence = fmt::format(
            "{}: {} of {} values are off; first at b {} t {} c {}: got {}, expected {} +- {:.3g}; worst error is "
            "{:.3g} times its bound",
            name, bad, got.size(), at / extents[2] / extents[1], at / extents[2] % extents[1], at % extents[2],
            text(got[first]), text(expected.value[first]), expected.tolerance[first], result.worst);
    }
    return result;
}

void check_case(const Case& c) {
    const Problem& p = c.problem;
    const auto& [data, reference] = kept_for(p, [&] {
        std::pair<Data, Reference> made{make_data(p), {}};
        made.second = reference_of(p, made.first);
        return made;
    });
    std::vector<Guard> guards{p.seed % 2 == 0 ? Guard::start : Guard::end};
    if (p.elements() <= 4096 && c.target.backend == FLASHSCAN_BACKEND_CPU)
        guards.push_back(p.seed % 2 == 0 ? Guard::end : Guard::start);
    for (const Guard guard : guards) {
        const Outcome forward = run_forward(p, c.target, data, guard);
        if (!usable(c, forward, "forward")) GTEST_SKIP() << "kernel refuses: " << forward.message.substr(0, 300);
        check_forward(c, forward, data, reference);
        if (written_by(p, true).empty()) continue;
        const Outcome backward = run_backward(p, c.target, data, guard);
        if (usable(c, backward, "backward")) check_backward(c, backward, data, reference);
    }
}

}  // namespace support
