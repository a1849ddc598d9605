// SPDX-License-Identifier: Apache-2.0
// Recurrent networks: rows of the batch against the reference, as many as it takes in a few seconds, and some elements
// of the sums over batch and time against sums of the pass's own GRAD|INPUT and OUTPUT.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference.h"
#include "support/cells.h"

namespace bench {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;

bool is_input(int32_t id) { return (id & ~grad) == FLASHSCAN_ARG_INPUT; }
bool is_sum(int32_t id) { return id == (grad | FLASHSCAN_ARG_WEIGHT) || id == (grad | FLASHSCAN_ARG_BIAS); }

// All of them where nothing but sums over the batch is computed.
int64_t choose_rows(const Problem& p) {
    const auto written = written_by(*p.rnn(), p.backward);
    if (std::all_of(written.begin(), written.end(), is_sum)) return p.extents.batch;
    const double products = static_cast<double>(p.rnn()->gates() * p.extents.time * p.extents.channels * p.rnn()->dim);
    return std::clamp(static_cast<int64_t>((p.backward ? 1e9 : 4e9) / products), int64_t{1}, p.extents.batch);
}

// The part of a tensor that belongs to the last `rows` of the batch, in the order [states, batch, time, ...].
std::vector<double> fetch(Machine& machine, const Problem& p, const Tensor& tensor, int64_t rows) {
    Box box = tensor.box;
    const int64_t batch = p.extents.batch, time = p.extents.time, skipped = batch - rows;
    int64_t first = 0, parts = 1;
    if (is_state(tensor.id)) {
        const auto [extents, strides, given, shifted] = state_tensor(*p.rnn());
        const int64_t left = p.num_sequences > 0 ? 0 : skipped;
        box = {box.data, box.dtype, {extents[0], extents[1] - left, extents[2]}, {strides[0], strides[1], 1}};
        first = left * strides[1];
    } else if (is_input(tensor.id) || (tensor.id & ~grad) == FLASHSCAN_ARG_OUTPUT) {
        const int64_t step = p.extents.channels * (is_input(tensor.id) ? p.rnn()->gates() : 1);
        const bool batch_first = p.layout == FLASHSCAN_LAYOUT_BTGHD;
        box.extent[0] = rows, box.extent[1] = time, box.extent[2] = step;
        box.stride[0] = batch_first ? time * step : step, box.stride[1] = batch_first ? step : batch * step;
        first = skipped * box.stride[0];
        if (!is_input(tensor.id)) parts = p.rnn()->output_states();
    }
    char* const data = static_cast<char*>(box.data);
    const int64_t part = tensor.box.count() / parts;
    std::vector<double> values;
    for (int64_t s = 0; s < parts; ++s) {
        box.data = data + (s * part + first) * size_of(box.dtype);
        const std::vector<double> state = widen(machine.gather(box), box.dtype);
        values.insert(values.end(), state.begin(), state.end());
    }
    return values;
}

// RESET as [batch, time], empty where there is none.
std::vector<std::byte> fetch_reset(Machine& machine, const Problem& p, const Tensors& tensors) {
    return p.rnn()->reset ? machine.gather(tensors[FLASHSCAN_ARG_RESET].box) : std::vector<std::byte>();
}

// Runs the passes of the reference on the last `rows` of the batch; the outputs in `values` are replaced.
void run_reference(Machine& machine, const Problem& p, const Tensors& tensors, int64_t rows, Values& values) {
    support::RnnProblem part = p.rnn()->widened();
    part.layout = FLASHSCAN_LAYOUT_BTGHD;
    part.batch = rows;
    part.all_states = p.rnn()->all_states, part.backward = p.backward, part.gradients = p.rnn()->gradients;
    if (rows < p.extents.batch) part.gradients &= ~(support::rnn_gradient_weight | support::rnn_gradient_bias);
    std::vector<std::byte> reset = fetch_reset(machine, p, tensors);
    reset.erase(reset.begin(), reset.end() - (reset.empty() ? 0 : rows * p.extents.time));
    Reference<support::RnnProblem> reference(part, "reference", std::move(reset), tensors.offsets());
    for (auto& [id, written] : reference.run(false, values)) values[id] = std::move(written);
    if (p.backward)
        for (auto& [id, written] : reference.run(true, values)) values[id] = std::move(written);
}

// The roundoff of the factors of products, 0 where they are not rounded.
double factor_roundoff(const Problem& p) {
    if (p.rnn()->takes_tf32()) return 0x1p-10;
    return size_of(p.dtype) == 2 ? roundoff(p.dtype) : 0;
}

// A rounding to the output's dtype and those of the factors of the products, which R of small norm does not amplify.
double error_bound(const Problem& p, const Tensor& tensor) {
    const double factors = (p.backward ? 6 : 2) * factor_roundoff(p);
    return 2 * roundoff(tensor.box.dtype) + factors + 256 * roundoff(state_dtype(p.dtype));
}

// Rounded factors let elements next to a kink, ReLU's or those of sLSTM's max, take the other branch, whose gradient is
// a different one: there the mean is compared.
bool has_kinks(const Problem& p) {
    const int32_t cell = p.rnn()->cell;
    return p.backward && factor_roundoff(p) > 0 && (cell == FLASHSCAN_CELL_SLSTM || cell == FLASHSCAN_CELL_ELMAN_RELU);
}
double mean_error(const std::vector<double>& got, const std::vector<double>& expected) {
    double difference = 0, scale = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        difference += std::abs(got[i] - expected[i]);
        scale += std::abs(expected[i]);
    }
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    return scale > 0 ? difference / scale : difference;
}

