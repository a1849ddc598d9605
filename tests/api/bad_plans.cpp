// SPDX-License-Identifier: Apache-2.0
// Plans with one wrong field: a status, a sentence, and no plan.
#include "api/fixture.h"

namespace api {
namespace {

using namespace support;

struct BadDesc {
    const char* name;
    std::function<void(flashscan_linear_desc&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

class BadDescs : public testing::TestWithParam<BadDesc> {};

flashscan_plan* const stale = reinterpret_cast<flashscan_plan*>(0x10);

TEST_P(BadDescs, AreRefusedByName) {
    flashscan_linear_desc desc = desc_of(small_problem());
    GetParam().change(desc);
    flashscan_plan* plan = stale;
    expect_failure(flashscan_plan_linear(&plan, &desc, nullptr), GetParam().status, GetParam().words);
    EXPECT_EQ(plan, nullptr);
}

constexpr int64_t huge = int64_t{1} << 40;

const BadDesc bad_descs[] = {
    {"StructSizeZero",
     [](auto& d) { d.struct_size = 0; },
     FLASHSCAN_STATUS_INVALID_STRUCT,
     {"struct_size", "is 0", "280"}},
    {"StructSizeShort",
     [](auto& d) { d.struct_size = 279; },
     FLASHSCAN_STATUS_INVALID_STRUCT,
     {"struct_size", "279", "280"}},
    {"DtypeMissing",
     [](auto& d) { d.dtype = 0; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"dtype is 0", "DTYPE_F32 (201)"}},
    {"DtypeUnknown",
     [](auto& d) { d.dtype = 99; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"dtype is 99", "DTYPE_C128 (206)"}},
    {"DtypeInteger",
     [](auto& d) { d.dtype = FLASHSCAN_DTYPE_I32; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"dtype is i32"}},
    {"DtypeNegative", [](auto& d) { d.dtype = -1; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"dtype is -1"}},
    {"GateDtypeNarrow",
     [](auto& d) { d.gate_dtype = FLASHSCAN_DTYPE_BF16; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"gate_dtype is bf16", "f32"}},
    {"GateDtypeF32ForF64",
     [](auto& d) { d.dtype = FLASHSCAN_DTYPE_F64, d.gate_dtype = FLASHSCAN_DTYPE_F32; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"gate_dtype is f32", "f64"}},
    {"GateDtypeOtherHalf",
     [](auto& d) { d.dtype = FLASHSCAN_DTYPE_F16, d.gate_dtype = FLASHSCAN_DTYPE_BF16; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"gate_dtype is bf16", "f16", "f32"}},
    {"GateDtypeF64ForC64",
     [](auto& d) { d.dtype = FLASHSCAN_DTYPE_C64, d.gate_dtype = FLASHSCAN_DTYPE_F64; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"gate_dtype is f64", "c64", "f32"}},
    {"GateDtypeComplexForReal",
     [](auto& d) { d.gate_dtype = FLASHSCAN_DTYPE_C64; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"gate_dtype is c64"}},
    {"Layout", [](auto& d) { d.layout = 2; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"layout is 2", "LAYOUT_BCT (302)"}},
    {"GateForm",
     [](auto& d) { d.gate_form = 3; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"gate_form is 3", "GATE_LOGIT (803)"}},
    {"GateBroadcast",
     [](auto& d) { d.gate_broadcast = 8; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"gate_broadcast is 8", "BROADCAST_CHANNELS (4)"}},
    {"Direction",
     [](auto& d) { d.direction = -1; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"direction is -1", "DIRECTION_REVERSE (402)"}},
    {"Flags",
     [](auto& d) { d.flags = 6; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"flags is 6", "LINEAR_FLAG_RESET (16)"}},
    {"Reserved", [](auto& d) { d.reserved = 4; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"reserved is 4", "0"}},
    {"Batch", [](auto& d) { d.batch = -1; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"batch is -1", ">= 0"}},
    {"Time", [](auto& d) { d.time = -7; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"time is -7", ">= 0"}},
    {"Channels",
     [](auto& d) { d.channels = INT64_MIN; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"channels is -9223372036854775808"}},
    {"NumSequences", [](auto& d) { d.num_sequences = -2; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"num_sequences is -2"}},
    {"PackedBatch", [](auto& d) { d.num_sequences = 2; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"batch is 2", "batch 1"}},
    {"OffsetsDtype",
     [](auto& d) { d.offsets_dtype = FLASHSCAN_DTYPE_F32; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"offsets_dtype is f32", "i32, i64"}},
    {"OffsetsTooNarrow",
     [](auto& d) {
         d.batch = 1, d.num_sequences = 2, d.time = int64_t{1} << 31, d.offsets_dtype = FLASHSCAN_DTYPE_I32;
     },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"offsets_dtype is i32", "2147483648", "i64"}},
    {"ExtentsOverflow",
     [](auto& d) { d.batch = d.time = d.channels = huge; },
     FLASHSCAN_STATUS_SIZE_OVERFLOW,
     {"1099511627776", "2^63 - 1"}},
    {"BytesOverflow",
     [](auto& d) { d.batch = 1, d.time = huge, d.channels = int64_t{1} << 22; },
     FLASHSCAN_STATUS_SIZE_OVERFLOW,
     {"2^63 - 1"}},
    {"StrideNegative",
     [](auto& d) {
         d.input = {15, -3, 1};
     },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"input.time stride is -3", ">= 0"}},
    {"StrideOverflow",
     [](auto& d) {
         d.input = {INT64_MAX, 3, 1};
     },
     FLASHSCAN_STATUS_SIZE_OVERFLOW,
     {"input", "2^63 - 1"}},
    {"StrideBroadcast",
     [](auto& d) {
         d.gate_broadcast = FLASHSCAN_BROADCAST_TIME, d.gate = {3, 3, 1};
     },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"gate.time stride is 3", "gate_broadcast", "accepted is 0"}},
    {"GradGateBroadcast",
     [](auto& d) {
         d.gate_broadcast = FLASHSCAN_BROADCAST_BATCH, d.grad_gate = {5, 3, 1};
     },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"grad_gate.batch stride is 5", "accepted is 0"}},
    {"OutputOverlapsItself",
     [](auto& d) {
         d.output = {15, 2, 1};
     },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"output strides", "time 2", "overlap"}},
    {"GradInputOverlapsItself",
     [](auto& d) {
         d.grad_input = {0, 3, 1};
     },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"grad_input strides", "batch 0", "overlap"}},
    {"GradGateOverlapsItself",
     [](auto& d) {
         d.grad_gate = {15, 3, 0};
     },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"grad_gate strides", "channels 0", "overlap"}},
};

