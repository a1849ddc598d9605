// SPDX-License-Identifier: Apache-2.0
#include "cuda/loader/cublas.h"

#include <dlfcn.h>

#include <mutex>
#include <vector>

#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

// The interface used here is the same in both.
constexpr const char* files[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

void* open_library() {
    for (const int only_if_loaded : {RTLD_NOLOAD, 0})  // what the program has loaded fits its driver
        for (const char* file : files)
            if (void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL | only_if_loaded)) return library;
    dlopen(files[0], RTLD_NOW | RTLD_LOCAL);
    const char* reason = dlerror();
    fail(Code::dependency_missing, "this plan needs cuBLAS, but neither {} nor {} could be loaded: {}", files[0],
         files[1], reason != nullptr ? reason : "no reason given");
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr)
        fail(Code::dependency_missing, "this plan needs {}, which the {} or {} that was loaded does not have", name,
             files[0], files[1]);
}

Cublas load() {
    void* const library = open_library();
    Cublas table{};
    find(library, "cublasLtCreate", table.create);
    find(library, "cublasLtGetStatusString", table.status_string);
    find(library, "cublasLtGetVersion", table.version);
    find(library, "cublasLtMatmul", table.matmul);
    find(library, "cublasLtMatmulAlgoGetHeuristic", table.find_algorithm);
    find(library, "cublasLtMatmulDescCreate", table.create_operation);
    find(library, "cublasLtMatmulDescDestroy", table.destroy_operation);
    find(library, "cublasLtMatmulDescSetAttribute", table.set_operation);
    find(library, "cublasLtMatrixLayoutCreate", table.create_layout);
    find(library, "cublasLtMatrixLayoutDestroy", table.destroy_layout);
    find(library, "cublasLtMatrixLayoutSetAttribute", table.set_layout);
    find(library, "cublasLtMatmulPreferenceCreate", table.create_preference);
    find(library, "cublasLtMatmulPreferenceDestroy", table.destroy_preference);
    find(library, "cublasLtMatmulPreferenceSetAttribute", table.set_preference);
    return table;
}

}  // namespace

void Cublas::check(cublasStatus_t status, const char* doing) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    fail(status == CUBLAS_STATUS_ALLOC_FAILED ? Code::out_of_memory : Code::device_error,
         "cuBLAS failed while {}: {} ({})", doing, status_string(status), static_cast<int>(status));
}

const Cublas& cublas() {
    static const Cublas table = load();
    return table;
}

cublasLtHandle_t cublas_handle(int device) {
    static std::mutex mutex;
    static std::vector<cublasLtHandle_t>& handles = *new std::vector<cublasLtHandle_t>;
    const Cublas& library = cublas();
    const std::scoped_lock lock(mutex);
    if (device >= static_cast<int>(handles.size())) handles.resize(static_cast<size_t>(device) + 1, nullptr);
    cublasLtHandle_t& handle = handles[static_cast<size_t>(device)];
    if (handle == nullptr) {
        const DeviceScope scope(device);
        library.check(library.create(&handle), "creating a handle");
    }
    return handle;
}

}  // namespace flashscan::cuda
