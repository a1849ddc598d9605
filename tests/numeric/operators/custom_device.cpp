// SPDX-License-Identifier: Apache-2.0
// Custom operators on a GPU: device code and batched callbacks. Built with CUDA only.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "support/custom_scene.h"
#include "support/lto_ir.h"
#include "support/memory.h"

namespace numeric {
namespace {

using namespace support;
using namespace support::custom;

constexpr int32_t grad = FLASHSCAN_GRAD;

constexpr const char* moments_code = R"(
struct Moments { double count, mean, deviation; };
extern "C" __device__ void merge(const void* l, const void* r, void* out) {
    const Moments a = *(const Moments*)l, b = *(const Moments*)r;
    const double count = a.count + b.count, apart = b.mean - a.mean;
    *(Moments*)out = {count, a.mean + apart * b.count / count,
                      a.deviation + b.deviation + apart * apart * a.count * b.count / count};
}
)";
constexpr const char* pair_code = R"(
extern "C" __device__ void multiply_pair(const void* l, const void* r, void* out) {
    const double2 a = *(const double2*)l, b = *(const double2*)r;
    *(double2*)out = make_double2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}
extern "C" __device__ void multiply_pair_adjoint(const void* l, const void* r, const void* g, void* gl, void* gr) {
    const double2 a = *(const double2*)l, b = *(const double2*)r, d = *(const double2*)g;
    *(double2*)gl = make_double2(b.x * d.x + b.y * d.y, b.x * d.y - b.y * d.x);
    *(double2*)gr = make_double2(a.x * d.x + a.y * d.y, a.x * d.y - a.y * d.x);
}
)";

// Memory of a call on the device, from arguments that point to the host's and back. `shift` moves it off its
// alignment; `shared` is memory of the host, SCRATCH too, where callbacks can do their work.
class Mirror {
  public:
    Mirror(const Plan& plan, int32_t pass, const std::vector<flashscan_arg>& args, size_t shift, bool shared)
        : plan_(plan), pass_(pass), host_(args), device_(args) {
        for (flashscan_arg& arg : device_) {
            if (shared) {
                const void* from = arg.data;
                arg.data = pinned(arg.bytes);
                std::copy_n(static_cast<const char*>(from), arg.bytes, static_cast<char*>(arg.data));
                continue;
            }
            buffers_.push_back(make_buffer(FLASHSCAN_BACKEND_CUDA, arg.bytes, Guard::end, 1, shift));
            const auto* bytes = static_cast<const unsigned char*>(arg.data);
            buffers_.back()->write(Bytes(bytes, bytes + arg.bytes));
            arg.data = buffers_.back()->data();
        }
        if (!shared) return;
        const size_t scratch = plan.bytes(pass, FLASHSCAN_ARG_SCRATCH);
        if (scratch > 0) device_.push_back({FLASHSCAN_ARG_SCRATCH, 0, pinned(scratch), scratch});
    }
    ~Mirror() {
        for (void* memory : pinned_) cudaFreeHost(memory);
    }
    Mirror(const Mirror&) = delete;
    Mirror& operator=(const Mirror&) = delete;

    flashscan_status enqueue() const {
        return flashscan_execute(plan_.get(), pass_, device_.data(), static_cast<int32_t>(device_.size()),
                                 test_stream(FLASHSCAN_BACKEND_CUDA));
    }
    // Waits, and brings everything back.
    void collect() {
        const char* error = synchronize(FLASHSCAN_BACKEND_CUDA);
        ASSERT_EQ(error, nullptr) << error;
        for (size_t i = 0; i < host_.size(); ++i) {
            auto* to = static_cast<unsigned char*>(host_[i].data);
            if (buffers_.empty()) {
                std::copy_n(static_cast<const unsigned char*>(device_[i].data), host_[i].bytes, to);
                continue;
            }
            const Bytes bytes = buffers_[i]->read();
            std::copy(bytes.begin(), bytes.end(), to);
            EXPECT_TRUE(buffers_[i]->surroundings_intact()) << "argument " << host_[i].id;
        }
    }

