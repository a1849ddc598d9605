// SPDX-License-Identifier: Apache-2.0
#include "core/extents.h"

#include <utility>
#include <vector>

namespace flashscan {

int64_t multiply(int64_t a, int64_t b, const char* what) {
    int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product))
        fail(Code::size_overflow, "{}: {} * {} does not fit; at most 2^63 - 1 bytes are accepted", what, a, b);
    return product;
}

int64_t add(int64_t a, int64_t b, const char* what) {
    int64_t sum = 0;
    if (__builtin_add_overflow(a, b, &sum))
        fail(Code::size_overflow, "{}: {} + {} does not fit; at most 2^63 - 1 bytes are accepted", what, a, b);
    return sum;
}

bool strides_nest(const int64_t* extents, const int64_t* strides, int axes) {
    std::vector<std::pair<int64_t, int64_t>> order;
    for (int i = 0; i < axes; ++i)
        if (extents[i] > 1) order.emplace_back(strides[i], extents[i]);
    std::sort(order.begin(), order.end());
    int64_t covered = 1;
    for (const auto& [stride, extent] : order) {
        if (stride < covered) return false;
        covered += (extent - 1) * stride;
    }
    return true;
}

void check_extent(int64_t value, int64_t least, const char* field) {
    if (value < least) fail(Code::invalid_argument, "{} is {}; accepted are extents >= {}", field, value, least);
}

void check_second_dtype(Dtype& second, Dtype dtype, Dtype wide, const char* field) {
    if (second == Dtype{}) second = dtype;
    if (second == dtype || second == wide) return;
    fail(Code::invalid_argument, "{} is {} with dtype {}; accepted are 0, {}{}", field, static_cast<int32_t>(second),
         name_of(dtype), name_of(dtype), wide == dtype ? "" : fmt::format(" and {}", name_of(wide)));
}

}  // namespace flashscan
