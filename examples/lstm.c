/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains an LSTM to remember: it hears +1 or -1 at every step and has to say what it heard three steps before.
 *
 * The library runs the recurrent part with the gradients through time. The products with input and output weights are
 * the caller's: here they are loops, with one number heard and one said.
 *
 *     raw[t]  = hear * x[t] + recurrent h[t-1] + bias       hear and bias of the gates i f z o, then the LSTM's equations
 *     said[t] = say . h[t]
 *
 * Exits with 0 when the gradient agrees with a difference quotient and the mean squared error has fallen below 0.01.
 */
#include <flashscan/flashscan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    batch = 16,
    steps = 24,
    units = 12,
    gates = 4,
    delay = 3,
    updates = 200
};
static const double learning_rate = 0.02, accepted_loss = 0.01, accepted_error = 1e-6;

/* All that is learned, and the gradients of it: numbers in a row, so that a loop updates them. */
typedef struct weights {
    double recurrent[gates][units][units], bias[gates][units], hear[gates][units], say[units];
} weights;
enum {
    parameters = sizeof(weights) / sizeof(double)
};

typedef struct network {
    flashscan_plan* plan;
    size_t reserve_bytes;
    void *memory, *reserve;
    double heard[batch][steps];
    double input[batch][steps][gates][units], grad_input[batch][steps][gates][units];
    double output[batch][steps][units], grad_output[batch][steps][units];
} network;

static void check(flashscan_status status) {
    if (status == FLASHSCAN_STATUS_OK) return;
    fprintf(stderr, "%s: %s\n", flashscan_status_name(status), flashscan_last_error());
    exit(EXIT_FAILURE);
}

/* Between -1 and 1, from a linear congruential generator. */
static double noise(void) {
    static uint32_t state = 1;
    state = state * 1664525U + 1013904223U;
    return state / 2147483648.0 - 1;
}

static void make_plan(network* n) {
    const flashscan_rnn_desc what = {.struct_size = sizeof what,
                                     .dtype = FLASHSCAN_DTYPE_F64,
                                     .cell = FLASHSCAN_CELL_LSTM,
                                     .flags = FLASHSCAN_RNN_FLAG_TRAINING,
                                     .batch = batch,
                                     .time = steps,
                                     .heads = 1,
                                     .head_dim = units};
    const flashscan_options how = {.struct_size = sizeof how, .backend = FLASHSCAN_BACKEND_CPU, .threads = 1};
    check(flashscan_plan_rnn(&n->plan, &what, &how));
    /* RESERVE is what forward keeps for backward. It is as large as the plan says, and aligned to 64 bytes. */
    check(flashscan_plan_arg_bytes(n->plan, FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE, &n->reserve_bytes));
    n->memory = malloc(n->reserve_bytes + 63);
    if (n->memory == NULL) exit(EXIT_FAILURE);
    n->reserve = (char*)n->memory + (64 - (uintptr_t)n->memory % 64) % 64;
}

static void forward(network* n, const weights* w) {
    for (int b = 0; b < batch; ++b)
        for (int t = 0; t < steps; ++t)
            for (int g = 0; g < gates; ++g)
                for (int u = 0; u < units; ++u) n->input[b][t][g][u] = w->hear[g][u] * n->heard[b][t];
    const flashscan_arg args[] = {flashscan_in(FLASHSCAN_ARG_INPUT, n->input, sizeof n->input),
                                  flashscan_in(FLASHSCAN_ARG_WEIGHT, w->recurrent, sizeof w->recurrent),
                                  flashscan_in(FLASHSCAN_ARG_BIAS, w->bias, sizeof w->bias),
                                  flashscan_out(FLASHSCAN_ARG_OUTPUT, n->output, sizeof n->output),
                                  flashscan_out(FLASHSCAN_ARG_RESERVE, n->reserve, n->reserve_bytes)};
    check(flashscan_execute(n->plan, FLASHSCAN_PASS_FORWARD, args, 5, NULL));
}

