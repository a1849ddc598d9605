/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flashscan: recurrences over sequences, forward and backward, on NVIDIA GPUs and on CPUs.
 *
 * This header is the whole interface and its manual. It is C99 and needs no CUDA header.
 *
 *     create a plan   flashscan_plan_linear,     what to compute, how, where; everything is checked here
 *                     flashscan_plan_rnn,
 *                     flashscan_plan_operator,
 *                     flashscan_plan_gated,
 *                     flashscan_plan_selective
 *     execute it      flashscan_execute          any number of times, from any thread, on any stream
 *     destroy it      flashscan_plan_destroy
 *
 * Names used below: B batch, T time, C channels, N sequences packed in one row, H heads, D head dim, G gates, S states.
 *
 * Numbers: each enumeration has a range of its own, so that a value in the wrong field is refused, and no enumerator is
 * zero. Zero in a field means the default that its comment names; fields that decide what is computed and have no
 * obvious default (dtype, cell, operator kind) refuse it. Flags have a bit of their own each.
 *
 * Structs begin with struct_size = sizeof(the struct). Fields are only ever appended. A struct that is larger than the
 * library's is accepted if the tail that the library does not know is zero, and is FLASHSCAN_STATUS_STRUCT_TOO_NEW
 * else; of a struct that the library fills, it zeroes that tail. struct_size is 4096 at the most.
 *
 * The library stays loaded after dlclose: its OpenMP runtime has threads that live on.
 *
 * Environment variables, read by the library:
 *
 *     FLASHSCAN_CHECK=1       calls of CUDA plans that are made with it check, as CPU calls always do, that arguments
 *                             lie in the device's memory, and SEQ_OFFSETS, STATE_INDICES and RESERVE, for which they
 *                             synchronise the stream; while it is captured in a graph they do not look at these.
 *     FLASHSCAN_CPU_ISA       the CPU backend's instruction set: baseline, avx2 or avx512; the best that the processor
 *                             has if not set. Read once.
 *     NCCL_P2P_DISABLE=1      plans with a communicator of NCCL's do not use the memory of other GPUs either.
 *
 * Contents
 *   1  Version
 *   2  Status and errors
 *   3  Vocabulary: backends and what can be used of them, data types, layouts, arguments
 *   4  Options: how a plan runs, allocator, log, communicator
 *   5  The linear recurrence
 *   6  Recurrent networks: LSTM, GRU, MGU, Elman, sLSTM
 *   7  Associative operators: scans and reductions of numbers, matrices, affine maps, anything
 *   8  Gated layers: the linear recurrence with what surrounds it in minGRU, minLSTM, HGRN, RG-LRU, QRNN, GILR
 *   9  Selective scans: the state-space layer of Mamba
 *  10  Plans: sizes, description, execution, destruction
 */
#ifndef FLASHSCAN_FLASHSCAN_H
#define FLASHSCAN_FLASHSCAN_H

#include <stddef.h>
#include <stdint.h>

/*
 * FLASHSCAN_API exports and imports, FLASHSCAN_CALL is the calling convention of functions and callbacks,
 * FLASHSCAN_MUST_USE marks results that may not be ignored, FLASHSCAN_DEPRECATED what a later version replaces.
 */
#if defined(_WIN32)
#if defined(FLASHSCAN_BUILDING_LIBRARY)
#define FLASHSCAN_API __declspec(dllexport)
#else
#define FLASHSCAN_API __declspec(dllimport)
#endif
#define FLASHSCAN_CALL __cdecl
#define FLASHSCAN_MUST_USE
#define FLASHSCAN_DEPRECATED(message) __declspec(deprecated(message))
#elif defined(__GNUC__)
#define FLASHSCAN_API __attribute__((visibility("default")))
#define FLASHSCAN_CALL
#define FLASHSCAN_MUST_USE __attribute__((warn_unused_result))
#define FLASHSCAN_DEPRECATED(message) __attribute__((deprecated(message)))
#else
#define FLASHSCAN_API
#define FLASHSCAN_CALL
#define FLASHSCAN_MUST_USE
#define FLASHSCAN_DEPRECATED(message)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ==== 1  Version ============================================================================================== */

#define FLASHSCAN_VERSION_MAJOR 1
#define FLASHSCAN_VERSION_MINOR 0
#define FLASHSCAN_VERSION_PATCH 0
#define FLASHSCAN_VERSION (FLASHSCAN_VERSION_MAJOR * 10000 + FLASHSCAN_VERSION_MINOR * 100 + FLASHSCAN_VERSION_PATCH)

/* FLASHSCAN_VERSION of the library that is loaded, which may be newer than this header. */
FLASHSCAN_API int32_t FLASHSCAN_CALL flashscan_version(void);

/* ==== 2  Status and errors ==================================================================================== */

/*
 * Every call that can fail returns a flashscan_status. After a failure the outputs are untouched (unless the
 * status says otherwise; and a call of a CUDA plan that fails with OUT_OF_MEMORY or DEVICE_ERROR may have enqueued the
 * first of its launches, which write parts of the outputs), a plan pointer that was to be filled is NULL, and
 * flashscan_last_error() holds a sentence that names the field, its value and what is accepted. The numbers are fixed.
 */
typedef int32_t flashscan_status;

/* Functions that can fail. */
#define FLASHSCAN_API_STATUS FLASHSCAN_API FLASHSCAN_MUST_USE flashscan_status FLASHSCAN_CALL

enum {
    FLASHSCAN_STATUS_OK = 0,

    /* The caller's mistake. */
    FLASHSCAN_STATUS_INVALID_ARGUMENT =
        10, /* a NULL pointer, an unknown enum value, a negative extent, bad SEQ_OFFSETS, ... */
    FLASHSCAN_STATUS_INVALID_STRUCT =
        11, /* struct_size is shorter than the first version of the struct, or above 4096 */
    FLASHSCAN_STATUS_STRUCT_TOO_NEW = 12, /* a field that this library does not know is not zero */
    FLASHSCAN_STATUS_SIZE_OVERFLOW = 13,  /* the extents or strides need more than 2^63 - 1 bytes */
    FLASHSCAN_STATUS_MISSING_ARGUMENT = 14,
    FLASHSCAN_STATUS_DOUBLED_ARGUMENT = 15,
    FLASHSCAN_STATUS_UNKNOWN_ARGUMENT = 16, /* an id that this plan and pass do not take */
    FLASHSCAN_STATUS_BUFFER_TOO_SMALL = 17,
    FLASHSCAN_STATUS_INVALID_POINTER = 18, /* not aligned to its element, or in the wrong memory space */
    FLASHSCAN_STATUS_ALIASING = 19,        /* two arguments overlap that may not */

    /* It cannot be done here. */
    FLASHSCAN_STATUS_UNSUPPORTED =
        20, /* no kernel takes the problem; the sentence lists each candidate and its reason */
    FLASHSCAN_STATUS_BACKEND_MISSING = 21, /* the library was built without this backend */
    FLASHSCAN_STATUS_NO_DEVICE = 22,       /* no driver, or no device of this number */
    FLASHSCAN_STATUS_DEPENDENCY_MISSING =
        23, /* a library that the plan needs could not be loaded; the sentence names it */

    /* It failed while running. */
    FLASHSCAN_STATUS_OUT_OF_MEMORY = 30,
    FLASHSCAN_STATUS_DEVICE_ERROR = 31, /* the driver's own error follows in the sentence */
    FLASHSCAN_STATUS_CALLBACK_FAILED =
        32, /* a callback of a custom operator returned other than 0, and outputs hold no results; or a communicator's
               did, in which case nothing was written */

    FLASHSCAN_STATUS_INTERNAL_ERROR = 90 /* a defect of this library; please report it */
};

/* The name of a status, "FLASHSCAN_STATUS_OK" for example; "unknown status" for other numbers. Never NULL; static storage. */
FLASHSCAN_API const char* FLASHSCAN_CALL flashscan_status_name(flashscan_status status);

/*
 * The sentence of the last failure on this thread; "" when there was none. Valid until the next failing call on this
 * thread. Successful calls leave it as it is.
 */
FLASHSCAN_API const char* FLASHSCAN_CALL flashscan_last_error(void);

/* ==== 3  Vocabulary =========================================================================================== */

/*
 * A backend decides where a plan runs and which memory its arguments live in: host memory for CPU plans, memory that is
 * valid on the plan's device for CUDA plans. Nothing is copied between the two.
 */
enum {
    FLASHSCAN_BACKEND_CPU = 101,
    FLASHSCAN_BACKEND_CUDA = 102
};

/*
 * The number of devices of a backend: 1 for the CPU; for CUDA the number of GPUs, 0 where there is no driver or the
 * library was built without CUDA.
 */
FLASHSCAN_API_STATUS flashscan_device_count(int32_t backend, int32_t* count);

/*
 * How the library was built and what of it can be used here. A library that was built with CUDA runs on drivers of the
 * same major version of CUDA (of 12 from 12.4 on) and newer ones. Strings are valid until the next call of
 * flashscan_build_info on this thread.
 */
typedef struct flashscan_build {
    uint32_t struct_size;             /* sizeof(flashscan_build), set by the caller */
    int32_t version;                  /* FLASHSCAN_VERSION of the library */
    int32_t cuda_toolkit;             /* the CUDA version that it was built with, 13000 for 13.0; 0: without CUDA */
    int32_t cuda_driver;              /* the newest CUDA version that the driver has; 0: there is no driver */
    const char* cuda_architectures;   /* "80 90a-real" for example, as CMake names them; "" without CUDA */
    const char* cuda_unusable;        /* why no GPU can be used, as a sentence; "" if one can */
    const char* cpu_instruction_sets; /* that the CPU backend is built for: "baseline avx2 avx512" for example */
    const char* cpu_instruction_set;  /* the one that plans of the CPU run with; "" if FLASHSCAN_CPU_ISA names none */
} flashscan_build;

FLASHSCAN_API_STATUS flashscan_build_info(flashscan_build* build);

/* Data types. Complex numbers are pairs (real, imaginary). */
enum {
    FLASHSCAN_DTYPE_F32 = 201,
    FLASHSCAN_DTYPE_BF16 = 202,
    FLASHSCAN_DTYPE_F16 = 203,
    FLASHSCAN_DTYPE_F64 = 204,
    FLASHSCAN_DTYPE_C64 = 205,  /* two f32 */
    FLASHSCAN_DTYPE_C128 = 206, /* two f64 */
    FLASHSCAN_DTYPE_I32 = 207,  /* integers: of operators on numbers, and SEQ_OFFSETS */
    FLASHSCAN_DTYPE_I64 = 208,  /* the same */
    FLASHSCAN_DTYPE_U8 = 209    /* of operators on numbers; 0 and 1 are what bool and C's _Bool hold */
};

