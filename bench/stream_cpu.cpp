// SPDX-License-Identifier: Apache-2.0
// Host streams: plain stores, which read the lines they are about to write, and non-temporal stores, which do not.
#include <algorithm>

#include "stream.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {
namespace {

constexpr size_t line = 64;

// The part of the arrays that thread `index` of `threads` works on, whole cache lines.
struct Part {
    size_t begin, end;
    Part(size_t bytes, int index, int threads) {
        const size_t lines = bytes / line, count = static_cast<size_t>(threads), i = static_cast<size_t>(index);
        begin = lines * i / count * line;
        end = index + 1 == threads ? bytes : lines * (i + 1) / count * line;
    }
};

void plain(const StreamArrays& a, bool backward, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; ++t) {
        const Part part(a.bytes, t, threads);
        const auto* r0 = static_cast<const uint64_t*>(a.read[0]);
        const auto* r1 = static_cast<const uint64_t*>(a.read[1]);
        const auto* r2 = static_cast<const uint64_t*>(a.read[2]);
        auto* w0 = static_cast<uint64_t*>(a.write[0]);
        auto* w1 = static_cast<uint64_t*>(a.write[1]);
        if (backward) {
#pragma omp simd
            for (size_t i = part.begin / 8; i < part.end / 8; ++i) {
                w0[i] = r0[i] ^ r1[i];
                w1[i] = r0[i] ^ r2[i];
            }
        } else {
#pragma omp simd
            for (size_t i = part.begin / 8; i < part.end / 8; ++i) w0[i] = r0[i] ^ r1[i];
        }
    }
}

bool always() { return true; }

#if defined(__x86_64__)

__m128i load16(const void* base, size_t at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const char*>(base) + at));
}
void stream16(void* base, size_t at, __m128i value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(static_cast<char*>(base) + at), value);
}

void non_temporal_128(const StreamArrays& a, bool backward, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; ++t) {
        const Part part(a.bytes, t, threads);
        for (size_t at = part.begin; at < part.end; at += 16) {
            const __m128i first = load16(a.read[0], at);
            stream16(a.write[0], at, _mm_xor_si128(first, load16(a.read[1], at)));
            if (backward) stream16(a.write[1], at, _mm_xor_si128(first, load16(a.read[2], at)));
        }
        _mm_sfence();
    }
}

__attribute__((target("avx512f"))) void non_temporal_512_part(const StreamArrays& a, bool backward, Part part) {
    const auto* r0 = static_cast<const char*>(a.read[0]);
    const auto* r1 = static_cast<const char*>(a.read[1]);
    const auto* r2 = static_cast<const char*>(a.read[2]);
    size_t at = part.begin;
    for (; at + line <= part.end; at += line) {
        const __m512i first = _mm512_loadu_si512(r0 + at);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(static_cast<char*>(a.write[0]) + at),
                            _mm512_xor_si512(first, _mm512_loadu_si512(r1 + at)));
        if (backward)
            _mm512_stream_si512(reinterpret_cast<__m512i*>(static_cast<char*>(a.write[1]) + at),
                                _mm512_xor_si512(first, _mm512_loadu_si512(r2 + at)));
    }
    for (; at < part.end; at += 16) {
        const __m128i first = load16(a.read[0], at);
        stream16(a.write[0], at, _mm_xor_si128(first, load16(a.read[1], at)));
        if (backward) stream16(a.write[1], at, _mm_xor_si128(first, load16(a.read[2], at)));
    }
    _mm_sfence();
}

void non_temporal_512(const StreamArrays& a, bool backward, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; ++t) non_temporal_512_part(a, backward, Part(a.bytes, t, threads));
}

bool has_avx512() { return __builtin_cpu_supports("avx512f") != 0; }

#endif

}  // namespace

const HostStream host_streams[] = {
    {"plain stores", plain, always},
#if defined(__x86_64__)
    {"non-temporal stores of 16 bytes", non_temporal_128, always},
    {"non-temporal stores of 64 bytes", non_temporal_512, has_avx512},
#endif
};
const int num_host_streams = static_cast<int>(std::size(host_streams));

}  // namespace bench
