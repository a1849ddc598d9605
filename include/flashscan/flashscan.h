/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flashscan: recurrences over sequences, forward and backward, on NVIDIA GPUs and on CPUs.
 *
 * This header is the whole interface and its manual. It is C99 and needs no CUDA header.
 *
 *     create a plan   flashscan_plan_linear      what to compute, how, where; everything is checked here
 *     execute it      flashscan_forward,         any number of times, from any thread, on any stream
 *                     flashscan_backward
 *     destroy it      flashscan_plan_destroy
 *
 * Names used below: B batch, T time, C channels, N sequences packed in one row.
 *
 * Contents
 *   1  Version
 *   2  Status and errors
 *   3  Vocabulary: backends, data types, layouts, arguments
 *   4  Options: how a plan runs
 *   5  The linear recurrence
 *   6  Plans: sizes, description, execution, destruction
 */
#ifndef FLASHSCAN_FLASHSCAN_H
#define FLASHSCAN_FLASHSCAN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define FLASHSCAN_API __attribute__((visibility("default")))
#else
#define FLASHSCAN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== 1  Version ============================================================================================== */

#define FLASHSCAN_VERSION_MAJOR 0
#define FLASHSCAN_VERSION_MINOR 1
#define FLASHSCAN_VERSION_PATCH 0
#define FLASHSCAN_VERSION (FLASHSCAN_VERSION_MAJOR * 10000 + FLASHSCAN_VERSION_MINOR * 100 + FLASHSCAN_VERSION_PATCH)

/* FLASHSCAN_VERSION of the library that is loaded, which may be newer than this header. */
FLASHSCAN_API int32_t flashscan_version(void);

/* ==== 2  Status and errors ==================================================================================== */

/*
 * Every call that can fail returns a flashscan_status. After a failure the outputs are untouched, a plan pointer that
 * was to be filled is NULL, and flashscan_last_error() holds a sentence that names the field, its value and what is
 * accepted. The numbers are fixed.
 */
typedef int32_t flashscan_status;

enum {
    FLASHSCAN_OK = 0,

    /* The caller's mistake. */
    FLASHSCAN_INVALID_ARGUMENT =
        10,                        /* a NULL pointer, an unknown enum value, a negative extent, bad SEQ_OFFSETS, ... */
    FLASHSCAN_INVALID_STRUCT = 11, /* struct_size is zero or shorter than the first version of the struct */
    FLASHSCAN_STRUCT_TOO_NEW = 12, /* a field that this library does not know is not zero */
    FLASHSCAN_SIZE_OVERFLOW = 13,  /* the extents or strides need more than 2^63 - 1 bytes */
    FLASHSCAN_MISSING_ARGUMENT = 14,
    FLASHSCAN_DOUBLED_ARGUMENT = 15,
    FLASHSCAN_UNKNOWN_ARGUMENT = 16, /* an id that this plan and pass do not take */
    FLASHSCAN_BUFFER_TOO_SMALL = 17,
    FLASHSCAN_INVALID_POINTER = 18, /* not aligned to its element, or in the wrong memory space */
    FLASHSCAN_ALIASING = 19,        /* two arguments overlap that may not */

    /* It cannot be done here. */
    FLASHSCAN_UNSUPPORTED = 20,     /* no kernel takes the problem; the sentence lists each candidate and its reason */
    FLASHSCAN_BACKEND_MISSING = 21, /* the library was built without this backend */
    FLASHSCAN_NO_DEVICE = 22,       /* no driver, or no device of this number */
    FLASHSCAN_DEPENDENCY_MISSING = 23, /* a library that the plan needs could not be loaded; the sentence names it */

    /* It failed while running. */
    FLASHSCAN_OUT_OF_MEMORY = 30,
    FLASHSCAN_DEVICE_ERROR = 31, /* the driver's own error follows in the sentence */

    FLASHSCAN_INTERNAL_ERROR = 90 /* a defect of this library; please report it */
};

/* The name of a status, "FLASHSCAN_OK" for example; "unknown status" for other numbers. Never NULL; static storage. */
FLASHSCAN_API const char* flashscan_status_name(flashscan_status status);

/*
 * The sentence of the last failure on this thread; "" when there was none. Valid until the next failing call on this
 * thread. Successful calls leave it as it is.
 */
FLASHSCAN_API const char* flashscan_last_error(void);

/* ==== 3  Vocabulary =========================================================================================== */

