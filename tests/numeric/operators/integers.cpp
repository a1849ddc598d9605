// SPDX-License-Identifier: Apache-2.0
// Operators on integers: values worked out by hand, at the ends of the types, and sums that every bracketing gives.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/operator_check.h"
#include "support/operators.h"

namespace numeric {
namespace {

using namespace support;

class OperatorIntegers : public OperatorOnTarget {};

std::vector<int64_t> integers_of(const Values& values) {
    std::vector<int64_t> integers;
    for (const Value& value : values) integers.push_back(integer_of(value));
    return integers;
}
Values values_of(const std::vector<int64_t>& integers) {
    Values values;
    for (const int64_t x : integers) values.push_back(of_integer(x));
    return values;
}

TEST_P(OperatorIntegers, WrapAndKeepEveryBit) {
    struct Known {
        const char* line;
        std::vector<int64_t> input, output;
    };
    constexpr int64_t most = INT64_MAX, least = INT64_MIN;
    const Known known[] = {
        {"add u8", {200, 55, 1, 255}, {200, 255, 0, 255}},
        {"add i32", {INT32_MAX, 1, -1, -5}, {INT32_MAX, INT32_MIN, INT32_MAX, INT32_MAX - 5}},
        {"add i64", {most, 1, -1, least}, {most, least, most, -1}},
        {"mul u8", {16, 15, 3, 2}, {16, 240, 208, 160}},
        {"mul i32", {65536, 32767, 2, -1}, {65536, 2147418112, -131072, 131072}},
        {"mul i64", {most, 2, most, -7}, {most, -2, 2, -14}},
        {"min u8", {200, 128, 129, 0}, {200, 128, 128, 0}},
        {"max u8", {1, 128, 127, 255}, {1, 128, 128, 255}},
        {"min i32", {5, -7, INT32_MIN, INT32_MAX}, {5, -7, INT32_MIN, INT32_MIN}},
        {"max i64", {least, -1, 4503599627370497, most}, {least, -1, 4503599627370497, most}},
        {"and u8", {255, 60, 15, 3}, {255, 60, 12, 0}},
        {"or i32", {INT32_MIN, 1, 6, -1}, {INT32_MIN, INT32_MIN + 1, INT32_MIN + 7, -1}},
        {"xor i64", {-1, most, 5, 5}, {-1, least, least + 5, least}},
        {"add u8 exclusive", {200, 55, 1, 255}, {0, 200, 255, 0}},
        {"mul i64 exclusive", {most, 2, most, -7}, {1, most, -2, 2}},
        {"min u8 exclusive", {200, 128, 129, 0}, {255, 200, 128, 128}},
        {"max i32 exclusive", {5, -7, 8, 1}, {INT32_MIN, 5, 5, 8}},
        {"min i64 exclusive", {5, -7, 8, 1}, {most, 5, -7, -7}},
        {"and i64 exclusive", {12, 10, 1, 1}, {-1, 12, 8, 0}},
        {"and u8 exclusive", {12, 10, 1, 1}, {255, 12, 8, 0}},
        {"xor u8 exclusive", {12, 10, 1, 1}, {0, 12, 6, 7}},
        {"add i64 reduction", {most, most, most, most}, {-4}},
        {"or u8 reduction", {0, 1, 0, 0}, {1}},
    };
    for (const Known& k : known)
        for (const bool reverse : {false, true}) {
            OperatorProblem p = operator_problem_of(std::string("operator fwd b1 t4 c1 ") + k.line);
            p.reverse = reverse;
            OperatorData data = make_data(p);
            data.input = values_of(k.input);
            std::vector<int64_t> expected = k.output;
            if (reverse) {
                std::reverse(data.input.begin(), data.input.end());
                std::reverse(expected.begin(), expected.end());
            }
            EXPECT_EQ(integers_of(run(p, data)[FLASHSCAN_ARG_OUTPUT]), expected) << k.line << " reverse " << reverse;
        }
}

TEST_P(OperatorIntegers, OfNoStepsAreTheIdentity) {
    for (const int32_t dtype : {FLASHSCAN_DTYPE_I32, FLASHSCAN_DTYPE_I64, FLASHSCAN_DTYPE_U8})
        for (const int32_t kind : operators_on(dtype)) {
            OperatorProblem p = operator_problem_of("operator fwd b1 t0 c3 reduction state-out");
            p.kind = kind, p.dtype = dtype;
            const OperatorOutcome empty = run(p, make_data(p));
            p.mode = FLASHSCAN_MODE_EXCLUSIVE, p.time = 1;
            const OperatorOutcome first = run(p, make_data(p));
            EXPECT_EQ(empty[FLASHSCAN_ARG_OUTPUT], first[FLASHSCAN_ARG_OUTPUT]) << text_of(p);
            EXPECT_EQ(empty[FLASHSCAN_ARG_STATE_OUT], first[FLASHSCAN_ARG_OUTPUT]) << text_of(p);
        }
}

// However time is cut: against sums modulo 2^64, of which narrower types keep their bits.
TEST_P(OperatorIntegers, SumLongChains) {
    for (const char* line :
         {"i64 b1 t70001 c1", "u8 b1 t70001 c1 BCT reverse", "i32 b2 t9001 c5 state-in", "u8 b1 t9001 c64",
          "u8 b3 t4000 c6", "u8 b1 t5000 c20 misaligned", "i64 b1 t33000 c32 sequences3 state-in invariant",
          "i32 b1 t20000 c3 sequences9 invariant", "u8 b1 t20000 c8 sequences5 reverse invariant",
          "i64 b2 t101 c3 BCT invariant", "u8 b1 t9001 c64 invariant", "i32 b3 t40000 c1 invariant state-in"}) {
        const OperatorProblem p = operator_problem_of(std::string("operator fwd add state-out ") + line);
        const OperatorData data = make_data(p);
        const OperatorOutcome outcome = run(p, data);
        const uint64_t mask = p.dtype == FLASHSCAN_DTYPE_U8    ? 0xff
                              : p.dtype == FLASHSCAN_DTYPE_I32 ? 0xffffffff
                                                               : ~0ULL;
        const auto bits = [&](const Values& values, size_t at) {
            return static_cast<uint64_t>(integer_of(values[at])) & mask;
        };
        for (const Sequence& s : sequences_of(p.batch, p.time, data.offsets))
            for (int64_t c = 0; c < p.channels; ++c) {
                uint64_t sum = p.state_in ? bits(data.state_in, p.state_place(s.state, c)) : 0;
                for (int64_t i = 0; i < s.length(); ++i) {
                    const size_t at = p.place(s.batch, s.step(p.reverse, i), c, 1);
                    sum = (sum + bits(data.input, at)) & mask;
                    ASSERT_EQ(bits(outcome[FLASHSCAN_ARG_OUTPUT], at), sum)
                        << line << " step " << i << " channel " << c;
                }
                ASSERT_EQ(bits(outcome[FLASHSCAN_ARG_STATE_OUT], p.state_place(s.state, c)), sum) << line;
            }
    }
}

// Bytes that are nearly all the operator's identity, so that results do not become 0 or 255 within a few steps, in rows
// that begin anywhere within the words in which a GPU combines four bytes.
TEST_P(OperatorIntegers, OfSparseBytesAreThoseOfTheLoop) {
    struct Loop {
        int32_t kind;
        uint8_t identity;
        uint8_t (*combine)(uint8_t, uint8_t);
    };
    const Loop loops[] = {
        {FLASHSCAN_OPERATOR_ADD, 0, [](uint8_t l, uint8_t r) { return static_cast<uint8_t>(l + r); }},
        {FLASHSCAN_OPERATOR_MUL, 1, [](uint8_t l, uint8_t r) { return static_cast<uint8_t>(l * r); }},
        {FLASHSCAN_OPERATOR_MIN, 255, [](uint8_t l, uint8_t r) { return std::min(l, r); }},
        {FLASHSCAN_OPERATOR_MAX, 0, [](uint8_t l, uint8_t r) { return std::max(l, r); }},
        {FLASHSCAN_OPERATOR_AND, 255, [](uint8_t l, uint8_t r) { return static_cast<uint8_t>(l & r); }},
        {FLASHSCAN_OPERATOR_OR, 0, [](uint8_t l, uint8_t r) { return static_cast<uint8_t>(l | r); }},
        {FLASHSCAN_OPERATOR_XOR, 0, [](uint8_t l, uint8_t r) { return static_cast<uint8_t>(l ^ r); }},
    };
    for (const Loop& loop : loops)
        for (const char* line : {"b256 t4200 c1 BCT", "b1 t2035 c260 BCT reverse", "b1 t70001 c2 BCT reverse",
                                 "b1 t140000 c1 BCT exclusive", "b7 t37 c90 BCT exclusive reverse", "b3 t900 c64",
                                 "b2 t1001 c128 reverse exclusive", "b1 t2600 c1024"}) {
            OperatorProblem p = operator_problem_of(std::string("operator fwd add u8 state-in state-out ") + line);
            p.kind = loop.kind;
            OperatorData data = make_data(p);
            const auto given = [&](size_t i) {  // one byte of 61
                const uint32_t mixed = static_cast<uint32_t>(i) * 2654435761U;
                return (mixed >> 8) % 61 == 0 ? static_cast<uint8_t>(mixed >> 24) : loop.identity;
            };
            for (size_t i = 0; i < data.input.size(); ++i) data.input[i] = of_integer(given(i));
            for (Value& state : data.state_in) state = of_integer(loop.identity);
            const OperatorOutcome outcome = run(p, data);
            for (int64_t b = 0; b < p.batch; ++b)
                for (int64_t c = 0; c < p.channels; ++c) {
                    uint8_t y = loop.identity;
                    for (int64_t i = 0; i < p.time; ++i) {
                        const size_t at = p.place(b, p.reverse ? p.time - 1 - i : i, c, 1);
                        const uint8_t before = y;
                        y = loop.combine(y, given(at));
                        const uint8_t expected = p.mode == FLASHSCAN_MODE_EXCLUSIVE ? before : y;
                        ASSERT_EQ(integer_of(outcome[FLASHSCAN_ARG_OUTPUT][at]), expected)
                            << text_of(p) << " step " << i << " of row " << b << ", " << c;
                    }
                    ASSERT_EQ(integer_of(outcome[FLASHSCAN_ARG_STATE_OUT][p.state_place(b, c)]), y) << text_of(p);
                }
        }
}

INSTANTIATE_TEST_SUITE_P(Operator, OperatorIntegers, testing::ValuesIn(operator_targets()),
                         [](const auto& i) { return text_of(i.param); });

}  // namespace
}  // namespace numeric
