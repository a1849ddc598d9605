// SPDX-License-Identifier: Apache-2.0
// Custom operators over several ranks, each a thread, against the fold on the whole, and their gradients against those
// of the operator built in: host functions and callbacks on the CPU, device code on a GPU that the ranks share. And
// callbacks that fail on one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "support/check.h"
#include "support/custom_scene.h"
#include "support/ranks.h"

namespace numeric {
namespace {

using namespace support;
using namespace support::custom;

struct Result {
    flashscan_status status = FLASHSCAN_STATUS_OK;
    std::string sentence;
};

constexpr Target device{FLASHSCAN_BACKEND_CUDA, ""};
constexpr int32_t grad = FLASHSCAN_GRAD;

// The gradients of a call, in memory of the host.
struct Gradients {
    explicit Gradients(const Arrays& of)
        : output(of.output.size()),
          state_out(of.state_out.size()),
          input(of.input.size()),
          state_in(of.state_in.size()) {}
    Bytes output, state_out, input, state_in;
};
std::vector<flashscan_arg> backward_arguments(Arrays& a, Gradients& g) {
    std::vector<flashscan_arg> list{{FLASHSCAN_ARG_INPUT, 0, a.input.data(), a.input.size()},
                                    {grad | FLASHSCAN_ARG_OUTPUT, 0, g.output.data(), g.output.size()},
                                    {grad | FLASHSCAN_ARG_STATE_OUT, 0, g.state_out.data(), g.state_out.size()},
                                    {grad | FLASHSCAN_ARG_INPUT, 0, g.input.data(), g.input.size()}};
    if (!a.shape.state) return list;
    list.push_back({FLASHSCAN_ARG_STATE_IN, 0, a.state_in.data(), a.state_in.size()});
    list.push_back({grad | FLASHSCAN_ARG_STATE_IN, 0, g.state_in.data(), g.state_in.size()});
    return list;
}

// How calls for gradients differ.
struct How {
    int32_t dtype = FLASHSCAN_DTYPE_F64;
    size_t shift = 0;      // of all arguments, from an aligned address
    int32_t without = -1;  // GRAD|INPUT, which the first rank lacks, or GRAD|STATE_OUT
};

// A call in memory of the backend.
void execute(const Plan& plan, int32_t pass, const std::vector<flashscan_arg>& arguments, int32_t backend,
             Result& result, size_t shift = 0) {
    std::vector<std::unique_ptr<Buffer>> buffers;
    std::vector<flashscan_arg> own = arguments;
    for (flashscan_arg& argument : own) {
        const auto* bytes = static_cast<const unsigned char*>(argument.data);
        buffers.push_back(make_buffer(backend, argument.bytes, shift > 0 ? Guard::start : Guard::end, 1, shift));
        buffers.back()->write(Bytes(bytes, bytes + argument.bytes));
        argument.data = buffers.back()->data();
    }
    result.status =
        flashscan_execute(plan.get(), pass, own.data(), static_cast<int32_t>(own.size()), test_stream(backend));
    if (result.status != FLASHSCAN_STATUS_OK) result.sentence = flashscan_last_error();
    const char* error = synchronize(backend);
    EXPECT_EQ(error, nullptr) << error;
    for (size_t i = 0; i < buffers.size(); ++i) {
        const Bytes bytes = buffers[i]->read();
        std::copy(bytes.begin(), bytes.end(), static_cast<unsigned char*>(arguments[i].data));
        EXPECT_TRUE(buffers[i]->surroundings_intact()) << "argument " << arguments[i].id;
    }
}

// Executes forward on every rank's arrays, and backward where there are gradients; `change` may give each rank an
// operator of its own.
std::vector<Result> run(std::vector<Arrays>& parts, bool reverse, const char* kernel, Meeting& meeting,
                        const std::function<void(int32_t rank, flashscan_custom_operator&)>& change,
                        std::vector<Gradients>* gradients = nullptr, const How& how = {}) {
    std::vector<Result> results(parts.size());
    on_ranks(meeting.size(), [&](int32_t rank) {
        Arrays& part = parts[static_cast<size_t>(rank)];
        Result& result = results[static_cast<size_t>(rank)];
        flashscan_custom_operator custom = custom_of(static_cast<int64_t>(part.size));
        custom.host = multiply_exact;
        change(rank, custom);
        flashscan_operator_desc desc = custom::desc_of(part.shape, custom);
        if (gradients != nullptr) desc.dtype = how.dtype;
        const std::string name = kernel;
        const bool on_gpu = meeting.backend() == FLASHSCAN_BACKEND_CUDA;
        flashscan_options options =
            make_options(meeting.backend(), name, on_gpu ? 0 : part.shape.threads, false, false);
        const flashscan_comm comm = meeting.comm(rank);
        options.communicator = &comm;
        const Plan plan(desc, options);
        result = {plan.status(), plan.message()};
        if (!plan) return;
        const int32_t first = reverse ? meeting.size() - 1 : 0;
        const auto execute_own = [&](int32_t pass, std::vector<flashscan_arg> arguments) {
            std::erase_if(arguments, [&](const flashscan_arg& argument) {
                const int32_t id = argument.id & ~grad;
                return (argument.id == how.without && (id != FLASHSCAN_ARG_INPUT || rank == first)) ||
                       (id == FLASHSCAN_ARG_STATE_IN && rank != first) ||
                       (id == FLASHSCAN_ARG_STATE_OUT && rank != meeting.size() - 1 - first);
            });
            execute(plan, pass, arguments, meeting.backend(), result, how.shift);
        };
        execute_own(FLASHSCAN_PASS_FORWARD, part.arguments());
        if (gradients != nullptr && result.status == FLASHSCAN_STATUS_OK)
            execute_own(FLASHSCAN_PASS_BACKWARD, backward_arguments(part, (*gradients)[static_cast<size_t>(rank)]));
    });
    EXPECT_EQ(meeting.trouble(), "");
    return results;
}

// Copies the steps of a rank, from `begin` of the whole on.
void take_steps(const Arrays& whole, const Bytes& from, int64_t begin, const Arrays& part, Bytes& to) {
    for (int64_t b = 0; b < part.shape.batch; ++b)
        for (int64_t t = 0; t < part.shape.time; ++t)
            for (int64_t c = 0; c < part.shape.channels; ++c)
                std::copy_n(from.data() + whole.place(b, begin + t, c), whole.size, to.data() + part.place(b, t, c));
}

std::vector<Arrays> parts_of(const Arrays& whole, const std::vector<int64_t>& lengths) {
    std::vector<Arrays> parts;
    int64_t begin = 0;
    for (const int64_t length : lengths) {
        Shape shape = whole.shape;
        shape.time = length;
        Arrays part(shape, whole.size);
        part.state_in = whole.state_in;
        take_steps(whole, whole.input, begin, part, part.input);
        parts.push_back(part);
        begin += length;
    }
    return parts;
}

// `combine` is what the operator that `change` sets does.
template <typename Combine>
void expect_fold(const Arrays& whole_before, const std::vector<int64_t>& lengths, const char* kernel, int32_t backend,
                 const std::function<void(int32_t, flashscan_custom_operator&)>& change, Combine combine) {
    Arrays whole = whole_before;
    const Shape& shape = whole.shape;
    std::string cut;
    for (const int64_t length : lengths) cut += " " + std::to_string(length);
    SCOPED_TRACE(fmt::format("{} b{} c{} mode {}{} in parts of{}", kernel, shape.batch, shape.channels, shape.mode,
                             shape.reverse ? " reverse" : "", cut));
    fill_exact(whole.input, 1);
    fill_exact(whole.state_in, 2);
    std::vector<Arrays> parts = parts_of(whole, lengths);
    fold(whole, combine);
    Meeting meeting(static_cast<int32_t>(lengths.size()), backend);
    const auto results = run(parts, shape.reverse, kernel, meeting, change);
    const size_t last = shape.reverse ? 0 : parts.size() - 1;
    int64_t begin = 0;
    for (size_t rank = 0; rank < parts.size(); ++rank) {
        ASSERT_EQ(results[rank].status, FLASHSCAN_STATUS_OK) << results[rank].sentence;
        const Arrays& part = parts[rank];
        if (shape.mode == FLASHSCAN_MODE_REDUCTION) {
            EXPECT_EQ(part.output, whole.output);
        } else {
            for (int64_t b = 0; b < shape.batch; ++b)
                for (int64_t t = 0; t < lengths[rank]; ++t)
                    for (int64_t c = 0; c < shape.channels; ++c)
                        ASSERT_TRUE(std::equal(part.output.data() + part.place(b, t, c),
                                               part.output.data() + part.place(b, t, c) + part.size,
                                               whole.output.data() + whole.place(b, begin + t, c)))
                            << "rank " << rank << " b" << b << " t" << t << " c" << c;
        }
        EXPECT_EQ(part.state_out, rank == last ? whole.state_out : Bytes(part.state_out.size(), 0xee));
        begin += lengths[rank];
    }
}

void combine_exact(const void* l, const void* r, void* out) { multiply_exact(nullptr, l, r, out); }

void expect_fold(const Shape& shape, const char* kernel, uint64_t seed) {
    constexpr int32_t rank_counts[] = {2, 3, 5, 8, 1};
    const std::string name = kernel;
    expect_fold(
        Arrays(shape, sizeof(Exact)), cut_of(shape.time, rank_counts[seed % std::size(rank_counts)], seed), kernel,
        FLASHSCAN_BACKEND_CPU,
        [&](int32_t, flashscan_custom_operator& custom) {
            if (name == "batched") custom.batched = multiply_exact_batched;
        },
        combine_exact);
}

TEST(RankCustoms, MatchTheFold) {
    strays = 0;
    uint64_t seed = 0;
    for (const char* kernel : {"host", "batched", "reference"})
        for (const Shape& shape : shapes())
            if (shape.sequences == 0 && shape.time < 2000) expect_fold(shape, kernel, ++seed);
    expect_fold({1, 5003, 2, 0, FLASHSCAN_LAYOUT_BTC, FLASHSCAN_MODE_INCLUSIVE, false, true, 2}, "host", 1001);
    EXPECT_EQ(strays, 0);
}

// Parts without steps lie at any place but the first, in MODE_EXCLUSIVE there too.
TEST(RankCustomsOnAGpu, MatchTheFold) {
    SKIP_UNLESS_AVAILABLE(device);
    const std::string code = exact_code;
    const auto change = [&](int32_t, flashscan_custom_operator& custom) {
        custom = code_of(sizeof(Exact), code, "multiply_exact");
    };
    int i = 0;
    for (const std::vector<int64_t>& lengths : std::vector<std::vector<int64_t>>{
             {7}, {5, 4}, {9, 0}, {3, 0, 6}, {1, 1, 1, 1}, {2000, 1, 300}, {4, 0, 0, 5, 0}, {2, 3, 0, 1, 40, 0, 7, 90}})
        for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION})
            for (const bool reverse : {false, true}) {
                const bool exclusive = mode == FLASHSCAN_MODE_EXCLUSIVE;
                std::vector<int64_t> cut = lengths;
                if (exclusive) cut.insert(cut.begin(), 0);
                if (reverse) std::reverse(cut.begin(), cut.end());
                const int64_t time = std::accumulate(cut.begin(), cut.end(), int64_t{0});
                const Shape shape{1 + i % 3,
                                  time,
                                  1 + i % 2,
                                  0,
                                  i % 3 == 0 ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC,
                                  mode,
                                  reverse,
                                  exclusive || i % 4 < 2};
                const char* const kernel = ++i % 5 < 3 ? "compiled" : "compiled_tree";
                expect_fold(Arrays(shape, sizeof(Exact)), cut, kernel, FLASHSCAN_BACKEND_CUDA, change, combine_exact);
            }
    expect_fold(Arrays({0, 5, 2, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, true}, sizeof(Exact)), {0, 5}, "",
                FLASHSCAN_BACKEND_CUDA, change, combine_exact);
}

