/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A custom operator: mean and variance of everything measured so far, at every step, of several sensors at once.
 *
 * The element of a stretch of measurements is their count, their mean and the sum of their squared distances from it.
 * Two stretches that follow each other join into one (Chan, Golub and LeVeque 1979), which is associative, so that the
 * library may scan many parts of time at once:
 *
 *     count = l.count + r.count,   d = r.mean - l.mean
 *     mean  = l.mean + d r.count / count
 *     spread = l.spread + r.spread + d^2 l.count r.count / count
 *
 * Exits with 0 when the variances are those of a loop over each sensor alone.
 */
#include <flashscan/flashscan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    steps = 20000,
    sensors = 3
};
static const double accepted_error = 1e-12;

typedef struct statistics {
    double count, mean, spread;
} statistics;

/* The library calls this from several threads at once. It may be given any two stretches, the earlier one as lhs. */
static void FLASHSCAN_CALL join(void* state, const void* lhs, const void* rhs, void* out) {
    const statistics *l = lhs, *r = rhs;
    const double count = l->count + r->count, d = r->mean - l->mean;
    statistics* both = out;
    (void)state;
    both->count = count;
    both->mean = l->mean + d * r->count / count;
    both->spread = l->spread + r->spread + d * d * l->count * r->count / count;
}

static void check(flashscan_status status) {
    if (status == FLASHSCAN_STATUS_OK) return;
    fprintf(stderr, "%s: %s\n", flashscan_status_name(status), flashscan_last_error());
    exit(EXIT_FAILURE);
}

/* OUTPUT[t] = INPUT[0] o INPUT[1] o .. o INPUT[t] of each sensor, which is a channel. */
static void scan(const statistics* input, statistics* output) {
    const size_t bytes = sizeof(statistics) * steps * sensors;
    const flashscan_custom_operator joining = {
        .struct_size = sizeof joining, .element_bytes = sizeof(statistics), .host = join};
    const flashscan_operator_desc what = {.struct_size = sizeof what,
                                          .kind = FLASHSCAN_OPERATOR_CUSTOM,
                                          .mode = FLASHSCAN_MODE_INCLUSIVE,
                                          .batch = 1,
                                          .time = steps,
                                          .channels = sensors,
                                          .custom = &joining};
    const flashscan_options how = {.struct_size = sizeof how, .backend = FLASHSCAN_BACKEND_CPU};
    const flashscan_arg args[] = {flashscan_in(FLASHSCAN_ARG_INPUT, input, bytes),
                                  flashscan_out(FLASHSCAN_ARG_OUTPUT, output, bytes)};
    flashscan_plan* plan;
    check(flashscan_plan_operator(&plan, &what, &how));
    check(flashscan_execute(plan, FLASHSCAN_PASS_FORWARD, args, 2, NULL));
    flashscan_plan_destroy(plan);
}

/* The largest relative error of a sensor's variances, against Welford's loop. */
static double error_of(const statistics* input, const statistics* output, int sensor) {
    double mean = 0, spread = 0, error = 0;
    for (int t = 0; t < steps; ++t) {
        const double distance = input[t * sensors + sensor].mean - mean;
        mean += distance / (t + 1);
        spread += distance * (input[t * sensors + sensor].mean - mean);
        if (t > 0) error = fmax(error, fabs(output[t * sensors + sensor].spread - spread) / spread);
    }
    return error;
}

int main(void) {
    static statistics input[steps * sensors], output[steps * sensors]; /* large for a stack */
    for (int t = 0; t < steps; ++t)
        for (int s = 0; s < sensors; ++s) input[t * sensors + s] = (statistics){1, 100 * s + sin(0.7 * t * (s + 1)), 0};
    scan(input, output);

    double worst = 0;
    for (int s = 0; s < sensors; ++s) {
        const statistics* last = &output[(steps - 1) * sensors + s];
        const double error = error_of(input, output, s);
        printf("sensor %d: mean %.6f, variance %.6f, error %.1e\n", s, last->mean, last->spread / last->count, error);
        worst = fmax(worst, error);
    }
    return worst <= accepted_error ? EXIT_SUCCESS : EXIT_FAILURE;
}
