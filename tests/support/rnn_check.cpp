// SPDX-License-Identifier: Apache-2.0
#include "support/rnn_check.h"

#include <fmt/format.h>

namespace support {

std::array<int64_t, 3> extents_of(const RnnProblem& p, int32_t id) {
    switch (id & ~FLASHSCAN_GRAD) {
    case FLASHSCAN_ARG_INPUT: return p.input_extents();
    case FLASHSCAN_ARG_WEIGHT: return p.weight_extents();
    case FLASHSCAN_ARG_BIAS: return p.bias_extents();
    case FLASHSCAN_ARG_OUTPUT: return p.output_extents();
    default: return p.state_extents();
    }
}

int64_t written_time(const RnnProblem& p, const RnnData& data, int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    return argument == FLASHSCAN_ARG_INPUT || argument == FLASHSCAN_ARG_OUTPUT ? written_time(p, data) : 1;
}

Comparison compare(const RnnProblem& p, const RnnData& data, int32_t id, const Values& got,
                   const RnnReference& reference) {
    const std::string name =
        fmt::format("output {}{}", (id & FLASHSCAN_GRAD) != 0 ? "GRAD|" : "", id & ~FLASHSCAN_GRAD);
    return compare(name, extents_of(p, id), written_time(p, data, id), got, reference.at(id));
}

std::ostream& operator<<(std::ostream& stream, const RnnCase& c) {
    return stream << "FLASHSCAN_TEST_TARGET=" << text_of(c.target) << " FLASHSCAN_TEST_RNN_CASE='" << text_of(c.problem)
                  << "'";
}

std::string name_of_rnn_case(const testing::TestParamInfo<RnnCase>& info) {
    return fmt::format("{}_{:03}", text_of(info.param.target), info.index);
}

std::vector<RnnCase> cases_on(const std::vector<Target>& targets, const std::vector<RnnProblem>& problems) {
    std::vector<RnnCase> cases;
    for (const RnnProblem& problem : problems)
        for (const Target& target : targets) cases.push_back({fitted(problem, target), target});
    return cases;
}

void check_case(const RnnCase& c) {
    const RnnProblem& p = c.problem;
    const RnnData data = make_data(p);
    const RnnOutcome outcome = run_rnn(p, c.target, data, p.seed % 2 == 0 ? Guard::start : Guard::end);
    if (!c.target.kernel.empty() && outcome.status == FLASHSCAN_STATUS_UNSUPPORTED)
        GTEST_SKIP() << "kernel refuses: " << outcome.message.substr(0, 300);
    ASSERT_EQ(outcome.status, FLASHSCAN_STATUS_OK) << outcome.message;
    EXPECT_EQ(outcome.damage, "");
    const RnnReference& reference = kept_for(p, [&] { return reference_of(p, data); });
    for (const auto& [id, values] : outcome.values) {
        const Comparison comparison = compare(p, data, id, values, reference);
        if (!comparison.ok()) ADD_FAILURE() << comparison.sentence;
        testing::Test::RecordProperty(fmt::format("worst_{}", id), fmt::format("{:.3g}", comparison.worst));
    }
}

}  // namespace support
