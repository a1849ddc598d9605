/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and offsets of version 1.0, which no later 1.x may change. The compiler checks them. */
#include <flashscan/flashscan.h>

#define PIN(name, condition) typedef char pin_##name[(condition) ? 1 : -1]
#define PIN_FIELD(type, field, offset) PIN(type##_##field, offsetof(type, field) == (offset))

PIN(arg, sizeof(flashscan_arg) == 24);
PIN_FIELD(flashscan_arg, id, 0);
PIN_FIELD(flashscan_arg, reserved, 4);
PIN_FIELD(flashscan_arg, data, 8);
PIN_FIELD(flashscan_arg, bytes, 16);

PIN(options, sizeof(flashscan_options) >= 64);
PIN_FIELD(flashscan_options, struct_size, 0);
PIN_FIELD(flashscan_options, backend, 4);
PIN_FIELD(flashscan_options, device, 8);
PIN_FIELD(flashscan_options, threads, 12);
PIN_FIELD(flashscan_options, determinism, 16);
PIN_FIELD(flashscan_options, workspace, 20);
PIN_FIELD(flashscan_options, kernel, 24);
PIN_FIELD(flashscan_options, allocator, 32);
PIN_FIELD(flashscan_options, log, 40);
PIN_FIELD(flashscan_options, log_user, 48);
PIN_FIELD(flashscan_options, communicator, 56);

PIN(allocator, sizeof(flashscan_allocator) >= 32);
PIN_FIELD(flashscan_allocator, struct_size, 0);
PIN_FIELD(flashscan_allocator, reserved, 4);
PIN_FIELD(flashscan_allocator, user, 8);
PIN_FIELD(flashscan_allocator, allocate, 16);
PIN_FIELD(flashscan_allocator, release, 24);

PIN(comm, sizeof(flashscan_comm) >= 72);
PIN_FIELD(flashscan_comm, struct_size, 0);
PIN_FIELD(flashscan_comm, kind, 4);
PIN_FIELD(flashscan_comm, rank, 8);
PIN_FIELD(flashscan_comm, size, 12);
PIN_FIELD(flashscan_comm, user, 16);
PIN_FIELD(flashscan_comm, all_gather, 24);
PIN_FIELD(flashscan_comm, flags, 32);
PIN_FIELD(flashscan_comm, carries, 36);
PIN_FIELD(flashscan_comm, groups, 40);
PIN_FIELD(flashscan_comm, reserved, 44);
PIN_FIELD(flashscan_comm, send, 48);
PIN_FIELD(flashscan_comm, receive, 56);
PIN_FIELD(flashscan_comm, nccl, 64);

PIN(nccl, sizeof(flashscan_nccl) >= 96);
PIN_FIELD(flashscan_nccl, struct_size, 0);
PIN_FIELD(flashscan_nccl, reserved, 4);
PIN_FIELD(flashscan_nccl, all_gather, 8);
PIN_FIELD(flashscan_nccl, send, 16);
PIN_FIELD(flashscan_nccl, receive, 24);
PIN_FIELD(flashscan_nccl, group_start, 32);
PIN_FIELD(flashscan_nccl, group_end, 40);
PIN_FIELD(flashscan_nccl, comm_count, 48);
PIN_FIELD(flashscan_nccl, comm_rank, 56);
PIN_FIELD(flashscan_nccl, comm_device, 64);
PIN_FIELD(flashscan_nccl, async_error, 72);
PIN_FIELD(flashscan_nccl, error_text, 80);
PIN_FIELD(flashscan_nccl, last_error, 88);

PIN(build, sizeof(flashscan_build) >= 48);
PIN_FIELD(flashscan_build, version, 4);
PIN_FIELD(flashscan_build, cuda_toolkit, 8);
PIN_FIELD(flashscan_build, cuda_driver, 12);
PIN_FIELD(flashscan_build, cuda_architectures, 16);
PIN_FIELD(flashscan_build, cuda_unusable, 24);
PIN_FIELD(flashscan_build, cpu_instruction_sets, 32);
PIN_FIELD(flashscan_build, cpu_instruction_set, 40);