  private:
    void* pinned(size_t bytes) {
        void* memory = nullptr;
        if (cudaMallocHost(&memory, std::max<size_t>(bytes, 1)) != cudaSuccess) throw std::bad_alloc();
        pinned_.push_back(memory);
        return memory;
    }
    const Plan& plan_;
    int32_t pass_;
    std::vector<flashscan_arg> host_, device_;
    std::vector<std::unique_ptr<Buffer>> buffers_;
    std::vector<void*> pinned_;
};

// Also the tree, which the planner takes for large elements alone.
constexpr const char* code_kernels[] = {"compiled", "compiled_tree"};
flashscan_options cuda_options(const char* kernel = "") {
    flashscan_options options = make_options(FLASHSCAN_BACKEND_CUDA, "", 0, false, false);
    if (*kernel != '\0') options.kernel = kernel;
    return options;
}

// Runs a pass twice, which must give the same bits.
void run(const flashscan_operator_desc& desc, int32_t pass, const std::vector<flashscan_arg>& args, size_t shift = 0,
         bool shared = false, const char* kernel = "") {
    const flashscan_options options = cuda_options(kernel);
    const Plan plan(desc, options);
    ASSERT_TRUE(plan) << plan.message();
    const auto outputs = [&] {
        std::vector<Bytes> all;
        for (const flashscan_arg& arg : args) {
            const auto* bytes = static_cast<const unsigned char*>(arg.data);
            all.emplace_back(bytes, bytes + arg.bytes);
        }
        return all;
    };
    Mirror mirror(plan, pass, args, shift, shared);
    ASSERT_EQ(mirror.enqueue(), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    mirror.collect();
    const std::vector<Bytes> once = outputs();
    ASSERT_EQ(mirror.enqueue(), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    mirror.collect();
    EXPECT_TRUE(once == outputs()) << "the second run differs";
}

// Work of a callback that waits for its turn on the stream, on memory that the host sees.
std::deque<std::function<void()>> works;
void run_work(void* work) { (*static_cast<std::function<void()>*>(work))(); }
int32_t enqueue(void* stream, std::function<void()> work) {
    works.push_back(std::move(work));
    return static_cast<int32_t>(cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), run_work, &works.back()));
}
int32_t exact_on_stream(void*, const void* l, int64_t l_stride, const void* r, int64_t r_stride, void* out,
                        int64_t out_stride, int64_t count, void* stream) {
    ++calls;
    return enqueue(stream,
                   [=] { multiply_exact_batched(nullptr, l, l_stride, r, r_stride, out, out_stride, count, nullptr); });
}
int32_t pair_on_stream(void*, const void* l, int64_t l_stride, const void* r, int64_t r_stride, void* out,
                       int64_t out_stride, int64_t count, void* stream) {
    return enqueue(stream,
                   [=] { multiply_pair_batched(nullptr, l, l_stride, r, r_stride, out, out_stride, count, nullptr); });
}
int32_t pair_adjoint_on_stream(void*, const void* l, const void* r, const void* g, void* gl, void* gr, int64_t count,
                               void* stream) {
    return enqueue(stream, [=] { multiply_pair_batched_adjoint(nullptr, l, r, g, gl, gr, count, nullptr); });
}

std::string where(const Shape& s) {
    return "b" + std::to_string(s.batch) + " t" + std::to_string(s.time) + " c" + std::to_string(s.channels) + " mode" +
           std::to_string(s.mode) + " layout" + std::to_string(s.layout) + " sequences" + std::to_string(s.sequences) +
           (s.reverse ? " reverse" : "") + (s.state ? " state" : "");
}

class OperatorCustomDevice : public testing::Test {
    void SetUp() override {
        if (const char* reason = unavailable(FLASHSCAN_BACKEND_CUDA)) GTEST_SKIP() << reason;
        works.clear();
    }

