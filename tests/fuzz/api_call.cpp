// SPDX-License-Identifier: Apache-2.0
#include <flashscan/flashscan.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "fuzz/api.h"

namespace fuzz {

void (*broken)(const std::string& what) = [](const std::string& what) {
    std::fprintf(stderr, "broken promise: %s\n", what.c_str());
    std::abort();
};

void (*happened)(const char* what) = [](const char*) {};

std::unique_ptr<support::Buffer> at_guard(const void* from, size_t bytes) {
    const size_t alignment = bytes == 0 ? 16 : std::min<size_t>(16, bytes & (~bytes + 1));
    auto buffer = support::make_buffer(FLASHSCAN_BACKEND_CPU, bytes, support::Guard::end, alignment, 0);
    if (bytes > 0) std::memcpy(buffer->data(), from, bytes);
    return buffer;
}

void check_status(const char* function, flashscan_status status) {
    if (status == FLASHSCAN_STATUS_OK) return;
    const std::string text = std::string(function) + ": " + flashscan_status_name(status) + " (" +
                             std::to_string(status) + "): " + flashscan_last_error();
    if (std::strcmp(flashscan_status_name(status), "unknown status") == 0) broken("a status without a name: " + text);
    if (status == FLASHSCAN_STATUS_INTERNAL_ERROR || status == FLASHSCAN_STATUS_DEVICE_ERROR) broken(text);
    if (flashscan_last_error()[0] == '\0') broken("a failure without a sentence: " + text);
}

namespace {

constexpr size_t most_bytes = 2 << 20;  // of one argument: others are given too small
constexpr int32_t ids[] = {
    FLASHSCAN_ARG_INPUT,       FLASHSCAN_ARG_GATE,       FLASHSCAN_ARG_OUTPUT,      FLASHSCAN_ARG_STATE_IN,
    FLASHSCAN_ARG_STATE_OUT,   FLASHSCAN_ARG_RESET,      FLASHSCAN_ARG_SEQ_OFFSETS, FLASHSCAN_ARG_WEIGHT,
    FLASHSCAN_ARG_BIAS,        FLASHSCAN_ARG_SCRATCH,    FLASHSCAN_ARG_RESERVE,     FLASHSCAN_ARG_STATE_INDICES,
    FLASHSCAN_ARG_SECOND_GATE, FLASHSCAN_ARG_INPUT_GATE, FLASHSCAN_ARG_OUTPUT_GATE, FLASHSCAN_ARG_PARAM,
    FLASHSCAN_ARG_DELTA,       FLASHSCAN_ARG_A,          FLASHSCAN_ARG_B,           FLASHSCAN_ARG_C,
    FLASHSCAN_ARG_D,           FLASHSCAN_ARG_INDEX,      FLASHSCAN_ARG_ITERATIONS,  FLASHSCAN_ARG_RESIDUAL};

int32_t any_pass(Source& source) {
    constexpr int32_t passes[] = {FLASHSCAN_PASS_FORWARD, FLASHSCAN_PASS_BACKWARD, FLASHSCAN_PASS_TANGENT};
    return source.chance(30) ? source.raw<int32_t>() : source.of(passes);
}

bool written(int32_t pass, int32_t id) {
    if (pass == FLASHSCAN_PASS_BACKWARD)
        return (id & FLASHSCAN_GRAD) != 0 && (id & ~FLASHSCAN_GRAD) != FLASHSCAN_ARG_OUTPUT &&
               (id & ~FLASHSCAN_GRAD) != FLASHSCAN_ARG_STATE_OUT;
    return id == FLASHSCAN_ARG_OUTPUT || id == FLASHSCAN_ARG_INDEX || id == FLASHSCAN_ARG_STATE_OUT ||
           id == FLASHSCAN_ARG_RESERVE || id == FLASHSCAN_ARG_ITERATIONS || id == FLASHSCAN_ARG_RESIDUAL;
}

// A buffer of the needed bytes whose contents are numbers, small integers or anything.
std::unique_ptr<support::Buffer> fill(Source& source, int32_t id, size_t bytes) {
    std::vector<unsigned char> contents(bytes);
    const uint8_t kind = source.byte();
    for (size_t i = 0; i < bytes; ++i)
        contents[i] = id == FLASHSCAN_ARG_SEQ_OFFSETS ? 0 : static_cast<unsigned char>(kind * (i + 1) * 37 >> 3);
    if (id == FLASHSCAN_ARG_SEQ_OFFSETS && bytes > 0 && source.chance(100))
        contents[source.below(bytes)] = source.byte();
    if (id == FLASHSCAN_ARG_STATE_INDICES && kind % 4 != 0)  // each row its own, the first at times padding
        for (size_t i = 0; i + sizeof(int32_t) <= bytes; i += sizeof(int32_t)) {
            const int32_t index = static_cast<int32_t>(i / sizeof(int32_t)) - kind % 2;
            std::memcpy(contents.data() + i, &index, sizeof index);
        }
    if (id == FLASHSCAN_ARG_SCRATCH || id == FLASHSCAN_ARG_RESERVE) {
        auto buffer = support::make_buffer(FLASHSCAN_BACKEND_CPU, bytes, support::Guard::end, 256, 0);
        if (bytes > 0) std::memcpy(buffer->data(), contents.data(), bytes);
        return buffer;
    }
    return at_guard(contents.data(), bytes);
}

struct Arguments {
    std::vector<flashscan_arg> list;
    std::vector<std::unique_ptr<support::Buffer>> buffers;
    std::vector<support::Bytes> before;

