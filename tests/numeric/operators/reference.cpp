// SPDX-License-Identifier: Apache-2.0
// Associative operators against the oracle: every kind, dtype, mode and feature, at the lengths where kernels change
// what they do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/operator_check.h"
#include "support/operators.h"

namespace numeric {
namespace {

using namespace support;

class OperatorCases : public testing::TestWithParam<OperatorCase> {};

TEST_P(OperatorCases, MatchTheReference) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    check_case(GetParam());
}

const std::vector<int32_t> kinds = named_operators();
constexpr const char* modes[] = {"inclusive", "exclusive", "reduction"};

std::string word(int32_t kind) { return operator_row(kind).word; }
bool has_dim(int32_t kind) { return kind == FLASHSCAN_OPERATOR_MATMUL || kind == FLASHSCAN_OPERATOR_AFFINE; }

// Backward of what has one.
std::string pass(int32_t dtype) { return is_integer(dtype) ? "operator fwd " : "operator bwd "; }

// Lengths around powers of two and primes; the features follow from the position.
std::vector<OperatorProblem> lengths() {
    std::vector<OperatorProblem> problems;
    constexpr int64_t times[] = {0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 127, 128, 129, 257, 1021};
    size_t i = 0;
    for (const int32_t kind : kinds)
        for (const int64_t time : times) {
            const std::vector<int32_t> dtypes = takes(kind, FLASHSCAN_DTYPE_F32)
                                                    ? std::vector<int32_t>{FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F64}
                                                    : std::vector<int32_t>{FLASHSCAN_DTYPE_I32, FLASHSCAN_DTYPE_U8};
            const int32_t dtype = dtypes[i % 2];
            std::string text = pass(dtype) + "b2 c3 " + word(kind) + " " + modes[i % 3] + " t" + std::to_string(time) +
                               " " + name_of(dtype);
            if (has_dim(kind)) text += " d" + std::to_string(1 + i % 5);
            if (i % 5 < 2) text += " state-in";
            if (i % 4 < 2) text += " state-out";
            if (i % 7 < 3) text += " reverse";
            if (i % 3 == 1) text += " BCT";
            problems.push_back(operator_problem_of(text + " seed" + std::to_string(++i)));
        }
    return problems;
}

// Every dtype with every mode, and packed sequences.
std::vector<OperatorProblem> features() {
    std::vector<OperatorProblem> problems;
    size_t i = 0;
    for (const int32_t kind : kinds)
        for (int32_t dtype = FLASHSCAN_DTYPE_F32; dtype <= FLASHSCAN_DTYPE_U8; ++dtype) {
            if (!takes(kind, dtype)) continue;
            for (const char* mode : modes)
                for (const char* rest :
                     {"b2 t37 c5", "b1 t101 c3 sequences7 state-in state-out", "b3 t20 c1 state-in reverse",
                      "b1 t61 c2 sequences5 reverse offsets-i32 caller-scratch", "b2 t50 c4 BCT state-out invariant",
                      "b1 t9 c17 state-in values-sign"}) {
                    std::string text = pass(dtype) + word(kind) + " " + mode + " " + name_of(dtype) + " " + rest;
                    if (has_dim(kind)) text += " d" + std::to_string(2 + i % 4);
                    problems.push_back(operator_problem_of(text + " seed" + std::to_string(++i)));
                }
        }
    return problems;
}

// Equal elements, for the operators that choose between them.
std::vector<OperatorProblem> ties() {
    std::vector<OperatorProblem> problems;
    for (const char* kind : {"min", "max", "mul", "logaddexp"})
        for (const char* rest : {"b2 t40 c5 state-in", "b1 t300 c1 reverse", "b2 t40 c3 BCT exclusive state-in",
                                 "b1 t70 c1 reduction state-in BCT"})
            problems.push_back(
                operator_problem_of(std::string("operator bwd f32 values-ties ") + kind + " " + rest + " seed3"));
    return problems;
}

std::vector<Target> cpu_targets() { return on_backend(FLASHSCAN_BACKEND_CPU, operator_kernel_targets()); }
std::vector<Target> gpu_targets() { return on_backend(FLASHSCAN_BACKEND_CUDA, operator_kernel_targets()); }

// Many rows of numbers and few long ones, which have kernels of their own on a GPU: several chunks of time, rows that
// begin and end within vectors of 16 bytes, odd numbers of channels, long rows of one, two and three groups of chunks,
// some of so many chunks that tiles are brought into L2 ahead.
std::vector<OperatorProblem> chains() {
    std::vector<OperatorProblem> problems;
    size_t i = 0;
    for (const char* rest :
         {"f32 b3 t9001 c100 BCT state-in state-out", "bf16 b2 t5003 c300 BCT reverse",
          "f64 b2 t700 c400 BCT exclusive", "f16 b300 t1 c1 state-in", "f32 b2 t3001 c260 exclusive reverse state-out",
          "bf16 b3 t4100 c512 state-in", "f64 b1 t2000 c1030 reverse state-in state-out",
          "f16 b40 t33 c66 reduction state-in state-out", "f32 b600 t40 c1 reduction",
          "f32 b7 t130 c1031 place-misaligned"})
        for (const int32_t kind : operators_on(FLASHSCAN_DTYPE_F32)) {
            ++i;
            const char* pass = i % 2 == 0 ? "fwd" : "bwd";
            problems.push_back(operator_problem_of(fmt::format("operator {} {} {} seed{}", pass, word(kind), rest, i)));
        }
    for (const char* line : {"operator bwd add c64 b2 t3001 c150 BCT state-in", "operator fwd mul c128 b2 t1030 c90",
                             "operator bwd add f32 b1 t2200001 c1 state-in state-out",
                             "operator fwd max bf16 b1 t4300003 c1 reverse exclusive state-in state-out",
                             "operator fwd add f32 b3 t1100001 c1 BCT reverse state-in state-out",
                             "operator bwd add f64 b1 t524288 c1 exclusive", "operator bwd add f64 b3 t730001 c1 BCT",
                             "operator fwd logaddexp f32 b1 t1040384 c1 reduction state-in state-out",
                             "operator fwd mul f16 b5 t70001 c20 BCT", "operator fwd add c64 b1 t600001 c1 state-out"})
        problems.push_back(operator_problem_of(fmt::format("{} seed{}", line, ++i)));
    return problems;
}

// Matrices around the width of vectors and tiles.
std::vector<OperatorProblem> dims() {
    std::vector<OperatorProblem> problems;
    size_t i = 0;
    for (const char* kind : {"matmul", "affine"})
        for (const int64_t dim : {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 65, 100}) {
            constexpr const char* dtypes[] = {"f32", "f64", "bf16", "c64", "f32"};
            std::string text = std::string("operator bwd ") + kind + " d" + std::to_string(dim) + " " + modes[i % 3] +
                               " " + dtypes[i % 5] + " t" + std::to_string(dim < 20 ? 40 : 6) + " b2 c1 state-in";
            if (i % 4 == 1) text += " reverse";
            if (i % 4 == 2) text += " state-out";
            problems.push_back(operator_problem_of(text + " seed" + std::to_string(++i)));
        }
    return problems;
}

// 16-bit data, whose states are f32 whatever else is asked for: small problems with options at random.
std::vector<OperatorProblem> halves() {
    std::vector<OperatorProblem> problems;
    for (const char* rest : {"bf16 affine inclusive reverse b3 t5 c8 d2 state-in state-out tf32",
                             "bf16 affine inclusive reverse b3 t5 c8 d2 state-in state-out",
                             "f16 matmul reduction reverse b1 t29 c1 d13 sequences4 tf32",
                             "f16 matmul reduction reverse b1 t29 c1 d13 sequences4 state-in state-out"})
        problems.push_back(operator_problem_of("operator bwd " + std::string(rest) + " seed7"));
    for (uint64_t i = 0; i < 240; ++i) {
        auto draw = [&, n = uint64_t{0}](uint64_t count) mutable {
            return static_cast<int64_t>(uniform(1801, ++n, i) * static_cast<double>(count));
        };
        OperatorProblem p;
        p.seed = i + 1;
        p.dtype = i % 2 == 0 ? FLASHSCAN_DTYPE_BF16 : FLASHSCAN_DTYPE_F16;
        const std::vector<int32_t> on_numbers = operators_on(p.dtype);
        p.kind = i % 8 < 3   ? FLASHSCAN_OPERATOR_MATMUL
                 : i % 8 < 6 ? FLASHSCAN_OPERATOR_AFFINE
                             : on_numbers[static_cast<size_t>(draw(on_numbers.size()))];
        p.mode = operator_problem_of(modes[draw(3)]).mode;
        p.layout = draw(2) == 0 ? FLASHSCAN_LAYOUT_BTC : FLASHSCAN_LAYOUT_BCT;
        p.dim = i % 8 < 6 ? 1 + draw(20) : 0;
        p.time = 1 + draw(40), p.channels = 1 + draw(8);
        if (draw(3) == 0)
            p.sequences = 1 + draw(6);
        else
            p.batch = 1 + draw(4);
        p.reverse = draw(2) == 0, p.state_in = draw(2) == 0, p.state_out = draw(2) == 0;
        p.allow_tf32 = draw(2) == 0, p.misaligned = draw(4) == 0, p.batch_invariant = draw(4) == 0;
        if (draw(2) == 0) p.values = OperatorValues::sign;
        problems.push_back(p);
    }
    return problems;
}

// Long enough that time is cut, in one chain and in several, whole and packed.
std::vector<OperatorProblem> cuts() {
    std::vector<OperatorProblem> problems;
    size_t i = 0;
    for (const int32_t kind : kinds)
        for (const char* rest : {"b1 t20011 c1", "b1 t20011 c1 BCT reverse state-in", "b2 t9001 c3 state-out",
                                 "b1 t30011 c2 sequences3 state-in reverse"}) {
            const bool real = takes(kind, FLASHSCAN_DTYPE_F64);
            std::string text = std::string(real ? "operator bwd f64 " : "operator fwd i64 ") + word(kind) + " " +
                               modes[i % 3] + " " + rest;
            if (has_dim(kind)) text += " d" + std::to_string(1 + i % 3);
            problems.push_back(operator_problem_of(text + " seed" + std::to_string(++i)));
        }
    return problems;
}

// Rows that share a tile, tiles with lanes that are not there, several tiles of a row, and segments of a row.
std::vector<OperatorProblem> tiles() {
    std::vector<OperatorProblem> problems;
    size_t i = 0;
    for (const char* numbers : {"logaddexp f32", "logaddexp f64", "logaddexp bf16", "add f32", "max f16", "mul f64",
                                "add c64", "xor i32", "add u8"})
        for (const char* rest :
             {"b3 t5 c700 BCT", "b2 t300 c40 BCT reverse state-in", "b1 t7001 c1 state-in", "b2 t1500 c1 reverse",
              "b1 t3000 c70 BCT sequences9", "b1 t900 c5 BCT sequences4 state-in reverse", "b400 t33 c1",
              "b3 t260 c33 reverse", "b2 t140 c320 state-in", "b2 t500 c8 BCT invariant"}) {
            const int32_t dtype = operator_problem_of(numbers).dtype;
            problems.push_back(operator_problem_of(
                fmt::format("{}{} {} {} state-out seed{}", pass(dtype), numbers, modes[i % 3], rest, i + 1)));
            ++i;
        }
    return problems;
}

// The oracle is checked against itself only for what it writes and how often.
INSTANTIATE_TEST_SUITE_P(OperatorLengths, OperatorCases, testing::ValuesIn(cases_on(operator_targets(), lengths())),
                         name_of_operator_case);
INSTANTIATE_TEST_SUITE_P(OperatorFeatures, OperatorCases,
                         testing::ValuesIn(cases_on(operator_kernel_targets(), features())), name_of_operator_case);
INSTANTIATE_TEST_SUITE_P(OperatorChains, OperatorCases, testing::ValuesIn(cases_on(gpu_targets(), chains())),
                         name_of_operator_case);
INSTANTIATE_TEST_SUITE_P(OperatorTies, OperatorCases, testing::ValuesIn(cases_on(operator_targets(), ties())),
                         name_of_operator_case);
INSTANTIATE_TEST_SUITE_P(OperatorDims, OperatorCases, testing::ValuesIn(cases_on(operator_kernel_targets(), dims())),
                         name_of_operator_case);
INSTANTIATE_TEST_SUITE_P(OperatorHalves, OperatorCases,
                         testing::ValuesIn(cases_on(operator_kernel_targets(), halves())), name_of_operator_case);
INSTANTIATE_TEST_SUITE_P(OperatorCuts, OperatorCases, testing::ValuesIn(cases_on(operator_kernel_targets(), cuts())),
                         name_of_operator_case);

INSTANTIATE_TEST_SUITE_P(OperatorTiles, OperatorCases, testing::ValuesIn(cases_on(cpu_targets(), tiles())),
                         name_of_operator_case);

// FLASHSCAN_TEST_OPERATOR_CASE runs one problem line, as a failure prints it.
TEST(OperatorRepro, CaseOfTheEnvironment) {
    const char* line = std::getenv("FLASHSCAN_TEST_OPERATOR_CASE");
    if (line == nullptr) GTEST_SKIP() << "FLASHSCAN_TEST_OPERATOR_CASE is not set";
    for (const Target& target : operator_targets()) check_case({operator_problem_of(line), target});
}

TEST(OperatorRepro, LinesReadBack) {
    for (const OperatorProblem& p : lengths()) {
        EXPECT_EQ(text_of(operator_problem_of(text_of(p))), text_of(p));
    }
    EXPECT_THROW(operator_problem_of("operator add f32 q3"), std::invalid_argument);
}

}  // namespace
}  // namespace numeric
