/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program in C with the library: forward and backward of h[t] = a h[t-1] + x[t] with one gate for all steps.
 */
#include <flashscan/flashscan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    steps = 100
};

static void check(flashscan_status status) {
    if (status == FLASHSCAN_STATUS_OK) return;
    printf("FAILED: %s: %s\n", flashscan_status_name(status), flashscan_last_error());
    exit(1);
}

static void expect(int condition, const char* what) {
    if (condition) return;
    printf("FAILED: %s\n", what);
    exit(1);
}

int main(void) {
    static float input[steps], output[steps], grad_output[steps], grad_input[steps];
    float gate = 0.9F, state_in = 2.0F, state_out = 0, grad_gate = 0, grad_state_in = 0;
    double h = state_in, g = 0, sum = 0;
    size_t bytes = 0, length = 0;
    int t;

    flashscan_linear_desc desc = {0};
    flashscan_options options = {0};
    flashscan_plan* plan = NULL;
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.gate_broadcast = FLASHSCAN_BROADCAST_BATCH | FLASHSCAN_BROADCAST_TIME | FLASHSCAN_BROADCAST_CHANNELS;
    desc.batch = 1;
    desc.time = steps;
    desc.channels = 1;
    options.struct_size = sizeof options;
    options.threads = 1;
    for (t = 0; t < steps; ++t) {
        input[t] = (float)(t % 7) - 3.0F;
        grad_output[t] = (float)(t % 5) - 2.0F;
    }

    expect(flashscan_version() >= FLASHSCAN_VERSION, "the library is older than the client");
    check(flashscan_plan_linear(&plan, &desc, &options));
    check(flashscan_plan_arg_bytes(plan, FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_INPUT, &bytes));
    expect(bytes == sizeof input, "bytes of INPUT");
    check(flashscan_plan_describe(plan, NULL, 0, &length));
    expect(length > 0, "length of the description");
    {
        flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, input, sizeof input},
                                {FLASHSCAN_ARG_GATE, 0, &gate, sizeof gate},
                                {FLASHSCAN_ARG_OUTPUT, 0, output, sizeof output},
                                {FLASHSCAN_ARG_STATE_IN, 0, &state_in, sizeof state_in},
                                {FLASHSCAN_ARG_STATE_OUT, 0, &state_out, sizeof state_out}};
        check(flashscan_execute(plan, FLASHSCAN_PASS_FORWARD, args, 5, NULL));
    }
    for (t = 0; t < steps; ++t) {
        h = gate * h + input[t];
        expect(fabs(output[t] - h) < 1e-5, "OUTPUT");
    }
    expect(fabs(state_out - h) < 1e-5, "STATE_OUT");
    {
        flashscan_arg args[] = {{FLASHSCAN_ARG_GATE, 0, &gate, sizeof gate},
                                {FLASHSCAN_ARG_OUTPUT, 0, output, sizeof output},
                                {FLASHSCAN_ARG_STATE_IN, 0, &state_in, sizeof state_in},
                                {FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, 0, grad_output, sizeof grad_output},
                                {FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT, 0, grad_input, sizeof grad_input},
                                {FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE, 0, &grad_gate, sizeof grad_gate},
                                {FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_IN, 0, &grad_state_in, sizeof grad_state_in}};
        check(flashscan_execute(plan, FLASHSCAN_PASS_BACKWARD, args, 7, NULL));
    }
    for (t = steps - 1; t >= 0; --t) {
        g = grad_output[t] + gate * g;
        expect(fabs(grad_input[t] - g) < 1e-5, "GRAD|INPUT");
        sum += g * (t > 0 ? output[t - 1] : state_in);
    }
    expect(fabs(grad_gate - sum) < 1e-3, "GRAD|GATE");
    expect(fabs(grad_state_in - gate * g) < 1e-5, "GRAD|STATE_IN");
    flashscan_plan_destroy(plan);
    printf("client of version %d ran with library %d\n", FLASHSCAN_VERSION, flashscan_version());
    return 0;
}
