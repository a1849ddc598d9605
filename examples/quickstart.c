/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filters a recording, then learns the filter back from nothing but its input and its output.
 *
 *     quickstart IN.wav [OUT.wav]
 *
 * De-emphasis, the standard last step of speech processing, lifts the low frequencies:
 *
 *     y[t] = 0.97 y[t-1] + x[t]
 *
 * It is flashscan's linear recurrence with one batch, one channel, and a gate that is the same at every step. Read main
 * first: make a plan, filter, learn. Exits with 0 when the coefficient was found again within 0.001.
 */
#define _POSIX_C_SOURCE 200112L /* clock_gettime */

#include <flashscan/flashscan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wav.h"

#if QUICKSTART_CUDA
#include <cuda_runtime_api.h>
#endif

static const double coefficient = 0.97, first_guess = 0.5, accepted_error = 1e-3;

/* Every call that can fail returns a status; flashscan_last_error has the sentence that explains it. */
static void check(flashscan_status status) {
    if (status != FLASHSCAN_STATUS_OK) die("%s: %s", flashscan_status_name(status), flashscan_last_error());
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Memory of the plan's device. The library copies nothing between host and GPU by itself. ---- */

static int on_gpu = 0;

#if QUICKSTART_CUDA
static void check_cuda(cudaError_t error) {
    if (error != cudaSuccess) die("CUDA: %s", cudaGetErrorString(error));
}
#endif

static float* plan_floats(size_t count) {
#if QUICKSTART_CUDA
    if (on_gpu) {
        void* memory = NULL;
        check_cuda(cudaMalloc(&memory, count * sizeof(float)));
        return memory;
    }
#endif
    return host_floats(count);
}

static void release(float* memory) {
#if QUICKSTART_CUDA
    if (on_gpu) {
        check_cuda(cudaFree(memory));
        return;
    }
#endif
    free(memory);
}

/* Between host and plan memory, either way; waits for the GPU's work. */
static void copy(float* to, const float* from, size_t count) {
#if QUICKSTART_CUDA
    if (on_gpu) {
        check_cuda(cudaMemcpy(to, from, count * sizeof(float), cudaMemcpyDefault));
        return;
    }
#endif
    memcpy(to, from, count * sizeof(float));
}

static void wait_for_device(void) {
#if QUICKSTART_CUDA
    if (on_gpu) check_cuda(cudaDeviceSynchronize());
#endif
}

static void print_device(void) {
#if QUICKSTART_CUDA
    struct cudaDeviceProp properties;
    if (on_gpu) {
        check_cuda(cudaGetDeviceProperties(&properties, 0));
        printf("device       GPU 0, %s\n", properties.name);
        return;
    }
#endif
    printf("device       CPU\n");
}

/* ---- The filter ---- */

typedef struct filter {
    flashscan_plan* plan;
    size_t count;
    float *input, *output, *gate, *grad_output, *grad_gate, *delayed; /* in plan memory */
} filter;

static filter make_filter(size_t count) {
    int32_t gpus = 0;
    filter f = {.count = count};
    flashscan_linear_desc what = {.struct_size = sizeof what,
                                  .dtype = FLASHSCAN_DTYPE_F32,
                                  .layout = FLASHSCAN_LAYOUT_BCT,
                                  .gate_broadcast = FLASHSCAN_BROADCAST_TIME, /* one coefficient for all steps */
                                  .batch = 1,
                                  .time = (int64_t)count,
                                  .channels = 1};
    flashscan_options how = {.struct_size = sizeof how, .backend = FLASHSCAN_BACKEND_CPU};

    check(flashscan_device_count(FLASHSCAN_BACKEND_CUDA, &gpus));
#if QUICKSTART_CUDA
    on_gpu = gpus > 0;
#endif
    if (on_gpu) how.backend = FLASHSCAN_BACKEND_CUDA;
    check(flashscan_plan_linear(&f.plan, &what, &how));

    f.input = plan_floats(count);
    f.output = plan_floats(count);
    f.gate = plan_floats(1);
    f.grad_output = plan_floats(count);
    f.grad_gate = plan_floats(1);
    f.delayed = plan_floats(count);
    return f;
}

static void destroy_filter(filter* f) {
    release(f->input);
    release(f->output);
    release(f->gate);
    release(f->grad_output);
    release(f->grad_gate);
    release(f->delayed);
    flashscan_plan_destroy(f->plan);
}

/* output[t] = gate output[t-1] + input[t] */
static void forward(const filter* f, const float* input, float* output) {
    const size_t bytes = f->count * sizeof(float);
    const flashscan_arg args[] = {
        {FLASHSCAN_ARG_INPUT, 0, (void*)input, bytes},
        {FLASHSCAN_ARG_GATE, 0, f->gate, sizeof(float)},
        {FLASHSCAN_ARG_OUTPUT, 0, output, bytes},
    };
    check(flashscan_execute(f->plan, FLASHSCAN_PASS_FORWARD, args, 3, NULL));
}

/* d loss / d gate, summed over time by the library, from d loss / d output = residual. */
static double gradient(const filter* f, const float* residual) {
    const size_t bytes = f->count * sizeof(float);
    float sum = 0;
    copy(f->grad_output, residual, f->count);
    const flashscan_arg args[] = {
        {FLASHSCAN_ARG_GATE, 0, f->gate, sizeof(float)},
        {FLASHSCAN_ARG_OUTPUT, 0, f->output, bytes},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, 0, f->grad_output, bytes},
        {FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE, 0, f->grad_gate, sizeof(float)},
    };
    check(flashscan_execute(f->plan, FLASHSCAN_PASS_BACKWARD, args, 4, NULL));
    copy(&sum, f->grad_gate, 1);
    return sum;
}