/*
 * A backend decides where a plan runs and which memory its arguments live in: host memory for CPU plans, memory that is
 * valid on the plan's device for CUDA plans. Nothing is copied between the two.
 */
enum {
    FLASHSCAN_CPU = 0,
    FLASHSCAN_CUDA = 1
};

/*
 * The number of devices of a backend: 1 for the CPU; for CUDA the number of GPUs, 0 where there is no driver or the
 * library was built without CUDA.
 */
FLASHSCAN_API flashscan_status flashscan_device_count(int32_t backend, int32_t* count);

/* Data types. Complex numbers are pairs (real, imaginary). */
enum {
    FLASHSCAN_F32 = 1,
    FLASHSCAN_BF16 = 2,
    FLASHSCAN_F16 = 3,
    FLASHSCAN_F64 = 4,
    FLASHSCAN_C64 = 5,  /* two f32 */
    FLASHSCAN_C128 = 6, /* two f64 */
    FLASHSCAN_I32 = 7,  /* SEQ_OFFSETS only */
    FLASHSCAN_I64 = 8   /* SEQ_OFFSETS only */
};

enum {
    FLASHSCAN_LAYOUT_BTC = 0, /* [B, T, C], channel innermost */
    FLASHSCAN_LAYOUT_BCT = 1  /* [B, C, T], time innermost */
};

enum {
    FLASHSCAN_FORWARD_IN_TIME = 0,
    FLASHSCAN_REVERSE_IN_TIME = 1
};

enum {
    FLASHSCAN_PASS_FORWARD = 0,
    FLASHSCAN_PASS_BACKWARD = 1
};

/*
 * Arguments carry the data of one call. `bytes` is the size of the buffer that `data` points to; it is checked against
 * flashscan_plan_arg_bytes. `data` of an input is only read. The gradient of an argument is FLASHSCAN_GRAD | id.
 * The order of arguments does not matter; an argument whose data is NULL counts as not given unless it needs 0 bytes.
 */
typedef struct flashscan_arg {
    int32_t id;
    int32_t reserved; /* 0 */
    void* data;
    size_t bytes;
} flashscan_arg;

enum {
    FLASHSCAN_ARG_INPUT = 1,
    FLASHSCAN_ARG_GATE = 2,
    FLASHSCAN_ARG_OUTPUT = 3,
    FLASHSCAN_ARG_STATE_IN = 4,
    FLASHSCAN_ARG_STATE_OUT = 5,
    FLASHSCAN_ARG_RESET = 6,
    FLASHSCAN_ARG_SEQ_OFFSETS = 7,
    FLASHSCAN_ARG_SCRATCH = 10,
    FLASHSCAN_GRAD = 0x100
};

/* ==== 4  Options: how a plan runs ============================================================================= */

enum {
    FLASHSCAN_DETERMINISM_RUN_TO_RUN = 0, /* the same call gives the same bits on every run */
    FLASHSCAN_DETERMINISM_BATCH_INVARIANT =
        1 /* and the bits of one sequence do not depend on how many others there are */
};

enum {
    FLASHSCAN_WORKSPACE_LIBRARY = 0, /* scratch memory is taken per call unless SCRATCH is passed */
    FLASHSCAN_WORKSPACE_CALLER = 1   /* SCRATCH must be passed wherever it needs more than 0 bytes */
};

/*
 * Options start with struct_size = sizeof(flashscan_options). Zero in any other field means the default. A NULL options
 * pointer means all defaults: the CPU, all of its threads.
 */
typedef struct flashscan_options {
    uint32_t struct_size;
    int32_t backend;     /* FLASHSCAN_CPU, FLASHSCAN_CUDA */
    int32_t device;      /* number of the device, from 0 */
    int32_t threads;     /* CPU threads, 0 for all that OpenMP would use; must be 0 for CUDA */
    int32_t determinism; /* FLASHSCAN_DETERMINISM_* */
    int32_t workspace;   /* FLASHSCAN_WORKSPACE_* */
    const char* kernel;  /* force a kernel by its name in flashscan_plan_describe; NULL lets the planner choose */
} flashscan_options;

/* ==== 5  The linear recurrence ================================================================================ */

