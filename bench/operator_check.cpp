// SPDX-License-Identifier: Apache-2.0
// Associative operators: the last rows of the batch, as many as it takes in a few seconds, against the CPU backend in
// 64 bits, whose kernels the tests compare with the reference.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "check.h"

namespace bench {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;

using Values = std::map<int32_t, std::vector<double>>;

bool is_state(int32_t id) { return (id & ~grad) == FLASHSCAN_ARG_STATE_IN || (id & ~grad) == FLASHSCAN_ARG_STATE_OUT; }

int64_t choose_rows(const Problem& p) {
    const auto d = static_cast<double>(std::max<int64_t>(p.op->dim, 1));
    const double step = p.op->matmul() ? d * d * d : d * d;
    return std::clamp(static_cast<int64_t>(1e9 / (step * static_cast<double>(p.extents.time * p.extents.channels))),
                      int64_t{1}, p.extents.batch);
}

// Batch is the outermost axis of every argument.
std::vector<double> fetch(Machine& machine, const Problem& p, const Tensor& tensor, int64_t rows) {
    const int64_t row = tensor.box.count() / p.extents.batch;
    Box box{static_cast<char*>(tensor.box.data) + (p.extents.batch - rows) * row * size_of(tensor.box.dtype),
            tensor.box.dtype,
            {1, rows, row},
            {0, row, 1}};
    return widen(machine.gather(box), tensor.box.dtype);
}

void run_wide(const Problem& p, int64_t rows, bool backward, Values& values, const std::vector<int32_t>& ids) {
    flashscan_operator_desc desc = p.describe_plain_operator();
    desc.dtype = is_complex(p.dtype) ? FLASHSCAN_DTYPE_C128 : FLASHSCAN_DTYPE_F64;
    desc.batch = rows;
    flashscan_plan* made = nullptr;
    if (flashscan_plan_operator(&made, &desc, nullptr) != FLASHSCAN_STATUS_OK)
        throw Failure(fmt::format("64 bits: {}", flashscan_last_error()));
    const std::unique_ptr<flashscan_plan, void (*)(flashscan_plan*)> plan(made, flashscan_plan_destroy);
    // A custom operator's calls have other arguments than those of the operator built in.
    const int32_t pass = backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
    std::vector<flashscan_arg> args;
    for (const int32_t id : ids) {
        size_t bytes = 0;
        if (values.contains(id) && flashscan_plan_arg_bytes(plan.get(), pass, id, &bytes) == FLASHSCAN_STATUS_OK)
            args.push_back({id, 0, values[id].data(), values[id].size() * sizeof(double)});
    }
    if (flashscan_execute(plan.get(), pass, args.data(), static_cast<int32_t>(args.size()), nullptr) !=
        FLASHSCAN_STATUS_OK)
        throw Failure(fmt::format("64 bits: {}", flashscan_last_error()));
}

// A rounding to the output's dtype, and those of a random walk over the operations on a path; OUTPUT of 16 bits, which
// backward reads, once more.
double error_bound(const Problem& p, const Tensor& tensor) {
    const double length = static_cast<double>(p.extents.time * std::max<int64_t>(p.op->dim, 1));
    const double read = p.backward && (p.op->matmul() || p.op->affine()) ? 2 * roundoff(p.dtype) : 0;
    return 2 * roundoff(is_state(tensor.id) ? tensor.box.dtype : p.dtype) + read +
           (16 + 4 * std::sqrt(length)) * roundoff(state_dtype(p.dtype));
}

}  // namespace

Verdict check_operator_outputs(Machine& machine, const Problem& problem, const Tensors& tensors) {
    const int64_t rows = choose_rows(problem);
    Values values, got;
    for (const Tensor& tensor : tensors.tensors()) {
        values[tensor.id] = fetch(machine, problem, tensor, rows);
        if (tensor.written) got[tensor.id] = values[tensor.id];
    }
    std::vector<int32_t> ids;
    for (const Tensor& tensor : tensors.tensors())
        if ((tensor.id & grad) == 0) ids.push_back(tensor.id);
    run_wide(problem, rows, false, values, ids);
    if (problem.backward) {
        ids.assign(1, FLASHSCAN_ARG_OUTPUT);
        for (const flashscan_arg& arg : tensors.args())
            if (arg.id != FLASHSCAN_ARG_OUTPUT) ids.push_back(arg.id);
        run_wide(problem, rows, true, values, ids);
    }
    Verdict verdict;
    for (const Tensor& tensor : tensors.tensors())
        if (got.contains(tensor.id))
            verdict.add(relative_error(got[tensor.id], values[tensor.id]), error_bound(problem, tensor));
    verdict.what = fmt::format("{} of {} rows", rows, problem.extents.batch);
    return verdict;
}

}  // namespace bench
