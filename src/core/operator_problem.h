// SPDX-License-Identifier: Apache-2.0
// What a plan for an associative operator computes, checked and with every default filled in.
#pragma once

#include <string>

#include "core/sequences.h"

namespace flashscan {

enum class CodeKind : int32_t {
    none = 0,
    cuda_source = 1,
    lto_ir = 2
};

// A caller's operator on elements of any bytes. It may be given as host functions, as batched callbacks and as device
// code; what was not given is null or empty.
struct CustomOperator {
    Extent element_bytes;
    void* state = nullptr;  // is passed to the host functions and callbacks
    void (*host)(void* state, const void* lhs, const void* rhs, void* out) = nullptr;
    void (*host_adjoint)(void* state, const void* lhs, const void* rhs, const void* grad_out, void* grad_lhs,
                         void* grad_rhs) = nullptr;
    int32_t (*batched)(void* state, const void* lhs, int64_t lhs_stride, const void* rhs, int64_t rhs_stride, void* out,
                       int64_t out_stride, int64_t count, void* stream) = nullptr;
    int32_t (*batched_adjoint)(void* state, const void* lhs, const void* rhs, const void* grad_out, void* grad_lhs,
                               void* grad_rhs, int64_t count, void* stream) = nullptr;
    CodeKind code_kind{};
    std::string code, name, adjoint_name;
    std::string device_state;  // bytes; the device code gets a copy of them as its state
};

struct OperatorProblem : Sequences {
    Dtype dtype{};
    OperatorKind kind{};
    Layout layout{};
    OperatorMode mode{};
    bool allow_tf32 = false;
    Extent channels;
    Extent array_channels;  // of INPUT, GATE and OUTPUT, where these are more than the problem's own; else 0
    Extent dim;
    bool has_custom = false;
    CustomOperator custom;

    bool is_custom() const { return kind == OperatorKind::custom; }
    bool is_affine() const { return kind == OperatorKind::affine; }
    bool is_matmul() const { return kind == OperatorKind::matmul; }
    bool on_numbers() const { return row_of(kind).on_numbers; }
    // Returns whether derivatives depend on the operands.
    bool has_slopes() const { return row_of(kind).has_slopes; }
    // Returns whether forward has INDEX: which step the extremum comes from.
    bool has_index() const { return row_of(kind).has_index; }
    bool is_reduction() const { return mode == OperatorMode::reduction; }
    bool differentiable() const;
    // Return how many numbers an element of INPUT, OUTPUT and the states has, and an element of GATE. For a custom
    // operator they are bytes.
    Extent element() const;
    Extent gate_element() const { return is_affine() ? dim * dim : Extent(); }
    // Return how many bytes a number of INPUT has, and a number of a state.
    int64_t number_bytes() const { return is_custom() ? 1 : size_of(dtype); }
    int64_t state_number_bytes() const { return is_custom() ? 1 : size_of(state_dtype(dtype)); }
    Extent chains() const { return state_rows() * channels; }
    // The counts are in elements.
    bool empty() const { return batch == 0 || time == 0 || channels == 0; }
    Extent input_count() const { return batch * time * channels; }
    Extent output_count() const { return is_reduction() ? chains() : input_count(); }
    // Elements from the first one of INPUT to the end of the array.
    Extent array_count() const { return batch * time * max(channels, array_channels); }
    // Strides: element (b, t, c) is at b * batch + t * time + c * channels.
    struct Steps {
        int64_t batch, time, channels;
    };
    Steps steps() const;

    std::string describe() const;
    // The text that has to be the same on all ranks that hold one sequence: all of the problem but the time.
    std::string describe_ranks() const;

  private:
    std::string describe(const std::string& extents) const;
};

const char* name_of(OperatorKind kind);

// Return what a rank computes of its steps for the others: their reduction, and of affine maps the product of their
// matrices, the last one on the left, from GATE as INPUT.
OperatorProblem total_of(OperatorProblem problem);
OperatorProblem matrices_of(OperatorProblem problem);

// Checks `problem` field by field and fills in defaults. Throws Error naming the field, its value and what is accepted.
void validate(OperatorProblem& problem);

}  // namespace flashscan