/*
 * For every batch b and channel c, all of it elementwise:
 *
 *     h[-1] = STATE_IN                     zeros if not given
 *     h[t]  = a[t] * h[t-1] + x[t]         t = 0 .. T-1
 *     OUTPUT = h,  STATE_OUT = h[T-1]      STATE_IN passes through when T = 0
 *
 * a comes from GATE by the gate form: value a = g, log a = exp(g), logit a = 1 / (1 + exp(-g)). Gradients are with
 * respect to g. Note that a[0] is used, and has a gradient, when there is a STATE_IN.
 *
 * Reverse in time: h[T] = STATE_IN, h[t] = a[t] * h[t+1] + x[t], STATE_OUT = h[0]. Each sentence below about "first",
 * "before" and "after" then holds in the order of computation.
 *
 * RESET (flag): reset[b, t] != 0 makes the carried state 0 before step t; x[t] still enters. NaN and infinity in
 * the data flow as the arithmetic says and stop at a reset. The gradient of a[t] there is 0.
 *
 * SEQ_OFFSETS (num_sequences > 0): one row (B = 1) holds N sequences one after another; sequence n is
 * t = offsets[n] .. offsets[n+1]-1, with offsets[0] = 0, never decreasing, offsets[N] <= T. Each has its own state in
 * and out. Steps past offsets[N] belong to no sequence: outputs there are not written. CPU plans check the offsets;
 * CUDA plans check them where the environment has FLASHSCAN_CHECK=1, which synchronises the stream.
 *
 * Backward: with dh = GRAD|OUTPUT and d_out = GRAD|STATE_OUT,
 *
 *     g[T-1] = dh[T-1] + d_out,  g[t] = dh[t] + conj(a[t+1]) * g[t+1]
 *     GRAD|INPUT[t]  = g[t]
 *     GRAD|GATE[t]   = g[t] * conj(h[t-1] * da/dg[t])       summed over the broadcast axes of GATE
 *     GRAD|STATE_IN  = conj(a[0]) * g[0]
 *
 * which is PyTorch's convention for complex gradients; a real GATE with complex data takes the real part. (Martin and
 * Cundy, "Parallelizing linear recurrent neural nets over sequence length", arXiv 1709.04057, section 2.2.) Nothing
 * but GATE and OUTPUT is kept from forward, inputs are never overwritten, and backward may be called repeatedly.
 *
 * Long time may be cut into pieces that run at once, and the product of a piece's gates is then formed: where gates
 * above 1 in magnitude make it overflow although every h is finite, the result is not.
 *
 * Data types: dtype is that of INPUT, OUTPUT and their gradients. GATE and its gradient have gate_dtype:
 *
 *     dtype        f32   bf16       f16       f64   c64       c128
 *     gate_dtype   f32   bf16 f32   f16 f32   f64   c64 f32   c128 f64
 *
 * States (STATE_IN, STATE_OUT and their gradients) and all arithmetic are f32 for 16-bit and f32 data, else dtype.
 *
 * Arguments:                                shape                     forward       backward
 *
 *     INPUT                                 [B,T,C] or [B,C,T]        in            -
 *     GATE                                  same, 1 where broadcast   in            in
 *     OUTPUT                                as INPUT                  out           in, needed for GRAD|GATE
 *     STATE_IN                              [B,C], [N,C] if packed    optional in   optional in: if it was in forward
 *     STATE_OUT                             as STATE_IN               optional out  -
 *     RESET            uint8                [B,T]                     in if flag    in if flag
 *     SEQ_OFFSETS      i32 or i64           [N+1]                     in if N > 0   in if N > 0
 *     GRAD|OUTPUT                           as INPUT                  -             in
 *     GRAD|STATE_OUT                        as STATE_IN               -             optional in
 *     GRAD|INPUT, GRAD|GATE, GRAD|STATE_IN  as INPUT, GATE, STATE_IN  -             out, at least one of them
 *     SCRATCH                               plan_arg_bytes            optional      optional
 *
 * STATE_IN, STATE_OUT, RESET, SEQ_OFFSETS and their gradients are dense. Arguments that may be the same memory, exactly
 * (same pointer and strides): OUTPUT and INPUT; GRAD|INPUT and GRAD|OUTPUT; and unless packed STATE_OUT and STATE_IN;
 * GRAD|STATE_IN and GRAD|STATE_OUT. Inputs may overlap each other. Any other overlap with an output is refused. Tensors
 * of equal strides that interleave without sharing an element, the two halves of a fused projection for example, do not
 * overlap.
 */
typedef struct flashscan_strides {
    int64_t batch, time, channels; /* in elements, >= 0; all zero means dense in the layout */
} flashscan_strides;