// For every step in memory's order: the sequence that it begins, -1 where it carries on, -2 after a reset.
std::vector<int64_t> beginnings(Machine& machine, const Problem& p, const Tensors& tensors) {
    const int64_t B = p.extents.batch, T = p.extents.time;
    std::vector<int64_t> begins(static_cast<size_t>(B * T), -1);
    const std::vector<int64_t>& offsets = tensors.offsets();
    for (int64_t n = 0; n < p.state_rows(); ++n) {
        const bool packed = !offsets.empty();
        const int64_t begin = packed ? offsets[static_cast<size_t>(n)] : n * T;
        const int64_t end = packed ? offsets[static_cast<size_t>(n) + 1] : (n + 1) * T;
        if (begin < end) begins[static_cast<size_t>(p.rnn()->reverse ? end - 1 : begin)] = n;
    }
    const std::vector<std::byte> reset = fetch_reset(machine, p, tensors);
    for (size_t i = 0; i < reset.size(); ++i)
        if (reset[i] != std::byte{0}) begins[i] = -2;
    return begins;
}

// A few rows of GRAD|WEIGHT and elements of GRAD|BIAS, as sums over the steps of what the pass read and wrote. Gate n
// of cells with a reset is left out: its pre-activation's gradient is not in GRAD|INPUT, or its factor is not in
// OUTPUT.
void check_sums(Machine& machine, const Problem& p, const Tensors& tensors, Verdict& verdict) {
    const int64_t B = p.extents.batch, T = p.extents.time, W = p.extents.channels, D = p.rnn()->dim;
    const bool resets = p.rnn()->cell == FLASHSCAN_CELL_GRU || support::cell_row(p.rnn()->cell).resets_before;
    const int64_t gates = p.rnn()->gates() - (resets ? 1 : 0);
    const auto box = [&](int32_t id, int64_t first, int64_t e0, int64_t e1, int64_t e2, int64_t s0, int64_t s1) {
        const Tensor& tensor = tensors[id];
        const Box part{static_cast<char*>(tensor.box.data) + first * size_of(tensor.box.dtype),
                       tensor.box.dtype,
                       {e0, e1, e2},
                       {s0, s1, 1}};
        return widen(machine.gather(part), tensor.box.dtype);
    };
    const bool batch_first = p.layout == FLASHSCAN_LAYOUT_BTGHD;
    const std::vector<int64_t> begins = beginnings(machine, p, tensors);
    const std::vector<double> zeros(static_cast<size_t>(D));
    std::vector<double> got_weight, want_weight, got_bias, want_bias;
    for (int64_t pick = 0; pick < 4; ++pick) {
        const int64_t gate = pick % gates, head = pick * (p.rnn()->heads - 1) / 3, j = pick * (D - 1) / 3;
        const int64_t step = p.rnn()->gates() * W, row = (gate * p.rnn()->heads + head) * D + j;
        const std::vector<double> dx =
            box(grad | FLASHSCAN_ARG_INPUT, row, B, T, 1, batch_first ? T * step : step, batch_first ? step : B * step);
        const std::vector<double> h =
            box(FLASHSCAN_ARG_OUTPUT, head * D, B, T, D, batch_first ? T * W : W, batch_first ? W : B * W);
        std::vector<double> first(static_cast<size_t>(p.state_rows() * D));
        if (p.rnn()->state_in)
            first = box(FLASHSCAN_ARG_STATE_IN, head * D, 1, p.state_rows(), D, 0, state_tensor(*p.rnn()).strides[1]);
        std::vector<double> sum(static_cast<size_t>(D));
        double bias = 0;
        for (int64_t b = 0; b < B; ++b)
            for (int64_t t = 0; t < T; ++t) {
                const double d = dx[static_cast<size_t>(b * T + t)];
                const int64_t before = p.rnn()->reverse ? t + 1 : t - 1, begun = begins[static_cast<size_t>(b * T + t)];
                const double* factor = begun == -2  ? zeros.data()
                                       : begun >= 0 ? first.data() + begun * D
                                                    : h.data() + (b * T + before) * D;
                for (int64_t k = 0; k < D; ++k) sum[static_cast<size_t>(k)] += d * factor[k];
                bias += d;
            }
        const std::vector<double> weight = box(grad | FLASHSCAN_ARG_WEIGHT, row * D, 1, 1, D, 0, 0);
        got_weight.insert(got_weight.end(), weight.begin(), weight.end());
        want_weight.insert(want_weight.end(), sum.begin(), sum.end());
        if (!tensors.contains(grad | FLASHSCAN_ARG_BIAS)) continue;
        got_bias.push_back(box(grad | FLASHSCAN_ARG_BIAS, row, 1, 1, 1, 0, 0)[0]);
        want_bias.push_back(bias);
    }
    verdict.add(relative_error(got_weight, want_weight), error_bound(p, tensors[grad | FLASHSCAN_ARG_WEIGHT]));
    if (!got_bias.empty())
        verdict.add(relative_error(got_bias, want_bias), error_bound(p, tensors[grad | FLASHSCAN_ARG_BIAS]));
}

}  // namespace

