// SPDX-License-Identifier: Apache-2.0
#include "support/selective_check.h"

#include <fmt/format.h>

namespace support {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;

// Rows of a tensor's middle axis that are written.
int64_t written_of(const SelectiveProblem& p, const SelectiveData& data, int32_t id) {
    return has_steps(p, id) ? written_time(p, data) : tensor_of(p, id).extents[1];
}

Call make_call(const SelectiveProblem& p, const Plan& plan, int32_t backend, int32_t pass, const SelectiveData& data,
               Guard guard) {
    const bool backward = pass == FLASHSCAN_PASS_BACKWARD;
    Call call = call_of(
        p, backward, backend, guard, [&](int32_t id) -> const Values& { return data.values.at(id); },
        written_time(p, data));
    add_masks(call, data.reset, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, pass);
    return call;
}

}  // namespace

Call forward_call(const SelectiveProblem& p, const Plan& plan, int32_t backend, const SelectiveData& data,
                  Guard guard) {
    return make_call(p, plan, backend, FLASHSCAN_PASS_FORWARD, data, guard);
}

Call backward_call(const SelectiveProblem& p, const Plan& plan, int32_t backend, const SelectiveData& data,
                   Guard guard) {
    return make_call(p, plan, backend, FLASHSCAN_PASS_BACKWARD, data, guard);
}

SelectiveOutcome run_selective(const SelectiveProblem& p, const Target& target, const SelectiveData& data, Guard guard,
                               int times) {
    SelectiveOutcome outcome;
    const Plan plan(desc_of(p), options_of(p, target.backend, target.kernel));
    if (failed(plan, outcome)) return outcome;
    const auto run = [&](Call call) {
        auto bits = std::move(outcome.bits);
        outcome.bits.clear();
        if (!run_repeatedly(call, plan, times, outcome)) return false;
        for (const auto& [id, bytes] : call.output_bytes()) outcome.values[id] = call.values(id);
        outcome.bits.merge(bits);
        return true;
    };
    if (!run(forward_call(p, plan, target.backend, data, guard))) return outcome;
    if (!written_by(p, true).empty()) run(backward_call(p, plan, target.backend, data, guard));
    return outcome;
}

std::map<int32_t, Values> selective_reference(const SelectiveProblem& p, const SelectiveData& data) {
    const SelectiveOutcome outcome = run_selective(p, {FLASHSCAN_BACKEND_CPU, "reference"}, data, Guard::end, 1);
    require(outcome);
    return outcome.values;
}

Comparison compare(const SelectiveProblem& p, const SelectiveData& data, int32_t id, const Values& got,
                   const Expected& expected) {
    const std::string name = fmt::format("output {}{}", (id & grad) != 0 ? "GRAD|" : "", id & ~grad);
    return compare(name, tensor_of(p, id).extents, written_of(p, data, id), got, expected);
}

std::ostream& operator<<(std::ostream& stream, const SelectiveCase& c) {
    return stream << "FLASHSCAN_TEST_TARGET=" << text_of(c.target) << " FLASHSCAN_TEST_SELECTIVE_CASE='"
                  << text_of(c.problem) << "'";
}

std::string name_of_selective_case(const testing::TestParamInfo<SelectiveCase>& info) {
    return fmt::format("{}_{:03}", text_of(info.param.target), info.index);
}

std::vector<SelectiveCase> cases_on(const std::vector<Target>& targets, const std::vector<SelectiveProblem>& problems) {
    std::vector<SelectiveCase> cases;
    for (const SelectiveProblem& problem : problems)
        for (const Target& target : targets) cases.push_back({problem, target});
    return cases;
}

void check_case(const SelectiveCase& c) {
    const SelectiveProblem& p = c.problem;
    const auto& [data, expected] = kept_for(p, [&] {
        std::pair<SelectiveData, std::map<int32_t, Expected>> made{make_data(p), {}};
        made.second = reference_of(p, made.first);
        return made;
    });
    const SelectiveOutcome outcome = run_selective(p, c.target, data, p.seed % 2 == 0 ? Guard::start : Guard::end);
    if (!c.target.kernel.empty() && outcome.status == FLASHSCAN_STATUS_UNSUPPORTED)
        GTEST_SKIP() << "kernel refuses: " << outcome.message.substr(0, 300);
    ASSERT_EQ(outcome.status, FLASHSCAN_STATUS_OK) << outcome.message;
    EXPECT_EQ(outcome.damage, "");
    for (const auto& [id, values] : outcome.values) {
        const Comparison comparison = compare(p, data, id, values, expected.at(id));
        if (!comparison.ok()) ADD_FAILURE() << comparison.sentence;
        testing::Test::RecordProperty(fmt::format("worst_{}", id), fmt::format("{:.3g}", comparison.worst));
    }
}

}  // namespace support
