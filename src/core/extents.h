// SPDX-License-Identifier: Apache-2.0
// Checks that problems of all families share: sizes that fit, strides that nest, values that are accepted.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>

#include "core/error.h"
#include "core/extent.h"
#include "core/types.h"

namespace flashscan {

// The strides of a tensor, in elements. They are 0 along a broadcast axis and along axes of extent 1.
struct Strides {
    int64_t batch = 0, time = 0, channels = 0;
    friend bool operator==(const Strides&, const Strides&) = default;
};

// Returns whether no two elements of a tensor with these extents and strides share memory. The test is that strides
// nest: each must step over everything that the smaller strides cover.
bool strides_nest(const int64_t* extents, const int64_t* strides, int axes);

// Throws Error unless `value` is one of `accepted`.
void check_dtype(Dtype value, std::initializer_list<Dtype> accepted, const char* field);

void check_extent(int64_t value, int64_t least, const char* field);
// Returns at least 1, so that an extent of 0 does not hide that the product of the others does not fit.
inline Extent nonzero(Extent extent) { return max(extent, 1); }

// Checks the dtype of the weights or gates beside `dtype`; 0 becomes `dtype`, and `wide` is accepted too.
void check_second_dtype(Dtype& second, Dtype dtype, Dtype wide, const char* field);

}  // namespace flashscan
