// SPDX-License-Identifier: Apache-2.0
// Custom operators: structs, operators that do not commute, elements of any size, callbacks, adjoints, and an operator
// that notices every element that is none of the caller's.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "support/call.h"
#include "support/memory.h"
#include "support/operator_problem.h"

namespace numeric {
namespace {

using namespace support;

constexpr int32_t grad = FLASHSCAN_GRAD;

// Count, mean and sum of squared deviations of some numbers (Chan, Golub and LeVeque 1983).
struct Moments {
    double count, mean, deviation;
};
Moments merge(const Moments& a, const Moments& b) {
    const double count = a.count + b.count, apart = b.mean - a.mean;
    return {count, a.mean + apart * b.count / count,
            a.deviation + b.deviation + apart * apart * a.count * b.count / count};
}
void merge_moments(void*, const void* l, const void* r, void* out) {
    *static_cast<Moments*>(out) = merge(*static_cast<const Moments*>(l), *static_cast<const Moments*>(r));
}

// 2 x 2 matrices of integers modulo a prime: exact, and they do not commute. The first byte of five marks an element.
constexpr int mark = 0xa7, modulus = 251;
struct Exact {
    unsigned char tag, m[4];
};
std::atomic<int64_t> combined{0}, strays{0};
void multiply_exact(void*, const void* l, const void* r, void* out) {
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
std::atomic<int64_t> calls{0};
int32_t multiply_exact_batched(void*, const void* l, int64_t l_stride, const void* r, int64_t r_stride, void* out,
                               int64_t out_stride, int64_t count, void* stream) {
    ++calls;
    if (stream != nullptr || count < 1) return 1;
    for (int64_t i = 0; i < count; ++i)
        multiply_exact(nullptr, static_cast<const char*>(l) + i * l_stride, static_cast<const char*>(r) + i * r_stride,
                       static_cast<char*>(out) + i * out_stride);
    return 0;
}

// What a case differs in.
struct Shape {
    int64_t batch, time, channels, sequences;
    int32_t layout, mode;
    bool reverse, state;
    int32_t threads = 0;
};

flashscan_operator_desc desc_of(const Shape& s, const flashscan_custom_operator& custom) {
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.layout = s.layout;
    desc.mode = s.mode;
    desc.direction = s.reverse ? FLASHSCAN_REVERSE_IN_TIME : FLASHSCAN_FORWARD_IN_TIME;
    desc.batch = s.batch;
    desc.time = s.time;
    desc.channels = s.channels;
    desc.num_sequences = s.sequences;
    desc.custom = &custom;
    return desc;
}

flashscan_custom_operator custom_of(int64_t bytes) {
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = bytes;
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
        output.assign((s.mode == FLASHSCAN_REDUCTION ? chains : elements) * size, 0xee);
        state_in.assign(chains * size, 0);
        state_out.assign(chains * size, 0xee);
    }
    size_t place(int64_t b, int64_t t, int64_t c) const {
        const int64_t at = shape.layout == FLASHSCAN_LAYOUT_BTC ? (b * shape.time + t) * shape.channels + c
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
                if (s.mode == FLASHSCAN_SCAN_EXCLUSIVE) std::copy(y.begin(), y.end(), a.output.data() + at);
                Bytes x(a.input.data() + at, a.input.data() + at + a.size), next(a.size);
                if (any)
                    combine(y.data(), x.data(), next.data());
                else
                    next = x;
                y = next;
                if (s.mode == FLASHSCAN_SCAN_INCLUSIVE) std::copy(y.begin(), y.end(), a.output.data() + at);
            }
            if (!any) continue;
            std::copy(y.begin(), y.end(), a.state_out.data() + chain);
            if (s.mode == FLASHSCAN_REDUCTION) std::copy(y.begin(), y.end(), a.output.data() + chain);
        }
}

flashscan_status run(const flashscan_operator_desc& desc, std::vector<flashscan_arg> arguments, int32_t threads = 0) {
    const Plan plan(desc, make_options(FLASHSCAN_CPU, "", threads, false, false));
    if (!plan) return plan.status();
    return flashscan_forward(plan.get(), arguments.data(), static_cast<int32_t>(arguments.size()), nullptr);
}

void fill_exact(Bytes& elements, uint64_t stream) {
    for (size_t i = 0; i < elements.size(); ++i)
        elements[i] = static_cast<unsigned char>(
            i % sizeof(Exact) == 0 ? mark : static_cast<int>(uniform(3, stream, i) * modulus));
}

std::vector<Shape> shapes() {
    std::vector<Shape> list;
    int i = 0;
    for (const int64_t time : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 100, 127, 128, 129, 2500, 5003})
        for (const int32_t mode : {FLASHSCAN_SCAN_INCLUSIVE, FLASHSCAN_SCAN_EXCLUSIVE, FLASHSCAN_REDUCTION}) {
            const bool packed = i % 4 == 1;
            list.push_back({packed ? 1 : 1 + i % 3, time, 1 + i % 2, packed ? 5 : 0, i % 3 == 0 ? 1 : 0, mode,
                            i % 5 < 2, mode == FLASHSCAN_SCAN_EXCLUSIVE || i % 2 == 0, 1 + i % 3});
            ++i;
        }
    return list;
}

