// SPDX-License-Identifier: Apache-2.0
// Gated layers and selective scans: some channels of the whole batch against the reference, so that sums over batch and
// time are complete; and gradients of B and C per step, sums over the channels of a group, on a whole group of one row.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "check.h"

namespace bench {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;
constexpr int32_t grad_b = grad | FLASHSCAN_ARG_B, grad_c = grad | FLASHSCAN_ARG_C;

using Values = std::map<int32_t, std::vector<double>>;

int64_t states_of(const support::GatedProblem&) { return 1; }
int64_t states_of(const support::SelectiveProblem& layer) { return layer.states; }
int64_t groups_of(const support::GatedProblem&) { return 1; }
int64_t groups_of(const support::SelectiveProblem& layer) { return layer.groups; }
bool has_steps(const support::GatedProblem&, int32_t) { return true; }
void set_groups(support::GatedProblem&) {}
void set_groups(support::SelectiveProblem& layer) { layer.groups = 1; }

bool is_state(int32_t id) { return (id & ~grad) == FLASHSCAN_ARG_STATE_IN || (id & ~grad) == FLASHSCAN_ARG_STATE_OUT; }
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
    const auto strides = tensor_of(layer, tensor.id).strides;
    const int64_t n = states_of(layer), channel = part.first_channel + part.channels.first;
    const Picks &batch = part.batch, &channels = part.channels;
    Box box{tensor.box.data, tensor.box.dtype, {}, {}};
    int64_t first = 0;
    const auto set = [&](int64_t at, const int64_t(&extents)[3], const int64_t(&steps)[3]) {
        first = at;
        std::copy(std::begin(extents), std::end(extents), std::begin(box.extent));
        std::copy(std::begin(steps), std::end(steps), std::begin(box.stride));
    };
    if (tensor.id == FLASHSCAN_ARG_RESET) {
        set(batch.first * layer.time, {batch.count, layer.time, 1}, {batch.step * layer.time, 1, 0});
    } else if (is_state(tensor.id)) {
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
    } else {
        set(batch.first * strides[0] + channel * strides[2], {batch.count, layer.time, channels.count},
            {batch.step * strides[0], strides[1], channels.step * strides[2]});
    }
    box.data = static_cast<char*>(box.data) + first * size_of(box.dtype);
    return box;
}

void expect_ok(flashscan_status status) {
    if (status != FLASHSCAN_STATUS_OK) throw Failure(fmt::format("reference: {}", flashscan_last_error()));
}

// A plan of the reference for a part, and the arguments that both of its passes have beside tensors.
template <typename L>
class Reference {
  public:
    Reference(Machine& machine, const L& layer, const Tensors& tensors, const Part& part)
        : layer_(layer.widened()), offsets_(tensors.offsets()) {
        layer_.batch = part.batch.count;
        layer_.channels = part.channels.count;
        layer_.offsets_dtype = FLASHSCAN_DTYPE_I64;
        set_groups(layer_);
        flashscan_options options{};
        options.struct_size = sizeof options;
        options.kernel = "reference";
        flashscan_plan* made = nullptr;
        expect_ok(plan_layer(&made, layer_, options));
        plan_.reset(made);
        if (layer.reset) {
            reset_ = machine.gather(box_of(layer, tensors[FLASHSCAN_ARG_RESET], part));
            shared_.push_back({FLASHSCAN_ARG_RESET, 0, reset_.data(), reset_.size()});
        }
        if (!offsets_.empty())
            shared_.push_back({FLASHSCAN_ARG_SEQ_OFFSETS, 0, offsets_.data(), offsets_.size() * sizeof(int64_t)});
        if (has_reserve(layer_)) add_reserve();
    }

    // Runs the reference on the values that the pass reads, and returns those that it writes.
    Values run(bool backward, Values& values) {
        Values written;
        std::vector<flashscan_arg> args = shared_;
        const auto add = [&](int32_t id, std::vector<double>& data) {
            args.push_back({id, 0, data.data(), data.size() * sizeof(double)});
        };
        for (const int32_t id : read_by(layer_, backward)) add(id, values.at(id));
        for (const int32_t id : written_by(layer_, backward)) {
            const auto& extents = tensor_of(layer_, id).extents;
            const int64_t parts = is_complex(dtype_of(layer_, id)) ? 2 : 1;
            written[id].resize(static_cast<size_t>(extents[0] * extents[1] * extents[2] * parts));
            add(id, written[id]);
        }
        const int32_t pass = backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
        expect_ok(flashscan_execute(plan_.get(), pass, args.data(), static_cast<int32_t>(args.size()), nullptr));
        return written;
    }

