// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

namespace bench {
namespace {

struct Rows {
    Picks batch, channels;
    bool sums = true;  // whether the sums of a broadcast gate's gradient are complete in these rows
};

// As many rows as the reference takes in about a second; all that are summed up where the gate is broadcast.
Rows choose_rows(const Problem& p) {
    constexpr int64_t few = int64_t{1} << 20, most = int64_t{1} << 26;
    const int64_t rows = std::max<int64_t>(few / p.extents.time, 1);
    const int64_t batches = std::min<int64_t>(p.extents.batch, std::max<int64_t>(rows / 4, 1));
    const int64_t channels = std::max<int64_t>(rows / batches, 1);
    if (!p.backward || p.gate_broadcast == 0) return {{p.extents.batch, batches}, {p.extents.channels, channels}};
    const bool all_batches = (p.gate_broadcast & FLASHSCAN_BROADCAST_BATCH) != 0;
    const bool all_channels = (p.gate_broadcast & FLASHSCAN_BROADCAST_CHANNELS) != 0;
    const Rows wanted{{p.extents.batch, all_batches    ? p.extents.batch
                                        : all_channels ? 1
                                                       : batches},
                      {p.extents.channels, all_channels  ? p.extents.channels
                                           : all_batches ? 1
                                                         : channels}};
    if (wanted.batch.count * wanted.channels.count * p.extents.time <= most) return wanted;
    return {{p.extents.batch, batches}, {p.extents.channels, channels}, false};
}

double to_double(const std::byte* data, int32_t dtype, size_t index) {
    const auto read = [&]<typename T>(T) {
        T value;
        std::memcpy(&value, data + index * sizeof(T), sizeof(T));
        return value;
    };
    switch (dtype) {
    case FLASHSCAN_DTYPE_BF16: return from_bf16(read(uint16_t{}));
    case FLASHSCAN_DTYPE_F16: return from_f16(read(uint16_t{}));
    case FLASHSCAN_DTYPE_F32:
    case FLASHSCAN_DTYPE_C64: return static_cast<double>(read(float{}));
    default: return read(double{});
    }
}

// The chosen rows of a tensor, order [batch, time, channel].
std::vector<std::byte> fetch(Machine& machine, const Tensor& tensor, const Rows& rows, const Problem& p) {
    const bool is_state = tensor.id == FLASHSCAN_ARG_STATE_IN || tensor.id == FLASHSCAN_ARG_STATE_OUT ||
                          tensor.id == (FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_IN) ||
                          tensor.id == (FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_OUT);
    const bool is_gate = (tensor.id & ~FLASHSCAN_GRAD) == FLASHSCAN_ARG_GATE;
    const Extents has = is_gate    ? p.gate_extents()
                        : is_state ? Extents{p.state_rows(), 1, p.extents.channels}
                                   : Extents{p.extents.batch, p.extents.time, p.extents.channels};
    const bool all_rows = is_state && p.num_sequences > 0;
    const Picks batch = all_rows ? Picks(has.batch, has.batch) : has.batch == 1 ? Picks(1, 1) : rows.batch;
    const bool no_channels = has.channels == 1 || tensor.id == FLASHSCAN_ARG_RESET;
    const Picks channels = no_channels ? Picks(1, 1) : rows.channels;
    const int64_t first = batch.first * tensor.offset_of_batch + channels.first * tensor.offset_of_channel;
    Box box{static_cast<char*>(tensor.box.data) + first * size_of(tensor.box.dtype),
            tensor.box.dtype,
            {batch.count, has.time, channels.count},
            {batch.step * tensor.offset_of_batch, tensor.offset_of_time, channels.step * tensor.offset_of_channel}};
    return machine.gather(box);
}

using Values = std::map<int32_t, std::vector<double>>;

// Runs the reference on `values`; the outputs in it are replaced.
void run_reference(const Problem& p, const Rows& rows, Values& values, std::vector<std::byte>& reset,
                   std::vector<int64_t> offsets) {
    flashscan_linear_desc desc = p.describe();
    desc.dtype = is_complex(p.dtype) ? FLASHSCAN_DTYPE_C128 : FLASHSCAN_DTYPE_F64;
    desc.gate_dtype = is_complex(p.gate_dtype) ? FLASHSCAN_DTYPE_C128 : FLASHSCAN_DTYPE_F64;
    desc.layout = FLASHSCAN_LAYOUT_BTC;
    desc.batch = rows.batch.count;
    desc.channels = rows.channels.count;
    desc.input = desc.gate = desc.grad_input = desc.grad_gate = {};
    flashscan_options options{};
    options.struct_size = sizeof options;
    options.backend = FLASHSCAN_BACKEND_CPU;
    options.kernel = "reference";
    flashscan_plan* plan = nullptr;
    if (flashscan_plan_linear(&plan, &desc, &options) != FLASHSCAN_STATUS_OK)
        throw Failure(fmt::format("reference: {}", flashscan_last_error()));
    std::vector<flashscan_arg> args;
    for (auto& [id, data] : values) args.push_back({id, 0, data.data(), data.size() * sizeof(double)});
    if (!reset.empty()) args.push_back({FLASHSCAN_ARG_RESET, 0, reset.data(), reset.size()});
    if (!offsets.empty())
        args.push_back({FLASHSCAN_ARG_SEQ_OFFSETS, 0, offsets.data(), offsets.size() * sizeof(int64_t)});
    const int32_t pass = p.backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
    const flashscan_status status =
        flashscan_execute(plan, pass, args.data(), static_cast<int32_t>(args.size()), nullptr);
    flashscan_plan_destroy(plan);
    if (status != FLASHSCAN_STATUS_OK) throw Failure(fmt::format("reference: {}", flashscan_last_error()));
}

// One rounding to the output's dtype and, for gates that forget within tens of steps, a few hundred in the arithmetic;
// sums over a broadcast gate add the square root of their length.
double error_bound(const Problem& p, const Tensor& tensor) {
    double steps = 256;
    if (tensor.id == (FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE))
        steps *=
            1 + std::sqrt(static_cast<double>(p.extents.count()) / static_cast<double>(p.gate_extents().count())) / 16;
    return 2 * roundoff(tensor.box.dtype) + steps * roundoff(state_dtype(p.dtype));
}

}  // namespace

Picks::Picks(int64_t extent, int64_t wanted) : count(std::clamp<int64_t>(wanted, 1, extent)) {
    step = count > 1 ? (extent - 1) / (count - 1) : 1;
    first = extent - 1 - (count - 1) * step;
}

std::vector<double> widen(const std::vector<std::byte>& data, int32_t dtype) {
    const auto components = static_cast<size_t>(is_complex(dtype) ? 2 : 1);
    std::vector<double> wide(data.size() / static_cast<size_t>(size_of(dtype)) * components);
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = to_double(data.data(), dtype, i);
    return wide;
}

double relative_error(const std::vector<double>& got, const std::vector<double>& expected) {
    double difference = 0, scale = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        // The identities of min and max are infinite.
        if (std::isinf(got[i]) && got[i] == expected[i]) continue;
        if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
        difference = std::max(difference, std::abs(got[i] - expected[i]));
        scale = std::max(scale, std::abs(expected[i]));
    }
    return scale > 0 ? difference / scale : difference;
}