PIN(arg_info, sizeof(flashscan_arg_info) >= 144);
PIN_FIELD(flashscan_arg_info, id, 4);
PIN_FIELD(flashscan_arg_info, access, 8);
PIN_FIELD(flashscan_arg_info, optional, 12);
PIN_FIELD(flashscan_arg_info, dtype, 16);
PIN_FIELD(flashscan_arg_info, num_axes, 20);
PIN_FIELD(flashscan_arg_info, extents, 24);
PIN_FIELD(flashscan_arg_info, strides, 72);
PIN_FIELD(flashscan_arg_info, bytes, 120);
PIN_FIELD(flashscan_arg_info, alignment, 128);
PIN_FIELD(flashscan_arg_info, name, 136);

PIN(pass_info, sizeof(flashscan_pass_info) >= 56);
PIN_FIELD(flashscan_pass_info, backend, 4);
PIN_FIELD(flashscan_pass_info, device, 8);
PIN_FIELD(flashscan_pass_info, num_args, 12);
PIN_FIELD(flashscan_pass_info, scratch_bytes, 16);
PIN_FIELD(flashscan_pass_info, reserve_bytes, 24);
PIN_FIELD(flashscan_pass_info, kernel, 32);
PIN_FIELD(flashscan_pass_info, detail, 40);
PIN_FIELD(flashscan_pass_info, launches, 48);

PIN(strides, sizeof(flashscan_strides) == 24);
PIN_FIELD(flashscan_strides, batch, 0);
PIN_FIELD(flashscan_strides, time, 8);
PIN_FIELD(flashscan_strides, channels, 16);

PIN(state_strides, sizeof(flashscan_state_strides) == 16);
PIN_FIELD(flashscan_state_strides, row, 0);
PIN_FIELD(flashscan_state_strides, state, 8);

PIN(linear_desc, sizeof(flashscan_linear_desc) >= 288);
PIN_FIELD(flashscan_linear_desc, struct_size, 0);
PIN_FIELD(flashscan_linear_desc, dtype, 4);
PIN_FIELD(flashscan_linear_desc, gate_dtype, 8);
PIN_FIELD(flashscan_linear_desc, layout, 12);
PIN_FIELD(flashscan_linear_desc, gate_form, 16);
PIN_FIELD(flashscan_linear_desc, gate_broadcast, 20);
PIN_FIELD(flashscan_linear_desc, direction, 24);
PIN_FIELD(flashscan_linear_desc, flags, 28);
PIN_FIELD(flashscan_linear_desc, batch, 32);
PIN_FIELD(flashscan_linear_desc, time, 40);
PIN_FIELD(flashscan_linear_desc, channels, 48);
PIN_FIELD(flashscan_linear_desc, num_sequences, 56);
PIN_FIELD(flashscan_linear_desc, offsets_dtype, 64);
PIN_FIELD(flashscan_linear_desc, reserved, 68);
PIN_FIELD(flashscan_linear_desc, input, 72);
PIN_FIELD(flashscan_linear_desc, gate, 96);
PIN_FIELD(flashscan_linear_desc, output, 120);
PIN_FIELD(flashscan_linear_desc, grad_input, 144);
PIN_FIELD(flashscan_linear_desc, grad_gate, 168);
PIN_FIELD(flashscan_linear_desc, grad_output, 192);
PIN_FIELD(flashscan_linear_desc, state_in, 216);
PIN_FIELD(flashscan_linear_desc, state_out, 232);
PIN_FIELD(flashscan_linear_desc, grad_state_in, 248);
PIN_FIELD(flashscan_linear_desc, grad_state_out, 264);
PIN_FIELD(flashscan_linear_desc, state_pool, 280);

