// SPDX-License-Identifier: Apache-2.0
// Kernels for recurrent networks with large weights against the oracle.
#include <gtest/gtest.h>

#include "numeric/networks/grid.h"
#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

class RnnCases : public testing::TestWithParam<RnnCase> {};

TEST_P(RnnCases, EqualsTheReference) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    check_case(GetParam());
}

std::vector<RnnProblem> large() {
    std::vector<RnnProblem> problems = large_grid();
    for (const char* line :
         {"lstm f32 b2 t5 h1 d512", "gru bf16 b1 t3 h1 d768", "slstm f16 b1 t3 h1 d1024 weight-f32",
          "lstm bf16 b64 t2 h1 d768", "lstm f16 b17 t2 h1 d1024", "gru bf16 b16 t2 h1 d1024 weight-f32",
          "slstm bf16 b16 t5 h1 d512 all-states", "lstm bf16 b16 t9 h3 d256 reset", "elman f16 b8 t500 h1 d256",
          "lstm bf16 b3 t500 h1 d128", "gru-reset-before f16 b8 t65 h1 d200", "lstm f32 b1 t500 h4 d64",
          "gru bf16 b1 t65 h1 d512 sequences9", "lstm bf16 b64 t9 h12 d64"})
        problems.push_back(rnn_problem_of(std::string("rnn bwd state-in state-out ") + line));
    // Every team of f32, full and not.
    for (const char* line :
         {"lstm b40 t40 h2 d64 reset", "gru b17 t40 h2 d100 reverse", "elman b9 t40 h3 d128", "slstm b16 t5 h1 d128",
          "lstm b16 t30 h1 d200 TBGHD reset", "slstm b33 t5 h2 d256 all-states", "lstm b3 t70 h1 d257",
          "gru b16 t9 h1 d512 reset clip0.05", "elman-relu b17 t9 h1 d512", "slstm b5 t3 h1 d512",
          "lstm b17 t3 h1 d768", "gru b3 t20 h1 d700", "elman b20 t9 h1 d768", "slstm fwd b1 t20 h1 d900",
          "lstm fwd b16 t3 h1 d1024", "gru fwd b20 t9 h1 d1024", "elman fwd b2 t40 h1 d1000"})
        problems.push_back(rnn_problem_of(std::string("rnn bwd f32 state-in state-out ") + line));
    return problems;
}

INSTANTIATE_TEST_SUITE_P(RnnLarge, RnnCases, testing::ValuesIn(cases_on(kernels_apart(), large())), name_of_rnn_case);

}  // namespace
}  // namespace numeric
