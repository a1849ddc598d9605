// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch/by_dtype.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace flashscan::cuda {
namespace {

TEST(ByDtype, ReturnsWhatStandsBesideTheDtype) {
    static const std::pair<Dtype, int> rows[] = {{Dtype::f32, 1}, {Dtype::bf16, 2}};
    EXPECT_EQ(&of_dtype(Dtype::f32, rows), &rows[0].second);
    EXPECT_EQ(&of_dtype(Dtype::bf16, rows), &rows[1].second);
}

TEST(ByDtype, RefusesWhatNothingIsCompiledFor) {
    try {
        of_dtype<int>(Dtype::f64, {{Dtype::f32, 1}});
        FAIL() << "f64 has an entry";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::internal_error);
        EXPECT_STREQ(e.what(), "no CUDA kernels of this kind for f64");
    }
}

}  // namespace
}  // namespace flashscan::cuda