PIN(rnn_desc, sizeof(flashscan_rnn_desc) >= 152);
PIN_FIELD(flashscan_rnn_desc, struct_size, 0);
PIN_FIELD(flashscan_rnn_desc, dtype, 4);
PIN_FIELD(flashscan_rnn_desc, weight_dtype, 8);
PIN_FIELD(flashscan_rnn_desc, layout, 12);
PIN_FIELD(flashscan_rnn_desc, cell, 16);
PIN_FIELD(flashscan_rnn_desc, direction, 20);
PIN_FIELD(flashscan_rnn_desc, flags, 24);
PIN_FIELD(flashscan_rnn_desc, offsets_dtype, 28);
PIN_FIELD(flashscan_rnn_desc, batch, 32);
PIN_FIELD(flashscan_rnn_desc, time, 40);
PIN_FIELD(flashscan_rnn_desc, heads, 48);
PIN_FIELD(flashscan_rnn_desc, head_dim, 56);
PIN_FIELD(flashscan_rnn_desc, num_sequences, 64);
PIN_FIELD(flashscan_rnn_desc, recurrent_clip, 72);
PIN_FIELD(flashscan_rnn_desc, state_in, 80);
PIN_FIELD(flashscan_rnn_desc, state_out, 96);
PIN_FIELD(flashscan_rnn_desc, grad_state_in, 112);
PIN_FIELD(flashscan_rnn_desc, grad_state_out, 128);
PIN_FIELD(flashscan_rnn_desc, state_pool, 144);

PIN(custom_operator, sizeof(flashscan_custom_operator) >= 96);
PIN_FIELD(flashscan_custom_operator, struct_size, 0);
PIN_FIELD(flashscan_custom_operator, code_kind, 4);
PIN_FIELD(flashscan_custom_operator, element_bytes, 8);
PIN_FIELD(flashscan_custom_operator, state, 16);
PIN_FIELD(flashscan_custom_operator, state_bytes, 24);
PIN_FIELD(flashscan_custom_operator, host, 32);
PIN_FIELD(flashscan_custom_operator, host_adjoint, 40);
PIN_FIELD(flashscan_custom_operator, batched, 48);
PIN_FIELD(flashscan_custom_operator, batched_adjoint, 56);
PIN_FIELD(flashscan_custom_operator, code, 64);
PIN_FIELD(flashscan_custom_operator, code_bytes, 72);
PIN_FIELD(flashscan_custom_operator, name, 80);
PIN_FIELD(flashscan_custom_operator, adjoint_name, 88);

PIN(operator_desc, sizeof(flashscan_operator_desc) >= 144);
PIN_FIELD(flashscan_operator_desc, struct_size, 0);
PIN_FIELD(flashscan_operator_desc, dtype, 4);
PIN_FIELD(flashscan_operator_desc, kind, 8);
PIN_FIELD(flashscan_operator_desc, layout, 12);
PIN_FIELD(flashscan_operator_desc, mode, 16);
PIN_FIELD(flashscan_operator_desc, direction, 20);
PIN_FIELD(flashscan_operator_desc, flags, 24);
PIN_FIELD(flashscan_operator_desc, offsets_dtype, 28);
PIN_FIELD(flashscan_operator_desc, batch, 32);
PIN_FIELD(flashscan_operator_desc, time, 40);
PIN_FIELD(flashscan_operator_desc, channels, 48);
PIN_FIELD(flashscan_operator_desc, dim, 56);
PIN_FIELD(flashscan_operator_desc, num_sequences, 64);
PIN_FIELD(flashscan_operator_desc, custom, 72);
PIN_FIELD(flashscan_operator_desc, state_in, 80);
PIN_FIELD(flashscan_operator_desc, state_out, 96);
PIN_FIELD(flashscan_operator_desc, grad_state_in, 112);
PIN_FIELD(flashscan_operator_desc, grad_state_out, 128);

