// SPDX-License-Identifier: Apache-2.0
// Custom operators, the shapes and arrays of their tests, and the fold that they are compared with.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "support/call.h"
#include "support/operator_problem.h"

namespace support::custom {

// Count, mean and sum of squared deviations of some numbers (Chan, Golub and LeVeque 1983).
struct Moments {
    double count, mean, deviation;
};
inline Moments merge(const Moments& a, const Moments& b) {
    const double count = a.count + b.count, apart = b.mean - a.mean;
    return {count, a.mean + apart * b.count / count,
            a.deviation + b.deviation + apart * apart * a.count * b.count / count};
}
inline void merge_moments(void*, const void* l, const void* r, void* out) {
    *static_cast<Moments*>(out) = merge(*static_cast<const Moments*>(l), *static_cast<const Moments*>(r));
}

// 2 x 2 matrices of integers modulo a prime: exact, and they do not commute. The first byte of five marks an element.
inline constexpr int mark = 0xa7, modulus = 251;
struct Exact {
    unsigned char tag, m[4];
};
inline std::atomic<int64_t> combined{0}, strays{0};
inline void multiply_exact(void*, const void* l, const void* r, void* out) {
    Exact a, b, c{};
    std::memcpy(&a, l, sizeof a);
    std::memcpy(&b, r, sizeof b);
    ++combined;
    if (a.tag != mark || b.tag != mark) ++strays;
    c.tag = mark;
    for (unsigned i = 0; i < 2; ++i)
        for (unsigned j = 0; j < 2; ++j)
            c.m[2 * i + j] = static_cast<unsigned char>((a.m[2 * i] * b.m[j] + a.m[2 * i + 1] * b.m[2 + j]) % modulus);
    std::memcpy(out, &c, sizeof c);
}
// The same as device code.
inline constexpr const char* exact_code = R"(
struct Exact { unsigned char tag, m[4]; };
extern "C" __device__ void multiply_exact(const void* l, const void* r, void* out) {
    const Exact a = *(const Exact*)l, b = *(const Exact*)r;
    if (a.tag != 0xa7 || b.tag != 0xa7) __trap();
    Exact c;
    c.tag = 0xa7;
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            c.m[2 * i + j] = (unsigned char)((a.m[2 * i] * b.m[j] + a.m[2 * i + 1] * b.m[2 + j]) % 251);
    *(Exact*)out = c;
}
)";
inline std::atomic<int64_t> calls{0};
inline int32_t multiply_exact_batched(void*, const void* l, int64_t l_stride, const void* r, int64_t r_stride,
                                      void* out, int64_t out_stride, int64_t count, void* stream) {
    ++calls;
    if (stream != nullptr || count < 1) return 1;
    for (int64_t i = 0; i < count; ++i)
        multiply_exact(nullptr, static_cast<const char*>(l) + i * l_stride, static_cast<const char*>(r) + i * r_stride,
                       static_cast<char*>(out) + i * out_stride);
    return 0;
}

// Cases differ in these.
struct Shape {
    int64_t batch, time, channels, sequences;
    int32_t layout, mode;
    bool reverse, state;
    int32_t threads = 0;
};

inline flashscan_operator_desc desc_of(const Shape& s, const flashscan_custom_operator& custom) {
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.layout = s.layout;
    desc.mode = s.mode;
    desc.direction = s.reverse ? FLASHSCAN_DIRECTION_REVERSE : FLASHSCAN_DIRECTION_FORWARD;
    desc.batch = s.batch;
    desc.time = s.time;
    desc.channels = s.channels;
    desc.num_sequences = s.sequences;
    desc.custom = &custom;
    return desc;
}

inline flashscan_custom_operator custom_of(int64_t bytes) {
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = bytes;
    return custom;
}

inline flashscan_custom_operator code_of(int64_t bytes, const std::string& code, const char* name) {
    flashscan_custom_operator custom = custom_of(bytes);
    custom.code_kind = FLASHSCAN_CODE_CUDA_SOURCE;
    custom.code = code.data();
    custom.code_bytes = code.size();
    custom.name = name;
    return custom;
}

// Arrays of elements as a call takes them.
struct Arrays {
    Arrays(const Shape& s, size_t bytes)
        : shape(s),
          size(bytes),
          offsets(s.sequences > 0 ? make_offsets(7, s.time, s.sequences) : std::vector<int64_t>{}),
          rows(s.sequences > 0 ? s.sequences : s.batch) {
        const auto elements = static_cast<size_t>(s.batch * s.time * s.channels);
        const auto chains = static_cast<size_t>(rows * s.channels);
        input.assign(elements * size, 0);
        output.assign((s.mode == FLASHSCAN_MODE_REDUCTION ? chains : elements) * size, 0xee);
        state_in.assign(chains * size, 0);
        state_out.assign(chains * size, 0xee);
    }
    size_t place(int64_t b, int64_t t, int64_t c) const {
        const int64_t at = shape.layout != FLASHSCAN_LAYOUT_BCT ? (b * shape.time + t) * shape.channels + c
                                                                : (b * shape.channels + c) * shape.time + t;
        return static_cast<size_t>(at) * size;
    }
    std::vector<flashscan_arg> arguments() {
        std::vector<flashscan_arg> list{{FLASHSCAN_ARG_INPUT, 0, input.data(), input.size()},
                                        {FLASHSCAN_ARG_OUTPUT, 0, output.data(), output.size()},
                                        {FLASHSCAN_ARG_STATE_OUT, 0, state_out.data(), state_out.size()}};
        if (shape.state) list.push_back({FLASHSCAN_ARG_STATE_IN, 0, state_in.data(), state_in.size()});
        if (!offsets.empty())
            list.push_back({FLASHSCAN_ARG_SEQ_OFFSETS, 0, offsets.data(), offsets.size() * sizeof(int64_t)});
        return list;
    }
    Shape shape;
    size_t size;
    std::vector<int64_t> offsets;
    int64_t rows;
    Bytes input, output, state_in, state_out;
};

