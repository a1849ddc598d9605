// SPDX-License-Identifier: Apache-2.0
// The C interface: check and convert, call the core, turn exceptions into a status and a sentence.
#include "flashscan/flashscan.h"

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "core/error.h"
#include "core/plan.h"

struct flashscan_plan {
    std::unique_ptr<flashscan::Plan> plan;
};

namespace {

using namespace flashscan;

static_assert(static_cast<int32_t>(Code::invalid_argument) == FLASHSCAN_INVALID_ARGUMENT);
static_assert(static_cast<int32_t>(Code::invalid_struct) == FLASHSCAN_INVALID_STRUCT);
static_assert(static_cast<int32_t>(Code::struct_too_new) == FLASHSCAN_STRUCT_TOO_NEW);
static_assert(static_cast<int32_t>(Code::size_overflow) == FLASHSCAN_SIZE_OVERFLOW);
static_assert(static_cast<int32_t>(Code::missing_argument) == FLASHSCAN_MISSING_ARGUMENT);
static_assert(static_cast<int32_t>(Code::doubled_argument) == FLASHSCAN_DOUBLED_ARGUMENT);
static_assert(static_cast<int32_t>(Code::unknown_argument) == FLASHSCAN_UNKNOWN_ARGUMENT);
static_assert(static_cast<int32_t>(Code::buffer_too_small) == FLASHSCAN_BUFFER_TOO_SMALL);
static_assert(static_cast<int32_t>(Code::invalid_pointer) == FLASHSCAN_INVALID_POINTER);
static_assert(static_cast<int32_t>(Code::aliasing) == FLASHSCAN_ALIASING);
static_assert(static_cast<int32_t>(Code::unsupported) == FLASHSCAN_UNSUPPORTED);
static_assert(static_cast<int32_t>(Code::backend_missing) == FLASHSCAN_BACKEND_MISSING);
static_assert(static_cast<int32_t>(Code::no_device) == FLASHSCAN_NO_DEVICE);
static_assert(static_cast<int32_t>(Code::dependency_missing) == FLASHSCAN_DEPENDENCY_MISSING);
static_assert(static_cast<int32_t>(Code::out_of_memory) == FLASHSCAN_OUT_OF_MEMORY);
static_assert(static_cast<int32_t>(Code::device_error) == FLASHSCAN_DEVICE_ERROR);
static_assert(static_cast<int32_t>(Code::callback_failed) == FLASHSCAN_CALLBACK_FAILED);
static_assert(static_cast<int32_t>(Code::internal_error) == FLASHSCAN_INTERNAL_ERROR);
static_assert(static_cast<int32_t>(Dtype::i64) == FLASHSCAN_I64 && static_cast<int32_t>(Dtype::c128) == FLASHSCAN_C128);
static_assert(static_cast<int32_t>(ArgId::scratch) == FLASHSCAN_ARG_SCRATCH && grad_bit == FLASHSCAN_GRAD);
static_assert(static_cast<int32_t>(ArgId::bias) == FLASHSCAN_ARG_BIAS);
static_assert(static_cast<int32_t>(ArgId::reserve) == FLASHSCAN_ARG_RESERVE);
static_assert(static_cast<int32_t>(RnnLayout::tbghd) == FLASHSCAN_LAYOUT_TBGHD);
static_assert(static_cast<int32_t>(Cell::slstm) == FLASHSCAN_CELL_SLSTM);
static_assert(static_cast<int32_t>(OperatorKind::custom) == FLASHSCAN_OPERATOR_CUSTOM);
static_assert(static_cast<int32_t>(OperatorMode::reduction) == FLASHSCAN_REDUCTION);
static_assert(static_cast<int32_t>(Cell::elman_relu) == FLASHSCAN_CELL_ELMAN_RELU);

// sizeof of each struct in the first version that had it.
constexpr size_t linear_desc_first_size = 216;
constexpr size_t rnn_desc_first_size = 80;
constexpr size_t operator_desc_first_size = 80;
constexpr size_t custom_operator_first_size = 96;
constexpr size_t options_first_size = 32;

// The message of the last failure. A failure to store it must not throw, hence the fallback without allocation.
thread_local std::string last_error;
thread_local const char* last_error_fallback = nullptr;

flashscan_status remember(Code code, const char* sentence) noexcept {
    try {
        last_error = sentence;
        last_error_fallback = nullptr;
    } catch (...) {
        last_error_fallback = "out of memory while storing the error sentence";
    }
    return static_cast<flashscan_status>(code);
}

template <typename Body>
flashscan_status guarded(Body&& body) noexcept {
    try {
        body();
        return FLASHSCAN_OK;
    } catch (const Error& error) {
        return remember(error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return remember(Code::out_of_memory, "out of host memory");
    } catch (const std::exception& error) {
        return remember(Code::internal_error, error.what());
    } catch (...) {
        return remember(Code::internal_error, "unknown exception");
    }
}

void check_pointer(const void* pointer, const char* field) {
    if (pointer == nullptr) fail(Code::invalid_argument, "{} is NULL; a valid pointer is needed", field);
}

// Copies a caller's struct into today's: `first_size` is that of the first released version, later fields that the
// caller does not have stay zero, and fields that this library does not have must be zero.
template <typename Struct>
Struct read_struct(const Struct* given, size_t first_size, const char* name) {
    uint32_t size = 0;
    std::memcpy(&size, given, sizeof size);
    if (size < first_size)
        fail(Code::invalid_struct, "{}.struct_size is {}; accepted are {} (sizeof({})) and more", name, size,
             first_size, name);
    const auto* bytes = reinterpret_cast<const unsigned char*>(given);
    for (size_t i = sizeof(Struct); i < size; ++i)
        if (bytes[i] != 0)
            fail(Code::struct_too_new,
                 "{}.struct_size is {} and byte {} is not 0, but this library, version {}, knows {} bytes; a newer "
                 "library "
                 "is needed for that field",
                 name, size, i, FLASHSCAN_VERSION, sizeof(Struct));
    Struct result{};
    std::memcpy(&result, given, size < sizeof(Struct) ? size : sizeof(Struct));
    return result;
}

Strides convert(const flashscan_strides& s) { return {s.batch, s.time, s.channels}; }

LinearProblem convert(const flashscan_linear_desc& d) {
    if ((d.flags & ~static_cast<uint32_t>(FLASHSCAN_LINEAR_RESET)) != 0)
        fail(Code::invalid_argument, "flags is {}; accepted are 0 and LINEAR_RESET (1)", d.flags);
    if (d.reserved != 0) fail(Code::invalid_argument, "reserved is {}; accepted is 0", d.reserved);
    LinearProblem p;
    p.dtype = static_cast<Dtype>(d.dtype);
    p.gate_dtype = static_cast<Dtype>(d.gate_dtype);
    p.layout = static_cast<Layout>(d.layout);
    p.gate_form = static_cast<GateForm>(d.gate_form);
    p.gate_broadcast = d.gate_broadcast;
    p.direction = static_cast<Direction>(d.direction);
    p.has_reset = (d.flags & FLASHSCAN_LINEAR_RESET) != 0;
    p.batch = d.batch;
    p.time = d.time;
    p.channels = d.channels;
    p.num_sequences = d.num_sequences;
    p.offsets_dtype = static_cast<Dtype>(d.offsets_dtype);
    p.input = convert(d.input);
    p.gate = convert(d.gate);
    p.output = convert(d.output);
    p.grad_input = convert(d.grad_input);
    p.grad_gate = convert(d.grad_gate);
    p.grad_output = convert(d.grad_output);
    return p;
}

RnnProblem convert(const flashscan_rnn_desc& d) {
    constexpr uint32_t known = FLASHSCAN_RNN_RESET | FLASHSCAN_RNN_ALL_STATES | FLASHSCAN_RNN_TRAINING;
    if ((d.flags & ~known) != 0)
        fail(Code::invalid_argument,
             "flags is {}; accepted are sums of RNN_RESET (1), RNN_ALL_STATES (2), RNN_TRAINING (4)", d.flags);
    RnnProblem p;
    p.dtype = static_cast<Dtype>(d.dtype);
    p.weight_dtype = static_cast<Dtype>(d.weight_dtype);
    p.layout = static_cast<RnnLayout>(d.layout);
    p.cell = static_cast<Cell>(d.cell);
    p.direction = static_cast<Direction>(d.direction);
    p.has_reset = (d.flags & FLASHSCAN_RNN_RESET) != 0;
    p.all_states = (d.flags & FLASHSCAN_RNN_ALL_STATES) != 0;
    p.training = (d.flags & FLASHSCAN_RNN_TRAINING) != 0;
    p.batch = d.batch;
    p.time = d.time;
    p.heads = d.heads;
    p.head_dim = d.head_dim;
    p.num_sequences = d.num_sequences;
    p.offsets_dtype = static_cast<Dtype>(d.offsets_dtype);
    p.recurrent_clip = d.recurrent_clip;
    return p;
}

CustomOperator convert(const flashscan_custom_operator& c) {
    CustomOperator custom;
    custom.element_bytes = c.element_bytes;
    custom.state = c.state;
    custom.host = c.host;
    custom.host_adjoint = c.host_adjoint;
    custom.batched = c.batched;
    custom.batched_adjoint = c.batched_adjoint;
    custom.code_kind = static_cast<CodeKind>(c.code_kind);
    if (c.code != nullptr) custom.code.assign(static_cast<const char*>(c.code), c.code_bytes);
    if (c.name != nullptr) custom.name = c.name;
    if (c.adjoint_name != nullptr) custom.adjoint_name = c.adjoint_name;
    if (c.state_bytes > 0) {
        check_pointer(c.state, "custom.state");
        custom.device_state.assign(static_cast<const char*>(c.state), c.state_bytes);
    }
    return custom;
}

OperatorProblem convert(const flashscan_operator_desc& d) {
    if ((d.flags & ~static_cast<uint32_t>(FLASHSCAN_OPERATOR_ALLOW_TF32)) != 0)
        fail(Code::invalid_argument, "flags is {}; accepted are 0 and OPERATOR_ALLOW_TF32 (1)", d.flags);
    OperatorProblem p;
    p.dtype = static_cast<Dtype>(d.dtype);
    p.kind = static_cast<OperatorKind>(d.kind);
    p.layout = static_cast<Layout>(d.layout);
    p.mode = static_cast<OperatorMode>(d.mode);
    p.direction = static_cast<Direction>(d.direction);
    p.allow_tf32 = (d.flags & FLASHSCAN_OPERATOR_ALLOW_TF32) != 0;
    p.offsets_dtype = static_cast<Dtype>(d.offsets_dtype);
    p.batch = d.batch;
    p.time = d.time;
    p.channels = d.channels;
    p.dim = d.dim;
    p.num_sequences = d.num_sequences;
    if (d.custom != nullptr) {
        p.custom = convert(read_struct(d.custom, custom_operator_first_size, "flashscan_custom_operator"));
        p.has_custom = true;
    }
    return p;
}

Options convert(const flashscan_options& o) {
    Options options;
    options.backend = static_cast<BackendId>(o.backend);
    options.device = o.device;
    options.threads = o.threads;
    if (o.determinism != FLASHSCAN_DETERMINISM_RUN_TO_RUN && o.determinism != FLASHSCAN_DETERMINISM_BATCH_INVARIANT)
        fail(Code::invalid_argument, "determinism is {}; accepted are RUN_TO_RUN (0) and BATCH_INVARIANT (1)",
             o.determinism);
    if (o.workspace != FLASHSCAN_WORKSPACE_LIBRARY && o.workspace != FLASHSCAN_WORKSPACE_CALLER)
        fail(Code::invalid_argument, "workspace is {}; accepted are LIBRARY (0) and CALLER (1)", o.workspace);
    options.batch_invariant = o.determinism == FLASHSCAN_DETERMINISM_BATCH_INVARIANT;
    options.caller_scratch = o.workspace == FLASHSCAN_WORKSPACE_CALLER;
    if (o.kernel != nullptr) options.kernel = o.kernel;
    return options;
}

template <typename Desc>
flashscan_status create(flashscan_plan** plan, const Desc* desc, size_t first_size, const char* name,
                        const flashscan_options* options) {
    return guarded([&] {
        check_pointer(plan, "plan");
        *plan = nullptr;
        check_pointer(desc, "desc");
        const auto problem = convert(read_struct(desc, first_size, name));
        Options how;
        if (options != nullptr) how = convert(read_struct(options, options_first_size, "flashscan_options"));
        *plan = new flashscan_plan{make_plan(problem, how)};
    });
}

flashscan_status execute(const flashscan_plan* plan, Pass pass, const flashscan_arg* args, int32_t num_args,
                         void* stream) noexcept {
    return guarded([&] {
        constexpr int32_t most = 32;
        check_pointer(plan, "plan");
        if (num_args < 0 || num_args > most)
            fail(Code::invalid_argument, "num_args is {}; accepted are 0 to {}", num_args, most);
        if (num_args > 0) check_pointer(args, "args");
        std::array<Argument, most> arguments;
        for (int32_t i = 0; i < num_args; ++i) {
            if (args[i].reserved != 0)
                fail(Code::invalid_argument, "args[{}].reserved is {}; accepted is 0", i, args[i].reserved);
            arguments[static_cast<size_t>(i)] = {args[i].id, args[i].data, args[i].bytes};
        }
        plan->plan->execute(pass, std::span(arguments).first(static_cast<size_t>(num_args)), stream);
    });
}

Pass convert_pass(int32_t pass) {
    if (pass != FLASHSCAN_PASS_FORWARD && pass != FLASHSCAN_PASS_BACKWARD)
        fail(Code::invalid_argument, "pass is {}; accepted are PASS_FORWARD (0) and PASS_BACKWARD (1)", pass);
    return static_cast<Pass>(pass);
}

}  // namespace

extern "C" {

int32_t flashscan_version(void) { return FLASHSCAN_VERSION; }

const char* flashscan_status_name(flashscan_status status) {
    switch (status) {
#define FLASHSCAN_NAME(name) \
    case name: return #name;
        FLASHSCAN_NAME(FLASHSCAN_OK)
        FLASHSCAN_NAME(FLASHSCAN_INVALID_ARGUMENT)
        FLASHSCAN_NAME(FLASHSCAN_INVALID_STRUCT)
        FLASHSCAN_NAME(FLASHSCAN_STRUCT_TOO_NEW)
        FLASHSCAN_NAME(FLASHSCAN_SIZE_OVERFLOW)
        FLASHSCAN_NAME(FLASHSCAN_MISSING_ARGUMENT)
        FLASHSCAN_NAME(FLASHSCAN_DOUBLED_ARGUMENT)
        FLASHSCAN_NAME(FLASHSCAN_UNKNOWN_ARGUMENT)
        FLASHSCAN_NAME(FLASHSCAN_BUFFER_TOO_SMALL)
        FLASHSCAN_NAME(FLASHSCAN_INVALID_POINTER)
        FLASHSCAN_NAME(FLASHSCAN_ALIASING)
        FLASHSCAN_NAME(FLASHSCAN_UNSUPPORTED)
        FLASHSCAN_NAME(FLASHSCAN_BACKEND_MISSING)
        FLASHSCAN_NAME(FLASHSCAN_NO_DEVICE)
        FLASHSCAN_NAME(FLASHSCAN_DEPENDENCY_MISSING)
        FLASHSCAN_NAME(FLASHSCAN_OUT_OF_MEMORY)
        FLASHSCAN_NAME(FLASHSCAN_DEVICE_ERROR)
        FLASHSCAN_NAME(FLASHSCAN_CALLBACK_FAILED)
        FLASHSCAN_NAME(FLASHSCAN_INTERNAL_ERROR)
#undef FLASHSCAN_NAME
    default: return "unknown status";
    }
}

const char* flashscan_last_error(void) {
    return last_error_fallback != nullptr ? last_error_fallback : last_error.c_str();
}

flashscan_status flashscan_device_count(int32_t backend, int32_t* count) {
    return guarded([&] {
        check_pointer(count, "count");
        *count = 0;
        if (backend == FLASHSCAN_CUDA && !FLASHSCAN_WITH_CUDA) return;
        *count = find_backend(static_cast<BackendId>(backend)).device_count();
    });
}

flashscan_status flashscan_plan_linear(flashscan_plan** plan, const flashscan_linear_desc* desc,
                                       const flashscan_options* options) {
    return create(plan, desc, linear_desc_first_size, "flashscan_linear_desc", options);
}

flashscan_status flashscan_plan_rnn(flashscan_plan** plan, const flashscan_rnn_desc* desc,
                                    const flashscan_options* options) {
    return create(plan, desc, rnn_desc_first_size, "flashscan_rnn_desc", options);
}

flashscan_status flashscan_plan_operator(flashscan_plan** plan, const flashscan_operator_desc* desc,
                                         const flashscan_options* options) {
    return create(plan, desc, operator_desc_first_size, "flashscan_operator_desc", options);
}

flashscan_status flashscan_plan_arg_bytes(const flashscan_plan* plan, int32_t pass, int32_t arg_id, size_t* bytes) {
    return guarded([&] {
        check_pointer(plan, "plan");
        check_pointer(bytes, "bytes");
        *bytes = plan->plan->argument_bytes(convert_pass(pass), arg_id);
    });
}

flashscan_status flashscan_plan_describe(const flashscan_plan* plan, char* text, size_t capacity, size_t* length) {
    return guarded([&] {
        check_pointer(plan, "plan");
        if (capacity > 0) check_pointer(text, "text");
        const std::string& description = plan->plan->describe();
        if (length != nullptr) *length = description.size();
        if (capacity == 0) return;
        const size_t copied = description.size() < capacity ? description.size() : capacity - 1;
        std::memcpy(text, description.data(), copied);
        text[copied] = '\0';
    });
}

flashscan_status flashscan_forward(const flashscan_plan* plan, const flashscan_arg* args, int32_t num_args,
                                   void* stream) {
    return execute(plan, Pass::forward, args, num_args, stream);
}

flashscan_status flashscan_backward(const flashscan_plan* plan, const flashscan_arg* args, int32_t num_args,
                                    void* stream) {
    return execute(plan, Pass::backward, args, num_args, stream);
}

void flashscan_plan_destroy(flashscan_plan* plan) { delete plan; }

}  // extern "C"
