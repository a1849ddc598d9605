// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace bench {
namespace {

double to_double(const std::byte* data, int32_t dtype, size_t index) {
    const auto read = [&]<typename T>(T) {
        T value;
        std::memcpy(&value, data + index * sizeof(T), sizeof(T));
        return value;
    };
    switch (dtype) {
    case FLASHSCAN_DTYPE_BF16: return from_bf16(read(uint16_t{}));
    case FLASHSCAN_DTYPE_F16: return from_f16(read(uint16_t{}));
    case FLASHSCAN_DTYPE_F32:
    case FLASHSCAN_DTYPE_C64: return static_cast<double>(read(float{}));
    case FLASHSCAN_DTYPE_I32: return static_cast<double>(read(int32_t{}));
    case FLASHSCAN_DTYPE_I64: return static_cast<double>(read(int64_t{}));
    case FLASHSCAN_DTYPE_U8: return static_cast<double>(read(uint8_t{}));
    default: return read(double{});
    }
}

}  // namespace

Picks::Picks(int64_t extent, int64_t wanted) : count(std::clamp<int64_t>(wanted, 1, extent)) {
    step = count > 1 ? (extent - 1) / (count - 1) : 1;
    first = extent - 1 - (count - 1) * step;
}

std::vector<double> widen(const std::vector<std::byte>& data, int32_t dtype) {
    const auto components = static_cast<size_t>(is_complex(dtype) ? 2 : 1);
    std::vector<double> wide(data.size() / static_cast<size_t>(size_of(dtype)) * components);
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = to_double(data.data(), dtype, i);
    return wide;
}

std::vector<std::byte> integers_of(const std::vector<double>& values, int32_t dtype) {
    std::vector<std::byte> data(values.size() * static_cast<size_t>(size_of(dtype)));
    for (size_t i = 0; i < values.size(); ++i) store_integer(data.data(), dtype, static_cast<int64_t>(i), values[i]);
    return data;
}

double relative_error(const std::vector<double>& got, const std::vector<double>& expected) {
    double difference = 0, scale = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        // The identities of min and max are infinite.
        if (std::isinf(got[i]) && got[i] == expected[i]) continue;
        if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
        difference = std::max(difference, std::abs(got[i] - expected[i]));
        scale = std::max(scale, std::abs(expected[i]));
    }
    return scale > 0 ? difference / scale : difference;
}

void Verdict::add(double new_error, double new_bound) {
    passed = (passed || !any) && new_error <= new_bound;
    if (!any || new_error / new_bound > error / bound) {
        error = new_error;
        bound = new_bound;
    }
    any = true;
}

Verdict check_outputs(Machine& machine, const Problem& problem, const Tensors& tensors) {
    if (problem.rnn() != nullptr) return check_rnn_outputs(machine, problem, tensors);
    if (problem.op() != nullptr) return check_operator_outputs(machine, problem, tensors);
    return check_scan_outputs(machine, problem, tensors);
}

}  // namespace bench
