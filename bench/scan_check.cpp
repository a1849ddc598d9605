// SPDX-License-Identifier: Apache-2.0
// Checks a pass of a scan against the reference on a part of the problem, number by number within the bounds of the
// tests. Of a linear recurrence the part is some rows, or all that a broadcast gate sums over; of gated layers and
// selective scans it is some channels of the whole batch, so that sums over batch and time are complete. Gradients of B
// and C per step sum over the channels of a group: they are checked on a whole group of one row, in some states.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "reference.h"
#include "support/gated_bound.h"
#include "support/selective_bound.h"

namespace bench {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;
constexpr int32_t grad_b = grad | FLASHSCAN_ARG_B, grad_c = grad | FLASHSCAN_ARG_C;

template <typename L>
int64_t states_of(const L&) {
    return 1;
}
int64_t states_of(const support::SelectiveProblem& layer) { return layer.states; }
template <typename L>
int64_t groups_of(const L&) {
    return 1;
}
int64_t groups_of(const support::SelectiveProblem& layer) { return layer.groups; }

bool is_of_channels(int32_t id) {
    const int32_t arg = id & ~grad;
    return arg == FLASHSCAN_ARG_PARAM || arg == FLASHSCAN_ARG_BIAS || arg == FLASHSCAN_ARG_D || arg == FLASHSCAN_ARG_A;
}
bool is_matrix(int32_t id) { return (id & ~grad) == FLASHSCAN_ARG_B || (id & ~grad) == FLASHSCAN_ARG_C; }

// Rows of the batch, channels of the last group, and states of each channel.
struct Part {
    Picks batch, channels, states;
    int64_t first_channel;  // of the group
};

template <typename L>
Part part_of(const L& layer, int64_t wanted_batch, int64_t wanted_channels, int64_t wanted_states) {
    const int64_t width = layer.channels / groups_of(layer);
    return {{layer.batch, wanted_batch},
            {width, wanted_channels},
            {states_of(layer), wanted_states},
            layer.channels - width};
}

// The places in a tensor of the numbers of a part, in the order of the part's own dense tensor.
template <typename L>
Box box_of(const L& layer, const Tensor& tensor, const Part& part) {
    if (tensor.id == FLASHSCAN_ARG_RESET) {
        const int64_t first = part.batch.first * layer.time;
        return {static_cast<char*>(tensor.box.data) + first,
                0,
                {part.batch.count, layer.time, 1},
                {part.batch.step * layer.time, 1, 0}};
    }
    const auto& [extents, strides, given, shifted] = tensor_of(layer, tensor.id);
    const int64_t n = states_of(layer), channel = part.first_channel + part.channels.first;
    const Picks &batch = part.batch, &channels = part.channels, &states = part.states;
    Box box{tensor.box.data, tensor.box.dtype, {}, {}};
    int64_t first = 0;
    const auto set = [&](int64_t at, const int64_t(&counts)[3], const int64_t(&steps)[3]) {
        first = at;
        std::copy(std::begin(counts), std::end(counts), std::begin(box.extent));
        std::copy(std::begin(steps), std::end(steps), std::begin(box.stride));
    };
    if (is_state(tensor.id)) {
        const Picks rows = layer.sequences > 0 ? Picks(layer.sequences, layer.sequences) : batch;
        set(rows.first * strides[1] + channel * n + states.first, {rows.count, channels.count, states.count},
            {rows.step * strides[1], channels.step * n, states.step});
    } else if (is_of_channels(tensor.id) || (is_matrix(tensor.id) && !has_steps(layer, tensor.id))) {
        const int32_t arg = tensor.id & ~grad;
        if (arg == FLASHSCAN_ARG_A || is_matrix(arg))
            set(channel * n + states.first, {1, channels.count, states.count}, {0, channels.step * n, states.step});
        else
            set(channel, {1, channels.count, 1}, {0, channels.step, 1});
    } else if (is_matrix(tensor.id)) {
        const int64_t group = groups_of(layer) - 1;
        set(batch.first * strides[0] + (group * n + states.first) * strides[2], {batch.count, layer.time, states.count},
            {batch.step * strides[0], strides[1], states.step * strides[2]});
    } else {  // with strides of 0 and extents of 1 where a gate is broadcast
        set(batch.first * strides[0] + channel * strides[2],
            {std::min(batch.count, extents[0]), extents[1], std::min(channels.count, extents[2])},
            {batch.step * strides[0], strides[1], channels.step * strides[2]});
    }
    box.data = static_cast<char*>(box.data) + first * size_of(box.dtype);
    return box;
}

// A part as a problem of its own.
template <typename L>
L part_problem(L layer, const Part& part) {
    layer.batch = part.batch.count;
    layer.channels = part.channels.count;
    if constexpr (requires { layer.groups; }) layer.groups = 1, layer.states = part.states.count;
    return layer;
}

// The reference of a part.
template <typename L>
Reference<L> reference_of(const L& layer, const Tensors& tensors, const Part& part, std::vector<std::byte> reset) {
    L wide = part_problem(layer, part).widened();
    wide.gradients = layer.gradients;
    if constexpr (requires { wide.strided; }) wide.strided = false;
    return Reference<L>(std::move(wide), "reference", std::move(reset), tensors.offsets());
}

using Numbers = std::map<int32_t, support::Values>;  // of arguments by their ids
using Expectations = std::map<int32_t, support::Expected>;

support::Values numbers_of(const std::vector<double>& components, int32_t dtype) {
    if (!is_complex(dtype)) return {components.begin(), components.end()};
    support::Values numbers(components.size() / 2);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = {components[2 * i], components[2 * i + 1]};
    return numbers;
}

// The arguments that a pass over a part reads.
struct Given {
    Numbers values;
    std::vector<unsigned char> reset;
    std::vector<int64_t> offsets;
};

// Fills in the error that each expected number may have, as the tests allow it. `part` has the dtypes of the problem.
void set_tolerances(const support::Problem& part, Given given, bool backward, Expectations& expected) {
    Numbers& of = given.values;
    const support::Data data{std::move(of[FLASHSCAN_ARG_INPUT]),
                             std::move(of[FLASHSCAN_ARG_GATE]),
                             std::move(of[FLASHSCAN_ARG_STATE_IN]),
                             std::move(of[FLASHSCAN_ARG_OUTPUT]),
                             std::move(of[grad | FLASHSCAN_ARG_OUTPUT]),
                             std::move(of[grad | FLASHSCAN_ARG_STATE_OUT]),
                             std::move(given.reset),
                             std::move(given.offsets)};
    support::Reference reference;
    const std::pair<int32_t, support::Expected*> outputs[] = {
        {FLASHSCAN_ARG_OUTPUT, &reference.output},
        {FLASHSCAN_ARG_STATE_OUT, &reference.state_out},
        {grad | FLASHSCAN_ARG_INPUT, &reference.grad_input},
        {grad | FLASHSCAN_ARG_GATE, &reference.grad_gate},
        {grad | FLASHSCAN_ARG_STATE_IN, &reference.grad_state_in}};
    for (const auto& [id, output] : outputs)
        if (expected.contains(id)) std::swap(*output, expected[id]);
    support::set_tolerances(part, data, backward, reference);
    for (const auto& [id, output] : outputs)
        if (expected.contains(id)) std::swap(*output, expected[id]);
}
void set_tolerances(const support::GatedProblem& part, Given given, bool backward, Expectations& expected) {
    support::GatedReference reference{std::move(expected), {}};
    reference.output = backward ? given.values[FLASHSCAN_ARG_OUTPUT] : reference.expected[FLASHSCAN_ARG_OUTPUT].value;
    support::set_tolerances(part, {std::move(given.values), std::move(given.reset), std::move(given.offsets)},
                            reference);
    expected = std::move(reference.expected);
}
void set_tolerances(const support::SelectiveProblem& part, Given given, bool, Expectations& expected) {
    support::set_tolerances(part, {std::move(given.values), std::move(given.reset), std::move(given.offsets)},
                            expected);
}

// Adds to the verdict the number whose error is largest beside its tolerance; both are divided by the largest finite
// value that is expected.
void count_in(Verdict& verdict, const support::Values& got, const support::Expected& expected) {
    double largest = 0, worst = -1, bound = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        const double size = support::modulus(expected.value[i]);
        if (std::isfinite(size)) largest = std::max(largest, size);
        const double excess = support::excess(got[i], expected.value[i], expected.tolerance[i]);
        if (!std::isfinite(excess)) return verdict.add(INFINITY, 1);
        if (excess > worst) worst = excess, bound = expected.tolerance[i];
    }
    if (largest > 0) bound /= largest;
    verdict.add(worst > 0 ? worst * bound : 0, bound);
}

