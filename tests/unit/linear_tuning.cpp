// SPDX-License-Identifier: Apache-2.0
// How the CUDA backend cuts linear problems: a pure function of the shape.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/linear/tuning.h"

namespace {

using namespace flashscan::cuda;

constexpr LinearTile tile{1, 32, 8};

LinearShape shape_of(int64_t batches, int64_t rows, int64_t time, bool time_inner) {
    LinearShape shape;
    shape.batches = batches;
    shape.rows = rows;
    shape.time = time;
    shape.time_inner = time_inner;
    return shape;
}

int64_t steps_of_block(const ChunkedTuning& t) {
    return int64_t{32 >> t.log2_lane_rows} * tile.steps * (tile.warps >> t.log2_warp_rows);
}

TEST(LinearTuning, CoversEveryRowAndStep) {
    for (const bool time_inner : {false, true})
        for (const int64_t rows : {1, 2, 31, 33, 1000, 100000})
            for (const int64_t time : {1, 31, 33, 255, 257, 2339, 100000}) {
                const ChunkedTuning t = tune_chunked(shape_of(3, rows, time, time_inner), tile);
                const int64_t group = int64_t{tile.lane_rows} << (t.log2_lane_rows + t.log2_warp_rows);
                EXPECT_GE(t.row_groups * group, rows);
                EXPECT_LT((t.row_groups - 1) * group, rows);
                EXPECT_EQ(t.chunk_steps, steps_of_block(t));
                EXPECT_GE(t.chunks * t.chunk_steps, time);
                EXPECT_LT((t.chunks - 1) * t.chunk_steps, time);
            }
}

TEST(LinearTuning, ShortTimeTakesOneChunk) {
    EXPECT_EQ(tune_chunked(shape_of(8, 1024, 256, false), tile).chunks, 1);
    EXPECT_EQ(tune_chunked(shape_of(1, 12288, 128, true), tile).chunks, 1);
}

TEST(LinearTuning, FewWarpsAreInVain) {
    const ChunkedTuning t = tune_chunked(shape_of(1, 7217, 2339, true), tile);
    EXPECT_LE(7 * (t.chunks * t.chunk_steps - 2339), 2339 + 7 * 1024);
}

TEST(LinearTuning, ManyRowsPassTheCarryOnFewFoldSummaries) {
    EXPECT_EQ(tune_chunked(shape_of(8, 1024, 8192, false), tile).log2_group_chunks, 0);
    EXPECT_EQ(tune_chunked(shape_of(1, 1, 1 << 24, true), tile).log2_group_chunks, 7);
    EXPECT_GT(tune_chunked(shape_of(1, 16, 1 << 20, false), tile).log2_group_chunks, 0);
}

TEST(LinearTuning, BatchInvariantTilesOfOneAndTwoRowsComposeAlike) {
    LinearShape shape = shape_of(1, 66, 1799, false);
    shape.batch_invariant = true;
    const ChunkedTuning one = tune_chunked(shape, {1, 16, 8}), two = tune_chunked(shape, {2, 16, 8});
    const auto fold_rows = [](const ChunkedTuning& t, int lane_rows) {
        return std::max(lane_rows << (t.log2_lane_rows + t.log2_warp_rows), 1 << t.log2_fold_rows);
    };
    EXPECT_EQ(fold_rows(one, 1), fold_rows(two, 2));
    EXPECT_EQ(one.log2_group_chunks, two.log2_group_chunks);
    EXPECT_EQ(one.chunk_steps, two.chunk_steps);
}

TEST(LinearTuning, RowsThatShareSectorsMeetInABlock) {
    LinearShape shape = shape_of(7, 1031, 2339, false);
    EXPECT_EQ(tune_chunked(shape, tile).log2_warp_rows, 0);
    shape.shares_sectors = true;
    EXPECT_EQ(tune_chunked(shape, tile).log2_warp_rows, 1);
    shape.rows = 32;
    EXPECT_EQ(tune_chunked(shape, tile).log2_warp_rows, 0);
}

TEST(LinearTuning, SetsOfRowsCoverEveryRowAndStep) {
    for (const int skew : {0, 3})
        for (const int64_t rows : {1, 100, 1000, 100000})
            for (const int64_t time : {1, 8, 1000, 1023, 5000, 8192, 9217, 100000}) {
                LinearShape shape = shape_of(3, rows, time, true);
                shape.skew = skew;
                const ChainedTuning t = tune_chained_rows(shape, tile);
                EXPECT_GE(t.row_groups << t.log2_warp_rows, 3 * rows);
                EXPECT_LT((t.row_groups - 1) << t.log2_warp_rows, 3 * rows);
                EXPECT_GE(t.chunks * t.chunk_steps, time + skew);
                EXPECT_LT((t.chunks - 1) * t.chunk_steps, time + skew);
                EXPECT_EQ(t.chunk_steps, int64_t{t.warps >> t.log2_warp_rows} * 32 * tile.steps);
                EXPECT_GE(t.warps, 2);
                EXPECT_LE(t.warps, tile.warps);
                EXPECT_EQ(t.blocks % (t.set_groups * t.chunks), 0);
                EXPECT_GE(t.blocks, t.row_groups * t.chunks);
                EXPECT_LT(t.blocks, (t.row_groups + t.set_groups) * t.chunks);
            }
}

TEST(LinearTuning, ChunksOfRowsAreOfEvenLength) {
    EXPECT_EQ(tune_chained_rows(shape_of(1, 1, 8192, true), tile).chunks, 1);
    EXPECT_EQ(tune_chained_rows(shape_of(1, 1, 8193, true), tile).chunks, 2);
    EXPECT_EQ(tune_chained_rows(shape_of(1, 1, 8193, true), tile).warps, 5);
    LinearShape skewed = shape_of(1, 1, 8192, true);
    skewed.skew = 1;
    EXPECT_EQ(tune_chained_rows(skewed, tile).warps, 5);
}

TEST(LinearTuning, ChunksOfFewRowsAreGatheredInGroups) {
    for (const int64_t rows : {1, 100, 255, 256, 1000}) {
        const LinearShape shape = shape_of(1, rows, 1 << 20, true);
        const ChainedTuning t = tune_chained_rows(shape, tile);
        EXPECT_EQ(chained_rows_suit(shape, t), rows >= 256);
        EXPECT_EQ(chained_groups_suit(t), rows < 256);
    }
    EXPECT_FALSE(chained_groups_suit(tune_chained_rows(shape_of(1, 100, 8000, true), tile)));
}

TEST(LinearTuning, TilesOfFewRowsAreBroughtIntoTheCacheAhead) {
    const auto ahead = [](int64_t batches, int64_t rows) {
        const ChainedTuning t = tune_chained_rows(shape_of(batches, rows, 1 << 23, true), tile);
        EXPECT_EQ(steps_ahead(t, 132) % t.chunk_steps, 0);
        return steps_ahead(t, 132) / t.chunk_steps;
    };
    EXPECT_EQ(ahead(1, 1), 132);
    EXPECT_EQ(ahead(1, 8), 16);
    EXPECT_EQ(ahead(4, 3), 11);
    EXPECT_EQ(ahead(1, 31), 4);
    EXPECT_EQ(ahead(1, 32), 0);
    EXPECT_EQ(ahead(4, 8), 0);
    EXPECT_EQ(steps_ahead(tune_chained_rows(shape_of(1, 20, 1 << 20, true), tile), 16), 8192);
    EXPECT_EQ(steps_ahead(tune_chained_rows(shape_of(1, 1, 528 * 8192, true), tile), 132), 0);
    EXPECT_EQ(steps_ahead(tune_chained_rows(shape_of(1, 1, 529 * 8192, true), tile), 132), 132 * 8192);
}

TEST(LinearTuning, SetsOfColumnsCoverEveryRowAndStep) {
    for (const int lane_rows : {1, 2})
        for (const bool shares : {false, true})
            for (const int64_t rows : {1, 33, 64, 65, 1000, 100000})
                for (const int64_t time : {1, 8, 127, 1000, 100000}) {
                    LinearShape shape = shape_of(3, rows, time, false);
                    shape.shares_sectors = shares;
                    const ChainedTuning t = tune_chained_columns(shape, {lane_rows, 16, 8});
                    const int64_t width = int64_t{32} * lane_rows << t.log2_warp_rows;
                    EXPECT_GE(t.row_groups * width, rows);
                    EXPECT_LT((t.row_groups - 1) * width, rows);
                    EXPECT_EQ(t.chunk_steps, int64_t{t.warps >> t.log2_warp_rows} * 16);
                    EXPECT_LE(t.warps, 8);
                    EXPECT_GE(t.chunks * t.chunk_steps, time);
                    EXPECT_LT((t.chunks - 1) * t.chunk_steps, time);
                    EXPECT_EQ(t.blocks % (t.set_groups * t.chunks), 0);
                    EXPECT_GE(t.blocks, 3 * t.row_groups * t.chunks);
                    EXPECT_LT(t.blocks, (3 * t.row_groups + t.set_groups) * t.chunks);
                }
}

TEST(LinearTuning, ColumnsThatShareSectorsStandSideBySide) {
    LinearShape shape = shape_of(8, 1031, 4096, false);
    EXPECT_EQ(tune_chained_columns(shape, {1, 16, 8}).log2_warp_rows, 0);
    shape.shares_sectors = true;
    EXPECT_EQ(tune_chained_columns(shape, {1, 16, 8}).log2_warp_rows, 1);
    shape.rows = 32;
    EXPECT_EQ(tune_chained_columns(shape, {1, 16, 8}).log2_warp_rows, 0);
}

// Shapes are given with the rows or batch entries that fill the last warps up.
TEST(LinearTuning, BlocksWhoseWarpsShareGatesCoverEveryRowAndStep) {
    for (const int log2_sharing : {1, 2, 3})
        for (const int64_t rows : {8, 72, 1024})
            for (const int64_t time : {1, 100, 515, 4096, 70000}) {
                LinearShape shape = shape_of(8, rows, time, true);
                shape.log2_sharing = log2_sharing;
                const ChainedTuning of_rows = tune_chained_rows(shape, {1, 16, 8});
                EXPECT_EQ(of_rows.log2_warp_rows, log2_sharing);
                EXPECT_LE(of_rows.warps, 8);
                EXPECT_EQ(of_rows.row_groups << log2_sharing, 8 * rows);
                EXPECT_EQ(of_rows.chunk_steps, int64_t{512} * (of_rows.warps >> log2_sharing));
                EXPECT_GE(of_rows.chunks * of_rows.chunk_steps, time);
                EXPECT_GE(of_rows.blocks, of_rows.row_groups * of_rows.chunks);
                shape.time_inner = false;
                const ChainedTuning of_entries = tune_chained_columns(shape, {1, 16, 8});
                EXPECT_EQ(of_entries.log2_warp_rows, log2_sharing);
                EXPECT_LE(of_entries.warps, 8);
                EXPECT_GE(of_entries.row_groups * 32, rows);
                EXPECT_EQ(of_entries.chunk_steps, int64_t{16} * (of_entries.warps >> log2_sharing));
                EXPECT_GE(of_entries.chunks * of_entries.chunk_steps, time);
                EXPECT_GE(of_entries.blocks, (8 >> log2_sharing) * of_entries.row_groups * of_entries.chunks);
            }
}

TEST(LinearTuning, WarpsOfColumnsShareGatesWhereBlocksAreManyOrShort) {
    const auto suit = [](int64_t rows, int64_t time, int log2_sharing) {
        LinearShape shape = shape_of(8, rows, time, false);
        shape.log2_sharing = log2_sharing;
        const LinearTile columns{1, 16, 8};
        return sharing_columns_suit(shape, columns, tune_chained_columns(shape, columns));
    };
    EXPECT_TRUE(suit(512, 4096, 2));
    EXPECT_FALSE(suit(512, 4096, 3));
    EXPECT_TRUE(suit(1024, 4096, 3));
    EXPECT_TRUE(suit(64, 16, 3));
    EXPECT_TRUE(suit(1024, 64, 1));
    EXPECT_FALSE(suit(1024, 64, 2));  // which would cut time
    const auto rows_suit = [](int64_t rows) {
        LinearShape shape = shape_of(8, rows, 4096, true);
        shape.log2_sharing = 3;
        return sharing_rows_suit(tune_chained_rows(shape, {1, 16, 8}));
    };
    EXPECT_TRUE(rows_suit(256));
    EXPECT_FALSE(rows_suit(248));
}

TEST(LinearTuning, SkewedColumnsLeaveALaneWithoutRows) {
    for (const int64_t rows : {1, 61, 62, 63, 124, 125, 1031}) {
        LinearShape shape = shape_of(3, rows, 1000, false);
        shape.shares_sectors = true;
        const ChainedTuning t = tune_chained_columns(shape, {2, 16, 8, 31});
        const int64_t width = int64_t{62} << t.log2_warp_rows;
        EXPECT_EQ(t.log2_warp_rows, rows > 62 ? 1 : 0);
        EXPECT_GE(t.row_groups * width, rows);
        EXPECT_LT((t.row_groups - 1) * width, rows);
    }
}

TEST(LinearTuning, ColumnsSuitManyStripsOrManySequences) {
    const auto suits = [](const LinearShape& shape, bool narrowest = false) {
        const LinearTile columns{2, 16, 8};
        return chained_columns_suit(shape, columns, tune_chained_columns(shape, columns), narrowest);
    };
    EXPECT_TRUE(suits(shape_of(8, 1024, 8192, false)));
    EXPECT_FALSE(suits(shape_of(80, 1024, 130, false)));  // steps in vain
    EXPECT_TRUE(suits(shape_of(1, 8, 17, false)));        // one chunk
    EXPECT_FALSE(suits(shape_of(1, 64, 512, false)));
    EXPECT_TRUE(suits(shape_of(1, 64, 512, false), true));
    EXPECT_FALSE(suits(shape_of(1, 64, 1024, false), true));
    const LinearTile skewed{2, 16, 8, 31};
    EXPECT_FALSE(chained_columns_suit(shape_of(1, 9, 17, false), skewed,
                                      tune_chained_columns(shape_of(1, 9, 17, false), skewed), true));
    LinearShape few = shape_of(1, 64, 1 << 18, false);
    EXPECT_FALSE(suits(few));
    few.sequences = 2;
    EXPECT_FALSE(suits(few));
    few.sequences = 2000;
    EXPECT_TRUE(suits(few));
}

TEST(LinearTuning, ChunksOfFewStripsAreGathered) {
    const LinearTile columns{1, 32, 8};
    const auto gathers = [&](const LinearShape& shape, int record_bytes = 16) {
        return chained_column_groups_suit(shape, columns, tune_chained_columns(shape, columns), record_bytes);
    };
    for (const int64_t rows : {100, 224, 225, 1024})
        EXPECT_EQ(gathers(shape_of(1, rows, 1 << 16, false)), rows > 224) << rows;
    EXPECT_TRUE(gathers(shape_of(8, 32, 1 << 14, false)));
    EXPECT_FALSE(gathers(shape_of(1, 512, 8 * 256, false)));  // few chunks
    EXPECT_TRUE(gathers(shape_of(1, 512, 9 * 256, false)));
    EXPECT_FALSE(gathers(shape_of(1, 512, 1 << 16, false), 32));
}

TEST(LinearTuning, ManyRowsAreTakenInSets) {
    const auto suits = [](const LinearShape& shape) {
        return chained_rows_suit(shape, tune_chained_rows(shape, tile));
    };
    EXPECT_TRUE(suits(shape_of(1, 8192, 8192, true)));
    EXPECT_TRUE(suits(shape_of(8, 1024, 1024, true)));
    EXPECT_FALSE(suits(shape_of(8, 1024, 128, true)));
    EXPECT_TRUE(suits(shape_of(8, 1024, 1100, true)));
    EXPECT_FALSE(suits(shape_of(8, 1024, 512, true)));  // half of the lanes in vain
    EXPECT_TRUE(suits(shape_of(1, 64, 100, true)));     // but few rows
    LinearShape skewed = shape_of(8, 1024, 1024, true);
    skewed.skew = 3;
    EXPECT_TRUE(suits(skewed));
    skewed.time = 500;
    EXPECT_FALSE(suits(skewed));
    LinearShape few = shape_of(1, 64, 1 << 18, true);
    EXPECT_FALSE(suits(few));
    few.sequences = 2;
    EXPECT_FALSE(suits(few));
    few.sequences = 1000;
    EXPECT_TRUE(suits(few));
}

constexpr FewLongRowsTile wave_tile{1, 20, 1, 8, 5}, strip_tile{4, 5, 32, 8, 5};

TEST(LinearTuning, WavesCoverEveryStep) {
    for (const int64_t rows : {1, 3, 16, 100, 128})
        for (const int64_t time : {1, 33, 5000, 1 << 24}) {
            const FewLongRowsTuning t = tune_few_long_rows(shape_of(2, rows, time, true), wave_tile, 132);
            EXPECT_GE(t.chunks * t.chunk_steps, time);
            EXPECT_LT((t.chunks - 1) * t.chunk_steps, time);
            EXPECT_EQ(t.blocks % t.teams, 0);
            EXPECT_LE(t.blocks, 132);
        }
}

TEST(LinearTuning, TeamsOfWavesShareStripsEvenlyAndHaveABlockARow) {
    for (const int multiprocessors : {66, 108, 132})
        for (const int64_t batches : {1, 2, 3})
            for (const int64_t rows : {4, 16, 24, 100, 128, 1000})
                for (const int64_t time : {1, 5000, 1 << 18}) {
                    const FewLongRowsTuning t =
                        tune_few_long_rows(shape_of(batches, rows, time, false), strip_tile, multiprocessors);
                    const int64_t width = int64_t{strip_tile.lane_rows} << t.log2_lane_rows;
                    EXPECT_LE(width, strip_tile.rows);
                    EXPECT_GE(t.row_groups * width, rows);
                    EXPECT_GE(t.chunks * t.chunk_steps, time);
                    EXPECT_EQ(batches * t.row_groups % t.teams, 0);
                    EXPECT_EQ(t.blocks % t.teams, 0);
                    EXPECT_GE(t.blocks / t.teams, width);
                    EXPECT_LE(t.blocks, multiprocessors);
                }
}

TEST(LinearTuning, WavesSuitFewLongRows) {
    const auto refusal = [](const LinearShape& shape) {
        return few_long_rows_refusal(shape, tune_few_long_rows(shape, shape.time_inner ? wave_tile : strip_tile, 132));
    };
    EXPECT_EQ(refusal(shape_of(1, 1, 1 << 24, true)), "");
    EXPECT_EQ(refusal(shape_of(1, 1, 100000, true)),
              "time is 100000, which gives 20 blocks 20 chunks; takes 3 or more for each");
    EXPECT_EQ(refusal(shape_of(1, 1, 10000, true)), "time is 10000, cut into 2 chunks; takes 4 or more");
    EXPECT_EQ(refusal(shape_of(1, 16, 1 << 20, false)), "");
    EXPECT_EQ(refusal(shape_of(1, 128, 1 << 18, false)), "");
    EXPECT_EQ(refusal(shape_of(1, 512, 1 << 16, false)),
              "batch * channels is 512; takes up to 128 rows with channels innermost");
}

// More rows, and shorter ones of more than 64, are left to the kernel "rows", which gathers their chunks in groups.
TEST(LinearTuning, WavesTakeUpTo192RowsWithTimeInnermost) {
    for (const int64_t batches : {1, 2})
        for (const int64_t rows : {1, 3, 7, 32, 33, 64, 65, 96, 97, 192, 193}) {
            const LinearShape shape = shape_of(batches, rows, 1 << 22, true);
            EXPECT_EQ(few_long_rows_refusal(shape, tune_few_long_rows(shape, wave_tile, 132)).empty(),
                      batches * rows <= 192);
            EXPECT_EQ(chained_groups_suit(tune_chained_rows(shape, tile)), batches * rows < 256);
        }
    for (const int64_t rows : {32, 64, 65, 128}) {
        const LinearShape shape = shape_of(1, rows, 1 << 15, true);
        const FewLongRowsTuning waves = tune_few_long_rows(shape, wave_tile, 132);
        EXPECT_EQ(few_long_rows_refusal(shape, waves).empty(),
                  rows * waves.chunks >= (rows > 64 ? 16 : 3) * waves.blocks);
    }
}

TEST(LinearTuning, FoldingBlocksHaveAtMostSixtyFourRows) {
    for (const int lane_rows : {1, 2})
        for (const int64_t time : {300, 5000, 70000}) {
            const LinearTile packs{lane_rows, 32, 8};
            const ChunkedTuning t = tune_chunked(shape_of(1, 64, time, false), packs);
            if (t.log2_group_chunks > 0) {
                EXPECT_LE(int64_t{lane_rows} << (t.log2_lane_rows + t.log2_warp_rows), 64);
            }
        }
}

TEST(LinearTuning, BatchInvariantCutsDependOnTimeAlone) {
    for (const bool time_inner : {false, true})
        for (const int64_t time : {1, 100, 257, 5000, 70000}) {
            LinearShape shape = shape_of(1, 1, time, time_inner);
            shape.batch_invariant = true;
            const ChunkedTuning one = tune_chunked(shape, tile);
            for (const int64_t rows : {2, 33, 100000}) {
                shape.rows = rows;
                shape.batches = rows % 7 + 1;
                const ChunkedTuning many = tune_chunked(shape, tile);
                EXPECT_EQ(one.chunk_steps, many.chunk_steps);
                EXPECT_EQ(one.log2_lane_rows, many.log2_lane_rows);
                EXPECT_EQ(one.log2_group_chunks, many.log2_group_chunks);
                EXPECT_EQ(one.log2_link_groups, many.log2_link_groups);
            }
        }
}

}  // namespace