// Elements that do not fit registers, of many matrices each.
TEST(RankCustomsOnAGpu, LargeElementsMatchTheFold) {
    SKIP_UNLESS_AVAILABLE(device);
    constexpr size_t count = 40;
    const std::string code = fmt::format("{}{}", exact_code, R"(
extern "C" __device__ void multiply_all(const void* l, const void* r, void* out) {
    for (int i = 0; i < 40; ++i) multiply_exact((const Exact*)l + i, (const Exact*)r + i, (Exact*)out + i);
}
)");
    for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION})
        expect_fold(
            Arrays({2, 70, 3, 0, 0, mode, mode == FLASHSCAN_MODE_REDUCTION, true}, count * sizeof(Exact)),
            {20, 0, 1, 49}, "", FLASHSCAN_BACKEND_CUDA,
            [&](int32_t, flashscan_custom_operator& custom) {
                custom = code_of(count * sizeof(Exact), code, "multiply_all");
            },
            [](const void* l, const void* r, void* out) {
                for (size_t i = 0; i < count; ++i)
                    combine_exact(static_cast<const Exact*>(l) + i, static_cast<const Exact*>(r) + i,
                                  static_cast<Exact*>(out) + i);
            });
}

TEST(RankCustomsOnAGpu, AFirstRankWithoutStepsIsRefused) {
    SKIP_UNLESS_AVAILABLE(device);
    const std::string code = exact_code;
    for (const bool reverse : {false, true}) {
        Arrays whole({1, 4, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, reverse, true}, sizeof(Exact));
        std::vector<Arrays> parts = parts_of(whole, reverse ? std::vector<int64_t>{4, 0} : std::vector<int64_t>{0, 4});
        Meeting meeting(2, FLASHSCAN_BACKEND_CUDA);
        for (const Result& result : run(parts, reverse, "", meeting, [&](int32_t, flashscan_custom_operator& custom) {
                 custom = code_of(sizeof(Exact), code, "multiply_exact");
             })) {
            EXPECT_EQ(result.status, FLASHSCAN_STATUS_UNSUPPORTED);
            EXPECT_NE(result.sentence.find(fmt::format("rank {} has no steps", reverse ? 1 : 0)), std::string::npos)
                << result.sentence;
        }
    }
}

