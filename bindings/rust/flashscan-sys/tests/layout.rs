// SPDX-License-Identifier: Apache-2.0
//! Sizes, offsets, constants and functions against the header and the pins of the C tests.

use flashscan_sys::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::{size_of, MaybeUninit};
use std::path::Path;

fn source(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    fs::read_to_string(root.join(path)).unwrap()
}

macro_rules! offsets {
    ($into:ident; $($kind:ident: $($field:ident),+;)+) => {
        $($({
            let value = MaybeUninit::<$kind>::uninit();
            let start = value.as_ptr();
            let field = unsafe { std::ptr::addr_of!((*start).$field) };
            let offset = field as usize - start as usize;
            $into.insert((stringify!($kind).to_string(), stringify!($field).to_string()), offset);
        })+)+
    };
}

#[test]
fn offsets_are_those_of_the_c_tests() {
    let mut ours = BTreeMap::new();
    offsets! { ours;
        flashscan_arg: id, reserved, data, bytes;
        flashscan_options: struct_size, backend, device, threads, determinism, workspace, kernel, allocator, log,
            log_user, communicator;
        flashscan_allocator: struct_size, reserved, user, allocate, release;
        flashscan_comm: struct_size, kind, rank, size, user, all_gather, flags, carries, groups, reserved, send, receive,
            nccl;
        flashscan_nccl: struct_size, reserved, all_gather, send, receive, group_start, group_end, comm_count, comm_rank,
            comm_device, async_error, error_text, last_error;
        flashscan_build: version, cuda_toolkit, cuda_driver, cuda_architectures, cuda_unusable, cpu_instruction_sets,
            cpu_instruction_set;
        flashscan_arg_info: id, access, optional, dtype, num_axes, extents, strides, bytes, alignment, name;
        flashscan_pass_info: backend, device, num_args, scratch_bytes, reserve_bytes, kernel, detail,
            launches;
        flashscan_strides: batch, time, channels;
        flashscan_state_strides: row, state;
        flashscan_linear_desc: struct_size, dtype, gate_dtype, layout, gate_form, gate_broadcast, direction, flags, batch,
            time, channels, num_sequences, offsets_dtype, reserved, input, gate, output, grad_input, grad_gate,
            grad_output, state_in, state_out, grad_state_in, grad_state_out, state_pool;
        flashscan_rnn_desc: struct_size, dtype, weight_dtype, layout, cell, direction, flags, offsets_dtype, batch, time,
            heads, head_dim, num_sequences, recurrent_clip, state_in, state_out, grad_state_in, grad_state_out,
            state_pool;
        flashscan_custom_operator: struct_size, code_kind, element_bytes, state, state_bytes, host, host_adjoint, batched,
            batched_adjoint, code, code_bytes, name, adjoint_name;
        flashscan_operator_desc: struct_size, dtype, kind, layout, mode, direction, flags, offsets_dtype, batch, time,
            channels, dim, num_sequences, custom, state_in, state_out, grad_state_in, grad_state_out;
        flashscan_gated_desc: struct_size, dtype, gate_dtype, param_dtype, layout, layer, decay, scale, activation,
            input_gating, epilogue, direction, flags, offsets_dtype, batch, time, channels, num_sequences, decay_rate,
            sqrt_slope_limit, input, gate, second_gate, input_gate, output_gate, output, grad_input, grad_gate,
            grad_second_gate, grad_input_gate, grad_output_gate, grad_output, state_in, state_out, grad_state_in,
            grad_state_out, state_pool;
        flashscan_selective_desc: struct_size, dtype, matrix_dtype, layout, direction, flags, offsets_dtype, reserved,
            batch, time, channels, states, groups, num_sequences, input, delta, output_gate, b, c, output, grad_input,
            grad_delta, grad_output_gate, grad_b, grad_c, grad_output, state_in, state_out, grad_state_in,
            grad_state_out, state_pool;
    }
    let mut pinned = BTreeMap::new();
    for line in source("tests/abi/layout.c").lines() {
        if let Some(pin) = line.strip_prefix("PIN_FIELD(").and_then(|rest| rest.strip_suffix(");")) {
            let parts: Vec<&str> = pin.split(", ").collect();
            pinned.insert((parts[0].to_string(), parts[1].to_string()), parts[2].parse().unwrap());
        }
    }
    assert_eq!(ours, pinned);
    assert_eq!(size_of::<flashscan_arg>(), 24);
    assert_eq!(size_of::<flashscan_options>(), 64);
    assert_eq!(size_of::<flashscan_allocator>(), 32);
    assert_eq!(size_of::<flashscan_comm>(), 72);
    assert_eq!(size_of::<flashscan_nccl>(), 96);
    assert_eq!(size_of::<flashscan_build>(), 48);
    assert_eq!(size_of::<flashscan_arg_info>(), 144);
    assert_eq!(size_of::<flashscan_pass_info>(), 56);
    assert_eq!(size_of::<flashscan_strides>(), 24);
    assert_eq!(size_of::<flashscan_state_strides>(), 16);
    assert_eq!(size_of::<flashscan_linear_desc>(), 288);
    assert_eq!(size_of::<flashscan_rnn_desc>(), 152);
    assert_eq!(size_of::<flashscan_custom_operator>(), 96);
    assert_eq!(size_of::<flashscan_operator_desc>(), 144);
    assert_eq!(size_of::<flashscan_gated_desc>(), 464);
    assert_eq!(size_of::<flashscan_selective_desc>(), 440);
}

#[test]
fn constants_are_those_of_the_header() {
    let header = source("include/flashscan/flashscan.h");
    let mut theirs = BTreeMap::new();
    let mut words = header.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if word.starts_with("FLASHSCAN_") && words.peek() == Some(&"=") {
            words.next();
            let number = words.next().unwrap().trim_end_matches(',');
            let number = match number.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16).unwrap(),
                None => number.parse().unwrap(),
            };
            theirs.insert(word, number);
        }
    }
    let ours: BTreeMap<_, _> = CONSTANTS.iter().copied().collect();
    assert_eq!(ours, theirs);
}

#[test]
fn functions_are_those_that_the_library_exports() {
    let crate_source = include_str!("../src/lib.rs");
    let ours: BTreeSet<&str> =
        crate_source.split("pub fn ").skip(1).map(|rest| rest.split('(').next().unwrap()).collect();
    let exported = source("tests/abi/exports.txt");
    assert_eq!(ours, exported.lines().collect());
}

#[test]
fn the_library_is_of_this_major_version_and_no_older() {
    let [major, minor]: [i32; 2] =
        [env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR")].map(|part| part.parse().unwrap());
    let library = unsafe { flashscan_version() };
    assert!(library / 10000 == major && library / 100 % 100 >= minor, "{library}");
}
