// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/tile/view.h"

#include <gtest/gtest.h>

#include "cuda/device/tile/sequences.h"

namespace flashscan::cuda {
namespace {

TEST(View, ThatIsTurnedRoundBeginsWithItsLastStep) {
    char memory[40];
    View view;
    view.time = 8;
    view.point(memory, 5);
    EXPECT_EQ(view.data, memory);
    view.time = -8;
    view.point(memory, 5);
    EXPECT_EQ(view.data, memory + 32);
    EXPECT_EQ(view.data + 4 * view.time, memory);
}

TEST(View, OfNoTensorIsNull) {
    View view;
    view.time = -8;
    view.point(nullptr, 5);
    EXPECT_EQ(view.data, nullptr);
}

TEST(SequenceOffsets, OfAMirroredWalkCountFromTheLastStep) {
    SequenceOffsets offsets;
    offsets.time = 5;
    EXPECT_EQ(offsets.in_memory(1), 1);
    offsets.mirrored = 1;
    EXPECT_EQ(offsets.in_memory(0), 4);
    EXPECT_EQ(offsets.in_memory(4), 0);
    EXPECT_EQ(offsets.in_memory(1, 3), 1);
    EXPECT_EQ(offsets.in_memory(0, 2), 3);
}

}  // namespace
}  // namespace flashscan::cuda