// The callback counts its calls, and fails in those from `failing` on.
struct Failing {
    std::atomic<int64_t> made{0};
    int64_t failing = 0;
};
int32_t fail_later(void* state, const void* l, int64_t l_stride, const void* r, int64_t r_stride, void* out,
                   int64_t out_stride, int64_t count, void* stream) {
    auto& failing = *static_cast<Failing*>(state);
    if (failing.made++ >= failing.failing) return 5;
    return multiply_exact_batched(nullptr, l, l_stride, r, r_stride, out, out_stride, count, stream);
}

// Before ranks have heard of each other, while they join what they heard, or in the own pass.
TEST(RankCustoms, ACallbackThatFailsOnOneRank) {
    for (const int64_t failing : {0, 2, 3, 4}) {
        Arrays whole({1, 12, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, true}, sizeof(Exact));
        fill_exact(whole.input, 1);
        fill_exact(whole.state_in, 2);
        std::vector<Arrays> parts = parts_of(whole, {4, 4, 4});
        Failing state;
        state.failing = failing;
        Meeting meeting(3);
        const auto results =
            run(parts, false, "batched", meeting, [&](int32_t rank, flashscan_custom_operator& custom) {
                custom.batched = multiply_exact_batched;
                if (rank == 1) custom.batched = fail_later, custom.state = &state;
            });
        for (const Result& result : results) {
            EXPECT_EQ(result.status, FLASHSCAN_STATUS_CALLBACK_FAILED) << failing;
            EXPECT_EQ(result.sentence, "rank 1 of 3 has failed: custom.batched returned 5; accepted is 0") << failing;
        }
        for (const Arrays& part : parts) EXPECT_TRUE(failing >= 2 || part.output == Bytes(part.output.size(), 0xee));
    }
}