  private:
    void add_reserve() {
        size_t bytes = 0;
        expect_ok(flashscan_plan_arg_bytes(plan_.get(), FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE, &bytes));
        memory_.resize(bytes + 64);
        void* aligned = memory_.data();
        size_t space = memory_.size();
        aligned = std::align(64, bytes, aligned, space);
        shared_.push_back({FLASHSCAN_ARG_RESERVE, 0, aligned, bytes});
    }

    L layer_;
    std::unique_ptr<flashscan_plan, void (*)(flashscan_plan*)> plan_{nullptr, flashscan_plan_destroy};
    std::vector<std::byte> reset_;
    std::vector<int64_t> offsets_;
    std::vector<char> memory_;
    std::vector<flashscan_arg> shared_;
};

// One rounding to the output's dtype and a few hundred in the arithmetic, as those of linear recurrences; sums add the
// square root of their length. Where OUTPUT hides the states, backward reads them as RESERVE has them.
template <typename L>
double error_bound(const Problem& p, const L& layer, const Tensor& tensor) {
    double length = 1;
    if (is_of_channels(tensor.id) || is_matrix(tensor.id)) {
        const bool steps = is_matrix(tensor.id) && has_steps(layer, tensor.id);
        length = static_cast<double>(steps ? layer.channels / groups_of(layer) : layer.batch * layer.time);
    }
    const double kept = p.backward && has_reserve(layer) ? 2 * roundoff(p.dtype) : 0;
    return 2 * roundoff(tensor.box.dtype) + kept + 256 * (1 + std::sqrt(length) / 16) * roundoff(state_dtype(p.dtype));
}

// Compares what `wanted` names of the outputs.
template <typename L, typename Wanted>
void check_part(Machine& machine, const Problem& p, const L& layer, const Tensors& tensors, const Part& part,
                Wanted wanted, Verdict& verdict) {
    Values values;
    for (const Tensor& tensor : tensors.tensors())
        if (tensor.id != FLASHSCAN_ARG_RESET)
            values[tensor.id] = widen(machine.gather(box_of(layer, tensor, part)), tensor.box.dtype);
    Reference<L> reference(machine, layer, tensors, part);
    Values expected;
    if (!p.backward || has_reserve(layer)) expected = reference.run(false, values);
    if (p.backward) expected = reference.run(true, values);
    for (const Tensor& tensor : tensors.tensors())
        if (tensor.written && wanted(tensor.id))
            verdict.add(relative_error(values[tensor.id], expected.at(tensor.id)), error_bound(p, layer, tensor));
}

}  // namespace

Verdict check_layer_outputs(Machine& machine, const Problem& problem, const Tensors& tensors) {
    return std::visit(
        [&](const auto& layer) {
            constexpr int64_t few = int64_t{1} << 20, most = int64_t{1} << 26;
            const int64_t steps = layer.batch * layer.time * states_of(layer);
            const int64_t width = layer.channels / groups_of(layer);
            const Part part = part_of(layer, layer.batch, std::max<int64_t>(few / steps, 1));
            const auto sums_channels = [&](int32_t id) {
                return (id == grad_b || id == grad_c) && part.channels.count < width && has_steps(layer, id);
            };
            Verdict verdict;
            check_part(
                machine, problem, layer, tensors, part, [&](int32_t id) { return !sums_channels(id); }, verdict);
            verdict.what =
                fmt::format("{} of {} rows", layer.batch * part.channels.count, layer.batch * layer.channels);
            const bool sums =
                std::any_of(tensors.tensors().begin(), tensors.tensors().end(),
                            [&](const Tensor& tensor) { return tensor.written && sums_channels(tensor.id); });
            if (!sums) return verdict;
            if (layer.time * states_of(layer) > most / width) {
                verdict.what += ", GRAD|B and GRAD|C not compared";
                return verdict;
            }
            check_part(machine, problem, layer, tensors, part_of(layer, 1, width), sums_channels, verdict);
            verdict.what += ", GRAD|B and GRAD|C of 1 row";
            return verdict;
        },
        *problem.layer);
}

}  // namespace bench
