// SPDX-License-Identifier: Apache-2.0
#include <flashscan/flashscan.h>

#include <algorithm>

#include "fuzz/api_words.h"
#include "support/cells.h"
#include "support/operators.h"

namespace fuzz {
namespace {

constexpr uint32_t most_bytes = 4096;  // of a struct

// The object as the library gets it: so many bytes as struct_size says, up to the most that it may say.
template <typename T>
std::unique_ptr<support::Buffer> delivered(Source& source, T object) {
    constexpr uint32_t sizes[] = {0, 1, 3, 4, 8, 16, most_bytes, most_bytes + 1, 0x7fffffff, 0x80000000, 0xffffffff};
    size_t bytes = sizeof object;
    const uint8_t kind = source.byte();
    if (kind > 235) object.struct_size = source.of(sizes);
    if (kind > 225 && kind <= 235) object.struct_size -= static_cast<uint32_t>(source.byte() % (sizeof object / 4) * 4);
    if (kind > 215 && kind <= 225) object.struct_size += source.byte();
    if (object.struct_size <= most_bytes) bytes = std::max<size_t>(object.struct_size, sizeof(uint32_t));
    std::vector<unsigned char> raw(std::max(bytes, sizeof object));
    std::memcpy(raw.data(), &object, sizeof object);
    if (bytes > sizeof object && source.chance(64)) raw[sizeof object + source.below(bytes - sizeof object)] = 1;
    return at_guard(raw.data(), bytes);
}

struct Texts {
    std::unique_ptr<support::Buffer> kernel;
};

std::unique_ptr<support::Buffer> make_options(Source& source, Texts& texts, int32_t& backend) {
    static constexpr const char* kernels[] = {"",       "reference", "chunked",  "auto",
                                              "stream", "blocked",   "\xff\xfe", "a b"};
    flashscan_options options{};
    options.struct_size = sizeof options;
    options.threads = static_cast<int32_t>(source.byte() % 5);
    if (source.chance(60)) {
        std::string name = source.of(kernels);
        if (source.chance(20)) name = std::string(source.raw<uint16_t>(), 'k');
        texts.kernel = at_guard(name.c_str(), name.size() + 1);
        options.kernel = static_cast<const char*>(texts.kernel->data());
    }
    if (source.chance(100))
        disturb(source, &options, offsetof(flashscan_options, backend), offsetof(flashscan_options, kernel));
    backend = options.backend;
    return delivered(source, options);
}

flashscan_linear_desc linear(Source& source) {
    flashscan_linear_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32 + source.byte() % 6;
    desc.layout = source.chance(128) ? FLASHSCAN_LAYOUT_BTC : FLASHSCAN_LAYOUT_BCT;
    desc.gate_form = FLASHSCAN_GATE_VALUE + source.byte() % 3;
    if (source.chance(64)) desc.gate_broadcast = source.byte() % 8;
    desc.direction = source.chance(128) ? FLASHSCAN_DIRECTION_FORWARD : FLASHSCAN_DIRECTION_REVERSE;
    if (source.chance(64)) desc.flags = FLASHSCAN_LINEAR_FLAG_RESET;
    desc.batch = small_extent(source);
    desc.time = small_extent(source);
    desc.channels = small_extent(source);
    if (source.chance(64)) desc.batch = 1, desc.num_sequences = small_extent(source);
    desc.state_pool = desc.num_sequences ^ 3;  // some too small, and some with room
    if (source.chance(128)) disturb(source, &desc, offsetof(flashscan_linear_desc, dtype), sizeof desc);
    return desc;
}

flashscan_rnn_desc rnn(Source& source) {
    flashscan_rnn_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32 + source.byte() % 4;
    desc.layout = source.chance(128) ? FLASHSCAN_LAYOUT_BTGHD : FLASHSCAN_LAYOUT_TBGHD;
    desc.cell = FLASHSCAN_CELL_LSTM + source.byte() % flashscan::cell_count;
    desc.direction = source.chance(128) ? FLASHSCAN_DIRECTION_FORWARD : FLASHSCAN_DIRECTION_REVERSE;
    for (const uint32_t flag : {FLASHSCAN_RNN_FLAG_RESET, FLASHSCAN_RNN_FLAG_ALL_STATES, FLASHSCAN_RNN_FLAG_TRAINING,
                                FLASHSCAN_RNN_FLAG_ALLOW_TF32})
        if (source.chance(128)) desc.flags |= flag;
    desc.batch = small_extent(source);
    desc.time = small_extent(source);
    desc.heads = source.chance(20) ? any_extent(source) : 1 + source.byte() % 3;
    desc.head_dim = source.chance(20) ? any_extent(source) : 1 + source.byte() % 20;
    if (source.chance(64)) desc.batch = 1, desc.num_sequences = small_extent(source);
    desc.state_pool = desc.num_sequences ^ 3;  // some too small, and some with room
    if (source.chance(128)) disturb(source, &desc, offsetof(flashscan_rnn_desc, dtype), sizeof desc);
    return desc;
}

flashscan_gated_desc gated(Source& source) {
    flashscan_gated_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32 + source.byte() % 4;
    desc.layout = source.chance(128) ? FLASHSCAN_LAYOUT_BTC : FLASHSCAN_LAYOUT_BCT;
    if (source.chance(64)) {
        desc.layer = FLASHSCAN_GATED_LAYER_MINGRU + source.byte() % 6;
    } else {
        desc.decay = FLASHSCAN_GATED_DECAY_VALUE + source.byte() % 7;
        desc.scale = FLASHSCAN_GATED_SCALE_ONE + source.byte() % 3;
        desc.activation = FLASHSCAN_GATED_ACTIVATION_NONE + source.byte() % 4;
        desc.input_gating = FLASHSCAN_GATED_INPUT_GATE_NONE + source.byte() % 2;
        desc.epilogue = FLASHSCAN_GATED_EPILOGUE_NONE + source.byte() % 4;
    }
    desc.direction = source.chance(128) ? FLASHSCAN_DIRECTION_FORWARD : FLASHSCAN_DIRECTION_REVERSE;
    for (const uint32_t flag : {FLASHSCAN_GATED_FLAG_RESET, FLASHSCAN_GATED_FLAG_FIRST_STEP})
        if (source.chance(64)) desc.flags |= flag;
    desc.batch = small_extent(source);
    desc.time = small_extent(source);
    desc.channels = small_extent(source);
    if (source.chance(64)) desc.batch = 1, desc.num_sequences = small_extent(source);
    if (source.chance(64)) desc.state_pool = desc.num_sequences ^ 3;  // some too small, and some with room
    if (source.chance(128)) disturb(source, &desc, offsetof(flashscan_gated_desc, dtype), sizeof desc);
    return desc;
}

flashscan_selective_desc selective(Source& source) {
    flashscan_selective_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32 + source.byte() % 4;
    if (source.chance(64))
        desc.matrix_dtype = desc.dtype == FLASHSCAN_DTYPE_F64 ? FLASHSCAN_DTYPE_C128 : FLASHSCAN_DTYPE_C64;
    desc.layout = source.chance(128) ? FLASHSCAN_LAYOUT_BTC : FLASHSCAN_LAYOUT_BCT;
    desc.direction = source.chance(128) ? FLASHSCAN_DIRECTION_FORWARD : FLASHSCAN_DIRECTION_REVERSE;
    for (const uint32_t flag : {FLASHSCAN_SELECTIVE_FLAG_RESET, FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS,
                                FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP, FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP})
        if (source.chance(128)) desc.flags |= flag;
    desc.batch = small_extent(source);
    desc.time = small_extent(source);
    desc.channels = small_extent(source);
    desc.states = source.chance(20) ? any_extent(source) : 1 + source.byte() % 20;
    if (source.chance(64)) desc.groups = source.chance(40) ? any_extent(source) : source.byte() % 4;
    if (source.chance(64)) desc.batch = 1, desc.num_sequences = small_extent(source);
    if (source.chance(64)) desc.state_pool = desc.num_sequences ^ 3;  // some too small, and some with room
    if (source.chance(128)) disturb(source, &desc, offsetof(flashscan_selective_desc, dtype), sizeof desc);
    return desc;
}

int64_t element = 0;  // bytes of the custom operator's
void combine(void*, const void* lhs, const void* rhs, void* out) {
    for (int64_t i = 0; i < element; ++i)
        static_cast<unsigned char*>(out)[i] = static_cast<unsigned char>(static_cast<const unsigned char*>(lhs)[i] ^
                                                                         static_cast<const unsigned char*>(rhs)[i]);
}
void adjoin(void*, const void*, const void*, const void* grad, void* left, void* right) {
    std::memcpy(left, grad, static_cast<size_t>(element));
    std::memcpy(right, grad, static_cast<size_t>(element));
}
int32_t combine_batch(void* state, const void* lhs, int64_t lhs_stride, const void* rhs, int64_t rhs_stride, void* out,
                      int64_t out_stride, int64_t count, void*) {
    for (int64_t i = 0; i < count; ++i)
        combine(state, static_cast<const char*>(lhs) + i * lhs_stride, static_cast<const char*>(rhs) + i * rhs_stride,
                static_cast<char*>(out) + i * out_stride);
    return 0;
}

flashscan_custom_operator custom(Source& source) {
    static constexpr char code[] = "this is no program";
    flashscan_custom_operator made{};
    made.struct_size = sizeof made;
    made.element_bytes = element = source.chance(30) ? any_extent(source) : 1 + source.byte() % 40;
    if (source.chance(160)) made.host = combine;
    if (source.chance(64)) made.host_adjoint = adjoin;
    if (source.chance(64)) made.batched = combine_batch;
    if (source.chance(30)) {
        made.code = code;
        made.code_bytes = source.byte() % sizeof code;
        made.code_kind = any_word(source);
        made.name = source.chance(128) ? "name" : "";
    }
    return made;
}

flashscan_operator_desc scan(Source& source) {
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_ADD + source.byte() % static_cast<int32_t>(std::size(flashscan::operator_rows));
    desc.dtype = FLASHSCAN_DTYPE_F32 + source.byte() % 9;
    desc.layout = source.chance(128) ? FLASHSCAN_LAYOUT_BTC : FLASHSCAN_LAYOUT_BCT;
    desc.mode = FLASHSCAN_MODE_INCLUSIVE + source.byte() % 3;
    desc.batch = small_extent(source);
    desc.time = small_extent(source);
    desc.channels = small_extent(source);
    if (desc.kind == FLASHSCAN_OPERATOR_MATMUL || desc.kind == FLASHSCAN_OPERATOR_AFFINE)
        desc.dim = source.chance(20) ? any_extent(source) : 1 + source.byte() % 9;
    if (source.chance(64)) desc.batch = 1, desc.num_sequences = small_extent(source);
    if (source.chance(128))
        disturb(source, &desc, offsetof(flashscan_operator_desc, dtype), offsetof(flashscan_operator_desc, custom));
    return desc;
}

}  // namespace

Planned make_plan(Source& source) {
    Planned planned;
    Texts texts;
    planned.plan = reinterpret_cast<flashscan_plan*>(0x10);
    flashscan_plan** plan = source.chance(2) ? nullptr : &planned.plan;
    const uint8_t family = source.byte() % 5;
    std::unique_ptr<support::Buffer> options, desc, custom_buffer;
    if (!source.chance(60)) options = make_options(source, texts, planned.backend);
    const auto* how = options != nullptr ? static_cast<const flashscan_options*>(options->data()) : nullptr;
    const bool nothing = source.chance(2);
    const auto at = [&] { return nothing ? nullptr : desc->data(); };
    flashscan_status status = FLASHSCAN_STATUS_OK;
    if (family == 0) {
        desc = delivered(source, linear(source));
        status = flashscan_plan_linear(plan, static_cast<const flashscan_linear_desc*>(at()), how);
    } else if (family == 1) {
        desc = delivered(source, rnn(source));
        status = flashscan_plan_rnn(plan, static_cast<const flashscan_rnn_desc*>(at()), how);
    } else if (family == 3) {
        desc = delivered(source, gated(source));
        status = flashscan_plan_gated(plan, static_cast<const flashscan_gated_desc*>(at()), how);
    } else if (family == 4) {
        desc = delivered(source, selective(source));
        status = flashscan_plan_selective(plan, static_cast<const flashscan_selective_desc*>(at()), how);
    } else {
        flashscan_operator_desc made = scan(source);
        if (made.kind == FLASHSCAN_OPERATOR_CUSTOM ? !source.chance(10) : source.chance(10)) {
            custom_buffer = delivered(source, custom(source));
            made.custom = static_cast<const flashscan_custom_operator*>(custom_buffer->data());
            if (!source.chance(40)) made.dtype = 0;
        }
        desc = delivered(source, made);
        status = flashscan_plan_operator(plan, static_cast<const flashscan_operator_desc*>(at()), how);
    }
    check_status("creating a plan", status);
    happened(status == FLASHSCAN_STATUS_OK ? "plans" : "plans refused");
    if (plan == nullptr) planned.plan = nullptr;
    if (plan != nullptr && (status == FLASHSCAN_STATUS_OK) != (planned.plan != nullptr))
        broken("the plan is NULL exactly on failure, but this is " + std::string(flashscan_status_name(status)));
    if (status != FLASHSCAN_STATUS_OK) planned.plan = nullptr;
    return planned;
}

}  // namespace fuzz