Verdict check_rnn_outputs(Machine& machine, const Problem& problem, const Tensors& tensors) {
    const int64_t rows = choose_rows(problem);
    Values values, got;
    for (const Tensor& tensor : tensors.tensors()) {
        if (tensor.id == FLASHSCAN_ARG_RESET || (is_sum(tensor.id) && rows < problem.extents.batch)) continue;
        values[tensor.id] = fetch(machine, problem, tensor, rows);
        if (tensor.written) got[tensor.id] = values[tensor.id];
    }
    run_reference(machine, problem, tensors, rows, values);
    Verdict verdict;
    const auto error = has_kinks(problem) ? mean_error : relative_error;
    for (const Tensor& tensor : tensors.tensors())
        if (got.contains(tensor.id))
            verdict.add(error(got[tensor.id], values[tensor.id]), error_bound(problem, tensor));
    // A clipped gradient of the recurrence is in no argument.
    const bool sums = problem.rnn()->clip == 0 && tensors.contains(grad | FLASHSCAN_ARG_INPUT) &&
                      tensors.contains(grad | FLASHSCAN_ARG_WEIGHT);
    if (sums) check_sums(machine, problem, tensors, verdict);
    verdict.what = fmt::format("{} of {} rows{}", rows, problem.extents.batch, sums ? ", 4 rows of GRAD|WEIGHT" : "");
    return verdict;
}

}  // namespace bench
