// SPDX-License-Identifier: Apache-2.0
//! The C interface of libflashscan as it is: structs, constants and functions of `flashscan/flashscan.h`, which is their
//! manual. The crate `flashscan` is the safe way to the same.
//!
//! The build script links the library whose path is in the environment's `FLASHSCAN_LIBRARY`, or `libflashscan.so` in the
//! folder `FLASHSCAN_LIB_DIR`, in the Python package that the crate came with, or where pkg-config finds `flashscan`.
//! `cargo run` and `cargo test` then find it by themselves; a program started otherwise finds it as any shared library is
//! found (the system's folders, `LD_LIBRARY_PATH`, an rpath).
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
    flashscan_status: FLASHSCAN_STATUS_OK = 0, FLASHSCAN_STATUS_INVALID_ARGUMENT = 10,
        FLASHSCAN_STATUS_INVALID_STRUCT = 11, FLASHSCAN_STATUS_STRUCT_TOO_NEW = 12,
        FLASHSCAN_STATUS_SIZE_OVERFLOW = 13, FLASHSCAN_STATUS_MISSING_ARGUMENT = 14,
        FLASHSCAN_STATUS_DOUBLED_ARGUMENT = 15, FLASHSCAN_STATUS_UNKNOWN_ARGUMENT = 16,
        FLASHSCAN_STATUS_BUFFER_TOO_SMALL = 17, FLASHSCAN_STATUS_INVALID_POINTER = 18,
        FLASHSCAN_STATUS_ALIASING = 19, FLASHSCAN_STATUS_UNSUPPORTED = 20, FLASHSCAN_STATUS_BACKEND_MISSING = 21,
        FLASHSCAN_STATUS_NO_DEVICE = 22, FLASHSCAN_STATUS_DEPENDENCY_MISSING = 23,
        FLASHSCAN_STATUS_OUT_OF_MEMORY = 30, FLASHSCAN_STATUS_DEVICE_ERROR = 31,
        FLASHSCAN_STATUS_CALLBACK_FAILED = 32, FLASHSCAN_STATUS_INTERNAL_ERROR = 90;
    i32: FLASHSCAN_BACKEND_CPU = 101, FLASHSCAN_BACKEND_CUDA = 102;
    i32: FLASHSCAN_DTYPE_F32 = 201, FLASHSCAN_DTYPE_BF16 = 202, FLASHSCAN_DTYPE_F16 = 203, FLASHSCAN_DTYPE_F64 = 204,
        FLASHSCAN_DTYPE_C64 = 205, FLASHSCAN_DTYPE_C128 = 206, FLASHSCAN_DTYPE_I32 = 207, FLASHSCAN_DTYPE_I64 = 208,
        FLASHSCAN_DTYPE_U8 = 209;
    i32: FLASHSCAN_LAYOUT_BTC = 301, FLASHSCAN_LAYOUT_BCT = 302, FLASHSCAN_LAYOUT_BTGHD = 303,
        FLASHSCAN_LAYOUT_TBGHD = 304;
    i32: FLASHSCAN_DIRECTION_FORWARD = 401, FLASHSCAN_DIRECTION_REVERSE = 402;
    i32: FLASHSCAN_PASS_FORWARD = 501, FLASHSCAN_PASS_BACKWARD = 502, FLASHSCAN_PASS_TANGENT = 503;
    i32: FLASHSCAN_ARG_INPUT = 2001, FLASHSCAN_ARG_GATE = 2002, FLASHSCAN_ARG_OUTPUT = 2003,
        FLASHSCAN_ARG_STATE_IN = 2004, FLASHSCAN_ARG_STATE_OUT = 2005, FLASHSCAN_ARG_RESET = 2006,
        FLASHSCAN_ARG_SEQ_OFFSETS = 2007, FLASHSCAN_ARG_WEIGHT = 2008, FLASHSCAN_ARG_BIAS = 2009,
        FLASHSCAN_ARG_SCRATCH = 2010, FLASHSCAN_ARG_RESERVE = 2011, FLASHSCAN_ARG_STATE_INDICES = 2012,
        FLASHSCAN_ARG_INPUT_GATE = 2013, FLASHSCAN_ARG_OUTPUT_GATE = 2014, FLASHSCAN_ARG_SECOND_GATE = 2015,
        FLASHSCAN_ARG_PARAM = 2016, FLASHSCAN_ARG_DELTA = 2017, FLASHSCAN_ARG_A = 2018, FLASHSCAN_ARG_B = 2019,
        FLASHSCAN_ARG_C = 2020, FLASHSCAN_ARG_D = 2021, FLASHSCAN_ARG_INDEX = 2022,
        FLASHSCAN_ARG_ITERATIONS = 2023, FLASHSCAN_ARG_RESIDUAL = 2024;
    i32: FLASHSCAN_TANGENT = 0x20000000, FLASHSCAN_GRAD = 0x40000000;
    i32: FLASHSCAN_DETERMINISM_RUN_TO_RUN = 601, FLASHSCAN_DETERMINISM_BATCH_INVARIANT = 602;
    i32: FLASHSCAN_WORKSPACE_LIBRARY = 701, FLASHSCAN_WORKSPACE_CALLER = 702;
    i32: FLASHSCAN_GATE_VALUE = 801, FLASHSCAN_GATE_LOG = 802, FLASHSCAN_GATE_LOGIT = 803;
    u32: FLASHSCAN_BROADCAST_BATCH = 0x1, FLASHSCAN_BROADCAST_TIME = 0x2,
        FLASHSCAN_BROADCAST_CHANNELS = 0x4;
    u32: FLASHSCAN_LINEAR_FLAG_RESET = 0x10;
    i32: FLASHSCAN_CELL_LSTM = 901, FLASHSCAN_CELL_GRU = 902, FLASHSCAN_CELL_ELMAN = 903, FLASHSCAN_CELL_SLSTM = 904,
        FLASHSCAN_CELL_GRU_RESET_BEFORE = 905, FLASHSCAN_CELL_ELMAN_RELU = 906, FLASHSCAN_CELL_MGU = 907;
    u32: FLASHSCAN_RNN_FLAG_RESET = 0x100, FLASHSCAN_RNN_FLAG_ALL_STATES = 0x200,
        FLASHSCAN_RNN_FLAG_TRAINING = 0x400, FLASHSCAN_RNN_FLAG_ALLOW_TF32 = 0x800;
    i32: FLASHSCAN_OPERATOR_ADD = 1001, FLASHSCAN_OPERATOR_MUL = 1002, FLASHSCAN_OPERATOR_MIN = 1003,
        FLASHSCAN_OPERATOR_MAX = 1004, FLASHSCAN_OPERATOR_LOGADDEXP = 1005, FLASHSCAN_OPERATOR_MATMUL = 1006,
        FLASHSCAN_OPERATOR_AFFINE = 1007, FLASHSCAN_OPERATOR_CUSTOM = 1008, FLASHSCAN_OPERATOR_AND = 1009,
        FLASHSCAN_OPERATOR_OR = 1010, FLASHSCAN_OPERATOR_XOR = 1011;
    u32: FLASHSCAN_OPERATOR_FLAG_ALLOW_TF32 = 0x10000;
    i32: FLASHSCAN_MODE_INCLUSIVE = 1101, FLASHSCAN_MODE_EXCLUSIVE = 1102, FLASHSCAN_MODE_REDUCTION = 1103;
    i32: FLASHSCAN_GATED_LAYER_MINGRU = 1501, FLASHSCAN_GATED_LAYER_MINLSTM = 1502, FLASHSCAN_GATED_LAYER_HGRN = 1503,
        FLASHSCAN_GATED_LAYER_RGLRU = 1504, FLASHSCAN_GATED_LAYER_QRNN = 1505, FLASHSCAN_GATED_LAYER_GILR = 1506;
    i32: FLASHSCAN_GATED_DECAY_VALUE = 1601, FLASHSCAN_GATED_DECAY_EXP = 1602, FLASHSCAN_GATED_DECAY_SIGMOID = 1603,
        FLASHSCAN_GATED_DECAY_ONE_MINUS_SIGMOID = 1604, FLASHSCAN_GATED_DECAY_LOWER_BOUND = 1605,
        FLASHSCAN_GATED_DECAY_SOFTPLUS = 1606, FLASHSCAN_GATED_DECAY_RATIO = 1607;
    i32: FLASHSCAN_GATED_SCALE_ONE = 1701, FLASHSCAN_GATED_SCALE_ONE_MINUS = 1702, FLASHSCAN_GATED_SCALE_SQRT = 1703;
    i32: FLASHSCAN_GATED_ACTIVATION_NONE = 1801, FLASHSCAN_GATED_ACTIVATION_TANH = 1802,
        FLASHSCAN_GATED_ACTIVATION_SILU = 1803, FLASHSCAN_GATED_ACTIVATION_POSITIVE = 1804;
    i32: FLASHSCAN_GATED_INPUT_GATE_NONE = 1901, FLASHSCAN_GATED_INPUT_GATE_SIGMOID = 1902;
    i32: FLASHSCAN_GATED_EPILOGUE_NONE = 2101, FLASHSCAN_GATED_EPILOGUE_SIGMOID = 2102,
        FLASHSCAN_GATED_EPILOGUE_SILU = 2103, FLASHSCAN_GATED_EPILOGUE_TANH_SIGMOID = 2104;
    u32: FLASHSCAN_GATED_FLAG_RESET = 0x100000, FLASHSCAN_GATED_FLAG_FIRST_STEP = 0x200000;
    u32: FLASHSCAN_SELECTIVE_FLAG_RESET = 0x1000000, FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS = 0x2000000,
        FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP = 0x4000000, FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP = 0x8000000;
    i32: FLASHSCAN_COMM_CALLBACKS = 2201, FLASHSCAN_COMM_NCCL = 2202;
    u32: FLASHSCAN_COMM_FLAG_SUM_GRADIENTS = 0x10000000;
    i32: FLASHSCAN_CARRIES_GATHERED = 2301, FLASHSCAN_CARRIES_WAVEFRONT = 2302;
    i32: FLASHSCAN_LOG_ERROR = 1301, FLASHSCAN_LOG_INFO = 1302;
    i32: FLASHSCAN_ACCESS_READ = 1401, FLASHSCAN_ACCESS_WRITE = 1402;
    i32: FLASHSCAN_CODE_CUDA_SOURCE = 1201, FLASHSCAN_CODE_LTO_IR = 1202;
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
    pub allocator: *const flashscan_allocator,
    pub log: Option<flashscan_log>,
    pub log_user: *mut c_void,
    pub communicator: *const flashscan_comm,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_allocator {
    pub struct_size: u32,
    pub reserved: i32,
    pub user: *mut c_void,
    pub allocate: Option<unsafe extern "C" fn(user: *mut c_void, bytes: usize, stream: *mut c_void) -> *mut c_void>,
    pub release:
        Option<unsafe extern "C" fn(user: *mut c_void, memory: *mut c_void, bytes: usize, stream: *mut c_void)>,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_comm {
    pub struct_size: u32,
    pub kind: i32,
    pub rank: i32,
    pub size: i32,
    pub user: *mut c_void,
    pub all_gather: Option<
        unsafe extern "C" fn(
            user: *mut c_void,
            send: *const c_void,
            receive: *mut c_void,
            bytes: usize,
            stream: *mut c_void,
        ) -> i32,
    >,
    pub flags: u32,
    pub carries: i32,
    pub groups: i32,
    pub reserved: i32,
    pub send: Option<
        unsafe extern "C" fn(user: *mut c_void, data: *const c_void, bytes: usize, to: i32, stream: *mut c_void) -> i32,
    >,
    pub receive: Option<
        unsafe extern "C" fn(user: *mut c_void, data: *mut c_void, bytes: usize, from: i32, stream: *mut c_void) -> i32,
    >,
    pub nccl: *const flashscan_nccl,
}

/// Functions of NCCL, as addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_nccl {
    pub struct_size: u32,
    pub reserved: i32,
    pub all_gather: *const c_void,
    pub send: *const c_void,
    pub receive: *const c_void,
    pub group_start: *const c_void,
    pub group_end: *const c_void,
    pub comm_count: *const c_void,
    pub comm_rank: *const c_void,
    pub comm_device: *const c_void,
    pub async_error: *const c_void,
    pub error_text: *const c_void,
    pub last_error: *const c_void,
}