  protected:
    static void expect_fold(const Shape& s, const flashscan_custom_operator& custom, bool shared,
                            const char* kernel = "") {
        SCOPED_TRACE(where(s) + " " + kernel);
        Arrays got(s, sizeof(Exact));
        fill_exact(got.input, 1);
        fill_exact(got.state_in, 2);
        Arrays want = got;
        run(desc_of(s, custom), FLASHSCAN_PASS_FORWARD, got.arguments(), 0, shared, kernel);
        fold(want, [](const void* l, const void* r, void* out) { multiply_exact(nullptr, l, r, out); });
        EXPECT_TRUE(got.output == want.output);
        EXPECT_TRUE(got.state_out == want.state_out);
    }
};

TEST_F(OperatorCustomDevice, ExactMatricesMatchTheFoldAndNothingElseIsCombined) {
    const std::string source = exact_code;
    for (const char* kernel : code_kernels)
        for (const Shape& s : shapes()) expect_fold(s, code_of(sizeof(Exact), source, "multiply_exact"), false, kernel);
}

TEST_F(OperatorCustomDevice, LtoIrIsLinked) {
    const std::string code = lto_ir_of(exact_code);
    if (code.empty()) GTEST_SKIP() << "skipped: NVRTC could not be loaded";
    flashscan_custom_operator custom = code_of(sizeof(Exact), code, "multiply_exact");
    custom.code_kind = FLASHSCAN_CODE_LTO_IR;
    for (const int64_t time : {1, 100, 2500})
        expect_fold({2, time, 2, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, true}, custom, false);
}

TEST_F(OperatorCustomDevice, LongChains) {
    const std::string source = exact_code;
    const flashscan_custom_operator custom = code_of(sizeof(Exact), source, "multiply_exact");
    for (const char* kernel : code_kernels) {
        for (const int32_t mode : {FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_REDUCTION})
            for (const int64_t sequences : {0, 1000})
                expect_fold({1, 1000003, 1, sequences, 0, mode, false, false}, custom, false, kernel);
        expect_fold({2, 50021, 5, 0, FLASHSCAN_LAYOUT_BCT, FLASHSCAN_MODE_EXCLUSIVE, true, true}, custom, false,
                    kernel);
        expect_fold({2, 50021, 5, 0, FLASHSCAN_LAYOUT_BTC, FLASHSCAN_MODE_EXCLUSIVE, true, true}, custom, false,
                    kernel);
    }
}

TEST_F(OperatorCustomDevice, CallbacksMatchTheFoldAndAreCalledOncePerLevel) {
    flashscan_custom_operator custom = custom_of(sizeof(Exact));
    custom.batched = exact_on_stream;
    for (const Shape& s : shapes()) {
        if (s.sequences > 0) continue;
        combined = strays = calls = 0;
        expect_fold(s, custom, true);
        EXPECT_EQ(strays, 0) << where(s);
        const int64_t steps = s.batch * s.time * s.channels + s.batch * s.channels;
        EXPECT_LE(combined, 3 * 2 * steps) << where(s);  // two runs and the fold
        constexpr double runs = 4;                       // with OUTPUT in two places, each twice
        EXPECT_LE(static_cast<double>(calls), runs * 2 * std::log2(static_cast<double>(s.time + 2))) << where(s);
    }
}

