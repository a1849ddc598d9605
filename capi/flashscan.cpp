// SPDX-License-Identifier: Apache-2.0
// The C interface: check and convert, call the core, turn exceptions into a status and a sentence.
#include "flashscan/flashscan.h"

#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "capi/convert.h"
#include "capi/structs.h"
#include "core/plan.h"

struct flashscan_plan {
    std::unique_ptr<flashscan::Plan> plan;
};

namespace {

using namespace flashscan;

static_assert(static_cast<int32_t>(Code::invalid_argument) == FLASHSCAN_STATUS_INVALID_ARGUMENT);
static_assert(static_cast<int32_t>(Code::invalid_struct) == FLASHSCAN_STATUS_INVALID_STRUCT);
static_assert(static_cast<int32_t>(Code::struct_too_new) == FLASHSCAN_STATUS_STRUCT_TOO_NEW);
static_assert(static_cast<int32_t>(Code::size_overflow) == FLASHSCAN_STATUS_SIZE_OVERFLOW);
static_assert(static_cast<int32_t>(Code::missing_argument) == FLASHSCAN_STATUS_MISSING_ARGUMENT);
static_assert(static_cast<int32_t>(Code::doubled_argument) == FLASHSCAN_STATUS_DOUBLED_ARGUMENT);
static_assert(static_cast<int32_t>(Code::unknown_argument) == FLASHSCAN_STATUS_UNKNOWN_ARGUMENT);
static_assert(static_cast<int32_t>(Code::buffer_too_small) == FLASHSCAN_STATUS_BUFFER_TOO_SMALL);
static_assert(static_cast<int32_t>(Code::invalid_pointer) == FLASHSCAN_STATUS_INVALID_POINTER);
static_assert(static_cast<int32_t>(Code::aliasing) == FLASHSCAN_STATUS_ALIASING);
static_assert(static_cast<int32_t>(Code::unsupported) == FLASHSCAN_STATUS_UNSUPPORTED);
static_assert(static_cast<int32_t>(Code::backend_missing) == FLASHSCAN_STATUS_BACKEND_MISSING);
static_assert(static_cast<int32_t>(Code::no_device) == FLASHSCAN_STATUS_NO_DEVICE);
static_assert(static_cast<int32_t>(Code::dependency_missing) == FLASHSCAN_STATUS_DEPENDENCY_MISSING);
static_assert(static_cast<int32_t>(Code::out_of_memory) == FLASHSCAN_STATUS_OUT_OF_MEMORY);
static_assert(static_cast<int32_t>(Code::device_error) == FLASHSCAN_STATUS_DEVICE_ERROR);
static_assert(static_cast<int32_t>(Code::callback_failed) == FLASHSCAN_STATUS_CALLBACK_FAILED);
static_assert(static_cast<int32_t>(Code::internal_error) == FLASHSCAN_STATUS_INTERNAL_ERROR);
static_assert(first_arg_id == FLASHSCAN_ARG_INPUT && static_cast<int32_t>(ArgId::param) == FLASHSCAN_ARG_PARAM);
static_assert(grad_bit == FLASHSCAN_GRAD);

// sizeof of each struct in the first version that had it.
constexpr size_t linear_desc_first_size = 280;
constexpr size_t rnn_desc_first_size = 144;
constexpr size_t operator_desc_first_size = 144;
constexpr size_t gated_desc_first_size = 456;
constexpr size_t selective_desc_first_size = 440;
constexpr size_t options_first_size = 64;
constexpr size_t build_first_size = 48;
constexpr size_t arg_info_first_size = 144;
constexpr size_t pass_info_first_size = 48;

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
        return FLASHSCAN_STATUS_OK;
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

template <typename Desc>
flashscan_status create(flashscan_plan** plan, const Desc* desc, size_t first_size, const char* name,
                        const flashscan_options* options) {
    return guarded([&] {
        check_pointer(plan, "plan");
        *plan = nullptr;
        Options how;
        if (options != nullptr) how = convert(read_struct(options, options_first_size, "flashscan_options"));
        const auto make = [&] {
            check_pointer(desc, "desc");
            return make_plan(convert(read_struct(desc, first_size, name)), how);
        };
        logged(how, [&] { *plan = new flashscan_plan{make_together(how, FLASHSCAN_VERSION, make)}; });
    });
}

flashscan_arg_info describe_argument(const ArgumentSpec& spec) {
    flashscan_arg_info info{};
    info.id = spec.id;
    info.access = spec.written ? FLASHSCAN_ACCESS_WRITE : FLASHSCAN_ACCESS_READ;
    info.optional = spec.presence == Presence::optional ? 1 : 0;
    info.dtype = number_of(spec.dtype);
    info.num_axes = static_cast<int32_t>(spec.axes.count);
    for (size_t i = 0; i < spec.axes.count; ++i) {
        info.extents[i] = spec.axes.extents[i];
        info.strides[i] = spec.strides[i];
    }
    info.bytes = spec.bytes;
    info.alignment = static_cast<size_t>(spec.alignment);
    info.name = spec.name;
    return info;
}

// Tells the plan's log of a failure on its way out.
template <typename Body>
void logged(const Options& options, Body&& body) {
    try {
        body();
    } catch (const Error& error) {
        if (options.log) options.log(LogLevel::error, error.what());
        throw;
    }
}

}  // namespace

