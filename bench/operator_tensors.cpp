// SPDX-License-Identifier: Apache-2.0
// The arguments of associative operators. Factors are near 1 and the rows of matrices sum to 1, so that no product
// leaves the range of numbers. A backward pass gets OUTPUT from a forward pass of the same plan.
#include "tensors.h"

namespace bench {
namespace {

float uniform(uint64_t index, uint64_t seed) { return random_value(Kind::data, false, index, seed).re; }

// Neighbours in a row deviate from 1 / d by as much in either direction.
float matrix_number(int64_t dim, int64_t place, uint64_t seed) {
    const int64_t row = place / dim, column = place % dim;
    const float mean = 1.0F / static_cast<float>(dim);
    if (column == dim - 1 && dim % 2 == 1) return mean;
    const float deviation = uniform(static_cast<uint64_t>(row * dim + column / 2), seed);
    return mean * (1 + 0.9F * (column % 2 == 0 ? deviation : -deviation));
}

}  // namespace

void Tensors::add_operator_element(int32_t id, int64_t count, int64_t element) {
    const Problem& p = problem_;
    const bool matrix = element == p.op->dim * p.op->dim && p.op->dim > 0 && id != FLASHSCAN_ARG_STATE_IN;
    const bool factor = p.op->kind == FLASHSCAN_OPERATOR_MUL;
    if (!matrix && !factor) return add_dense(id, p.dtype, Kind::data, count * element, false);
    std::vector<std::byte> data(static_cast<size_t>(count * element * size_of(p.dtype)));
    const auto seed = static_cast<uint64_t>(id);
    for (int64_t i = 0; i < count * element; ++i) {
        const float value =
            matrix ? matrix_number(p.op->dim, i, seed) : 1 + 0.001F * uniform(static_cast<uint64_t>(i), seed);
        store(data.data(), p.dtype, i, {value, 0});
    }
    add_dense(id, p.dtype, Kind::data, count * element, false);
    machine_.upload(args_.back().data, data.data(), data.size());
}

void Tensors::add_operator() {
    const Problem& p = problem_;
    const OperatorPart& op = *p.op;
    constexpr int32_t grad = FLASHSCAN_GRAD;
    const int64_t steps = p.extents.count(), chains = p.extents.batch * p.extents.channels;
    const int64_t outputs = (op.reduction() ? chains : steps) * op.element();
    const int32_t wide = state_dtype(p.dtype);
    add_operator_element(FLASHSCAN_ARG_INPUT, steps, op.element());
    if (op.affine()) add_operator_element(FLASHSCAN_ARG_GATE, steps, op.gate_element());
    if (p.states) add_dense(FLASHSCAN_ARG_STATE_IN, wide, Kind::gate_value, chains * op.element(), false);
    if (p.states && !p.backward) add_dense(FLASHSCAN_ARG_STATE_OUT, wide, Kind::data, chains * op.element(), true);
    add_dense(FLASHSCAN_ARG_OUTPUT, p.dtype, Kind::data, outputs, true);
    machine_.synchronize();
    if (!p.backward) return;
    run_forward();
    const bool reads_input = op.custom || (op.affine() ? op.reduction() : op.kind != FLASHSCAN_OPERATOR_ADD);
    const bool reads_output = (op.affine() || op.matmul()) && !op.reduction() && !op.custom;
    std::erase_if(args_, [&](const flashscan_arg& arg) {
        return (arg.id == FLASHSCAN_ARG_INPUT && !reads_input) || (arg.id == FLASHSCAN_ARG_OUTPUT && !reads_output);
    });
    add_dense(grad | FLASHSCAN_ARG_OUTPUT, p.dtype, Kind::data, outputs, false);
    add_dense(grad | FLASHSCAN_ARG_INPUT, p.dtype, Kind::data, steps * op.element(), true);
    if (op.affine()) add_dense(grad | FLASHSCAN_ARG_GATE, p.dtype, Kind::data, steps * op.gate_element(), true);
    if (p.states) {
        add_dense(grad | FLASHSCAN_ARG_STATE_OUT, wide, Kind::data, chains * op.element(), false);
        add_dense(grad | FLASHSCAN_ARG_STATE_IN, wide, Kind::data, chains * op.element(), true);
    }
    machine_.synchronize();
}

}  // namespace bench
