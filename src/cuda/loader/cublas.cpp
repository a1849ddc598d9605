// SPDX-License-Identifier: Apache-2.0
// Opens cuBLASLt and makes its handles.
#include "cuda/loader/cublas.h"

#include <mutex>
#include <vector>

#include "cuda/loader/library.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

Cublas load() {
    // The functions used here are the same in both versions.
    const Library library("cuBLAS", both_versions("libcublasLt.so.13", "libcublasLt.so.12"));
    Cublas table{};
    library.find("cublasLtCreate", table.create);
    library.find("cublasLtGetStatusString", table.status_string);
    library.find("cublasLtGetVersion", table.version);
    library.find("cublasLtMatmul", table.matmul);
    library.find("cublasLtMatmulAlgoGetHeuristic", table.find_algorithm);
    library.find("cublasLtMatmulDescCreate", table.create_operation);
    library.find("cublasLtMatmulDescDestroy", table.destroy_operation);
    library.find("cublasLtMatmulDescSetAttribute", table.set_operation);
    library.find("cublasLtMatrixLayoutCreate", table.create_layout);
    library.find("cublasLtMatrixLayoutDestroy", table.destroy_layout);
    library.find("cublasLtMatrixLayoutSetAttribute", table.set_layout);
    library.find("cublasLtMatmulPreferenceCreate", table.create_preference);
    library.find("cublasLtMatmulPreferenceDestroy", table.destroy_preference);
    library.find("cublasLtMatmulPreferenceSetAttribute", table.set_preference);
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
        const RelaxedCapture relaxed;
        library.check(library.create(&handle), "creating a handle");
    }
    return handle;
}

}  // namespace flashscan::cuda
