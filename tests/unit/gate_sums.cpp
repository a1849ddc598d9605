// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear/gate_sums.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "core/types.h"

namespace flashscan::cuda {
namespace {

// Which terms go into which place of the gradient: the sum of their offsets and their number, by the place's offset.
using Sums = std::map<int64_t, std::pair<int64_t, int64_t>>;

Sums sums_of(const ReduceParams& r) {
    Sums sums;
    for (int64_t i = 0; i < r.kept[0].count; ++i)
        for (int64_t j = 0; j < r.kept[1].count; ++j)
            for (int64_t k = 0; k < r.summed[0].count; ++k)
                for (int64_t l = 0; l < r.summed[1].count; ++l) {
                    auto& [offsets, count] = sums[i * r.kept[0].gradient + j * r.kept[1].gradient];
                    offsets +=
                        i * r.kept[0].terms + j * r.kept[1].terms + k * r.summed[0].terms + l * r.summed[1].terms;
                    ++count;
                }
    return sums;
}

Sums expected(const ReduceAxis& batch, const ReduceAxis& time, const ReduceAxis& row, uint32_t broadcast) {
    const auto place = [&](const ReduceAxis& axis, uint32_t name, int64_t index) {
        return (broadcast & name) != 0 ? 0 : index * axis.gradient;
    };
    Sums sums;
    for (int64_t b = 0; b < batch.count; ++b)
        for (int64_t t = 0; t < time.count; ++t)
            for (int64_t c = 0; c < row.count; ++c) {
                auto& [offsets, count] = sums[place(batch, broadcast_batch, b) + place(time, broadcast_time, t) +
                                              place(row, broadcast_channels, c)];
                offsets += b * batch.terms + t * time.terms + c * row.terms;
                ++count;
            }
    return sums;
}

// How terms lie: partial sums in the order of steps with channels innermost, or terms of each element, which lie like
// INPUT.
enum class Terms {
    partial,
    elements,
    elements_time_innermost
};

// `apart` are places between batch entries in which no terms lie; `turned` tells that strides of time are negative.
void check(int64_t batches, int64_t steps, int64_t rows, int64_t apart, Terms terms, bool turned, bool cuts,
           uint32_t broadcast) {
    const bool time_innermost = terms == Terms::elements_time_innermost;
    SCOPED_TRACE(testing::Message() << batches << " x " << steps << " x " << rows << " + " << apart << ' '
                                    << static_cast<int>(terms) << turned << cuts << " broadcast " << broadcast);
    const bool of_batch = (broadcast & broadcast_batch) == 0, of_time = (broadcast & broadcast_time) == 0,
               of_rows = (broadcast & broadcast_channels) == 0;
    const int64_t kept_steps = of_time ? steps : 1, kept_rows = of_rows ? rows : 1;
    const int64_t turn = turned ? -1 : 1, turn_of_terms = terms == Terms::partial ? 1 : turn;
    const ReduceAxis batch{batches, 4 * (steps + apart) * rows, of_batch ? 2 * kept_steps * kept_rows : 0};
    const ReduceAxis time{steps, turn_of_terms * 4 * (time_innermost ? 1 : rows),
                          of_time ? turn * 2 * (time_innermost ? 1 : kept_rows) : 0};
    const ReduceAxis row{rows, 4 * (time_innermost ? steps : 1), of_rows ? 2 * (time_innermost ? kept_steps : 1) : 0};
    const ReduceParams r = sum_over_axes(batch, time, row, broadcast, 4, cuts, false);
    EXPECT_EQ(sums_of(r), expected(batch, time, row, broadcast));
    ASSERT_GT(r.width, 0);
    EXPECT_EQ(reduce_threads % r.width, 0);
    if (r.pack > 1) {
        EXPECT_LT(r.time_axis, 0);
        EXPECT_EQ(r.kept[1].terms, 4);
        EXPECT_EQ(r.kept[1].count % r.pack, 0);
        for (const ReduceAxis& axis : {r.kept[0], r.summed[0], r.summed[1]})
            EXPECT_TRUE(axis.count == 1 || axis.terms % reduce_bytes == 0);
    }
    if (cuts && of_time) {
        ASSERT_GE(r.time_axis, 0);
        EXPECT_EQ(r.kept[r.time_axis].count, steps);
        if (steps > 1) {
            EXPECT_EQ(r.kept[r.time_axis].terms, time.terms);
        }
    } else {
        EXPECT_EQ(r.time_axis, -1);
    }
}

TEST(GateSums, HaveEveryTermOnceInItsPlace) {
    for (uint32_t broadcast = 1; broadcast < 8; ++broadcast)
        for (const auto& [batches, steps, rows] : {std::tuple{1, 1, 1},
                                                   {1, 1, 3},
                                                   {1, 5, 1},
                                                   {1, 5, 3},
                                                   {4, 1, 3},
                                                   {4, 5, 1},
                                                   {4, 5, 3},
                                                   {2, 3, 300},
                                                   {40, 3, 2},
                                                   {1, 2000, 2}})
            for (const bool turned : {false, true}) {
                for (const int64_t apart : {0, 2})
                    check(batches, steps, rows, apart, Terms::partial, turned, false, broadcast);
                if (batches == 1) check(batches, steps, rows, 0, Terms::partial, turned, true, broadcast);
                if ((broadcast & broadcast_time) != 0) continue;  // sums over time are partial sums
                for (const Terms terms : {Terms::elements, Terms::elements_time_innermost}) {
                    check(batches, steps, rows, 0, terms, turned, false, broadcast);
                    if (batches == 1) check(batches, steps, rows, 0, terms, turned, true, broadcast);
                }
            }
}

// The sum of f32 terms of each element, with channels innermost.
ReduceParams sum_of(int64_t batches, int64_t steps, int64_t rows, uint32_t broadcast, bool batch_invariant) {
    const bool of_rows = (broadcast & broadcast_channels) == 0, of_time = (broadcast & broadcast_time) == 0;
    return sum_over_axes({batches, 4 * steps * rows, 4 * (of_time ? steps : 1) * (of_rows ? rows : 1)},
                         {steps, 4 * rows, of_time ? 4 * (of_rows ? rows : 1) : 0}, {rows, 4, of_rows ? 4 : 0},
                         broadcast, 4, false, batch_invariant);
}

TEST(GateSums, AreSharedByThreadsWhereThereAreFewOfManyTerms) {
    using Shared = std::tuple<int, int, int>;  // width, neighbours, pack
    const auto shared_by = [](int64_t batches, int64_t steps, int64_t rows, uint32_t broadcast) {
        const ReduceParams r = sum_of(batches, steps, rows, broadcast, false);
        return Shared{r.width, r.neighbours, r.pack};
    };
    EXPECT_EQ(shared_by(8, 4096, 1024, broadcast_batch), Shared(1, 0, 4));
    EXPECT_EQ(shared_by(8, 4096, 1023, broadcast_batch), Shared(1, 0, 4));
    EXPECT_EQ(shared_by(8, 4095, 1023, broadcast_batch), Shared(1, 0, 1));
    EXPECT_EQ(shared_by(64, 512, 256, broadcast_batch), Shared(8, 0, 4));
    EXPECT_EQ(shared_by(64, 256, 256, broadcast_batch), Shared(16, 0, 4));
    EXPECT_EQ(shared_by(8192, 64, 64, broadcast_batch), Shared(128, 0, 4));
    EXPECT_EQ(shared_by(8, 4096, 32, broadcast_batch | broadcast_channels), Shared(32, 1, 1));
    EXPECT_EQ(shared_by(1, 4096, 8192, broadcast_channels), Shared(64, 1, 1));
}

TEST(GateSums, AreAddedInAnOrderThatBatchInvarianceFixes) {
    for (const int64_t channels : {60, 600, 6000})
        for (const uint32_t broadcast : {uint32_t{broadcast_channels}, uint32_t{broadcast_time}}) {
            EXPECT_EQ(sum_of(1, 100, channels, broadcast, true).width,
                      sum_of(10000, 100, channels, broadcast, true).width);
            if (broadcast != broadcast_channels) continue;
            const auto width_of = [&](int64_t steps) {  // time innermost
                return sum_over_axes({1}, {steps, 4, 4}, {channels, 4 * steps}, broadcast, 4, true, true).width;
            };
            EXPECT_EQ(width_of(1), width_of(1000));
        }
}

}  // namespace
}  // namespace flashscan::cuda
