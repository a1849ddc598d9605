// SPDX-License-Identifier: Apache-2.0
// XLA's calls of flashscan: one handler for all families and both passes, on the CPU and on CUDA devices. What to
// compute comes as attributes of the call, from flashscan/_xla.py:
//
//     family     the index of the function in `families` that makes the plan
//     backward   0 or 1
//     threads    of a CPU plan
//     desc       the bytes of the family's descriptor
//     words      lines "WORD=name": what stands in messages of the library, and what its caller knows it by
//     ids        the FLASHSCAN_ARG_* of the operands, then of the results; 0: an operand that the library does not get
//
// Nothing here needs CUDA's headers: XLA's stream is passed on as it is.
#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "flashscan/flashscan.h"

namespace ffi = xla::ffi;

namespace {

constexpr uintptr_t scratch_alignment = 256;
constexpr size_t most_plans = 1024, most_args = 32;

using PlanPointer = std::shared_ptr<const flashscan_plan>;
using Bytes = ffi::Span<const uint8_t>;
using Ids = ffi::Span<const int32_t>;

// How the plan of a call is made and where it runs.
struct Place {
    int32_t backend, device, threads;
    void* stream;
};

struct Work {
    int32_t family, backward;
    std::string_view words;
    Bytes desc;
    Ids ids;
};

// The name that `words` has for a word, or the word.
std::string_view name_of(std::string_view word, std::string_view words) {
    while (!words.empty()) {
        const std::string_view line = words.substr(0, words.find('\n'));
        if (line.size() > word.size() && line.starts_with(word) && line[word.size()] == '=')
            return line.substr(word.size() + 1);
        words.remove_prefix(std::min(words.size(), line.size() + 1));
    }
    return word;
}

std::string renamed(std::string_view message, std::string_view words) {
    const auto in_word = [](char c) {
        return c == '_' || c == '|' || std::isalnum(static_cast<unsigned char>(c)) != 0;
    };
    std::string text;
    while (!message.empty()) {
        const auto end = std::find_if_not(message.begin(), message.end(), in_word);
        const std::string_view word = message.substr(0, static_cast<size_t>(end - message.begin()));
        text += name_of(word, words);
        message.remove_prefix(word.size());
        const auto next = std::find_if(message.begin(), message.end(), in_word);
        text.append(message.begin(), next);
        message.remove_prefix(static_cast<size_t>(next - message.begin()));
    }
    return text;
}

ffi::Error error_of(flashscan_status status, const Work& work) {
    const bool callers = status >= FLASHSCAN_STATUS_INVALID_ARGUMENT && status <= FLASHSCAN_STATUS_ALIASING;
    const ffi::ErrorCode code = callers                                    ? ffi::ErrorCode::kInvalidArgument
                                : status == FLASHSCAN_STATUS_OUT_OF_MEMORY ? ffi::ErrorCode::kResourceExhausted
                                : status < FLASHSCAN_STATUS_OUT_OF_MEMORY  ? ffi::ErrorCode::kUnimplemented
                                                                           : ffi::ErrorCode::kInternal;
    return {code, std::string(flashscan_status_name(status)) + ": " + renamed(flashscan_last_error(), work.words)};
}

template <typename Desc>
using MakePlan = flashscan_status (*)(flashscan_plan**, const Desc*, const flashscan_options*);

template <typename Desc, MakePlan<Desc> make>
flashscan_status make_plan(flashscan_plan** plan, const void* desc, const flashscan_options& options) {
    return make(plan, static_cast<const Desc*>(desc), &options);
}

using Maker = flashscan_status (*)(flashscan_plan**, const void*, const flashscan_options&);
constexpr std::array families = {
    make_plan<flashscan_linear_desc, flashscan_plan_linear>, make_plan<flashscan_rnn_desc, flashscan_plan_rnn>,
    make_plan<flashscan_operator_desc, flashscan_plan_operator>, make_plan<flashscan_gated_desc, flashscan_plan_gated>,
    make_plan<flashscan_selective_desc, flashscan_plan_selective>};

// Plans by everything they are made from. A plan that is dropped lives on in the calls that use it.
class Plans {
  public:
    flashscan_status find(const Work& work, const Place& place, PlanPointer& plan) {
        std::string key(reinterpret_cast<const char*>(work.desc.begin()), work.desc.size());
        for (const int32_t number : {work.family, place.backend, place.device, place.threads})
            key.append(reinterpret_cast<const char*>(&number), sizeof number);
        {
            const std::lock_guard lock(mutex_);
            if (const auto found = plans_.find(key); found != plans_.end()) {
                plan = found->second;
                return FLASHSCAN_STATUS_OK;
            }
        }
        flashscan_options options{};
        options.struct_size = sizeof options;
        options.backend = place.backend;
        options.device = place.device;
        options.threads = place.threads;
        flashscan_plan* made = nullptr;
        // The key's bytes begin with the descriptor and are aligned as memory of operator new is.
        const flashscan_status status = families[static_cast<size_t>(work.family)](&made, key.data(), options);
        if (status != FLASHSCAN_STATUS_OK) return status;
        plan =
            PlanPointer(made, [](const flashscan_plan* p) { flashscan_plan_destroy(const_cast<flashscan_plan*>(p)); });
        const std::lock_guard lock(mutex_);
        if (plans_.size() >= most_plans) plans_.clear();
        plans_.emplace(std::move(key), plan);
        return FLASHSCAN_STATUS_OK;
    }