const auto name_of_bad = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Plan, BadDescs, testing::ValuesIn(bad_descs), name_of_bad);

struct BadOption {
    const char* name;
    std::function<void(flashscan_options&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

class BadOptions : public testing::TestWithParam<BadOption> {};

TEST_P(BadOptions, AreRefusedByName) {
    const flashscan_linear_desc desc = desc_of(small_problem());
    flashscan_options options = options_of(small_problem(), FLASHSCAN_BACKEND_CPU, "");
    GetParam().change(options);
    flashscan_plan* plan = stale;
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), GetParam().status, GetParam().words);
    EXPECT_EQ(plan, nullptr);
}

const BadOption bad_options[] = {
    {"StructSizeZero",
     [](auto& o) { o.struct_size = 0; },
     FLASHSCAN_STATUS_INVALID_STRUCT,
     {"flashscan_options", "is 0", "64"}},
    {"Backend",
     [](auto& o) { o.backend = 7; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"backend is 7", "BACKEND_CPU (101)", "BACKEND_CUDA (102)"}},
    {"Device", [](auto& o) { o.device = 3; }, FLASHSCAN_STATUS_NO_DEVICE, {"device is 3", "device 0"}},
    {"Threads", [](auto& o) { o.threads = -4; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"threads is -4"}},
    {"Determinism", [](auto& o) { o.determinism = 2; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"determinism is 2"}},
    {"Workspace", [](auto& o) { o.workspace = -1; }, FLASHSCAN_STATUS_INVALID_ARGUMENT, {"workspace is -1"}},
    {"Kernel",
     [](auto& o) { o.kernel = "magic"; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"kernel is \"magic\"", "reference"}},
};
INSTANTIATE_TEST_SUITE_P(Plan, BadOptions, testing::ValuesIn(bad_options), name_of_bad);

}  // namespace
}  // namespace api
