/* SPDX-License-Identifier: Apache-2.0 */
#include "wav.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static unsigned long little_endian(const unsigned char* bytes, int count) {
    unsigned long value = 0;
    while (count-- > 0) value = value << 8 | bytes[count];
    return value;
}

static unsigned long check_format(const char* path, const unsigned char* format, unsigned long size) {
    if (size < 16) die("%s: the fmt chunk has %lu bytes; at least 16 are needed", path, size);
    unsigned long encoding = little_endian(format, 2);
    const unsigned long channels = little_endian(format + 2, 2), bits = little_endian(format + 14, 2);
    /* WAVE_FORMAT_EXTENSIBLE keeps the encoding at the start of its sub-format. */
    if (encoding == 0xfffe && size >= 26) encoding = little_endian(format + 24, 2);
    if (encoding != 1 || channels != 1 || bits != 16)
        die("%s: encoding %lu, %lu channels, %lu bits; accepted is PCM (encoding 1), 1 channel, 16 bits", path,
            encoding, channels, bits);
    if (little_endian(format + 4, 4) == 0) die("%s: the sample rate is 0; accepted are rates above 0", path);
    return little_endian(format + 4, 4);
}

static recording read_samples(const char* path, FILE* file, unsigned long size, unsigned long rate) {
    recording r = {NULL, size / 2, rate};
    if (r.count == 0) die("%s: the data chunk is empty; at least one sample is needed", path);
    r.samples = host_floats(r.count);
    for (size_t t = 0; t < r.count; ++t) {
        unsigned char sample[2];
        if (fread(sample, 1, 2, file) != 2)
            die("%s: the file ends after %zu of the %zu samples that its data chunk announces", path, t, r.count);
        const int value = (int)little_endian(sample, 2);
        r.samples[t] = (float)(value < 32768 ? value : value - 65536) / 32768;
    }
    return r;
}

recording read_wav(const char* path) {
    FILE* file = fopen(path, "rb");
    unsigned char head[12], chunk[8], format[40];
    unsigned long rate = 0;
    if (file == NULL) die("%s: cannot be opened for reading", path);
    if (fread(head, 1, 12, file) != 12 || memcmp(head, "RIFF", 4) != 0 || memcmp(head + 8, "WAVE", 4) != 0)
        die("%s: does not start with RIFF....WAVE; accepted are WAV files", path);
    while (fread(chunk, 1, 8, file) == 8) {
        const unsigned long size = little_endian(chunk + 4, 4);
        unsigned long read = 0;
        if (memcmp(chunk, "data", 4) == 0) {
            if (rate == 0) die("%s: the data chunk comes before the fmt chunk", path);
            const recording r = read_samples(path, file, size, rate);
            fclose(file);
            return r;
        }
        if (memcmp(chunk, "fmt ", 4) == 0) {
            read = size < sizeof format ? size : sizeof format;
            if (fread(format, 1, read, file) != read) die("%s: the file ends inside its fmt chunk", path);
            rate = check_format(path, format, read);
        }
        /* Chunks are padded to an even size. */
        if (fseek(file, (long)(size - read + size % 2), SEEK_CUR) != 0) break;
    }
    die("%s: no data chunk was found", path);
    return (recording){NULL, 0, 0};
}

static void write_bytes(FILE* file, unsigned long value, int count) {
    for (; count-- > 0; value >>= 8) fputc((int)(value & 255), file);
}

void write_wav(const char* path, const float* samples, size_t count, unsigned long rate) {
    float peak = 0;
    for (size_t t = 0; t < count; ++t) peak = fmaxf(peak, fabsf(samples[t]));
    const float scale = peak > 1 ? 1 / peak : 1;
    const unsigned long bytes = 2 * (unsigned long)count;
    FILE* file = fopen(path, "wb");
    if (file == NULL) die("%s: cannot be opened for writing", path);
    fputs("RIFF", file);
    write_bytes(file, 36 + bytes, 4);
    fputs("WAVEfmt ", file);
    write_bytes(file, 16, 4);
    write_bytes(file, 1, 2); /* PCM */
    write_bytes(file, 1, 2); /* channels */
    write_bytes(file, rate, 4);
    write_bytes(file, 2 * rate, 4); /* bytes a second */
    write_bytes(file, 2, 2);        /* bytes a step */
    write_bytes(file, 16, 2);       /* bits a sample */
    fputs("data", file);
    write_bytes(file, bytes, 4);
    for (size_t t = 0; t < count; ++t)
        write_bytes(file, (unsigned long)(lrintf(samples[t] * scale * 32767) & 0xffff), 2);
    const int failed = ferror(file);
    if (fclose(file) != 0 || failed) die("%s: could not be written", path);
    printf("written      %s, peak %.3f, scaled by %.4f to fit 16 bits\n", path, peak, scale);
}
