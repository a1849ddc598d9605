// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace bench {
namespace {

constexpr int32_t grad = FLASHSCAN_GRAD;

// N sequences between random distinct steps: lengths vary from 1 to many times the mean. The same for every run.
std::vector<int64_t> uneven_offsets(int64_t num_sequences, int64_t time) {
    std::set<int64_t> cuts{0, time};
    for (uint64_t i = 0; std::ssize(cuts) < num_sequences + 1; ++i)
        cuts.insert(static_cast<int64_t>(hash(i, 77) % static_cast<uint64_t>(time)));
    return {cuts.begin(), cuts.end()};
}

// The axes by falling stride, so that filling writes memory in order.
Box ordered_box(void* data, int32_t dtype, const support::Tensor& tensor) {
    std::array<size_t, 3> axes{0, 1, 2};
    std::stable_sort(axes.begin(), axes.end(),
                     [&](size_t a, size_t b) { return tensor.strides[a] > tensor.strides[b]; });
    Box box{data, dtype, {}, {}};
    for (size_t i = 0; i < 3; ++i) {
        box.extent[i] = tensor.extents[axes[i]];
        box.stride[i] = tensor.strides[axes[i]];
    }
    return box;
}

// ---- values: what is read needs no product that leaves the range of numbers ----

Kind kind_of(const support::Problem& p, int32_t id) {
    if (id != FLASHSCAN_ARG_GATE) return Kind::data;
    return p.form == FLASHSCAN_GATE_LOG     ? Kind::gate_log
           : p.form == FLASHSCAN_GATE_LOGIT ? Kind::gate_logit
                                            : Kind::gate_value;
}

Kind kind_of(const support::RnnProblem&, int32_t id) {
    return id == FLASHSCAN_ARG_WEIGHT || id == FLASHSCAN_ARG_BIAS ? Kind::weight : Kind::data;
}

Kind kind_of(const support::OperatorProblem& p, int32_t id) {
    if (p.integers()) return Kind::integer;
    return id == FLASHSCAN_ARG_STATE_IN ? Kind::gate_value : Kind::data;
}

// Decays near 1 where the gate is the decay itself or its logarithm; sigmoids and activations take data.
Kind kind_of(const support::GatedProblem& p, int32_t id) {
    const bool value = p.decay == FLASHSCAN_GATED_DECAY_VALUE, log = p.decay == FLASHSCAN_GATED_DECAY_EXP;
    if (id == FLASHSCAN_ARG_GATE && value) return Kind::gate_value;
    if ((id == FLASHSCAN_ARG_GATE && log) || (id == FLASHSCAN_ARG_BIAS && (value || log))) return Kind::gate_log;
    if (id == FLASHSCAN_ARG_PARAM && p.decay == FLASHSCAN_GATED_DECAY_LOWER_BOUND) return Kind::gate_value;
    return Kind::data;
}

// Steps are positive, and A has the real parts of logarithms of decays.
Kind kind_of(const support::SelectiveProblem& p, int32_t id) {
    if (id == FLASHSCAN_ARG_A) return Kind::gate_log;
    if (id == FLASHSCAN_ARG_DELTA && !p.softplus) return Kind::gate_value;
    return Kind::data;
}

template <typename P>
void fill(Machine& machine, const P& p, int32_t id, const Box& box, uint64_t seed) {
    machine.fill(box, kind_of(p, id), seed);
}

float uniform(uint64_t index, uint64_t seed) { return random_value(Kind::data, false, index, seed).re; }

// Rows of matrices sum to 1: pairs of neighbours deviate from 1 / d by as much in either direction, where d is odd the
// last three together. No number is the same in every step, with which every step would round in the same direction.
float matrix_number(int64_t dim, int64_t place, uint64_t seed) {
    const int64_t row = place / dim, column = place % dim, triple = dim % 2 == 1 && dim > 1 ? dim - 3 : dim;
    const auto deviation = [=](int64_t at) { return uniform(static_cast<uint64_t>(row * dim + at), seed); };
    float part = 0;
    if (column >= triple)
        part = column < dim - 1 ? deviation(column) / 2 : -(deviation(dim - 3) + deviation(dim - 2)) / 2;
    else if (dim > 1)
        part = column % 2 == 0 ? deviation(column / 2) : -deviation(column / 2);
    return (1 + 0.9F * part) / static_cast<float>(dim);
}

// Matrices, and factors near 1, are made here and copied.
void fill(Machine& machine, const support::OperatorProblem& p, int32_t id, const Box& box, uint64_t seed) {
    const bool matrix = id == FLASHSCAN_ARG_GATE || (p.matmul() && id == FLASHSCAN_ARG_INPUT);
    const bool factor = p.kind == FLASHSCAN_OPERATOR_MUL && id == FLASHSCAN_ARG_INPUT && !p.integers();
    if (!matrix && !factor) return machine.fill(box, kind_of(p, id), seed);
    std::vector<std::byte> data(static_cast<size_t>(box.count() * size_of(box.dtype)));
    for (int64_t i = 0; i < box.count(); ++i) {
        const float value =
            matrix ? matrix_number(p.dim, i, seed) : 1 + 0.001F * uniform(static_cast<uint64_t>(i), seed);
        store(data.data(), box.dtype, i, {value, 0});
    }
    machine.upload(box.data, data.data(), data.size());
}

// ---- places ----

// The argument in the second half of whose array this one lies; 0: it has an array of its own.
template <typename P>
int32_t first_half_of(const P&, int32_t) {
    return 0;
}
int32_t first_half_of(const support::Problem& p, int32_t id) {
    const bool gate = (id & ~grad) == FLASHSCAN_ARG_GATE;
    return p.strided && gate ? FLASHSCAN_ARG_INPUT | (id & grad) : 0;
}

// Whether backward reads what forward wrote, and is given it. OUTPUT of a linear recurrence may be any numbers.
template <typename P>
bool needs_forward(const P&) {
    return true;
}
bool needs_forward(const support::Problem&) { return false; }

}  // namespace

