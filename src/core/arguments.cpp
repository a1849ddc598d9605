// SPDX-License-Identifier: Apache-2.0
// The specs that all families share, and the checks of a call: presence, size, alignment and overlap of its arguments.
#include "core/arguments.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "core/error.h"

namespace flashscan {
namespace {

bool may_share(const ArgumentSpec& a, const ArgumentSpec& b) { return a.may_be == b.id || b.may_be == a.id; }

// Returns whether two arguments of equal strides and dtype interleave: whether, seen as one tensor with a further axis
// of extent 2, they have no two elements in the same place.
bool interleaved(const ArgumentSpec& a, const void* a_data, const ArgumentSpec& b, const void* b_data) {
    if (a.axes.count != b.axes.count || a.strides != b.strides || a.dtype != b.dtype) return false;
    const auto start_a = reinterpret_cast<uintptr_t>(a_data), start_b = reinterpret_cast<uintptr_t>(b_data);
    const auto size = static_cast<uintptr_t>(a.dtype == Dtype{} ? 1 : size_of(a.dtype));
    const uintptr_t apart = std::max(start_a, start_b) - std::min(start_a, start_b);
    if (apart == 0 || apart % size != 0) return false;
    int64_t extents[Axes::most + 1], strides[Axes::most + 1];
    for (size_t i = 0; i < a.axes.count; ++i) {
        extents[i] = max(a.axes.extents[i], b.axes.extents[i]);
        strides[i] = a.strides[i];
    }
    extents[a.axes.count] = 2;
    strides[a.axes.count] = static_cast<int64_t>(apart / size);
    return strides_nest(extents, strides, static_cast<int>(a.axes.count + 1));
}

// Lists what may overlap in this pass, for the sentence of an error.
std::string shareable(std::span<const ArgumentSpec> specs) {
    std::string text;
    for (const ArgumentSpec& a : specs)
        for (const ArgumentSpec& b : specs)
            if (a.may_be == b.id) text += fmt::format("{}{} and {}", text.empty() ? "" : ", ", a.name, b.name);
    if (text.empty()) return "no argument that is written may overlap another";
    return fmt::format(
        "of the arguments that are written only {} may be the same memory, with the same start and "
        "strides",
        text);
}

void check_overlap(std::span<const ArgumentSpec> specs, const ArgumentSpec& a, const Argument& arg_a,
                   const ArgumentSpec& b, const Argument& arg_b) {
    if (!a.written && !b.written) return;
    if (a.bytes == 0 || b.bytes == 0) return;
    const auto start_a = reinterpret_cast<uintptr_t>(arg_a.data), start_b = reinterpret_cast<uintptr_t>(arg_b.data);
    // Differences are compared, since a sum may be past the last address.
    if (start_a <= start_b ? start_b - start_a >= a.bytes : start_a - start_b >= b.bytes) return;
    const bool same = start_a == start_b && a.strides == b.strides && a.dtype == b.dtype;
    if (same && may_share(a, b)) return;
    if (interleaved(a, arg_a.data, b, arg_b.data)) return;
    fail(Code::aliasing, "{} and {} overlap{}; {}", a.name, b.name, may_share(a, b) ? " without being the same" : "",
         shareable(specs));
}

void check_one(const ArgumentSpec& spec, const Argument& argument) {
    if (argument.bytes < spec.bytes)
        fail(Code::buffer_too_small, "{} has {} bytes; this plan needs {}", spec.name, argument.bytes, spec.bytes);
    if (spec.bytes == 0) return;  // there is nothing that could be misaligned
    if (reinterpret_cast<uintptr_t>(argument.data) % static_cast<uintptr_t>(spec.alignment) != 0)
        fail(Code::invalid_pointer, "{} is at {}, which is not a multiple of {} bytes", spec.name, argument.data,
             spec.alignment);
    if (spec.bytes - 1 > std::numeric_limits<uintptr_t>::max() - reinterpret_cast<uintptr_t>(argument.data))
        fail(Code::invalid_pointer, "{} is at {}, from where on there are less than {} bytes of addresses", spec.name,
             argument.data, spec.bytes);
}

// The number of an argument, with its name if it has one, for the sentence of an error.
std::string number_and_name(int32_t id) {
    constexpr const char* names[] = {"INPUT",   "GATE",          "OUTPUT",     "STATE_IN",    "STATE_OUT",
                                     "RESET",   "SEQ_OFFSETS",   "WEIGHT",     "BIAS",        "SCRATCH",
                                     "RESERVE", "STATE_INDICES", "INPUT_GATE", "OUTPUT_GATE", "SECOND_GATE",
                                     "PARAM",   "DELTA",         "A",          "B",           "C",
                                     "D",       "INDEX",         "ITERATIONS", "RESIDUAL"};
    static_assert(std::size(names) == static_cast<size_t>(ArgId::residual) - static_cast<size_t>(first_arg_id) + 1);
    const int64_t place = int64_t{id & ~grad_bit} - first_arg_id;
    if (place < 0 || place >= std::ssize(names)) return std::to_string(id);
    return fmt::format("{} ({}{})", id, (id & grad_bit) != 0 ? "GRAD|" : "", names[place]);
}

// Lists the gradients that a pass can write, for the sentence of an error.
std::string gradients_of(std::span<const ArgumentSpec> specs) {
    std::string text;
    for (const ArgumentSpec& spec : specs)
        if ((spec.id & grad_bit) != 0 && spec.written) text += fmt::format("{}{}", text.empty() ? "" : ", ", spec.name);
    return text;
}

}  // namespace

Extent Axes::product(const char* what) const {
    Extent product(1, what);
    for (size_t i = 0; i < count; ++i) product = product * extents[i];
    return product;
}

ArgumentSpec dense_argument(int32_t id, const char* name, Presence presence, bool written, const Axes& axes,
                            Dtype dtype) {
    ArgumentSpec spec;
    spec.id = id;
    spec.name = name;
    spec.presence = presence;
    spec.written = written;
    spec.axes = axes;
    spec.bytes = static_cast<size_t>(axes.product(name) * (dtype == Dtype{} ? 1 : size_of(dtype)));
    spec.dtype = dtype;
    spec.alignment = dtype == Dtype{} ? 1 : alignment_of(dtype);
    int64_t step = 1;
    for (size_t i = axes.count; i-- > 0;) {
        spec.strides[i] = step;
        step *= axes.extents[i];
    }
    return spec;
}

ArgumentSpec state_argument(int32_t id, const char* name, Presence presence, bool written, Axes axes, int row_axis,
                            const Sequences& p, Dtype dtype) {
    const bool in = (id & ~grad_bit) == id_of(ArgId::state_in), grad = (id & grad_bit) != 0;
    if (p.pooled() && !grad) axes.extents[static_cast<size_t>(row_axis)] = p.state_pool;
    ArgumentSpec spec = dense_argument(id, name, presence, written, axes, dtype);
    spec.batch_axis = row_axis;
    if (spec.bytes == 0) return spec;
    const StateStrides& given = in ? (grad ? p.grad_state_in : p.state_in) : (grad ? p.grad_state_out : p.state_out);
    spec.strides[static_cast<size_t>(row_axis)] = given.row;
    if (row_axis == 1 && axes.extents[0] > 1) spec.strides[0] = given.state;
    Extent last(0, name);
    for (size_t i = 0; i < axes.count; ++i) last += (axes.extents[i] - 1) * spec.strides[i];
    spec.bytes = static_cast<size_t>((last + 1) * (dtype == Dtype{} ? 1 : size_of(dtype)));
    return spec;
}

void add_sequence_arguments(std::vector<ArgumentSpec>& specs, const Sequences& p) {
    if (p.has_reset)
        specs.push_back(
            dense_argument(id_of(ArgId::reset), "RESET", Presence::required, false, {p.batch, p.time}, Dtype{}));
    if (p.packed())
        specs.push_back(dense_argument(id_of(ArgId::seq_offsets), "SEQ_OFFSETS", Presence::required, false,
                                       {p.num_sequences + 1}, p.offsets_dtype));
    if (p.pooled())
        specs.push_back(dense_argument(id_of(ArgId::state_indices), "STATE_INDICES", Presence::required, false,
                                       {p.state_rows()}, Dtype::i32));
}

void add_scratch_argument(std::vector<ArgumentSpec>& specs, size_t bytes, bool required) {
    specs.push_back(dense_argument(id_of(ArgId::scratch), "SCRATCH", required ? Presence::required : Presence::optional,
                                   true, {bytes}, Dtype{}));
    specs.back().alignment = 256;
}

CommonBuffers::CommonBuffers(const Pointers& found)
    : input(found[ArgId::input]),
      output(found[ArgId::output]),
      state_in(found[ArgId::state_in]),
      state_out(found[ArgId::state_out]),
      reset(static_cast<const uint8_t*>(found[ArgId::reset])),
      seq_offsets(found[ArgId::seq_offsets]),
      state_indices(static_cast<const int32_t*>(found[ArgId::state_indices])),
      grad_output(found.grad(ArgId::output)),
      grad_state_out(found.grad(ArgId::state_out)),
      grad_input(found.grad(ArgId::input)),
      grad_state_in(found.grad(ArgId::state_in)),
      scratch(found[ArgId::scratch]) {}

void refuse_unknown(Pass pass, std::span<const ArgumentSpec> specs, const char* field, int32_t id) {
    std::string accepted;
    for (const ArgumentSpec& spec : specs) accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", spec.name);
    fail(Code::unknown_argument, "{} is {}, which the {} pass of this plan does not take; accepted are {}", field,
         number_and_name(id), pass == Pass::forward ? "forward" : "backward", accepted);
}

Pointers check_arguments(Pass pass, std::span<const ArgumentSpec> specs, std::span<const Argument> arguments) {
    constexpr size_t max_specs = 32;
    std::array<const Argument*, max_specs> given{};
    for (const Argument& argument : arguments) {
        const auto spec = std::find_if(specs.begin(), specs.end(), [&](const auto& s) { return s.id == argument.id; });
        if (spec == specs.end()) refuse_unknown(pass, specs, "an argument's id", argument.id);
        const Argument*& place = given[static_cast<size_t>(spec - specs.begin())];
        if (place != nullptr) fail(Code::doubled_argument, "{} is given more than once", spec->name);
        place = &argument;
    }
    Pointers found;
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
                check_overlap(specs, specs[i], *given[i], specs[j], *given[j]);
    if (pass == Pass::backward && !any_gradient)
        fail(Code::missing_argument, "backward was given none of {} to write", gradients_of(specs));
    return found;
}

}  // namespace flashscan