enum {
    FLASHSCAN_LAYOUT_BTC = 301, /* [B, T, C], channel innermost */
    FLASHSCAN_LAYOUT_BCT = 302  /* [B, C, T], time innermost */
};

/* Layouts of recurrent networks. */
enum {
    FLASHSCAN_LAYOUT_BTGHD = 303, /* INPUT [B, T, G, H, D], OUTPUT [B, T, H, D] or [S, B, T, H, D] */
    FLASHSCAN_LAYOUT_TBGHD = 304  /* INPUT [T, B, G, H, D], OUTPUT [T, B, H, D] or [S, T, B, H, D] */
};

enum {
    FLASHSCAN_DIRECTION_FORWARD = 401,
    FLASHSCAN_DIRECTION_REVERSE = 402
};

enum {
    FLASHSCAN_PASS_FORWARD = 501,
    FLASHSCAN_PASS_BACKWARD = 502, /* gradients, from those of the outputs */
    FLASHSCAN_PASS_TANGENT = 503   /* derivatives along tangents of the inputs; FLASHSCAN_STATUS_UNSUPPORTED today */
};

/*
 * Arguments carry the data of one call. `bytes` is the size of the buffer that `data` points to; it is checked against
 * flashscan_plan_arg_bytes. `data` of an input is only read. The gradient of an argument is FLASHSCAN_GRAD | id, its
 * tangent FLASHSCAN_TANGENT | id.
 * The order of arguments does not matter; an argument whose data is NULL counts as not given unless it needs 0 bytes.
 */
typedef struct flashscan_arg {
    int32_t id;
    int32_t reserved; /* 0 */
    void* data;
    size_t bytes;
} flashscan_arg;

/* An argument that is read, from memory that may be const, and one that is written. */
static inline flashscan_arg flashscan_in(int32_t id, const void* data, size_t bytes) {
    flashscan_arg arg;
    arg.id = id;
    arg.reserved = 0;
    arg.data = (void*)(uintptr_t)data;
    arg.bytes = bytes;
    return arg;
}
static inline flashscan_arg flashscan_out(int32_t id, void* data, size_t bytes) {
    flashscan_arg arg;
    arg.id = id;
    arg.reserved = 0;
    arg.data = data;
    arg.bytes = bytes;
    return arg;
}

enum {
    FLASHSCAN_ARG_INPUT = 2001,
    FLASHSCAN_ARG_GATE = 2002,
    FLASHSCAN_ARG_OUTPUT = 2003,
    FLASHSCAN_ARG_STATE_IN = 2004,
    FLASHSCAN_ARG_STATE_OUT = 2005,
    FLASHSCAN_ARG_RESET = 2006,
    FLASHSCAN_ARG_SEQ_OFFSETS = 2007,
    FLASHSCAN_ARG_WEIGHT = 2008,
    FLASHSCAN_ARG_BIAS = 2009,
    FLASHSCAN_ARG_SCRATCH = 2010,
    FLASHSCAN_ARG_RESERVE = 2011,
    FLASHSCAN_ARG_STATE_INDICES = 2012,
    FLASHSCAN_ARG_INPUT_GATE = 2013,
    FLASHSCAN_ARG_OUTPUT_GATE = 2014,
    FLASHSCAN_ARG_SECOND_GATE = 2015,
    FLASHSCAN_ARG_PARAM = 2016,
    FLASHSCAN_ARG_DELTA = 2017,
    FLASHSCAN_ARG_A = 2018,
    FLASHSCAN_ARG_B = 2019,
    FLASHSCAN_ARG_C = 2020,
    FLASHSCAN_ARG_D = 2021,
    FLASHSCAN_ARG_INDEX = 2022,
    FLASHSCAN_ARG_ITERATIONS = 2023,
    FLASHSCAN_ARG_RESIDUAL = 2024,

    FLASHSCAN_TANGENT = 0x20000000, /* no plan takes it yet */
    FLASHSCAN_GRAD = 0x40000000
};

/* flashscan_plan_args lists the arguments of a pass, each as one flashscan_arg_info. */
enum {
    FLASHSCAN_ACCESS_READ = 1401,
    FLASHSCAN_ACCESS_WRITE = 1402
};

typedef struct flashscan_arg_info {
    uint32_t struct_size; /* sizeof(flashscan_arg_info), set by the caller in the first of an array */
    int32_t id;           /* FLASHSCAN_ARG_*, with FLASHSCAN_GRAD */
    int32_t access;       /* FLASHSCAN_ACCESS_* */
    int32_t optional;     /* 1: it may be left out */
    int32_t dtype;        /* FLASHSCAN_DTYPE_*; 0: bytes */
    int32_t num_axes;     /* 1 to 6 */
    int64_t extents[6];   /* outermost first, in the plan's layout */
    int64_t strides[6];   /* in elements */
    size_t bytes;         /* from the first to the last element */
    size_t alignment;     /* that `data` needs, in bytes */
    const char* name;     /* "GRAD|INPUT" for example; static storage */
} flashscan_arg_info;

/* ==== 4  Options: how a plan runs ============================================================================= */

enum {
    FLASHSCAN_DETERMINISM_RUN_TO_RUN = 601, /* the same call gives the same bits on every run */
    FLASHSCAN_DETERMINISM_BATCH_INVARIANT =
        602 /* and the bits of one sequence do not depend on how many others there are */
};

enum {
    FLASHSCAN_WORKSPACE_LIBRARY = 701, /* scratch memory is taken per call unless SCRATCH is passed */
    FLASHSCAN_WORKSPACE_CALLER = 702   /* SCRATCH must be passed wherever it needs more than 0 bytes */
};

/*
 * Memory for SCRATCH in place of the library's own: `allocate` returns `bytes` bytes in the plan's memory space,
 * aligned to 256, or NULL, and `release` takes them back, at the end of the same call, ordered on its stream: on a GPU
 * work that uses them may still be under way there. Both may be called from several threads at once. What a plan keeps
 * as long as it lives is not taken from it.
 */
typedef struct flashscan_allocator {
    uint32_t struct_size; /* sizeof(flashscan_allocator) */
    int32_t reserved;     /* 0 */
    void* user;           /* passed through */
    void*(FLASHSCAN_CALL* allocate)(void* user, size_t bytes, void* stream);
    void(FLASHSCAN_CALL* release)(void* user, void* memory, size_t bytes, void* stream);
} flashscan_allocator;

/*
 * Is told what a plan chose when it is made (LOG_INFO), and the sentence of each call of the plan that fails, its
 * making included (LOG_ERROR). `message` is valid during the call alone. Called on the thread that calls the library.
 */
typedef void(FLASHSCAN_CALL* flashscan_log)(void* user, int32_t level, const char* message);
enum {
    FLASHSCAN_LOG_ERROR = 1301,
    FLASHSCAN_LOG_INFO = 1302
};

/*
 * One sequence over several processes, or threads, each of which is a rank. The ranks hold consecutive parts of the
 * sequence in the order of their numbers: the steps of rank 0 come first, those of rank size - 1 last. Each makes the
 * same plan, with a communicator in its options, and calls it with its own steps; the results are those of the whole
 * sequence. On the CPU all plans take a communicator but those of recurrent networks, of pools, and of custom operators
 * with packed sequences. On a GPU the same take one, but of custom operators those with device code alone, and of
 * gated layers, whose carries go in a wavefront, those whose communicator can send.
 *
 * Extents, strides and arguments are the rank's own. `time` may differ from rank to rank and may be zero; all else in
 * the descriptor but strides, and `determinism` in the options, must be the same on every rank, as must the library's
 * version and the instruction set that it uses (FLASHSCAN_CPU_ISA).
 *
 * Packed sequences: every rank has a part of each of them, which may be empty, and SEQ_OFFSETS of its own steps; a
 * sequence is what the ranks hold of it, in the order of their numbers. Of a packed row that is cut into parts, those
 * of the part [begin, end) are the row's, less begin, and no less than 0 and no more than end - begin. States are those
 * of all sequences.
 *
 * The first rank in the order of computation (rank 0; size - 1 with DIRECTION_REVERSE) alone takes STATE_IN and
 * GRAD|STATE_IN, the last one alone STATE_OUT and GRAD|STATE_OUT: on another rank they are
 * FLASHSCAN_STATUS_UNKNOWN_ARGUMENT. All other optional arguments may be given on some ranks and not on others, but
 * where one rank asks for GRAD|GATE (of a gated layer also GRAD|SECOND_GATE, GRAD|PARAM or GRAD|BIAS; of MATMUL
 * GRAD|INPUT), all need OUTPUT, of a reduction by AFFINE INPUT. The gradients of a GATE that is broadcast along time,
 * of PARAM, of BIAS, and of a selective scan's A, D and constant B and C are sums over the rank's own steps: to be
 * those of the whole sequence, those of all ranks have to be added by the caller, or by the library with
 * COMM_FLAG_SUM_GRADIENTS. With GATED_FLAG_FIRST_STEP the first rank in the order of computation needs STATE_IN, or a
 * step of every sequence that has any; on GPUs a step, and sequences are not packed. On GPUs the first rank of a custom
 * operator needs a step, too, but in MODE_EXCLUSIVE.
 * MODE_REDUCTION gives OUTPUT to all ranks; backward its gradient is the sum of the GRAD|OUTPUT of all ranks.
 *
 * COMM_FLAG_SUM_GRADIENTS: backward gives those sums over time of the whole sequence, the same bits on every rank: each
 * rank's sum, rounded to the type of the gradient, added in the order of the ranks. Each of them is asked for on all
 * ranks or on none, else all get FLASHSCAN_STATUS_MISSING_ARGUMENT, or on GPUs wait for each other. A plan that has no
 * such gradient is FLASHSCAN_STATUS_UNSUPPORTED.
 *
 * Making a plan calls all_gather once, and so does each call of flashscan_execute, before it writes any output.
 * Backward of an operator and forward of a custom one call it twice, backward of a custom one four times. Recurrences,
 * layers, selective scans, MATMUL and AFFINE call it again for each rank whose carry is not finite unless its steps are
 * walked one by one; so does backward once more with COMM_FLAG_SUM_GRADIENTS, after it has computed the other outputs.
 * On GPUs making a plan calls it twice, and a call once, or in a wavefront forward, and backward of ADD, not at all,
 * and backward of an operator up to four times. All ranks of a communicator therefore make the same plans and the same
 * calls in the same order, one at a time; a rank that leaves one out, or comes with another pass, leaves the others
 * waiting in their all_gather, or mixes up what they receive. Different communicators do not know of each other.
 *
 * Errors: where ranks disagree about the problem, all of them get FLASHSCAN_STATUS_INVALID_ARGUMENT and the same
 * sentence when the plan is made. Where a rank cannot make its plan, or refuses the arguments of a call, the others get
 * its status and a sentence that names it. What is refused before the library has read the options, or before it has
 * looked at the arguments (a NULL plan, too many arguments), the other ranks do not learn of. Where all_gather fails,
 * the call fails with FLASHSCAN_STATUS_CALLBACK_FAILED: an all_gather that fails on one rank must fail on all, as else
 * the others go on without it. In each case nothing was written, unless it was the all_gather that adds up gradients. A
 * call of a plan on a GPU only enqueues: a rank whose call is refused leaves the others waiting, as one that leaves out
 * a collective of NCCL does, and where one rank asks for GRAD|GATE and another has no OUTPUT, or of a reduction no
 * INPUT, the gradient that needs it is NaN. What fails in NCCL is FLASHSCAN_STATUS_DEVICE_ERROR, with NCCL's words;
 * where send or receive fails, FLASHSCAN_STATUS_CALLBACK_FAILED. Outputs hold no results then. Where a batched callback
 * of a custom operator fails on one rank, the call fails on all of them, and outputs hold no results.
 */
