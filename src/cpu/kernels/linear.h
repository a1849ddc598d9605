// SPDX-License-Identifier: Apache-2.0
// What the host code and the kernels of the linear recurrence share: plain data and function pointers, so that files
// built for different instruction sets have nothing else in common.
//
// Walking order is the order in which a pass computes: time ascending or descending as direction and pass say. A step
// i is counted in walking order from the start of its row. A row is one sequence; a lane is one channel of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flashscan::cpu {

enum class Number : int32_t {
    f32,
    bf16,
    f16,
    f64,
    i32,
    i64,
    u8
};

// A tensor in memory. Strides are in numbers: an element is `parts` adjacent numbers, two for complex data.
struct Tensor {
    char* data;
    Number number;
    int32_t parts;
    int64_t batch, time, channels;
};

struct LinearCall {
    // x and y: INPUT and OUTPUT forward, GRAD|OUTPUT and GRAD|INPUT backward. previous: OUTPUT of a backward call that
    // wants GRAD|GATE. `data` is null for what was not given.
    Tensor x, y, gate, previous, grad_gate;
    // States are dense and hold numbers of the arithmetic. `first_state` is STATE_IN of a backward call.
    const char *start, *first_state;
    char* end;
    const uint8_t* reset;
    const void* offsets;
    bool wide_offsets;
    bool backward, ascending;
    bool stream_stores;
    int32_t form;  // FLASHSCAN_GATE_*
    bool sum_batch, sum_time, sum_channels;
    int64_t rows, time, channels;
    int64_t chunk;  // steps, 0: a row is one chunk
    char* carries;  // [rows][channels] numbers of the arithmetic, for sums over batch
};

// Channels [c0, c1) of rows [row0, row1). `sums` is null or where sums of the gate gradient go instead of into
// grad_gate: doubles in the shape of grad_gate, dense, starting with all of its elements.
struct LinearBlock {
    int64_t row0, row1, c0, c1;
    double* sums;
};

// Steps [i0, i0 + steps) and channels [c0, c1) of one row.
struct LinearChunk {
    int64_t row, i0, steps, c0, c1;
};

// What a chunk does to the carry c: c' = product * c + local, the product as in kernels/linear_product.h. These, like
// carries, are one number of the arithmetic for each lane of the chunk.
struct LinearSummary {
    void *product, *power, *local;
};

// `work` is memory of the worker, aligned to 64 bytes, with nothing in it.
struct LinearKernels {
    int64_t work_bytes;
    // Whole rows, one chunk after the other.
    void (*rows)(const LinearCall&, const LinearBlock&, void* work);
    // True where a chunk resets: then c' is local alone.
    bool (*summarise)(const LinearCall&, const LinearChunk&, const LinearSummary&, void* work);
    // c' from a summary; true where it is finite in all lanes.
    bool (*join)(const LinearCall&, const LinearChunk&, bool reset, const LinearSummary&, const void* carry,
                 void* next);
    // c' step by step where `next`, from a summary, is not finite: a sum of a part of the steps may overflow where the sum
    // of all does not.
    void (*walk)(const LinearCall&, const LinearChunk&, const void* carry, void* next, void* work);
    // The outputs of a chunk, and the carry after it. Sums of the gate gradient over time go to `sums`: one double for
    // each number of a step of GATE.
    void (*apply)(const LinearCall&, const LinearChunk&, void* carry, double* sums, void* work);
    // After a thread's last chunk: others may read what it wrote.
    void (*finish)();
};

// Which of a table's kernels a problem needs.
struct LinearVariant {
    bool wide;  // arithmetic in f64
    bool complex_data;
    bool complex_gate;  // numbers pair up in the recurrence itself
    bool along_time;    // time is innermost: vectors hold consecutive steps of one lane
};

namespace baseline {
LinearKernels linear_kernels(const LinearVariant& variant);
}
namespace avx2 {
LinearKernels linear_kernels(const LinearVariant& variant);
}
namespace avx512 {
LinearKernels linear_kernels(const LinearVariant& variant);
}

}  // namespace flashscan::cpu