TEST_F(OperatorCustomDevice, CallbacksAreCaptured) {
    flashscan_custom_operator custom = custom_of(sizeof(Exact));
    custom.batched = exact_on_stream;
    const Shape s{2, 777, 3, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, true};
    Arrays got(s, sizeof(Exact));
    fill_exact(got.input, 1), fill_exact(got.state_in, 2);
    Arrays want = got;
    const Plan plan(desc_of(s, custom), cuda_options());
    ASSERT_TRUE(plan) << plan.message();
    Mirror mirror(plan, FLASHSCAN_PASS_FORWARD, got.arguments(), 0, true);
    const auto stream = static_cast<cudaStream_t>(test_stream(FLASHSCAN_BACKEND_CUDA));
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    const flashscan_status status = mirror.enqueue();
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess) << flashscan_last_error();
    ASSERT_EQ(status, FLASHSCAN_STATUS_OK) << flashscan_last_error();
    cudaGraphExec_t executable = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    fold(want, [](const void* l, const void* r, void* out) { multiply_exact(nullptr, l, r, out); });
    for (int replay = 0; replay < 2; ++replay) {
        ASSERT_EQ(cudaGraphLaunch(executable, stream), cudaSuccess);
        mirror.collect();
        EXPECT_TRUE(got.output == want.output) << replay;
    }
    cudaGraphExecDestroy(executable);
}

TEST_F(OperatorCustomDevice, RunningMeanAndVariance) {
    constexpr int64_t time = 100003;
    const std::string source = moments_code;
    const Shape s{1, time, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, false, false};
    Arrays a(s, sizeof(Moments));
    double sum = 0, squares = 0;
    for (int64_t t = 0; t < time; ++t) {
        const Moments one{1, uniform(5, 1, static_cast<uint64_t>(t)), 0};
        sum += one.mean, squares += one.mean * one.mean;
        std::memcpy(a.input.data() + static_cast<size_t>(t) * sizeof one, &one, sizeof one);
    }
    run(desc_of(s, code_of(sizeof(Moments), source, "merge")), FLASHSCAN_PASS_FORWARD, a.arguments());
    Moments y;
    std::memcpy(&y, a.state_out.data(), sizeof y);
    const double mean = sum / time;
    EXPECT_EQ(y.count, time);
    EXPECT_NEAR(y.mean, mean, 1e-9);
    EXPECT_NEAR(y.deviation, squares - sum * mean, 1e-6);
}

// Bytes are added one by one, so that elements may lie anywhere; the state holds what is added besides.
TEST_F(OperatorCustomDevice, ElementsOfAnySizeAnywhereWithAState) {
    for (const int64_t bytes : {1, 2, 3, 5, 7, 8, 12, 16, 24, 63, 64, 100, 128, 129, 192, 1000, 4096})
        for (const size_t shift : {size_t{0}, size_t{1}}) {
            SCOPED_TRACE(std::to_string(bytes) + " bytes, shift " + std::to_string(shift));
            const Shape s{2, 137, 1, 0, 0, FLASHSCAN_MODE_INCLUSIVE, bytes % 2 == 0, true};
            const std::string code =
                "extern \"C\" __device__ void add(void* state, const void* l, const void* r, void* out) {\n"
                "    for (int i = 0; i < " +
                std::to_string(bytes) +
                "; ++i)\n"
                "        ((unsigned char*)out)[i] = ((const unsigned char*)l)[i] + ((const unsigned char*)r)[i] +\n"
                "                                   *(const unsigned char*)state;\n}\n";
            flashscan_custom_operator custom = code_of(bytes, code, "add");
            unsigned char more = 3;
            custom.state = &more;
            custom.state_bytes = 1;
            Arrays got(s, static_cast<size_t>(bytes));
            for (size_t i = 0; i < got.input.size(); ++i) got.input[i] = static_cast<unsigned char>(i * 37 + 11);
            for (size_t i = 0; i < got.state_in.size(); ++i) got.state_in[i] = static_cast<unsigned char>(i * 17 + 5);
            Arrays want = got;
            run(desc_of(s, custom), FLASHSCAN_PASS_FORWARD, got.arguments(), shift);
            fold(want, [&](const void* l, const void* r, void* out) {
                for (int64_t i = 0; i < bytes; ++i)
                    static_cast<unsigned char*>(out)[i] = static_cast<unsigned char>(
                        static_cast<const unsigned char*>(l)[i] + static_cast<const unsigned char*>(r)[i] + more);
            });
            EXPECT_TRUE(got.output == want.output);
            EXPECT_TRUE(got.state_out == want.state_out);
        }
}

