/* SPDX-License-Identifier: Apache-2.0 */
/* The client's plans of recurrent networks, operators, gated layers and selective scans. */
#include "client.h"

/*
 * h' = max(x + R h, 0) with x = 1 and R = 1/4 in heads of two units, so that h is 1 and 3/2: two packed sequences of two
 * steps and three heads.
 */
void recurrent_network(void) {
    float input[24], weight[12], bias[6], output[24], state_in[14] = {0}, state_out[16];
    float grad_output[24], grad_input[24], grad_state_in[18], grad_state_out[20] = {0};
    int64_t offsets[3] = {0, 2, 4};
    flashscan_options options = {0};
    flashscan_rnn_desc desc = {0};
    flashscan_plan* plan = NULL;
    size_t bytes = 0;
    void* reserve;
    options.struct_size = sizeof options;
    options.threads = 1;
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.weight_dtype = FLASHSCAN_DTYPE_F32;
    desc.layout = FLASHSCAN_LAYOUT_BTGHD;
    desc.cell = FLASHSCAN_CELL_ELMAN_RELU;
    desc.direction = FLASHSCAN_DIRECTION_FORWARD;
    desc.flags = FLASHSCAN_RNN_FLAG_TRAINING;
    desc.offsets_dtype = FLASHSCAN_DTYPE_I64;
    desc.batch = 1, desc.time = 4, desc.heads = 3, desc.head_dim = 2;
    desc.num_sequences = 2;
    desc.recurrent_clip = 0.25;
    desc.state_in.row = 7, desc.state_out.row = 8, desc.grad_state_in.row = 9, desc.grad_state_out.row = 10;
    FILL(input, 0.5F), FILL(weight, 0.25F), FILL(bias, 0.5F), FILL(grad_output, 1);
    check(flashscan_plan_rnn(&plan, &desc, &options));
    check(flashscan_plan_arg_bytes(plan, FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE, &bytes));
    expect(bytes >= 64, "bytes of RESERVE");
    reserve = malloc(bytes + 64);
    expect(reserve != NULL, "memory for RESERVE");
    {
        void* aligned = (char*)reserve + 64 - (uintptr_t)reserve % 64;
        flashscan_arg forward[] = {IN(INPUT, input),
                                   IN(WEIGHT, weight),
                                   IN(BIAS, bias),
                                   IN(SEQ_OFFSETS, offsets),
                                   IN(STATE_IN, state_in),
                                   OUT(OUTPUT, output),
                                   OUT(STATE_OUT, state_out),
                                   flashscan_out(FLASHSCAN_ARG_RESERVE, aligned, bytes)};
        flashscan_arg backward[] = {IN(WEIGHT, weight),
                                    IN(SEQ_OFFSETS, offsets),
                                    IN(STATE_IN, state_in),
                                    IN(OUTPUT, output),
                                    flashscan_in(FLASHSCAN_ARG_RESERVE, aligned, bytes),
                                    GRAD_IN(OUTPUT, grad_output),
                                    GRAD_IN(STATE_OUT, grad_state_out),
                                    GRAD_OUT(INPUT, grad_input),
                                    GRAD_OUT(STATE_IN, grad_state_in)};
        RUN(plan, FORWARD, forward);
        RUN(plan, BACKWARD, backward);
    }
    near(output[12], 1, "OUTPUT of a network at the first step");
    near(output[23], 1.5, "OUTPUT of a network at the second step");
    near(state_out[13], 1.5, "STATE_OUT of a network");
    near(grad_input[23], 1, "GRAD|INPUT of a network at the second step");
    near(grad_input[17], 1.25, "GRAD|INPUT of a network at the first step, clipped");
    near(grad_state_in[14], 0.25, "GRAD|STATE_IN of a network, clipped");
    free(reserve);
    flashscan_plan_destroy(plan);
}