enum {
    FLASHSCAN_COMM_CALLBACKS = 2201,
    FLASHSCAN_COMM_NCCL = 2202 /* an ncclComm_t, of plans on GPUs */
};

/* Bits of flags. */
enum {
    FLASHSCAN_COMM_FLAG_SUM_GRADIENTS = 0x10000000 /* gradients that are sums over time are those of all ranks */
};

/* How states travel from rank to rank; the same on all ranks. */
enum {
    FLASHSCAN_CARRIES_GATHERED =
        2301, /* each rank reads its inputs twice, and all gather what its steps do to any state */
    FLASHSCAN_CARRIES_WAVEFRONT = 2302 /* each rank hands its states to the next, a group of rows after the other */
};

/*
 * Functions of NCCL, for a program whose NCCL the library cannot find by itself because it is linked in: each is the
 * function of NCCL that its comment names, cast to the type here. All are needed but last_error, which came with NCCL
 * 2.13.
 */
typedef struct flashscan_nccl {
    uint32_t struct_size; /* sizeof(flashscan_nccl) */
    int32_t reserved;     /* 0 */
    /* ncclAllGather, ncclSend, ncclRecv, ncclGroupStart, ncclGroupEnd */
    int(FLASHSCAN_CALL* all_gather)(const void* send, void* receive, size_t count, int type, void* comm, void* stream);
    int(FLASHSCAN_CALL* send)(const void* data, size_t count, int type, int to, void* comm, void* stream);
    int(FLASHSCAN_CALL* receive)(void* data, size_t count, int type, int from, void* comm, void* stream);
    int(FLASHSCAN_CALL* group_start)(void);
    int(FLASHSCAN_CALL* group_end)(void);
    /* ncclCommCount, ncclCommUserRank, ncclCommCuDevice, ncclCommGetAsyncError, ncclGetErrorString, ncclGetLastError */
    int(FLASHSCAN_CALL* comm_count)(void* comm, int* count);
    int(FLASHSCAN_CALL* comm_rank)(void* comm, int* rank);
    int(FLASHSCAN_CALL* comm_device)(void* comm, int* device);
    int(FLASHSCAN_CALL* async_error)(void* comm, int* error);
    const char*(FLASHSCAN_CALL* error_text)(int error);
    const char*(FLASHSCAN_CALL* last_error)(void* comm);
} flashscan_nccl;

/*
 * Copied when the plan is made; what `user` points to is needed as long as the plan.
 *
 * COMM_NCCL: `user` is the caller's ncclComm_t, on the plan's device, and the ranks are its own. size is 0, or size and
 * rank are those of the ncclComm_t. The functions are those of `nccl`, or where that is NULL of the NCCL that the
 * program has loaded already; the library loads none. all_gather, send and receive are NULL. Calls may be captured in a
 * CUDA graph, on all ranks alike, after a first one that was not: NCCL connects ranks when they first exchange so many
 * bytes. Instantiate the graph with cudaGraphInstantiateFlagUseNodePriority, and do not launch it any more when the
 * plan is destroyed. Between GPUs of one host that reach each other's memory states pass through it in a wavefront: a
 * plan then has 2 MB or more on its device. Where a call of such a plan has failed on one rank, or is not made there,
 * the others wait in it, and ncclCommAbort does not end that; do not call the plan again.
 *
 * COMM_CALLBACKS: the functions of the caller. all_gather sends `bytes` bytes from `send` to every rank and fills
 * `receive`, size times `bytes`, with those of all ranks in the order of their numbers, its own included. `bytes` is
 * the same on all ranks. The two do not overlap, lie in the plan's memory space (host memory when a plan is made) and
 * are aligned to 64 bytes. It returns 0 when `receive` is complete, any other number on failure, which the sentence of
 * the error repeats. It is called on the thread that calls the library, with the stream of flashscan_execute, NULL when
 * a plan is made, and must not throw or call the plan.
 *
 * Plans on a GPU call it with device memory, in the order of the stream: a callback waits for the stream, or enqueues
 * its work there. They call send and receive, too, where both are given, with a stream of the plan's: `send` takes
 * `bytes` bytes to rank `to`, which calls `receive` for as many of this rank, in the same order. Without them carries
 * are gathered.
 */
typedef struct flashscan_comm {
    uint32_t struct_size; /* sizeof(flashscan_comm) */
    int32_t kind;         /* FLASHSCAN_COMM_*; needed */
    int32_t rank;         /* of the caller, from 0 */
    int32_t size;         /* number of ranks, 1 to 65536 */
    void* user;           /* passed through */
    int32_t(FLASHSCAN_CALL* all_gather)(void* user, const void* send, void* receive, size_t bytes, void* stream);
    uint32_t flags;   /* FLASHSCAN_COMM_FLAG_* */
    int32_t carries;  /* FLASHSCAN_CARRIES_*; 0: the plan chooses, by what it expects them to take */
    int32_t groups;   /* of rows in a wavefront, to 1024, the same on all ranks; 0: the plan chooses */
    int32_t reserved; /* 0 */
    int32_t(FLASHSCAN_CALL* send)(void* user, const void* data, size_t bytes, int32_t to, void* stream);
    int32_t(FLASHSCAN_CALL* receive)(void* user, void* data, size_t bytes, int32_t from, void* stream);
    const flashscan_nccl* nccl; /* NULL: the functions of the NCCL that is loaded; copied */
} flashscan_comm;

/*
 * Options start with struct_size = sizeof(flashscan_options). Zero in any other field means the default. A NULL options
 * pointer means all defaults: the CPU, all of its threads.
 */
