// SPDX-License-Identifier: Apache-2.0
#include "support/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace support {
namespace {

constexpr unsigned char poison = 0xff;  // all ones are NaN in every floating-point dtype

template <typename Visit>
void for_each_element(const Tensor& tensor, Visit visit) {
    size_t i = 0;
    for (int64_t b = 0; b < tensor.extents[0]; ++b)
        for (int64_t t = 0; t < tensor.extents[1]; ++t)
            for (int64_t c = 0; c < tensor.extents[2]; ++c, ++i) visit(i, static_cast<size_t>(tensor.at(b, t, c)));
}

// Neighbouring elements of steps before `time_end`: visit(place, count).
template <typename Visit>
void for_each_run(const Tensor& tensor, int64_t time_end, Visit visit) {
    const auto& [batch, time, channels] = tensor.extents;
    const auto& strides = tensor.strides;
    const int64_t end = std::min(time, time_end);
    for (int64_t b = 0; b < batch; ++b) {
        if (strides[2] == 1 && strides[1] == channels) {
            visit(static_cast<size_t>(tensor.at(b, 0, 0)), static_cast<size_t>(end * channels));
        } else if (strides[1] == 1) {
            for (int64_t c = 0; c < channels; ++c)
                visit(static_cast<size_t>(tensor.at(b, 0, c)), static_cast<size_t>(end));
        } else {
            const int64_t run = strides[2] == 1 ? channels : 1;
            for (int64_t t = 0; t < end; ++t)
                for (int64_t c = 0; c < channels; c += run)
                    visit(static_cast<size_t>(tensor.at(b, t, c)), static_cast<size_t>(run));
        }
    }
}

std::string argument_name(int32_t id) {
    constexpr const char* names[] = {"INPUT",   "GATE",          "OUTPUT",     "STATE_IN",    "STATE_OUT",
                                     "RESET",   "SEQ_OFFSETS",   "WEIGHT",     "BIAS",        "SCRATCH",
                                     "RESERVE", "STATE_INDICES", "INPUT_GATE", "OUTPUT_GATE", "SECOND_GATE",
                                     "PARAM",   "DELTA",         "A",          "B",           "C",
                                     "D",       "INDEX",         "ITERATIONS", "RESIDUAL"};
    return fmt::format("{}{}", (id & FLASHSCAN_GRAD) != 0 ? "GRAD|" : "",
                       names[(id & ~FLASHSCAN_GRAD) - FLASHSCAN_ARG_INPUT]);
}

}  // namespace

Plan::Plan(const flashscan_linear_desc& desc, const flashscan_options& options) {
    flashscan_plan* plan = nullptr;
    status_ = flashscan_plan_linear(&plan, &desc, &options);
    take(plan);
}

Plan::Plan(const flashscan_rnn_desc& desc, const flashscan_options& options) {
    flashscan_plan* plan = nullptr;
    status_ = flashscan_plan_rnn(&plan, &desc, &options);
    take(plan);
}

Plan::Plan(const flashscan_operator_desc& desc, const flashscan_options& options) {
    flashscan_plan* plan = nullptr;
    status_ = flashscan_plan_operator(&plan, &desc, &options);
    take(plan);
}

Plan::Plan(const flashscan_gated_desc& desc, const flashscan_options& options) {
    flashscan_plan* plan = nullptr;
    status_ = flashscan_plan_gated(&plan, &desc, &options);
    take(plan);
}

Plan::Plan(const flashscan_selective_desc& desc, const flashscan_options& options) {
    flashscan_plan* plan = nullptr;
    status_ = flashscan_plan_selective(&plan, &desc, &options);
    take(plan);
}

void Plan::take(flashscan_plan* plan) {
    if (status_ != FLASHSCAN_STATUS_OK) message_ = flashscan_last_error();
    plan_.reset(plan);
}