PIN(gated_desc, sizeof(flashscan_gated_desc) >= 464);
PIN_FIELD(flashscan_gated_desc, struct_size, 0);
PIN_FIELD(flashscan_gated_desc, dtype, 4);
PIN_FIELD(flashscan_gated_desc, gate_dtype, 8);
PIN_FIELD(flashscan_gated_desc, param_dtype, 12);
PIN_FIELD(flashscan_gated_desc, layout, 16);
PIN_FIELD(flashscan_gated_desc, layer, 20);
PIN_FIELD(flashscan_gated_desc, decay, 24);
PIN_FIELD(flashscan_gated_desc, scale, 28);
PIN_FIELD(flashscan_gated_desc, activation, 32);
PIN_FIELD(flashscan_gated_desc, input_gating, 36);
PIN_FIELD(flashscan_gated_desc, epilogue, 40);
PIN_FIELD(flashscan_gated_desc, direction, 44);
PIN_FIELD(flashscan_gated_desc, flags, 48);
PIN_FIELD(flashscan_gated_desc, offsets_dtype, 52);
PIN_FIELD(flashscan_gated_desc, batch, 56);
PIN_FIELD(flashscan_gated_desc, time, 64);
PIN_FIELD(flashscan_gated_desc, channels, 72);
PIN_FIELD(flashscan_gated_desc, num_sequences, 80);
PIN_FIELD(flashscan_gated_desc, decay_rate, 88);
PIN_FIELD(flashscan_gated_desc, sqrt_slope_limit, 96);
PIN_FIELD(flashscan_gated_desc, input, 104);
PIN_FIELD(flashscan_gated_desc, gate, 128);
PIN_FIELD(flashscan_gated_desc, second_gate, 152);
PIN_FIELD(flashscan_gated_desc, input_gate, 176);
PIN_FIELD(flashscan_gated_desc, output_gate, 200);
PIN_FIELD(flashscan_gated_desc, output, 224);
PIN_FIELD(flashscan_gated_desc, grad_input, 248);
PIN_FIELD(flashscan_gated_desc, grad_gate, 272);
PIN_FIELD(flashscan_gated_desc, grad_second_gate, 296);
PIN_FIELD(flashscan_gated_desc, grad_input_gate, 320);
PIN_FIELD(flashscan_gated_desc, grad_output_gate, 344);
PIN_FIELD(flashscan_gated_desc, grad_output, 368);
PIN_FIELD(flashscan_gated_desc, state_in, 392);
PIN_FIELD(flashscan_gated_desc, state_out, 408);
PIN_FIELD(flashscan_gated_desc, grad_state_in, 424);
PIN_FIELD(flashscan_gated_desc, grad_state_out, 440);
PIN_FIELD(flashscan_gated_desc, state_pool, 456);

PIN(selective_desc, sizeof(flashscan_selective_desc) >= 440);
PIN_FIELD(flashscan_selective_desc, struct_size, 0);
PIN_FIELD(flashscan_selective_desc, dtype, 4);
PIN_FIELD(flashscan_selective_desc, matrix_dtype, 8);
PIN_FIELD(flashscan_selective_desc, layout, 12);
PIN_FIELD(flashscan_selective_desc, direction, 16);
PIN_FIELD(flashscan_selective_desc, flags, 20);
PIN_FIELD(flashscan_selective_desc, offsets_dtype, 24);
PIN_FIELD(flashscan_selective_desc, reserved, 28);
PIN_FIELD(flashscan_selective_desc, batch, 32);
PIN_FIELD(flashscan_selective_desc, time, 40);
PIN_FIELD(flashscan_selective_desc, channels, 48);
PIN_FIELD(flashscan_selective_desc, states, 56);
PIN_FIELD(flashscan_selective_desc, groups, 64);
PIN_FIELD(flashscan_selective_desc, num_sequences, 72);
PIN_FIELD(flashscan_selective_desc, input, 80);
PIN_FIELD(flashscan_selective_desc, delta, 104);
PIN_FIELD(flashscan_selective_desc, output_gate, 128);
PIN_FIELD(flashscan_selective_desc, b, 152);
PIN_FIELD(flashscan_selective_desc, c, 176);
PIN_FIELD(flashscan_selective_desc, output, 200);
PIN_FIELD(flashscan_selective_desc, grad_input, 224);
PIN_FIELD(flashscan_selective_desc, grad_delta, 248);
PIN_FIELD(flashscan_selective_desc, grad_output_gate, 272);
PIN_FIELD(flashscan_selective_desc, grad_b, 296);
PIN_FIELD(flashscan_selective_desc, grad_c, 320);
PIN_FIELD(flashscan_selective_desc, grad_output, 344);
PIN_FIELD(flashscan_selective_desc, state_in, 368);
PIN_FIELD(flashscan_selective_desc, state_out, 384);
PIN_FIELD(flashscan_selective_desc, grad_state_in, 400);
PIN_FIELD(flashscan_selective_desc, grad_state_out, 416);
PIN_FIELD(flashscan_selective_desc, state_pool, 432);

