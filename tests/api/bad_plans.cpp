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
    {"StructSizeZero", [](auto& d) { d.struct_size = 0; }, FLASHSCAN_INVALID_STRUCT, {"struct_size", "is 0", "216"}},
    {"StructSizeShort", [](auto& d) { d.struct_size = 215; }, FLASHSCAN_INVALID_STRUCT, {"struct_size", "215", "216"}},
    {"DtypeMissing", [](auto& d) { d.dtype = 0; }, FLASHSCAN_INVALID_ARGUMENT, {"dtype is 0", "F32 (1)"}},
    {"DtypeUnknown", [](auto& d) { d.dtype = 99; }, FLASHSCAN_INVALID_ARGUMENT, {"dtype is 99", "C128 (6)"}},
    {"DtypeInteger", [](auto& d) { d.dtype = FLASHSCAN_I32; }, FLASHSCAN_INVALID_ARGUMENT, {"dtype is 7"}},
    {"DtypeNegative", [](auto& d) { d.dtype = -1; }, FLASHSCAN_INVALID_ARGUMENT, {"dtype is -1"}},
    {"GateDtypeNarrow",
     [](auto& d) { d.gate_dtype = FLASHSCAN_BF16; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"gate_dtype is 2", "f32"}},
    {"GateDtypeF32ForF64",
     [](auto& d) { d.dtype = FLASHSCAN_F64, d.gate_dtype = FLASHSCAN_F32; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"gate_dtype is 1", "f64"}},
    {"GateDtypeOtherHalf",
     [](auto& d) { d.dtype = FLASHSCAN_F16, d.gate_dtype = FLASHSCAN_BF16; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"gate_dtype is 2", "f16", "f32"}},
    {"GateDtypeF64ForC64",
     [](auto& d) { d.dtype = FLASHSCAN_C64, d.gate_dtype = FLASHSCAN_F64; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"gate_dtype is 4", "c64", "f32"}},
    {"GateDtypeComplexForReal",
     [](auto& d) { d.gate_dtype = FLASHSCAN_C64; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"gate_dtype is 5"}},
    {"Layout", [](auto& d) { d.layout = 2; }, FLASHSCAN_INVALID_ARGUMENT, {"layout is 2", "LAYOUT_BCT (1)"}},
    {"GateForm", [](auto& d) { d.gate_form = 3; }, FLASHSCAN_INVALID_ARGUMENT, {"gate_form is 3", "GATE_LOGIT (2)"}},
    {"GateBroadcast",
     [](auto& d) { d.gate_broadcast = 8; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"gate_broadcast is 8", "CHANNELS (4)"}},
    {"Direction",
     [](auto& d) { d.direction = -1; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"direction is -1", "REVERSE_IN_TIME (1)"}},
    {"Flags", [](auto& d) { d.flags = 6; }, FLASHSCAN_INVALID_ARGUMENT, {"flags is 6", "LINEAR_RESET (1)"}},
    {"Reserved", [](auto& d) { d.reserved = 4; }, FLASHSCAN_INVALID_ARGUMENT, {"reserved is 4", "0"}},
    {"Batch", [](auto& d) { d.batch = -1; }, FLASHSCAN_INVALID_ARGUMENT, {"batch is -1", ">= 0"}},
    {"Time", [](auto& d) { d.time = -7; }, FLASHSCAN_INVALID_ARGUMENT, {"time is -7", ">= 0"}},
    {"Channels",
     [](auto& d) { d.channels = INT64_MIN; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"channels is -9223372036854775808"}},
    {"NumSequences", [](auto& d) { d.num_sequences = -2; }, FLASHSCAN_INVALID_ARGUMENT, {"num_sequences is -2"}},
    {"PackedBatch", [](auto& d) { d.num_sequences = 2; }, FLASHSCAN_INVALID_ARGUMENT, {"batch is 2", "batch 1"}},
    {"OffsetsDtype",
     [](auto& d) { d.offsets_dtype = FLASHSCAN_F32; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"offsets_dtype is 1", "I32 (7)", "I64 (8)"}},
    {"OffsetsTooNarrow",
     [](auto& d) { d.batch = 1, d.num_sequences = 2, d.time = int64_t{1} << 31, d.offsets_dtype = FLASHSCAN_I32; },
     FLASHSCAN_INVALID_ARGUMENT,
     {"offsets_dtype is I32", "2147483648", "I64"}},
    {"ExtentsOverflow",
     [](auto& d) { d.batch = d.time = d.channels = huge; },
     FLASHSCAN_SIZE_OVERFLOW,
     {"1099511627776", "2^63 - 1"}},
    {"BytesOverflow",
     [](auto& d) { d.batch = 1, d.time = huge, d.channels = int64_t{1} << 22; },
     FLASHSCAN_SIZE_OVERFLOW,
     {"2^63 - 1"}},
    {"StrideNegative",
     [](auto& d) {
         d.input = {15, -3, 1};
     },
     FLASHSCAN_INVALID_ARGUMENT,
     {"input.time stride is -3", ">= 0"}},
    {"StrideOverflow",
     [](auto& d) {
         d.input = {INT64_MAX, 3, 1};
     },
     FLASHSCAN_SIZE_OVERFLOW,
     {"input", "2^63 - 1"}},
    {"StrideBroadcast",
     [](auto& d) {
         d.gate_broadcast = FLASHSCAN_BROADCAST_TIME, d.gate = {3, 3, 1};
     },
     FLASHSCAN_INVALID_ARGUMENT,
     {"gate.time stride is 3", "gate_broadcast", "accepted is 0"}},
    {"GradGateBroadcast",
     [](auto& d) {
         d.gate_broadcast = FLASHSCAN_BROADCAST_BATCH, d.grad_gate = {5, 3, 1};
     },
     FLASHSCAN_INVALID_ARGUMENT,
     {"grad_gate.batch stride is 5", "accepted is 0"}},
    {"OutputOverlapsItself",
     [](auto& d) {
         d.output = {15, 2, 1};
     },
     FLASHSCAN_INVALID_ARGUMENT,
     {"output strides", "time 2", "overlap"}},
    {"GradInputOverlapsItself",
     [](auto& d) {
         d.grad_input = {0, 3, 1};
     },
     FLASHSCAN_INVALID_ARGUMENT,
     {"grad_input strides", "batch 0", "overlap"}},
    {"GradGateOverlapsItself",
     [](auto& d) {
         d.grad_gate = {15, 3, 0};
     },
     FLASHSCAN_INVALID_ARGUMENT,
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
    flashscan_options options = options_of(small_problem(), FLASHSCAN_CPU, "");
    GetParam().change(options);
    flashscan_plan* plan = stale;
    expect_failure(flashscan_plan_linear(&plan, &desc, &options), GetParam().status, GetParam().words);
    EXPECT_EQ(plan, nullptr);
}