size_t Plan::bytes(int32_t pass, int32_t id) const {
    size_t bytes = 0;
    if (flashscan_plan_arg_bytes(plan_.get(), pass, id, &bytes) != FLASHSCAN_STATUS_OK)
        throw std::runtime_error(flashscan_last_error());
    return bytes;
}

std::string Plan::describe() const {
    const auto check = [](flashscan_status status) {
        if (status != FLASHSCAN_STATUS_OK) throw std::runtime_error(flashscan_last_error());
    };
    size_t length = 0;
    check(flashscan_plan_describe(plan_.get(), nullptr, 0, &length));
    std::string text(length + 1, '\0');
    check(flashscan_plan_describe(plan_.get(), text.data(), text.size(), nullptr));
    text.pop_back();
    return text;
}

Call::Slot& Call::add(int32_t id, int32_t dtype, const Tensor& tensor, Bytes before, size_t alignment) {
    Slot slot;
    slot.id = id;
    slot.dtype = dtype;
    slot.tensor = tensor;
    const size_t shift = tensor.misaligned ? size_of(dtype) : 0;
    slot.buffer = make_buffer(backend_, before.size(), guard_, alignment, shift);
    slot.before = std::make_shared<Bytes>(std::move(before));
    arguments_.push_back({id, 0, slot.buffer->data(), slot.buffer->bytes()});
    slots_.push_back(std::move(slot));
    return slots_.back();
}

const Call::Slot& Call::slot(int32_t id) const {
    const auto found = std::find_if(slots_.begin(), slots_.end(), [=](const Slot& s) { return s.id == id; });
    if (found == slots_.end()) throw std::out_of_range("no argument " + argument_name(id));
    return *found;
}

flashscan_arg& Call::argument(int32_t id) {
    for (flashscan_arg& argument : arguments_)
        if (argument.id == id) return argument;
    throw std::out_of_range("no argument " + argument_name(id));
}

Bytes Call::packed(const Slot& slot, const Values& values) const {
    const size_t size = size_of(slot.dtype);
    Bytes bytes(static_cast<size_t>(slot.tensor.span()) * size, poison);
    for_each_element(slot.tensor,
                     [&](size_t i, size_t at) { store(bytes.data() + at * size, slot.dtype, values.at(i)); });
    return bytes;
}

void Call::input(int32_t id, int32_t dtype, const Tensor& tensor, const Values& values) {
    Slot description;
    description.dtype = dtype;
    description.tensor = tensor;
    add(id, dtype, tensor, packed(description, values), size_of(dtype));
}

void Call::set_input(int32_t id, const Values& values) {
    const Slot& changed = slot(id);
    *changed.before = packed(changed, values);
}

void Call::set_bytes(int32_t id, const Bytes& bytes) { *slot(id).before = bytes; }

void Call::take_inputs(const Call& from) {
    for (const Slot& changed : slots_)
        if (!changed.written) *changed.before = *from.slot(changed.id).before;
}

void Call::input_bytes(int32_t id, Bytes bytes, size_t alignment) {
    add(id, FLASHSCAN_DTYPE_I64, {}, std::move(bytes), alignment).raw = true;
}

void Call::output(int32_t id, int32_t dtype, const Tensor& tensor, int64_t written_time) {
    Bytes before(static_cast<size_t>(tensor.span()) * size_of(dtype), poison);
    Slot& added = add(id, dtype, tensor, std::move(before), size_of(dtype));
    added.written = true;
    added.written_time = written_time;
}

void Call::output_in(int32_t input_id, int32_t id, int32_t dtype, const Tensor& tensor, int64_t written_time) {
    Slot added = slot(input_id);
    added.id = id;
    added.dtype = dtype;
    added.tensor = tensor;
    added.written = true;
    added.written_time = written_time;
    arguments_.push_back({id, 0, added.buffer->data(), added.buffer->bytes()});
    slots_.push_back(std::move(added));
}