/* The mean squared error after forward. Leaves the gradients of what the LSTM put out, and that of `say` in grad. */
static double loss_of(network* n, const weights* w, weights* grad) {
    const double count = batch * (steps - delay);
    double loss = 0;
    memset(n->grad_output, 0, sizeof n->grad_output);
    memset(grad, 0, sizeof *grad);
    for (int b = 0; b < batch; ++b) {
        for (int t = delay; t < steps; ++t) {
            double error = -n->heard[b][t - delay];
            for (int u = 0; u < units; ++u) error += w->say[u] * n->output[b][t][u];
            loss += error * error / count;
            for (int u = 0; u < units; ++u) {
                n->grad_output[b][t][u] = 2 * error / count * w->say[u];
                grad->say[u] += 2 * error / count * n->output[b][t][u];
            }
        }
    }
    return loss;
}

static void backward(network* n, const weights* w, weights* grad) {
    const flashscan_arg args[] = {
        flashscan_in(FLASHSCAN_ARG_WEIGHT, w->recurrent, sizeof w->recurrent),
        flashscan_in(FLASHSCAN_ARG_OUTPUT, n->output, sizeof n->output),
        flashscan_in(FLASHSCAN_ARG_RESERVE, n->reserve, n->reserve_bytes),
        flashscan_in(FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, n->grad_output, sizeof n->grad_output),
        flashscan_out(FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT, n->grad_input, sizeof n->grad_input),
        flashscan_out(FLASHSCAN_GRAD | FLASHSCAN_ARG_WEIGHT, grad->recurrent, sizeof grad->recurrent),
        flashscan_out(FLASHSCAN_GRAD | FLASHSCAN_ARG_BIAS, grad->bias, sizeof grad->bias)};
    check(flashscan_execute(n->plan, FLASHSCAN_PASS_BACKWARD, args, 7, NULL));
    for (int b = 0; b < batch; ++b)
        for (int t = 0; t < steps; ++t)
            for (int g = 0; g < gates; ++g)
                for (int u = 0; u < units; ++u) grad->hear[g][u] += n->grad_input[b][t][g][u] * n->heard[b][t];
}

/* Compares the gradient of one recurrent weight with the losses a little to both sides of it. */
static double gradient_error(network* n, weights* w) {
    weights grad, unused;
    const double h = 1e-5, middle = w->recurrent[1][2][3];
    forward(n, w);
    loss_of(n, w, &grad);
    backward(n, w, &grad);
    w->recurrent[1][2][3] = middle + h;
    forward(n, w);
    const double above = loss_of(n, w, &unused);
    w->recurrent[1][2][3] = middle - h;
    forward(n, w);
    const double below = loss_of(n, w, &unused), quotient = (above - below) / (2 * h);
    w->recurrent[1][2][3] = middle;
    printf("gradient %.6e, difference quotient %.6e\n", grad.recurrent[1][2][3], quotient);
    return fabs(grad.recurrent[1][2][3] - quotient) / fabs(quotient);
}

/* Adam (arXiv 1412.6980). */
static void update(weights* w, const weights* grad, weights* mean, weights* square, int step) {
    double *to = (double*)w, *m = (double*)mean, *v = (double*)square;
    const double* g = (const double*)grad;
    for (int i = 0; i < parameters; ++i) {
        m[i] = 0.9 * m[i] + 0.1 * g[i];
        v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
        to[i] -= learning_rate * (m[i] / (1 - pow(0.9, step))) / (sqrt(v[i] / (1 - pow(0.999, step))) + 1e-8);
    }
}

int main(void) {
    static network n; /* zeros, and large for a stack */
    static weights w, grad, mean, square;
    double loss = 0;
    make_plan(&n);
    for (int i = 0; i < parameters; ++i) ((double*)&w)[i] = 0.3 * noise();
    for (int b = 0; b < batch; ++b)
        for (int t = 0; t < steps; ++t) n.heard[b][t] = noise() < 0 ? -1 : 1;

    const double error = gradient_error(&n, &w);
    for (int step = 1; step <= updates; ++step) {
        forward(&n, &w);
        loss = loss_of(&n, &w, &grad);
        backward(&n, &w, &grad);
        update(&w, &grad, &mean, &square, step);
        if (step == 1 || step % 50 == 0) printf("after %3d updates: mean squared error %.5f\n", step - 1, loss);
    }
    flashscan_plan_destroy(n.plan);
    free(n.memory);
    return error <= accepted_error && loss <= accepted_loss ? EXIT_SUCCESS : EXIT_FAILURE;
}
