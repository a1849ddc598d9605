// SPDX-License-Identifier: Apache-2.0
// The types that the whole core uses. capi converts the numbers of the C header to these enumerations; ids of arguments
// are those of the header.
#pragma once

#include <cstddef>
#include <cstdint>

#include "math/cell_table.h"
#include "math/operator_table.h"

namespace flashscan {

enum class Dtype : int32_t {
    f32 = 1,
    bf16 = 2,
    f16 = 3,
    f64 = 4,
    c64 = 5,
    c128 = 6,
    i32 = 7,
    i64 = 8,
    u8 = 9
};
enum class Layout : int32_t {
    btc = 0,
    bct = 1
};
enum class RnnLayout : int32_t {
    btghd = 0,
    tbghd = 1
};
#define FLASHSCAN_ROW(name, CONSTANT, number, ...) name = number,
enum class OperatorKind : int32_t {
    FLASHSCAN_NUMBER_OPERATORS(FLASHSCAN_ROW) FLASHSCAN_OTHER_OPERATORS(FLASHSCAN_ROW)
};
#undef FLASHSCAN_ROW
enum class OperatorMode : int32_t {
    inclusive = 0,
    exclusive = 1,
    reduction = 2
};
enum class GateForm : int32_t {
    value = 0,
    log = 1,
    logit = 2
};
enum class Direction : int32_t {
    forward = 0,
    reverse = 1
};
enum class Pass : int32_t {
    forward = 0,
    backward = 1
};
enum class BackendId : int32_t {
    cpu = 0,
    cuda = 1
};

enum class ArgId : int32_t {
    input = 2001,
    gate,
    output,
    state_in,
    state_out,
    reset,
    seq_offsets,
    weight,
    bias,
    scratch,
    reserve,
    state_indices,
    input_gate,
    output_gate,
    second_gate,
    param,
    delta,
    a,
    b,
    c,
    d,
    index,
    iterations,
    residual,
};

inline constexpr int32_t first_arg_id = static_cast<int32_t>(ArgId::input);
inline constexpr int32_t grad_bit = 1 << 30;

enum GateBroadcast : uint32_t {
    broadcast_batch = 1,
    broadcast_time = 2,
    broadcast_channels = 4
};

constexpr int64_t size_of(Dtype dtype) {
    switch (dtype) {
    case Dtype::u8: return 1;
    case Dtype::bf16:
    case Dtype::f16: return 2;
    case Dtype::f32:
    case Dtype::i32: return 4;
    case Dtype::f64:
    case Dtype::c64:
    case Dtype::i64: return 8;
    case Dtype::c128: return 16;
    }
    return 0;
}

// The alignment a pointer to the dtype needs: that of its real component for complex numbers.
constexpr int64_t alignment_of(Dtype dtype) {
    return dtype == Dtype::c64 ? 4 : dtype == Dtype::c128 ? 8 : size_of(dtype);
}

constexpr bool is_complex(Dtype dtype) { return dtype == Dtype::c64 || dtype == Dtype::c128; }

constexpr bool is_integer(Dtype dtype) { return dtype == Dtype::i32 || dtype == Dtype::i64 || dtype == Dtype::u8; }
constexpr NumberKind kind_of(Dtype dtype) {
    return is_integer(dtype) ? integer_number : is_complex(dtype) ? complex_number : real_number;
}

constexpr const OperatorRow& row_of(OperatorKind kind) {
    const OperatorRow* row = operator_rows;
    while (row->number != static_cast<int>(kind)) ++row;
    return *row;
}

// The dtype of states and of all arithmetic on data of `dtype`.
constexpr Dtype state_dtype(Dtype dtype) { return dtype == Dtype::bf16 || dtype == Dtype::f16 ? Dtype::f32 : dtype; }

constexpr const char* name_of(Dtype dtype) {
    switch (dtype) {
    case Dtype::f32: return "f32";
    case Dtype::bf16: return "bf16";
    case Dtype::f16: return "f16";
    case Dtype::f64: return "f64";
    case Dtype::c64: return "c64";
    case Dtype::c128: return "c128";
    case Dtype::i32: return "i32";
    case Dtype::i64: return "i64";
    case Dtype::u8: return "u8";
    }
    return "?";
}

}  // namespace flashscan
