/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and offsets that no later version may change. Compiled as C99 with -Wpedantic -Wpadded and as C++. */
#include <flashscan/flashscan.h>

#define PIN(name, condition) typedef char pin_##name[(condition) ? 1 : -1]
#define PIN_FIELD(type, field, offset) PIN(type##_##field, offsetof(type, field) == (offset))

PIN(arg, sizeof(flashscan_arg) == 24);
PIN_FIELD(flashscan_arg, id, 0);
PIN_FIELD(flashscan_arg, reserved, 4);
PIN_FIELD(flashscan_arg, data, 8);
PIN_FIELD(flashscan_arg, bytes, 16);

PIN(options, sizeof(flashscan_options) >= 32);
PIN_FIELD(flashscan_options, struct_size, 0);
PIN_FIELD(flashscan_options, backend, 4);
PIN_FIELD(flashscan_options, device, 8);
PIN_FIELD(flashscan_options, threads, 12);
PIN_FIELD(flashscan_options, determinism, 16);
PIN_FIELD(flashscan_options, workspace, 20);
PIN_FIELD(flashscan_options, kernel, 24);

PIN(strides, sizeof(flashscan_strides) == 24);
PIN_FIELD(flashscan_strides, batch, 0);
PIN_FIELD(flashscan_strides, time, 8);
PIN_FIELD(flashscan_strides, channels, 16);

PIN(linear_desc, sizeof(flashscan_linear_desc) >= 216);
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

PIN(rnn_desc, sizeof(flashscan_rnn_desc) >= 80);
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

PIN(operator_desc, sizeof(flashscan_operator_desc) >= 80);
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

PIN(status_caller, FLASHSCAN_OK == 0 && FLASHSCAN_INVALID_ARGUMENT == 10 && FLASHSCAN_INVALID_STRUCT == 11 &&
                       FLASHSCAN_STRUCT_TOO_NEW == 12 && FLASHSCAN_SIZE_OVERFLOW == 13 &&
                       FLASHSCAN_MISSING_ARGUMENT == 14 && FLASHSCAN_DOUBLED_ARGUMENT == 15 &&
                       FLASHSCAN_UNKNOWN_ARGUMENT == 16 && FLASHSCAN_BUFFER_TOO_SMALL == 17 &&
                       FLASHSCAN_INVALID_POINTER == 18 && FLASHSCAN_ALIASING == 19);
PIN(status_here, FLASHSCAN_UNSUPPORTED == 20 && FLASHSCAN_BACKEND_MISSING == 21 && FLASHSCAN_NO_DEVICE == 22 &&
                     FLASHSCAN_DEPENDENCY_MISSING == 23 && FLASHSCAN_OUT_OF_MEMORY == 30 &&
                     FLASHSCAN_DEVICE_ERROR == 31 && FLASHSCAN_CALLBACK_FAILED == 32 && FLASHSCAN_INTERNAL_ERROR == 90);
PIN(dtypes, FLASHSCAN_F32 == 1 && FLASHSCAN_BF16 == 2 && FLASHSCAN_F16 == 3 && FLASHSCAN_F64 == 4 &&
                FLASHSCAN_C64 == 5 && FLASHSCAN_C128 == 6 && FLASHSCAN_I32 == 7 && FLASHSCAN_I64 == 8);
PIN(arguments, FLASHSCAN_ARG_INPUT == 1 && FLASHSCAN_ARG_GATE == 2 && FLASHSCAN_ARG_OUTPUT == 3 &&
                   FLASHSCAN_ARG_STATE_IN == 4 && FLASHSCAN_ARG_STATE_OUT == 5 && FLASHSCAN_ARG_RESET == 6 &&
                   FLASHSCAN_ARG_SEQ_OFFSETS == 7 && FLASHSCAN_ARG_WEIGHT == 8 && FLASHSCAN_ARG_BIAS == 9 &&
                   FLASHSCAN_ARG_SCRATCH == 10 && FLASHSCAN_ARG_RESERVE == 11 && FLASHSCAN_GRAD == 256);
PIN(words, FLASHSCAN_CPU == 0 && FLASHSCAN_CUDA == 1 && FLASHSCAN_LAYOUT_BTC == 0 && FLASHSCAN_LAYOUT_BCT == 1 &&
               FLASHSCAN_FORWARD_IN_TIME == 0 && FLASHSCAN_REVERSE_IN_TIME == 1 && FLASHSCAN_PASS_FORWARD == 0 &&
               FLASHSCAN_PASS_BACKWARD == 1 && FLASHSCAN_GATE_VALUE == 0 && FLASHSCAN_GATE_LOG == 1 &&
               FLASHSCAN_GATE_LOGIT == 2 && FLASHSCAN_BROADCAST_BATCH == 1 && FLASHSCAN_BROADCAST_TIME == 2 &&
               FLASHSCAN_BROADCAST_CHANNELS == 4 && FLASHSCAN_LINEAR_RESET == 1 &&
               FLASHSCAN_DETERMINISM_RUN_TO_RUN == 0 && FLASHSCAN_DETERMINISM_BATCH_INVARIANT == 1 &&
               FLASHSCAN_WORKSPACE_LIBRARY == 0 && FLASHSCAN_WORKSPACE_CALLER == 1);
PIN(rnn_words, FLASHSCAN_LAYOUT_BTGHD == 0 && FLASHSCAN_LAYOUT_TBGHD == 1 && FLASHSCAN_CELL_LSTM == 0 &&
                   FLASHSCAN_CELL_GRU == 1 && FLASHSCAN_CELL_ELMAN == 2 && FLASHSCAN_CELL_SLSTM == 3 &&
                   FLASHSCAN_CELL_GRU_RESET_BEFORE == 4 && FLASHSCAN_CELL_ELMAN_RELU == 5 && FLASHSCAN_RNN_RESET == 1 &&
                   FLASHSCAN_RNN_ALL_STATES == 2 && FLASHSCAN_RNN_TRAINING == 4);
PIN(operator_words,
    FLASHSCAN_OPERATOR_ADD == 0 && FLASHSCAN_OPERATOR_MUL == 1 && FLASHSCAN_OPERATOR_MIN == 2 &&
        FLASHSCAN_OPERATOR_MAX == 3 && FLASHSCAN_OPERATOR_LOGADDEXP == 4 && FLASHSCAN_OPERATOR_MATMUL == 5 &&
        FLASHSCAN_OPERATOR_AFFINE == 6 && FLASHSCAN_OPERATOR_CUSTOM == 7 && FLASHSCAN_SCAN_INCLUSIVE == 0 &&
        FLASHSCAN_SCAN_EXCLUSIVE == 1 && FLASHSCAN_REDUCTION == 2 && FLASHSCAN_OPERATOR_ALLOW_TF32 == 1 &&
        FLASHSCAN_CODE_CUDA_SOURCE == 1 && FLASHSCAN_CODE_LTO_IR == 2);
