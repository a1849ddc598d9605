// SPDX-License-Identifier: Apache-2.0
#include "golden/make_case.h"

#include <cmath>

#include "golden/maker.h"
#include "support/cells.h"
#include "support/operators.h"

namespace golden {
Case linear(const char* name, flashscan_linear_desc desc, Choice choice) {
    desc.struct_size = sizeof desc;
    if (desc.dtype == 0) desc.dtype = FLASHSCAN_DTYPE_F64;
    if (choice.real_gate) desc.gate_dtype = FLASHSCAN_DTYPE_F64;
    Case made{.name = name, .desc = desc};
    Maker maker(made, desc.dtype == FLASHSCAN_DTYPE_C128);
    const auto shape = [&](int64_t b, int64_t t, int64_t c) {
        return desc.layout != FLASHSCAN_LAYOUT_BCT ? Shape{b, t, c} : Shape{b, c, t};
    };
    const auto extent = [&](int64_t full, uint32_t axis) { return (desc.gate_broadcast & axis) != 0 ? 1 : full; };
    const Shape data = shape(desc.batch, desc.time, desc.channels);
    const Shape gate = shape(extent(desc.batch, FLASHSCAN_BROADCAST_BATCH), extent(desc.time, FLASHSCAN_BROADCAST_TIME),
                             extent(desc.channels, FLASHSCAN_BROADCAST_CHANNELS));
    const Shape state = {desc.num_sequences > 0 ? desc.num_sequences : desc.batch, desc.channels};

    maker.in(maker.tensor(FLASHSCAN_ARG_INPUT, data, 1), false);
    maker.in(maker.tensor(FLASHSCAN_ARG_GATE, gate, desc.gate_form == FLASHSCAN_GATE_LOGIT ? 2 : 1, choice.real_gate),
             true);
    if (desc.gate_form == FLASHSCAN_GATE_LOG)
        for (double& number : made.inputs.back().data) number = -std::abs(number);
    if ((desc.flags & FLASHSCAN_LINEAR_FLAG_RESET) != 0) maker.reset(desc.batch, desc.time);
    if (desc.num_sequences > 0) maker.offsets(desc.time, desc.num_sequences, desc.offsets_dtype == FLASHSCAN_DTYPE_I32);
    maker.out(FLASHSCAN_ARG_OUTPUT, data, true);
    if (choice.states) {
        maker.in(maker.tensor(FLASHSCAN_ARG_STATE_IN, state, 1), true);
        maker.out(FLASHSCAN_ARG_STATE_OUT, state, false);
    }
    for (const int32_t id : {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_STATE_IN}) maker.gradient(id);
    return made;
}

namespace {

// h c n m: n = 0 says that an element has no past, and is 1 or more otherwise.
void make_slstm_state(Tensor& state) {
    const size_t block = state.data.size() / 4;
    for (size_t i = 2 * block; i < 3 * block; ++i) state.data[i] = 1 + std::abs(state.data[i]);
    state.data[2 * block] = 0;
}

}  // namespace

Case rnn(const char* name, flashscan_rnn_desc desc, Choice choice) {
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F64;
    if (desc.batch == 0) desc.batch = 2;
    if (desc.time == 0) desc.time = 3;
    desc.heads = desc.head_dim = 2;
    Case made{.name = name, .desc = desc};
    Maker maker(made, false);
    const flashscan::CellRow& row = support::cell_row(desc.cell);
    const int64_t gates = row.gates, states = row.states, biases = row.biases;
    const int64_t heads = desc.heads, dim = desc.head_dim;
    const bool time_first = desc.layout == FLASHSCAN_LAYOUT_TBGHD;
    const int64_t outer = time_first ? desc.time : desc.batch, inner = time_first ? desc.batch : desc.time;
    const bool training = (desc.flags & FLASHSCAN_RNN_FLAG_TRAINING) != 0;
    Shape output = {outer, inner, heads, dim};
    if ((desc.flags & FLASHSCAN_RNN_FLAG_ALL_STATES) != 0) output.insert(output.begin(), states);
    const Shape state = {states, desc.num_sequences > 0 ? desc.num_sequences : desc.batch, heads, dim};

    maker.in(maker.tensor(FLASHSCAN_ARG_INPUT, {outer, inner, gates, heads, dim}, 2), false);
    maker.in(maker.tensor(FLASHSCAN_ARG_WEIGHT, {gates, heads, dim, dim}, 1), true);
    if (choice.bias) maker.in(maker.tensor(FLASHSCAN_ARG_BIAS, {biases, heads, dim}, 0.5), false);
    if ((desc.flags & FLASHSCAN_RNN_FLAG_RESET) != 0) maker.reset(desc.batch, desc.time);
    if (desc.num_sequences > 0) maker.offsets(desc.time, desc.num_sequences, desc.offsets_dtype == FLASHSCAN_DTYPE_I32);
    maker.out(FLASHSCAN_ARG_OUTPUT, output, true);
    if (choice.states) {
        maker.in(maker.tensor(FLASHSCAN_ARG_STATE_IN, state, 1), true);
        if (desc.cell == FLASHSCAN_CELL_SLSTM) make_slstm_state(made.inputs.back());
        maker.out(FLASHSCAN_ARG_STATE_OUT, state, false);
    }
    if (training)
        for (const int32_t id : {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_WEIGHT, FLASHSCAN_ARG_BIAS, FLASHSCAN_ARG_STATE_IN})
            maker.gradient(id);
    return made;
}

Case scan(const char* name, flashscan_operator_desc desc, Choice choice) {
    desc.struct_size = sizeof desc;
    if (desc.dtype == 0) desc.dtype = FLASHSCAN_DTYPE_F64;
    if (desc.batch == 0) desc.batch = 2;
    if (desc.time == 0) desc.time = 5;
    if (desc.channels == 0) desc.channels = 2;
    Case made{.name = name, .desc = desc};
    Maker maker(made, desc.dtype == FLASHSCAN_DTYPE_C128);
    const bool affine = desc.kind == FLASHSCAN_OPERATOR_AFFINE, matmul = desc.kind == FLASHSCAN_OPERATOR_MATMUL;
    const bool reduction = desc.mode == FLASHSCAN_MODE_REDUCTION;
    const Shape element = matmul ? Shape{desc.dim, desc.dim} : affine ? Shape{desc.dim} : Shape{};
    const auto with = [](Shape shape, const Shape& last) {
        shape.insert(shape.end(), last.begin(), last.end());
        return shape;
    };
    const Shape axes = desc.layout != FLASHSCAN_LAYOUT_BCT ? Shape{desc.batch, desc.time, desc.channels}
                                                           : Shape{desc.batch, desc.channels, desc.time};
    const Shape state = with({desc.num_sequences > 0 ? desc.num_sequences : desc.batch, desc.channels}, element);

    const flashscan::OperatorRow& row = support::operator_row(desc.kind);
    const bool input_reused = affine ? reduction : row.has_slopes;
    maker.in(maker.tensor(FLASHSCAN_ARG_INPUT, with(axes, element), 1), input_reused);
    if (row.has_index)  // ties
        for (double& number : made.inputs.back().data) number = std::round(4 * number) / 4;
    if (affine) maker.in(maker.tensor(FLASHSCAN_ARG_GATE, with(axes, {desc.dim, desc.dim}), 1), true);
    if (desc.num_sequences > 0) maker.offsets(desc.time, desc.num_sequences, desc.offsets_dtype == FLASHSCAN_DTYPE_I32);
    maker.out(FLASHSCAN_ARG_OUTPUT, reduction ? state : with(axes, element), (affine || matmul) && !reduction);
    if (choice.states) {
        maker.in(maker.tensor(FLASHSCAN_ARG_STATE_IN, state, 1), true);
        maker.out(FLASHSCAN_ARG_STATE_OUT, state, false);
    }
    if (choice.index) {
        made.outputs.push_back(maker.zeros(FLASHSCAN_ARG_INDEX, made.outputs.front().shape));
        return made;
    }
    for (const int32_t id : {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_STATE_IN}) maker.gradient(id);
    return made;
}

Case integer_scan(const char* name, flashscan_operator_desc desc, int64_t most, std::vector<std::string> dtypes,
                  Choice choice) {
    desc.dtype = FLASHSCAN_DTYPE_I64;
    Case made = scan(name, desc, choice);
    made.integers = std::move(dtypes);
    for (Tensor& tensor : made.inputs)
        if (tensor.id != FLASHSCAN_ARG_SEQ_OFFSETS)
            for (double& number : tensor.data) number = std::floor((number + 1) / 2 * static_cast<double>(most));
    made.grad_outputs.clear();
    return made;
}

}  // namespace golden
