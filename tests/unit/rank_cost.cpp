// SPDX-License-Identifier: Apache-2.0
// Plans of operators over two ranks choose what was the fastest on two H200s
// (bench/results/2026-11-26-h200/ranks_peer.json), and the estimates are near what was measured.
#include <gtest/gtest.h>

#include "cuda/ranks/operator_cost.h"
#include "cuda/ranks/slices.h"

namespace {

using namespace flashscan;
using namespace flashscan::cuda;

struct Measured {
    OperatorKind kind;
    int64_t dim, channels, steps;  // of 8 batch entries; steps of a rank
    Pass pass;
    double gathered_us;
    std::vector<std::pair<int32_t, double>> waves_us;  // by groups
    int32_t chosen;                                    // groups; 0: gathered
};
constexpr OperatorKind add = OperatorKind::add, matmul = OperatorKind::matmul, affine = OperatorKind::affine;
constexpr Pass forward = Pass::forward, backward = Pass::backward;

// The fastest of what was measured is what plans choose.
const std::vector<Measured> measured{
    {matmul, 16, 64, 512, forward, 528.2, {{8, 382.4}, {16, 364.9}}, 16},
    {matmul, 16, 64, 512, backward, 5168.9, {{8, 5445.2}, {16, 5099.3}}, 16},
    {matmul, 16, 16, 2048, forward, 513.3, {{4, 511.2}, {8, 501.1}}, 8},
    {matmul, 16, 16, 2048, backward, 5189.4, {{4, 6333.8}, {8, 5529.8}}, 0},
    {affine, 16, 1024, 32, forward, 660.6, {{1, 652.7}, {2, 525.9}, {4, 663.5}, {8, 669.1}}, 2},
    {affine, 16, 1024, 32, backward, 1051.7, {{2, 1367.6}, {4, 1376.7}, {8, 1196.7}}, 0},
    {matmul, 4, 64, 8192, forward, 510.1, {{4, 504.2}, {8, 479.6}}, 8},
    {matmul, 4, 64, 8192, backward, 1208.1, {{4, 975.3}, {8, 925.4}}, 8},
    {affine, 4, 1024, 512, forward, 324.8, {{4, 258.0}, {8, 236.0}, {16, 248.2}}, 8},
    {affine, 4, 1024, 512, backward, 498.8, {{4, 393.7}, {8, 357.7}, {16, 363.9}}, 8},
    {affine, 4, 1024, 2048, forward, 1159.5, {{4, 878.8}, {8, 792.0}, {16, 823.0}}, 8},
    {add, 0, 4096, 2048, forward, 241.4, {{8, 213.0}, {16, 248.4}}, 8},
    {add, 0, 4096, 2048, backward, 243.3, {{8, 207.6}, {16, 234.1}}, 8},
};

// Returns whether a pass takes the time of its bytes: of numbers, or of matrices in registers.
bool streams(const Measured& m) { return m.dim <= 4; }

RankWork work_of(const Measured& m) {
    OperatorProblem p;
    p.kind = m.kind;
    p.dtype = Dtype::f32;
    p.layout = Layout::btc;
    p.mode = OperatorMode::inclusive;
    p.batch = 8;
    p.time = m.steps;
    p.channels = m.channels;
    p.dim = m.dim;
    validate(p);
    RankWork w = operator_work(p, m.dim > 0 && streams(m), m.pass, 2, m.steps);
    w.cuts = row_cuts(p, m.pass);
    w.peer_memory = true;
    return w;
}

std::string text_of(const Measured& m) {
    return fmt::format("{} d{} c{} t{} {}", name_of(m.kind), m.dim, m.channels, m.steps,
                       m.pass == forward ? "forward" : "backward");
}

TEST(RankCost, ChoosesTheFasterWay) {
    for (const Measured& m : measured) {
        const RankWork w = work_of(m);
        const RankSchedule chosen = choose_schedule(w, Carries::chosen, 0);
        const int32_t groups = chosen.carries == Carries::gathered ? 0 : w.cut_into(chosen.groups).groups;
        EXPECT_EQ(groups, m.chosen) << text_of(m) << ": " << chosen.why;
    }
}

// Estimates are within 13 % but for two, which are 15 % too low, and those of wavefronts of streams, up to 20 %.
TEST(RankCost, ExpectsTheMeasuredTimes) {
    constexpr double near = 0.16, near_of_streams = 0.21;
    for (const Measured& m : measured) {
        const RankWork w = work_of(m);
        EXPECT_NEAR(gathered_us(w) / m.gathered_us, 1, near) << text_of(m);
        for (const auto& [groups, us] : m.waves_us)
            EXPECT_NEAR(wavefront_us(w, groups) / us, 1, streams(m) ? near_of_streams : near)
                << text_of(m) << " in " << groups;
    }
}

}  // namespace
