// SPDX-License-Identifier: Apache-2.0
// Every kernel of gated layers against the oracle, within the bound of support/gated_bound.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>

#include "support/gated_check.h"
#include "support/lines.h"
#include "support/one_sequence.h"
#include "support/pairwise.h"

namespace numeric {
namespace {

using namespace support;

class GatedCases : public testing::TestWithParam<GatedCase> {};

TEST_P(GatedCases, EqualsTheReference) {
    SKIP_UNLESS_AVAILABLE(GetParam().target);
    check_case(GetParam());
}

GatedProblem problem_of_row(const std::vector<int>& row, uint64_t seed) {
    constexpr int32_t dtypes[] = {FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F64};
    constexpr int64_t times[] = {0, 1, 2, 17, 70}, channels[] = {1, 3, 16, 37}, batches[] = {1, 3};
    constexpr uint32_t gradients[] = {0xff, 0x01, 0x02, 0x88, 0x70, 0x0d};
    GatedProblem p;
    p.decay = FLASHSCAN_GATED_DECAY_VALUE + row[0];
    p.scale = FLASHSCAN_GATED_SCALE_ONE + row[1];
    p.activation = FLASHSCAN_GATED_ACTIVATION_NONE + row[2];
    p.input_gating = FLASHSCAN_GATED_INPUT_GATE_NONE + row[3];
    p.epilogue = FLASHSCAN_GATED_EPILOGUE_NONE + row[4];
    p.first_step = row[5] == 1;
    p.dtype = p.gate_dtype = p.param_dtype = dtypes[row[6]];
    if (size_of(p.dtype) == 2) {
        if (row[7] % 2 == 1) p.gate_dtype = FLASHSCAN_DTYPE_F32;
        if (row[7] / 2 == 1) p.param_dtype = FLASHSCAN_DTYPE_F32;
    }
    p.layout = FLASHSCAN_LAYOUT_BTC + row[8];
    p.time = times[row[9]];
    p.channels = channels[row[10]];
    p.batch = batches[row[11]];
    if (row[12] > 0) {
        p.batch = 1;
        p.sequences = row[12] == 1 ? 1 : 4;
        p.offsets_dtype = row[12] == 1 ? FLASHSCAN_DTYPE_I32 : FLASHSCAN_DTYPE_I64;
    }
    p.reverse = row[13] == 1;
    p.reset = row[14] == 1;
    p.state_in = row[15] == 1;
    p.state_out = row[16] == 1;
    p.bias = row[17] == 0;
    p.gradients = gradients[row[18]];
    p.placement = static_cast<Placement>(row[19]);
    p.in_place = row[20] == 1;
    p.pooled = row[21] == 1;
    p.batch_invariant = row[22] == 1;
    p.caller_scratch = row[22] == 2;
    p.threads = row[23];
    p.values = static_cast<GatedValues>(row[24]);
    p.slope_limit = row[24] == 1 ? 1000 : 0;
    p.seed = seed;
    return p;
}

std::vector<GatedProblem> pairs() {
    std::vector<GatedProblem> problems;
    for (const auto& row :
         pairwise_rows({7, 3, 4, 2, 4, 2, 4, 4, 2, 5, 4, 2, 3, 2, 2, 2, 2, 2, 6, placement_count, 2, 2, 3, 4, 2}, 9))
        problems.push_back(problem_of_row(row, 1 + problems.size()));
    return problems;
}

constexpr const char* layers[] = {"mingru", "minlstm", "hgrn", "rglru", "qrnn", "gilr"};

// Each layer with a name where errors have time to grow, and in every dtype.
std::vector<GatedProblem> singles() {
    std::vector<GatedProblem> problems;
    for (const char* layer : layers)
        for (const char* rest :
             {"f32 b2 t300 c70 state-in state-out", "bf16 b3 t65 c64 BCT state-out", "f16 b2 t200 c16 reset saturated",
              "bf16 gate-f32 param-f32 b1 t90 c24 sequences5 state-in state-out", "f64 b2 t40 c17 reverse reset",
              "f32 b0 t3 c4", "f32 b2 t0 c4 state-in state-out", "f32 b2 t5 c0"})
            problems.push_back(gated_problem_of(std::string("gated ") + layer + " " + rest));
    return problems;
}

// Kernels change what they do at these sizes: channels about a vector, a panel and a block; few rows of many steps,
// which are cut into chunks; many short rows.
std::vector<GatedProblem> shapes() {
    return problems_of(
        gated_problem_of, "gated ",
        {"rglru f32 b1 t40 c2049 limit1000", "mingru f64 b1 t30 c1030", "hgrn f32 b1 t5000 c1 state-in state-out",
         "rglru f32 BCT b1 t5000 c2 reset state-in limit1000", "qrnn bf16 b1 t4100 c9 reverse state-out",
         "minlstm f32 BCT b1 t3000 c3 reverse reset", "rglru f32 b200 t2 c5", "gilr f32 BCT b70 t9 c3 threads3",
         "hgrn f32 b1 t3000 c4 sequences37 state-in state-out", "hgrn f64 BCT b1 t3000 c4 sequences9 reset",
         "rglru f32 b2 t2500 c31 invariant reset limit1000", "decay-value f32 b1 t6000 c1 epilogue-silu state-in",
         "decay-exp scale-one-minus f32 BCT b2 t4097 c1", "rglru f16 b1 t3000 c7 sequences3 param-f32 limit1000",
         "hgrn f32 b40 t1 c33 state-in", "rglru bf16 place-fused b2 t130 c128 limit1000",
         "mingru f32 b2 t64 c256 place-misaligned", "minlstm f32 b1 t2000 c512", "rglru f32 b1 t2000 c600"});
}

// Aligned and dense rows about and beyond the chunks of a GPU's blocks, which have kernels of their own: each layer
// with a name, without BIAS; parts without a name; factors beyond 1, whose products are not formed.
std::vector<GatedProblem> aligned() {
    std::vector<GatedProblem> problems;
    for (const char* layer : layers)
        for (const char* rest :
             {"f32 b2 t257 c66 state-in state-out", "bf16 b2 t135 c66 state-in", "f16 b1 t64 c128 state-out limit1000",
              "f32 BCT b1 t4104 c3 state-in state-out", "bf16 BCT b1 t2056 c6 state-out", "f16 BCT b2 t248 c4 state-in",
              "bf16 BCT b2 t264 c5"})
            problems.push_back(gated_problem_of(std::string("gated no-bias ") + layer + " " + rest));
    for (const char* line :
         {"mingru f32 b2 t130 c34 state-in", "rglru bf16 BCT b1 t2104 c2 state-in state-out limit1000",
          "decay-exp scale-one-minus epilogue-silu f16 b1 t129 c64 input-gate state-in state-out",
          "decay-value scale-sqrt f32 BCT b1 t2048 c4 activation-silu epilogue-tanh-sigmoid state-in limit1000",
          "decay-value f32 b2 t300 c32 growing no-bias state-in state-out",
          "decay-exp bf16 BCT b1 t528 c4 growing state-in",
          "decay-value scale-one-minus f64 b1 t90 c34 growing state-in", "mingru f32 place-fused b2 t130 c64 no-bias",
          "minlstm bf16 BCT place-padded b2 t136 c6 no-bias state-out",
          "rglru f16 b2 t5 c64 no-bias state-out limit1000", "rglru f32 BCT b2 t1056 c3",
          "rglru f32 BCT b1 t1040 c2 reverse", "rglru f64 BCT b3 t16 c2 reset state-out",
          "hgrn bf16 b1 t67 c66 no-bias state-in state-out"})
        problems.push_back(gated_problem_of(std::string("gated ") + line));
    // Steps and channels that lanes lack, whose gates of 0 have a root of infinite slope, are not added to sums; and
    // where factors are 1, slopes are at their limit.
    for (const char* decay : {"value", "exp", "sigmoid", "one-minus-sigmoid", "lower-bound", "softplus", "ratio"})
        for (const char* rest : {"f32 b1 t42 c33 input-gate state-in", "bf16 BCT b1 t88 c3 state-out",
                                 "f32 b2 t42 c34 no-bias input-gate state-in saturated limit1000"})
            problems.push_back(
                gated_problem_of(fmt::format("gated decay-{} scale-sqrt activation-silu {}", decay, rest)));
    for (const char* rest : {"f32 b1 t83 c34", "bf16 b2 t42 c66 state-in", "f16 BCT b1 t88 c3"})
        problems.push_back(gated_problem_of(fmt::format("gated rglru no-bias saturated limit1000 {}", rest)));
    return problems;
}

// Few rows of many steps, whose chunks look back on a GPU, in groups of 16 with channels innermost and of 128 with time
// innermost; factors beyond 1, whose chunks walk in turn; chunks with and without all channels.
std::vector<GatedProblem> few_rows() {
    return problems_of(
        gated_problem_of, "gated ",
        {"mingru f32 b1 t36000 c2 no-bias state-in state-out", "rglru bf16 b1 t17000 c66 no-bias limit1000",
         "minlstm f16 b2 t2200 c34 state-in", "gilr f32 BCT b1 t540000 c1 no-bias state-out",
         "hgrn bf16 BCT b1 t540672 c2 state-in", "qrnn f64 b1 t9000 c3 reverse reset state-in state-out",
         "decay-value f32 b1 t3000 c40 growing no-bias state-in state-out",
         "decay-value bf16 BCT b1 t8192 c3 growing no-bias state-out",
         "decay-exp f32 BCT b1 t4500 c2 growing reset reverse", "decay-value bf16 b1 t2100 c66 growing sequences9",
         "rglru f32 b1 t2500 c33 sequences5 state-in limit1000", "mingru f32 b1 t2500 c33 invariant",
         "hgrn f32 b1 t3000 c36 sequences37 invariant state-in state-out",
         "rglru bf16 BCT b1 t9000 c5 sequences9 invariant reverse reset limit1000",
         "decay-value f32 b1 t36000 c3 growing no-bias", "hgrn f32 b1 t90000 c2 invariant sequences2 state-in",
         "decay-value f32 b1 t9000 c33 growing invariant sequences2 state-in"});
}

INSTANTIATE_TEST_SUITE_P(GatedFewRows, GatedCases, testing::ValuesIn(cases_on(gated_kernel_targets(), few_rows())),
                         name_of_gated_case);
INSTANTIATE_TEST_SUITE_P(GatedPairs, GatedCases, testing::ValuesIn(cases_on(gated_kernel_targets(), pairs())),
                         name_of_gated_case);
INSTANTIATE_TEST_SUITE_P(GatedSingle, GatedCases, testing::ValuesIn(cases_on(gated_targets(), singles())),
                         name_of_gated_case);
INSTANTIATE_TEST_SUITE_P(GatedAligned, GatedCases, testing::ValuesIn(cases_on(gated_kernel_targets(), aligned())),
                         name_of_gated_case);
INSTANTIATE_TEST_SUITE_P(GatedShapes, GatedCases, testing::ValuesIn(cases_on(gated_kernel_targets(), shapes())),
                         name_of_gated_case);

// The parts of a layer with a name, one by one, give its bits; the problem's table of layers is the tests' own.
TEST(GatedLayers, AreTheirParts) {
    for (const char* layer : layers) {
        GatedProblem p = gated_problem_of(std::string("gated f32 b2 t20 c5 reset state-out ") + layer);
        const GatedData data = make_data(p);
        const GatedOutcome named = run_gated(p, {}, data, {}, Guard::end);
        require(named);
        p.layer = 0;
        const GatedOutcome parts = run_gated(p, {}, data, {}, Guard::end);
        require(parts);
        for (const auto& [id, values] : named.values) EXPECT_TRUE(parts[id] == values) << layer << " argument " << id;
    }
}

// The bits of no output depend on the threads.
TEST(GatedBits, AreThoseOfOneThread) {
    for (const char* layer :
         {"rglru f32 b9 t700 c3 invariant", "mingru f32 BCT b5 t700 c2", "qrnn bf16 b3 t1100 c4 reverse",
          "hgrn f32 b1 t700 c256", "hgrn f32 b1 t300 c256 invariant", "hgrn bf16 b1 t300 c1030 reset state-in",
          "hgrn f64 BCT b3 t130 c70", "hgrn f32 b1 t300 c300 sequences3", "rglru f32 b1 t150 c1030 reset limit1000",
          "decay-lower-bound f32 b1 t260 c600 state-in state-out"}) {
        GatedProblem p = gated_problem_of(std::string("gated threads1 ") + layer);
        const GatedData data = make_data(p);
        const GatedOutcome one = run_gated(p, {}, data, {}, Guard::end);
        require(one);
        for (const int threads : {2, 3, 4, 7}) {
            p.threads = threads;
            GatedOutcome several = run_gated(p, {}, data, {}, Guard::end);
            require(several);
            for (const auto& [id, bits] : one.bits)
                EXPECT_TRUE(several.bits[id] == bits) << layer << " argument " << id << " threads " << threads;
        }
    }
}

class GatedSequences : public testing::TestWithParam<GatedCase> {};

// Under BATCH_INVARIANT the bits of a sequence do not depend on those beside it, in a batch or packed.
TEST_P(GatedSequences, HaveTheBitsOfOneAlone) {
    const auto& [p, target] = GetParam();
    SKIP_UNLESS_AVAILABLE(target);
    const GatedData data = make_data(p);
    const GatedOutcome all = run_gated(p, target, data, {}, Guard::end);
    if (all.status == FLASHSCAN_STATUS_UNSUPPORTED) GTEST_SKIP() << "kernel refuses: " << all.message;
    require(all);
    for (const Sequence& s : sequences_of(p.batch, p.time, data.offsets)) {
        if (s.length() == 0) continue;
        const GatedOutcome single = run_gated(alone(p, s), target, data_of_sequence(p, s, data), {}, Guard::end);
        require(single);
        for (const int32_t id :
             {FLASHSCAN_ARG_OUTPUT + 0, FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE, FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT,
              FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_IN, FLASHSCAN_ARG_STATE_OUT + 0})
            EXPECT_TRUE(single[id] == cut(p, s, id, all[id])) << "sequence " << s.state << " argument " << id;
    }
}

std::vector<GatedProblem> invariant() {
    return problems_of(
        gated_problem_of, "gated state-in state-out threads7 invariant ",
        {"rglru f32 b9 t700 c3", "mingru f32 BCT b5 t700 c2", "qrnn bf16 b3 t1100 c4",
         "mingru f32 b1 t700 c70 sequences9", "rglru f16 b1 t900 c300 sequences3 reset limit1000",
         "qrnn bf16 b1 t1100 c4 sequences5 reverse", "minlstm f32 BCT b1 t9000 c2 sequences5 reset",
         "gilr bf16 BCT b1 t7000 c3 sequences2", "hgrn f64 b1 t300 c34 sequences17",
         "decay-value f32 b1 t400 c40 growing sequences4", "decay-exp f32 BCT b1 t6000 c2 growing sequences7 reverse"});
}

INSTANTIATE_TEST_SUITE_P(Gated, GatedSequences, testing::ValuesIn(cases_on(gated_kernel_targets(), invariant())),
                         name_of_gated_case);

// FLASHSCAN_TEST_GATED_CASE runs one problem line, as a failure prints it.
TEST(GatedRepro, CaseOfTheEnvironment) {
    const char* line = std::getenv("FLASHSCAN_TEST_GATED_CASE");
    if (line == nullptr) GTEST_SKIP() << "FLASHSCAN_TEST_GATED_CASE is not set";
    const char* wanted = std::getenv("FLASHSCAN_TEST_TARGET");
    for (const Target& target : gated_targets())
        if (wanted == nullptr || text_of(target) == wanted) check_case({gated_problem_of(line), target});
}

TEST(GatedRepro, LinesReadBack) {
    for (const auto& list : {pairs(), singles(), shapes()})
        for (const GatedProblem& p : list) EXPECT_EQ(text_of(gated_problem_of(text_of(p))), text_of(p));
    // These lines are as flashscan_bench prints them.
    for (const char* line : {"gated fwd bf16 BTC b8 t4096 c2560 rglru no-bias", "gated bwd f32 BCT b1 t9 c3 qrnn"})
        EXPECT_EQ(text_of(gated_problem_of(line)), line);
    for (const char* line : {"gated mingru f32 q3", "gated mingru b3x", "gated mingru gate-f31", "gated mingru grads-z",
                             "gated mingru scale-sqrt"})
        EXPECT_THROW(gated_problem_of(line), std::invalid_argument) << line;
}

}  // namespace
}  // namespace numeric