// Compares what `wanted` names of the outputs.
template <typename L, typename Wanted>
void check_part(Machine& machine, const Problem& p, const L& layer, const Tensors& tensors, const Part& part,
                Wanted wanted, Verdict& verdict) {
    Values values;
    Numbers got;
    Given given{{}, {}, tensors.offsets()};
    std::vector<std::byte> reset;
    for (const Tensor& tensor : tensors.tensors()) {
        const std::vector<std::byte> bytes = machine.gather(box_of(layer, tensor, part));
        if (tensor.id == FLASHSCAN_ARG_RESET) {
            for (const std::byte byte : bytes) given.reset.push_back(std::to_integer<unsigned char>(byte));
            reset = bytes;
            continue;
        }
        values[tensor.id] = widen(bytes, tensor.box.dtype);
        (tensor.written ? got : given.values)[tensor.id] = numbers_of(values[tensor.id], tensor.box.dtype);
    }
    Reference<L> reference = reference_of(layer, tensors, part, std::move(reset));
    Values exact;
    if (!p.backward || has_reserve(layer)) exact = reference.run(false, values);
    if (p.backward) exact = reference.run(true, values);
    Expectations expected;
    for (const Tensor& tensor : tensors.tensors())
        if (tensor.written && wanted(tensor.id))
            expected[tensor.id].value = numbers_of(exact.at(tensor.id), tensor.box.dtype);
    set_tolerances(part_problem(layer, part), std::move(given), p.backward, expected);
    for (const auto& [id, each] : expected) count_in(verdict, got.at(id), each);
}

