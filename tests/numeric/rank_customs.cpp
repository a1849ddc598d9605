// SPDX-License-Identifier: Apache-2.0
// Custom operators over several ranks, each a thread, against the fold on the whole: host functions and callbacks on the
// CPU, device code on a GPU that the ranks share. And callbacks that fail on one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "support/check.h"
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

constexpr Target device{FLASHSCAN_BACKEND_CUDA, ""};

// A call in memory of the backend.
void execute(const Plan& plan, const std::vector<flashscan_arg>& arguments, int32_t backend, Result& result) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<flashscan_arg> own = arguments;
    for (flashscan_arg& argument : own) {
        const auto* bytes = static_cast<const unsigned char*>(argument.data);
        buffers.push_back(make_buffer(backend, argument.bytes, Guard::end, 1, 0));
        buffers.back()->write(Bytes(bytes, bytes + argument.bytes));
        argument.data = buffers.back()->data();
    }
    result.status = flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, own.data(), static_cast<int32_t>(own.size()),
                                      test_stream(backend));
    if (result.status != FLASHSCAN_STATUS_OK) result.sentence = flashscan_last_error();
    const char* error = synchronize(backend);
    EXPECT_EQ(error, nullptr) << error;
    for (size_t i = 0; i < buffers.size(); ++i) {
        const Bytes bytes = buffers[i]->read();
        std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(arguments[i].data));
        EXPECT_TRUE(buffers[i]->surroundings_intact()) << "argument " << arguments[i].id;
    }
}