PIN(statuses, FLASHSCAN_STATUS_OK == 0 && FLASHSCAN_STATUS_INVALID_ARGUMENT == 10 &&
                  FLASHSCAN_STATUS_INVALID_STRUCT == 11 && FLASHSCAN_STATUS_STRUCT_TOO_NEW == 12 &&
                  FLASHSCAN_STATUS_SIZE_OVERFLOW == 13 && FLASHSCAN_STATUS_MISSING_ARGUMENT == 14 &&
                  FLASHSCAN_STATUS_DOUBLED_ARGUMENT == 15 && FLASHSCAN_STATUS_UNKNOWN_ARGUMENT == 16 &&
                  FLASHSCAN_STATUS_BUFFER_TOO_SMALL == 17 && FLASHSCAN_STATUS_INVALID_POINTER == 18 &&
                  FLASHSCAN_STATUS_ALIASING == 19 && FLASHSCAN_STATUS_UNSUPPORTED == 20 &&
                  FLASHSCAN_STATUS_BACKEND_MISSING == 21 && FLASHSCAN_STATUS_NO_DEVICE == 22 &&
                  FLASHSCAN_STATUS_DEPENDENCY_MISSING == 23 && FLASHSCAN_STATUS_OUT_OF_MEMORY == 30 &&
                  FLASHSCAN_STATUS_DEVICE_ERROR == 31 && FLASHSCAN_STATUS_CALLBACK_FAILED == 32 &&
                  FLASHSCAN_STATUS_INTERNAL_ERROR == 90);
PIN(backends, FLASHSCAN_BACKEND_CPU == 101 && FLASHSCAN_BACKEND_CUDA == 102);
PIN(dtypes, FLASHSCAN_DTYPE_F32 == 201 && FLASHSCAN_DTYPE_BF16 == 202 && FLASHSCAN_DTYPE_F16 == 203 &&
                FLASHSCAN_DTYPE_F64 == 204 && FLASHSCAN_DTYPE_C64 == 205 && FLASHSCAN_DTYPE_C128 == 206 &&
                FLASHSCAN_DTYPE_I32 == 207 && FLASHSCAN_DTYPE_I64 == 208 && FLASHSCAN_DTYPE_U8 == 209);
PIN(layouts, FLASHSCAN_LAYOUT_BTC == 301 && FLASHSCAN_LAYOUT_BCT == 302 && FLASHSCAN_LAYOUT_BTGHD == 303 &&
                 FLASHSCAN_LAYOUT_TBGHD == 304);
