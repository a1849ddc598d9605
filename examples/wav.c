/* SPDX-License-Identifier: Apache-2.0 */
#include "wav.h"

#include <math.h>
#include <sndfile.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void die(const char* format, ...) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "quickstart: ");
    vfprintf(stderr, format, values);
    fprintf(stderr, "\n");
    va_end(values);
    exit(1);
}

float* host_floats(size_t count) {
    float* memory = calloc(count, sizeof(float));
    if (memory == NULL) die("no memory for %zu samples", count);
    return memory;
}

recording read_wav(const char* path) {
    SF_INFO info = {0};
    SNDFILE* file = sf_open(path, SFM_READ, &info);
    if (file == NULL) die("%s: %s", path, sf_strerror(NULL));
    if (info.channels != 1) die("%s: %d channels; accepted is 1", path, info.channels);
    if (info.frames < 1) die("%s: no samples; at least one is needed", path);
    const recording r = {host_floats((size_t)info.frames), (size_t)info.frames, info.samplerate};
    const sf_count_t count = sf_read_float(file, r.samples, info.frames);
    if (count != info.frames) die("%s: ends after %ld of %zu samples", path, (long)count, r.count);
    sf_close(file);
    return r;
}

void write_wav(const char* path, const float* samples, size_t count, int rate) {
    SF_INFO info = {.samplerate = rate, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
    SNDFILE* file = sf_open(path, SFM_WRITE, &info);
    if (file == NULL) die("%s: %s", path, sf_strerror(NULL));
    float* scaled = host_floats(count);
    float peak = 0;
    for (size_t t = 0; t < count; ++t) peak = fmaxf(peak, fabsf(samples[t]));
    const float scale = peak > 1 ? 1 / peak : 1;
    for (size_t t = 0; t < count; ++t) scaled[t] = samples[t] * scale;
    const sf_count_t written = sf_write_float(file, scaled, (sf_count_t)count);
    free(scaled);
    if (sf_close(file) != 0 || written != (sf_count_t)count) die("%s: could not be written", path);
    printf("written      %s, peak %.3f, scaled by %.4f to fit 16 bits\n", path, peak, scale);
}