TEST(OperatorCustom, ExactMatricesMatchTheFoldAndNothingElseIsCombined) {
    for (const bool batched : {false, true})
        for (const Shape& s : shapes()) {
            flashscan_custom_operator custom = custom_of(sizeof(Exact));
            custom.host = batched ? nullptr : multiply_exact;
            custom.batched = batched ? multiply_exact_batched : nullptr;
            Arrays got(s, sizeof(Exact));
            fill_exact(got.input, 1);
            fill_exact(got.state_in, 2);
            Arrays want = got;
            combined = strays = calls = 0;
            ASSERT_EQ(run(desc_of(s, custom), got.arguments(), s.threads), FLASHSCAN_OK) << flashscan_last_error();
            const int64_t steps = s.batch * s.time * s.channels + got.rows * s.channels;
            EXPECT_EQ(strays, 0);
            EXPECT_LE(combined, 2 * steps);
            EXPECT_LE(static_cast<double>(calls), 2 * std::log2(static_cast<double>(s.time + 2)) + 2);
            fold(want, [](const void* l, const void* r, void* out) { multiply_exact(nullptr, l, r, out); });
            const std::string where = std::string(batched ? "batched" : "host") + " t" + std::to_string(s.time) +
                                      " mode" + std::to_string(s.mode) + " sequences" + std::to_string(s.sequences) +
                                      (s.reverse ? " reverse" : "") + (s.state ? " state" : "");
            EXPECT_TRUE(got.output == want.output) << where;
            EXPECT_TRUE(got.state_out == want.state_out) << where;
        }
}

TEST(OperatorCustom, RunningMeanAndVariance) {
    constexpr int64_t time = 10007;
    const Shape s{1, time, 1, 0, 0, FLASHSCAN_SCAN_INCLUSIVE, false, false, 0};
    flashscan_custom_operator custom = custom_of(sizeof(Moments));
    custom.host = merge_moments;
    Arrays a(s, sizeof(Moments));
    std::vector<double> values;
    for (int64_t t = 0; t < time; ++t) {
        values.push_back(1e3 + uniform(5, 1, static_cast<uint64_t>(t)));
        const Moments one{1, values.back(), 0};
        std::memcpy(a.input.data() + static_cast<size_t>(t) * sizeof one, &one, sizeof one);
    }
    ASSERT_EQ(run(desc_of(s, custom), a.arguments()), FLASHSCAN_OK) << flashscan_last_error();
    double sum = 0;
    for (int64_t t = 0; t < time; ++t) {
        sum += values[static_cast<size_t>(t)];
        if (t % 997 != 0 && t != time - 1) continue;
        Moments y;
        std::memcpy(&y, a.output.data() + static_cast<size_t>(t) * sizeof y, sizeof y);
        const double count = static_cast<double>(t + 1), mean = sum / count;
        double deviation = 0;
        for (int64_t i = 0; i <= t; ++i) deviation += std::pow(values[static_cast<size_t>(i)] - mean, 2);
        EXPECT_EQ(y.count, count);
        EXPECT_NEAR(y.mean, mean, 1e-9);
        EXPECT_NEAR(y.deviation, deviation, 1e-9 * (deviation + 1));
    }
}

// l and r are bytes of any size: concatenation in the sense of "last element wins but for the first byte".
TEST(OperatorCustom, ElementsOfAnySize) {
    for (const int64_t bytes : {1, 2, 3, 5, 7, 12, 63, 64, 100, 4096}) {
        const Shape s{2, 37, 1, 0, 0, FLASHSCAN_SCAN_INCLUSIVE, false, false, 2};
        int64_t size = bytes;
        flashscan_custom_operator custom = custom_of(bytes);
        custom.state = &size;
        custom.host = [](void* state, const void* l, const void* r, void* out) {
            const auto n = static_cast<size_t>(*static_cast<int64_t*>(state));
            for (size_t i = 0; i < n; ++i)
                static_cast<unsigned char*>(out)[i] = static_cast<unsigned char>(
                    static_cast<const unsigned char*>(l)[i] + static_cast<const unsigned char*>(r)[i]);
        };
        Arrays got(s, static_cast<size_t>(bytes));
        for (size_t i = 0; i < got.input.size(); ++i) got.input[i] = static_cast<unsigned char>(i * 37 + 11);
        Arrays want = got;
        ASSERT_EQ(run(desc_of(s, custom), got.arguments(), s.threads), FLASHSCAN_OK) << flashscan_last_error();
        fold(want, [&](const void* l, const void* r, void* out) { custom.host(&size, l, r, out); });
        EXPECT_TRUE(got.output == want.output) << bytes;
    }
}

