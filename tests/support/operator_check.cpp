// SPDX-License-Identifier: Apache-2.0
#include "support/operator_check.h"

#include <fmt/format.h>

#include <cmath>

#include "support/operators.h"

namespace support {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;

const Values& values_of(const OperatorData& data, const Values& output, int32_t id) {
    switch (id) {
    case FLASHSCAN_ARG_INPUT: return data.input;
    case FLASHSCAN_ARG_GATE: return data.gate;
    case FLASHSCAN_ARG_STATE_IN: return data.state_in;
    case FLASHSCAN_ARG_OUTPUT: return output;
    case grad | FLASHSCAN_ARG_OUTPUT: return data.grad_output;
    default: return data.grad_state_out;
    }
}

Call make_call(const OperatorProblem& p, bool backward, const Plan& plan, int32_t backend, const OperatorData& data,
               const Values& output, Guard guard) {
    Call call = call_of(
        p, backward, backend, guard, [&](int32_t id) -> const Values& { return values_of(data, output, id); },
        written_time(p, data));
    add_masks(call, {}, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD);
    return call;
}

}  // namespace

Call forward_call(const OperatorProblem& p, const Plan& plan, int32_t backend, const OperatorData& data, Guard guard) {
    return make_call(p, false, plan, backend, data, {}, guard);
}

Call backward_call(const OperatorProblem& p, const Plan& plan, int32_t backend, const OperatorData& data,
                   const Values& output, Guard guard) {
    return make_call(p, true, plan, backend, data, output, guard);
}

namespace {

void collect(const Call& call, OperatorOutcome& outcome) {
    for (const auto& [id, bytes] : call.output_bytes()) outcome.values[id] = call.values(id);
}

Values moduli(Values values) {
    for (Value& value : values) value = modulus(value);
    return values;
}

// The relative error of an output in terms of its value on moduli. Every path from an input to it has at most two
// operations for each step and number of an element.
double relative_error(const OperatorProblem& p, int32_t id, double largest) {
    const double unit = unit_roundoff(state_dtype(p.dtype)), steps = static_cast<double>(p.time + 2);
    const double complex = is_complex(p.dtype) ? 3 : 1;
    const bool backward = (id & grad) != 0;
    if (operator_row(p.kind).has_index) return backward ? steps * unit : 0;
    // An error of y is a relative one of the slopes, which are exponentials of it.
    if (p.kind == FLASHSCAN_OPERATOR_LOGADDEXP)
        return backward ? steps * (steps * (largest + 8) + 8) * unit : steps * (largest + 8) * unit;
    double operations = 2 * steps * static_cast<double>(p.dim + 2) * complex * unit;
    // Both factors of every product of f32 data; states of other data are not rounded.
    if (p.allow_tf32 && p.dtype == FLASHSCAN_DTYPE_F32) operations += 2 * steps * 0x1p-11;
    return operations;
}

double largest_of(const Values& values) {
    double largest = 0;
    for (const Value& value : values)
        if (std::isfinite(modulus(value))) largest = std::max(largest, modulus(value));
    return largest;
}

// What a loss of 1 in a number of every product of matrices, state and gradient adds up to in each output, where
// matrices are multiplied in any order: a loss in a product of several counts as often as what it is multiplied by, of
// which the largest state or gradient is a bound, and then takes the way of a state or gradient through the steps that
// are left. `sizes` are moduli, `bounds` what they give.
std::map<int32_t, Values> losses_of(OperatorProblem wide, const OperatorData& sizes,
                                    const std::map<int32_t, Values>& bounds, const OperatorOracle& oracle) {
    const auto bound = [&](int32_t id) { return bounds.count(id) == 0 ? 0 : largest_of(bounds.at(id)); };
    std::map<int32_t, Values> losses;
    const auto add = [&](const std::map<int32_t, Values>& more, auto wanted) {
        for (const auto& [id, values] : more) {
            if (!wanted(id)) continue;
            Values& sums = losses[id];
            sums.resize(values.size());
            for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
        }
    };
    const double matrix = 1 + largest_of(wide.affine() ? sizes.gate : sizes.input);
    double state = std::max(largest_of(sizes.state_in), bound(FLASHSCAN_ARG_OUTPUT));
    if (wide.backward) {
        OperatorProblem each = wide;
        if (each.reduction()) each.mode = FLASHSCAN_MODE_INCLUSIVE;
        OperatorData lost = sizes;
        lost.output.clear();
        const auto [b, t, c] = each.output_extents();
        const double gradient =
            matrix + std::max(bound(grad | FLASHSCAN_ARG_INPUT), bound(grad | FLASHSCAN_ARG_STATE_IN));
        lost.grad_output.assign(static_cast<size_t>(b * t * c), gradient);
        lost.grad_state_out.assign(sizes.grad_state_out.size(), gradient);
        const std::map<int32_t, Values> got = oracle(each, lost);
        state = std::max(state, largest_of(got.at(FLASHSCAN_ARG_OUTPUT)));
        add(got, [](int32_t id) { return (id & grad) != 0; });
    }
    if (wide.affine()) {
        OperatorData lost = sizes;
        lost.output.clear();
        lost.input.assign(sizes.input.size(), matrix + state);
        lost.state_in.assign(sizes.state_in.size(), 0);
        add(oracle(wide, lost), [](int32_t id) { return (id & grad) == 0 || id == (grad | FLASHSCAN_ARG_GATE); });
    }
    return losses;
}

}  // namespace

