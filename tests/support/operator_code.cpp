// SPDX-License-Identifier: Apache-2.0
// Operators that are built in, once more as CUDA source of custom ones.
#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <tuple>

#include "support/operator_problem.h"

namespace support {
namespace {

constexpr const char* add_code = R"(
extern "C" __device__ void combine(const void* l, const void* r, void* o) {
    *(Number*)o = *(const Number*)l + *(const Number*)r;
}
extern "C" __device__ void adjoint(const void*, const void*, const void* g, void* gl, void* gr) {
    *(Number*)gl = *(Number*)gr = *(const Number*)g;
}
)";
constexpr const char* matmul_code = R"(
struct Matrix { Number m[d][d]; };
extern "C" __device__ void combine(const void* l, const void* r, void* o) {
    const Matrix &a = *(const Matrix*)l, &b = *(const Matrix*)r;
    Matrix& c = *(Matrix*)o;
    for (int i = 0; i < d; ++i)
        for (int j = 0; j < d; ++j) {
            Number sum = 0;
            for (int k = 0; k < d; ++k) sum += a.m[i][k] * b.m[k][j];
            c.m[i][j] = sum;
        }
}
extern "C" __device__ void adjoint(const void* l, const void* r, const void* g, void* gl, void* gr) {
    const Matrix &a = *(const Matrix*)l, &b = *(const Matrix*)r, &c = *(const Matrix*)g;
    Matrix &da = *(Matrix*)gl, &db = *(Matrix*)gr;
    for (int i = 0; i < d; ++i)
        for (int j = 0; j < d; ++j) {
            Number left = 0, right = 0;
            for (int k = 0; k < d; ++k) left += c.m[i][k] * b.m[j][k], right += a.m[k][i] * c.m[k][j];
            da.m[i][j] = left, db.m[i][j] = right;
        }
}
)";

struct Code {
    std::string text;
    flashscan_custom_operator custom{};
};

}  // namespace

const flashscan_custom_operator* operator_code(const OperatorProblem& p) {
    const bool add = p.kind == FLASHSCAN_OPERATOR_ADD;
    if (!(add || p.matmul()) || (p.dtype != FLASHSCAN_DTYPE_F32 && p.dtype != FLASHSCAN_DTYPE_F64))
        throw std::invalid_argument("custom is for add and matmul in f32 and f64");
    static std::map<std::tuple<int32_t, int64_t, int32_t>, Code> codes;
    Code& code = codes[{p.kind, p.dim, p.dtype}];
    if (!code.text.empty()) return &code.custom;
    code.text = fmt::format("using Number = {};\nconstexpr int d = {};\n{}",
                            p.dtype == FLASHSCAN_DTYPE_F64 ? "double" : "float", p.dim, add ? add_code : matmul_code);
    code.custom.struct_size = sizeof code.custom;
    code.custom.code_kind = FLASHSCAN_CODE_CUDA_SOURCE;
    code.custom.element_bytes = p.element() * static_cast<int64_t>(size_of(p.dtype));
    code.custom.code = code.text.data();
    code.custom.code_bytes = code.text.size();
    code.custom.name = "combine";
    code.custom.adjoint_name = "adjoint";
    return &code.custom;
}

}  // namespace support
