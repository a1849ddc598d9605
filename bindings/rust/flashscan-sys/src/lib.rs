// SPDX-License-Identifier: Apache-2.0
//! The C interface of libflashscan as it is: structs, constants and functions of `flashscan/flashscan.h`, which is their
//! manual. The crate `flashscan` is the safe way to the same.
//!
//! The build script links `libflashscan.so` from the folder in `FLASHSCAN_LIB_DIR`, or from where pkg-config finds
//! `flashscan`. `cargo run` and `cargo test` then find it by themselves; a program started otherwise finds it as any
//! shared library is found (the system's folders, `LD_LIBRARY_PATH`, an rpath).
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_void};

pub type flashscan_status = i32;

/// Opaque; made by `flashscan_plan_*`, freed by [`flashscan_plan_destroy`].
#[repr(C)]
pub struct flashscan_plan {
    _private: [u8; 0],
}

/// Constants of the header, and a list of them for the tests.
macro_rules! constants {
    ($($kind:ident: $($name:ident = $value:expr),+;)+) => {
        $($(pub const $name: $kind = $value;)+)+
        #[doc(hidden)]
        pub const CONSTANTS: &[(&str, i64)] = &[$($((stringify!($name), $name as i64)),+),+];
    };
}

constants! {
    flashscan_status: FLASHSCAN_OK = 0, FLASHSCAN_INVALID_ARGUMENT = 10, FLASHSCAN_INVALID_STRUCT = 11,
        FLASHSCAN_STRUCT_TOO_NEW = 12, FLASHSCAN_SIZE_OVERFLOW = 13, FLASHSCAN_MISSING_ARGUMENT = 14,
        FLASHSCAN_DOUBLED_ARGUMENT = 15, FLASHSCAN_UNKNOWN_ARGUMENT = 16, FLASHSCAN_BUFFER_TOO_SMALL = 17,
        FLASHSCAN_INVALID_POINTER = 18, FLASHSCAN_ALIASING = 19, FLASHSCAN_UNSUPPORTED = 20,
        FLASHSCAN_BACKEND_MISSING = 21, FLASHSCAN_NO_DEVICE = 22, FLASHSCAN_DEPENDENCY_MISSING = 23,
        FLASHSCAN_OUT_OF_MEMORY = 30, FLASHSCAN_DEVICE_ERROR = 31, FLASHSCAN_CALLBACK_FAILED = 32,
        FLASHSCAN_INTERNAL_ERROR = 90;
    i32: FLASHSCAN_CPU = 0, FLASHSCAN_CUDA = 1;
    i32: FLASHSCAN_F32 = 1, FLASHSCAN_BF16 = 2, FLASHSCAN_F16 = 3, FLASHSCAN_F64 = 4, FLASHSCAN_C64 = 5,
        FLASHSCAN_C128 = 6, FLASHSCAN_I32 = 7, FLASHSCAN_I64 = 8;
    i32: FLASHSCAN_LAYOUT_BTC = 0, FLASHSCAN_LAYOUT_BCT = 1, FLASHSCAN_LAYOUT_BTGHD = 0, FLASHSCAN_LAYOUT_TBGHD = 1;
    i32: FLASHSCAN_FORWARD_IN_TIME = 0, FLASHSCAN_REVERSE_IN_TIME = 1;
    i32: FLASHSCAN_PASS_FORWARD = 0, FLASHSCAN_PASS_BACKWARD = 1;
    i32: FLASHSCAN_ARG_INPUT = 1, FLASHSCAN_ARG_GATE = 2, FLASHSCAN_ARG_OUTPUT = 3, FLASHSCAN_ARG_STATE_IN = 4,
        FLASHSCAN_ARG_STATE_OUT = 5, FLASHSCAN_ARG_RESET = 6, FLASHSCAN_ARG_SEQ_OFFSETS = 7, FLASHSCAN_ARG_WEIGHT = 8,
        FLASHSCAN_ARG_BIAS = 9, FLASHSCAN_ARG_SCRATCH = 10, FLASHSCAN_ARG_RESERVE = 11, FLASHSCAN_GRAD = 0x100;
    i32: FLASHSCAN_DETERMINISM_RUN_TO_RUN = 0, FLASHSCAN_DETERMINISM_BATCH_INVARIANT = 1,
        FLASHSCAN_WORKSPACE_LIBRARY = 0, FLASHSCAN_WORKSPACE_CALLER = 1;
    i32: FLASHSCAN_GATE_VALUE = 0, FLASHSCAN_GATE_LOG = 1, FLASHSCAN_GATE_LOGIT = 2;
    u32: FLASHSCAN_BROADCAST_BATCH = 1, FLASHSCAN_BROADCAST_TIME = 2, FLASHSCAN_BROADCAST_CHANNELS = 4,
        FLASHSCAN_LINEAR_RESET = 1;
    i32: FLASHSCAN_CELL_LSTM = 0, FLASHSCAN_CELL_GRU = 1, FLASHSCAN_CELL_ELMAN = 2, FLASHSCAN_CELL_SLSTM = 3,
        FLASHSCAN_CELL_GRU_RESET_BEFORE = 4, FLASHSCAN_CELL_ELMAN_RELU = 5;
    u32: FLASHSCAN_RNN_RESET = 1, FLASHSCAN_RNN_ALL_STATES = 2, FLASHSCAN_RNN_TRAINING = 4;
    i32: FLASHSCAN_OPERATOR_ADD = 0, FLASHSCAN_OPERATOR_MUL = 1, FLASHSCAN_OPERATOR_MIN = 2, FLASHSCAN_OPERATOR_MAX = 3,
        FLASHSCAN_OPERATOR_LOGADDEXP = 4, FLASHSCAN_OPERATOR_MATMUL = 5, FLASHSCAN_OPERATOR_AFFINE = 6,
        FLASHSCAN_OPERATOR_CUSTOM = 7, FLASHSCAN_SCAN_INCLUSIVE = 0, FLASHSCAN_SCAN_EXCLUSIVE = 1,
        FLASHSCAN_REDUCTION = 2, FLASHSCAN_CODE_CUDA_SOURCE = 1, FLASHSCAN_CODE_LTO_IR = 2;
    u32: FLASHSCAN_OPERATOR_ALLOW_TF32 = 1;
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_arg {
    pub id: i32,
    pub reserved: i32,
    pub data: *mut c_void,
    pub bytes: usize,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_options {
    pub struct_size: u32,
    pub backend: i32,
    pub device: i32,
    pub threads: i32,
    pub determinism: i32,
    pub workspace: i32,
    pub kernel: *const c_char,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct flashscan_strides {
    pub batch: i64,
    pub time: i64,
    pub channels: i64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct flashscan_linear_desc {
    pub struct_size: u32,
    pub dtype: i32,
    pub gate_dtype: i32,
    pub layout: i32,
    pub gate_form: i32,
    pub gate_broadcast: u32,
    pub direction: i32,
    pub flags: u32,
    pub batch: i64,
    pub time: i64,
    pub channels: i64,
    pub num_sequences: i64,
    pub offsets_dtype: i32,
    pub reserved: i32,
    pub input: flashscan_strides,
    pub gate: flashscan_strides,
    pub output: flashscan_strides,
    pub grad_input: flashscan_strides,
    pub grad_gate: flashscan_strides,
    pub grad_output: flashscan_strides,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct flashscan_rnn_desc {
    pub struct_size: u32,
    pub dtype: i32,
    pub weight_dtype: i32,
    pub layout: i32,
    pub cell: i32,
    pub direction: i32,
    pub flags: u32,
    pub offsets_dtype: i32,
    pub batch: i64,
    pub time: i64,
    pub heads: i64,
    pub head_dim: i64,
    pub num_sequences: i64,
    pub recurrent_clip: f64,
}

pub type flashscan_host_operator =
    unsafe extern "C" fn(state: *mut c_void, lhs: *const c_void, rhs: *const c_void, out: *mut c_void);
pub type flashscan_host_adjoint = unsafe extern "C" fn(
    state: *mut c_void,
    lhs: *const c_void,
    rhs: *const c_void,
    grad_out: *const c_void,
    grad_lhs: *mut c_void,
    grad_rhs: *mut c_void,
);
pub type flashscan_batched_operator = unsafe extern "C" fn(
    state: *mut c_void,
    lhs: *const c_void,
    lhs_stride: i64,
    rhs: *const c_void,
    rhs_stride: i64,
    out: *mut c_void,
    out_stride: i64,
    count: i64,
    stream: *mut c_void,
) -> i32;
pub type flashscan_batched_adjoint = unsafe extern "C" fn(
    state: *mut c_void,
    lhs: *const c_void,
    rhs: *const c_void,
    grad_out: *const c_void,
    grad_lhs: *mut c_void,
    grad_rhs: *mut c_void,
    count: i64,
    stream: *mut c_void,
) -> i32;

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_custom_operator {
    pub struct_size: u32,
    pub code_kind: i32,
    pub element_bytes: i64,
    pub state: *mut c_void,
    pub state_bytes: usize,
    pub host: Option<flashscan_host_operator>,
    pub host_adjoint: Option<flashscan_host_adjoint>,
    pub batched: Option<flashscan_batched_operator>,
    pub batched_adjoint: Option<flashscan_batched_adjoint>,
    pub code: *const c_void,
    pub code_bytes: usize,
    pub name: *const c_char,
    pub adjoint_name: *const c_char,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_operator_desc {
    pub struct_size: u32,
    pub dtype: i32,
    pub kind: i32,
    pub layout: i32,
    pub mode: i32,
    pub direction: i32,
    pub flags: u32,
    pub offsets_dtype: i32,
    pub batch: i64,
    pub time: i64,
    pub channels: i64,
    pub dim: i64,
    pub num_sequences: i64,
    pub custom: *const flashscan_custom_operator,
}

extern "C" {
    pub fn flashscan_version() -> i32;
    pub fn flashscan_status_name(status: flashscan_status) -> *const c_char;
    pub fn flashscan_last_error() -> *const c_char;
    pub fn flashscan_device_count(backend: i32, count: *mut i32) -> flashscan_status;
    pub fn flashscan_plan_linear(
        plan: *mut *mut flashscan_plan,
        desc: *const flashscan_linear_desc,
        options: *const flashscan_options,
    ) -> flashscan_status;
    pub fn flashscan_plan_rnn(
        plan: *mut *mut flashscan_plan,
        desc: *const flashscan_rnn_desc,
        options: *const flashscan_options,
    ) -> flashscan_status;
    pub fn flashscan_plan_operator(
        plan: *mut *mut flashscan_plan,
        desc: *const flashscan_operator_desc,
        options: *const flashscan_options,
    ) -> flashscan_status;
    pub fn flashscan_plan_arg_bytes(
        plan: *const flashscan_plan,
        pass: i32,
        arg_id: i32,
        bytes: *mut usize,
    ) -> flashscan_status;
    pub fn flashscan_plan_describe(
        plan: *const flashscan_plan,
        text: *mut c_char,
        capacity: usize,
        length: *mut usize,
    ) -> flashscan_status;
    pub fn flashscan_forward(
        plan: *const flashscan_plan,
        args: *const flashscan_arg,
        num_args: i32,
        stream: *mut c_void,
    ) -> flashscan_status;
    pub fn flashscan_backward(
        plan: *const flashscan_plan,
        args: *const flashscan_arg,
        num_args: i32,
        stream: *mut c_void,
    ) -> flashscan_status;
    pub fn flashscan_plan_destroy(plan: *mut flashscan_plan);
}
