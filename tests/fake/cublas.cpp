// SPDX-License-Identifier: Apache-2.0
// cuBLASLt for the fake machine. Handles, layouts and the like are one byte each.
#include <cublasLt.h>

#include <cstring>

#include "fake/machine.h"

namespace {

cublasStatus_t enter(const char* name) {
    switch (fake_enter(name)) {
    case cudaSuccess: return CUBLAS_STATUS_SUCCESS;
    case cudaErrorMemoryAllocation: return CUBLAS_STATUS_ALLOC_FAILED;
    default: return CUBLAS_STATUS_EXECUTION_FAILED;
    }
}

template <typename Handle>
cublasStatus_t create(const char* name, Handle* handle) {
    if (const cublasStatus_t error = enter(name)) return error;
    const fake::OwnMemory own;
    *handle = reinterpret_cast<Handle>(new char);
    return CUBLAS_STATUS_SUCCESS;
}

template <typename Handle>
cublasStatus_t destroy(const char* name, Handle handle) {
    const fake::OwnMemory own;
    delete reinterpret_cast<char*>(handle);
    return enter(name);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    if (fake_enter_unsafe("cublasLtCreate allocates") != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
    return create(__func__, handle);
}
const char* cublasLtGetStatusString(cublasStatus_t) { return "as was asked for"; }
size_t cublasLtGetVersion() { return CUBLAS_VERSION; }
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t, cudaDataType_t) {
    return create(__func__, operation);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) { return destroy(__func__, operation); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void*,
                                              size_t) {
    return enter(__func__);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType, uint64_t, uint64_t, int64_t) {
    return create(__func__, layout);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(__func__, layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void*,
                                                size_t) {
    return enter(__func__);
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
    return create(__func__, preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    return destroy(__func__, preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, size_t) {
    return enter(__func__);
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t* found,
                                              int* count) {
    if (const cublasStatus_t error = enter(__func__)) return error;
    std::memset(found, 0, sizeof *found);
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, const void*, const void*, cublasLtMatrixLayout_t,
                              const void*, cublasLtMatrixLayout_t, const void*, const void*, cublasLtMatrixLayout_t,
                              void*, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void*, size_t,
                              cudaStream_t stream) {
    if (const cublasStatus_t error = enter(__func__)) return error;
    fake_launch("product", stream);
    return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