// ---- gradients, against those of MATMUL of the same matrices

// Elements are some matrices of 2 x 2 numbers, whose products do not commute.
constexpr size_t matrix_bytes = 4 * sizeof(double);
template <typename T, size_t count>
using Matrices = std::array<T, 4 * count>;
// Reads elements at any address.
template <typename T, size_t count>
Matrices<T, count> matrices_at(const void* from) {
    Matrices<T, count> all;
    std::memcpy(all.data(), from, sizeof all);
    return all;
}
template <typename T, size_t count>
void multiply(void*, const void* l, const void* r, void* out) {
    const auto a = matrices_at<T, count>(l), b = matrices_at<T, count>(r);
    Matrices<T, count> c;
    for (size_t k = 0; k < 4 * count; k += 4)
        for (size_t i = 0; i < 2; ++i)
            for (size_t j = 0; j < 2; ++j) c[k + 2 * i + j] = a[k + 2 * i] * b[k + j] + a[k + 2 * i + 1] * b[k + 2 + j];
    std::memcpy(out, c.data(), sizeof c);
}
template <typename T, size_t count>
void multiply_adjoint(void*, const void* l, const void* r, const void* g, void* gl, void* gr) {
    const auto a = matrices_at<T, count>(l), b = matrices_at<T, count>(r), d = matrices_at<T, count>(g);
    Matrices<T, count> da, db;
    for (size_t k = 0; k < 4 * count; k += 4)
        for (size_t i = 0; i < 2; ++i)
            for (size_t j = 0; j < 2; ++j) {
                da[k + 2 * i + j] = d[k + 2 * i] * b[k + 2 * j] + d[k + 2 * i + 1] * b[k + 2 * j + 1];
                db[k + 2 * i + j] = a[k + i] * d[k + j] + a[k + 2 + i] * d[k + 2 + j];
            }
    std::memcpy(gl, da.data(), sizeof da);
    std::memcpy(gr, db.data(), sizeof db);
}
constexpr const char* matrix_code = R"(
extern "C" __device__ void multiply(const void* l, const void* r, void* out) {
    const Number *a = (const Number*)l, *b = (const Number*)r;
    Number* c = (Number*)out;
    for (int k = 0; k < 4 * COUNT; k += 4)
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
                c[k + 2 * i + j] = a[k + 2 * i] * b[k + j] + a[k + 2 * i + 1] * b[k + 2 + j];
}
extern "C" __device__ void multiply_adjoint(const void* l, const void* r, const void* g, void* gl, void* gr) {
    const Number *a = (const Number*)l, *b = (const Number*)r, *d = (const Number*)g;
    Number *da = (Number*)gl, *db = (Number*)gr;
    for (int k = 0; k < 4 * COUNT; k += 4)
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) {
                da[k + 2 * i + j] = d[k + 2 * i] * b[k + 2 * j] + d[k + 2 * i + 1] * b[k + 2 * j + 1];
                db[k + 2 * i + j] = a[k + i] * d[k + j] + a[k + 2 + i] * d[k + 2 + j];
            }
}
)";
int32_t multiply_batched(void*, const void* l, int64_t l_stride, const void* r, int64_t r_stride, void* out,
                         int64_t out_stride, int64_t count, void*) {
    for (int64_t i = 0; i < count; ++i)
        multiply<double, 1>(nullptr, static_cast<const char*>(l) + i * l_stride,
                            static_cast<const char*>(r) + i * r_stride, static_cast<char*>(out) + i * out_stride);
    return 0;
}
// Fails in the calls from `failing` on, where there is a state.
int32_t multiply_batched_adjoint(void* state, const void* l, const void* r, const void* g, void* gl, void* gr,
                                 int64_t count, void*) {
    if (auto* const failing = static_cast<Failing*>(state); failing != nullptr && failing->made++ >= failing->failing)
        return 5;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t at = i * static_cast<int64_t>(matrix_bytes);
        multiply_adjoint<double, 1>(nullptr, static_cast<const char*>(l) + at, static_cast<const char*>(r) + at,
                                    static_cast<const char*>(g) + at, static_cast<char*>(gl) + at,
                                    static_cast<char*>(gr) + at);
    }
    return 0;
}

