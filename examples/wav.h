/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings with one channel, for the quickstart. Whatever fails ends the program with a sentence. */
#ifndef FLASHSCAN_BENCH_WAV_H
#define FLASHSCAN_BENCH_WAV_H

#include <stddef.h>

typedef struct recording {
    float* samples; /* in [-1, 1) */
    size_t count;
    int rate;
} recording;

/* Any file that libsndfile reads, with one channel and at least one sample. */
recording read_wav(const char* path);

/* A WAV file of 16 bits. Samples that leave [-1, 1] are scaled down together until the largest fits. */
void write_wav(const char* path, const float* samples, size_t count, int rate);

/* `count` zeros; the caller frees them. */
float* host_floats(size_t count);

/* Prints the sentence and exits with 1. */
void die(const char* format, ...);

#endif
