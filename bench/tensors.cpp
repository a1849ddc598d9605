// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace bench {
namespace {

// N sequences between random distinct steps: lengths vary from 1 to many times the mean. The same for every run.
std::vector<int64_t> uneven_offsets(int64_t num_sequences, int64_t time) {
    std::set<int64_t> cuts{0, time};
    for (uint64_t i = 0; std::ssize(cuts) < num_sequences + 1; ++i)
        cuts.insert(static_cast<int64_t>(hash(i, 77) % static_cast<uint64_t>(time)));
    return {cuts.begin(), cuts.end()};
}

Kind gate_kind(int32_t form) {
    return form == FLASHSCAN_GATE_LOG     ? Kind::gate_log
           : form == FLASHSCAN_GATE_LOGIT ? Kind::gate_logit
                                          : Kind::gate_value;
}

}  // namespace

Box ordered_box(void* data, int32_t dtype, const Extents& extents, const flashscan_strides& strides) {
    struct Axis {
        int64_t extent, stride;
    } axes[3] = {{extents.batch, strides.batch}, {extents.time, strides.time}, {extents.channels, strides.channels}};
    std::stable_sort(std::begin(axes), std::end(axes),
                     [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
    Box box{data, dtype, {}, {}};
    for (int i = 0; i < 3; ++i) {
        box.extent[i] = axes[i].extent;
        box.stride[i] = axes[i].stride;
    }
    return box;
}

int64_t Tensors::bytes(const Problem& p) {
    // Both passes' tensors, and as much again for RESERVE and scratch.
    if (p.rnn) return 2 * (p.required_bytes() + (p.backward ? p.rnn->gates() * p.array_bytes() : 0));
    if (p.op || p.layer) return 2 * p.required_bytes();
    const int64_t gate = p.gate_extents().count() * size_of(p.gate_dtype);
    const int64_t state = p.state_rows() * p.extents.channels * size_of(state_dtype(p.dtype));
    return (p.backward ? 3 * p.array_bytes() + 2 * gate : 2 * p.array_bytes() + gate) + (p.states ? 3 * state : 0) +
           (p.reset ? p.extents.batch * p.extents.time : 0);
}

Tensors::Tensors(Machine& machine, const Problem& problem, const flashscan_plan* plan)
    : machine_(machine), problem_(problem), plan_(plan) {
    const Problem& p = problem_;
    if (p.rnn) {
        add_rnn();
        return;
    }
    if (p.op) {
        add_operator();
        return;
    }
    if (p.layer) {
        add_layer();
        return;
    }
    const flashscan_strides dense = p.strides(p.extents, false);
    const Extents state{p.state_rows(), 1, p.extents.channels};
    const flashscan_strides state_strides{p.extents.channels, 0, 1};
    const int32_t wide = state_dtype(p.dtype);
    constexpr int32_t grad_input = FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT,
                      grad_gate = FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE;
    if (p.backward) {
        add_gate(FLASHSCAN_ARG_GATE, false);
        add(FLASHSCAN_ARG_OUTPUT, p.dtype, Kind::data, p.extents, dense, false);
        add(FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, p.dtype, Kind::data, p.extents, dense, false);
        if (p.strided) {
            add_fused(grad_input, grad_gate, Kind::data, true);
        } else {
            add(grad_input, p.dtype, Kind::data, p.extents, dense, true);
            add_gate(grad_gate, true);
        }
        if (p.states) {
            add(FLASHSCAN_ARG_STATE_IN, wide, Kind::data, state, state_strides, false);
            add(FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_OUT, wide, Kind::data, state, state_strides, false);
            add(FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_IN, wide, Kind::data, state, state_strides, true);
        }
    } else {
        if (p.strided) {
            add_fused(FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, gate_kind(p.gate_form), false);
        } else {
            add(FLASHSCAN_ARG_INPUT, p.dtype, Kind::data, p.extents, dense, false);
            add_gate(FLASHSCAN_ARG_GATE, false);
        }
        add(FLASHSCAN_ARG_OUTPUT, p.dtype, Kind::data, p.extents, dense, true);
        if (p.states) {
            add(FLASHSCAN_ARG_STATE_IN, wide, Kind::data, state, state_strides, false);
            add(FLASHSCAN_ARG_STATE_OUT, wide, Kind::data, state, state_strides, true);
        }
    }
    if (p.reset)
        add(FLASHSCAN_ARG_RESET, 0, Kind::reset, {p.extents.batch, p.extents.time, 1}, {p.extents.time, 1, 0}, false);
    if (p.num_sequences > 0) add_offsets(FLASHSCAN_DTYPE_I64);
    machine_.synchronize();
}

char* Tensors::reserve(int64_t count, int32_t dtype) {
    const int64_t shift = problem_.misaligned ? size_of(dtype) : 0;
    buffers_.emplace_back(machine_, static_cast<size_t>(count * size_of(dtype) + shift));
    return buffers_.back().get() + shift;
}

void Tensors::add(int32_t id, int32_t dtype, Kind kind, const Extents& extents, const flashscan_strides& strides,
                  bool written) {
    char* data = reserve(extents.count(), dtype);
    place(id, dtype, kind, extents, strides, written, data, static_cast<size_t>(extents.count() * size_of(dtype)));
}

void Tensors::add_gate(int32_t id, bool written) {
    const Extents extents = problem_.gate_extents();
    // The fused halves of a strided problem are the projection's: in backward the gate alone is left of them.
    const bool half = problem_.strided;
    const int64_t count = extents.count() * (half ? 2 : 1);
    const Kind kind = written ? Kind::data : gate_kind(problem_.gate_form);
    char* data = reserve(count, problem_.gate_dtype);
    place(id, problem_.gate_dtype, kind, extents, problem_.strides(extents, half), written, data,
          static_cast<size_t>(count * size_of(problem_.gate_dtype)));
}

void Tensors::add_fused(int32_t first_id, int32_t second_id, Kind second_kind, bool written) {
    const Extents& extents = problem_.extents;
    const flashscan_strides strides = problem_.strides(extents, true);
    const int64_t size = size_of(problem_.dtype);
    const int64_t half =
        (problem_.layout == FLASHSCAN_LAYOUT_BTC ? extents.channels : extents.channels * extents.time) * size;
    const int64_t bytes = 2 * extents.count() * size;
    char* data = reserve(2 * extents.count(), problem_.dtype);
    place(first_id, problem_.dtype, Kind::data, extents, strides, written, data, static_cast<size_t>(bytes));
    place(second_id, problem_.dtype, second_kind, extents, strides, written, data + half,
          static_cast<size_t>(bytes - half));
}

void Tensors::add_offsets(int32_t dtype) {
    offsets_ = uneven_offsets(problem_.num_sequences, problem_.extents.time);
    const std::vector<int32_t> narrow(offsets_.begin(), offsets_.end());
    const size_t bytes = offsets_.size() * static_cast<size_t>(size_of(dtype));
    buffers_.emplace_back(machine_, bytes);
    const void* const from = dtype == FLASHSCAN_DTYPE_I32 ? static_cast<const void*>(narrow.data())
                                                          : static_cast<const void*>(offsets_.data());
    machine_.upload(buffers_.back().get(), from, bytes);
    args_.push_back({FLASHSCAN_ARG_SEQ_OFFSETS, 0, buffers_.back().get(), bytes});
}

void Tensors::add_reserve() {
    size_t bytes = 0;
    if (flashscan_plan_arg_bytes(plan_, FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE, &bytes) != FLASHSCAN_STATUS_OK)
        throw Failure(flashscan_last_error());
    buffers_.emplace_back(machine_, std::max<size_t>(bytes, 1));
    args_.push_back({FLASHSCAN_ARG_RESERVE, 0, buffers_.back().get(), bytes});
}

void Tensors::run_forward() {
    machine_.synchronize();
    if (flashscan_execute(plan_, FLASHSCAN_PASS_FORWARD, args_.data(), static_cast<int32_t>(args_.size()),
                          machine_.stream()) != FLASHSCAN_STATUS_OK)
        throw Failure(fmt::format("forward: {}", flashscan_last_error()));
    for (Tensor& tensor : tensors_) tensor.written = false;
}

void Tensors::place(int32_t id, int32_t dtype, Kind kind, const Extents& extents, const flashscan_strides& strides,
                    bool written, char* data, size_t bytes) {
    const Box box = ordered_box(data, dtype, extents, strides);
    if (written)
        machine_.poison(data, bytes);
    else
        machine_.fill(box, kind, static_cast<uint64_t>(id));
    tensors_.push_back({id, written, extents.batch > 1 ? strides.batch : 0, extents.time > 1 ? strides.time : 0,
                        extents.channels > 1 ? strides.channels : 0, box});
    size_t needed = 0;
    const int32_t pass = problem_.backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
    if (flashscan_plan_arg_bytes(plan_, pass, id, &needed) != FLASHSCAN_STATUS_OK)
        throw Failure(flashscan_last_error());
    if (needed > bytes)
        throw Failure(fmt::format("the plan wants {} bytes of argument {:#x}, which has {}", needed, id, bytes));
    args_.push_back({id, 0, data, needed});
}

}  // namespace bench
