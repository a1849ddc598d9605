// SPDX-License-Identifier: Apache-2.0
// cuBLAS, opened when a plan first needs it.
//
// Only cuBLASLt is used. Stream, workspace and algorithm are arguments of its calls, so that one handle serves all
// threads and streams of a device, and a call allocates nothing and chooses nothing.
#pragma once

#include <cublasLt.h>

namespace flashscan::cuda {

struct Cublas {
    decltype(&cublasLtCreate) create;
    decltype(&cublasLtGetStatusString) status_string;
    decltype(&cublasLtGetVersion) version;
    decltype(&cublasLtMatmul) matmul;
    decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm;
    decltype(&cublasLtMatmulDescCreate) create_operation;
    decltype(&cublasLtMatmulDescDestroy) destroy_operation;
    decltype(&cublasLtMatmulDescSetAttribute) set_operation;
    decltype(&cublasLtMatrixLayoutCreate) create_layout;
    decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
    decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
    decltype(&cublasLtMatmulPreferenceCreate) create_preference;
    decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
    decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;

    // Throws Error{device_error} for anything but success. `doing` completes the sentence "cuBLAS failed while ...".
    void check(cublasStatus_t status, const char* doing) const;
};

// Throws Error{dependency_missing} naming the file when it cannot be loaded.
const Cublas& cublas();

// The handle of a device. It is made at the first call and never destroyed: destroying it would wait for all work on
// the device, and at exit the driver may be gone first.
cublasLtHandle_t cublas_handle(int device);

}  // namespace flashscan::cuda