PIN(directions, FLASHSCAN_DIRECTION_FORWARD == 401 && FLASHSCAN_DIRECTION_REVERSE == 402);
PIN(passes, FLASHSCAN_PASS_FORWARD == 501 && FLASHSCAN_PASS_BACKWARD == 502 && FLASHSCAN_PASS_TANGENT == 503);
PIN(arguments, FLASHSCAN_ARG_INPUT == 2001 && FLASHSCAN_ARG_GATE == 2002 && FLASHSCAN_ARG_OUTPUT == 2003 &&
                   FLASHSCAN_ARG_STATE_IN == 2004 && FLASHSCAN_ARG_STATE_OUT == 2005 && FLASHSCAN_ARG_RESET == 2006 &&
                   FLASHSCAN_ARG_SEQ_OFFSETS == 2007 && FLASHSCAN_ARG_WEIGHT == 2008 && FLASHSCAN_ARG_BIAS == 2009 &&
                   FLASHSCAN_ARG_SCRATCH == 2010 && FLASHSCAN_ARG_RESERVE == 2011 &&
                   FLASHSCAN_ARG_STATE_INDICES == 2012 && FLASHSCAN_ARG_INPUT_GATE == 2013 &&
                   FLASHSCAN_ARG_OUTPUT_GATE == 2014 && FLASHSCAN_ARG_SECOND_GATE == 2015 &&
                   FLASHSCAN_ARG_PARAM == 2016);
PIN(selective_args, FLASHSCAN_ARG_DELTA == 2017 && FLASHSCAN_ARG_A == 2018 && FLASHSCAN_ARG_B == 2019 &&
                        FLASHSCAN_ARG_C == 2020 && FLASHSCAN_ARG_D == 2021);
PIN(operator_args, FLASHSCAN_ARG_INDEX == 2022);
PIN(network_args, FLASHSCAN_ARG_ITERATIONS == 2023 && FLASHSCAN_ARG_RESIDUAL == 2024);
PIN(selective_flags, FLASHSCAN_SELECTIVE_FLAG_RESET == 0x1000000 && FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS == 0x2000000 &&
                         FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP == 0x4000000 &&
                         FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP == 0x8000000);
PIN(bits_of_ids, FLASHSCAN_TANGENT == 0x20000000 && FLASHSCAN_GRAD == 0x40000000);
PIN(determinism, FLASHSCAN_DETERMINISM_RUN_TO_RUN == 601 && FLASHSCAN_DETERMINISM_BATCH_INVARIANT == 602);
PIN(workspace, FLASHSCAN_WORKSPACE_LIBRARY == 701 && FLASHSCAN_WORKSPACE_CALLER == 702);
PIN(gate_forms, FLASHSCAN_GATE_VALUE == 801 && FLASHSCAN_GATE_LOG == 802 && FLASHSCAN_GATE_LOGIT == 803);
PIN(broadcasts,
    FLASHSCAN_BROADCAST_BATCH == 0x1 && FLASHSCAN_BROADCAST_TIME == 0x2 && FLASHSCAN_BROADCAST_CHANNELS == 0x4);
PIN(linear_flags, FLASHSCAN_LINEAR_FLAG_RESET == 0x10);
PIN(cells, FLASHSCAN_CELL_LSTM == 901 && FLASHSCAN_CELL_GRU == 902 && FLASHSCAN_CELL_ELMAN == 903 &&
               FLASHSCAN_CELL_SLSTM == 904 && FLASHSCAN_CELL_GRU_RESET_BEFORE == 905 &&
               FLASHSCAN_CELL_ELMAN_RELU == 906 && FLASHSCAN_CELL_MGU == 907);
PIN(rnn_flags, FLASHSCAN_RNN_FLAG_RESET == 0x100 && FLASHSCAN_RNN_FLAG_ALL_STATES == 0x200 &&
                   FLASHSCAN_RNN_FLAG_TRAINING == 0x400 && FLASHSCAN_RNN_FLAG_ALLOW_TF32 == 0x800);