// The same plan on the CPU gives what gradients are compared with.
TEST_F(OperatorCustomDevice, AdjointsGiveTheGradientsOfTheCpu) {
    const std::string source = pair_code;
    for (const bool batched : {false, true})
        for (const Shape& s : shapes()) {
            if (s.time > 200 || (batched && s.sequences > 0)) continue;
            SCOPED_TRACE(where(s));
            flashscan_custom_operator custom = code_of(16, source, "multiply_pair");
            custom.adjoint_name = "multiply_pair_adjoint";
            if (batched) custom = custom_of(16);
            if (batched) custom.batched = pair_on_stream, custom.batched_adjoint = pair_adjoint_on_stream;
            flashscan_custom_operator host = custom_of(16);
            host.host = multiply_pair, host.host_adjoint = multiply_pair_adjoint;
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
            Bytes results[2][2];
            for (const bool device : {false, true}) {
                Bytes *grad_input = &results[device ? 1 : 0][0], *grad_state_in = &results[device ? 1 : 0][1];
                grad_input->assign(a.input.size(), 0), grad_state_in->assign(a.state_in.size(), 0);
                std::vector<flashscan_arg> args = a.arguments();
                args.erase(args.begin() + 1, args.begin() + 3);
                args.push_back({grad | FLASHSCAN_ARG_OUTPUT, 0, grad_output.data(), grad_output.size()});
                args.push_back({grad | FLASHSCAN_ARG_STATE_OUT, 0, grad_state_out.data(), grad_state_out.size()});
                const bool only_state = s.state && s.time % 3 == 0;
                if (!only_state)
                    args.push_back({grad | FLASHSCAN_ARG_INPUT, 0, grad_input->data(), grad_input->size()});
                if (s.state)
                    args.push_back({grad | FLASHSCAN_ARG_STATE_IN, 0, grad_state_in->data(), grad_state_in->size()});
                flashscan_operator_desc desc = desc_of(s, device ? custom : host);
                desc.dtype = FLASHSCAN_DTYPE_F64;
                if (device) {
                    run(desc, FLASHSCAN_PASS_BACKWARD, args, 0, batched);
                    continue;
                }
                const Plan plan(desc, make_options(FLASHSCAN_BACKEND_CPU, "", 0, false, false));
                ASSERT_TRUE(plan) << plan.message();
                ASSERT_EQ(flashscan_execute(plan.get(), FLASHSCAN_PASS_BACKWARD, args.data(),
                                            static_cast<int32_t>(args.size()), nullptr),
                          FLASHSCAN_STATUS_OK)
                    << flashscan_last_error();
            }
            for (size_t which = 0; which < 2; ++which)
                for (size_t i = 0; i < results[0][which].size(); i += 8) {
                    double want, got;
                    std::memcpy(&want, results[0][which].data() + i, 8);
                    std::memcpy(&got, results[1][which].data() + i, 8);
                    ASSERT_NEAR(got, want, 1e-9 * (1 + std::abs(want)))
                        << (batched ? "batched" : "code") << " array " << which << " number " << i / 8;
                }
        }
}

TEST_F(OperatorCustomDevice, CallbacksOfPackedSequencesAreRefused) {
    flashscan_custom_operator custom = custom_of(sizeof(Exact));
    custom.batched = exact_on_stream;
    const Plan plan(desc_of({1, 50, 1, 3, 0, FLASHSCAN_MODE_INCLUSIVE, false, false}, custom), cuda_options());
    EXPECT_EQ(plan.status(), FLASHSCAN_STATUS_UNSUPPORTED);
    EXPECT_NE(plan.message().find("num_sequences is 3"), std::string::npos) << plan.message();
}

}  // namespace
}  // namespace numeric
