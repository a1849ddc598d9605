/* SPDX-License-Identifier: Apache-2.0 */
/* Mono 16-bit WAV files for the quickstart. Whatever fails ends the program with a sentence. */
#ifndef FLASHSCAN_BENCH_WAV_H
#define FLASHSCAN_BENCH_WAV_H

#include <stddef.h>

typedef struct recording {
    float* samples; /* in [-1, 1) */
    size_t count;
    unsigned long rate;
} recording;

/* PCM, 1 channel, 16 bits; at least one sample. */
recording read_wav(const char* path);

/* Samples that leave [-1, 1] are scaled down together until the largest fits. */
void write_wav(const char* path, const float* samples, size_t count, unsigned long rate);

/* `count` zeros; the caller frees them. */
float* host_floats(size_t count);

/* Prints the sentence and exits with 1. */
void die(const char* format, ...);

#endif
