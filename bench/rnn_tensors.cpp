// SPDX-License-Identifier: Apache-2.0
// The arguments of recurrent networks. A backward pass gets OUTPUT and RESERVE from a forward pass of the same plan.
#include <fmt/format.h>

#include "tensors.h"

namespace bench {

void Tensors::add_dense(int32_t id, int32_t dtype, Kind kind, int64_t count, bool written) {
    char* data = reserve(count, dtype);
    const auto bytes = static_cast<size_t>(count * size_of(dtype));
    const Box box{data, dtype, {1, 1, count}, {0, 0, 1}};
    if (written)
        machine_.poison(data, bytes);
    else
        machine_.fill(box, kind, static_cast<uint64_t>(id));
    tensors_.push_back({id, written, 0, 0, 1, box});
    args_.push_back({id, 0, data, bytes});
}

void Tensors::add_rnn_forward() {
    const Problem& p = problem_;
    const RnnPart& rnn = *p.rnn;
    const int64_t states = rnn.states() * p.state_rows() * p.extents.channels;
    add_dense(FLASHSCAN_ARG_INPUT, p.dtype, Kind::data, rnn.gates() * p.extents.count(), false);
    add_dense(FLASHSCAN_ARG_BIAS, rnn.weight_dtype, Kind::weight, rnn.biases() * p.extents.channels, false);
    add_dense(FLASHSCAN_ARG_WEIGHT, rnn.weight_dtype, Kind::weight, rnn.gates() * p.extents.channels * rnn.dim, false);
    add_dense(FLASHSCAN_ARG_OUTPUT, p.dtype, Kind::data, rnn.output_states() * p.extents.count(), true);
    if (p.states) {
        add_dense(FLASHSCAN_ARG_STATE_IN, state_dtype(p.dtype), Kind::data, states, false);
        if (!p.backward) add_dense(FLASHSCAN_ARG_STATE_OUT, state_dtype(p.dtype), Kind::data, states, true);
    }
    if (p.reset)
        add(FLASHSCAN_ARG_RESET, 0, Kind::reset, {p.extents.batch, p.extents.time, 1}, {p.extents.time, 1, 0}, false);
    if (p.num_sequences > 0) add_offsets(FLASHSCAN_DTYPE_I64);
    if (rnn.training) add_reserve();
}

void Tensors::add_rnn() {
    const Problem& p = problem_;
    const RnnPart& rnn = *p.rnn;
    add_rnn_forward();
    if (p.backward) {
        run_forward();
        std::erase_if(args_, [](const flashscan_arg& arg) {
            return arg.id == FLASHSCAN_ARG_INPUT || arg.id == FLASHSCAN_ARG_BIAS;
        });
        constexpr int32_t grad = FLASHSCAN_GRAD;
        const int64_t states = rnn.states() * p.state_rows() * p.extents.channels;
        add_dense(grad | FLASHSCAN_ARG_OUTPUT, p.dtype, Kind::data, rnn.output_states() * p.extents.count(), false);
        add_dense(grad | FLASHSCAN_ARG_INPUT, p.dtype, Kind::data, rnn.gates() * p.extents.count(), true);
        add_dense(grad | FLASHSCAN_ARG_WEIGHT, rnn.weight_dtype, Kind::data, rnn.gates() * p.extents.channels * rnn.dim,
                  true);
        add_dense(grad | FLASHSCAN_ARG_BIAS, rnn.weight_dtype, Kind::data, rnn.biases() * p.extents.channels, true);
        if (p.states) {
            add_dense(grad | FLASHSCAN_ARG_STATE_OUT, state_dtype(p.dtype), Kind::data, states, false);
            add_dense(grad | FLASHSCAN_ARG_STATE_IN, state_dtype(p.dtype), Kind::data, states, true);
        }
    }
    machine_.synchronize();
}

const Tensor& Tensors::operator[](int32_t id) const {
    for (const Tensor& tensor : tensors_)
        if (tensor.id == id) return tensor;
    throw Failure(fmt::format("the problem has no argument {:#x}", id));
}

}  // namespace bench