void Call::opaque(int32_t id, size_t bytes) {
    const Guard guard = guard_;
    guard_ = Guard::start;  // it is aligned to 256 bytes, its size need not be
    Slot& added = add(id, FLASHSCAN_DTYPE_I32, {}, Bytes(bytes, poison), 256);
    added.raw = added.written = true;
    guard_ = guard;
}

void Call::prepare() {
    trouble_.clear();
    for (const Slot& slot : slots_) slot.buffer->write(*slot.before);
    if (const char* error = synchronize(backend_)) trouble_ = error;
}

flashscan_status Call::execute(const flashscan_plan* plan) const {
    return flashscan_execute(plan, pass_, arguments_.data(), static_cast<int32_t>(arguments_.size()),
                             test_stream(backend_));
}

void Call::collect() {
    if (const char* error = synchronize(backend_)) trouble_ = error;
    for (Slot& slot : slots_) slot.after = slot.buffer->read();
}

flashscan_status Call::run(const flashscan_plan* plan) {
    prepare();
    const flashscan_status status = execute(plan);
    collect();
    return status;
}

Values Call::values(int32_t id) const {
    const Slot& from = slot(id);
    const auto& e = from.tensor.extents;
    Values values(static_cast<size_t>(e[0] * e[1] * e[2]));
    const size_t size = size_of(from.dtype);
    for_each_element(from.tensor,
                     [&](size_t i, size_t at) { values[i] = load(from.after.data() + at * size, from.dtype); });
    return values;
}

std::map<int32_t, Bytes> Call::output_bytes() const {
    std::map<int32_t, Bytes> all;
    for (const Slot& slot : slots_)
        if (slot.written && slot.id != FLASHSCAN_ARG_SCRATCH) all[slot.id] = slot.after;
    return all;
}

bool Call::outputs_are(const std::map<int32_t, Bytes>& bits) const {
    return std::all_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
        return !slot.written || slot.id == FLASHSCAN_ARG_SCRATCH || slot.after == bits.at(slot.id);
    });
}

bool Call::outputs_untouched() const {
    return std::all_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.after == *slot.before; });
}

std::string Call::damage_of(const Slot& slot) const {
    if (!slot.buffer->surroundings_intact()) return "bytes around " + argument_name(slot.id) + " were written; ";
    if (slot.raw && slot.written) return "";
    if (slot.after == *slot.before) return "";
    // The buffer may hold its bytes from before, but for the elements that are to be written.
    Bytes expected = *slot.before;
    const size_t size = size_of(slot.dtype);
    if (slot.written)
        for_each_run(slot.tensor, slot.written_time, [&](size_t at, size_t count) {
            std::memcpy(expected.data() + at * size, slot.after.data() + at * size, count * size);
        });
    if (slot.after == expected) return "";
    for (size_t i = 0; i < expected.size(); ++i)
        if (expected[i] != slot.after[i])
            return fmt::format("{} changed at byte {}, where nothing was to be written; ", argument_name(slot.id), i);
    return "";
}

std::string Call::damage() const {
    std::string text = trouble_.empty() ? "" : "CUDA: " + trouble_ + "; ";
    for (const Slot& slot : slots_) {
        const bool written_as_output = !slot.written && std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) {
            return s.written && s.buffer == slot.buffer;
        });
        if (!written_as_output) text += damage_of(slot);
    }
    return text;
}

void add_masks(Call& call, const Bytes& reset, const std::vector<int64_t>& offsets, int32_t offsets_dtype) {
    if (!reset.empty()) call.input_bytes(FLASHSCAN_ARG_RESET, reset, 1);
    if (offsets.empty()) return;
    Bytes bytes;
    for (const int64_t offset : offsets) {
        const auto* raw = reinterpret_cast<const unsigned char*>(&offset);  // little endian: i32 is the first half
        bytes.insert(bytes.end(), raw, raw + size_of(offsets_dtype));
    }
    call.input_bytes(FLASHSCAN_ARG_SEQ_OFFSETS, bytes, size_of(offsets_dtype));
}

