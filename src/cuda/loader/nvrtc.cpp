// SPDX-License-Identifier: Apache-2.0
// Opens NVRTC and finds the toolkit's headers beside it.
#include "cuda/loader/nvrtc.h"

#include <dlfcn.h>

#include <filesystem>

#include "cuda/loader/library.h"

namespace flashscan::cuda {
namespace {

// The folder of CUDA headers beside the library that has `function`: toolkits and packages have include/ beside lib/.
std::string headers_beside(const void* function) {
    Dl_info where{};
    if (dladdr(function, &where) == 0 || where.dli_fname == nullptr) return "";
    std::error_code none;
    const auto file = std::filesystem::canonical(where.dli_fname, none);
    const auto folder = file.parent_path().parent_path() / "include";
    return !none && std::filesystem::exists(folder / "cuda_fp16.h", none) ? folder.string() : "";
}

Nvrtc load() {
    // The functions used here are the same in both versions.
    const Library library("NVRTC", both_versions("libnvrtc.so.13", "libnvrtc.so.12"));
    Nvrtc table{};
    library.find("nvrtcCreateProgram", table.create);
    library.find("nvrtcDestroyProgram", table.destroy);
    library.find("nvrtcCompileProgram", table.compile);
    library.find("nvrtcGetCUBINSize", table.cubin_size);
    library.find("nvrtcGetCUBIN", table.cubin);
    library.find("nvrtcGetLTOIRSize", table.lto_ir_size);
    library.find("nvrtcGetLTOIR", table.lto_ir);
    library.find("nvrtcGetProgramLogSize", table.log_size);
    library.find("nvrtcGetProgramLog", table.log);
    library.find("nvrtcGetErrorString", table.error_string);
    table.headers = headers_beside(reinterpret_cast<const void*>(table.create));
    return table;
}

}  // namespace

const Nvrtc& nvrtc() {
    static const Nvrtc& table = *new Nvrtc(load());  // never destroyed, as it may be used while the process ends
    return table;
}

}  // namespace flashscan::cuda
