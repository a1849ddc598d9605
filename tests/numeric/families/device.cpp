// SPDX-License-Identifier: Apache-2.0
// Tests of what only a GPU has: limits of shared memory, and arrays of more than 2^31 elements. Built with CUDA only.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <unordered_map>
#include <utility>

#include "support/check.h"
#include "support/selective_problem.h"

namespace numeric {
namespace {

using namespace support;

std::string name_of_target(const testing::TestParamInfo<Target>& info) { return text_of(info.param); }

// Plans of one kernel, the first of which needs more shared memory than the one made after it.
TEST(SharedMemory, IsWhatEachPlanNeeds) {
    const Target target{FLASHSCAN_BACKEND_CUDA, ""};
    SKIP_UNLESS_AVAILABLE(target);
    Problem plain;
    plain.time = 300;
    plain.channels = 64;
    Problem sums = plain;
    sums.broadcast = FLASHSCAN_BROADCAST_CHANNELS;
    const Plan more(sums, target), less(plain, target);
    for (const auto& [problem, plan] : {std::pair{sums, &more}, {plain, &less}}) {
        ASSERT_EQ(plan->status(), FLASHSCAN_STATUS_OK) << plan->message();
        Data data = make_data(problem);
        (void)reference_of(problem, data);
        Call backward = backward_call(problem, *plan, FLASHSCAN_BACKEND_CUDA, data, Guard::end);
        backward.prepare();
        EXPECT_EQ(backward.execute(plan->get()), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    }
}

// A bf16 array of the problem's size in device memory.
class Array {
  public:
    Array(int64_t elements, int fill) : elements_(elements) {
        if (cudaMalloc(&data_, bytes()) != cudaSuccess || cudaMemset(data_, fill, bytes()) != cudaSuccess)
            throw std::runtime_error("no device memory");
    }
    ~Array() { cudaFree(data_); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    void* data() const { return data_; }
    size_t bytes() const { return 2 * static_cast<size_t>(elements_); }
    void set_one(int64_t index) {
        constexpr uint16_t one = 0x3f80;
        cudaMemcpy(static_cast<uint16_t*>(data_) + index, &one, 2, cudaMemcpyHostToDevice);
    }

    void fill(int64_t first, int64_t elements, int byte) {
        cudaMemset(static_cast<uint16_t*>(data_) + first, byte, 2 * static_cast<size_t>(elements));
    }
    // The array is rows of `width` elements that are all alike, and row n is within two ulp of expected[n].
    void expect_rows(const std::string& name, int64_t width, const std::vector<double>& expected) const {
        const auto count = static_cast<size_t>(width);
        std::vector<uint16_t> host(count);
        int64_t wrong = 0;
        for (size_t n = 0; n < expected.size(); ++n) {
            ASSERT_EQ(cudaMemcpy(host.data(), static_cast<const uint16_t*>(data_) + n * count, 2 * count,
                                 cudaMemcpyDeviceToHost),
                      cudaSuccess);
            const double value = load(reinterpret_cast<const unsigned char*>(host.data()), FLASHSCAN_DTYPE_BF16).real();
            const bool alike = std::adjacent_find(host.begin(), host.end(), std::not_equal_to<>()) == host.end();
            if (alike && std::abs(value - expected[n]) <= 2 * ulp(FLASHSCAN_DTYPE_BF16, expected[n])) continue;
            if (++wrong <= 3)
                ADD_FAILURE() << name << " row " << n << " begins with " << value << ", expected " << expected[n]
                              << (alike ? "" : ", and its elements differ");
        }
        EXPECT_EQ(wrong, 0) << name;
    }

    using Expectation = std::unordered_map<int64_t, double>;
    // Every element is zero but for those of `expected`, which lie within two ulp of their values: GRAD|GATE is a
    // product with a rounded factor. Next to the smallest normal numbers nothing is asked.
    void expect(const std::string& name, const Expectation& expected) const {
        constexpr int64_t chunk = int64_t{1} << 25;
        std::vector<uint16_t> host(static_cast<size_t>(chunk));
        constexpr double negligible = 0x1p-118;
        int64_t missing = 0, wrong = 0;
        for (const auto& [place, want] : expected) missing += want > negligible ? 1 : 0;
        for (int64_t start = 0; start < elements_; start += chunk) {
            const auto count = static_cast<size_t>(std::min(chunk, elements_ - start));
            ASSERT_EQ(
                cudaMemcpy(host.data(), static_cast<const uint16_t*>(data_) + start, 2 * count, cudaMemcpyDeviceToHost),
                cudaSuccess);
            for (size_t i = 0; i < count; ++i) {
                if ((host[i] & 0x7fff) == 0) continue;
                const double value =
                    load(reinterpret_cast<const unsigned char*>(&host[i]), FLASHSCAN_DTYPE_BF16).real();
                const auto place = expected.find(start + static_cast<int64_t>(i));
                const double want = place == expected.end() ? 0 : place->second;
                missing -= want > negligible ? 1 : 0;
                if (!(std::abs(value - want) <= 2 * ulp(FLASHSCAN_DTYPE_BF16, want) + negligible) && ++wrong <= 3)
                    ADD_FAILURE() << name << " element " << start + static_cast<int64_t>(i) << " is " << value
                                  << ", expected " << want;
            }
        }
        EXPECT_EQ(wrong, 0) << name;
        EXPECT_EQ(missing, 0) << name << ": elements that are zero and should not be";
    }

  private:
    int64_t elements_;
    void* data_ = nullptr;
};

class Big : public testing::TestWithParam<Target> {};

// Impulses through constant gates: powers of the gate after each one, in an array that 32-bit indices do not reach.
void run_big(const Target& target, int32_t layout, int64_t batch, int64_t time, int64_t channels) {
    constexpr double gate_value = 0.74609375;  // bytes 3f 3f
    constexpr int64_t reach = 340, apart = 5;  // powers past `reach` are below every bf16 number
    Problem p;
    p.dtype = p.gate_dtype = FLASHSCAN_DTYPE_BF16;
    p.layout = layout;
    p.batch = batch;
    p.time = time;
    p.channels = channels;
    SCOPED_TRACE(text_of(p));
    const Plan plan(p, target);
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    const Tensor tensor = tensor_of(p, FLASHSCAN_ARG_INPUT);
    Array gate(p.elements(), 0x3f), input(p.elements(), 0), output(p.elements(), 0xff);
    Array grad_output(p.elements(), 0), grad_input(p.elements(), 0xff), grad_gate(p.elements(), 0xff);
    Array::Expectation h, g, d;
    for (const auto& [b, t, c] : {std::tuple{int64_t{0}, int64_t{3}, int64_t{0}},
                                  {batch - 1, time / 2, channels / 2},
                                  {batch - 1, time - reach - 9, channels - 1}}) {
        input.set_one(tensor.at(b, t, c));
        grad_output.set_one(tensor.at(b, t + apart, c));
        for (int64_t k = 0; k < reach && t + k < time; ++k)
            h[tensor.at(b, t + k, c)] = std::pow(gate_value, static_cast<double>(k));
        for (int64_t k = 0; k < reach && t + apart - k >= 0; ++k)
            g[tensor.at(b, t + apart - k, c)] = std::pow(gate_value, static_cast<double>(k));
        for (int64_t k = 1; k <= apart; ++k)
            d[tensor.at(b, t + k, c)] = std::pow(gate_value, static_cast<double>(apart - 1));
    }
    const auto arg = [](int32_t id, const Array& array) { return flashscan_arg{id, 0, array.data(), array.bytes()}; };
    constexpr int32_t grad = FLASHSCAN_GRAD;
    const flashscan_arg forward[] = {arg(FLASHSCAN_ARG_INPUT, input), arg(FLASHSCAN_ARG_GATE, gate),
                                     arg(FLASHSCAN_ARG_OUTPUT, output)};
    const flashscan_arg backward[] = {
        arg(FLASHSCAN_ARG_GATE, gate), arg(FLASHSCAN_ARG_OUTPUT, output), arg(grad | FLASHSCAN_ARG_OUTPUT, grad_output),
        arg(grad | FLASHSCAN_ARG_INPUT, grad_input), arg(grad | FLASHSCAN_ARG_GATE, grad_gate)};
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_EQ(flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, forward, 3, nullptr), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
    ASSERT_EQ(flashscan_execute(plan.get(), FLASHSCAN_PASS_BACKWARD, backward, 5, nullptr), FLASHSCAN_STATUS_OK)
        << flashscan_last_error();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    output.expect("OUTPUT", h);
    grad_input.expect("GRAD|INPUT", g);
    grad_gate.expect("GRAD|GATE", d);
}

TEST_P(Big, TakesMoreThanTwoToThe31Elements) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    size_t free_bytes = 0, total_bytes = 0;
    ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    if (free_bytes < size_t{32} << 30) GTEST_SKIP() << "needs 32 GiB of free device memory";
    run_big(GetParam(), FLASHSCAN_LAYOUT_BTC, 1, (int64_t{1} << 20) + 17, 2051);
    run_big(GetParam(), FLASHSCAN_LAYOUT_BCT, 1, (int64_t{1} << 31) + 77, 1);
}

// More than 2^31 states in all steps of a selective scan. Channels are alike and batch entries differ, so that a row is
// known from one state.
TEST_P(Big, TakesMoreThanTwoToThe31StatesOfSelectiveScans) {
    SKIP_UNLESS_AVAILABLE(GetParam());
    const SelectiveProblem p = selective_problem_of("selective bwd bf16 BTC b9 t8192 c2048 n16 b-per-step c-per-step");
    const Plan plan(desc_of(p), options_of(p, GetParam().backend, GetParam().kernel));
    ASSERT_EQ(plan.status(), FLASHSCAN_STATUS_OK) << plan.message();
    constexpr int fills[] = {0x3f, 0x3e, 0x3d};                          // of bytes
    constexpr double values[] = {0.74609375, 0.185546875, 0.046142578};  // of bf16 numbers made of them
    constexpr double constant = 0.74609375, rate = -1.4980389;  // of B, C and GRAD|OUTPUT; of A, f32 of bytes bf
    Array input(p.elements(), 0), delta(p.elements(), 0), output(p.elements(), 0xff), grad_input(p.elements(), 0xff);
    Array grad_output(p.elements(), 0x3f), a(2 * p.channels * p.states, 0xbf);
    Array matrix(p.batch * p.time * p.states, 0x3f);  // B and C
    std::vector<double> y, du;
    for (int64_t b = 0; b < p.batch; ++b) {
        const double u = values[b % 3], step = values[b / 3], decay = std::exp(step * rate);
        input.fill(b * p.time * p.channels, p.time * p.channels, fills[b % 3]);
        delta.fill(b * p.time * p.channels, p.time * p.channels, fills[b / 3]);
        double h = 0, g = 0;
        for (int64_t t = 0; t < p.time; ++t) {
            h = decay * h + step * constant * u;
            y.push_back(static_cast<double>(p.states) * constant * h);
        }
        std::vector<double> back;
        for (int64_t t = 0; t < p.time; ++t) {
            g = decay * g + constant * constant;
            back.push_back(static_cast<double>(p.states) * step * constant * g);
        }
        du.insert(du.end(), back.rbegin(), back.rend());
    }
    const auto arg = [](int32_t id, const Array& array) { return flashscan_arg{id, 0, array.data(), array.bytes()}; };
    const std::vector<flashscan_arg> inputs = {arg(FLASHSCAN_ARG_INPUT, input), arg(FLASHSCAN_ARG_DELTA, delta),
                                               arg(FLASHSCAN_ARG_A, a), arg(FLASHSCAN_ARG_B, matrix),
                                               arg(FLASHSCAN_ARG_C, matrix)};
    std::vector<flashscan_arg> forward = inputs, backward = inputs;
    forward.push_back(arg(FLASHSCAN_ARG_OUTPUT, output));
    backward.push_back(arg(FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, grad_output));
    backward.push_back(arg(FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT, grad_input));
    const auto run = [&](int32_t pass, const std::vector<flashscan_arg>& args) {
        return flashscan_execute(plan.get(), pass, args.data(), static_cast<int32_t>(args.size()), nullptr);
    };
    ASSERT_EQ(run(FLASHSCAN_PASS_FORWARD, forward), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    ASSERT_EQ(run(FLASHSCAN_PASS_BACKWARD, backward), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    output.expect_rows("OUTPUT", p.channels, y);
    grad_input.expect_rows("GRAD|INPUT", p.channels, du);
}

INSTANTIATE_TEST_SUITE_P(Device, Big, testing::Values(Target{FLASHSCAN_BACKEND_CUDA, ""}), name_of_target);

}  // namespace
}  // namespace numeric
