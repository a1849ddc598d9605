// SPDX-License-Identifier: Apache-2.0
// Finds NCCL's functions among what is loaded.
#include "cuda/loader/nccl.h"

#include <dlfcn.h>

#include "core/error.h"

namespace flashscan::cuda {
namespace {

constexpr const char* file = "libnccl.so.2";

// The handle by which functions are found: the program's own symbols, or the loaded library's.
void* find_library() {
    if (dlsym(RTLD_DEFAULT, "ncclAllGather") != nullptr) return RTLD_DEFAULT;
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library == nullptr)
        fail(Code::dependency_missing,
             "communicator.kind is COMM_NCCL, but the program has loaded no {}; where NCCL is linked into it, "
             "communicator.nccl has to name its functions",
             file);
    return library;
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr)
        fail(Code::dependency_missing, "communicator.kind is COMM_NCCL, and the NCCL that is loaded has no {}", name);
}

}  // namespace

std::shared_ptr<const NcclFunctions> loaded_nccl() {
    void* library = find_library();
    auto table = std::make_shared<NcclFunctions>();
    find(library, "ncclAllGather", table->all_gather);
    find(library, "ncclSend", table->send);
    find(library, "ncclRecv", table->receive);
    find(library, "ncclGroupStart", table->group_start);
    find(library, "ncclGroupEnd", table->group_end);
    find(library, "ncclCommCount", table->comm_count);
    find(library, "ncclCommUserRank", table->comm_rank);
    find(library, "ncclCommCuDevice", table->comm_device);
    find(library, "ncclCommGetAsyncError", table->async_error);
    find(library, "ncclGetErrorString", table->error_text);
    table->last_error = reinterpret_cast<decltype(table->last_error)>(dlsym(library, "ncclGetLastError"));
    return table;
}

void check_nccl(const Communicator& ranks, int result, const char* doing) {
    const NcclFunctions& nccl = *ranks.nccl;
    while (result == nccl_in_progress)
        if (const int asked = nccl.async_error(ranks.user, &result); asked != 0) result = asked;
    if (result == 0) return;
    const char* more = nccl.last_error != nullptr ? nccl.last_error(ranks.user) : nullptr;
    fail(Code::device_error, "NCCL failed while {} on rank {} of {}: {} ({}){}{}", doing, ranks.rank, ranks.size,
         nccl.error_text(result), result, more != nullptr && *more != 0 ? "; " : "", more != nullptr ? more : "");
}

}  // namespace flashscan::cuda
