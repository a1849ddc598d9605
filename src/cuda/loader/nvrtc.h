// SPDX-License-Identifier: Apache-2.0
// NVRTC, the compiler of device code, opened when a plan first needs it.
#pragma once

#include <nvrtc.h>

#include <string>

namespace flashscan::cuda {

struct Nvrtc {
    decltype(&nvrtcCreateProgram) create;
    decltype(&nvrtcDestroyProgram) destroy;
    decltype(&nvrtcCompileProgram) compile;
    decltype(&nvrtcGetCUBINSize) cubin_size;
    decltype(&nvrtcGetCUBIN) cubin;
    decltype(&nvrtcGetLTOIRSize) lto_ir_size;
    decltype(&nvrtcGetLTOIR) lto_ir;
    decltype(&nvrtcGetProgramLogSize) log_size;
    decltype(&nvrtcGetProgramLog) log;
    decltype(&nvrtcGetErrorString) error_string;
    std::string headers;  // the toolkit's folder of headers beside the library; empty where there is none
};

// Throws Error{dependency_missing} naming the file when it cannot be loaded.
const Nvrtc& nvrtc();

}  // namespace flashscan::cuda