/* An exclusive sum from the end, and a product of three matrices. */
void operators(void) {
    double numbers[6] = {1, 2, 3, 4, 5, 6}, sums[6], from[4] = {0, 10}, to[6];
    double matrices[12] = {1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1}, product[4];
    flashscan_operator_desc desc = {0};
    flashscan_plan* plan = NULL;
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F64;
    desc.kind = FLASHSCAN_OPERATOR_ADD;
    desc.layout = FLASHSCAN_LAYOUT_BCT;
    desc.mode = FLASHSCAN_MODE_EXCLUSIVE;
    desc.direction = FLASHSCAN_DIRECTION_REVERSE;
    desc.batch = 1, desc.time = 3, desc.channels = 2;
    desc.state_in.row = 4, desc.state_out.row = 6;
    check(flashscan_plan_operator(&plan, &desc, NULL));
    {
        flashscan_arg args[] = {IN(INPUT, numbers), IN(STATE_IN, from), OUT(OUTPUT, sums), OUT(STATE_OUT, to)};
        RUN(plan, FORWARD, args);
    }
    near(sums[0], 5, "an exclusive sum");
    near(sums[3], 21, "an exclusive sum with STATE_IN");
    near(to[1], 25, "STATE_OUT of a sum");
    flashscan_plan_destroy(plan);

    memset(&desc, 0, sizeof desc);
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F64;
    desc.kind = FLASHSCAN_OPERATOR_MATMUL;
    desc.mode = FLASHSCAN_MODE_REDUCTION;
    desc.batch = 1, desc.time = 3, desc.channels = 1, desc.dim = 2;
    check(flashscan_plan_operator(&plan, &desc, NULL));
    {
        flashscan_arg args[] = {IN(INPUT, matrices), OUT(OUTPUT, product)};
        RUN(plan, FORWARD, args);
    }
    near(product[1], 3, "a product of matrices");
    flashscan_plan_destroy(plan);
}

/* l + r + 100, which is associative: an operator with a state, of elements of 8 bytes. */
static void FLASHSCAN_CALL add_more(void* state, const void* lhs, const void* rhs, void* out) {
    int64_t l, r, more;
    memcpy(&l, lhs, sizeof l), memcpy(&r, rhs, sizeof r), memcpy(&more, state, sizeof more);
    l += r + more;
    memcpy(out, &l, sizeof l);
}

void custom_operator(void) {
    int64_t more = 100, elements[8] = {1, 2, 3, 4, 5, 6, 7, 8}, scanned[8];
    flashscan_custom_operator custom = {0};
    flashscan_operator_desc desc = {0};
    flashscan_plan* plan = NULL;
    custom.struct_size = sizeof custom;
    custom.element_bytes = sizeof more;
    custom.state = &more;
    custom.host = add_more;
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.batch = 1, desc.time = 4, desc.channels = 2;
    desc.custom = &custom;
    check(flashscan_plan_operator(&plan, &desc, NULL));
    {
        flashscan_arg args[] = {IN(INPUT, elements), OUT(OUTPUT, scanned)};
        RUN(plan, FORWARD, args);
    }
    expect(scanned[0] == 1 && scanned[2] == 104 && scanned[6] == 316 && scanned[7] == 320,
           "a scan by a custom operator");
    flashscan_plan_destroy(plan);
}