OperatorOutcome run_operator(const OperatorProblem& p, const Target& target, const OperatorData& data, Guard guard,
                             int times) {
    return run_operator(p, desc_of(p), target, data, guard, times);
}

OperatorOutcome run_operator(const OperatorProblem& p, const flashscan_operator_desc& desc, const Target& target,
                             const OperatorData& data, Guard guard, int times) {
    OperatorOutcome outcome;
    const Plan plan(desc, options_of(p, target.backend, target.kernel));
    if (failed(plan, outcome)) return outcome;
    Call forward = forward_call(p, plan, target.backend, data, guard);
    if (!run_repeatedly(forward, plan, times, outcome)) return outcome;
    collect(forward, outcome);
    if (!p.backward) return outcome;
    const Values& output = data.output.empty() ? outcome[FLASHSCAN_ARG_OUTPUT] : data.output;
    Call backward = backward_call(p, plan, target.backend, data, output, guard);
    auto bits = outcome.bits;
    if (!run_repeatedly(backward, plan, times, outcome)) return outcome;
    outcome.bits.merge(bits);
    collect(backward, outcome);
    return outcome;
}

std::array<int64_t, 3> extents_of(const OperatorProblem& p, int32_t id) {
    const int32_t argument = id & ~grad;
    const bool state = argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT;
    return state ? p.state_extents() : tensor_of(p, id).extents;
}

int64_t written_time(const OperatorProblem& p, const OperatorData& data, int32_t id) {
    return has_steps(p, id) ? written_time(p, data) : 1;
}

std::map<int32_t, Values> operator_reference(const OperatorProblem& p, const OperatorData& data) {
    OperatorOutcome outcome = run_operator(p, {FLASHSCAN_BACKEND_CPU, "reference"}, data, Guard::end, 1);
    require(outcome);
    return outcome.values;
}

