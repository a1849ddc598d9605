// SPDX-License-Identifier: Apache-2.0
#include "reference/values.h"

#include <cstring>
#include <type_traits>

#include "core/error.h"
#include "math/number.h"
#include "math/operators.h"

namespace flashscan::reference {

Wide load(const void* data, Dtype dtype, int64_t index) {
    switch (dtype) {
    case Dtype::f32: return static_cast<const float*>(data)[index];
    case Dtype::bf16: return to_float(static_cast<const Bf16*>(data)[index]);
    case Dtype::f16: return to_float(static_cast<const F16*>(data)[index]);
    case Dtype::f64: return static_cast<const double*>(data)[index];
    case Dtype::c64: return static_cast<const std::complex<float>*>(data)[index];
    case Dtype::c128: return static_cast<const std::complex<double>*>(data)[index];
    default: fail(Code::internal_error, "no value of dtype {}", name_of(dtype));
    }
}

void store(void* data, Dtype dtype, int64_t index, Wide value) {
    const auto real = static_cast<float>(value.real());
    switch (dtype) {
    case Dtype::f32: static_cast<float*>(data)[index] = real; return;
    case Dtype::bf16: static_cast<Bf16*>(data)[index] = to_bf16(real); return;
    case Dtype::f16: static_cast<F16*>(data)[index] = to_f16(real); return;
    case Dtype::f64: static_cast<double*>(data)[index] = value.real(); return;
    case Dtype::c64: static_cast<std::complex<float>*>(data)[index] = std::complex<float>(value); return;
    case Dtype::c128: static_cast<std::complex<double>*>(data)[index] = value; return;
    default: fail(Code::internal_error, "no value of dtype {}", name_of(dtype));
    }
}

void convert(void* data, Dtype dtype, int64_t index, const void* from, Dtype from_dtype, int64_t from_index) {
    if (dtype != from_dtype) return store(data, dtype, index, load(from, from_dtype, from_index));
    const auto size = static_cast<size_t>(size_of(dtype));
    std::memcpy(static_cast<char*>(data) + index * size_of(dtype),
                static_cast<const char*>(from) + from_index * size_of(dtype), size);
}

void store_identity(void* data, Dtype dtype, int64_t index, OperatorKind kind) {
    const bool found = with_exact_number(dtype, [&](auto number) {
        using T = decltype(number);
        return combine::with_operator<T>(static_cast<int>(kind), [&](auto op) {
            const T identity = combine::Identity<decltype(op), T>::get();
            if constexpr (std::is_integral_v<T>)
                static_cast<T*>(data)[index] = identity;
            else if constexpr (std::is_floating_point_v<T>)
                store(data, dtype, index, identity);
            else
                store(data, dtype, index, {identity.re, identity.im});
        });
    });
    if (!found) fail(Code::internal_error, "no identity of operator {} on {}", row_of(kind).word, name_of(dtype));
}

int64_t load_offset(const void* data, Dtype dtype, int64_t index) {
    return dtype == Dtype::i32 ? static_cast<const int32_t*>(data)[index] : static_cast<const int64_t*>(data)[index];
}

Sequence sequence_of(const Sequences& p, const void* seq_offsets, int64_t row) {
    if (!p.packed()) return {row, 0, p.time, row};
    return {0, load_offset(seq_offsets, p.offsets_dtype, row), load_offset(seq_offsets, p.offsets_dtype, row + 1), row};
}

std::vector<Sequence> sequences_of(const Sequences& p, const void* seq_offsets) {
    std::vector<Sequence> list;
    for (int64_t row = 0; row < p.state_rows(); ++row) list.push_back(sequence_of(p, seq_offsets, row));
    return list;
}

}  // namespace flashscan::reference