PIN(operators, FLASHSCAN_OPERATOR_ADD == 1001 && FLASHSCAN_OPERATOR_MUL == 1002 && FLASHSCAN_OPERATOR_MIN == 1003 &&
                   FLASHSCAN_OPERATOR_MAX == 1004 && FLASHSCAN_OPERATOR_LOGADDEXP == 1005 &&
                   FLASHSCAN_OPERATOR_MATMUL == 1006 && FLASHSCAN_OPERATOR_AFFINE == 1007 &&
                   FLASHSCAN_OPERATOR_CUSTOM == 1008 && FLASHSCAN_OPERATOR_AND == 1009 &&
                   FLASHSCAN_OPERATOR_OR == 1010 && FLASHSCAN_OPERATOR_XOR == 1011 &&
                   FLASHSCAN_OPERATOR_FLAG_ALLOW_TF32 == 0x10000);
PIN(modes, FLASHSCAN_MODE_INCLUSIVE == 1101 && FLASHSCAN_MODE_EXCLUSIVE == 1102 && FLASHSCAN_MODE_REDUCTION == 1103);
PIN(codes, FLASHSCAN_CODE_CUDA_SOURCE == 1201 && FLASHSCAN_CODE_LTO_IR == 1202);
PIN(logs, FLASHSCAN_LOG_ERROR == 1301 && FLASHSCAN_LOG_INFO == 1302);
PIN(accesses, FLASHSCAN_ACCESS_READ == 1401 && FLASHSCAN_ACCESS_WRITE == 1402);
PIN(gated_layers, FLASHSCAN_GATED_LAYER_MINGRU == 1501 && FLASHSCAN_GATED_LAYER_MINLSTM == 1502 &&
                      FLASHSCAN_GATED_LAYER_HGRN == 1503 && FLASHSCAN_GATED_LAYER_RGLRU == 1504 &&
                      FLASHSCAN_GATED_LAYER_QRNN == 1505 && FLASHSCAN_GATED_LAYER_GILR == 1506);
PIN(gated_decays, FLASHSCAN_GATED_DECAY_VALUE == 1601 && FLASHSCAN_GATED_DECAY_EXP == 1602 &&
                      FLASHSCAN_GATED_DECAY_SIGMOID == 1603 && FLASHSCAN_GATED_DECAY_ONE_MINUS_SIGMOID == 1604 &&
                      FLASHSCAN_GATED_DECAY_LOWER_BOUND == 1605 && FLASHSCAN_GATED_DECAY_SOFTPLUS == 1606 &&
                      FLASHSCAN_GATED_DECAY_RATIO == 1607);
PIN(gated_scales,
    FLASHSCAN_GATED_SCALE_ONE == 1701 && FLASHSCAN_GATED_SCALE_ONE_MINUS == 1702 && FLASHSCAN_GATED_SCALE_SQRT == 1703);
PIN(gated_activations, FLASHSCAN_GATED_ACTIVATION_NONE == 1801 && FLASHSCAN_GATED_ACTIVATION_TANH == 1802 &&
                           FLASHSCAN_GATED_ACTIVATION_SILU == 1803 && FLASHSCAN_GATED_ACTIVATION_POSITIVE == 1804);
PIN(gated_input_gates, FLASHSCAN_GATED_INPUT_GATE_NONE == 1901 && FLASHSCAN_GATED_INPUT_GATE_SIGMOID == 1902);
PIN(gated_epilogues, FLASHSCAN_GATED_EPILOGUE_NONE == 2101 && FLASHSCAN_GATED_EPILOGUE_SIGMOID == 2102 &&
                         FLASHSCAN_GATED_EPILOGUE_SILU == 2103 && FLASHSCAN_GATED_EPILOGUE_TANH_SIGMOID == 2104);
PIN(comms, FLASHSCAN_COMM_CALLBACKS == 2201 && FLASHSCAN_COMM_NCCL == 2202);
PIN(comm_flags, FLASHSCAN_COMM_FLAG_SUM_GRADIENTS == 0x10000000);
PIN(carries, FLASHSCAN_CARRIES_GATHERED == 2301 && FLASHSCAN_CARRIES_WAVEFRONT == 2302);
PIN(gated_flags, FLASHSCAN_GATED_FLAG_RESET == 0x100000 && FLASHSCAN_GATED_FLAG_FIRST_STEP == 0x200000);
