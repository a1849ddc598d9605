// SPDX-License-Identifier: Apache-2.0
/*
 * Every kernel for recurrent networks against the oracle.
 *
 *   build/sm90a/tests/flashscan_numeric_networks --gtest_filter='*cuda*'      all on the GPU
 *   FLASHSCAN_TEST_EXACT=1 compute-sanitizer --tool memcheck \
 *       build/sm90a/tests/flashscan_numeric_networks --gtest_filter='RnnPairs*cuda_alternating*'
 */
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>

#include "numeric/networks/grid.h"
#include "support/lines.h"
#include "support/pairwise.h"
#include "support/rnn_check.h"

namespace numeric {
namespace {

using namespace support;

class RnnCases : public testing::TestWithParam<RnnCase> {};

TEST_P(RnnCases, EqualsTheReference) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    check_case(GetParam());
}

RnnProblem problem_of_row(const std::vector<int>& row, uint64_t seed) {
    constexpr int32_t dtypes[] = {FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F64};
    constexpr int64_t times[] = {0, 1, 2, 19}, dims[] = {1, 7, 16, 33}, batches[] = {1, 3, 9};
    constexpr uint32_t gradients[] = {15, 1, 2, 12, 7};
    RnnProblem p;
    p.cell = FLASHSCAN_CELL_LSTM + row[0];
    p.dtype = p.weight_dtype = dtypes[row[1]];
    if (row[2] == 1 && size_of(p.dtype) == 2) p.weight_dtype = FLASHSCAN_DTYPE_F32;
    p.layout = FLASHSCAN_LAYOUT_BTGHD + row[3];
    p.time = times[row[4]];
    p.dim = dims[row[5]];
    p.heads = 1 + row[6];
    p.batch = batches[row[7]];
    if (row[8] > 0) {
        p.batch = 1;
        p.sequences = row[8] == 1 ? 1 : 4;
        p.offsets_dtype = row[8] == 1 ? FLASHSCAN_DTYPE_I32 : FLASHSCAN_DTYPE_I64;
    }
    p.reverse = row[9] == 1;
    p.reset = row[10] == 1;
    p.state_in = row[11] == 1;
    p.state_out = row[12] == 1;
    p.all_states = row[13] == 1;
    p.bias = row[14] == 0;
    p.gradients = gradients[row[15]];
    p.backward = row[16] == 0;
    p.clip = row[17] == 1 ? 0.05 : 0;
    p.values = static_cast<RnnValues>(row[18]);
    p.caller_scratch = row[19] == 1;
    p.batch_invariant = row[19] == 2;
    p.threads = row[20];
    p.seed = seed;
    return p;
}

std::vector<RnnProblem> pairs() {
    std::vector<RnnProblem> problems;
    for (const auto& row :
         pairwise_rows({flashscan::cell_count, 4, 2, 2, 4, 4, 2, 3, 3, 2, 2, 2, 2, 2, 2, 5, 2, 2, 4, 3, 4}, 5))
        problems.push_back(problem_of_row(row, 1 + problems.size()));
    return problems;
}

// Each cell where errors have time to grow, and each by itself in every dtype.
std::vector<RnnProblem> singles() {
    std::vector<RnnProblem> problems;
    for (const std::string& cell : cell_words())
        for (const char* rest :
             {"bf16 b3 t65 h2 d64 state-in state-out", "f32 b3 t65 h1 d33 state-in state-out all-states",
              "f16 b2 t200 h1 d16 reset values-saturated", "bf16 b1 t300 h3 d8 values-loose state-in all-states",
              "f64 b2 t20 h1 d17 reverse clip0.01", "bf16 weight-f32 b1 t90 h2 d24 sequences5 state-in state-out",
              "f32 b0 t3 h1 d4", "f32 b2 t0 h1 d4 state-in state-out"})
            problems.push_back(rnn_problem_of(std::string("rnn bwd ") + cell + " " + rest));
    return problems;
}

// Factors that may be rounded to tf32: every cell, both products of those that reset before, groups of rows of a
// batch-invariant plan, and sums of several chunks.
std::vector<RnnProblem> rounded_factors() {
    std::vector<RnnProblem> problems;
    for (const std::string& cell : cell_words())
        problems.push_back(rnn_problem_of("rnn bwd " + cell + " f32 tf32 b9 t20 h2 d33 state-in state-out"));
    for (const char* line : {"lstm b16 t9 h1 d64 reset all-states", "gru b5 t40 h1 d128 reverse clip0.05",
                             "gru-reset-before b40 t3 h1 d20 invariant", "lstm b1 t60 h2 d24 sequences7 state-in",
                             "elman b64 t130 h1 d16 no-bias", "lstm b64 t2 h1 d200 values-saturated"})
        problems.push_back(rnn_problem_of(std::string("rnn bwd f32 tf32 state-out ") + line));
    return problems;
}

// One step, as in decoding: rows about a tile of them, heads that share a block and that do not, vectors and numbers.
std::vector<RnnProblem> one_step() {
    return problems_of(
        rnn_problem_of, "rnn fwd t1 state-in ",
        {"lstm f32 b1 h1 d64 state-out", "lstm bf16 b16 h1 d256 pooled", "gru bf16 b5 h12 d64 weight-f32 reset pooled",
         "slstm f16 b4 h3 d40 all-states state-out", "elman f32 b16 h2 d200 pooled", "lstm f32 b13 h1 d96 pooled reset",
         "elman-relu f16 b7 h9 d7 TBGHD no-bias pooled", "gru f32 b3 h1 d33 state-out reset", "lstm bf16 b8 h40 d5",
         "slstm bf16 b9 h1 d136 weight-f32 pooled all-states", "lstm f32 b17 h1 d16", "mgu bf16 b2 h1 d24 pooled",
         "lstm bf16 b3 h1 d1000 reset pooled", "lstm f32 b4 h1 d520 state-out", "gru bf16 b2 h1 d600 pooled",
         "gru f16 b1 h4 d72 weight-f32 state-out", "gru f16 b13 h12 d64 reset pooled", "elman bf16 b6 h1 d1000 no-bias",
         "slstm f16 b16 h1 d72 all-states state-out"});
}

// Kernels change what they do at these sizes: head dims about a vector, a panel and a piece, batches about a
// tile of rows and a block, packed sequences that end one after another, more steps than the sums take at once.
std::vector<RnnProblem> shapes() {
    std::vector<RnnProblem> problems;
    constexpr int64_t dims[] = {15, 17, 31, 32, 63, 65, 100, 128, 200};
    constexpr int64_t batches[] = {5, 6, 7, 12, 13, 24, 25, 49, 64};
    constexpr const char* types[] = {"f32", "bf16", "f64"};
    const std::vector<std::string> cells = cell_words();
    for (size_t i = 0; i < std::size(dims); ++i)
        problems.push_back(
            rnn_problem_of(fmt::format("rnn bwd {} {} b{} t3 h1 d{} state-in state-out seed{}", cells[i % cells.size()],
                                       types[i % 3], batches[i], dims[i], i + 1)));
    for (const char* line :
         {"lstm f32 b1 t520 h1 d12 sequences17 state-in state-out", "gru f64 b3 t257 h2 d5 reset threads3",
          "gru-reset-before bf16 b2 t300 h1 d20 reverse grads-r", "lstm bf16 b16 t30 h12 d16 TBGHD",
          "elman f32 b1 t90 h3 d40 sequences60 offsets-i32 reverse"})
        problems.push_back(rnn_problem_of(std::string("rnn bwd ") + line));
    return problems;
}

// Diagonal matrices: numbers of steps about those that are fetched at a time, units about a vector, a warp and a strip;
// and steps of several chunks of segments, forward and backward.
std::vector<RnnProblem> diagonals() {
    std::vector<RnnProblem> problems;
    const std::vector<std::string> cells = cell_words();
    constexpr int64_t times[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 64, 129};
    constexpr int64_t heads[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 255, 256, 257, 300, 513};
    constexpr const char* types[] = {"f32", "bf16", "f64", "f16", "bf16 weight-f32"};
    constexpr const char* options[] = {"state-in state-out",
                                       "reset state-in",
                                       "all-states reverse reset state-in state-out",
                                       "TBGHD clip0.05 state-out",
                                       "no-bias grads-r invariant state-in",
                                       "caller-scratch grads-xs threads3 state-in state-out"};
    for (size_t i = 0; i < 2 * std::size(times); ++i)
        for (size_t c = 0; c < cells.size(); c += 3)
            problems.push_back(rnn_problem_of(
                fmt::format("rnn bwd {} {} b{} t{} h{} d1 {} seed{}", cells[(i + c) % cells.size()],
                            types[(i + c) % std::size(types)], 1 + (i + c) % 4, times[i % std::size(times)],
                            heads[(5 * i + c) % std::size(heads)], options[(i + c / 3) % std::size(options)], i + 1)));
    for (const std::string& cell : cells)
        for (const char* rest :
             {"f32 b1 t100 h70 d1 sequences9 state-in state-out", "bf16 b1 t40 h33 d1 sequences50 reverse reset",
              "f32 b3 t1 h40 d1 pooled state-in state-out fwd", "f32 b2 t300 h20 d1 values-saturated reset"})
            problems.push_back(rnn_problem_of("rnn bwd " + cell + " " + rest));
    return problems;
}
// Long rows of them, which have a kernel of their own on a GPU.
std::vector<RnnProblem> long_diagonals() {
    std::vector<RnnProblem> problems;
    for (const std::string& cell : cell_words())
        for (const char* rest :
             {"f32 b1 t5000 h9 d1 state-in state-out", "bf16 b1 t2500 h40 d1 sequences6 reverse reset state-in",
              "bf16 b3 t900 h70 d1 fwd training reverse reset state-out"})
            problems.push_back(rnn_problem_of("rnn bwd " + cell + " " + rest));
    return problems;
}
std::vector<Target> diagonal_targets() {
    std::vector<Target> targets = kernels_apart();
    std::erase_if(targets, [](const Target& target) {
        return target.kernel != "diagonal" && target.kernel != "diagonal_newton" && !target.kernel.empty();
    });
    return targets;
}

std::vector<Target> diagonal_gpu_targets() {
    std::vector<Target> targets = diagonal_targets();
    std::erase_if(targets, [](const Target& target) { return target.backend == FLASHSCAN_BACKEND_CPU; });
    return targets;
}

INSTANTIATE_TEST_SUITE_P(RnnDiagonal, RnnCases, testing::ValuesIn(cases_on(diagonal_targets(), diagonals())),
                         name_of_rnn_case);
INSTANTIATE_TEST_SUITE_P(RnnDiagonalLong, RnnCases,
                         testing::ValuesIn(cases_on(diagonal_gpu_targets(), long_diagonals())), name_of_rnn_case);
INSTANTIATE_TEST_SUITE_P(RnnGrid, RnnCases, testing::ValuesIn(cases_on(kernels_apart(), small_grid())),
                         name_of_rnn_case);
INSTANTIATE_TEST_SUITE_P(RnnTf32, RnnCases, testing::ValuesIn(cases_on(kernels_apart(), rounded_factors())),
                         name_of_rnn_case);
INSTANTIATE_TEST_SUITE_P(RnnOneStep, RnnCases, testing::ValuesIn(cases_on(kernels_apart(), one_step())),
                         name_of_rnn_case);
INSTANTIATE_TEST_SUITE_P(RnnShapes, RnnCases, testing::ValuesIn(cases_on(kernels_apart(), shapes())), name_of_rnn_case);
INSTANTIATE_TEST_SUITE_P(RnnPairs, RnnCases, testing::ValuesIn(cases_on(kernels_apart(), pairs())), name_of_rnn_case);
INSTANTIATE_TEST_SUITE_P(RnnSingle, RnnCases, testing::ValuesIn(cases_on(rnn_kernel_targets(), singles())),
                         name_of_rnn_case);

// With BATCH_INVARIANT the bits of a sequence depend neither on the threads nor on the sequences beside it; those of
// sums not on the threads.
class RnnBits : public testing::TestWithParam<const char*> {};

TEST_P(RnnBits, AreThoseOfOneThreadAndOfOneSequence) {
    for (const std::string& cell : cell_words()) {
        RnnProblem p =
            rnn_problem_of("rnn bwd f32 b13 t9 " + std::string(GetParam()) + " state-in threads1 invariant " + cell);
        const RnnData data = make_data(p);
        const RnnOutcome one = run_rnn(p, {}, data, Guard::end);
        require(one);
        for (const int threads : {2, 3, 7}) {
            p.threads = threads;
            EXPECT_TRUE(run_rnn(p, {}, data, Guard::end).bits == one.bits) << cell << " " << threads;
        }
        RnnProblem alone = p;
        alone.batch = 1;
        for (int64_t b = 0; b < p.batch; ++b) {
            RnnData row = data;
            const auto cut = [&](Values& values) {
                const auto size = static_cast<std::ptrdiff_t>(values.size()) / p.batch;
                values = Values(values.begin() + b * size, values.begin() + (b + 1) * size);
            };
            cut(row.input), cut(row.grad_output);
            for (int64_t s = 0; s < p.states(); ++s)
                for (int64_t w = 0; w < p.width(); ++w)
                    row.state_in[alone.state_index(s, 0, w)] = data.state_in[p.state_index(s, b, w)];
            row.state_in.resize(static_cast<size_t>(p.states() * p.width()));
            const RnnOutcome single = run_rnn(alone, {}, row, Guard::end);
            require(single);
            for (const int32_t id : {FLASHSCAN_ARG_OUTPUT + 0, FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT}) {
                Values whole = one[id];
                cut(whole);
                EXPECT_TRUE(single[id] == whole) << cell << " row " << b << " argument " << id;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Rnn, RnnBits, testing::Values("h2 d37", "h300 d1"),
                         [](const auto& test) { return std::string(test.index == 0 ? "blocks" : "diagonals"); });

// FLASHSCAN_TEST_RNN_CASE runs one problem line, as a failure prints it.
TEST(RnnRepro, CaseOfTheEnvironment) {
    const char* line = std::getenv("FLASHSCAN_TEST_RNN_CASE");
    if (line == nullptr) GTEST_SKIP() << "FLASHSCAN_TEST_RNN_CASE is not set";
    const char* wanted = std::getenv("FLASHSCAN_TEST_TARGET");
    for (const Target& target : rnn_targets())
        if (wanted == nullptr || text_of(target) == wanted) check_case({rnn_problem_of(line), target});
}

TEST(RnnRepro, LinesReadBack) {
    for (const RnnProblem& p : pairs()) {
        EXPECT_EQ(text_of(rnn_problem_of(text_of(p))), text_of(p));
    }
    EXPECT_EQ(text_of(rnn_problem_of("rnn lstm fwd bf16 b16 t1024 h1 d768")), "rnn lstm fwd bf16 b16 t1024 h1 d768");
    EXPECT_THROW(rnn_problem_of("rnn lstm f32 q3"), std::invalid_argument);
}

}  // namespace
}  // namespace numeric
