// SPDX-License-Identifier: Apache-2.0
// Matrix products of one shape by cuBLAS, batched over heads. The algorithm is chosen when a plan is made; the product
// may then be enqueued any number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/types.h"
#include "cuda/loader/cublas.h"

namespace flashscan::cuda {

// C = op(A) op(B), optionally plus C, for each of `heads`. Matrices are stored column by column, a column every `ld`
// elements and a head every `head` elements; op(A) is m x k, op(B) k x n. A and B are of `dtype`, C of state_dtype.
struct ProductShape {
    struct Matrix {
        int64_t ld = 0, head = 0;
        bool transposed = false;
    };
    Dtype dtype{};
    bool tf32 = false;  // whether the factors, f32, may be rounded to tf32
    int64_t heads = 0, m = 0, n = 0, k = 0;
    Matrix a, b, c;
};

class Product {
  public:
    // Every address that will be passed to run is a multiple of this many bytes.
    static constexpr uint32_t alignment = 16;

    Product() = default;
    // Fills `refusal` when cuBLAS has no algorithm for the shape.
    Product(int device, const ProductShape& shape, std::string& refusal);

    size_t workspace_bytes() const { return workspace_bytes_; }
    // `workspace` is aligned to 256 bytes. Thread-safe; enqueues kernels and does nothing else.
    void run(const void* a, const void* b, void* c, bool add, void* workspace, void* stream) const;

  private:
    struct DestroyOperation {
        void operator()(cublasLtMatmulDesc_t x) const { cublas().destroy_operation(x); }
    };
    struct DestroyLayout {
        void operator()(cublasLtMatrixLayout_t x) const { cublas().destroy_layout(x); }
    };
    using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, DestroyOperation>;
    using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, DestroyLayout>;

    static Operation make_operation(const ProductShape& shape);
    static Layout make_layout(Dtype dtype, int64_t rows, int64_t columns, const ProductShape::Matrix& matrix,
                              int64_t heads);
    bool choose_algorithm();

    cublasLtHandle_t handle_ = nullptr;
    bool wide_ = false;
    Operation operation_;
    Layout a_, b_, c_;
    cublasLtMatmulAlgo_t algorithm_{};
    size_t workspace_bytes_ = 0;
};

}  // namespace flashscan::cuda
