// SPDX-License-Identifier: Apache-2.0
// Custom operators over several ranks, each a thread, against the fold on the whole; and callbacks that fail on one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/custom_scene.h"
#include "support/ranks.h"

namespace numeric {
namespace {

using namespace support;
using namespace support::custom;

struct Result {
    flashscan_status status = FLASHSCAN_STATUS_OK;
    std::string sentence;
};

// Executes forward on every rank's arrays; `change` may give each rank an operator of its own.
std::vector<Result> run(std::vector<Arrays>& parts, bool reverse, const char* kernel, Meeting& meeting,
                        const std::function<void(int32_t rank, flashscan_custom_operator&)>& change) {
    std::vector<Result> results(parts.size());
    on_ranks(meeting.size(), [&](int32_t rank) {
        Arrays& part = parts[static_cast<size_t>(rank)];
        Result& result = results[static_cast<size_t>(rank)];
        flashscan_custom_operator custom = custom_of(sizeof(Exact));
        custom.host = multiply_exact;
        change(rank, custom);
        const flashscan_operator_desc desc = custom::desc_of(part.shape, custom);
        const std::string name = kernel;
        flashscan_options options = make_options(FLASHSCAN_BACKEND_CPU, name, part.shape.threads, false, false);
        const flashscan_comm comm = meeting.comm(rank);
        options.communicator = &comm;
        const Plan plan(desc, options);
        result = {plan.status(), plan.message()};
        if (!plan) return;
        std::vector<flashscan_arg> arguments;
        const int32_t first = reverse ? meeting.size() - 1 : 0;
        for (const flashscan_arg& argument : part.arguments())
            if ((argument.id != FLASHSCAN_ARG_STATE_IN || rank == first) &&
                (argument.id != FLASHSCAN_ARG_STATE_OUT || rank == meeting.size() - 1 - first))
                arguments.push_back(argument);
        result.status = flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, arguments.data(),
                                          static_cast<int32_t>(arguments.size()), nullptr);
        if (result.status != FLASHSCAN_STATUS_OK) result.sentence = flashscan_last_error();
    });
    EXPECT_EQ(meeting.trouble(), "");
    return results;
}

std::vector<Arrays> parts_of(const Arrays& whole, const std::vector<int64_t>& lengths) {
    std::vector<Arrays> parts;
    int64_t begin = 0;
    for (const int64_t length : lengths) {
        Shape shape = whole.shape;
        shape.time = length;
        Arrays part(shape, whole.size);
        part.state_in = whole.state_in;
        for (int64_t b = 0; b < shape.batch; ++b)
            for (int64_t t = 0; t < length; ++t)
                for (int64_t c = 0; c < shape.channels; ++c)
                    std::copy_n(whole.input.data() + whole.place(b, begin + t, c), whole.size,
                                part.input.data() + part.place(b, t, c));
        parts.push_back(part);
        begin += length;
    }
    return parts;
}

void expect_fold(const Shape& shape, const char* kernel, uint64_t seed) {
    constexpr int32_t rank_counts[] = {2, 3, 5, 8, 1};
    const std::vector<int64_t> lengths = cut_of(shape.time, rank_counts[seed % std::size(rank_counts)], seed);
    SCOPED_TRACE(
        fmt::format("{} t{} mode {} of {} ranks, number {}", kernel, shape.time, shape.mode, lengths.size(), seed));
    Arrays whole(shape, sizeof(Exact));
    fill_exact(whole.input, 1);
    fill_exact(whole.state_in, 2);
    std::vector<Arrays> parts = parts_of(whole, lengths);
    fold(whole, [](const void* l, const void* r, void* out) { multiply_exact(nullptr, l, r, out); });
    Meeting meeting(static_cast<int32_t>(lengths.size()));
    const std::string name = kernel;
    const auto results = run(parts, shape.reverse, kernel, meeting, [&](int32_t, flashscan_custom_operator& custom) {
        if (name == "batched") custom.batched = multiply_exact_batched;
    });
    const size_t last = shape.reverse ? 0 : parts.size() - 1;
    int64_t begin = 0;
    for (size_t rank = 0; rank < parts.size(); ++rank) {
        ASSERT_EQ(results[rank].status, FLASHSCAN_STATUS_OK) << results[rank].sentence;
        const Arrays& part = parts[rank];
        if (shape.mode == FLASHSCAN_MODE_REDUCTION) {
            EXPECT_EQ(part.output, whole.output);
        } else {
            for (int64_t b = 0; b < shape.batch; ++b)
                for (int64_t t = 0; t < lengths[rank]; ++t)
                    for (int64_t c = 0; c < shape.channels; ++c)
                        ASSERT_TRUE(std::equal(part.output.data() + part.place(b, t, c),
                                               part.output.data() + part.place(b, t, c) + part.size,
                                               whole.output.data() + whole.place(b, begin + t, c)))
                            << "rank " << rank << " b" << b << " t" << t << " c" << c;
        }
        EXPECT_EQ(part.state_out, rank == last ? whole.state_out : Bytes(part.state_out.size(), 0xee));
        begin += lengths[rank];
    }
}

TEST(RankCustoms, MatchTheFold) {
    strays = 0;
    uint64_t seed = 0;
    for (const char* kernel : {"host", "batched", "reference"})
        for (const Shape& shape : shapes())
            if (shape.sequences == 0 && shape.time < 2000) expect_fold(shape, kernel, ++seed);
    expect_fold({1, 5003, 2, 0, FLASHSCAN_LAYOUT_BTC, FLASHSCAN_MODE_INCLUSIVE, false, true, 2}, "host", 1001);
    EXPECT_EQ(strays, 0);
}

// The callback counts its calls, and fails in those from `failing` on.
struct Failing {
    std::atomic<int64_t> made{0};
    int64_t failing = 0;
};
int32_t fail_later(void* state, const void* l, int64_t l_stride, const void* r, int64_t r_stride, void* out,
                   int64_t out_stride, int64_t count, void* stream) {
    auto& failing = *static_cast<Failing*>(state);
    if (failing.made++ >= failing.failing) return 5;
    return multiply_exact_batched(nullptr, l, l_stride, r, r_stride, out, out_stride, count, stream);
}

// Before ranks have heard of each other, while they join what they heard, or in the own pass.
TEST(RankCustoms, ACallbackThatFailsOnOneRank) {
    for (const int64_t failing : {0, 2, 3, 4}) {
        Arrays whole({1, 12, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, true}, sizeof(Exact));
        fill_exact(whole.input, 1);
        fill_exact(whole.state_in, 2);
        std::vector<Arrays> parts = parts_of(whole, {4, 4, 4});
        Failing state;
        state.failing = failing;
        Meeting meeting(3);
        const auto results =
            run(parts, false, "batched", meeting, [&](int32_t rank, flashscan_custom_operator& custom) {
                custom.batched = multiply_exact_batched;
                if (rank == 1) custom.batched = fail_later, custom.state = &state;
            });
        for (const Result& result : results) {
            EXPECT_EQ(result.status, FLASHSCAN_STATUS_CALLBACK_FAILED) << failing;
            EXPECT_EQ(result.sentence, "rank 1 of 3 has failed: custom.batched returned 5; accepted is 0") << failing;
        }
        for (const Arrays& part : parts) EXPECT_TRUE(failing >= 2 || part.output == Bytes(part.output.size(), 0xee));
    }
}

TEST(RankCustoms, AdjointsAndPackedSequencesAreRefused) {
    Arrays whole({1, 4, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, false}, sizeof(Exact));
    std::vector<Arrays> parts = parts_of(whole, {2, 2});
    Meeting meeting(2);
    for (const Result& result : run(parts, false, "", meeting, [](int32_t, flashscan_custom_operator& custom) {
             custom.element_bytes = 16;
             custom.host = multiply_pair;
             custom.host_adjoint = multiply_pair_adjoint;
         })) {
        EXPECT_NE(result.status, FLASHSCAN_STATUS_OK);
        EXPECT_NE(result.sentence.find("rank 0 of 2"), std::string::npos) << result.sentence;
    }
    for (Arrays& part : parts) part.shape.sequences = 1;
    for (const Result& result : run(parts, false, "", meeting, [](int32_t, flashscan_custom_operator&) {})) {
        EXPECT_EQ(result.status, FLASHSCAN_STATUS_UNSUPPORTED);
        EXPECT_NE(result.sentence.find("none with sequences"), std::string::npos) << result.sentence;
    }
}

}  // namespace
}  // namespace numeric