pub type flashscan_log = unsafe extern "C" fn(user: *mut c_void, level: i32, message: *const c_char);

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_build {
    pub struct_size: u32,
    pub version: i32,
    pub cuda_toolkit: i32,
    pub cuda_driver: i32,
    pub cuda_architectures: *const c_char,
    pub cuda_unusable: *const c_char,
    pub cpu_instruction_sets: *const c_char,
    pub cpu_instruction_set: *const c_char,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_arg_info {
    pub struct_size: u32,
    pub id: i32,
    pub access: i32,
    pub optional: i32,
    pub dtype: i32,
    pub num_axes: i32,
    pub extents: [i64; 6],
    pub strides: [i64; 6],
    pub bytes: usize,
    pub alignment: usize,
    pub name: *const c_char,
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct flashscan_pass_info {
    pub struct_size: u32,
    pub backend: i32,
    pub device: i32,
    pub num_args: i32,
    pub scratch_bytes: usize,
    pub reserve_bytes: usize,
    pub kernel: *const c_char,
    pub detail: *const c_char,
    pub launches: i64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct flashscan_strides {
    pub batch: i64,
    pub time: i64,
    pub channels: i64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct flashscan_state_strides {
    pub row: i64,
    pub state: i64,
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
    pub state_in: flashscan_state_strides,
    pub state_out: flashscan_state_strides,
    pub grad_state_in: flashscan_state_strides,
    pub grad_state_out: flashscan_state_strides,
    pub state_pool: i64,
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
    pub state_in: flashscan_state_strides,
    pub state_out: flashscan_state_strides,
    pub grad_state_in: flashscan_state_strides,
    pub grad_state_out: flashscan_state_strides,
    pub state_pool: i64,
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
    pub state_in: flashscan_state_strides,
    pub state_out: flashscan_state_strides,
    pub grad_state_in: flashscan_state_strides,
    pub grad_state_out: flashscan_state_strides,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct flashscan_gated_desc {
    pub struct_size: u32,
    pub dtype: i32,
    pub gate_dtype: i32,
    pub param_dtype: i32,
    pub layout: i32,
    pub layer: i32,
    pub decay: i32,
    pub scale: i32,
    pub activation: i32,
    pub input_gating: i32,
    pub epilogue: i32,
    pub direction: i32,
    pub flags: u32,
    pub offsets_dtype: i32,
    pub batch: i64,
    pub time: i64,
    pub channels: i64,
    pub num_sequences: i64,
    pub decay_rate: f64,
    pub sqrt_slope_limit: f64,
    pub input: flashscan_strides,
    pub gate: flashscan_strides,
    pub second_gate: flashscan_strides,
    pub input_gate: flashscan_strides,
    pub output_gate: flashscan_strides,
    pub output: flashscan_strides,
    pub grad_input: flashscan_strides,
    pub grad_gate: flashscan_strides,
    pub grad_second_gate: flashscan_strides,
    pub grad_input_gate: flashscan_strides,
    pub grad_output_gate: flashscan_strides,
    pub grad_output: flashscan_strides,
    pub state_in: flashscan_state_strides,
    pub state_out: flashscan_state_strides,
    pub grad_state_in: flashscan_state_strides,
    pub grad_state_out: flashscan_state_strides,
    pub state_pool: i64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct flashscan_selective_desc {
    pub struct_size: u32,
    pub dtype: i32,
    pub matrix_dtype: i32,
    pub layout: i32,
    pub direction: i32,
    pub flags: u32,
    pub offsets_dtype: i32,
    pub reserved: i32,
    pub batch: i64,
    pub time: i64,
    pub channels: i64,
    pub states: i64,
    pub groups: i64,
    pub num_sequences: i64,
    pub input: flashscan_strides,
    pub delta: flashscan_strides,
    pub output_gate: flashscan_strides,
    pub b: flashscan_strides,
    pub c: flashscan_strides,
    pub output: flashscan_strides,
    pub grad_input: flashscan_strides,
    pub grad_delta: flashscan_strides,
    pub grad_output_gate: flashscan_strides,
    pub grad_b: flashscan_strides,
    pub grad_c: flashscan_strides,
    pub grad_output: flashscan_strides,
    pub state_in: flashscan_state_strides,
    pub state_out: flashscan_state_strides,
    pub grad_state_in: flashscan_state_strides,
    pub grad_state_out: flashscan_state_strides,
    pub state_pool: i64,
}

extern "C" {
    pub fn flashscan_version() -> i32;
    pub fn flashscan_build_info(build: *mut flashscan_build) -> flashscan_status;
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
    pub fn flashscan_plan_gated(
        plan: *mut *mut flashscan_plan,
        desc: *const flashscan_gated_desc,
        options: *const flashscan_options,
    ) -> flashscan_status;
    pub fn flashscan_plan_selective(
        plan: *mut *mut flashscan_plan,
        desc: *const flashscan_selective_desc,
        options: *const flashscan_options,
    ) -> flashscan_status;
    pub fn flashscan_plan_arg_bytes(
        plan: *const flashscan_plan,
        pass: i32,
        arg_id: i32,
        bytes: *mut usize,
    ) -> flashscan_status;
    pub fn flashscan_plan_args(
        plan: *const flashscan_plan,
        pass: i32,
        infos: *mut flashscan_arg_info,
        capacity: i32,
        count: *mut i32,
    ) -> flashscan_status;
    pub fn flashscan_plan_info(
        plan: *const flashscan_plan,
        pass: i32,
        info: *mut flashscan_pass_info,
    ) -> flashscan_status;
    pub fn flashscan_plan_describe(
        plan: *const flashscan_plan,
        text: *mut c_char,
        capacity: usize,
        length: *mut usize,
    ) -> flashscan_status;
    pub fn flashscan_execute(
        plan: *const flashscan_plan,
        pass: i32,
        args: *const flashscan_arg,
        num_args: i32,
        stream: *mut c_void,
    ) -> flashscan_status;
    pub fn flashscan_plan_destroy(plan: *mut flashscan_plan);
}
