// SPDX-License-Identifier: Apache-2.0
// nvJitLink, the linker of device code, opened when a plan first needs it.
#pragma once

#include <nvJitLink.h>

namespace flashscan::cuda {

// Its functions. In NVIDIA's header these names are inline functions that call versioned symbols; here they only give
// the types.
struct NvJitLink {
    decltype(&nvJitLinkCreate) create;
    decltype(&nvJitLinkDestroy) destroy;
    decltype(&nvJitLinkAddData) add;
    decltype(&nvJitLinkComplete) complete;
    decltype(&nvJitLinkGetLinkedCubinSize) cubin_size;
    decltype(&nvJitLinkGetLinkedCubin) cubin;
    decltype(&nvJitLinkGetErrorLogSize) log_size;
    decltype(&nvJitLinkGetErrorLog) log;
};

// Throws Error{dependency_missing} naming the file when it cannot be loaded.
const NvJitLink& nvjitlink();

}  // namespace flashscan::cuda
