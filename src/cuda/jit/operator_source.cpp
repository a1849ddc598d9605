// SPDX-License-Identifier: Apache-2.0
// Generates the source text around a user's functions.
#include "cuda/jit/operator_source.h"

#include <cctype>

#include "core/error.h"

namespace flashscan::cuda {
namespace {

struct Form {
    const char *functor, *parameters, *arguments;
};
constexpr Form operator_form{"CustomOperator", "const void* l, const void* r, void* o", "l, r, o"};
constexpr Form adjoint_form{"CustomAdjoint", "const void* l, const void* r, const void* g, void* gl, void* gr",
                            "l, r, g, gl, gr"};

bool is_identifier(const std::string& name) {
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
    for (const char c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
    return true;
}

void check_name(const char* field, const std::string& name) {
    if (!is_identifier(name))
        fail(Code::invalid_argument, "custom.{} is \"{}\"; accepted are names of functions, letters, digits and _",
             field, name);
}

std::string declaration(const Form& form, const std::string& name, bool has_state) {
    return fmt::format("extern \"C\" __device__ void {}({}{});\n", name, has_state ? "void*, " : "", form.parameters);
}

std::string functor(const Form& form, const std::string& name, const CustomOperator& custom) {
    return fmt::format(
        "struct {} {{\n"
        "    static constexpr long long bytes = {};\n"
        "    void* state;\n"
        "    __device__ void operator()({}) const {{ ::{}({}{}); }}\n"
        "}};\n",
        form.functor, custom.element_bytes, form.parameters, name, custom.device_state.empty() ? "" : "state, ",
        form.arguments);
}

}  // namespace

KernelSource operator_source(const CustomOperator& custom, const std::string& headers, const std::string& kernels) {
    const bool has_adjoint = !custom.adjoint_name.empty(), has_state = !custom.device_state.empty();
    check_name("name", custom.name);
    if (has_adjoint) check_name("adjoint_name", custom.adjoint_name);
    KernelSource source{headers, declaration(operator_form, custom.name, has_state), ""};
    if (has_adjoint) source.declarations += declaration(adjoint_form, custom.adjoint_name, has_state);
    source.kernels = "namespace flashscan::cuda {\n" + functor(operator_form, custom.name, custom);
    if (has_adjoint) source.kernels += functor(adjoint_form, custom.adjoint_name, custom);
    source.kernels += kernels + "}  // namespace flashscan::cuda\n";
    return source;
}

}  // namespace flashscan::cuda
