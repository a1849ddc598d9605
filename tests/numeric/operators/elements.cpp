// SPDX-License-Identifier: Apache-2.0
// The GPU's scans of elements in registers: where chunks, groups and links end, alignments, and bits.
#include <gtest/gtest.h>

#include "support/operator_check.h"

namespace numeric {
namespace {

using namespace support;

class OperatorElements : public testing::TestWithParam<OperatorCase> {};

TEST_P(OperatorElements, MatchTheReference) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    check_case(GetParam());
}

std::vector<OperatorProblem> problems_of(const std::vector<std::string>& kinds, const std::vector<std::string>& lines) {
    constexpr const char* modes[] = {"inclusive", "exclusive", "reduction"};
    constexpr const char* features[] = {"", "reverse", "state-in", "reverse state-in state-out", "misaligned"};
    std::vector<OperatorProblem> problems;
    size_t i = 0;
    for (const std::string& line : lines)
        for (const std::string& kind : kinds) {
            const std::string text =
                "operator bwd " + kind + " " + line + " " + modes[i % 3] + " " + features[i % 5] + " seed";
            OperatorProblem p = operator_problem_of(text + std::to_string(++i));
            p.backward = !p.integers();
            problems.push_back(p);
        }
    return problems;
}

// Chunks of one chain have 4096, 2048 and 1024 steps of numbers, and 1024 and 512 of matrices; of 32 rows, a 32nd.
const std::vector<std::string> lines{"b1 t4095 c1",
                                     "b1 t4096 c1",
                                     "b1 t4097 c1 BCT",
                                     "b1 t8193 c1 sequences3",
                                     "b1 t1023 c1",
                                     "b1 t1024 c1",
                                     "b1 t1025 c1 BCT",
                                     "b1 t511 c1",
                                     "b1 t512 c1",
                                     "b1 t513 c1",
                                     "b1 t12288 c1",
                                     "b3 t2048 c2 BCT",
                                     "b2 t1000 c3 BCT",
                                     "b2 t64 c37 BCT",
                                     "b1 t400 c70",
                                     "b1 t3000 c32",
                                     "b2 t129 c33",
                                     "b2 t257 c6",
                                     "b1 t6001 c4 sequences9",
                                     "b1 t2222 c34 sequences5",
                                     "b4 t16 c5 BCT",
                                     "b1 t4096 c2 sequences4 BCT offsets-i32"};

INSTANTIATE_TEST_SUITE_P(Numbers, OperatorElements,
                         testing::ValuesIn(cases_on({{FLASHSCAN_BACKEND_CUDA, "numbers"}},
                                                    problems_of({"add f32", "mul bf16", "logaddexp f32", "max f16",
                                                                 "min f64", "mul c64", "add c128", "add i64", "mul u8",
                                                                 "xor u8", "max i32"},
                                                                lines))),
                         name_of_operator_case);
INSTANTIATE_TEST_SUITE_P(Tiny, OperatorElements,
                         testing::ValuesIn(cases_on({{FLASHSCAN_BACKEND_CUDA, "tiny"}},
                                                    problems_of({"matmul f32 d4", "matmul f32 d2", "matmul bf16 d3",
                                                                 "matmul f64 d4", "matmul f16 d4", "matmul c64 d3",
                                                                 "matmul c128 d2", "matmul f32 d3", "affine f32 d4",
                                                                 "affine f32 d2", "affine bf16 d3", "affine f64 d3",
                                                                 "affine c64 d4", "affine f16 d1"},
                                                                lines))),
                         name_of_operator_case);

// Such maps also where they are walked one by one, which a plan chooses for larger matrices.
INSTANTIATE_TEST_SUITE_P(Walked, OperatorElements,
                         testing::ValuesIn(cases_on({{FLASHSCAN_BACKEND_CUDA, "matrices"}},
                                                    problems_of({"affine f32 d3", "affine c64 d2"}, lines))),
                         name_of_operator_case);

// Short rows, which lanes of one warp scan: of few lanes and of all, in two, four and eight tiles. Rows of 8, 24, 128
// steps are whole vectors; those of the last lines begin and end inside vectors that they share with their neighbours.
const std::vector<std::string> short_lines{
    "b3 t8 c5 BCT",    "b1 t128 c70 BCT",  "b2 t256 c9 BCT",  "b1 t384 c33 BCT", "b2 t512 c5 BCT", "b1 t1024 c9 BCT",
    "b1 t2048 c7 BCT", "b5 t24 c1",        "b1 t248 c3 BCT",  "b1 t100 c37 BCT", "b2 t9 c50 BCT",  "b1 t257 c19 BCT",
    "b3 t333 c11 BCT", "b1 t1001 c13 BCT", "b1 t2041 c9 BCT", "b7 t17 c1",       "b1 t63 c70 BCT"};
INSTANTIATE_TEST_SUITE_P(ShortRows, OperatorElements,
                         testing::ValuesIn(cases_on({{FLASHSCAN_BACKEND_CUDA, "numbers"}},
                                                    problems_of({"add f32", "mul bf16", "logaddexp f32", "max f16",
                                                                 "min f64", "add bf16", "logaddexp f16"},
                                                                short_lines))),
                         name_of_operator_case);
INSTANTIATE_TEST_SUITE_P(ShortIntegers, OperatorElements,
                         testing::ValuesIn(cases_on({{FLASHSCAN_BACKEND_CUDA, "numbers"}},
                                                    problems_of({"add i32", "mul i64", "max u8", "xor i64"},
                                                                short_lines))),
                         name_of_operator_case);

// Chained scans: chunks in a chain and in groups, tiles that begin before the first step and end behind the last. The
// same of gradients of operators with slopes.
const std::vector<std::string> chained_lines{
    "b2 t700 c300 BCT", "b1 t333 c512",    "b1 t700 c512",  "b1 t4000 c256",    "b3 t100 c64",
    "b1 t9001 c40",     "b1 t9000 c3 BCT", "b2 t4100 c130", "b1 t40000 c2 BCT", "b1 t2047 c2200 BCT"};
INSTANTIATE_TEST_SUITE_P(ChainedGradients, OperatorElements,
                         testing::ValuesIn(cases_on({{FLASHSCAN_BACKEND_CUDA, "numbers"}},
                                                    problems_of({"mul f32", "logaddexp f32", "max bf16", "max f16",
                                                                 "min f64", "logaddexp bf16"},
                                                                chained_lines))),
                         name_of_operator_case);
// After some steps `or` has ones in all bits, which must not look like a carry that has not arrived.
INSTANTIATE_TEST_SUITE_P(ChainedIntegers, OperatorElements,
                         testing::ValuesIn(cases_on({{FLASHSCAN_BACKEND_CUDA, "numbers"}},
                                                    problems_of({"add i32", "or i64", "add u8", "add i64", "min i64",
                                                                 "max i32", "mul i64", "or u8"},
                                                                chained_lines))),
                         name_of_operator_case);

// More chunks than a group has, and more than a link.
INSTANTIATE_TEST_SUITE_P(Links, OperatorElements,
                         testing::ValuesIn(cases_on({{FLASHSCAN_BACKEND_CUDA, ""}},
                                                    problems_of({"add f32", "logaddexp f32", "matmul d2 f32",
                                                                 "affine d3 f32", "add u8", "mul i64"},
                                                                {"b1 t40000 c20", "b1 t70001 c1",
                                                                 "b1 t33000 c32 sequences3"}))),
                         name_of_operator_case);

}  // namespace
}  // namespace numeric
