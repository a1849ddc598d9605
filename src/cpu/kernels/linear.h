// SPDX-License-Identifier: Apache-2.0
// What the host code and the kernels of the linear recurrence share: plain data and function pointers, so that files
// built for different instruction sets have nothing else in common.
//
// Walking order is the order in which a pass computes: time ascending or descending, as direction and pass say. A step
// i is counted in walking order from the start of its row. A row is one sequence. A lane is one number of a step: a
// channel, or the real or the imaginary part of one.
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
    // x and y are INPUT and OUTPUT in forward, and GRAD|OUTPUT and GRAD|INPUT in backward. `previous` is OUTPUT in a
    // backward call that wants GRAD|GATE. `data` is null where a tensor was not given.
    Tensor x, y, gate, previous, grad_gate;
    // States are dense and hold numbers of the arithmetic. `start` is the state or gradient that the walk begins with,
    // and `end` receives the one that it ends with. `first_state` is STATE_IN in a backward call.
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
    int64_t chunk;  // steps of a chunk; 0: a row is one chunk
    char* carries;  // [rows][channels] numbers of the arithmetic; used where sums go over the batch
};

// Channels [c0, c1) of rows [row0, row1). Where `sums` is not null, sums of the gate gradient are written there and not
// to grad_gate, as doubles in a dense array of the whole shape of grad_gate.
struct LinearBlock {
    int64_t row0, row1, c0, c1;
    double* sums;
};

// Steps [i0, i0 + steps) and channels [c0, c1) of one row.
struct LinearChunk {
    int64_t row, i0, steps, c0, c1;
};

// The affine map by which a chunk turns the carry c before it into the carry after it: c' = product * c + local. The
// product is a mantissa and a power (linear_product.h). Each array, like a carry, has one number of the arithmetic for
// each lane of the chunk.
struct LinearSummary {
    void *product, *power, *local;
};

// The kernels of one LinearVariant. `work` is scratch memory of the calling thread: work_bytes bytes, aligned to 64,
// with any contents.
struct LinearKernels {
    int64_t work_bytes;
    // Computes whole rows, one chunk after the other.
    void (*rows)(const LinearCall&, const LinearBlock&, void* work);
    // Computes the summary of a chunk. Returns true where the chunk has a reset: then c' is `local` alone.
    bool (*summarise)(const LinearCall&, const LinearChunk&, const LinearSummary&, void* work);
    // Computes c' from a summary; returns true where it is finite in all lanes.
    bool (*join)(const LinearCall&, const LinearChunk&, bool reset, const LinearSummary&, const void* carry,
                 void* next);
    // Computes c' again step by step in those lanes where `next`, as join computed it, is not finite: a sum over some
    // of the steps may overflow where the sum over all does not.
    void (*walk)(const LinearCall&, const LinearChunk&, const void* carry, void* next, void* work);
    // Writes the outputs of a chunk, and replaces the carry by the one after it. Sums of the gate gradient over time
    // are written to `sums`: one double for each number of a step of GATE.
    void (*apply)(const LinearCall&, const LinearChunk&, void* carry, double* sums, void* work);
    // Is called after a thread's last chunk: afterwards other threads may read what this one wrote.
    void (*finish)();
};

// Says which kernels of an instruction set a problem needs.
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