void add_scratch(Call& call, const Plan& plan, int32_t pass) {
    const size_t bytes = plan.bytes(pass, FLASHSCAN_ARG_SCRATCH);
    if (bytes > 0) call.opaque(FLASHSCAN_ARG_SCRATCH, bytes);
}

static const Values& values_of(const Data& data, int32_t id) {
    switch (id) {
    case FLASHSCAN_ARG_INPUT: return data.input;
    case FLASHSCAN_ARG_GATE: return data.gate;
    case FLASHSCAN_ARG_STATE_IN: return data.state_in;
    case FLASHSCAN_ARG_OUTPUT: return data.output;
    case FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT: return data.grad_output;
    default: return data.grad_state_out;
    }
}

static Call make_call(const Problem& p, bool backward, const Plan& plan, int32_t backend, const Data& data,
                      Guard guard) {
    Call call = call_of(
        p, backward, backend, guard, [&](int32_t id) -> const Values& { return values_of(data, id); },
        written_time(p, data));
    add_masks(call, data.reset, data.offsets, p.offsets_dtype);
    if (p.caller_scratch) add_scratch(call, plan, backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD);
    return call;
}

Call forward_call(const Problem& p, const Plan& plan, int32_t backend, const Data& data, Guard guard) {
    return make_call(p, false, plan, backend, data, guard);
}

Call backward_call(const Problem& p, const Plan& plan, int32_t backend, const Data& data, Guard guard) {
    return make_call(p, true, plan, backend, data, guard);
}

bool run_repeatedly(Call& call, const Plan& plan, int times, Run& outcome) {
    for (int run = 0; run < times; ++run) {
        outcome.status = call.run(plan.get());
        if (outcome.status != FLASHSCAN_STATUS_OK) {
            outcome.message = flashscan_last_error();
            return false;
        }
        outcome.damage += call.damage();
        if (run == 0)
            outcome.bits = call.output_bytes();
        else if (!call.outputs_are(outcome.bits))
            outcome.damage += "two runs gave different bits; ";
    }
    return true;
}

bool failed(const Plan& plan, Run& outcome) {
    outcome.status = plan.status();
    outcome.message = plan.message();
    return !plan;
}

Outcome run_forward(const Problem& p, const Target& target, const Data& data, Guard guard, int times) {
    Outcome outcome;
    const Plan plan(p, target);
    if (failed(plan, outcome)) return outcome;
    Call call = forward_call(p, plan, target.backend, data, guard);
    if (!run_repeatedly(call, plan, times, outcome)) return outcome;
    outcome.output = call.values(FLASHSCAN_ARG_OUTPUT);
    if (p.state_out) outcome.state_out = call.values(FLASHSCAN_ARG_STATE_OUT);
    return outcome;
}

Outcome run_backward(const Problem& p, const Target& target, const Data& data, Guard guard, int times) {
    Outcome outcome;
    const Plan plan(p, target);
    if (failed(plan, outcome)) return outcome;
    Call call = backward_call(p, plan, target.backend, data, guard);
    if (!run_repeatedly(call, plan, times, outcome)) return outcome;
    constexpr int32_t grad = FLASHSCAN_GRAD;
    if ((p.gradients & gradient_input) != 0) outcome.grad_input = call.values(grad | FLASHSCAN_ARG_INPUT);
    if ((p.gradients & gradient_gate) != 0) outcome.grad_gate = call.values(grad | FLASHSCAN_ARG_GATE);
    if ((p.gradients & gradient_state) != 0 && p.state_in)
        outcome.grad_state_in = call.values(grad | FLASHSCAN_ARG_STATE_IN);
    return outcome;
}

void require(const Run& outcome) {
    if (outcome.status != FLASHSCAN_STATUS_OK)
        throw std::runtime_error(fmt::format("{}: {}", flashscan_status_name(outcome.status), outcome.message));
    if (!outcome.damage.empty()) throw std::runtime_error(outcome.damage);
}

}  // namespace support