int64_t Tensors::bytes(const Problem& p) {
    if (p.linear() != nullptr) return p.required_bytes();
    // Both passes' tensors, and as much again for RESERVE and scratch.
    const int64_t input = p.rnn() != nullptr && p.backward ? p.rnn()->gates() * p.array_bytes : 0;
    return 2 * (p.required_bytes() + input);
}

Tensors::Tensors(Machine& machine, const Problem& problem, const flashscan_plan* plan)
    : machine_(machine), problem_(problem), plan_(plan) {
    std::visit([&](const auto& p) { add_all(p); }, problem.line);
    machine_.synchronize();
}

const Tensor& Tensors::operator[](int32_t id) const {
    for (const Tensor& tensor : tensors_)
        if (tensor.id == id) return tensor;
    throw Failure(fmt::format("the problem has no argument {:#x}", id));
}

bool Tensors::contains(int32_t id) const {
    return std::any_of(tensors_.begin(), tensors_.end(), [=](const Tensor& tensor) { return tensor.id == id; });
}

template <typename P>
void Tensors::add_all(const P& p) {
    const bool forward_first = problem_.backward && needs_forward(p);
    add_pass(p, problem_.backward && !forward_first);
    if constexpr (requires { p.reset; })
        if (p.reset) add_reset(p.batch, p.time);
    if (p.sequences > 0) add_offsets(p.offsets_dtype);
    if (problem_.has_reserve()) add_reserve();
    if (!forward_first) return;
    run_forward();
    keep_read(p);
    add_pass(p, true);
}

// Those that are not there yet.
template <typename P>
void Tensors::add_pass(const P& p, bool backward) {
    for (const int32_t id : read_by(p, backward))
        if (!contains(id)) add_tensor(p, id, false);
    for (const int32_t id : written_by(p, backward)) add_tensor(p, id, true);
}

// Leaves those arguments of forward that backward has too.
template <typename P>
void Tensors::keep_read(const P& p) {
    const std::vector<int32_t> reads = read_by(p, true);
    std::erase_if(args_, [&](const flashscan_arg& arg) {
        const bool tensor = contains(arg.id) && arg.id != FLASHSCAN_ARG_RESET;
        return tensor && std::find(reads.begin(), reads.end(), arg.id) == reads.end();
    });
}

template <typename P>
void Tensors::add_tensor(const P& p, int32_t id, bool written) {
    const support::Tensor tensor = tensor_of(p, id);
    const int32_t dtype = dtype_of(p, id), first_half = first_half_of(p, id);
    const int64_t size = size_of(dtype), shift = tensor.misaligned ? size : 0, bytes = tensor.span() * size;
    const int64_t half = tensor.strides[2] * tensor.extents[2] * size;
    const bool has_second_half = first_half_of(p, (id & grad) | FLASHSCAN_ARG_GATE) == id;
    char* data = nullptr;
    if (first_half != 0 && contains(first_half))
        data = static_cast<char*>((*this)[first_half].box.data) + half;
    else
        data = reserve(shift + bytes + (has_second_half ? half : 0)) + shift;
    const Box box = ordered_box(data, dtype, tensor);
    if (written)
        machine_.poison(data, static_cast<size_t>(bytes));
    else
        fill(machine_, p, id, box, static_cast<uint64_t>(id) + 1000 * (p.seed - 1));
    tensors_.push_back({id, written, box});
    args_.push_back({id, 0, data, static_cast<size_t>(bytes)});
}

char* Tensors::reserve(int64_t bytes) {
    buffers_.emplace_back(machine_, static_cast<size_t>(bytes));
    return buffers_.back().get();
}

void Tensors::add_reset(int64_t batch, int64_t time) {
    const Box box{reserve(batch * time), 0, {batch, time, 1}, {time, 1, 0}};
    machine_.fill(box, Kind::reset, FLASHSCAN_ARG_RESET);
    tensors_.push_back({FLASHSCAN_ARG_RESET, false, box});
    args_.push_back({FLASHSCAN_ARG_RESET, 0, box.data, static_cast<size_t>(batch * time)});
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

}  // namespace bench
