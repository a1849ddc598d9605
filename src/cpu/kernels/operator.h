// SPDX-License-Identifier: Apache-2.0
// What the host code and the kernels of associative operators share: plain data and function pointers, so that files
// built for different instruction sets have nothing else in common. "Numbers" are numbers of the arithmetic.
#pragma once

#include "cpu/kernels/linear.h"

namespace flashscan::cpu {

// A chunk: the steps [first, first + steps), in the order of computation, of the sequence at times [begin, end) of a
// row. The element at time t (of the first lane) is `base` + t * time_stride.
struct OperatorPiece {
    int64_t base, begin, end;
    int64_t first, steps;
    int64_t lanes;
    bool start;  // nothing comes before the first step, not even STATE_IN
};

// How chains are given to threads. A block is `lanes` chains that lie side by side, of which one thread computes a
// piece; a tile is the part of it that is loaded at once, `steps` steps at the most. With `rows` the steps of a chain
// are adjacent in memory, and otherwise the lanes of a step. With `turned` a tile of rows is transposed.
struct NumbersTiling {
    int64_t lanes, steps;
    bool rows, turned;
};

// A call of an operator on numbers, complex ones where parts is 2. All tensors have the same strides, in elements.
struct NumbersCall {
    const char* x;   // INPUT, or null where it is not needed
    const char* dy;  // GRAD|OUTPUT of a scan, or null
    char* y;         // OUTPUT or GRAD|INPUT, or null
    Number number;
    int32_t parts;
    int64_t time_stride, lane_stride;
    NumbersTiling tiling;
    bool ascending, exclusive;
    bool stream_stores;  // y is written past the caches
};

// The kernels of one operator and type. Carries, totals, gradients and products have `parts` numbers for each lane.
// mark, backward and join_backward are null for integers, which have no gradients, and indices for all but minima and
// maxima.
struct NumbersKernels {
    int64_t vector_bytes;
    int64_t work_bytes;  // of `work`, scratch memory of the calling thread, aligned to 64 bytes, with any contents
    // For chains of about `steps` steps, `channels` of them side by side. The steps of a tile do not depend on `steps`,
    // since where chains are cut follows from them.
    NumbersTiling (*tiling)(int64_t channels, int64_t steps, bool rows);
    // All three replace `carry`, y before the piece, by y after it. fold writes nothing else, scan writes the outputs,
    // and mark writes the carry before each tile to `marks`.
    void (*fold)(const NumbersCall&, const OperatorPiece&, char* carry, char* work);
    void (*scan)(const NumbersCall&, const OperatorPiece&, char* carry, char* work);
    void (*mark)(const NumbersCall&, const OperatorPiece&, char* carry, char* marks, char* work);
    // Replaces `gradient`, that of y after the piece, by that of y before it. Multiplies `product`, unless it is null,
    // by the left slopes of all steps.
    void (*backward)(const NumbersCall&, const OperatorPiece&, const char* marks, char* gradient, char* product,
                     char* work);
    // Writes INDEX of whole sequences to `index`, unless that is null. `state` is y before them, and null where the
    // piece starts with nothing; `last`, unless it is null, receives each lane's index after the last step.
    void (*indices)(const NumbersCall&, const OperatorPiece&, const char* state, int64_t* index, int64_t* last);
    // For each of `numbers` numbers join computes next = carry o total, and join_backward
    // gradient = local + product * gradient.
    void (*join)(int64_t numbers, const char* carry, const char* total, char* next);
    void (*join_backward)(int64_t numbers, const char* product, const char* local, char* gradient);
};

// A block of lanes has at most this many.
inline constexpr int64_t numbers_lanes = 256;

// A call of products of matrices or of affine maps. An element of INPUT is d x d numbers for matrices and d numbers for
// affine maps, complex ones where parts is 2; an element of GATE is d x d numbers. Strides are in elements.
struct MatrixCall {
    const char *x, *w;  // INPUT and GATE
    const char* dy;     // GRAD|OUTPUT of a scan, or null
    char* y;            // OUTPUT of a scan in forward; GRAD|INPUT of affine maps in backward; or null
    char* grad_w;       // GRAD|GATE, or null
    // One element, in the type of the arithmetic, for each of INPUT. Forward writes y[t-1] to it. Backward of matrices
    // writes g[t] to it, and backward of affine maps reads y[t-1] from it. It is null where that is not wanted, or
    // where affine maps find y[t-1] in `output`.
    char* prefix;
    const char* output;       // OUTPUT of a scan, which backward of affine maps reads
    const char* first_state;  // in backward of affine maps: y before the first step of the chain, or null
    Number number;
    int32_t parts;
    int64_t dim;
    int64_t time_stride;
    bool ascending, exclusive;
};

struct MatrixKernels {
    int64_t vector_bytes;
    // Returns how many numbers a `buffer` for calls on `rows` rows has. Buffers are aligned to 64 bytes.
    int64_t (*buffer_numbers)(int64_t dim, int32_t parts, int64_t rows);
    // Compute rows [row, row + rows) of y, or in backward of g. They replace the same rows of `carry`, a matrix in the
    // type of the arithmetic, by those after the piece, in the order of the pass.
    void (*forward)(const MatrixCall&, const OperatorPiece&, int64_t row, int64_t rows, char* carry, char* buffer);
    void (*backward)(const MatrixCall&, const OperatorPiece&, int64_t row, int64_t rows, char* carry, char* buffer);
    // Computes out = l r, matrices in the type of the arithmetic.
    void (*join)(int64_t dim, int32_t parts, const char* l, const char* r, char* out, char* buffer);
    // Computes GRAD|INPUT = before^H g, where `before` has the type `number` and g that of the arithmetic.
    void (*gradient)(const MatrixCall&, Number number, const char* before, const char* g, char* to, char* buffer);
    // Compute the whole piece of one chain of affine maps. `carry` is y, or in backward the gradient of y.
    void (*affine_forward)(const MatrixCall&, const OperatorPiece&, char* carry, char* buffer);
    void (*affine_backward)(const MatrixCall&, const OperatorPiece&, char* carry, char* buffer);
};

// `kind` is a number of math/operator_table.h, and `number` the type of the arithmetic. The pointers are null where
// there is no kernel for them.
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