// The fold as the header defines it, with `combine` as the operator.
template <typename Combine>
void fold(Arrays& a, Combine combine) {
    const Shape& s = a.shape;
    for (const Sequence& q : sequences_of(s.batch, s.time, a.offsets))
        for (int64_t c = 0; c < s.channels; ++c) {
            const size_t chain = static_cast<size_t>(q.state * s.channels + c) * a.size;
            Bytes y(a.size);
            bool any = s.state;
            if (any) std::copy_n(a.state_in.begin() + static_cast<std::ptrdiff_t>(chain), a.size, y.begin());
            for (int64_t i = 0; i < q.length(); ++i, any = true) {
                const size_t at = a.place(q.batch, q.step(s.reverse, i), c);
                if (s.mode == FLASHSCAN_MODE_EXCLUSIVE) std::copy(y.begin(), y.end(), a.output.data() + at);
                Bytes x(a.input.data() + at, a.input.data() + at + a.size), next(a.size);
                if (any)
                    combine(y.data(), x.data(), next.data());
                else
                    next = x;
                y = next;
                if (s.mode == FLASHSCAN_MODE_INCLUSIVE) std::copy(y.begin(), y.end(), a.output.data() + at);
            }
            if (!any) continue;
            std::copy(y.begin(), y.end(), a.state_out.data() + chain);
            if (s.mode == FLASHSCAN_MODE_REDUCTION) std::copy(y.begin(), y.end(), a.output.data() + chain);
        }
}

inline void fill_exact(Bytes& elements, uint64_t stream) {
    for (size_t i = 0; i < elements.size(); ++i)
        elements[i] = static_cast<unsigned char>(
            i % sizeof(Exact) == 0 ? mark : static_cast<int>(uniform(3, stream, i) * modulus));
}

inline std::vector<Shape> shapes() {
    std::vector<Shape> list;
    int i = 0;
    for (const int64_t time : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 100, 127, 128, 129, 2500, 5003})
        for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION}) {
            const bool packed = i % 4 == 1;
            list.push_back({packed ? 1 : 1 + i % 3, time, 1 + i % 2, packed ? 5 : 0,
                            i % 3 == 0 ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC, mode, i % 5 < 2,
                            mode == FLASHSCAN_MODE_EXCLUSIVE || i % 2 == 0, 1 + i % 3});
            ++i;
        }
    for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION}) {
        list.push_back({0, 5, 2, 0, 0, mode, false, true});
        list.push_back({2, 5, 0, 0, FLASHSCAN_LAYOUT_BCT, mode, true, true});
        list.push_back({1, 0, 3, 4, 0, mode, false, true});
    }
    return list;
}

// Complex products as a custom operator with an adjoint, against the operator built in.
inline void multiply_pair(void*, const void* l, const void* r, void* out) {
    const auto *a = static_cast<const double*>(l), *b = static_cast<const double*>(r);
    auto* c = static_cast<double*>(out);
    c[0] = a[0] * b[0] - a[1] * b[1];
    c[1] = a[0] * b[1] + a[1] * b[0];
}
inline void multiply_pair_adjoint(void*, const void* l, const void* r, const void* g, void* gl, void* gr) {
    const auto *a = static_cast<const double*>(l), *b = static_cast<const double*>(r),
               *d = static_cast<const double*>(g);
    auto *da = static_cast<double*>(gl), *db = static_cast<double*>(gr);
    da[0] = b[0] * d[0] + b[1] * d[1], da[1] = b[0] * d[1] - b[1] * d[0];
    db[0] = a[0] * d[0] + a[1] * d[1], db[1] = a[0] * d[1] - a[1] * d[0];
}
inline int32_t multiply_pair_batched(void*, const void* l, int64_t l_stride, const void* r, int64_t r_stride, void* out,
                                     int64_t out_stride, int64_t count, void*) {
    for (int64_t i = 0; i < count; ++i)
        multiply_pair(nullptr, static_cast<const char*>(l) + i * l_stride, static_cast<const char*>(r) + i * r_stride,
                      static_cast<char*>(out) + i * out_stride);
    return 0;
}
inline int32_t multiply_pair_batched_adjoint(void*, const void* l, const void* r, const void* g, void* gl, void* gr,
                                             int64_t count, void*) {
    for (int64_t i = 0; i < count; ++i) {
        const auto at = [&](const void* p) { return static_cast<const char*>(p) + 16 * i; };
        multiply_pair_adjoint(nullptr, at(l), at(r), at(g), static_cast<char*>(gl) + 16 * i,
                              static_cast<char*>(gr) + 16 * i);
    }
    return 0;
}

}  // namespace support::custom
