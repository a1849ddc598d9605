// SPDX-License-Identifier: Apache-2.0
// The checks of extents.h, and the Error for a size that does not fit.
#include "core/extents.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace flashscan {

Extent Extent::overflow(Extent a, char op, Extent b) {
    const char* what = name(a, b);
    fail(Code::size_overflow, "{}: {} {} {} does not fit; at most 2^63 - 1 bytes are accepted",
         what != nullptr ? what : "sizes that follow from the extents", a.value_, op, b.value_);
}

bool strides_nest(const int64_t* extents, const int64_t* strides, int axes) {
    std::vector<std::pair<int64_t, int64_t>> order;
    for (int i = 0; i < axes; ++i)
        if (extents[i] > 1) order.emplace_back(strides[i], extents[i]);
    std::sort(order.begin(), order.end());
    uint64_t covered = 1;
    for (const auto& [stride, extent] : order) {
        const auto step = static_cast<uint64_t>(stride);
        if (step < covered) return false;
        uint64_t more = 0;
        // What does not fit is more than any stride steps over.
        if (__builtin_mul_overflow(static_cast<uint64_t>(extent - 1), step, &more) ||
            __builtin_add_overflow(covered, more, &covered))
            covered = std::numeric_limits<uint64_t>::max();
    }
    return true;
}

void check_dtype(Dtype value, std::initializer_list<Dtype> accepted, const char* field) {
    if (std::find(accepted.begin(), accepted.end(), value) != accepted.end()) return;
    std::string names;
    for (const Dtype dtype : accepted) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(dtype));
    fail(Code::invalid_argument, "{} is {}; accepted are {}", field, name_of(value), names);
}

void check_extent(int64_t value, int64_t least, const char* field) {
    if (value < least) fail(Code::invalid_argument, "{} is {}; accepted are extents >= {}", field, value, least);
}

void check_second_dtype(Dtype& second, Dtype dtype, Dtype wide, const char* field) {
    if (second == Dtype{}) second = dtype;
    if (second == dtype || second == wide) return;
    fail(Code::invalid_argument, "{} is {} with dtype {}; accepted are {}{}", field, name_of(second), name_of(dtype),
         name_of(dtype), wide == dtype ? "" : fmt::format(" and {}", name_of(wide)));
}

}  // namespace flashscan
