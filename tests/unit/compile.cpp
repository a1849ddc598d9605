// SPDX-License-Identifier: Apache-2.0
// Code compiled at run time, as far as it goes without a device.
#include <gtest/gtest.h>

#include <future>

#include "core/error.h"
#include "cuda/jit/operator_source.h"
#include "cuda/loader/library.h"
#include "support/lto_ir.h"

namespace flashscan::cuda {
namespace {

constexpr const char* moments = R"(
struct Moments { double count, mean, deviation; };
extern "C" __device__ void merge(const void* lhs, const void* rhs, void* out) {
    const Moments a = *static_cast<const Moments*>(lhs), b = *static_cast<const Moments*>(rhs);
    const double count = a.count + b.count, apart = b.mean - a.mean;
    *static_cast<Moments*>(out) = {count, a.mean + apart * b.count / count,
                                   a.deviation + b.deviation + apart * apart * a.count * b.count / count};
}
)";
constexpr const char* kernel = R"(
extern "C" __global__ void pairs(const __grid_constant__ TreeParams p, const __grid_constant__ TreeLevel level) {
    tree_combine<CustomOperator>(p, level);
}
)";
constexpr int arch = 90;

CustomOperator custom_of(const std::string& code, const std::string& name) {
    CustomOperator custom;
    custom.element_bytes = 24;
    custom.code_kind = CodeKind::cuda_source;
    custom.code = code;
    custom.name = name;
    return custom;
}

std::string compiled(const CustomOperator& custom) {
    return compile(operator_source(custom, "#include \"cuda/operators/custom/tree_pairs.cuh\"\n", kernel), custom,
                   arch);
}

// The sentence of the failure, which has this status.
std::string failure(const CustomOperator& custom, Code code) {
    try {
        compiled(custom);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code);
        return error.what();
    }
    ADD_FAILURE() << "compiled";
    return "";
}

bool has(const std::string& text, const std::string& words) { return text.find(words) != std::string::npos; }

bool no_compiler() {
    try {
        compiled(custom_of(moments, "merge"));
        return false;
    } catch (const Error& error) {
        return error.code() == Code::dependency_missing;
    }
}

class Compile : public testing::Test {
    void SetUp() override {
        if (no_compiler()) GTEST_SKIP() << "skipped: NVRTC could not be loaded";
    }
};

TEST_F(Compile, SourceBecomesACubin) { EXPECT_EQ(compiled(custom_of(moments, "merge")).substr(1, 3), "ELF"); }

TEST_F(Compile, StatesAndAdjoints) {
    CustomOperator custom = custom_of(R"(
extern "C" __device__ void scale(void* state, const void* l, const void* r, void* o) {
    *(double*)o = *(const double*)l * *(const double*)r * *(const double*)state;
}
extern "C" __device__ void scale_adjoint(void*, const void*, const void*, const void*, void*, void*) {}
)",
                                      "scale");
    custom.device_state = "12345678";
    custom.adjoint_name = "scale_adjoint";
    const KernelSource source =
        operator_source(custom, "#include \"cuda/operators/custom/tree_pairs.cuh\"\n",
                        "extern \"C\" __global__ void k(TreeParams p, TreeLevel level, char* memory) {\n"
                        "    tree_combine<CustomOperator>(p, level);\n"
                        "    tree_differentiate<double, CustomAdjoint>(p, level, memory);\n}\n");
    EXPECT_EQ(compile(source, custom, arch).substr(1, 3), "ELF");
}

TEST_F(Compile, ScansOfElementsOfAnySize) {
    for (const int64_t bytes : {1, 3, 4, 24, 100, 128}) {
        CustomOperator custom = custom_of(
            "extern \"C\" __device__ void last(const void*, const void* r, void* o) {\n"
            "    memcpy(o, r, " +
                std::to_string(bytes) + ");\n}\n",
            "last");
        custom.element_bytes = bytes;
        const KernelSource source =
            operator_source(custom, "#include \"cuda/operators/custom/element.cuh\"\n",
                            "extern \"C\" __global__ void k(const __grid_constant__ ElementScanParams p) {\n"
                            "    scan_elements<CustomScanOperator<CustomOperator>>(p);\n}\n");
        EXPECT_EQ(compile(source, custom, arch).substr(1, 3), "ELF") << bytes;
    }
}