// Matrices of which long products neither vanish nor grow, or gradients.
template <typename T>
void fill_matrices(Bytes& matrices, uint64_t stream) {
    for (size_t i = 0; i < matrices.size() / sizeof(T); ++i) {
        const T value = static_cast<T>((i % 4 == 0 || i % 4 == 3 ? 0.9 : -0.1) + 0.2 * uniform(11, stream, i));
        std::memcpy(matrices.data() + sizeof(T) * i, &value, sizeof value);
    }
}

// Computes both passes of the whole by MATMUL, of `count` matrices for each element.
void multiply_whole(Arrays& a, Gradients& g, int64_t count, int32_t dtype) {
    Shape shape = a.shape;
    shape.channels *= count;
    flashscan_operator_desc desc = custom::desc_of(shape, {});
    desc.kind = FLASHSCAN_OPERATOR_MATMUL;
    desc.dtype = dtype;
    desc.dim = 2;
    desc.custom = nullptr;
    const Plan plan(desc, make_options(FLASHSCAN_BACKEND_CPU, "", 1, false, false));
    ASSERT_TRUE(plan) << plan.message();
    std::vector<flashscan_arg> backward = backward_arguments(a, g);
    if (shape.mode != FLASHSCAN_MODE_REDUCTION)
        backward.push_back({FLASHSCAN_ARG_OUTPUT, 0, a.output.data(), a.output.size()});
    Result result;
    execute(plan, FLASHSCAN_PASS_FORWARD, a.arguments(), FLASHSCAN_BACKEND_CPU, result);
    ASSERT_EQ(result.status, FLASHSCAN_STATUS_OK) << result.sentence;
    execute(plan, FLASHSCAN_PASS_BACKWARD, backward, FLASHSCAN_BACKEND_CPU, result);
    ASSERT_EQ(result.status, FLASHSCAN_STATUS_OK) << result.sentence;
}

