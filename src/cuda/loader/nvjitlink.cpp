// SPDX-License-Identifier: Apache-2.0
// Opens nvJitLink.
#include "cuda/loader/nvjitlink.h"

#include "cuda/loader/library.h"

namespace flashscan::cuda {
namespace {

NvJitLink load() {
    // The functions used here are the same in both versions.
    const Library library("nvJitLink", both_versions("libnvJitLink.so.13", "libnvJitLink.so.12"));
    NvJitLink table{};
    library.find("nvJitLinkCreate", table.create);
    library.find("nvJitLinkDestroy", table.destroy);
    library.find("nvJitLinkAddData", table.add);
    library.find("nvJitLinkComplete", table.complete);
    library.find("nvJitLinkGetLinkedCubinSize", table.cubin_size);
    library.find("nvJitLinkGetLinkedCubin", table.cubin);
    library.find("nvJitLinkGetErrorLogSize", table.log_size);
    library.find("nvJitLinkGetErrorLog", table.log);
    return table;
}

}  // namespace

const NvJitLink& nvjitlink() {
    static const NvJitLink table = load();
    return table;
}

}  // namespace flashscan::cuda