TEST_F(Compile, ErrorsComeBackWholeAndNameTheLine) {
    const std::string text =
        failure(custom_of("extern \"C\" __device__ void merge(const void* l, const void*, void*) {\n"
                          "    undeclared = 3;\n    another = 4;\n}\n",
                          "merge"),
                Code::invalid_argument);
    EXPECT_TRUE(has(text, "custom.code does not compile")) << text;
    EXPECT_TRUE(has(text, "custom.code(2): error: identifier \"undeclared\" is undefined")) << text;
    EXPECT_TRUE(has(text, "custom.code(3): error: identifier \"another\" is undefined")) << text;
}

TEST_F(Compile, WrongNamesAreSaid) {
    std::string text = failure(custom_of(moments, "marge"), Code::invalid_argument);
    EXPECT_TRUE(has(text, "custom.name is \"marge\", which custom.code does not define")) << text;
    CustomOperator custom = custom_of(moments, "merge");
    custom.adjoint_name = "merge_adjoint";
    text = failure(custom, Code::invalid_argument);
    EXPECT_TRUE(has(text, "custom.adjoint_name is \"merge_adjoint\", which custom.code does not define")) << text;
    text = failure(custom_of(moments, "merge(0); x"), Code::invalid_argument);
    EXPECT_TRUE(has(text, "custom.name is \"merge(0); x\"")) << text;
}

TEST_F(Compile, DeclaredButNotDefined) {
    const std::string text =
        failure(custom_of("extern \"C\" __device__ void merge(const void*, const void*, void*);", "merge"),
                Code::invalid_argument);
    EXPECT_TRUE(has(text, "custom.name is \"merge\", which custom.code does not define")) << text;
}

TEST_F(Compile, NamesOfTheUserMeetNoneOfOurs) {
    const std::string code = std::string("#define bytes_of 3\nstruct TreeParams {}; struct CustomOperator {};\n") +
                             "namespace flashscan_user { int item; }\nusing int64_t = long long;\n" + moments;
    EXPECT_EQ(compiled(custom_of(code, "merge")).substr(1, 3), "ELF");
}

TEST_F(Compile, HeadersOfTheToolkit) {
    const std::string code = std::string("#include <cuda_fp16.h>\n") + moments;
    EXPECT_EQ(compiled(custom_of(code, "merge")).substr(1, 3), "ELF");
}

TEST_F(Compile, LtoIrIsLinked) {
    CustomOperator custom = custom_of(support::lto_ir_of(moments), "merge");
    custom.code_kind = CodeKind::lto_ir;
    EXPECT_EQ(compiled(custom).substr(1, 3), "ELF");
    custom.name = "marge";
    std::string text = failure(custom, Code::invalid_argument);
    EXPECT_TRUE(has(text, "custom.name is \"marge\", which custom.code does not define")) << text;
    custom.code = "none of it";
    text = failure(custom, Code::invalid_argument);
    EXPECT_TRUE(has(text, "does not match type NVJITLINK_INPUT_LTOIR")) << text;
}

TEST_F(Compile, ManyAtOnce) {
    CustomOperator linked = custom_of(support::lto_ir_of(moments), "merge");
    linked.code_kind = CodeKind::lto_ir;
    std::vector<std::future<std::string>> cubins;
    for (const CustomOperator& custom : {custom_of(moments, "merge"), linked, custom_of(moments, "merge"), linked})
        cubins.push_back(std::async(std::launch::async, [custom] { return compiled(custom); }));
    for (std::future<std::string>& cubin : cubins) EXPECT_EQ(cubin.get().substr(1, 3), "ELF");
}

TEST(Loader, MissingLibrariesAreNamed) {
    try {
        const Library library("NVRTC", {"libnvrtc-none.so.1", "libnvrtc-none.so.0"});
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::dependency_missing);
        for (const char* words : {"needs NVRTC", "libnvrtc-none.so.1 or libnvrtc-none.so.0", "cannot open"})
            EXPECT_TRUE(has(error.what(), words)) << error.what();
    }
}

// Runs where there is no NVRTC, or where it is hidden.
TEST(Loader, PlansSayThatTheCompilerIsMissing) {
    if (!no_compiler()) GTEST_SKIP() << "skipped: NVRTC could be loaded";
    const std::string sentence = failure(custom_of(moments, "merge"), Code::dependency_missing);
    for (const char* words : {"this plan needs NVRTC", "libnvrtc.so.13 or libnvrtc.so.12", "could not be loaded"})
        EXPECT_TRUE(has(sentence, words)) << sentence;
}

TEST(Loader, MissingFunctionsAreNamed) {
    const Library library("the C library", {"libc.so.6"});
    void* function = nullptr;
    EXPECT_THROW(library.find("no_such_function", function), Error);
}

}  // namespace
}  // namespace flashscan::cuda