const BadOption bad_options[] = {
    {"StructSizeZero",
     [](auto& o) { o.struct_size = 0; },
     FLASHSCAN_INVALID_STRUCT,
     {"flashscan_options", "is 0", "32"}},
    {"Backend", [](auto& o) { o.backend = 7; }, FLASHSCAN_INVALID_ARGUMENT, {"backend is 7", "CPU (0)", "CUDA (1)"}},
    {"Device", [](auto& o) { o.device = 3; }, FLASHSCAN_NO_DEVICE, {"device is 3", "device 0"}},
    {"Threads", [](auto& o) { o.threads = -4; }, FLASHSCAN_INVALID_ARGUMENT, {"threads is -4"}},
    {"Determinism", [](auto& o) { o.determinism = 2; }, FLASHSCAN_INVALID_ARGUMENT, {"determinism is 2"}},
    {"Workspace", [](auto& o) { o.workspace = -1; }, FLASHSCAN_INVALID_ARGUMENT, {"workspace is -1"}},
    {"Kernel", [](auto& o) { o.kernel = "magic"; }, FLASHSCAN_INVALID_ARGUMENT, {"kernel is \"magic\"", "reference"}},
};
INSTANTIATE_TEST_SUITE_P(Plan, BadOptions, testing::ValuesIn(bad_options), name_of_bad);

}  // namespace
}  // namespace api
