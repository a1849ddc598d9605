// SPDX-License-Identifier: Apache-2.0
#include "core/arguments.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "core/error.h"

namespace flashscan {
namespace {

constexpr int32_t id_of(ArgId id) { return static_cast<int32_t>(id); }
constexpr int32_t grad_of(ArgId id) { return grad_bit | static_cast<int32_t>(id); }

ArgumentSpec tensor(int32_t id, const char* name, Presence presence, bool written, int64_t bytes, Dtype dtype,
                    const Strides& strides) {
    return {id, name, presence, written, static_cast<size_t>(bytes), dtype, alignment_of(dtype), true, strides};
}

ArgumentSpec dense(int32_t id, const char* name, Presence presence, bool written, int64_t bytes, Dtype dtype) {
    return {id, name, presence, written, static_cast<size_t>(bytes), dtype, alignment_of(dtype), false, {}};
}

// Pairs that may be the same memory: each element is read before the same thread writes it.
constexpr std::array<std::array<int32_t, 2>, 4> same_memory_allowed{{
    {id_of(ArgId::output), id_of(ArgId::input)},
    {id_of(ArgId::state_out), id_of(ArgId::state_in)},
    {grad_of(ArgId::input), grad_of(ArgId::output)},
    {grad_of(ArgId::state_in), grad_of(ArgId::state_out)},
}};

// States of packed sequences may not: pieces of time run at once, so one is read after its sequence's end was written.
bool may_share(const LinearProblem& p, int32_t a, int32_t b) {
    const auto is_state = [](int32_t id) {
        return (id & ~grad_bit) == id_of(ArgId::state_in) || (id & ~grad_bit) == id_of(ArgId::state_out);
    };
    if (p.packed() && is_state(a)) return false;
    return std::any_of(same_memory_allowed.begin(), same_memory_allowed.end(), [=](const auto& pair) {
        return (pair[0] == a && pair[1] == b) || (pair[0] == b && pair[1] == a);
    });
}

// Whether two tensors of equal strides and dtype interleave: seen as one tensor with a further axis of extent 2, no two
// elements coincide.
bool interleaved(const LinearProblem& p, const ArgumentSpec& a, const void* a_data, const ArgumentSpec& b,
                 const void* b_data) {
    if (!a.is_tensor || !b.is_tensor || a.strides != b.strides || a.dtype != b.dtype) return false;
    const auto start_a = reinterpret_cast<intptr_t>(a_data), start_b = reinterpret_cast<intptr_t>(b_data);
    const int64_t apart = std::abs(static_cast<int64_t>(start_a - start_b));
    if (apart == 0 || apart % size_of(a.dtype) != 0) return false;
    const int64_t extents[] = {p.batch, p.time, p.channels, 2};
    const int64_t strides[] = {a.strides.batch, a.strides.time, a.strides.channels, apart / size_of(a.dtype)};
    return strides_nest(extents, strides, 4);
}

void check_overlap(const LinearProblem& p, const ArgumentSpec& a, const Argument& arg_a, const ArgumentSpec& b,
                   const Argument& arg_b) {
    if (!a.written && !b.written) return;
    if (a.bytes == 0 || b.bytes == 0) return;
    const auto start_a = reinterpret_cast<uintptr_t>(arg_a.data), start_b = reinterpret_cast<uintptr_t>(arg_b.data);
    if (start_a + a.bytes <= start_b || start_b + b.bytes <= start_a) return;
    const bool same = start_a == start_b && a.strides == b.strides && a.dtype == b.dtype;
    if (same && may_share(p, a.id, b.id)) return;
    if (interleaved(p, a, arg_a.data, b, arg_b.data)) return;
    fail(Code::aliasing,
         "{} and {} overlap{}; of the arguments that are written only OUTPUT and INPUT, STATE_OUT and STATE_IN, "
         "GRAD|INPUT "
         "and GRAD|OUTPUT, GRAD|STATE_IN and GRAD|STATE_OUT may be the same memory, with the same start and strides",
         a.name, b.name, may_share(p, a.id, b.id) ? " without being the same" : "");
}

void check_one(const ArgumentSpec& spec, const Argument& argument) {
    if (argument.bytes < spec.bytes)
        fail(Code::buffer_too_small, "{} has {} bytes; this plan needs {}", spec.name, argument.bytes, spec.bytes);
    if (reinterpret_cast<uintptr_t>(argument.data) % static_cast<uintptr_t>(spec.alignment) != 0)
        fail(Code::invalid_pointer, "{} is at {}, which is not a multiple of {} bytes", spec.name, argument.data,
             spec.alignment);
}

// The pointer of every spec in `found`, by id.
class Found {
  public:
    void set(int32_t id, void* data) { at(id) = data; }
    void* operator[](ArgId id) const { return data_[static_cast<size_t>(id)]; }
    void* grad(ArgId id) const { return grads_[static_cast<size_t>(id)]; }

