// SPDX-License-Identifier: Apache-2.0
// Describes products to cuBLASLt and chooses their algorithm.
#include "cuda/rnn/alternating/product.h"

#include <limits>
#include <utility>

#include "core/error.h"
#include "cuda/launch/by_dtype.h"
#include "cuda/launch/launch_count.h"

namespace flashscan::cuda {
namespace {

// The size that NVIDIA recommends for its largest devices. The chosen algorithm usually needs no workspace.
constexpr size_t most_workspace = size_t{32} << 20;

cudaDataType_t type_of(Dtype dtype) {
    return of_dtype<cudaDataType_t>(
        dtype,
        {{Dtype::f32, CUDA_R_32F}, {Dtype::bf16, CUDA_R_16BF}, {Dtype::f16, CUDA_R_16F}, {Dtype::f64, CUDA_R_64F}});
}

}  // namespace

Product::Product(int device, const ProductShape& s, std::string& refusal)
    : handle_(cublas_handle(device)),
      wide_(s.dtype == Dtype::f64),
      operation_(make_operation(s)),
      a_(make_layout(s.dtype, s.a.transposed ? s.k : s.m, s.a.transposed ? s.m : s.k, s.a, s.heads)),
      b_(make_layout(s.dtype, s.b.transposed ? s.n : s.k, s.b.transposed ? s.k : s.n, s.b, s.heads)),
      c_(make_layout(state_dtype(s.dtype), s.m, s.n, s.c, s.heads)) {
    if (s.heads > std::numeric_limits<int32_t>::max())
        refusal = fmt::format("heads is {}; cuBLAS takes up to 2^31 - 1", s.heads);
    else if (!choose_algorithm())
        refusal = fmt::format("cuBLAS {} has no algorithm for {} products {} x {} x {} in {}", cublas().version(),
                              s.heads, s.m, s.n, s.k, name_of(s.dtype));
}

Product::Operation Product::make_operation(const ProductShape& s) {
    const Cublas& lt = cublas();
    const bool wide = s.dtype == Dtype::f64;
    const cublasComputeType_t compute = wide     ? CUBLAS_COMPUTE_64F
                                        : s.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F;
    cublasLtMatmulDesc_t made = nullptr;
    lt.check(lt.create_operation(&made, compute, wide ? CUDA_R_64F : CUDA_R_32F), "describing a product");
    Operation operation(made);
    const auto transpose = [&](cublasLtMatmulDescAttributes_t which, bool transposed) {
        const int32_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
        lt.check(lt.set_operation(made, which, &value, sizeof value), "describing a product");
    };
    transpose(CUBLASLT_MATMUL_DESC_TRANSA, s.a.transposed);
    transpose(CUBLASLT_MATMUL_DESC_TRANSB, s.b.transposed);
    return operation;
}

Product::Layout Product::make_layout(Dtype dtype, int64_t rows, int64_t columns, const ProductShape::Matrix& matrix,
                                     int64_t heads) {
    const Cublas& lt = cublas();
    cublasLtMatrixLayout_t made = nullptr;
    lt.check(
        lt.create_layout(&made, type_of(dtype), static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), matrix.ld),
        "describing a matrix");
    Layout layout(made);
    if (heads == 1) return layout;
    const auto count = static_cast<int32_t>(heads);
    lt.check(lt.set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count), "describing a matrix");
    lt.check(lt.set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.head, sizeof matrix.head),
             "describing a matrix");
    return layout;
}

bool Product::choose_algorithm() {
    const Cublas& lt = cublas();
    cublasLtMatmulPreference_t made = nullptr;
    lt.check(lt.create_preference(&made), "describing a search");
    const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, decltype(lt.destroy_preference)> preference(
        made, lt.destroy_preference);
    lt.check(lt.set_preference(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most_workspace, sizeof most_workspace),
             "describing a search");
    for (const auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                             CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
        lt.check(lt.set_preference(made, which, &alignment, sizeof alignment), "describing a search");
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        lt.find_algorithm(handle_, operation_.get(), a_.get(), b_.get(), c_.get(), c_.get(), made, 1, &found, &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
    lt.check(status, "choosing an algorithm");
    if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return false;
    algorithm_ = found.algo;
    workspace_bytes_ = found.workspaceSize;
    return true;
}

void Product::run(const void* a, const void* b, void* c, bool add, void* workspace, void* stream) const {
    if (counts_launch()) return;
    static constexpr float factors[] = {0, 1};
    static constexpr double wide_factors[] = {0, 1};
    const auto factor = [&](size_t i) { return wide_ ? static_cast<const void*>(wide_factors + i) : factors + i; };
    const Cublas& lt = cublas();
    const cublasStatus_t status =
        lt.matmul(handle_, operation_.get(), factor(1), a, a_.get(), b, b_.get(), factor(add ? 1 : 0), c, c_.get(), c,
                  c_.get(), &algorithm_, workspace, workspace_bytes_, static_cast<cudaStream_t>(stream));
    lt.check(status, "enqueueing a product");
}

}  // namespace flashscan::cuda