// Complex products as a custom operator with an adjoint, against the operator built in.
void multiply_pair(void*, const void* l, const void* r, void* out) {
    const auto *a = static_cast<const double*>(l), *b = static_cast<const double*>(r);
    auto* c = static_cast<double*>(out);
    c[0] = a[0] * b[0] - a[1] * b[1];
    c[1] = a[0] * b[1] + a[1] * b[0];
}
void multiply_pair_adjoint(void*, const void* l, const void* r, const void* g, void* gl, void* gr) {
    const auto *a = static_cast<const double*>(l), *b = static_cast<const double*>(r),
               *d = static_cast<const double*>(g);
    auto *da = static_cast<double*>(gl), *db = static_cast<double*>(gr);
    da[0] = b[0] * d[0] + b[1] * d[1], da[1] = b[0] * d[1] - b[1] * d[0];
    db[0] = a[0] * d[0] + a[1] * d[1], db[1] = a[0] * d[1] - a[1] * d[0];
}
int32_t multiply_pair_batched(void*, const void* l, int64_t l_stride, const void* r, int64_t r_stride, void* out,
                              int64_t out_stride, int64_t count, void*) {
    for (int64_t i = 0; i < count; ++i)
        multiply_pair(nullptr, static_cast<const char*>(l) + i * l_stride, static_cast<const char*>(r) + i * r_stride,
                      static_cast<char*>(out) + i * out_stride);
    return 0;
}
int32_t multiply_pair_batched_adjoint(void*, const void* l, const void* r, const void* g, void* gl, void* gr,
                                      int64_t count, void*) {
    for (int64_t i = 0; i < count; ++i) {
        const auto at = [&](const void* p) { return static_cast<const char*>(p) + 16 * i; };
        multiply_pair_adjoint(nullptr, at(l), at(r), at(g), static_cast<char*>(gl) + 16 * i,
                              static_cast<char*>(gr) + 16 * i);
    }
    return 0;
}

TEST(OperatorCustom, AdjointsGiveTheGradientsOfTheBuiltInOperator) {
    for (const bool batched : {false, true})
        for (const Shape& s : shapes()) {
            if (s.time > 200) continue;
            flashscan_custom_operator custom = custom_of(16);
            if (batched)
                custom.batched = multiply_pair_batched, custom.batched_adjoint = multiply_pair_batched_adjoint;
            else
                custom.host = multiply_pair, custom.host_adjoint = multiply_pair_adjoint;
            flashscan_operator_desc own = desc_of(s, custom), built_in = own;
            own.dtype = FLASHSCAN_F64;
            built_in.dtype = FLASHSCAN_C128;
            built_in.kind = FLASHSCAN_OPERATOR_MUL;
            built_in.custom = nullptr;
            Arrays a(s, 16);
            const auto randomise = [](Bytes& bytes, uint64_t stream) {
                for (size_t i = 0; i < bytes.size() / 8; ++i) {
                    const double value = i % 2 == 0 ? 0.9 + 0.2 * uniform(9, stream, i) : 0.2 * uniform(9, stream, i);
                    std::memcpy(bytes.data() + 8 * i, &value, 8);
                }
            };
            randomise(a.input, 1), randomise(a.state_in, 2);
            Bytes grad_output(a.output.size()), grad_state_out(a.state_out.size());
            randomise(grad_output, 3), randomise(grad_state_out, 4);
            std::vector<Bytes> results[2];
            for (const bool mine : {false, true}) {
                Bytes grad_input(a.input.size()), grad_state_in(a.state_in.size());
                std::vector<flashscan_arg> args = a.arguments();
                args.erase(args.begin() + 1, args.begin() + 3);
                args.push_back({grad | FLASHSCAN_ARG_OUTPUT, 0, grad_output.data(), grad_output.size()});
                args.push_back({grad | FLASHSCAN_ARG_STATE_OUT, 0, grad_state_out.data(), grad_state_out.size()});
                args.push_back({grad | FLASHSCAN_ARG_INPUT, 0, grad_input.data(), grad_input.size()});
                if (s.state)
                    args.push_back({grad | FLASHSCAN_ARG_STATE_IN, 0, grad_state_in.data(), grad_state_in.size()});
                const Plan plan(mine ? own : built_in, make_options(FLASHSCAN_CPU, "", s.threads, false, false));
                ASSERT_TRUE(plan) << plan.message();
                ASSERT_EQ(flashscan_backward(plan.get(), args.data(), static_cast<int32_t>(args.size()), nullptr),
                          FLASHSCAN_OK)
                    << flashscan_last_error();
                results[mine ? 1 : 0] = {grad_input, grad_state_in};
            }
            for (size_t which = 0; which < 2; ++which)
                for (size_t i = 0; i < results[0][which].size(); i += 8) {
                    double want, got;
                    std::memcpy(&want, results[0][which].data() + i, 8);
                    std::memcpy(&got, results[1][which].data() + i, 8);
                    ASSERT_NEAR(got, want, 1e-9 * (1 + std::abs(want)))
                        << (batched ? "batched" : "host") << " t" << s.time << " mode " << s.mode << " array " << which
                        << " number " << i / 8;
                }
        }
}

}  // namespace
}  // namespace numeric
