// SPDX-License-Identifier: Apache-2.0
// The arguments of gated layers and selective scans, placed as the line says. A backward pass gets OUTPUT and RESERVE
// from a forward pass of the same plan.
#include <algorithm>

#include "tensors.h"

namespace bench {
namespace {

// Decays near 1 where the gate is the decay itself or its logarithm; sigmoids and activations take data.
Kind kind_of(const support::GatedProblem& layer, int32_t id) {
    const bool value = layer.decay == FLASHSCAN_GATED_DECAY_VALUE, log = layer.decay == FLASHSCAN_GATED_DECAY_EXP;
    if (id == FLASHSCAN_ARG_GATE && value) return Kind::gate_value;
    if ((id == FLASHSCAN_ARG_GATE && log) || (id == FLASHSCAN_ARG_BIAS && (value || log))) return Kind::gate_log;
    if (id == FLASHSCAN_ARG_PARAM && layer.decay == FLASHSCAN_GATED_DECAY_LOWER_BOUND) return Kind::gate_value;
    return Kind::data;
}

// Steps are positive, and A has the real parts of logarithms of decays.
Kind kind_of(const support::SelectiveProblem& layer, int32_t id) {
    if (id == FLASHSCAN_ARG_A) return Kind::gate_log;
    if (id == FLASHSCAN_ARG_DELTA && !layer.softplus) return Kind::gate_value;
    return Kind::data;
}

}  // namespace

template <typename L>
void Tensors::add_layer_tensor(const L& layer, int32_t id, bool written) {
    const support::Tensor tensor = tensor_of(layer, id);
    const int32_t dtype = dtype_of(layer, id);
    const int64_t size = size_of(dtype), count = tensor.span() + (tensor.misaligned ? 1 : 0);
    char* const memory = reserve(count, dtype);
    char* const data = memory + (tensor.misaligned ? size : 0);
    const auto& [batch, time, channels] = tensor.strides;
    const Box box =
        ordered_box(data, dtype, {tensor.extents[0], tensor.extents[1], tensor.extents[2]}, {batch, time, channels});
    if (written)
        machine_.poison(memory, static_cast<size_t>(count * size));
    else
        machine_.fill(box, kind_of(layer, id), static_cast<uint64_t>(id) + 1000 * (layer.seed - 1));
    tensors_.push_back({id, written, batch, time, channels, box});
    args_.push_back({id, 0, data, static_cast<size_t>(tensor.span() * size)});
}

template <typename L>
void Tensors::add_layer_forward(const L& layer) {
    for (const int32_t id : read_by(layer, false)) add_layer_tensor(layer, id, false);
    for (const int32_t id : written_by(layer, false)) add_layer_tensor(layer, id, true);
    if (problem_.reset)
        add(FLASHSCAN_ARG_RESET, 0, Kind::reset, {problem_.extents.batch, problem_.extents.time, 1},
            {problem_.extents.time, 1, 0}, false);
    if (problem_.num_sequences > 0) add_offsets(layer.offsets_dtype);
    if (problem_.backward && has_reserve(layer)) add_reserve();
    machine_.synchronize();
}

template <typename L>
void Tensors::add_layer_backward(const L& layer) {
    run_forward();
    const std::vector<int32_t> reads = read_by(layer, true);
    std::erase_if(args_, [&](const flashscan_arg& arg) {
        const bool tensor = std::any_of(tensors_.begin(), tensors_.end(),
                                        [&](const Tensor& t) { return t.id == arg.id && t.id != FLASHSCAN_ARG_RESET; });
        return tensor && std::find(reads.begin(), reads.end(), arg.id) == reads.end();
    });
    for (const int32_t id : reads)
        if ((id & FLASHSCAN_GRAD) != 0) add_layer_tensor(layer, id, false);
    for (const int32_t id : written_by(layer, true)) add_layer_tensor(layer, id, true);
    machine_.synchronize();
}

void Tensors::add_layer() {
    std::visit(
        [&](const auto& layer) {
            add_layer_forward(layer);
            if (problem_.backward) add_layer_backward(layer);
        },
        *problem_.layer);
}

}  // namespace bench