// The numbers of a part: as many as the reference takes in about a second, and the most.
constexpr int64_t few = int64_t{1} << 20, most = int64_t{1} << 26;

// Compares as many rows as the reference takes in about a second; where the gate is broadcast, all that are summed up.
Verdict check(Machine& machine, const Problem& problem, const support::Problem& p, const Tensors& tensors) {
    const int64_t rows = std::max<int64_t>(few / p.time, 1);
    const int64_t batches = std::min<int64_t>(p.batch, std::max<int64_t>(rows / 4, 1));
    const int64_t channels = std::max<int64_t>(rows / batches, 1);
    Part part = part_of(p, batches, channels, 1);
    bool sums = true;
    if (problem.backward && p.broadcast != 0) {
        const bool all_batches = p.broadcasts(FLASHSCAN_BROADCAST_BATCH);
        const bool all_channels = p.broadcasts(FLASHSCAN_BROADCAST_CHANNELS);
        const Part wanted = part_of(p,
                                    all_batches    ? p.batch
                                    : all_channels ? 1
                                                   : batches,
                                    all_channels  ? p.channels
                                    : all_batches ? 1
                                                  : channels,
                                    1);
        sums = wanted.batch.count * wanted.channels.count * p.time <= most;
        if (sums) part = wanted;
    }
    Verdict verdict;
    check_part(
        machine, problem, p, tensors, part, [&](int32_t id) { return sums || id != (grad | FLASHSCAN_ARG_GATE); },
        verdict);
    verdict.accept_nothing(!sums);
    verdict.what = fmt::format("{} of {} rows{}", part.batch.count * part.channels.count, p.batch * p.channels,
                               sums ? "" : ", the gate's gradient not compared");
    return verdict;
}

template <typename L>
Verdict check(Machine& machine, const Problem& problem, const L& layer, const Tensors& tensors) {
    const int64_t steps = layer.batch * layer.time * states_of(layer);
    const int64_t width = layer.channels / groups_of(layer);
    const Part part = part_of(layer, layer.batch, std::max<int64_t>(few / steps, 1), states_of(layer));
    const auto sums_channels = [&](int32_t id) {
        return (id == grad_b || id == grad_c) && part.channels.count < width && has_steps(layer, id);
    };
    Verdict verdict;
    check_part(
        machine, problem, layer, tensors, part, [&](int32_t id) { return !sums_channels(id); }, verdict);
    verdict.what = fmt::format("{} of {} rows", layer.batch * part.channels.count, layer.batch * layer.channels);
    const bool sums = std::any_of(tensors.tensors().begin(), tensors.tensors().end(),
                                  [&](const Tensor& tensor) { return tensor.written && sums_channels(tensor.id); });
    if (!sums) return verdict;
    if (layer.time > most / width) {
        verdict.what += ", GRAD|B and GRAD|C not compared";
        verdict.accept_nothing(true);
        return verdict;
    }
    // A state's sums do not depend on the others.
    const Part row = part_of(layer, 1, width, 4 * few / (layer.time * width));
    check_part(machine, problem, layer, tensors, row, sums_channels, verdict);
    verdict.what += fmt::format(", GRAD|B and GRAD|C of 1 row and {} of {} states", row.states.count, states_of(layer));
    return verdict;
}

}  // namespace

Verdict check_scan_outputs(Machine& machine, const Problem& problem, const Tensors& tensors) {
    if (const auto* gated = std::get_if<support::GatedProblem>(&problem.line))
        return check(machine, problem, *gated, tensors);
    if (const auto* selective = std::get_if<support::SelectiveProblem>(&problem.line))
        return check(machine, problem, *selective, tensors);
    return check(machine, problem, *problem.linear(), tensors);
}

}  // namespace bench