/* h = h / 2 + scale v with gates of 0, whose sigmoid is 1/2: one layer of parts and minGRU. */
void gated_layers(void) {
    float input[30], gate[12], input_gate[12] = {0}, output_gate[12] = {0}, param[2] = {0}, bias[2] = {0}, output[12];
    float state_out[6];
    const double root = sqrt(0.75);
    flashscan_gated_desc desc = {0};
    flashscan_plan* plan = NULL;
    desc.struct_size = sizeof desc;
    desc.dtype = desc.gate_dtype = desc.param_dtype = FLASHSCAN_DTYPE_F32;
    desc.layout = FLASHSCAN_LAYOUT_BTC;
    desc.decay = FLASHSCAN_GATED_DECAY_SOFTPLUS;
    desc.scale = FLASHSCAN_GATED_SCALE_SQRT;
    desc.activation = FLASHSCAN_GATED_ACTIVATION_POSITIVE;
    desc.input_gating = FLASHSCAN_GATED_INPUT_GATE_SIGMOID;
    desc.epilogue = FLASHSCAN_GATED_EPILOGUE_SIGMOID;
    desc.direction = FLASHSCAN_DIRECTION_FORWARD;
    desc.flags = FLASHSCAN_GATED_FLAG_FIRST_STEP;
    desc.batch = 2, desc.time = 3, desc.channels = 2;
    desc.decay_rate = 2; /* a = exp(-2 log(2) / 2) */
    desc.sqrt_slope_limit = 1000;
    desc.input = (flashscan_strides){15, 5, 2};
    desc.state_out.row = 3;
    FILL(input, 1.5F), FILL(gate, 0);
    check(flashscan_plan_gated(&plan, &desc, NULL));
    {
        flashscan_arg args[] = {
            IN(INPUT, input), IN(GATE, gate), IN(INPUT_GATE, input_gate), IN(OUTPUT_GATE, output_gate),
            IN(PARAM, param), IN(BIAS, bias), OUT(OUTPUT, output),        OUT(STATE_OUT, state_out)};
        RUN(plan, FORWARD, args);
    }
    near(output[0], 0.5, "OUTPUT of a gated layer at step 0, which is not scaled");
    near(output[8], 0.5 * (0.5 + root), "OUTPUT of a gated layer at step 1");
    near(state_out[4], 0.5 * (0.5 + root) + root, "STATE_OUT of a gated layer");
    flashscan_plan_destroy(plan);

    memset(&desc, 0, sizeof desc);
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.layer = FLASHSCAN_GATED_LAYER_MINGRU;
    desc.batch = 2, desc.time = 3, desc.channels = 2;
    check(flashscan_plan_gated(&plan, &desc, NULL));
    {
        flashscan_arg args[] = {flashscan_in(FLASHSCAN_ARG_INPUT, input, sizeof gate), IN(GATE, gate),
                                OUT(OUTPUT, output)};
        RUN(plan, FORWARD, args);
    }
    near(output[11], 1.75, "OUTPUT of minGRU at step 2");
    flashscan_plan_destroy(plan);
}

/*
 * h = h / 2 + x with three states a channel, whose sum leaves with D x: B of two groups of channels changes from step to
 * step, C does not.
 */
void selective_scan(void) {
    float input[60], delta[24], a[12], b[36], c[12], d[4], output[24], state_in[26] = {0}, state_out[28];
    flashscan_selective_desc desc = {0};
    flashscan_plan* plan = NULL;
    int i;
    desc.struct_size = sizeof desc;
    desc.dtype = desc.matrix_dtype = FLASHSCAN_DTYPE_F32;
    desc.layout = FLASHSCAN_LAYOUT_BTC;
    desc.direction = FLASHSCAN_DIRECTION_FORWARD;
    desc.flags = FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP;
    desc.batch = 2, desc.time = 3, desc.channels = 4;
    desc.states = 3, desc.groups = 2;
    desc.input = (flashscan_strides){30, 10, 2};
    desc.delta = (flashscan_strides){12, 4, 1};
    desc.state_in.row = 13, desc.state_out.row = 14;
    FILL(input, 1), FILL(delta, 1), FILL(a, -logf(2)), FILL(c, 1), FILL(d, 1);
    for (i = 0; i < 36; ++i) b[i] = i % 6 < 3 ? 1 : 2; /* the second group's is 2 */
    check(flashscan_plan_selective(&plan, &desc, NULL));
    {
        flashscan_arg args[] = {IN(INPUT, input),
                                IN(DELTA, delta),
                                IN(A, a),
                                IN(B, b),
                                IN(C, c),
                                IN(D, d),
                                IN(STATE_IN, state_in),
                                OUT(OUTPUT, output),
                                OUT(STATE_OUT, state_out)};
        RUN(plan, FORWARD, args);
    }
    near(output[13], 4, "OUTPUT of a selective scan at step 0");
    near(output[21], 6.25, "OUTPUT of a selective scan at step 2");
    near(output[23], 11.5, "OUTPUT of the second group of a selective scan at step 2");
    near(state_out[25], 3.5, "STATE_OUT of a selective scan");
    flashscan_plan_destroy(plan);
}