// Executes forward on every rank's arrays; `change` may give each rank an operator of its own.
std::vector<Result> run(std::vector<Arrays>& parts, bool reverse, const char* kernel, Meeting& meeting,
                        const std::function<void(int32_t rank, flashscan_custom_operator&)>& change) {
    std::vector<Result> results(parts.size());
    on_ranks(meeting.size(), [&](int32_t rank) {
        Arrays& part = parts[static_cast<size_t>(rank)];
        Result& result = results[static_cast<size_t>(rank)];
        flashscan_custom_operator custom = custom_of(static_cast<int64_t>(part.size));
        custom.host = multiply_exact;
        change(rank, custom);
        const flashscan_operator_desc desc = custom::desc_of(part.shape, custom);
        const std::string name = kernel;
        const bool on_gpu = meeting.backend() == FLASHSCAN_BACKEND_CUDA;
        flashscan_options options =
            make_options(meeting.backend(), name, on_gpu ? 0 : part.shape.threads, false, false);
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
        execute(plan, arguments, meeting.backend(), result);
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

// `combine` is what the operator that `change` sets does.
template <typename Combine>
void expect_fold(const Arrays& whole_before, const std::vector<int64_t>& lengths, const char* kernel, int32_t backend,
                 const std::function<void(int32_t, flashscan_custom_operator&)>& change, Combine combine) {
    Arrays whole = whole_before;
    const Shape& shape = whole.shape;
    std::string cut;
    for (const int64_t length : lengths) cut += " " + std::to_string(length);
    SCOPED_TRACE(fmt::format("{} b{} c{} mode {}{} in parts of{}", kernel, shape.batch, shape.channels, shape.mode,
                             shape.reverse ? " reverse" : "", cut));
    fill_exact(whole.input, 1);
    fill_exact(whole.state_in, 2);
    std::vector<Arrays> parts = parts_of(whole, lengths);
    fold(whole, combine);
    Meeting meeting(static_cast<int32_t>(lengths.size()), backend);
    const auto results = run(parts, shape.reverse, kernel, meeting, change);
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

void combine_exact(const void* l, const void* r, void* out) { multiply_exact(nullptr, l, r, out); }

void expect_fold(const Shape& shape, const char* kernel, uint64_t seed) {
    constexpr int32_t rank_counts[] = {2, 3, 5, 8, 1};
    const std::string name = kernel;
    expect_fold(
        Arrays(shape, sizeof(Exact)), cut_of(shape.time, rank_counts[seed % std::size(rank_counts)], seed), kernel,
        FLASHSCAN_BACKEND_CPU,
        [&](int32_t, flashscan_custom_operator& custom) {
            if (name == "batched") custom.batched = multiply_exact_batched;
        },
        combine_exact);
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

// Parts without steps lie at any place but the first, in MODE_EXCLUSIVE there too.
TEST(RankCustomsOnAGpu, MatchTheFold) {
    SKIP_UNLESS_AVAILABLE(device);
    const std::string code = exact_code;
    const auto change = [&](int32_t, flashscan_custom_operator& custom) {
        custom = code_of(sizeof(Exact), code, "multiply_exact");
    };
    int i = 0;
    for (const std::vector<int64_t>& lengths : std::vector<std::vector<int64_t>>{
             {7}, {5, 4}, {9, 0}, {3, 0, 6}, {1, 1, 1, 1}, {2000, 1, 300}, {4, 0, 0, 5, 0}, {2, 3, 0, 1, 40, 0, 7, 90}})
        for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION})
            for (const bool reverse : {false, true}) {
                const bool exclusive = mode == FLASHSCAN_MODE_EXCLUSIVE;
                std::vector<int64_t> cut = lengths;
                if (exclusive) cut.insert(cut.begin(), 0);
                if (reverse) std::reverse(cut.begin(), cut.end());
                const int64_t time = std::accumulate(cut.begin(), cut.end(), int64_t{0});
                const Shape shape{1 + i % 3,
                                  time,
                                  1 + i % 2,
                                  0,
                                  i % 3 == 0 ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC,
                                  mode,
                                  reverse,
                                  exclusive || i % 4 < 2};
                const char* const kernel = ++i % 5 < 3 ? "compiled" : "compiled_tree";
                expect_fold(Arrays(shape, sizeof(Exact)), cut, kernel, FLASHSCAN_BACKEND_CUDA, change, combine_exact);
            }
    expect_fold(Arrays({0, 5, 2, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, true}, sizeof(Exact)), {0, 5}, "",
                FLASHSCAN_BACKEND_CUDA, change, combine_exact);
}

// Elements that do not fit registers, of many matrices each.
TEST(RankCustomsOnAGpu, LargeElementsMatchTheFold) {
    SKIP_UNLESS_AVAILABLE(device);
    constexpr size_t count = 40;
    const std::string code = fmt::format("{}{}", exact_code, R"(
extern "C" __device__ void multiply_all(const void* l, const void* r, void* out) {
    for (int i = 0; i < 40; ++i) multiply_exact((const Exact*)l + i, (const Exact*)r + i, (Exact*)out + i);
}
)");
    for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION})
        expect_fold(
            Arrays({2, 70, 3, 0, 0, mode, mode == FLASHSCAN_MODE_REDUCTION, true}, count * sizeof(Exact)),
            {20, 0, 1, 49}, "", FLASHSCAN_BACKEND_CUDA,
            [&](int32_t, flashscan_custom_operator& custom) {
                custom = code_of(count * sizeof(Exact), code, "multiply_all");
            },
            [](const void* l, const void* r, void* out) {
                for (size_t i = 0; i < count; ++i)
                    combine_exact(static_cast<const Exact*>(l) + i, static_cast<const Exact*>(r) + i,
                                  static_cast<Exact*>(out) + i);
            });
}

TEST(RankCustomsOnAGpu, AFirstRankWithoutStepsIsRefused) {
    SKIP_UNLESS_AVAILABLE(device);
    const std::string code = exact_code;
    for (const bool reverse : {false, true}) {
        Arrays whole({1, 4, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, reverse, true}, sizeof(Exact));
        std::vector<Arrays> parts = parts_of(whole, reverse ? std::vector<int64_t>{4, 0} : std::vector<int64_t>{0, 4});
        Meeting meeting(2, FLASHSCAN_BACKEND_CUDA);
        for (const Result& result : run(parts, reverse, "", meeting, [&](int32_t, flashscan_custom_operator& custom) {
                 custom = code_of(sizeof(Exact), code, "multiply_exact");
             })) {
            EXPECT_EQ(result.status, FLASHSCAN_STATUS_UNSUPPORTED);
            EXPECT_NE(result.sentence.find(fmt::format("rank {} has no steps", reverse ? 1 : 0)), std::string::npos)
                << result.sentence;
        }
    }
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