enum {
    FLASHSCAN_GATE_VALUE = 0, /* a = g */
    FLASHSCAN_GATE_LOG = 1,   /* a = exp(g) */
    FLASHSCAN_GATE_LOGIT = 2  /* a = 1 / (1 + exp(-g)) */
};

/* Bits of gate_broadcast: GATE has extent 1 along these axes; its gradient is summed over them in a fixed order. */
enum {
    FLASHSCAN_BROADCAST_BATCH = 1,
    FLASHSCAN_BROADCAST_TIME = 2,
    FLASHSCAN_BROADCAST_CHANNELS = 4
};

/* Bits of flags. */
enum {
    FLASHSCAN_LINEAR_RESET = 1 /* there is a RESET argument */
};

/*
 * struct_size = sizeof(flashscan_linear_desc). Zero means the default in every field except the extents and dtype.
 * Strides along an axis of extent 1 are not used; strides along a broadcast axis of GATE must be 0. Tensors that are
 * written (OUTPUT, GRAD|INPUT, GRAD|GATE) must not overlap themselves.
 */
typedef struct flashscan_linear_desc {
    uint32_t struct_size;
    int32_t dtype;
    int32_t gate_dtype;            /* 0: dtype */
    int32_t layout;                /* FLASHSCAN_LAYOUT_*; the order of axes for tensors whose strides are all zero */
    int32_t gate_form;             /* FLASHSCAN_GATE_* */
    uint32_t gate_broadcast;       /* FLASHSCAN_BROADCAST_* */
    int32_t direction;             /* FLASHSCAN_FORWARD_IN_TIME, FLASHSCAN_REVERSE_IN_TIME */
    uint32_t flags;                /* FLASHSCAN_LINEAR_* */
    int64_t batch, time, channels; /* B, T, C >= 0 */
    int64_t num_sequences;         /* N > 0: packed, B = 1; 0: not packed */
    int32_t offsets_dtype;         /* FLASHSCAN_I32, FLASHSCAN_I64; 0: FLASHSCAN_I64 */
    int32_t reserved;              /* 0 */
    flashscan_strides input, gate, output;
    flashscan_strides grad_input, grad_gate, grad_output;
} flashscan_linear_desc;

typedef struct flashscan_plan flashscan_plan;

/*
 * Creates a plan for the linear recurrence. *plan is NULL on failure. `options` may be NULL. A plan is immutable: any
 * number of threads may execute it at the same time.
 */
FLASHSCAN_API flashscan_status flashscan_plan_linear(flashscan_plan** plan, const flashscan_linear_desc* desc,
                                                     const flashscan_options* options);

/* ==== 6  Plans ================================================================================================ */

/*
 * The bytes that argument `arg_id` needs in `pass` (FLASHSCAN_PASS_*). 0 for SCRATCH means that none is used. An id
 * that the pass does not take is FLASHSCAN_UNKNOWN_ARGUMENT.
 */
FLASHSCAN_API flashscan_status flashscan_plan_arg_bytes(const flashscan_plan* plan, int32_t pass, int32_t arg_id,
                                                        size_t* bytes);

/*
 * Describes the plan as text: the problem, the kernel and why it was chosen, and the candidates passed over. Writes at
 * most `capacity` bytes, the closing zero included, and stores the full length without it in *length; `text` may be
 * NULL when capacity is 0, `length` may be NULL.
 */
FLASHSCAN_API flashscan_status flashscan_plan_describe(const flashscan_plan* plan, char* text, size_t capacity,
                                                       size_t* length);

/*
 * Execute a plan. `stream` is a cudaStream_t for CUDA plans (NULL: the legacy default stream) and is ignored by CPU
 * plans. A CUDA call only enqueues work, never synchronises, and may be captured in a CUDA graph; a CPU call is
 * finished when it returns.
 */
FLASHSCAN_API flashscan_status flashscan_forward(const flashscan_plan* plan, const flashscan_arg* args,
                                                 int32_t num_args, void* stream);
FLASHSCAN_API flashscan_status flashscan_backward(const flashscan_plan* plan, const flashscan_arg* args,
                                                  int32_t num_args, void* stream);

/* Destroys a plan. NULL is allowed. Work that was enqueued with the plan is not affected. */
FLASHSCAN_API void flashscan_plan_destroy(flashscan_plan* plan);

#ifdef __cplusplus
}
#endif

#endif