std::map<int32_t, Expected> reference_of(const OperatorProblem& p, OperatorData& data, const OperatorOracle& oracle) {
    const bool ordered = !takes(p.kind, FLASHSCAN_DTYPE_C128);
    const OperatorProblem wide = p.widened();
    std::map<int32_t, Values> values = oracle(wide, data);
    if (p.integers()) {
        std::map<int32_t, Expected> exact;
        for (auto& [id, value] : values) exact[id] = {value, std::vector<double>(value.size())};
        return exact;
    }
    if (p.backward && (p.affine() || p.matmul()) && !p.reduction()) {
        const Values exact = values.at(FLASHSCAN_ARG_OUTPUT);
        data.output = exact;
        for (Value& y : data.output) y = rounded(p.dtype, y);
        values = oracle(wide, data);
        values[FLASHSCAN_ARG_OUTPUT] = exact;
    }
    OperatorData sizes = data;
    if (!ordered) {
        sizes.input = moduli(data.input);
        sizes.gate = moduli(data.gate);
        sizes.state_in = moduli(data.state_in);
    }
    sizes.grad_output = moduli(data.grad_output);
    sizes.grad_state_out = moduli(data.grad_state_out);
    sizes.output = moduli(data.output);
    const std::map<int32_t, Values> bounds = oracle(wide, sizes);
    double largest = 0;
    for (const Value& y : data.input) largest = std::max(largest, modulus(y));
    largest += std::log(static_cast<double>(p.time + 2));
    // Every operation may lose that much, next to zero: in products of f32 matrices the least number of tf32, in two of
    // which tensor cores take an f32.
    const bool split = (p.affine() || p.matmul()) && state_dtype(p.dtype) == FLASHSCAN_DTYPE_F32;
    const double loss = static_cast<double>(p.dim + 1) * (split ? 0x1p-136 : ulp(state_dtype(p.dtype), 0));
    bool near_zero = false;
    for (const auto& [id, terms] : bounds)
        for (const Value& term : terms) near_zero |= term != 0.0 && modulus(term) < 1e9 * loss;
    std::map<int32_t, Values> losses;
    if ((p.affine() || p.matmul()) && near_zero) losses = losses_of(wide, sizes, bounds, oracle);
    std::map<int32_t, Expected> expected;
    for (const auto& [id, value] : values) {
        const int32_t dtype = dtype_of(p, id);
        const double error = relative_error(p, id, largest);
        const auto lost = losses.find(id);
        Expected& e = expected[id];
        e.value = value;
        if (id == FLASHSCAN_ARG_INDEX) {
            e.tolerance.resize(value.size());
            continue;
        }
        for (size_t i = 0; i < value.size(); ++i) {
            // Terms that overflow bound nothing, unless the value is infinite like them.
            const double terms = modulus(bounds.at(id)[i]);
            const double size = std::isfinite(terms) ? terms : std::isfinite(modulus(value[i])) ? HUGE_VAL : 0;
            const double scale = p.kind == FLASHSCAN_OPERATOR_LOGADDEXP && (id & grad) == 0 ? 1 : size;
            double underflow = static_cast<double>(p.time + 2) * loss;
            if (lost != losses.end() && std::isfinite(modulus(lost->second[i])))
                underflow += 2 * loss * modulus(lost->second[i]);
            e.tolerance.push_back(error * scale + 0.5 * ulp(dtype, modulus(value[i]) + error * scale) + underflow);
        }
    }
    return expected;
}

std::ostream& operator<<(std::ostream& stream, const OperatorCase& c) {
    return stream << "FLASHSCAN_TEST_TARGET=" << text_of(c.target) << " FLASHSCAN_TEST_OPERATOR_CASE='"
                  << text_of(c.problem) << "'";
}

std::string name_of_operator_case(const testing::TestParamInfo<OperatorCase>& info) {
    return fmt::format("{}_{:03}", text_of(info.param.target), info.index);
}

std::vector<OperatorCase> cases_on(const std::vector<Target>& targets, const std::vector<OperatorProblem>& problems) {
    std::vector<OperatorCase> cases;
    for (const OperatorProblem& problem : problems)
        for (const Target& target : targets) cases.push_back({problem, target});
    return cases;
}

void check_case(const OperatorCase& c) {
    const OperatorProblem& p = c.problem;
    const auto& [data, reference] = kept_for(p, [&] {
        std::pair<OperatorData, std::map<int32_t, Expected>> made{make_data(p), {}};
        made.second = reference_of(p, made.first);
        return made;
    });
    const OperatorOutcome outcome = run_operator(p, c.target, data, p.seed % 2 == 0 ? Guard::start : Guard::end);
    ASSERT_EQ(outcome.status, FLASHSCAN_STATUS_OK) << outcome.message;
    EXPECT_EQ(outcome.damage, "");
    for (const auto& [id, values] : outcome.values) {
        const int32_t argument = id & ~grad;
        const std::string name = fmt::format("output {}{}", (id & grad) != 0 ? "GRAD|" : "", argument);
        const Comparison comparison =
            compare(name, extents_of(p, id), written_time(p, data, id), values, reference.at(id));
        if (!comparison.ok()) ADD_FAILURE() << comparison.sentence;
        testing::Test::RecordProperty(fmt::format("worst_{}", id), fmt::format("{:.3g}", comparison.worst));
    }
}

}  // namespace support
