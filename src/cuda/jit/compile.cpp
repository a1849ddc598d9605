// SPDX-License-Identifier: Apache-2.0
// Compiles and links device code by NVRTC and nvJitLink.
#include "cuda/jit/compile.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "cuda/jit/headers.h"
#include "cuda/loader/nvjitlink.h"
#include "cuda/loader/nvrtc.h"

namespace flashscan::cuda {
namespace {

// The name of the user's code in diagnostics.
constexpr const char* code_name = "custom.code";

// NVRTC has no standard headers. These are the names that the library's headers need of <cstdint>, declared as in
// libcu++.
constexpr const char* cstdint = R"(#pragma once
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
using uintptr_t = unsigned long long;
)";

// Throws the error for user's code that does not compile; `log` is the output of the compiler or the linker.
[[noreturn]] void refuse(const CustomOperator& custom, const std::string& log) {
    const bool is_code = log.find("bad input") == std::string::npos;
    for (const std::string& name : {custom.name, custom.adjoint_name}) {
        if (name.empty() || !is_code) continue;
        const bool unknown = log.find(fmt::format("the global scope has no \"{}\"", name)) != std::string::npos;
        const bool unresolved = log.find(fmt::format("Unresolved extern function '{}'", name)) != std::string::npos;
        if (unknown || unresolved)
            fail(Code::invalid_argument, "custom.{} is \"{}\", which custom.code does not define:\n{}",
                 name == custom.name ? "name" : "adjoint_name", name, log);
    }
    fail(Code::invalid_argument, "custom.code does not compile:\n{}", log);
}

class Program {
  public:
    Program(const std::string& text, const std::vector<Header>& headers) {
        std::vector<const char*> names, texts;
        for (const Header& header : headers) names.push_back(header.name), texts.push_back(header.text);
        check(library_.create(&program_, text.c_str(), "kernels.cu", static_cast<int>(headers.size()), texts.data(),
                              names.data()),
              "taking in the source");
    }
    ~Program() { library_.destroy(&program_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    bool compile(const std::vector<std::string>& options) {
        std::vector<const char*> list;
        for (const std::string& option : options) list.push_back(option.c_str());
        const nvrtcResult result = library_.compile(program_, static_cast<int>(list.size()), list.data());
        if (result != NVRTC_ERROR_COMPILATION) check(result, "compiling");
        return result == NVRTC_SUCCESS;
    }
    std::string log() const {
        std::string text = read(library_.log_size, library_.log);
        text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
        return text;
    }
    std::string cubin() const { return read(library_.cubin_size, library_.cubin); }
    std::string lto_ir() const { return read(library_.lto_ir_size, library_.lto_ir); }

  private:
    std::string read(nvrtcResult (*size_of)(nvrtcProgram, size_t*), nvrtcResult (*get)(nvrtcProgram, char*)) const {
        size_t size = 0;
        check(size_of(program_, &size), "asking for a size");
        std::string bytes(size, '\0');
        check(get(program_, bytes.data()), "handing over what it made");
        return bytes;
    }
    void check(nvrtcResult result, const char* doing) const {
        if (result != NVRTC_SUCCESS)
            fail(Code::internal_error, "NVRTC failed while {}: {}", doing, library_.error_string(result));
    }

    const Nvrtc& library_ = nvrtc();
    nvrtcProgram program_ = nullptr;
};

class Link {
  public:
    explicit Link(int arch) {
        const std::string name = fmt::format("-arch=sm_{}", arch);
        const char* options[] = {name.c_str(), "-lto"};
        const nvJitLinkResult result = library_.create(&link_, 2, options);
        if (result != NVJITLINK_SUCCESS)
            fail(Code::internal_error, "nvJitLink failed while beginning with {}: {}", name, static_cast<int>(result));
    }
    ~Link() { library_.destroy(&link_); }
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;

    // Errors are reported by complete, when the log is available.
    void add(const std::string& lto_ir, const char* name) {
        if (library_.add(link_, NVJITLINK_INPUT_LTOIR, lto_ir.data(), lto_ir.size(), name) != NVJITLINK_SUCCESS)
            added_ = false;
    }
    bool complete() { return library_.complete(link_) == NVJITLINK_SUCCESS && added_; }
    std::string log() const {
        size_t size = 0;
        if (library_.log_size(link_, &size) != NVJITLINK_SUCCESS || size == 0) return "";
        std::string text(size, '\0');
        library_.log(link_, text.data());
        text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
        return text;
    }
    std::string cubin() const {
        size_t size = 0;
        std::string bytes;
        bool got = library_.cubin_size(link_, &size) == NVJITLINK_SUCCESS;
        bytes.resize(size);
        got = got && library_.cubin(link_, bytes.data()) == NVJITLINK_SUCCESS;
        if (!got) fail(Code::internal_error, "nvJitLink failed while handing over what it made");
        return bytes;
    }

  private:
    const NvJitLink& library_ = nvjitlink();
    nvJitLinkHandle link_ = nullptr;
    bool added_ = true;
};

std::vector<std::string> options_of(int arch) {
    std::vector<std::string> list{fmt::format("-arch=sm_{}", arch), "-std=c++20", "-default-device"};
    if (!nvrtc().headers.empty()) list.push_back("--include-path=" + nvrtc().headers);
    return list;
}

}  // namespace

std::string compile(const KernelSource& source, const CustomOperator& custom, int arch) {
    const bool linked = custom.code_kind == CodeKind::lto_ir;
    std::vector<Header> headers = embedded_headers();
    headers.push_back({"cstdint", cstdint});
    if (!linked) headers.push_back({code_name, custom.code.c_str()});
    const std::string middle = linked ? source.declarations : fmt::format("#include \"{}\"\n", code_name);
    Program program(source.headers + middle + source.kernels, headers);
    std::vector<std::string> options = options_of(arch);
    if (linked) options.insert(options.end(), {"-dlto", "-rdc=true"});
    if (!program.compile(options)) refuse(custom, program.log());
    if (!linked) return program.cubin();
    Link link(arch);
    link.add(program.lto_ir(), "kernels");
    link.add(custom.code, code_name);
    if (!link.complete()) refuse(custom, link.log());
    return link.cubin();
}

}  // namespace flashscan::cuda
