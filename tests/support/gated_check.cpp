// SPDX-License-Identifier: Apache-2.0
#include "support/gated_check.h"

#include <fmt/format.h>

namespace support {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;

void collect(const Call& call, GatedOutcome& outcome) {
    for (const auto& [id, bytes] : call.output_bytes())
        if (id != FLASHSCAN_ARG_RESERVE) outcome.values[id] = call.values(id);
}

}  // namespace

Call forward_call(const GatedProblem& p, const Plan& plan, int32_t backend, const GatedData& data, Guard guard) {
    Call call = call_of(
        p, false, backend, guard, [&](int32_t id) -> const Values& { return data.values.at(id); },
        written_time(p, data));
    if (p.has_output_gate())
        call.opaque(FLASHSCAN_ARG_RESERVE, plan.bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE));
    add_masks(call, data.reset, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, FLASHSCAN_PASS_FORWARD);
    return call;
}

Call backward_call(const GatedProblem& p, const Plan& plan, int32_t backend, const GatedData& data, const Call& forward,
                   const Values& output, Guard guard) {
    const auto values_of = [&](int32_t id) -> const Values& {
        return id == FLASHSCAN_ARG_OUTPUT ? output : data.values.at(id);
    };
    Call call = call_of(p, true, backend, guard, values_of, written_time(p, data));
    if (p.has_output_gate())
        call.input_bytes(FLASHSCAN_ARG_RESERVE, forward.output_bytes().at(FLASHSCAN_ARG_RESERVE), 64);
    add_masks(call, data.reset, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, FLASHSCAN_PASS_BACKWARD);
    return call;
}

GatedOutcome run_gated(const GatedProblem& p, const Target& target, const GatedData& data, const Values& output,
                       Guard guard, int times) {
    GatedOutcome outcome;
    const Plan plan(desc_of(p), options_of(p, target.backend, target.kernel));
    if (failed(plan, outcome)) return outcome;
    Call forward = forward_call(p, plan, target.backend, data, guard);
    if (!run_repeatedly(forward, plan, times, outcome)) return outcome;
    collect(forward, outcome);
    if (written_by(p, true).empty()) return outcome;
    const Values& given = output.empty() ? outcome[FLASHSCAN_ARG_OUTPUT] : output;
    Call backward = backward_call(p, plan, target.backend, data, forward, given, guard);
    auto bits = outcome.bits;
    if (!run_repeatedly(backward, plan, times, outcome)) return outcome;
    outcome.bits.merge(bits);
    collect(backward, outcome);
    return outcome;
}

std::map<int32_t, Values> gated_reference(const GatedProblem& p, const GatedData& data, const Values& output) {
    const GatedOutcome outcome = run_gated(p, {FLASHSCAN_BACKEND_CPU, "reference"}, data, output, Guard::end, 1);
    require(outcome);
    return outcome.values;
}

Comparison compare(const GatedProblem& p, const GatedData& data, int32_t id, const Values& got,
                   const GatedReference& reference) {
    const std::string name = fmt::format("output {}{}", (id & grad) != 0 ? "GRAD|" : "", id & ~grad);
    return compare(name, tensor_of(p, id).extents,
                   has_steps(p, id) ? written_time(p, data) : tensor_of(p, id).extents[1], got,
                   reference.expected.at(id));
}

std::ostream& operator<<(std::ostream& stream, const GatedCase& c) {
    return stream << "FLASHSCAN_TEST_TARGET=" << text_of(c.target) << " FLASHSCAN_TEST_GATED_CASE='"
                  << text_of(c.problem) << "'";
}

std::string name_of_gated_case(const testing::TestParamInfo<GatedCase>& info) {
    return fmt::format("{}_{:03}", text_of(info.param.target), info.index);
}

std::vector<GatedCase> cases_on(const std::vector<Target>& targets, const std::vector<GatedProblem>& problems) {
    std::vector<GatedCase> cases;
    for (const GatedProblem& problem : problems)
        for (const Target& target : targets) cases.push_back({problem, target});
    return cases;
}

void check_case(const GatedCase& c) {
    const GatedProblem& p = c.problem;
    const auto& [data, reference] = kept_for(p, [&] {
        std::pair<GatedData, GatedReference> made{make_data(p), {}};
        made.second = reference_of(p, made.first);
        return made;
    });
    const GatedOutcome outcome =
        run_gated(p, c.target, data, reference.output, p.seed % 2 == 0 ? Guard::start : Guard::end);
    if (!c.target.kernel.empty() && outcome.status == FLASHSCAN_STATUS_UNSUPPORTED)
        GTEST_SKIP() << "kernel refuses: " << outcome.message.substr(0, 300);
    ASSERT_EQ(outcome.status, FLASHSCAN_STATUS_OK) << outcome.message;
    EXPECT_EQ(outcome.damage, "");
    for (const auto& [id, values] : outcome.values) {
        const Comparison comparison = compare(p, data, id, values, reference);
        if (!comparison.ok()) ADD_FAILURE() << comparison.sentence;
        testing::Test::RecordProperty(fmt::format("worst_{}", id), fmt::format("{:.3g}", comparison.worst));
    }
}

}  // namespace support