/* The loss 1/2 sum (output - wanted)^2 with coefficient a; leaves the output and its residual on the host. */
static double loss_at(const filter* f, double a, const float* wanted, float* output, float* residual) {
    const float gate = (float)a;
    double sum = 0;
    copy(f->gate, &gate, 1);
    forward(f, f->input, f->output);
    copy(output, f->output, f->count);
    for (size_t t = 0; t < f->count; ++t) {
        residual[t] = output[t] - wanted[t];
        sum += 0.5 * (double)residual[t] * (double)residual[t];
    }
    return sum;
}

/*
 * How strongly the loss curves in a: the sum of (d output / d a)^2, the Gauss-Newton approximation. The derivative is a
 * recurrence too, d[t] = a d[t-1] + output[t-1], so the same plan computes it.
 */
static double curvature(const filter* f, const float* output, float* derivative) {
    double sum = 0;
    derivative[0] = 0;
    memcpy(derivative + 1, output, (f->count - 1) * sizeof(float));
    copy(f->delayed, derivative, f->count);
    forward(f, f->delayed, f->delayed);
    copy(derivative, f->delayed, f->count);
    for (size_t t = 0; t < f->count; ++t) sum += (double)derivative[t] * (double)derivative[t];
    return sum;
}

/*
 * Gradient descent. The loss scales with the recording's energy, so a fixed step would fit one recording only: the step
 * is divided by the curvature, and halved while it does not lower the loss (far from the solution it overshoots).
 */
static double learn(const filter* f, const float* wanted) {
    float* output = host_floats(f->count);
    float* residual = host_floats(f->count);
    float* derivative = host_floats(f->count);
    double a = first_guess, loss = loss_at(f, a, wanted, output, residual);
    printf("learning     loss %11.4e at %.6f\n", loss, a);
    for (int i = 0; i < 100; ++i) {
        const double slope = gradient(f, residual), steepness = curvature(f, output, derivative);
        double step = steepness > 0 ? slope / steepness : 0, next = loss;
        for (; fabs(step) > 1e-7; step /= 2) {
            next = loss_at(f, a - step, wanted, output, residual);
            if (next < loss) break;
        }
        if (!(next < loss)) break;
        a -= step;
        loss = next;
        printf("             loss %11.4e at %.6f\n", loss, a);
    }
    free(output);
    free(residual);
    free(derivative);
    return a;
}

/* ---- Reports ---- */

/* The library's kernel, named on a line of its own in the plan's description. */
static void print_kernel(const flashscan_plan* plan) {
    char text[4096];
    check(flashscan_plan_describe(plan, text, sizeof text, NULL));
    const char* line = strstr(text, "kernel ");
    if (line != NULL) printf("kernel       %.*s\n", (int)strcspn(line + 7, "\n"), line + 7);
}

static void print_speed(const filter* f) {
    double best = 1e30;
    for (int i = 0; i < 20; ++i) {
        const double start = seconds();
        forward(f, f->input, f->output);
        wait_for_device();
        best = fmin(best, seconds() - start);
    }
    const double bytes = (double)(2 * f->count + 1) * sizeof(float); /* the input, the output, the gate */
    printf("time         %.1f us, %.2f GB/s, best of 20\n", best * 1e6, bytes / best / 1e9);
}

static void print_error(const float* input, const float* output, size_t count) {
    double y = 0, error = 0, peak = 0;
    for (size_t t = 0; t < count; ++t) {
        y = (double)(float)coefficient * y + (double)input[t];
        error = fmax(error, fabs((double)output[t] - y));
        peak = fmax(peak, fabs(y));
    }
    printf("error        %.1e of the peak, against a plain loop in double\n", peak > 0 ? error / peak : error);
    if (peak == 0) die("the recording is silent; there is nothing to learn from");
    if (!(error <= 1e-4 * peak)) die("the error is too large; accepted is 1e-4 of the peak");
}

int main(int argc, char** argv) {
    if (argc < 2 || argc > 3) die("usage: quickstart IN.wav [OUT.wav]");
    recording r = read_wav(argv[1]);
    printf("recording    %s, %zu samples, %.2f s\n", argv[1], r.count, (double)r.count / (double)r.rate);

    filter f = make_filter(r.count);
    print_device();
    print_kernel(f.plan);

    const float gate = (float)coefficient;
    float* filtered = host_floats(r.count);
    copy(f.gate, &gate, 1);
    copy(f.input, r.samples, r.count);
    forward(&f, f.input, f.output);
    copy(filtered, f.output, r.count);
    print_speed(&f);
    print_error(r.samples, filtered, r.count);
    if (argc == 3) write_wav(argv[2], filtered, r.count, r.rate);

    const double learned = learn(&f, filtered), off = fabs(learned - coefficient);
    printf("learned      %.6f from %.2f; the recording was filtered with %.2f\n", learned, first_guess, coefficient);

    destroy_filter(&f);
    free(filtered);
    free(r.samples);
    if (off <= accepted_error) return 0;
    die("the learned coefficient is off by %g; accepted is %g", off, accepted_error);
    return 1;
}
