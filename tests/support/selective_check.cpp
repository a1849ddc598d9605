// SPDX-License-Identifier: Apache-2.0
#include "support/selective_check.h"

#include <fmt/format.h>

namespace support {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;

void add_input(Call& call, const SelectiveProblem& p, const SelectiveData& data, int32_t id) {
    if (has_argument(p, id & ~grad)) call.input(id, dtype_of(p, id), tensor_of(p, id), data.values.at(id));
}

void read_by_both(Call& call, const SelectiveProblem& p, const SelectiveData& data) {
    for (const int32_t id :
         {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_DELTA, FLASHSCAN_ARG_OUTPUT_GATE, FLASHSCAN_ARG_A, FLASHSCAN_ARG_B,
          FLASHSCAN_ARG_C, FLASHSCAN_ARG_D, FLASHSCAN_ARG_BIAS, FLASHSCAN_ARG_STATE_IN})
        add_input(call, p, data, id);
}

bool states_in_place(const SelectiveProblem& p) { return p.in_place && p.sequences == 0; }

// Rows of a tensor's middle axis that are written.
int64_t written_of(const SelectiveProblem& p, const SelectiveData& data, int32_t id) {
    return has_steps(p, id) ? written_time(p, data) : tensor_of(p, id).extents[1];
}

// Adds an output, in the memory of `place` if that is not 0.
void add_output(Call& call, const SelectiveProblem& p, const SelectiveData& data, int32_t id, int32_t place) {
    if (place != 0)
        call.output_in(place, id, dtype_of(p, id), tensor_of(p, id), written_of(p, data, id));
    else
        call.output(id, dtype_of(p, id), tensor_of(p, id), written_of(p, data, id));
}

bool wants(const SelectiveProblem& p, size_t gradient) {
    return (p.gradients >> gradient & 1U) != 0 && has_argument(p, selective_gradients[gradient]);
}

}  // namespace

Call forward_call(const SelectiveProblem& p, const Plan& plan, int32_t backend, const SelectiveData& data,
                  Guard guard) {
    Call call(backend, FLASHSCAN_PASS_FORWARD, guard);
    read_by_both(call, p, data);
    add_output(call, p, data, FLASHSCAN_ARG_OUTPUT, p.in_place ? FLASHSCAN_ARG_INPUT : 0);
    if (p.state_out)
        add_output(call, p, data, FLASHSCAN_ARG_STATE_OUT,
                   states_in_place(p) && p.state_in ? FLASHSCAN_ARG_STATE_IN : 0);
    add_masks(call, data.reset, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, FLASHSCAN_PASS_FORWARD);
    return call;
}

Call backward_call(const SelectiveProblem& p, const Plan& plan, int32_t backend, const SelectiveData& data,
                   Guard guard) {
    Call call(backend, FLASHSCAN_PASS_BACKWARD, guard);
    read_by_both(call, p, data);
    add_input(call, p, data, grad | FLASHSCAN_ARG_OUTPUT);
    add_input(call, p, data, grad | FLASHSCAN_ARG_STATE_OUT);
    for (size_t i = 0; i < std::size(selective_gradients); ++i) {
        if (!wants(p, i)) continue;
        const int32_t id = selective_gradients[i];
        int32_t place = 0;
        if (p.in_place && id == FLASHSCAN_ARG_INPUT) place = grad | FLASHSCAN_ARG_OUTPUT;
        if (states_in_place(p) && p.state_out && id == FLASHSCAN_ARG_STATE_IN) place = grad | FLASHSCAN_ARG_STATE_OUT;
        add_output(call, p, data, grad | id, place);
    }
    add_masks(call, data.reset, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, FLASHSCAN_PASS_BACKWARD);
    return call;
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
    bool backward = false;
    for (size_t i = 0; i < std::size(selective_gradients); ++i) backward = backward || wants(p, i);
    if (backward) run(backward_call(p, plan, target.backend, data, guard));
    return outcome;
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
