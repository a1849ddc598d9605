// SPDX-License-Identifier: Apache-2.0
// Checks that problems of all families share: sizes that fit, strides that nest, values that are accepted.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>

#include "core/error.h"
#include "core/types.h"

namespace flashscan {

// In elements; 0 along a broadcast axis and along axes of extent 1.
struct Strides {
    int64_t batch = 0, time = 0, channels = 0;
    friend bool operator==(const Strides&, const Strides&) = default;
};

// Throw Error{size_overflow} naming `what` unless the result fits.
int64_t multiply(int64_t a, int64_t b, const char* what);
int64_t add(int64_t a, int64_t b, const char* what);

// Whether no two elements of a tensor with these extents and strides share memory. Judged by nesting: each stride must
// step over everything that the smaller strides cover.
bool strides_nest(const int64_t* extents, const int64_t* strides, int axes);

template <typename Enum>
void check_enum(Enum value, std::initializer_list<Enum> accepted, const char* field, const char* names) {
    if (std::find(accepted.begin(), accepted.end(), value) == accepted.end())
        fail(Code::invalid_argument, "{} is {}; accepted are {}", field, static_cast<int32_t>(value), names);
}

void check_extent(int64_t value, int64_t least, const char* field);

// Checks the dtype of the weights or gates beside `dtype`; 0 becomes `dtype`, and `wide` is accepted too.
void check_second_dtype(Dtype& second, Dtype dtype, Dtype wide, const char* field);

}  // namespace flashscan