template <typename T>
void expect_close(const char* name, const Bytes& got, const Bytes& want) {
    ASSERT_EQ(got.size(), want.size());
    constexpr double bound = sizeof(T) == sizeof(double) ? 1e-10 : 1e-5;
    for (size_t i = 0; i < got.size(); i += sizeof(T)) {
        T mine, its;
        std::memcpy(&mine, got.data() + i, sizeof mine);
        std::memcpy(&its, want.data() + i, sizeof its);
        ASSERT_NEAR(mine, its, bound * (1 + std::abs(its))) << name << " at number " << i / sizeof(T);
    }
}

// The gradient of a reduction is the sum of those of all ranks: twice that of the first one, less that of the second.
template <typename T>
Bytes share_of(const Bytes& gradient, size_t rank, size_t ranks) {
    Bytes share = gradient;
    const T part = ranks == 1 ? 1 : rank == 0 ? 2 : rank == 1 ? -1 : 0;
    for (size_t i = 0; i < share.size(); i += sizeof(T)) {
        T value;
        std::memcpy(&value, share.data() + i, sizeof value);
        value *= part;
        std::memcpy(share.data() + i, &value, sizeof value);
    }
    return share;
}

template <typename T = double>
void expect_gradients(const Shape& shape, int64_t count, const std::vector<int64_t>& lengths, const char* kernel,
                      int32_t backend, const std::function<void(int32_t, flashscan_custom_operator&)>& change,
                      How how = {}) {
    std::string cut;
    for (const int64_t length : lengths) cut += " " + std::to_string(length);
    SCOPED_TRACE(fmt::format("{} b{} c{} x {} mode {}{} in parts of{}, {} bytes, shift {}, without {}", kernel,
                             shape.batch, shape.channels, count, shape.mode, shape.reverse ? " reverse" : "", cut,
                             sizeof(T), how.shift, how.without));
    how.dtype = sizeof(T) == sizeof(double) ? FLASHSCAN_DTYPE_F64 : FLASHSCAN_DTYPE_F32;
    const bool reduction = shape.mode == FLASHSCAN_MODE_REDUCTION;
    Arrays whole(shape, static_cast<size_t>(count) * 4 * sizeof(T));
    Gradients wanted(whole);
    uint64_t stream = 0;
    for (Bytes* filled : {&whole.input, &whole.state_in, &wanted.output, &wanted.state_out})
        fill_matrices<T>(*filled, ++stream);
    if (how.without == (grad | FLASHSCAN_ARG_STATE_OUT)) std::fill(wanted.state_out.begin(), wanted.state_out.end(), 0);
    std::vector<Arrays> parts = parts_of(whole, lengths);
    std::vector<Gradients> gradients(parts.begin(), parts.end());
    int64_t begin = 0;
    for (size_t rank = 0; rank < parts.size(); begin += lengths[rank++]) {
        gradients[rank].state_out = wanted.state_out;
        if (reduction)
            gradients[rank].output = share_of<T>(wanted.output, rank, parts.size());
        else
            take_steps(whole, wanted.output, begin, parts[rank], gradients[rank].output);
    }
    multiply_whole(whole, wanted, count, how.dtype);
    Meeting meeting(static_cast<int32_t>(parts.size()), backend);
    const auto results = run(parts, shape.reverse, kernel, meeting, change, &gradients, how);
    begin = 0;
    for (size_t rank = 0; rank < parts.size(); begin += lengths[rank++]) {
        SCOPED_TRACE(fmt::format("rank {}", rank));
        ASSERT_EQ(results[rank].status, FLASHSCAN_STATUS_OK) << results[rank].sentence;
        Bytes output(parts[rank].output.size()), input(parts[rank].input.size());
        take_steps(whole, wanted.input, begin, parts[rank], input);
        if (!reduction) take_steps(whole, whole.output, begin, parts[rank], output);
        expect_close<T>("OUTPUT", parts[rank].output, reduction ? whole.output : output);
        const bool is_first = rank == (shape.reverse ? parts.size() - 1 : 0);
        if (!is_first || how.without != (grad | FLASHSCAN_ARG_INPUT))
            expect_close<T>("GRAD|INPUT", gradients[rank].input, input);
        if (shape.state && is_first) expect_close<T>("GRAD|STATE_IN", gradients[rank].state_in, wanted.state_in);
    }
}

