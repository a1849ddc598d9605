// SPDX-License-Identifier: Apache-2.0
// Linear recurrences: some rows against the reference, all that are summed up where the gate is broadcast. Gated layers
// and selective scans: some channels of the whole batch, so that sums over batch and time are complete; and gradients
// of B and C per step, sums over the channels of a group, on a whole group of one row.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference.h"

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

// Rows of the batch, and channels of the last group.
struct Part {
    Picks batch, channels;
    int64_t first_channel;  // of the group
};

template <typename L>
Part part_of(const L& layer, int64_t wanted_batch, int64_t wanted_channels) {
    const int64_t width = layer.channels / groups_of(layer);
    return {{layer.batch, wanted_batch}, {width, wanted_channels}, layer.channels - width};
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
    const Picks &batch = part.batch, &channels = part.channels;
    Box box{tensor.box.data, tensor.box.dtype, {}, {}};
    int64_t first = 0;
    const auto set = [&](int64_t at, const int64_t(&counts)[3], const int64_t(&steps)[3]) {
        first = at;
        std::copy(std::begin(counts), std::end(counts), std::begin(box.extent));
        std::copy(std::begin(steps), std::end(steps), std::begin(box.stride));
    };
    if (is_state(tensor.id)) {
        const Picks rows = layer.sequences > 0 ? Picks(layer.sequences, layer.sequences) : batch;
        set(rows.first * strides[1] + channel * n, {rows.count, channels.count, n},
            {rows.step * strides[1], channels.step * n, 1});
    } else if (is_of_channels(tensor.id) || (is_matrix(tensor.id) && !has_steps(layer, tensor.id))) {
        const int32_t arg = tensor.id & ~grad;
        const int64_t per = arg == FLASHSCAN_ARG_A || is_matrix(arg) ? n : 1;
        set(channel * per, {1, channels.count, per}, {0, channels.step * per, 1});
    } else if (is_matrix(tensor.id)) {
        const int64_t group = groups_of(layer) - 1;
        set(batch.first * strides[0] + group * n * strides[2], {batch.count, layer.time, n},
            {batch.step * strides[0], strides[1], strides[2]});
    } else {  // with strides of 0 and extents of 1 where a gate is broadcast
        set(batch.first * strides[0] + channel * strides[2],
            {std::min(batch.count, extents[0]), extents[1], std::min(channels.count, extents[2])},
            {batch.step * strides[0], strides[1], channels.step * strides[2]});
    }
    box.data = static_cast<char*>(box.data) + first * size_of(box.dtype);
    return box;
}

// The reference of a part.
template <typename L>
Reference<L> reference_of(Machine& machine, const L& layer, const Tensors& tensors, const Part& part) {
    L wide = layer.widened();
    wide.gradients = layer.gradients;
    wide.batch = part.batch.count;
    wide.channels = part.channels.count;
    if constexpr (requires { wide.groups; }) wide.groups = 1;
    if constexpr (requires { wide.strided; }) wide.strided = false;
    std::vector<std::byte> reset;
    if (layer.reset) reset = machine.gather(box_of(layer, tensors[FLASHSCAN_ARG_RESET], part));
    return Reference<L>(std::move(wide), "reference", std::move(reset), tensors.offsets());
}

// How many terms an output sums up beside those of its own row.
double sum_length(const support::Problem& p, int32_t id) {
    const auto [batch, time, channels] = p.gate_extents();
    return id == (grad | FLASHSCAN_ARG_GATE)
               ? static_cast<double>(p.elements()) / static_cast<double>(batch * time * channels)
               : 0;
}
template <typename L>
double sum_length(const L& layer, int32_t id) {
    if (!is_of_channels(id) && !is_matrix(id)) return 1;
    const bool steps = is_matrix(id) && has_steps(layer, id);
    return static_cast<double>(steps ? layer.channels / groups_of(layer) : layer.batch * layer.time);
}

// One rounding to the output's dtype and, for gates that forget within tens of steps, a few hundred in the arithmetic;
// sums add the square root of their length. Where OUTPUT hides the states, backward reads them as RESERVE has them.
template <typename L>
double error_bound(const Problem& p, const L& layer, const Tensor& tensor) {
    const double kept = p.backward && has_reserve(layer) ? 2 * roundoff(p.dtype) : 0;
    return 2 * roundoff(tensor.box.dtype) + kept +
           256 * (1 + std::sqrt(sum_length(layer, tensor.id)) / 16) * roundoff(state_dtype(p.dtype));
}

// Compares what `wanted` names of the outputs.
template <typename L, typename Wanted>
void check_part(Machine& machine, const Problem& p, const L& layer, const Tensors& tensors, const Part& part,
                Wanted wanted, Verdict& verdict) {
    Values values;
    for (const Tensor& tensor : tensors.tensors())
        if (tensor.id != FLASHSCAN_ARG_RESET)
            values[tensor.id] = widen(machine.gather(box_of(layer, tensor, part)), tensor.box.dtype);
    Reference<L> reference = reference_of(machine, layer, tensors, part);
    Values expected;
    if (!p.backward || has_reserve(layer)) expected = reference.run(false, values);
    if (p.backward) expected = reference.run(true, values);
    for (const Tensor& tensor : tensors.tensors())
        if (tensor.written && wanted(tensor.id))
            verdict.add(relative_error(values[tensor.id], expected.at(tensor.id)), error_bound(p, layer, tensor));
}

constexpr int64_t few = int64_t{1} << 20, most = int64_t{1} << 26;

// Compares as many rows as the reference takes in about a second; where the gate is broadcast, all that are summed up.
Verdict check(Machine& machine, const Problem& problem, const support::Problem& p, const Tensors& tensors) {
    const int64_t rows = std::max<int64_t>(few / p.time, 1);
    const int64_t batches = std::min<int64_t>(p.batch, std::max<int64_t>(rows / 4, 1));
    const int64_t channels = std::max<int64_t>(rows / batches, 1);
    Part part = part_of(p, batches, channels);
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
                                                  : channels);
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
    const Part part = part_of(layer, layer.batch, std::max<int64_t>(few / steps, 1));
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
    if (layer.time * states_of(layer) > most / width) {
        verdict.what += ", GRAD|B and GRAD|C not compared";
        verdict.accept_nothing(true);
        return verdict;
    }
    check_part(machine, problem, layer, tensors, part_of(layer, 1, width), sums_channels, verdict);
    verdict.what += ", GRAD|B and GRAD|C of 1 row";
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
