/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the client share: arguments of arrays, and checks that end the program with a sentence. */
#ifndef FLASHSCAN_TESTS_ABI_CLIENT_H
#define FLASHSCAN_TESTS_ABI_CLIENT_H

#include <flashscan/flashscan.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))
#define IN(id, array) flashscan_in(FLASHSCAN_ARG_##id, array, sizeof(array))
#define OUT(id, array) flashscan_out(FLASHSCAN_ARG_##id, array, sizeof(array))
#define GRAD_IN(id, array) flashscan_in(FLASHSCAN_GRAD | FLASHSCAN_ARG_##id, array, sizeof(array))
#define GRAD_OUT(id, array) flashscan_out(FLASHSCAN_GRAD | FLASHSCAN_ARG_##id, array, sizeof(array))
#define RUN(plan, pass, args) check(flashscan_execute(plan, FLASHSCAN_PASS_##pass, args, COUNT(args), NULL))
#define FILL(array, value) fill(array, COUNT(array), value)

static inline void expect(int condition, const char* what) {
    if (condition) return;
    printf("FAILED: %s\n", what);
    exit(1);
}

static inline void check(flashscan_status status) {
    if (status != FLASHSCAN_STATUS_OK) printf("%s: %s\n", flashscan_status_name(status), flashscan_last_error());
    expect(status == FLASHSCAN_STATUS_OK, "a call");
}

static inline void near(double got, double want, const char* what) {
    if (fabs(got - want) > 1e-5) printf("%s is %.9g, not %.9g\n", what, got, want);
    expect(fabs(got - want) <= 1e-5, what);
}

static inline void fill(float* array, int32_t count, float value) {
    int32_t i;
    for (i = 0; i < count; ++i) array[i] = value;
}

void recurrent_network(void);
void operators(void);
void custom_operator(void);
void gated_layers(void);
void selective_scan(void);

#endif