TEST(RankCustoms, GradientsAreThoseOfTheWhole) {
    int i = 0;
    for (const char* kernel : {"host", "batched", "reference"})
        for (const std::vector<int64_t>& lengths : std::vector<std::vector<int64_t>>{
                 {7}, {5, 4}, {0, 6}, {3, 0, 6}, {0, 0, 9, 2, 0}, {2, 3, 0, 1, 40, 0, 7, 90}})
            for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION}) {
                const Shape shape{1 + i % 3,
                                  std::accumulate(lengths.begin(), lengths.end(), int64_t{0}),
                                  1 + i % 2,
                                  0,
                                  i % 4 == 0 ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC,
                                  mode,
                                  i % 5 < 2,
                                  mode == FLASHSCAN_MODE_EXCLUSIVE || i % 7 < 4};
                ++i;
                expect_gradients(
                    shape, 1, lengths, kernel, FLASHSCAN_BACKEND_CPU, [&](int32_t, flashscan_custom_operator& custom) {
                        custom.host = multiply<double, 1>, custom.host_adjoint = multiply_adjoint<double, 1>;
                        if (std::string(kernel) == "batched")
                            custom.batched = multiply_batched, custom.batched_adjoint = multiply_batched_adjoint;
                    });
            }
}

constexpr How hows[] = {
    {.shift = 1}, {.without = grad | FLASHSCAN_ARG_INPUT}, {.without = grad | FLASHSCAN_ARG_STATE_OUT}};
Shape shape_of(const How& how, int32_t mode) {
    return {2, 9, 3, 0, FLASHSCAN_LAYOUT_BTC, mode, how.without == (grad | FLASHSCAN_ARG_INPUT), true};
}
constexpr int32_t modes[] = {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION};

TEST(RankCustoms, GradientsOfOtherCalls) {
    for (const int32_t mode : modes) {
        for (const char* kernel : {"host", "batched"})
            for (const How& how : hows)
                expect_gradients(
                    shape_of(how, mode), 1, {3, 2, 4}, kernel, FLASHSCAN_BACKEND_CPU,
                    [&](int32_t, flashscan_custom_operator& custom) {
                        custom.host = multiply<double, 1>, custom.host_adjoint = multiply_adjoint<double, 1>;
                        if (std::string(kernel) == "batched")
                            custom.batched = multiply_batched, custom.batched_adjoint = multiply_batched_adjoint;
                    },
                    how);
        expect_gradients<float>(shape_of({}, mode), 1, {3, 2, 4}, "host", FLASHSCAN_BACKEND_CPU,
                                [&](int32_t, flashscan_custom_operator& custom) {
                                    custom.host = multiply<float, 1>, custom.host_adjoint = multiply_adjoint<float, 1>;
                                });
    }
}

// The matrices of `number`s that an element has as device code.
std::string code_of_matrices(const char* number, int64_t count) {
    return fmt::format("typedef {} Number;\n#define COUNT {}\n{}", number, count, matrix_code);
}

// In all modes and both directions.
void expect_gradients_on_a_gpu(int64_t count, const std::vector<std::vector<int64_t>>& cuts) {
    const std::string code = code_of_matrices("double", count);
    int i = 0;
    for (const std::vector<int64_t>& lengths : cuts)
        for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION}) {
            std::vector<int64_t> cut = lengths;
            const bool exclusive = mode == FLASHSCAN_MODE_EXCLUSIVE, reverse = i % 2 == 1;
            if (exclusive && i % 4 < 2) cut.insert(cut.begin(), 0);
            if (reverse) std::reverse(cut.begin(), cut.end());
            const Shape shape{1 + i % 3,
                              std::accumulate(cut.begin(), cut.end(), int64_t{0}),
                              1 + i % 2,
                              0,
                              count == 1 && i % 3 == 0 ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC,
                              mode,
                              reverse,
                              exclusive || i % 5 < 3};
            ++i;
            expect_gradients(shape, count, cut, "", FLASHSCAN_BACKEND_CUDA,
                             [&](int32_t, flashscan_custom_operator& custom) {
                                 custom = code_of(count * static_cast<int64_t>(matrix_bytes), code, "multiply");
                                 custom.adjoint_name = "multiply_adjoint";
                             });
        }
}

