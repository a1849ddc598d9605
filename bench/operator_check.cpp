// SPDX-License-Identifier: Apache-2.0
// Associative operators: the last rows of the batch, as many as it takes in a few seconds, against the CPU backend in
// 64 bits, whose kernels the tests compare with the reference.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reference.h"

namespace bench {
namespace {

int64_t choose_rows(const Problem& p) {
    const auto d = static_cast<double>(std::max<int64_t>(p.op()->dim, 1));
    const double step = p.op()->matmul() ? d * d * d : d * d;
    return std::clamp(static_cast<int64_t>(1e9 / (step * static_cast<double>(p.extents.time * p.extents.channels))),
                      int64_t{1}, p.extents.batch);
}

// Batch is the outermost axis of every argument, but for states of packed sequences, of which all are taken.
std::vector<double> fetch(Machine& machine, const Problem& p, const Tensor& tensor, int64_t rows) {
    const int64_t skipped = p.extents.batch - rows;
    Box box = tensor.box;
    int64_t first = 0;
    if (is_state(tensor.id)) {
        const support::Tensor states = state_tensor(*p.op());
        const int64_t left = p.num_sequences > 0 ? 0 : skipped;
        box = {box.data, box.dtype, {1, states.extents[1] - left, states.extents[2]}, {0, states.strides[1], 1}};
        first = left * states.strides[1];
    } else {
        const int64_t row = tensor.box.count() / p.extents.batch;
        box = {box.data, box.dtype, {1, rows, row}, {0, row, 1}};
        first = skipped * row;
    }
    box.data = static_cast<char*>(box.data) + first * size_of(box.dtype);
    return widen(machine.gather(box), box.dtype);
}

// A rounding to the output's dtype, and those of a random walk over the operations on a path; OUTPUT of 16 bits, which
// backward reads, once more. With tf32 these are of its 11 bits. Slopes of LOGADDEXP are exponentials of y, which grows
// like the logarithm of the steps: an error of y is a relative one of theirs.
double error_bound(const Problem& p, const Tensor& tensor) {
    if (support::is_integer(tensor.box.dtype)) return 0x1p-53;  // they are exact, and compared as f64
    const double unit =
        p.op()->allow_tf32 ? std::max(0x1p-11, roundoff(state_dtype(p.dtype))) : roundoff(state_dtype(p.dtype));
    const double length = static_cast<double>(p.extents.time * std::max<int64_t>(p.op()->dim, 1));
    const double read = p.backward && (p.op()->matmul() || p.op()->affine()) ? 2 * roundoff(p.dtype) : 0;
    const double sizes = p.backward && p.op()->kind == FLASHSCAN_OPERATOR_LOGADDEXP ? 1 + std::log(length) : 1;
    return 2 * roundoff(is_state(tensor.id) ? tensor.box.dtype : p.dtype) + read +
           (16 + 4 * std::sqrt(length)) * sizes * unit;
}

}  // namespace

Verdict check_operator_outputs(Machine& machine, const Problem& problem, const Tensors& tensors) {
    const int64_t rows = choose_rows(problem);
    Values values, got;
    for (const Tensor& tensor : tensors.tensors()) {
        values[tensor.id] = fetch(machine, problem, tensor, rows);
        if (tensor.written) got[tensor.id] = values[tensor.id];
    }
    support::OperatorProblem part = problem.op()->widened();
    part.batch = rows;
    Reference<support::OperatorProblem> reference(part, nullptr, {}, tensors.offsets());
    // Backward takes OUTPUT as it is in 64 bits.
    for (auto& [id, written] : reference.run(false, values)) values[id] = std::move(written);
    if (problem.backward)
        for (auto& [id, written] : reference.run(true, values)) values[id] = std::move(written);
    Verdict verdict;
    for (const Tensor& tensor : tensors.tensors())
        if (got.contains(tensor.id))
            verdict.add(relative_error(got[tensor.id], values[tensor.id]), error_bound(problem, tensor));
    verdict.what = fmt::format("{} of {} rows", rows, problem.extents.batch);
    return verdict;
}

}  // namespace bench
