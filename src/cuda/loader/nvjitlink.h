// SPDX-License-Identifier: Apache-2.0
// nvJitLink, the linker of device code, opened when a plan first needs it.
#pragma once

#include <nvJitLink.h>

namespace flashscan::cuda {

// The header has inline functions that call versioned symbols; the types are those of the unversioned ones.
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