// One matrix is scanned in registers forward, five are not.
TEST(RankCustomsOnAGpu, GradientsAreThoseOfTheWhole) {
    SKIP_UNLESS_AVAILABLE(device);
    expect_gradients_on_a_gpu(
        1, {{7}, {5, 4}, {9, 0}, {3, 0, 6}, {1, 1, 1, 1}, {200, 1, 300}, {4, 0, 0, 5, 0}, {2, 3, 0, 1, 40, 0, 7, 90}});
}
TEST(RankCustomsOnAGpu, GradientsOfLargeElements) {
    SKIP_UNLESS_AVAILABLE(device);
    expect_gradients_on_a_gpu(5, {{5, 4}, {3, 0, 6}, {4, 2, 0, 5, 3}});
}
TEST(RankCustomsOnAGpu, GradientsOfOtherCalls) {
    SKIP_UNLESS_AVAILABLE(device);
    const std::string doubles = code_of_matrices("double", 1), floats = code_of_matrices("float", 1);
    const auto with = [](const std::string& code, size_t number_bytes) {
        return [&code, number_bytes](int32_t, flashscan_custom_operator& custom) {
            custom = code_of(static_cast<int64_t>(4 * number_bytes), code, "multiply");
            custom.adjoint_name = "multiply_adjoint";
        };
    };
    for (const int32_t mode : modes) {
        for (const How& how : hows) {
            if (how.shift > 0) continue;  // the device code reads numbers where the caller's arrays have them
            expect_gradients(shape_of(how, mode), 1, {3, 2, 4}, "", FLASHSCAN_BACKEND_CUDA,
                             with(doubles, sizeof(double)), how);
        }
        expect_gradients<float>(shape_of({}, mode), 1, {3, 2, 4}, "", FLASHSCAN_BACKEND_CUDA,
                                with(floats, sizeof(float)));
    }
}

// In whatever call it fails, all ranks hear of it, and none is left waiting.
TEST(RankCustoms, AnAdjointThatFailsOnOneRank) {
    const Arrays whole({1, 12, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, false}, matrix_bytes);
    int64_t failed = 0;
    for (bool fails = true; fails; ++failed) {
        std::vector<Arrays> parts = parts_of(whole, {4, 4, 4});
        std::vector<Gradients> gradients(parts.begin(), parts.end());
        Failing state;
        state.failing = failed;
        Meeting meeting(3);
        const auto results = run(
            parts, false, "batched", meeting,
            [&](int32_t rank, flashscan_custom_operator& custom) {
                custom.host = nullptr;
                custom.batched = multiply_batched, custom.batched_adjoint = multiply_batched_adjoint;
                if (rank == 1) custom.state = &state;
            },
            &gradients);
        fails = state.made > failed;
        for (const Result& result : results) {
            EXPECT_EQ(result.status, fails ? FLASHSCAN_STATUS_CALLBACK_FAILED : FLASHSCAN_STATUS_OK);
            EXPECT_EQ(result.sentence,
                      fails ? "rank 1 of 3 has failed: custom.batched_adjoint returned 5; accepted is 0" : "");
        }
    }
    EXPECT_GT(failed, 5);
}

// A rank without the adjoint would not take part in backward.
TEST(RankCustoms, RanksAgreeOnTheAdjoint) {
    const Arrays whole({1, 4, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, false}, matrix_bytes);
    std::vector<Arrays> parts = parts_of(whole, {2, 2});
    std::vector<Gradients> gradients(parts.begin(), parts.end());
    Meeting meeting(2);
    for (const Result& result : run(
             parts, false, "", meeting,
             [](int32_t rank, flashscan_custom_operator&custom) {
                 custom.host = multiply<double, 1>;
                 if (rank == 0) custom.host_adjoint = multiply_adjoint<double, 1>;
             },
             &gradients)) {
        EXPECT_EQ(result.status, FLASHSCAN_STATUS_INVALID_ARGUMENT);
        EXPECT_NE(result.sentence.find("adjoint f64"), std::string::npos) << result.sentence;
    }
}

TEST(RankCustoms, PackedSequencesAreRefused) {
    Arrays whole({1, 4, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, false}, sizeof(Exact));
    std::vector<Arrays> parts = parts_of(whole, {2, 2});
    Meeting meeting(2);
    for (Arrays& part : parts) part.shape.sequences = 1;
    for (const Result& result : run(parts, false, "", meeting, [](int32_t, flashscan_custom_operator&) {})) {
        EXPECT_EQ(result.status, FLASHSCAN_STATUS_UNSUPPORTED);
        EXPECT_NE(result.sentence.find("none with sequences"), std::string::npos) << result.sentence;
    }
}

}  // namespace
}  // namespace numeric
