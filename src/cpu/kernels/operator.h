// SPDX-License-Identifier: Apache-2.0
// What the host code and the kernels of associative operators share: plain data and function pointers, so that files
// built for different instruction sets have nothing else in common. "Numbers" are numbers of the arithmetic.
#pragma once

#include "cpu/kernels/linear.h"

namespace flashscan::cpu {

// Steps [first, first + steps), in the order of computation, of the sequence at times [begin, end) of a row. Element
// `base` + t * time_stride is the one at time t (of the first lane).
struct OperatorPiece {
    int64_t base, begin, end;
    int64_t first, steps;
    int64_t lanes;
    bool start;  // the first step has nothing before it: no STATE_IN
};

// Operators on numbers, as complex ones if parts is 2. Tensors lie alike; strides in elements.
struct NumbersCall {
    const char* x;   // INPUT; null: not needed
    const char* dy;  // GRAD|OUTPUT of a scan, or null
    char* y;         // OUTPUT or GRAD|INPUT, or null
    Number number;
    int32_t parts;
    int64_t time_stride, lane_stride;
    bool ascending, exclusive;
};

// Carries, totals, gradients and products are `parts` numbers a lane. Tiles are what is loaded at once. Integers have no
// pointers of backward: mark, backward and join_backward.
struct NumbersKernels {
    int64_t vector_bytes;
    int64_t work_bytes;  // of `work`, memory of the worker aligned to 64 bytes with nothing in it
    int64_t (*tile_steps)(int64_t lanes, int32_t parts);
    // carry: y before the piece -> after it. fold writes nothing else, mark stores the carry before each tile.
    void (*fold)(const NumbersCall&, const OperatorPiece&, char* carry, char* work);
    void (*scan)(const NumbersCall&, const OperatorPiece&, char* carry, char* work);
    void (*mark)(const NumbersCall&, const OperatorPiece&, char* carry, char* marks, char* work);
    // gradient: of y after the piece -> before it. `product`, unless null, is multiplied by the left slopes.
    void (*backward)(const NumbersCall&, const OperatorPiece&, const char* marks, char* gradient, char* product,
                     char* work);
    // next = carry o total, and gradient = local + product * gradient, of `numbers` numbers.
    void (*join)(int64_t numbers, const char* carry, const char* total, char* next);
    void (*join_backward)(int64_t numbers, const char* product, const char* local, char* gradient);
};

// Most lanes of a block.
inline constexpr int64_t numbers_lanes = 256;

// Matrices and affine maps. An element is d x d or d numbers, as complex ones if parts is 2; GATE's are d x d. Strides
// in elements.
struct MatrixCall {
    const char *x, *w;  // INPUT and GATE
    const char* dy;     // GRAD|OUTPUT of a scan, or null
    char* y;            // OUTPUT of a scan forward; of affine maps GRAD|INPUT backward; or null
    char* grad_w;       // GRAD|GATE, or null
    // An element of numbers for each of INPUT: forward takes y[t-1], backward of matrices g[t], of affine maps it holds
    // y[t-1]. Null: not wanted, or y[t-1] of affine maps is in `output`.
    char* prefix;
    const char* output;       // OUTPUT of a scan, read
    const char* first_state;  // y[-1] of the chain in backward of affine maps, numbers, or null
    Number number;
    int32_t parts;
    int64_t dim;
    int64_t time_stride;
    bool ascending, exclusive;
};

struct MatrixKernels {
    int64_t vector_bytes;
    // Numbers of a buffer, aligned to 64 bytes, for calls on `rows` rows.
    int64_t (*buffer_numbers)(int64_t dim, int32_t parts, int64_t rows);
    // Rows [row, row + rows) of y, or backward of g; the same rows of carry, a matrix of numbers, before the piece ->
    // after it, in the order of the pass.
    void (*forward)(const MatrixCall&, const OperatorPiece&, int64_t row, int64_t rows, char* carry, char* buffer);
    void (*backward)(const MatrixCall&, const OperatorPiece&, int64_t row, int64_t rows, char* carry, char* buffer);
    // Rows of out = l r, matrices of numbers.
    void (*join)(int64_t dim, int32_t parts, const char* l, const char* r, char* out, char* buffer);
    // GRAD|INPUT = before^H g, `before` of `number`, g of numbers.
    void (*gradient)(const MatrixCall&, Number number, const char* before, const char* g, char* to, char* buffer);
    // The whole piece of one chain of affine maps; carry is y, or backward the gradient of it.
    void (*affine_forward)(const MatrixCall&, const OperatorPiece&, char* carry, char* buffer);
    void (*affine_backward)(const MatrixCall&, const OperatorPiece&, char* carry, char* buffer);
};

// `kind` is the number of math/operator_table.h, `number` that of the arithmetic; null pointers where no kernel is for them.
namespace baseline {
NumbersKernels numbers_kernels(int32_t kind, Number number, bool complex);
MatrixKernels matrix_kernels(bool wide);
}  // namespace baseline
namespace avx2 {
NumbersKernels numbers_kernels(int32_t kind, Number number, bool complex);
MatrixKernels matrix_kernels(bool wide);
}  // namespace avx2
namespace avx512 {
NumbersKernels numbers_kernels(int32_t kind, Number number, bool complex);
MatrixKernels matrix_kernels(bool wide);
}  // namespace avx512

}  // namespace flashscan::cpu
