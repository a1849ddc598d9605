// SPDX-License-Identifier: Apache-2.0
// Calls with one wrong argument: a status, a sentence, and nothing written.
#include "api/scene.h"

namespace api {
namespace {

struct BadCall {
    const char* name;
    int32_t pass;
    std::function<void(Scene&)> change;
    flashscan_status status;
    std::vector<std::string> words;
};

unsigned char* shifted(void* data, std::ptrdiff_t bytes) { return static_cast<unsigned char*>(data) + bytes; }

class BadCalls : public testing::TestWithParam<BadCall> {};

TEST_P(BadCalls, AreRefusedAndWriteNothing) {
    Problem p = small_problem();
    p.reset = true;
    Scene s(p, GetParam().pass);
    GetParam().change(s);
    s.call->prepare();
    const flashscan_status status = s.call->execute(s.plan.get());
    expect_failure(status, GetParam().status, GetParam().words);
    s.call->collect();
    EXPECT_TRUE(s.call->outputs_untouched());
    EXPECT_EQ(s.call->damage(), "");
}

constexpr int32_t forward = FLASHSCAN_PASS_FORWARD, backward = FLASHSCAN_PASS_BACKWARD;

const BadCall bad_calls[] = {
    {"MissingInput",
     forward,
     [](auto& s) { remove(s, FLASHSCAN_ARG_INPUT); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"INPUT", "not given", "120"}},
    {"MissingGate",
     forward,
     [](auto& s) { remove(s, FLASHSCAN_ARG_GATE); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"GATE", "not given"}},
    {"MissingOutput",
     forward,
     [](auto& s) { remove(s, FLASHSCAN_ARG_OUTPUT); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"OUTPUT", "not given"}},
    {"MissingReset",
     forward,
     [](auto& s) { remove(s, FLASHSCAN_ARG_RESET); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"RESET", "not given", "10"}},
    {"NullInput",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_INPUT).data = nullptr; },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"INPUT is NULL", "120"}},
    {"ShortInput",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_INPUT).bytes = 119; },
     FLASHSCAN_STATUS_BUFFER_TOO_SMALL,
     {"INPUT has 119 bytes", "120"}},
    {"ShortState",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_STATE_OUT).bytes = 0; },
     FLASHSCAN_STATUS_BUFFER_TOO_SMALL,
     {"STATE_OUT has 0 bytes", "24"}},
    {"ShortReset",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_RESET).bytes = 9; },
     FLASHSCAN_STATUS_BUFFER_TOO_SMALL,
     {"RESET has 9 bytes", "10"}},
    {"Doubled",
     forward,
     [](auto& s) { s.call->arguments().push_back(s.arg(FLASHSCAN_ARG_GATE)); },
     FLASHSCAN_STATUS_DOUBLED_ARGUMENT,
     {"GATE", "more than once"}},
    {"Unknown",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_GATE).id = 55; },
     FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
     {"id is 55, ", "forward", "accepted are GATE, STATE_IN, INPUT"}},
    {"OffsetsNotPacked",
     forward,
     [](auto& s) {
         s.call->arguments().push_back({FLASHSCAN_ARG_SEQ_OFFSETS, 0, &s, 8});
     },
     FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
     {"id is 2007 (SEQ_OFFSETS)", "forward"}},
    {"GradientInForward",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_STATE_IN).id = grad | FLASHSCAN_ARG_INPUT; },
     FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
     {"id is 1073743825 (GRAD|INPUT)", "forward"}},
    {"ReservedNotZero",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_INPUT).reserved = 3; },
     FLASHSCAN_STATUS_INVALID_ARGUMENT,
     {"reserved", "3"}},
    {"Misaligned",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_INPUT).data = shifted(s.arg(FLASHSCAN_ARG_INPUT).data, -2); },
     FLASHSCAN_STATUS_INVALID_POINTER,
     {"INPUT is at 0x", "4 bytes"}},
    {"OutputOnGate",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_OUTPUT).data = s.arg(FLASHSCAN_ARG_GATE).data; },
     FLASHSCAN_STATUS_ALIASING,
     {"GATE and OUTPUT overlap", "OUTPUT and INPUT"}},
    {"OutputShiftedOnInput",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_OUTPUT).data = shifted(s.arg(FLASHSCAN_ARG_INPUT).data, -4); },
     FLASHSCAN_STATUS_ALIASING,
     {"INPUT and OUTPUT overlap without being the same"}},
    {"StateOutOnInput",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_STATE_OUT).data = s.arg(FLASHSCAN_ARG_INPUT).data; },
     FLASHSCAN_STATUS_ALIASING,
     {"INPUT", "STATE_OUT", "overlap"}},
    {"StateOutInsideStateIn",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_STATE_OUT).data = shifted(s.arg(FLASHSCAN_ARG_STATE_IN).data, -8); },
     FLASHSCAN_STATUS_ALIASING,
     {"STATE_IN", "STATE_OUT", "overlap"}},
    {"OutputOnReset",
     forward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_RESET).data = s.arg(FLASHSCAN_ARG_OUTPUT).data; },
     FLASHSCAN_STATUS_ALIASING,
     {"RESET", "OUTPUT", "overlap"}},
    {"MissingGradOutput",
     backward,
     [](auto& s) { remove(s, grad | FLASHSCAN_ARG_OUTPUT); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"GRAD|OUTPUT", "not given"}},
    {"MissingOutputForGradGate",
     backward,
     [](auto& s) { remove(s, FLASHSCAN_ARG_OUTPUT); },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"OUTPUT is not given", "GRAD|GATE needs it"}},
    {"InputInBackward",
     backward,
     [](auto& s) { s.arg(FLASHSCAN_ARG_STATE_IN).id = FLASHSCAN_ARG_INPUT; },
     FLASHSCAN_STATUS_UNKNOWN_ARGUMENT,
     {"id is 2001 (INPUT)", "backward"}},
    {"NoGradient",
     backward,
     [](auto& s) {
         for (const int32_t id : {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_STATE_IN})
             remove(s, grad | id);
     },
     FLASHSCAN_STATUS_MISSING_ARGUMENT,
     {"none of", "GRAD|INPUT", "GRAD|GATE", "GRAD|STATE_IN"}},
    {"ShortGradGate",
     backward,
     [](auto& s) { s.arg(grad | FLASHSCAN_ARG_GATE).bytes = 4; },
     FLASHSCAN_STATUS_BUFFER_TOO_SMALL,
     {"GRAD|GATE has 4 bytes", "120"}},
    {"GradInputOnOutput",
     backward,
     [](auto& s) { s.arg(grad | FLASHSCAN_ARG_INPUT).data = s.arg(FLASHSCAN_ARG_OUTPUT).data; },
     FLASHSCAN_STATUS_ALIASING,
     {"OUTPUT and GRAD|INPUT overlap"}},
    {"GradGateOnGate",
     backward,
     [](auto& s) { s.arg(grad | FLASHSCAN_ARG_GATE).data = s.arg(FLASHSCAN_ARG_GATE).data; },
     FLASHSCAN_STATUS_ALIASING,
     {"GATE and GRAD|GATE overlap"}},
    {"GradientsOnEachOther",
     backward,
     [](auto& s) { s.arg(grad | FLASHSCAN_ARG_GATE).data = s.arg(grad | FLASHSCAN_ARG_INPUT).data; },
     FLASHSCAN_STATUS_ALIASING,
     {"GRAD|INPUT and GRAD|GATE overlap"}},
};

INSTANTIATE_TEST_SUITE_P(Execute, BadCalls, testing::ValuesIn(bad_calls),
                         [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace api