    void add(int32_t id, std::unique_ptr<support::Buffer> buffer) {
        list.push_back({id, 0, buffer->data(), buffer->bytes()});
        before.push_back(buffer->read());
        buffers.push_back(std::move(buffer));
    }
};

Arguments make_arguments(Source& source, const Planned& planned, int32_t pass) {
    Arguments arguments;
    for (const int32_t gradient : {0, static_cast<int32_t>(FLASHSCAN_GRAD)})
        for (const int32_t base : ids) {
            const int32_t id = base | gradient;
            size_t bytes = 0;
            if (flashscan_plan_arg_bytes(planned.plan, pass, id, &bytes) != FLASHSCAN_STATUS_OK) continue;
            const bool optional =
                base == FLASHSCAN_ARG_STATE_IN || base == FLASHSCAN_ARG_STATE_OUT || base == FLASHSCAN_ARG_SCRATCH ||
                base == FLASHSCAN_ARG_BIAS || base == FLASHSCAN_ARG_OUTPUT_GATE || base == FLASHSCAN_ARG_D ||
                base == FLASHSCAN_ARG_INDEX || base == FLASHSCAN_ARG_ITERATIONS || base == FLASHSCAN_ARG_RESIDUAL;
            if (optional && source.chance(128)) continue;
            arguments.add(id, fill(source, base, std::min(bytes, most_bytes)));
        }
    return arguments;
}

// One of the things that callers get wrong.
void spoil(Source& source, Arguments& arguments) {
    std::vector<flashscan_arg>& list = arguments.list;
    if (list.empty()) return;
    flashscan_arg& one = list[source.below(list.size())];
    switch (source.byte() % 10) {
    case 0: list.erase(list.begin() + static_cast<std::ptrdiff_t>(source.below(list.size()))); break;
    case 1: list.push_back(flashscan_arg(one)); break;
    case 2: one.id = source.of(ids) | (source.chance(128) ? static_cast<int32_t>(FLASHSCAN_GRAD) : 0); break;
    case 3: one.id = source.raw<int32_t>(); break;
    case 4: one.data = nullptr; break;
    case 5:
        if (one.bytes > 0) {
            one.data = static_cast<unsigned char*>(one.data) + 1;
            --one.bytes;
        }
        break;
    case 6: one.bytes -= std::min<size_t>(one.bytes, source.byte()); break;
    case 7: one.reserved = source.raw<int32_t>(); break;
    case 8: {  // the memory of another argument
        const flashscan_arg& other = list[source.below(list.size())];
        one.data = other.data;
        one.bytes = other.bytes;
        break;
    }
    default: std::reverse(list.begin(), list.end()); break;
    }
}

void execute(Source& source, const Planned& planned, int32_t pass) {
    Arguments arguments = make_arguments(source, planned, pass);
    bool spoiled = false;
    for (; source.chance(100) && !spoiled; spoiled = source.chance(128)) spoil(source, arguments);
    const auto list = at_guard(arguments.list.data(), arguments.list.size() * sizeof(flashscan_arg));
    auto count = static_cast<int32_t>(arguments.list.size());
    if (source.chance(6)) count = source.chance(128) ? 0 : -1 - source.byte();
    const auto* at = source.chance(3) ? nullptr : static_cast<const flashscan_arg*>(list->data());
    const int32_t other_pass = pass == FLASHSCAN_PASS_FORWARD ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
    const int32_t which = source.chance(6) ? other_pass : source.chance(6) ? any_pass(source) : pass;
    const flashscan_status status = flashscan_execute(planned.plan, which, at, count, nullptr);
    check_status("executing", status);
    happened(status == FLASHSCAN_STATUS_OK ? "calls" : "calls refused");
    for (size_t i = 0; i < arguments.buffers.size(); ++i) {
        const support::Buffer& buffer = *arguments.buffers[i];
        if (!buffer.surroundings_intact()) broken("bytes around argument " + std::to_string(i) + " were written");
        const bool may = status == FLASHSCAN_STATUS_OK &&
                         std::any_of(arguments.list.begin(), arguments.list.end(), [&](const flashscan_arg& a) {
                             return a.data == buffer.data() || written(which, a.id) || a.id == FLASHSCAN_ARG_SCRATCH;
                         });
        if (!may && buffer.read() != arguments.before[i])
            broken("argument " + std::to_string(i) + " changed in a call that ended with " +
                   flashscan_status_name(status));
    }
}

}  // namespace

void use_plan(Source& source, const Planned& planned) {
    for (int left = source.byte() % 3; left > 0; --left) {
        size_t bytes = 0;
        check_status("plan_arg_bytes", flashscan_plan_arg_bytes(planned.plan, any_pass(source), source.raw<int32_t>(),
                                                                source.chance(8) ? nullptr : &bytes));
    }
    const size_t capacity = source.raw<uint16_t>() % 3000;
    size_t length = 0;
    const std::vector<char> zeros(capacity);
    const auto text = at_guard(zeros.data(), capacity);
    check_status("plan_describe",
                 flashscan_plan_describe(planned.plan, source.chance(10) ? nullptr : static_cast<char*>(text->data()),
                                         capacity, source.chance(64) ? nullptr : &length));
    if (planned.backend == FLASHSCAN_BACKEND_CUDA) return;  // host memory is not for it
    for (int left = 1 + source.byte() % 3; left > 0; --left)
        execute(source, planned, source.chance(128) ? FLASHSCAN_PASS_FORWARD : FLASHSCAN_PASS_BACKWARD);
}

}  // namespace fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Source source(data, size);
    if (source.chance(10)) {
        int32_t count = 0;
        const flashscan_status status =
            flashscan_device_count(source.raw<int32_t>() % 1000, source.chance(30) ? nullptr : &count);
        fuzz::check_status("device_count", status);
        (void)flashscan_status_name(source.raw<int32_t>());
    }
    const fuzz::Planned planned = fuzz::make_plan(source);
    if (planned.plan != nullptr) fuzz::use_plan(source, planned);
    flashscan_plan_destroy(planned.plan);
    return 0;
}