typedef struct flashscan_options {
    uint32_t struct_size;
    int32_t backend;     /* FLASHSCAN_BACKEND_*; 0: CPU */
    int32_t device;      /* number of the device, from 0 */
    int32_t threads;     /* CPU threads, 0 for all that OpenMP would use; must be 0 for CUDA */
    int32_t determinism; /* FLASHSCAN_DETERMINISM_*; 0: RUN_TO_RUN */
    int32_t workspace;   /* FLASHSCAN_WORKSPACE_*; 0: LIBRARY */
    const char* kernel;  /* force a kernel by its name in flashscan_plan_describe; NULL lets the planner choose */
    const flashscan_allocator* allocator; /* NULL: the library's own; copied when the plan is made */
    flashscan_log log;                    /* NULL: none */
    void* log_user;                       /* passed to log */
    const flashscan_comm* communicator;   /* NULL: the whole sequence is here */
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
 * CUDA plans that are made with FLASHSCAN_CHECK=1 in the environment check them, which synchronises the stream.
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
 * Long time may be cut into pieces that run at once. The result is finite wherever h' = a h + x computed step by step
 * is; of a log or logit gate that is broadcast, the sum of g[t] * conj(h[t-1]) is formed first and has to be finite.
 * On CUDA the product of a piece's gates is formed. Where it overflows, steps are walked one by one, which is slow. A
 * product below the normal numbers of its type may count as 0: an error, in f32, of 2^-126 of the state before it at
 * the most, which later gates multiply.
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
 *     STATE_INDICES    i32                  [B], [N] if packed        in if pool    -
 *     GRAD|OUTPUT                           as INPUT                  -             in
 *     GRAD|STATE_OUT                        as STATE_IN               -             optional in
 *     GRAD|INPUT, GRAD|GATE, GRAD|STATE_IN  as INPUT, GATE, STATE_IN  -             out, at least one of them
 *     SCRATCH                               plan_arg_bytes            optional      optional
 *
 * RESET and SEQ_OFFSETS are dense. Arguments that may be the same memory, exactly
 * (same pointer and strides): OUTPUT and INPUT; GRAD|INPUT and GRAD|OUTPUT; and unless packed STATE_OUT and STATE_IN,
 * which may be in a pool, and GRAD|STATE_IN and GRAD|STATE_OUT. Inputs may overlap each other. Any other overlap with
 * an output is refused. Tensors of equal strides that interleave without sharing an element, the two halves of a fused
 * projection for example, do not overlap.
 */
typedef struct flashscan_strides {
    int64_t batch, time, channels; /* in elements, >= 0; all zero means dense in the layout */
} flashscan_strides;

/*
 * Where the rows of a state lie: STATE_IN, STATE_OUT and their gradients of every family. What belongs to one row (a
 * batch, or a sequence if packed) and one of a cell's S states is dense. A state with strides, a row of a larger pool
 * for example, is copied through SCRATCH, except that CUDA kernels for few steps of linear recurrences, gated layers
 * and selective scans take it where it lies, in one launch. No two elements of a state may share memory.
 *
 * Pools (state_pool > 0): STATE_IN and STATE_OUT then have state_pool rows, and STATE_INDICES says which of them
 * belongs to each batch (each sequence if packed), as a server needs it that decodes many sequences a few steps at a
 * time. Row i starts from row STATE_INDICES[i] of STATE_IN and leaves its state in that row of STATE_OUT; the two may
 * be the same memory, packed or not, and rows that no index names are not touched. An index of -1 marks row i as
 * padding: its OUTPUT is 0 and it has no state. CPU plans check the indices: what is neither -1 nor a row of the pool,
 * and with STATE_OUT an index that stands there twice, is FLASHSCAN_STATUS_INVALID_ARGUMENT. On CUDA, where
 * FLASHSCAN_CHECK=1 asks for the same, an index that is no row of the pool is padding otherwise, and what a row that is
 * named twice holds afterwards, and the OUTPUT of its sequences, is not defined. Plans with a pool have no backward
 * pass.
 */
typedef struct flashscan_state_strides {
    int64_t row;   /* from one row to the next, in elements (bytes for CUSTOM), >= 0; 0: dense */
    int64_t state; /* from one of the S states of a cell to the next; 0: number of rows times row; else 0 */
} flashscan_state_strides;

enum {
    FLASHSCAN_GATE_VALUE = 801, /* a = g */
    FLASHSCAN_GATE_LOG = 802,   /* a = exp(g) */
    FLASHSCAN_GATE_LOGIT = 803  /* a = 1 / (1 + exp(-g)) */
};

/* Bits of gate_broadcast: GATE has extent 1 along these axes; its gradient is summed over them in a fixed order. */
enum {
    FLASHSCAN_BROADCAST_BATCH = 0x1,
    FLASHSCAN_BROADCAST_TIME = 0x2,
    FLASHSCAN_BROADCAST_CHANNELS = 0x4
};

/* Bits of flags. */
enum {
    FLASHSCAN_LINEAR_FLAG_RESET = 0x10 /* there is a RESET argument */
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
    int32_t layout;                /* FLASHSCAN_LAYOUT_BTC, _BCT: axes of tensors whose strides are all zero; 0: BTC */
    int32_t gate_form;             /* FLASHSCAN_GATE_*; 0: VALUE */
    uint32_t gate_broadcast;       /* FLASHSCAN_BROADCAST_* */
    int32_t direction;             /* FLASHSCAN_DIRECTION_*; 0: FORWARD */
    uint32_t flags;                /* FLASHSCAN_LINEAR_* */
    int64_t batch, time, channels; /* B, T, C >= 0 */
    int64_t num_sequences;         /* N > 0: packed, B = 1; 0: not packed */
    int32_t offsets_dtype;         /* FLASHSCAN_DTYPE_I32, FLASHSCAN_DTYPE_I64; 0: I64 */
    int32_t reserved;              /* 0 */
    flashscan_strides input, gate, output;
    flashscan_strides grad_input, grad_gate, grad_output;
    flashscan_state_strides state_in, state_out, grad_state_in, grad_state_out;
    int64_t state_pool; /* > 0: rows of the pools that STATE_IN and STATE_OUT are; 0: none */
} flashscan_linear_desc;

typedef struct flashscan_plan flashscan_plan;

/*
 * Creates a plan for the linear recurrence. *plan is NULL on failure. `options` may be NULL. A plan is immutable: any
 * number of threads may execute it at the same time.
 */
FLASHSCAN_API_STATUS flashscan_plan_linear(flashscan_plan** plan, const flashscan_linear_desc* desc,
                                           const flashscan_options* options);

/* ==== 6  Recurrent networks =================================================================================== */

/*
 * A layer whose input product is the caller's: INPUT is W x. Each of H heads has its own D x D matrix for each gate
 * (a block-diagonal recurrent matrix); H = 1 is the usual layer. For every batch b and head, with vectors of D numbers,
 * R_g = WEIGHT[g, head] (row: out, column: in), and products elementwise but for R_g h:
 *
 *     raw_g[t] = INPUT[t]_g + R_g h[t-1] + BIAS_g
 *     states[-1] = STATE_IN (zeros if not given),  STATE_OUT = states[T-1] (STATE_IN when T = 0)
 *     OUTPUT = h, or all S states with RNN_FLAG_ALL_STATES
 *
 *     cell              gates     states     equations, with s(x) = 1 / (1 + exp(-x))
 *
 *     LSTM              i f z o   h c        c' = s(f) c + s(i) tanh(z);  h' = s(o) tanh(c')
 *     GRU               r z n     h          n = tanh(INPUT_n + BIAS_n + s(r) (R_n h + BIAS_rn));
 *                                            h' = (1 - s(z)) n + s(z) h              biases r z n rn
 *     GRU_RESET_BEFORE  r z n     h          n = tanh(INPUT_n + BIAS_n + R_n (s(r) h)); h' as in GRU
 *     MGU               f n       h          n = tanh(INPUT_n + BIAS_n + R_n (s(f) h));
 *                                            h' = (1 - s(f)) h + s(f) n
 *     ELMAN             one       h          h' = tanh(raw)
 *     ELMAN_RELU        one       h          h' = max(raw, 0)
 *     SLSTM             i f z o   h c n m    l = log s(f) + m;  m' = i if n = 0, else max(i, l);
 *                                            c' = exp(l - m') c + exp(i - m') tanh(z);
 *                                            n' = max(exp(l - m') n + exp(i - m'), 1);  h' = s(o) c' / n'
 *
 * (Hochreiter and Schmidhuber 1997; Cho et al., arXiv 1406.1078; Zhou et al., "Minimal Gated Unit for Recurrent Neural
 * Networks", arXiv 1603.09420; Elman 1990; Beck et al., arXiv 2405.04517.) Gates are in PyTorch's order for LSTM (i f g
 * o) and GRU (r z n); PyTorch's GRU is GRU with BIAS_r = b_ir + b_hr, BIAS_z = b_iz + b_hz, BIAS_n = b_in, BIAS_rn =
 * b_hn.
 *
 * sLSTM: c and n stand for c exp(m) and n exp(m); m only keeps the exponentials in range. n = 0 says that an element
 * has no past, its c and m are then not looked at: so it is at the start without STATE_IN and after a reset. From there
 * on n >= 1, the max with 1 never acts, and h does not depend on how m is chosen.
 *
 * Reverse in time, RESET (RNN_FLAG_RESET: reset[b, t] != 0 makes all states 0 before step t; INPUT[t] still enters),
 * SEQ_OFFSETS (num_sequences > 0) and the sentences about "first", "before" and "after" are those of the linear
 * recurrence. NaN and infinity flow as the arithmetic says, and stop at a reset. Large inputs saturate the gates; no
 * exponential overflows on the way.
 *
 * Backward: with the gradients of OUTPUT and STATE_OUT given, it writes those of INPUT, WEIGHT, BIAS and STATE_IN that
 * are asked for: exact derivatives of the equations above, those of all states included. It needs a plan with
 * RNN_FLAG_TRAINING, whose forward fills RESERVE: keep it, OUTPUT, WEIGHT and STATE_IN as they are until backward is
 * done. Nothing given is overwritten and backward may be called repeatedly, with the same bits. GRAD|WEIGHT and
 * GRAD|BIAS are summed over batch and time in a fixed order. No gradient passes a reset.
 *
 * sLSTM's c, n, m: gradients enter through h, through all states in OUTPUT and through the final states, and leave in
 * GRAD|STATE_IN. Where the loss depends on c, n and m through c exp(m) and n exp(m) alone, as every loss on h of this
 * or of a following piece does, m cancels and its gradient is c grad_c + n grad_n; what exceeds this (a loss on m
 * itself) is passed on through the max to i or to f and the m before, to i where they are equal. Where the max with 1
 * acts, nothing passes it. With n = 0 in STATE_IN, the gradients of that element's c, n and m are 0.
 *
 * recurrent_clip > 0: the gradient that reaches h[t-1] (or STATE_IN's h) through R is limited to
 * [-recurrent_clip, recurrent_clip], each element at every step, before what reaches it on other ways is added; NaN
 * stays NaN. Gradients are then no longer derivatives.
 *
 * A GPU may take a gate below 2^-126, in f64 2^-1021, for 0.
 *
 * Data types: dtype is that of INPUT, OUTPUT and their gradients; WEIGHT, BIAS and their gradients have weight_dtype:
 *
 *     dtype          f32   bf16       f16       f64
 *     weight_dtype   f32   bf16 f32   f16 f32   f64
 *
 * States are carried from step to step, and STATE_IN, STATE_OUT and their gradients are stored, in f32 for 16-bit and
 * f32 data, else f64; so are sums and all arithmetic. With 16-bit data the factors of a matrix product (h, R, and in
 * backward the gradients of raw) may be rounded to dtype before they are multiplied, nothing else is. On a GPU products
 * of f32 data may run on tensor cores, as sums of products of their parts: an infinite factor may then give NaN.
 *
 * RNN_FLAG_ALLOW_TF32 lets the same factors of f32 data be rounded to tf32, which keeps 10 bits after the leading one,
 * where a GPU is then faster. A factor is off by at most 2^-10 of itself, or 2^-126 if that is more, and an element of
 * a product x y, h with R or a gradient with R or h, by at most 2^-9 of |x| |y| besides the rounding of f32 sums. How
 * much of that reaches OUTPUT depends on the network, as with 16-bit data, whose factors of bf16 are 4 times as coarse.
 * All else stays f32. CPU plans, GPU kernels that have no such product and other data types do not heed it; the plan's
 * description says where products take tf32. Forward and backward must be of plans that agree on it.
 *
 * Arguments; BS is B, or N if packed:       shape                      forward        backward
 *
 *     INPUT                                 see the layout             in             -
 *     WEIGHT                                [G,H,D,D] (out, in)        in             in
 *     BIAS                                  [G,H,D]; GRU [4,H,D]       optional in    -
 *     OUTPUT                                see the layout             out            in
 *     STATE_IN                              [S,BS,H,D]                 optional in    optional in: if it was in forward
 *     STATE_OUT                             as STATE_IN                optional out   -
 *     RESERVE          bytes                plan_arg_bytes             out if train.  in
 *     RESET            uint8                [B,T]                      in if flag     in if flag
 *     SEQ_OFFSETS      i32 or i64           [N+1]                      in if N > 0    in if N > 0
 *     STATE_INDICES    i32                  [BS]                       in if pool     -
 *     ITERATIONS       i32                  [BS]                       optional out   -
 *     RESIDUAL         f32                  [BS]                       optional out   -
 *     GRAD|OUTPUT                           as OUTPUT                  -              in
 *     GRAD|STATE_OUT                        as STATE_IN                -              optional in
 *     GRAD|INPUT, |WEIGHT, |BIAS, |STATE_IN as INPUT, WEIGHT, ...      -              out, at least one of them
 *     SCRATCH                               plan_arg_bytes             optional       optional
 *
 * A BIAS that is not given is zero; GRAD|BIAS is there all the same. Everything but the states is dense. Inputs may
 * overlap each other; nothing that is written may overlap another argument, but for STATE_OUT and STATE_IN of a pool.
 * RESERVE holds what the plan's own kernel needs, aligned to 64 bytes, and is understood by plans of the same
 * descriptor, options and library alone. Its first 64 bytes say which plan filled it and whether there was a STATE_IN:
 * backward with another RESERVE, or with STATE_IN where forward had none or the other way round, is
 * FLASHSCAN_STATUS_INVALID_ARGUMENT. On a GPU this is checked if the plans of forward and backward were both made under
 * FLASHSCAN_CHECK=1. A backward that a graph captures is not checked; a captured forward fills RESERVE for the check.
 *
 * ITERATIONS and RESIDUAL are arguments of networks whose heads have one unit (D = 1), whose steps a GPU may run side
 * by side, in segments of time whose first states it finds by Newton's iteration (the plan's description says so).
 * ITERATIONS is how often the segments of a row were walked, the largest count among its units and among the stretches
 * of time that are walked one after another; 0 where steps ran one after the other,
 * as they always do on a CPU. RESIDUAL is by how much a segment of the row may have begun off the end of the one
 * before, at the most, in parts of the recent magnitude of that state. The iteration goes on until that is 2^-21 or
 * less, with 16-bit data 2^-17, and has no other end: a segment that it has not settled is walked from the exact state
 * in the end.
 */
enum {
    FLASHSCAN_CELL_LSTM = 901,
    FLASHSCAN_CELL_GRU = 902, /* reset after the product */
    FLASHSCAN_CELL_ELMAN = 903,
    FLASHSCAN_CELL_SLSTM = 904,
    FLASHSCAN_CELL_GRU_RESET_BEFORE = 905,
    FLASHSCAN_CELL_ELMAN_RELU = 906,
    FLASHSCAN_CELL_MGU = 907
};

/* Bits of flags. */
enum {
    FLASHSCAN_RNN_FLAG_RESET = 0x100,      /* there is a RESET argument */
    FLASHSCAN_RNN_FLAG_ALL_STATES = 0x200, /* OUTPUT and GRAD|OUTPUT hold all S states, h first */
    FLASHSCAN_RNN_FLAG_TRAINING = 0x400,   /* backward will be called: forward fills RESERVE */
    FLASHSCAN_RNN_FLAG_ALLOW_TF32 = 0x800  /* factors of products of f32 data may be rounded to tf32 */
};

/* struct_size = sizeof(flashscan_rnn_desc). Zero means the default in every field except the extents, dtype and cell. */
typedef struct flashscan_rnn_desc {
    uint32_t struct_size;
    int32_t dtype;
    int32_t weight_dtype;    /* 0: dtype */
    int32_t layout;          /* FLASHSCAN_LAYOUT_BTGHD, FLASHSCAN_LAYOUT_TBGHD; 0: BTGHD */
    int32_t cell;            /* FLASHSCAN_CELL_*; needed */
    int32_t direction;       /* FLASHSCAN_DIRECTION_*; 0: FORWARD */
    uint32_t flags;          /* FLASHSCAN_RNN_* */
    int32_t offsets_dtype;   /* FLASHSCAN_DTYPE_I32, FLASHSCAN_DTYPE_I64; 0: I64 */
    int64_t batch, time;     /* B, T >= 0 */
    int64_t heads, head_dim; /* H, D >= 1 */
    int64_t num_sequences;   /* N > 0: packed, B = 1; 0: not packed */
    double recurrent_clip;   /* >= 0 and finite; 0: no limit */
    flashscan_state_strides state_in, state_out, grad_state_in, grad_state_out;
    int64_t state_pool; /* > 0: rows of the pools that STATE_IN and STATE_OUT are; 0: none */
} flashscan_rnn_desc;

/*
 * Creates a plan for a recurrent network. *plan is NULL on failure. `options` may be NULL. A plan is immutable: any
 * number of threads may execute it at the same time. PASS_BACKWARD of a plan that lacks RNN_FLAG_TRAINING is
 * FLASHSCAN_STATUS_INVALID_ARGUMENT.
 */
FLASHSCAN_API_STATUS flashscan_plan_rnn(flashscan_plan** plan, const flashscan_rnn_desc* desc,
                                        const flashscan_options* options);

/* ==== 7  Associative operators ================================================================================ */

/*
 * Prefix scans and reductions of elements x[0], x[1], ... under an associative operator, which need not commute. For
 * every batch b and chain c:
 *
 *     y[-1] = STATE_IN, y[t] = y[t-1] o x[t]       without STATE_IN y[0] = x[0]; STATE_IN is the left operand of x[0]
 *     MODE_INCLUSIVE   OUTPUT[t] = y[t]
 *     MODE_EXCLUSIVE   OUTPUT[t] = y[t-1]          OUTPUT[0] = STATE_IN, the identity if not given
 *     MODE_REDUCTION   OUTPUT = y[T-1]             bit for bit what the inclusive scan has last
 *     STATE_OUT        y[T-1] in any mode          so that a sequence cut in two can be carried on
 *
 * Operands keep their order, earlier on the left; how they are bracketed is the plan's. Each element is combined about
 * twice at the most, and nothing is combined but elements of one sequence: there is no padding. Reverse in time is the
 * same on the sequence turned round, and turned back: y[t] = x[T-1] o .. o x[t]; "earlier" is then meant in the order
 * of computation. An empty sequence gives STATE_IN, or the identity.
 *
 *     kind        element     l o r                                                   identity    dtype
 *
 *     ADD         number      l + r                                                   0           any, integer
 *     MUL         number      l r                                                     1           any, integer
 *     MIN, MAX    number      the smaller, the larger; NaN if one is NaN              inf, -inf   real, integer
 *     LOGADDEXP   number      log(exp(l) + exp(r)), without overflow                  -inf        real
 *     AND         number      the bits that are in both                               all bits    integer
 *     OR, XOR     number      the bits that are in one of them, in one alone          0           integer
 *     MATMUL      d x d       the matrix product l r, row-major                       unit        any
 *     AFFINE      d numbers   y[t] = W[t] y[t-1] + x[t] with W = GATE, a d x d        y[-1] = 0   any
 *                             matrix (row: out, column: in) for each element x[t]
 *     CUSTOM      bytes       flashscan_custom_operator                               none
 *
 * "any" are real and complex numbers. Integers are i32, i64 and u8, signed but for u8. Their sums and products wrap:
 * they are those of the integers modulo 2^n, for n bits, so that no bracketing changes a bit. The identities of MIN and
 * MAX are the largest and the smallest value of the type. AND of no elements of u8 is 255, which a bool cannot hold.
 *
 * AFFINE scans the maps h -> W h + x: the linear recurrence with matrices as gates, which it equals for diagonal W. It
 * runs step by step, d^2 multiply-adds each, or in parallel over time, about d^3 each, whichever costs less on the
 * plan's backend; its description says which.
 *
 * On a GPU the products of f32 and 16-bit data may run on tensor cores, three of tf32 for one of f32. Their rounding
 * stays below the bound of f32's, (d + 2) 2^-23 of the product of the factors' moduli, but that a factor below the
 * normal numbers is taken in multiples of 2^-136; an infinite element may give NaN.
 *
 * MIN and MAX: of equal operands the earlier one is taken, and of NaN the first, so that the bracketing never changes a
 * bit; the gradient goes to that one alone, STATE_IN counting as the first. LOGADDEXP: equal operands share the
 * gradient, infinite ones too; on a GPU each combination of f32 and 16-bit data may be off by 2^-22 beside rounding,
 * which shows in results near 0. MUL: the gradient of a factor is the product of the others, exact where factors are 0.
 * Powers and products may overflow on the way in one bracketing and not in another.
 *
 * INDEX, of MIN and MAX: the running argmin or argmax, one i64 for each element of OUTPUT. It is the step t of INPUT
 * whose element was taken, counted along T of the array in either direction and for packed sequences too, so that INPUT
 * at (b, INDEX, c) is the element; of equal ones it is the earlier in the order of computation, of NaN the first. It is
 * -1 where no step was taken: where y is STATE_IN or the identity. Plans with a communicator do not take it.
 *
 * CUSTOM knows no identity: MODE_EXCLUSIVE needs STATE_IN, and an empty sequence without STATE_IN leaves its part of
 * OUTPUT and STATE_OUT as it is.
 *
 * Backward: exact derivatives with respect to INPUT, GATE and STATE_IN for the gradients of OUTPUT and STATE_OUT, in
 * PyTorch's convention for complex numbers, repeatable and with the same bits. With g[t] the gradient of y[t]:
 *
 *     MATMUL    g[t-1] = dy[t-1] + g[t] x[t]^H,    GRAD|INPUT[t] = y[t-1]^H g[t]
 *     AFFINE    g[t-1] = dy[t-1] + W[t]^H g[t],    GRAD|INPUT[t] = g[t],  GRAD|GATE[t] = g[t] y[t-1]^H
 *     others    g[t-1] = dy[t-1] + d(y[t])/d(y[t-1]) g[t],  GRAD|INPUT[t] = d(y[t])/d(x[t]) g[t]
 *
 * Its scratch is proportional to n elements. CUSTOM has backward if the operator has an adjoint, integers have none.
 *
 * Data types: dtype is that of INPUT, GATE, OUTPUT and their gradients. STATE_IN, STATE_OUT, their gradients and all
 * arithmetic are f32 for 16-bit and f32 data, else dtype. OPERATOR_FLAG_ALLOW_TF32 lets the factors of matrix products
 * of f32 data be rounded to tf32 (11 significant bits) where that is faster; other data do not heed it.
 *
 * Element (b, t, c) of INPUT, GATE and of OUTPUT of scans is number ((b T + t) C + c) of the array in LAYOUT_BTC and
 * ((b C + c) T + t) in LAYOUT_BCT, for elements of any kind. BS is B, or N if packed; SEQ_OFFSETS is as in the linear
 * recurrence, with one state in and out and one element of a reduction per sequence.
 *
 * Arguments:                                shape               forward         backward
 *
 *     INPUT                                 [B,T,C,element]     in              in; not for ADD, for AFFINE only with
 *                                                                               GRAD|GATE of a reduction
 *     GATE                                  [B,T,C,d,d]         in if AFFINE    in if AFFINE
 *     OUTPUT of a scan                      as INPUT            out             MATMUL: in, needed for GRAD|INPUT;
 *                                                                               AFFINE: in, needed for GRAD|GATE
 *     OUTPUT of a reduction                 [BS,C,element]      out             -
 *     INDEX               i64               as OUTPUT           optional out if MIN or MAX
 *     STATE_IN                              [BS,C,element]      optional in     optional in: if it was in forward
 *     STATE_OUT                             as STATE_IN         optional out    -
 *     SEQ_OFFSETS         i32 or i64        [N+1]               in if N > 0     in if N > 0
 *     GRAD|OUTPUT, GRAD|STATE_OUT           as those            -               in, optional in
 *     GRAD|INPUT, GRAD|GATE, GRAD|STATE_IN  as those            -               out, at least one of them
 *     SCRATCH                               plan_arg_bytes      optional        optional
 *
 * GRAD|STATE_IN needs STATE_IN. Inputs may overlap each other; nothing that is written may overlap another argument.
 */
enum {
    FLASHSCAN_OPERATOR_ADD = 1001,
    FLASHSCAN_OPERATOR_MUL = 1002,
    FLASHSCAN_OPERATOR_MIN = 1003,
    FLASHSCAN_OPERATOR_MAX = 1004,
    FLASHSCAN_OPERATOR_LOGADDEXP = 1005,
    FLASHSCAN_OPERATOR_MATMUL = 1006,
    FLASHSCAN_OPERATOR_AFFINE = 1007,
    FLASHSCAN_OPERATOR_CUSTOM = 1008,
    FLASHSCAN_OPERATOR_AND = 1009,
    FLASHSCAN_OPERATOR_OR = 1010,
    FLASHSCAN_OPERATOR_XOR = 1011
};

enum {
    FLASHSCAN_MODE_INCLUSIVE = 1101,
    FLASHSCAN_MODE_EXCLUSIVE = 1102,
    FLASHSCAN_MODE_REDUCTION = 1103
};

/* Bits of flags. */
enum {
    FLASHSCAN_OPERATOR_FLAG_ALLOW_TF32 = 0x10000
};

/* Forms of the device code of a custom operator. */
enum {
    FLASHSCAN_CODE_CUDA_SOURCE = 1201, /* CUDA C++, compiled when the plan is made */
    FLASHSCAN_CODE_LTO_IR = 1202       /* NVVM's link-time intermediate representation, linked when the plan is made */
};

/*
 * A custom operator on elements of element_bytes bytes, given in one or more of three ways.
 *
 * Host functions serve CPU plans: *out = *lhs o *rhs, called from several threads at once. `state` is passed through.
 * The adjoint writes what grad_out gives to lhs and to rhs into grad_lhs and grad_rhs. Gradients have the bytes of an
 * element and are made of numbers of the descriptor's dtype, by which the library adds them.
 *
 * Batched callbacks serve plans of both backends, where the operator is itself a call of a framework: `count`
 * independent pairs at once, pair i at lhs + i * lhs_stride and so on, strides in bytes. They are called about
 * 2 log2(T) times, for each level of a tree, on the thread that executes the plan, one call at a time. On CUDA the
 * pointers are device memory and the work must be enqueued on `stream`; on the CPU it must be done on return and stream
 * is NULL. They return 0, or any other number to make the call fail with FLASHSCAN_STATUS_CALLBACK_FAILED, after which
 * the outputs hold no results. CPU plans take the callback where both a host function and a callback are given, CUDA
 * plans the device code. Packed sequences on CUDA are device code's alone: how many pairs a level then has is on the
 * device.
 *
 * Device code serves CUDA plans: extern "C" __device__ void NAME(const void* lhs, const void* rhs, void* out), the
 * convention of CCCL's C library; with state_bytes > 0 NAME(void* state, lhs, rhs, out), where `state` is a copy of the
 * state_bytes bytes at `state` that the plan makes. The adjoint is of the host adjoint's shape without state, or with
 * it first. Source is C++20 for NVRTC, which finds the headers of the toolkit that it comes with; LTO-IR must be of
 * code for the device's compute capability or an older one. Compiling takes parts of a second, once in a process for
 * the same code and element_bytes. The code is not needed any more once the plan is made; `state` of host functions and
 * callbacks is, and the copy lives as long as the plan: destroying one with state_bytes > 0 waits for the device, and
 * graphs that captured its calls must not be launched any more.
 *
 * In all of them outputs never overlap inputs, and operands lie in the caller's arrays or in memory of the library that
 * is aligned to the largest power of two that divides element_bytes, up to 256. They must return to their caller.
 */
typedef void(FLASHSCAN_CALL* flashscan_host_operator)(void* state, const void* lhs, const void* rhs, void* out);
typedef void(FLASHSCAN_CALL* flashscan_host_adjoint)(void* state, const void* lhs, const void* rhs,
                                                     const void* grad_out, void* grad_lhs, void* grad_rhs);
typedef int32_t(FLASHSCAN_CALL* flashscan_batched_operator)(void* state, const void* lhs, int64_t lhs_stride,
                                                            const void* rhs, int64_t rhs_stride, void* out,
                                                            int64_t out_stride, int64_t count, void* stream);
/* Elements of all five arrays lie element_bytes apart. */
typedef int32_t(FLASHSCAN_CALL* flashscan_batched_adjoint)(void* state, const void* lhs, const void* rhs,
                                                           const void* grad_out, void* grad_lhs, void* grad_rhs,
                                                           int64_t count, void* stream);

/* struct_size = sizeof(flashscan_custom_operator). Zero or NULL: not given. */
typedef struct flashscan_custom_operator {
    uint32_t struct_size;
    int32_t code_kind;     /* FLASHSCAN_CODE_*, 0: no device code */
    int64_t element_bytes; /* 1 to 4096; any number if a batched callback is all there is */
    void* state;
    size_t state_bytes; /* of the device code's state; 0: it has none */
    flashscan_host_operator host;
    flashscan_host_adjoint host_adjoint;
    flashscan_batched_operator batched;
    flashscan_batched_adjoint batched_adjoint;
    const void* code;
    size_t code_bytes;        /* without a closing zero */
    const char* name;         /* of the device function */
    const char* adjoint_name; /* NULL: none */
} flashscan_custom_operator;

/* struct_size = sizeof(flashscan_operator_desc). Zero means the default in every field except the extents, dtype and kind. */
typedef struct flashscan_operator_desc {
    uint32_t struct_size;
    int32_t dtype;                           /* 0 for CUSTOM */
    int32_t kind;                            /* FLASHSCAN_OPERATOR_*; needed */
    int32_t layout;                          /* FLASHSCAN_LAYOUT_BTC, FLASHSCAN_LAYOUT_BCT; 0: BTC */
    int32_t mode;                            /* FLASHSCAN_MODE_*; 0: INCLUSIVE */
    int32_t direction;                       /* FLASHSCAN_DIRECTION_*; 0: FORWARD */
    uint32_t flags;                          /* FLASHSCAN_OPERATOR_FLAG_ALLOW_TF32 */
    int32_t offsets_dtype;                   /* FLASHSCAN_DTYPE_I32, FLASHSCAN_DTYPE_I64; 0: I64 */
    int64_t batch, time;                     /* B, T >= 0 */
    int64_t channels;                        /* C >= 0, chains side by side */
    int64_t dim;                             /* d of MATMUL and AFFINE, 1 to 1024; else 0 */
    int64_t num_sequences;                   /* N > 0: packed, B = 1; 0: not packed */
    const flashscan_custom_operator* custom; /* of CUSTOM; else NULL; not needed any more once the plan is made */
    flashscan_state_strides state_in, state_out, grad_state_in, grad_state_out;
} flashscan_operator_desc;

/*
 * Creates a plan for an associative operator. *plan is NULL on failure. `options` may be NULL. A plan is immutable: any
 * number of threads may execute it at the same time. PASS_BACKWARD of integers, and of a custom operator that has
 * no adjoint, is FLASHSCAN_STATUS_INVALID_ARGUMENT. The bits of a result do not depend on the number of threads.
 */
FLASHSCAN_API_STATUS flashscan_plan_operator(flashscan_plan** plan, const flashscan_operator_desc* desc,
                                             const flashscan_options* options);

/* ==== 8  Gated layers ========================================================================================== */

/*
 * The linear recurrence together with what surrounds it in a layer, in one pass over memory. For every batch b and
 * channel c, all of it elementwise, with s(x) = 1 / (1 + exp(-x)):
 *
 *     a[t] = decay(GATE[t] + BIAS[c])          BIAS is zero if not given
 *     v[t] = activation(INPUT[t]) * input gate
 *     h[t] = a[t] * h[t-1] + scale(a[t]) * v[t]         h[-1] = STATE_IN, zeros if not given
 *     OUTPUT[t] = epilogue(h[t]),  STATE_OUT = h[T-1]   STATE_IN passes through when T = 0
 *
 *     decay               a, with g = GATE + BIAS, p = PARAM[c], i = SECOND_GATE
 *
 *     VALUE               g
 *     EXP                 exp(g)
 *     SIGMOID             s(g)
 *     ONE_MINUS_SIGMOID   1 - s(g)
 *     LOWER_BOUND         p + (1 - p) s(g)
 *     SOFTPLUS            exp(-decay_rate softplus(p) s(g)),  softplus(p) = log(1 + exp(p))
 *     RATIO               s(g) / (s(g) + s(i))
 *
 *     scale               ONE 1,  ONE_MINUS 1 - a,  SQRT sqrt(1 - a^2)
 *     activation of x     NONE x,  TANH tanh(x),  SILU x s(x),  POSITIVE x + 1/2 for x >= 0, else s(x)
 *     input gate          NONE 1,  SIGMOID s(INPUT_GATE)
 *     epilogue of h       NONE h,  SIGMOID h s(o),  SILU h o s(o),  TANH_SIGMOID tanh(h) s(o),  o = OUTPUT_GATE
 *
 * 1 - a is formed without cancellation, so that scales are accurate where a is near 1. They are meant for a in [0, 1],
 * which all decays give but VALUE and EXP; SQRT is NaN for a above 1 in magnitude.
 *
 * The layers with a name are rows of one table, whose parts `layer` stands for; the fields of the parts are then zero:
 *
 *     layer     decay               scale       activation   input gate   epilogue
 *
 *     MINGRU    ONE_MINUS_SIGMOID   ONE_MINUS   POSITIVE     -            -          GATE is z before its sigmoid
 *     MINLSTM   RATIO               ONE_MINUS   POSITIVE     -            -          GATE is f, SECOND_GATE i
 *     HGRN      LOWER_BOUND         ONE_MINUS   SILU         -            -          PARAM is the lower bound
 *     RGLRU     SOFTPLUS            SQRT        -            SIGMOID      -          with GATED_FLAG_FIRST_STEP
 *     QRNN      SIGMOID             ONE_MINUS   TANH         -            SIGMOID    fo-pooling
 *     GILR      SIGMOID             ONE_MINUS   TANH         -            -
 *
 * (Feng et al., arXiv 2410.01201; Qin et al., arXiv 2311.04823; De et al., arXiv 2402.19427; Bradbury et al., arXiv
 * 1611.01576; Martin and Cundy, arXiv 1709.04057.)
 *
 * GATED_FLAG_FIRST_STEP: the scale is 1 where a sequence starts, whatever a is there: at every step that RESET names,
 * and at the first step of each sequence if the call has no STATE_IN. With STATE_IN a sequence goes on, and its first
 * step is scaled like any other; a new sequence beside such ones has a RESET at its first step. So RecurrentGemma and
 * its ports count, for which a sequence starts at position 0.
 *
 * sqrt_slope_limit > 0 bounds the derivative 1 / (2 sqrt(s)) of SQRT by it, which is infinite at a = 1: gradients are
 * then no longer derivatives where 1 - a^2 is below 1 / (2 sqrt_slope_limit)^2. RecurrentGemma has 1000.
 *
 * Layouts, strides, direction, RESET (GATED_FLAG_RESET), SEQ_OFFSETS and the sentences about "first", "before" and
 * "after" are those of the linear recurrence, and so is what is said about time in pieces and about NaN. A reset makes
 * the carried state 0: h[t] = scale v[t] there.
 *
 * Backward: exact derivatives with respect to everything that is read, from those of OUTPUT and STATE_OUT. GRAD|PARAM
 * and GRAD|BIAS are summed over batch and time in a fixed order. h comes from OUTPUT where the epilogue is NONE. Else
 * OUTPUT hides it: give forward a RESERVE and keep it until backward is done. Inputs are never overwritten, and
 * backward may be called repeatedly, with the same bits.
 *
 * Data types: dtype is that of INPUT, INPUT_GATE, OUTPUT_GATE, OUTPUT and their gradients; GATE, SECOND_GATE and their
 * gradients have gate_dtype, PARAM, BIAS and their gradients param_dtype, each of them:
 *
 *     dtype                      f32   bf16       f16       f64
 *     gate_dtype, param_dtype    f32   bf16 f32   f16 f32   f64
 *
 * States (STATE_IN, STATE_OUT and their gradients) and all arithmetic are f32 for 16-bit and f32 data, else f64.
 *
 * Arguments:                          shape                    forward        backward
 *
 *     INPUT                           [B,T,C] or [B,C,T]       in             in unless v = INPUT and the scale is ONE
 *     GATE                            as INPUT                 in             in
 *     SECOND_GATE                     as INPUT                 in if RATIO    in if RATIO
 *     INPUT_GATE                      as INPUT                 in if SIGMOID  in if SIGMOID
 *     OUTPUT_GATE                     as INPUT                 in unless NONE in unless NONE
 *     PARAM                           [C]                      in if the decay names it, in both passes
 *     BIAS                            [C]                      optional in    optional in: if it was in forward
 *     OUTPUT                          as INPUT                 out            in if the epilogue is NONE, needed for
 *                                                                             the gradients of GATE, SECOND_GATE,
 *                                                                             PARAM, BIAS
 *     RESERVE          bytes          plan_arg_bytes           optional out   in; it is there unless the epilogue is
 *                                                                             NONE
 *     STATE_IN                        [B,C], [N,C] if packed   optional in    optional in: if it was in forward
 *     STATE_OUT                       as STATE_IN              optional out   -
 *     RESET            uint8          [B,T]                    in if flag     in if flag
 *     SEQ_OFFSETS      i32 or i64     [N+1]                    in if N > 0    in if N > 0
 *     STATE_INDICES    i32            [B], [N] if packed       in if pool     -
 *     GRAD|OUTPUT                     as INPUT                 -              in
 *     GRAD|STATE_OUT                  as STATE_IN              -              optional in
 *     GRAD| of any of the inputs      as the input             -              out, at least one of them
 *     SCRATCH                         plan_arg_bytes           optional       optional
 *
 * RESET, SEQ_OFFSETS, PARAM, BIAS and RESERVE are dense. Arguments that may be the same memory are those of the linear
 * recurrence: OUTPUT and INPUT (where backward does not need it any more); GRAD|INPUT and GRAD|OUTPUT; and unless
 * packed STATE_OUT and STATE_IN; GRAD|STATE_IN and GRAD|STATE_OUT. RESERVE is aligned to 64 bytes and begins with 64
 * bytes that say which plan filled it and whether there was a STATE_IN; backward checks them as that of a recurrent
 * network does.
 */
enum {
    FLASHSCAN_GATED_LAYER_MINGRU = 1501,
    FLASHSCAN_GATED_LAYER_MINLSTM = 1502,
    FLASHSCAN_GATED_LAYER_HGRN = 1503,
    FLASHSCAN_GATED_LAYER_RGLRU = 1504,
    FLASHSCAN_GATED_LAYER_QRNN = 1505,
    FLASHSCAN_GATED_LAYER_GILR = 1506
};

enum {
    FLASHSCAN_GATED_DECAY_VALUE = 1601,
    FLASHSCAN_GATED_DECAY_EXP = 1602,
    FLASHSCAN_GATED_DECAY_SIGMOID = 1603,
    FLASHSCAN_GATED_DECAY_ONE_MINUS_SIGMOID = 1604,
    FLASHSCAN_GATED_DECAY_LOWER_BOUND = 1605, /* PARAM */
    FLASHSCAN_GATED_DECAY_SOFTPLUS = 1606,    /* PARAM, decay_rate */
    FLASHSCAN_GATED_DECAY_RATIO = 1607        /* SECOND_GATE */
};

enum {
    FLASHSCAN_GATED_SCALE_ONE = 1701,
    FLASHSCAN_GATED_SCALE_ONE_MINUS = 1702,
    FLASHSCAN_GATED_SCALE_SQRT = 1703
};

enum {
    FLASHSCAN_GATED_ACTIVATION_NONE = 1801,
    FLASHSCAN_GATED_ACTIVATION_TANH = 1802,
    FLASHSCAN_GATED_ACTIVATION_SILU = 1803,
    FLASHSCAN_GATED_ACTIVATION_POSITIVE = 1804
};

enum {
    FLASHSCAN_GATED_INPUT_GATE_NONE = 1901,
    FLASHSCAN_GATED_INPUT_GATE_SIGMOID = 1902 /* INPUT_GATE */
};

/* All but NONE take OUTPUT_GATE. */
enum {
    FLASHSCAN_GATED_EPILOGUE_NONE = 2101,
    FLASHSCAN_GATED_EPILOGUE_SIGMOID = 2102,
    FLASHSCAN_GATED_EPILOGUE_SILU = 2103,
    FLASHSCAN_GATED_EPILOGUE_TANH_SIGMOID = 2104
};

/* Bits of flags. */
enum {
    FLASHSCAN_GATED_FLAG_RESET = 0x100000,     /* there is a RESET argument */
    FLASHSCAN_GATED_FLAG_FIRST_STEP = 0x200000 /* the scale is 1 where a sequence starts; set in LAYER_RGLRU */
};

/*
 * struct_size = sizeof(flashscan_gated_desc). Zero means the default in every field except the extents, dtype and,
 * where layer is 0, decay. Strides of tensors that the layer has not are zero.
 */
typedef struct flashscan_gated_desc {
    uint32_t struct_size;
    int32_t dtype;
    int32_t gate_dtype;            /* of GATE and SECOND_GATE; 0: dtype */
    int32_t param_dtype;           /* of PARAM and BIAS; 0: dtype */
    int32_t layout;                /* FLASHSCAN_LAYOUT_BTC, _BCT: axes of tensors whose strides are all zero; 0: BTC */
    int32_t layer;                 /* FLASHSCAN_GATED_LAYER_*; 0: the next five fields say what is computed */
    int32_t decay;                 /* FLASHSCAN_GATED_DECAY_*; needed */
    int32_t scale;                 /* FLASHSCAN_GATED_SCALE_*; 0: ONE */
    int32_t activation;            /* FLASHSCAN_GATED_ACTIVATION_*; 0: NONE */
    int32_t input_gating;          /* FLASHSCAN_GATED_INPUT_GATE_*; 0: NONE */
    int32_t epilogue;              /* FLASHSCAN_GATED_EPILOGUE_*; 0: NONE */
    int32_t direction;             /* FLASHSCAN_DIRECTION_*; 0: FORWARD */
    uint32_t flags;                /* FLASHSCAN_GATED_FLAG_* */
    int32_t offsets_dtype;         /* FLASHSCAN_DTYPE_I32, FLASHSCAN_DTYPE_I64; 0: I64 */
    int64_t batch, time, channels; /* B, T, C >= 0 */
    int64_t num_sequences;         /* N > 0: packed, B = 1; 0: not packed */
    double decay_rate;             /* of SOFTPLUS, > 0 and finite; 0: 8 */
    double sqrt_slope_limit;       /* of SQRT, > 0 and finite; 0: no limit */
    flashscan_strides input, gate, second_gate, input_gate, output_gate, output;
    flashscan_strides grad_input, grad_gate, grad_second_gate, grad_input_gate, grad_output_gate, grad_output;
    flashscan_state_strides state_in, state_out, grad_state_in, grad_state_out;
    int64_t state_pool; /* > 0: rows of the pools that STATE_IN and STATE_OUT are; 0: none */
} flashscan_gated_desc;

/*
 * Creates a plan for a gated layer. *plan is NULL on failure. `options` may be NULL. A plan is immutable: any number of
 * threads may execute it at the same time.
 */
FLASHSCAN_API_STATUS flashscan_plan_gated(flashscan_plan** plan, const flashscan_gated_desc* desc,
                                          const flashscan_options* options);

/* ==== 9  Selective scans ======================================================================================= */

/*
 * The state-space layer of Mamba with N states a channel, none of which leaves the chip (Gu and Dao, arXiv 2312.00752).
 * For every batch, channel c and state n, with s(x) = 1 / (1 + exp(-x)):
 *
 *     d[t]    = DELTA[t] + BIAS[c], with SELECTIVE_FLAG_SOFTPLUS log(1 + exp(that))      BIAS is zero if not given
 *     h[t][n] = exp(d[t] A[c][n]) h[t-1][n] + d[t] B[t][n] INPUT[t]         h[-1] = STATE_IN, zeros if not given
 *     y[t]    = sum over n of C[t][n] h[t][n], + D[c] INPUT[t]              D is zero if not given
 *     OUTPUT  = y z s(z), z = OUTPUT_GATE, or y without it                  STATE_OUT = h[T-1]
 *
 * B and C are constant, [C][N], or with SELECTIVE_FLAG_B_PER_STEP and _C_PER_STEP change from step to step: `groups` of
 * neighbouring channels, C / G each, have one of N numbers each. Complex matrices (matrix_dtype) stand for states in
 * conjugate pairs: y is then twice the real part of the sum. A has negative real parts in a layer; nothing asks for it.
 *
 * Direction, RESET (SELECTIVE_FLAG_RESET: the carried states are 0 before step t), SEQ_OFFSETS, layouts, strides and
 * the sentences about "first", "before" and "after" are those of the linear recurrence; so is what is said about NaN.
 *
 * Backward: exact derivatives with respect to everything that is read, from those of OUTPUT and STATE_OUT, in PyTorch's
 * convention for complex numbers. Sums over channels (GRAD|B and GRAD|C per step) and over batch and time (GRAD|A, |D,
 * |BIAS, constant |B and |C) have a fixed order. Forward keeps nothing for it: states are computed once more. Inputs
 * are never overwritten, and backward may be called repeatedly, with the same bits.
 *
 * Data types: INPUT, DELTA, OUTPUT_GATE, OUTPUT and their gradients have dtype; A, constant B and C, the states and
 * their gradients matrix_dtype; B and C per step dtype, or matrix_dtype if that is complex; D, BIAS and theirs the type
 * of a real matrix:
 *
 *     dtype          f32       bf16   f16   f64
 *     matrix_dtype   f32 c64   f32    f32   f64 c128
 *
 * All arithmetic is f32 for 16-bit and f32 data, else f64.
 *
 * Arguments:                       shape                            forward        backward
 *
 *     INPUT, DELTA                 [B,T,C] or [B,C,T]               in             in
 *     OUTPUT_GATE                  as INPUT                         optional in    optional in: if it was in forward
 *     A                            [C,N]                            in             in
 *     B, C                         [C,N]; per step [B,T,G*N] or     in             in
 *                                  [B,G*N,T], a group's N together
 *     D, BIAS                      [C]                              optional in    optional in: if it was in forward
 *     OUTPUT                       as INPUT                         out            -
 *     STATE_IN                     [B,C,N], [sequences,C,N] if      optional in    optional in: if it was in forward
 *                                  packed
 *     STATE_OUT                    as STATE_IN                      optional out   -
 *     RESET         uint8          [B,T]                            in if flag     in if flag
 *     SEQ_OFFSETS   i32 or i64     [sequences + 1]                  in if packed   in if packed
 *     STATE_INDICES i32            [B], [sequences] if packed       in if pool     -
 *     GRAD|OUTPUT                  as INPUT                         -              in
 *     GRAD|STATE_OUT               as STATE_IN                      -              optional in
 *     GRAD| of any of the inputs   as the input                     -              out, at least one of them
 *     SCRATCH                      plan_arg_bytes                   optional       optional
 *
 * A, constant B and C, D, BIAS, RESET and SEQ_OFFSETS are dense. Arguments that may be the same memory are those of the
 * linear recurrence.
 */

/* Bits of flags. */
enum {
    FLASHSCAN_SELECTIVE_FLAG_RESET = 0x1000000,      /* there is a RESET argument */
    FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS = 0x2000000,   /* DELTA + BIAS goes through softplus */
    FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP = 0x4000000, /* B changes from step to step */
    FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP = 0x8000000  /* C changes from step to step */
};

/*
 * struct_size = sizeof(flashscan_selective_desc). Zero means the default in every field except the extents, states and
 * dtype. Strides of constant matrices are zero; those of matrices per step have `channels` from one of the G N numbers
 * of a step to the next.
 */
typedef struct flashscan_selective_desc {
    uint32_t struct_size;
    int32_t dtype;
    int32_t matrix_dtype;          /* 0: F32, F64 with data of F64 */
    int32_t layout;                /* FLASHSCAN_LAYOUT_BTC, _BCT: axes of tensors whose strides are all zero; 0: BTC */
    int32_t direction;             /* FLASHSCAN_DIRECTION_*; 0: FORWARD */
    uint32_t flags;                /* FLASHSCAN_SELECTIVE_FLAG_* */
    int32_t offsets_dtype;         /* FLASHSCAN_DTYPE_I32, FLASHSCAN_DTYPE_I64; 0: I64 */
    int32_t reserved;              /* 0 */
    int64_t batch, time, channels; /* B, T, C >= 0 */
    int64_t states;                /* N of a channel, 1 to 256 */
    int64_t groups;                /* G, a divisor of C, 1 where B and C are constant; 0: 1 */
    int64_t num_sequences;         /* > 0: packed, B = 1; 0: not packed */
    flashscan_strides input, delta, output_gate, b, c, output;
    flashscan_strides grad_input, grad_delta, grad_output_gate, grad_b, grad_c, grad_output;
    flashscan_state_strides state_in, state_out, grad_state_in, grad_state_out;
    int64_t state_pool; /* > 0: rows of the pools that STATE_IN and STATE_OUT are; 0: none */
} flashscan_selective_desc;

/*
 * Creates a plan for a selective scan. *plan is NULL on failure. `options` may be NULL. A plan is immutable: any number
 * of threads may execute it at the same time.
 */
FLASHSCAN_API_STATUS flashscan_plan_selective(flashscan_plan** plan, const flashscan_selective_desc* desc,
                                              const flashscan_options* options);

/* ==== 10  Plans =============================================================================================== */

/*
 * The bytes that argument `arg_id` needs in `pass` (FLASHSCAN_PASS_*). 0 for SCRATCH means that none is used. An id
 * that the pass does not take is FLASHSCAN_STATUS_UNKNOWN_ARGUMENT.
 */
FLASHSCAN_API_STATUS flashscan_plan_arg_bytes(const flashscan_plan* plan, int32_t pass, int32_t arg_id, size_t* bytes);

/*
 * Lists the arguments that `pass` takes, SCRATCH last: writes at most `capacity` of them and stores their number in
 * *count. `infos` may be NULL when capacity is 0. A plan without the pass is FLASHSCAN_STATUS_INVALID_ARGUMENT.
 */
FLASHSCAN_API_STATUS flashscan_plan_args(const flashscan_plan* plan, int32_t pass, flashscan_arg_info* infos,
                                         int32_t capacity, int32_t* count);

/*
 * flashscan_plan_info fills in the kernel and the memory of one pass of a plan. `launches` counts kernels, copies,
 * fills and products of cuBLAS, one each, of a call that is given every argument, aligned to 256 bytes; a graph that is
 * replayed counts as what it holds, a message of NCCL's as one, and what callbacks enqueue does not count.
 */
typedef struct flashscan_pass_info {
    uint32_t struct_size; /* sizeof(flashscan_pass_info), set by the caller */
    int32_t backend;      /* FLASHSCAN_BACKEND_* */
    int32_t device;       /* its number */
    int32_t num_args;     /* that flashscan_plan_args lists */
    size_t scratch_bytes; /* of SCRATCH, in a call */
    size_t reserve_bytes; /* of RESERVE; 0 where there is none */
    const char* kernel;   /* the kernel's name; valid as long as the plan, like detail */
    const char* detail;   /* why and how it runs: a line for people */
    int64_t launches;     /* what a call enqueues on a CUDA device; 0 on the CPU */
} flashscan_pass_info;

/* A plan without the pass is FLASHSCAN_STATUS_INVALID_ARGUMENT. */
FLASHSCAN_API_STATUS flashscan_plan_info(const flashscan_plan* plan, int32_t pass, flashscan_pass_info* info);

/*
 * Describes the plan as text: the problem, the kernel and why it was chosen, and the candidates passed over. Writes at
 * most `capacity` bytes, the closing zero included, and stores the full length without it in *length; `text` may be
 * NULL when capacity is 0, `length` may be NULL.
 */
FLASHSCAN_API_STATUS flashscan_plan_describe(const flashscan_plan* plan, char* text, size_t capacity, size_t* length);

/*
 * Executes a pass of a plan (FLASHSCAN_PASS_*). `stream` is a cudaStream_t for CUDA plans (NULL: the legacy default
 * stream) and is ignored by CPU plans. A CUDA call only enqueues work, never synchronises, and may be captured in a
 * CUDA graph; a CPU call is finished when it returns.
 *
 * Scratch memory that a call takes itself comes from a memory pool of the library, of each device or of the host. The
 * pool keeps for later calls as much as one call of each living plan may take. The rest goes back to the host at once,
 * and to a device the next time that the program waits for it.
 *
 * A recurrent network whose kernel enqueues several launches a step (flashscan_plan_describe says so) pays on the host
 * for each of them. Calls of such a plan that repeat the pointers of an earlier one, SCRATCH's included, are replayed
 * as one CUDA graph, which the second of them makes: keep arguments where they are. A plan keeps graphs for the last
 * four sets of pointers, which take host memory for every launch; calls with the same pointers on several streams then
 * run one after another. The bits are the same either way.
 */
FLASHSCAN_API_STATUS flashscan_execute(const flashscan_plan* plan, int32_t pass, const flashscan_arg* args,
                                       int32_t num_args, void* stream);

/* Destroys a plan. NULL is allowed. Work that was enqueued with the plan is not affected. */
FLASHSCAN_API void FLASHSCAN_CALL flashscan_plan_destroy(flashscan_plan* plan);

#ifdef __cplusplus
}
#endif

#endif