  private:
    void*& at(int32_t id) {
        return (id & grad_bit) != 0 ? grads_[static_cast<size_t>(id & ~grad_bit)] : data_[static_cast<size_t>(id)];
    }
    std::array<void*, 16> data_{}, grads_{};
};

LinearBuffers buffers_of(const Found& found) {
    LinearBuffers b;
    b.input = found[ArgId::input];
    b.gate = found[ArgId::gate];
    b.output = found[ArgId::output];
    b.state_in = found[ArgId::state_in];
    b.state_out = found[ArgId::state_out];
    b.reset = static_cast<const uint8_t*>(found[ArgId::reset]);
    b.seq_offsets = found[ArgId::seq_offsets];
    b.grad_output = found.grad(ArgId::output);
    b.grad_state_out = found.grad(ArgId::state_out);
    b.grad_input = found.grad(ArgId::input);
    b.grad_gate = found.grad(ArgId::gate);
    b.grad_state_in = found.grad(ArgId::state_in);
    b.scratch = found[ArgId::scratch];
    return b;
}

}  // namespace

std::vector<ArgumentSpec> linear_arguments(const LinearProblem& p, Pass pass, size_t scratch_bytes,
                                           bool scratch_required) {
    using enum Presence;
    const Dtype state = state_dtype(p.dtype);
    const int64_t data_bytes = p.state_bytes();
    std::vector<ArgumentSpec> specs;
    specs.push_back(tensor(id_of(ArgId::gate), "GATE", required, false, p.gate_bytes(p.gate), p.gate_dtype, p.gate));
    specs.push_back(dense(id_of(ArgId::state_in), "STATE_IN", optional, false, data_bytes, state));
    if (pass == Pass::forward) {
        specs.push_back(
            tensor(id_of(ArgId::input), "INPUT", required, false, p.tensor_bytes(p.input), p.dtype, p.input));
        specs.push_back(
            tensor(id_of(ArgId::output), "OUTPUT", required, true, p.tensor_bytes(p.output), p.dtype, p.output));
        specs.push_back(dense(id_of(ArgId::state_out), "STATE_OUT", optional, true, data_bytes, state));
    } else {
        specs.push_back(
            tensor(id_of(ArgId::output), "OUTPUT", optional, false, p.tensor_bytes(p.output), p.dtype, p.output));
        specs.push_back(tensor(grad_of(ArgId::output), "GRAD|OUTPUT", required, false, p.tensor_bytes(p.grad_output),
                               p.dtype, p.grad_output));
        specs.push_back(dense(grad_of(ArgId::state_out), "GRAD|STATE_OUT", optional, false, data_bytes, state));
        specs.push_back(tensor(grad_of(ArgId::input), "GRAD|INPUT", optional, true, p.tensor_bytes(p.grad_input),
                               p.dtype, p.grad_input));
        specs.push_back(tensor(grad_of(ArgId::gate), "GRAD|GATE", optional, true, p.gate_bytes(p.grad_gate),
                               p.gate_dtype, p.grad_gate));
        specs.push_back(dense(grad_of(ArgId::state_in), "GRAD|STATE_IN", optional, true, data_bytes, state));
    }
    if (p.has_reset) {
        specs.push_back(dense(id_of(ArgId::reset), "RESET", required, false, p.batch * p.time, Dtype::f32));
        specs.back().alignment = 1;
    }
    if (p.packed())
        specs.push_back(dense(id_of(ArgId::seq_offsets), "SEQ_OFFSETS", required, false,
                              (p.num_sequences + 1) * size_of(p.offsets_dtype), p.offsets_dtype));
    specs.push_back(dense(id_of(ArgId::scratch), "SCRATCH", scratch_required ? required : optional, true,
                          static_cast<int64_t>(scratch_bytes), Dtype::f32));
    specs.back().alignment = 256;
    return specs;
}

LinearBuffers check_arguments(const LinearProblem& problem, Pass pass, std::span<const ArgumentSpec> specs,
                              std::span<const Argument> arguments) {
    constexpr size_t max_specs = 16;
    std::array<const Argument*, max_specs> given{};
    for (const Argument& argument : arguments) {
        const auto spec = std::find_if(specs.begin(), specs.end(), [&](const auto& s) { return s.id == argument.id; });
        if (spec == specs.end())
            fail(Code::unknown_argument, "argument id {} is not one that the {} pass of this plan takes", argument.id,
                 pass == Pass::forward ? "forward" : "backward");
        const Argument*& place = given[static_cast<size_t>(spec - specs.begin())];
        if (place != nullptr) fail(Code::doubled_argument, "{} is given more than once", spec->name);
        place = &argument;
    }
    Found found;
    bool any_gradient = false;
    for (size_t i = 0; i < specs.size(); ++i) {
        const ArgumentSpec& spec = specs[i];
        if (given[i] != nullptr && given[i]->data == nullptr && spec.bytes > 0) {
            if (spec.presence == Presence::required)
                fail(Code::missing_argument, "{} is NULL; this plan needs {} bytes", spec.name, spec.bytes);
            given[i] = nullptr;
        }
        if (given[i] == nullptr) {
            if (spec.presence == Presence::required && spec.bytes > 0)
                fail(Code::missing_argument, "{} is not given; this plan needs {} bytes", spec.name, spec.bytes);
            continue;
        }
        check_one(spec, *given[i]);
        found.set(spec.id, given[i]->data);
        any_gradient = any_gradient || ((spec.id & grad_bit) != 0 && spec.written);
    }
    for (size_t i = 0; i < specs.size(); ++i)
        for (size_t j = i + 1; j < specs.size(); ++j)
            if (given[i] != nullptr && given[j] != nullptr)
                check_overlap(problem, specs[i], *given[i], specs[j], *given[j]);

    const LinearBuffers buffers = buffers_of(found);
    if (pass == Pass::backward) {
        if (!any_gradient)
            fail(Code::missing_argument, "backward was given none of GRAD|INPUT, GRAD|GATE and GRAD|STATE_IN to write");
        if (buffers.grad_gate != nullptr && buffers.output == nullptr && problem.tensor_bytes(problem.output) > 0)
            fail(Code::missing_argument, "OUTPUT is not given; GRAD|GATE needs it");
    }
    return buffers;
}

}  // namespace flashscan
