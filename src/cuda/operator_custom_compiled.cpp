// SPDX-License-Identifier: Apache-2.0
// Custom operators by device code, compiled with our kernels when the plan is made: a launch for each level of a tree.
#include "core/error.h"
#include "cuda/device_copy.h"
#include "cuda/jit/module.h"
#include "cuda/jit/operator_source.h"
#include "cuda/operator_custom.h"
#include "cuda/operator_custom_tree.h"

namespace flashscan::cuda {
namespace {

constexpr const char* combine_kernel = R"(
extern "C" __global__ void __launch_bounds__(tree_block)
    flashscan_tree_combine(const __grid_constant__ TreeParams p, const __grid_constant__ TreeLevel level) {
    tree_combine<CustomOperator>(p, level);
}
)";
constexpr const char* differentiate_kernel = R"(
extern "C" __global__ void __launch_bounds__(tree_block)
    flashscan_tree_differentiate(const __grid_constant__ TreeParams p, const __grid_constant__ TreeLevel level,
                                 char* grad_left) {{
    tree_differentiate<{}, CustomAdjoint>(p, level, grad_left);
}}
)";

KernelSource source_of(const OperatorProblem& p) {
    std::string kernels = combine_kernel;
    if (p.differentiable()) kernels += fmt::format(differentiate_kernel, p.dtype == Dtype::f64 ? "double" : "float");
    return operator_source(p.custom, "#include \"cuda/kernels/custom_tree_pairs.cuh\"\n", kernels);
}

class Compiled final : public CustomTree {
  public:
    Compiled(const OperatorProblem& problem, const Options& options)
        : CustomTree(problem, options, 0, 1), state_(problem.custom.device_state, options.device) {
        const DeviceScope scope(device_);
        const Module& module = find_module(source_of(problem), problem.custom, device_);
        combine_ = module.kernel("flashscan_tree_combine");
        if (problem.differentiable()) differentiate_ = module.kernel("flashscan_tree_differentiate");
    }

    std::string describe() const override {
        return fmt::format("device code, a launch for each level of a tree of {} steps", p_.time);
    }

  private:
    void* state() const override { return state_.get(); }
    void combine(const Tree& tree, const TreeLevel& level) const override {
        launch(combine_, threads_in_blocks(level.count, tree_block), tree.stream, tree.params, level);
    }
    void differentiate(const Tree& tree, const TreeLevel& level) const override {
        launch(differentiate_, threads_in_blocks(level.count, tree_block), tree.stream, tree.params, level,
               pair_elements(tree, 0));
    }

    DeviceCopy state_;
    const void* combine_ = nullptr;
    const void* differentiate_ = nullptr;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_custom_tree(const OperatorProblem& p, const Options& options,
                                                 std::string& refusal) {
    if (!p.is_custom())
        refusal = "the operator is built in";
    else if (p.custom.code_kind == CodeKind::none)
        refusal = "the custom operator has no device code";
    else if (p.differentiable() && p.custom.adjoint_name.empty())
        refusal = "the custom operator has no device adjoint beside its other one";
    else
        return std::make_unique<Compiled>(p, options);
    return nullptr;
}

}  // namespace flashscan::cuda
