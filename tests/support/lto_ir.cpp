// SPDX-License-Identifier: Apache-2.0
#include "support/lto_ir.h"

#include <dlfcn.h>
#include <nvrtc.h>

#include <stdexcept>

namespace support {
namespace {

void check(nvrtcResult result) {
    if (result != NVRTC_SUCCESS) throw std::runtime_error("NVRTC returned " + std::to_string(result));
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(name);
}

}  // namespace

std::string lto_ir_of(const std::string& source) {
    void* library = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) library = dlopen("libnvrtc.so.12", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return "";
    decltype(&nvrtcCreateProgram) create = nullptr;
    decltype(&nvrtcCompileProgram) compile = nullptr;
    decltype(&nvrtcGetLTOIRSize) size_of = nullptr;
    decltype(&nvrtcGetLTOIR) get = nullptr;
    decltype(&nvrtcDestroyProgram) destroy = nullptr;
    find(library, "nvrtcCreateProgram", create);
    find(library, "nvrtcCompileProgram", compile);
    find(library, "nvrtcGetLTOIRSize", size_of);
    find(library, "nvrtcGetLTOIR", get);
    find(library, "nvrtcDestroyProgram", destroy);
    nvrtcProgram program = nullptr;
    check(create(&program, source.c_str(), "user.cu", 0, nullptr, nullptr));
    const char* options[] = {"-arch=compute_80", "-dlto", "-rdc=true"};
    check(compile(program, 3, options));
    size_t size = 0;
    check(size_of(program, &size));
    std::string bytes(size, '\0');
    check(get(program, bytes.data()));
    check(destroy(&program));
    return bytes;
}

}  // namespace support