void Verdict::add(double new_error, double new_bound) {
    passed = (passed || bound == 0) && new_error <= new_bound;
    if (bound == 0 || new_error / new_bound > error / bound) {
        error = new_error;
        bound = new_bound;
    }
}

Verdict check_outputs(Machine& machine, const Problem& problem, const Tensors& tensors) {
    if (problem.rnn) return check_rnn_outputs(machine, problem, tensors);
    if (problem.op) return check_operator_outputs(machine, problem, tensors);
    if (problem.layer) return check_layer_outputs(machine, problem, tensors);
    const Rows rows = choose_rows(problem);
    Values values, got;
    std::vector<std::byte> reset;
    for (const Tensor& tensor : tensors.tensors()) {
        std::vector<std::byte> data = fetch(machine, tensor, rows, problem);
        if (tensor.id == FLASHSCAN_ARG_RESET) {
            reset = std::move(data);
            continue;
        }
        values[tensor.id] = widen(data, tensor.box.dtype);
        if (tensor.written) got[tensor.id] = values[tensor.id];
    }
    run_reference(problem, rows, values, reset, tensors.offsets());
    Verdict verdict;
    for (const Tensor& tensor : tensors.tensors()) {
        if (!tensor.written || (tensor.id == (FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE) && !rows.sums)) continue;
        const double error = relative_error(got[tensor.id], values[tensor.id]);
        verdict.add(error, error_bound(problem, tensor));
    }
    verdict.what = fmt::format("{} of {} rows{}", rows.batch.count * rows.channels.count,
                               problem.extents.batch * problem.extents.channels,
                               rows.sums ? "" : ", the gate's gradient not compared");
    return verdict;
}

}  // namespace bench