extern "C" {

int32_t flashscan_version(void) { return FLASHSCAN_VERSION; }

const char* flashscan_status_name(flashscan_status status) {
    switch (status) {
#define FLASHSCAN_NAME(name) \
    case name: return #name;
        FLASHSCAN_NAME(FLASHSCAN_STATUS_OK)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_INVALID_ARGUMENT)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_INVALID_STRUCT)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_STRUCT_TOO_NEW)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_SIZE_OVERFLOW)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_MISSING_ARGUMENT)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_DOUBLED_ARGUMENT)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_UNKNOWN_ARGUMENT)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_BUFFER_TOO_SMALL)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_INVALID_POINTER)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_ALIASING)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_UNSUPPORTED)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_BACKEND_MISSING)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_NO_DEVICE)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_DEPENDENCY_MISSING)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_OUT_OF_MEMORY)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_DEVICE_ERROR)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_CALLBACK_FAILED)
        FLASHSCAN_NAME(FLASHSCAN_STATUS_INTERNAL_ERROR)
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
        const BackendId id = convert_backend(backend);
        const bool built = id != BackendId::cuda || FLASHSCAN_WITH_CUDA;
        *count = built ? find_backend(id).device_count() : 0;
    });
}

flashscan_status flashscan_build_info(flashscan_build* build) {
    return guarded([&] {
        check_pointer(build, "build");
        const uint32_t size = read_size(build, build_first_size, "flashscan_build");
        thread_local BackendFacts cpu, cuda;
        cpu = find_backend(BackendId::cpu).facts();
        cuda = {};
        cuda.unusable = "the library was built without CUDA";
        if (FLASHSCAN_WITH_CUDA) cuda = find_backend(BackendId::cuda).facts();
        flashscan_build values{};
        values.version = FLASHSCAN_VERSION;
        values.cuda_toolkit = cuda.toolkit;
        values.cuda_driver = cuda.driver;
        values.cuda_architectures = cuda.built_for.c_str();
        values.cuda_unusable = cuda.unusable.c_str();
        values.cpu_instruction_sets = cpu.built_for.c_str();
        values.cpu_instruction_set = cpu.in_use.c_str();
        write_struct(build, size, values);
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

flashscan_status flashscan_plan_gated(flashscan_plan** plan, const flashscan_gated_desc* desc,
                                      const flashscan_options* options) {
    return create(plan, desc, gated_desc_first_size, "flashscan_gated_desc", options);
}

flashscan_status flashscan_plan_selective(flashscan_plan** plan, const flashscan_selective_desc* desc,
                                          const flashscan_options* options) {
    return create(plan, desc, selective_desc_first_size, "flashscan_selective_desc", options);
}

flashscan_status flashscan_plan_arg_bytes(const flashscan_plan* plan, int32_t pass, int32_t arg_id, size_t* bytes) {
    return guarded([&] {
        check_pointer(plan, "plan");
        check_pointer(bytes, "bytes");
        *bytes = plan->plan->argument_bytes(convert_pass(pass), arg_id);
    });
}

flashscan_status flashscan_plan_args(const flashscan_plan* plan, int32_t pass, flashscan_arg_info* infos,
                                     int32_t capacity, int32_t* count) {
    return guarded([&] {
        check_pointer(plan, "plan");
        check_pointer(count, "count");
        if (capacity < 0) fail(Code::invalid_argument, "capacity is {}; accepted are 0 and up", capacity);
        const auto specs = plan->plan->arguments(convert_pass(pass));
        uint32_t size = 0;
        if (capacity > 0) {
            check_pointer(infos, "infos");
            size = read_size(infos, arg_info_first_size, "flashscan_arg_info");
        }
        // Those of another version lie as far apart as its struct is large.
        auto* at = reinterpret_cast<unsigned char*>(infos);
        for (size_t i = 0; i < specs.size() && i < static_cast<size_t>(capacity); ++i, at += size) {
            std::memcpy(at, &size, sizeof size);
            write_struct(at, size, describe_argument(specs[i]));
        }
        *count = static_cast<int32_t>(specs.size());
    });
}

flashscan_status flashscan_plan_info(const flashscan_plan* plan, int32_t pass, flashscan_pass_info* info) {
    return guarded([&] {
        check_pointer(plan, "plan");
        check_pointer(info, "info");
        const uint32_t size = read_size(info, pass_info_first_size, "flashscan_pass_info");
        const Plan& made = *plan->plan;
        flashscan_pass_info values{};
        for (const ArgumentSpec& spec : made.arguments(convert_pass(pass))) {
            ++values.num_args;
            if (spec.id == FLASHSCAN_ARG_SCRATCH) values.scratch_bytes = spec.bytes;
            if (spec.id == FLASHSCAN_ARG_RESERVE) values.reserve_bytes = spec.bytes;
        }
        values.backend = number_of(made.options().backend);
        values.device = made.options().device;
        values.kernel = made.kernel_name().c_str();
        values.detail = made.kernel_detail().c_str();
        values.launches = made.launches(convert_pass(pass));
        write_struct(info, size, values);
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

flashscan_status flashscan_execute(const flashscan_plan* plan, int32_t pass, const flashscan_arg* args,
                                   int32_t num_args, void* stream) {
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
        const auto given = std::span(arguments).first(static_cast<size_t>(num_args));
        logged(plan->plan->options(), [&] { plan->plan->execute(convert_pass(pass), given, stream); });
    });
}

void flashscan_plan_destroy(flashscan_plan* plan) { delete plan; }

}  // extern "C"