  private:
    std::mutex mutex_;
    std::unordered_map<std::string, PlanPointer> plans_;
};

Plans& plans() {
    static auto* const all = new Plans;  // never destroyed: XLA's threads may outlive static objects
    return *all;
}

class Args {
  public:
    void add(int32_t id, void* data, size_t bytes) { args_.at(size_++) = {id, 0, data, bytes}; }
    void add(int32_t id, const ffi::AnyBuffer& buffer) {
        if (id != 0) add(id, buffer.untyped_data(), buffer.size_bytes());
    }
    const flashscan_arg* data() const { return args_.data(); }
    int32_t size() const { return static_cast<int32_t>(size_); }

  private:
    std::array<flashscan_arg, most_args> args_{};
    size_t size_ = 0;
};

// `scratch` is null where the library takes its own.
ffi::Error execute(const Work& work, const Place& place, ffi::ScratchAllocator* scratch, ffi::RemainingArgs operands,
                   ffi::RemainingRets results) {
    if (work.ids.size() != operands.size() + results.size() || work.ids.size() >= most_args ||
        static_cast<size_t>(work.family) >= families.size())
        return ffi::Error::InvalidArgument("flashscan: the attributes are those of another version of the package");
    PlanPointer plan;
    if (const auto status = plans().find(work, place, plan); status != FLASHSCAN_STATUS_OK)
        return error_of(status, work);
    const int32_t pass = work.backward != 0 ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
    Args args;
    const int32_t* id = work.ids.begin();
    for (size_t i = 0; i < operands.size(); ++i) args.add(*id++, operands.get<ffi::AnyBuffer>(i).value());
    for (size_t i = 0; i < results.size(); ++i) args.add(*id++, *results.get<ffi::AnyBuffer>(i).value());
    if (scratch != nullptr) {
        size_t bytes = 0;
        const auto status = flashscan_plan_arg_bytes(plan.get(), pass, FLASHSCAN_ARG_SCRATCH, &bytes);
        if (status != FLASHSCAN_STATUS_OK) return error_of(status, work);
        if (bytes > 0) {
            const auto memory = scratch->Allocate(bytes + scratch_alignment - 1);
            if (!memory)
                return {ffi::ErrorCode::kResourceExhausted,
                        "flashscan: XLA has no " + std::to_string(bytes) + " bytes for scratch"};
            const uintptr_t start = reinterpret_cast<uintptr_t>(*memory) + scratch_alignment - 1;
            args.add(FLASHSCAN_ARG_SCRATCH, reinterpret_cast<void*>(start - start % scratch_alignment), bytes);
        }
    }
    const flashscan_status status = flashscan_execute(plan.get(), pass, args.data(), args.size(), place.stream);
    return status == FLASHSCAN_STATUS_OK ? ffi::Error::Success() : error_of(status, work);
}

ffi::Error execute_cpu(ffi::RemainingArgs operands, ffi::RemainingRets results, int32_t family, int32_t backward,
                       int32_t threads, std::string_view words, Bytes desc, Ids ids) {
    return execute({family, backward, words, desc, ids}, {FLASHSCAN_BACKEND_CPU, 0, threads, nullptr}, nullptr,
                   operands, results);
}

ffi::Error execute_cuda(void* stream, int32_t device, ffi::ScratchAllocator scratch, ffi::RemainingArgs operands,
                        ffi::RemainingRets results, int32_t family, int32_t backward, int32_t, std::string_view words,
                        Bytes desc, Ids ids) {
    return execute({family, backward, words, desc, ids}, {FLASHSCAN_BACKEND_CUDA, device, 0, stream}, &scratch,
                   operands, results);
}

template <typename Binding>
auto with_attributes(Binding binding) {
    return std::move(binding)
        .RemainingArgs()
        .RemainingRets()
        .template Attr<int32_t>("family")
        .template Attr<int32_t>("backward")
        .template Attr<int32_t>("threads")
        .template Attr<std::string_view>("words")
        .template Attr<Bytes>("desc")
        .template Attr<Ids>("ids");
}

auto cuda_binding() {
    return ffi::Ffi::Bind().Ctx<ffi::PlatformStream<void*>>().Ctx<ffi::DeviceOrdinal>().Ctx<ffi::ScratchAllocator>();
}

}  // namespace

extern "C" {
FLASHSCAN_API XLA_FFI_Error* flashscan_xla_cpu(XLA_FFI_CallFrame* frame);
FLASHSCAN_API XLA_FFI_Error* flashscan_xla_cuda(XLA_FFI_CallFrame* frame);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(flashscan_xla_cpu, execute_cpu, with_attributes(ffi::Ffi::Bind()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(flashscan_xla_cuda, execute_cuda, with_attributes(cuda_binding()));
