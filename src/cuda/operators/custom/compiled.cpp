// SPDX-License-Identifier: Apache-2.0
// Custom operators by device code, which is compiled together with the library's kernels when the plan is made.
// Elements that fit a thread's registers are scanned in one pass; larger ones, and all gradients, take one launch for
// each level of a tree.
#include <map>
#include <vector>

#include "core/error.h"
#include "cuda/jit/module.h"
#include "cuda/jit/operator_source.h"
#include "cuda/launch/device_copy.h"
#include "cuda/operators/candidates.h"
#include "cuda/operators/custom/tree.h"
#include "cuda/operators/scan.h"

namespace flashscan::cuda {
namespace {

// The largest element that is scanned in registers.
constexpr int64_t most_register_bytes = 128;

// A unit of compilation: a kernel with the headers that it needs.
struct Unit {
    const char *name, *headers;
    std::string text;
};
constexpr const char* tree_headers = "#include \"cuda/operators/custom/tree_pairs.cuh\"\n";
constexpr const char* combine_kernel = R"(
extern "C" __global__ void __launch_bounds__(tree_block)
    flashscan_combine(const __grid_constant__ TreeParams p, const __grid_constant__ TreeLevel level) {
    tree_combine<CustomOperator>(p, level);
}
)";
constexpr const char* differentiate_kernel = R"(
extern "C" __global__ void __launch_bounds__(tree_block)
    flashscan_differentiate(const __grid_constant__ TreeParams p, const __grid_constant__ TreeLevel level,
                            char* grad_left) {{
    tree_differentiate<{}, CustomAdjoint>(p, level, grad_left);
}}
)";
constexpr const char* scan_headers = "#include \"cuda/operators/custom/element.cuh\"\n";
constexpr const char* scan_kernel = R"(
using ScanOperator = CustomScanOperator<CustomOperator>;
extern "C" __global__ void __launch_bounds__(32 * ElementScan<ScanOperator>::warps)
    flashscan_scan(const __grid_constant__ ElementScanParams p) {
    scan_elements<ScanOperator>(p);
}
)";
constexpr const char* empty_kernel = R"(
extern "C" __global__ void __launch_bounds__(256) flashscan_empty(const __grid_constant__ EmptyElementParams p) {
    pass_empty_elements<CustomScanOperator<CustomOperator>>(p);
}
)";

std::vector<Unit> units_of(const OperatorProblem& p, bool in_registers) {
    std::vector<Unit> units;
    if (in_registers) {
        units.push_back({"flashscan_scan", scan_headers, scan_kernel});
        units.push_back({"flashscan_empty", scan_headers, empty_kernel});
    }
    if (!in_registers || p.differentiable()) units.push_back({"flashscan_combine", tree_headers, combine_kernel});
    if (p.differentiable())
        units.push_back({"flashscan_differentiate", tree_headers,
                         fmt::format(differentiate_kernel, p.dtype == Dtype::f64 ? "double" : "float")});
    return units;
}

using Kernels = std::map<std::string, const void*>;

Kernels compile_kernels(const OperatorProblem& p, bool in_registers, int device) {
    const std::vector<Unit> units = units_of(p, in_registers);
    std::vector<KernelSource> sources;
    for (const Unit& unit : units) sources.push_back(operator_source(p.custom, unit.headers, unit.text));
    const std::vector<const Module*> modules = find_modules(sources, p.custom, device);
    Kernels kernels;
    for (size_t i = 0; i < units.size(); ++i) kernels[units[i].name] = modules[i]->kernel(units[i].name);
    return kernels;
}

class CompiledTree final : public CustomTree {
  public:
    CompiledTree(const OperatorProblem& problem, const Options& options, const Kernels& kernels, const void* state)
        : CustomTree(problem, options, 0, 1), state_(const_cast<void*>(state)) {
        combine_ = kernels.at("flashscan_combine");
        if (problem.differentiable()) differentiate_ = kernels.at("flashscan_differentiate");
    }

    std::string describe() const override {
        return fmt::format("a launch for each level of a tree of {} steps", p_.time);
    }

  private:
    void* state() const override { return state_; }
    void combine(const Tree& tree, const TreeLevel& level) const override {
        launch(combine_, threads_in_blocks(level.count, tree_block), tree.stream, tree.params, level);
    }
    void differentiate(const Tree& tree, const TreeLevel& level) const override {
        launch(differentiate_, threads_in_blocks(level.count, tree_block), tree.stream, tree.params, level,
               pair_elements(tree, 0));
    }

    void* state_;
    const void* combine_ = nullptr;
    const void* differentiate_ = nullptr;
};

// The same numbers as in element.cuh, for element types that exist only in the code that is compiled at run time.
ElementKernels scan_of(const OperatorProblem& p, const Kernels& kernels, const void* state) {
    const int bytes = static_cast<int>(p.custom.element_bytes);
    ElementKernels k;
    k.forward.bytes = bytes;
    k.forward.words = ceil_div(bytes, 4);
    const int padded = 4 * k.forward.words, alignment = padded % 16 == 0 ? 16 : padded % 8 == 0 ? 8 : 4;
    k.forward.run_bytes = round_up(padded + 4, bytes % 4 == 0 ? alignment : 4);
    k.forward.steps = element_steps(padded);
    k.forward.warps = element_warps(padded);
    k.forward.keeps = element_is_kept(bytes);
    k.forward.buffer_bytes = element_buffer_bytes(bytes, k.forward.steps, k.forward.warps);
    k.scan = kernels.at("flashscan_scan");
    k.empty = kernels.at("flashscan_empty");
    k.operator_state = state;
    return k;
}

class Compiled final : public OperatorKernel {
  public:
    Compiled(const OperatorProblem& problem, const Options& options, bool in_registers)
        : device_(options.device), state_(problem.custom.device_state, options.device) {
        const Kernels kernels = compile_kernels(problem, in_registers, device_);
        if (in_registers) {
            kernels_ = scan_of(problem, kernels, state_.get());
            scan_ = std::make_unique<OperatorScan>(problem, kernels_, options, forward_);
        }
        if (!in_registers || problem.differentiable())
            tree_ = std::make_unique<CompiledTree>(problem, options, kernels, state_.get());
    }

    std::string refusal() const { return scan_ ? scan_->refusal() : ""; }
    std::string describe() const override {
        std::string text = "device code, ";
        if (scan_) text += "in registers, " + scan_->describe();
        if (tree_) text += (scan_ ? "; backward " : "") + tree_->describe();
        return text;
    }
    size_t scratch_bytes(Pass pass) const override {
        if (scan_ && pass == Pass::forward) return forward_.bytes();
        return tree_ ? tree_->scratch_bytes(pass) : 0;
    }
    void forward(const OperatorBuffers& b, void* stream) const override {
        if (!scan_) return tree_->forward(b, stream);
        const DeviceScope scope(device_);
        scan_->forward(b, stream);
    }
    void backward(const OperatorBuffers& b, void* stream) const override { tree_->backward(b, stream); }

  private:
    int device_;
    DeviceCopy state_;
    Workspace forward_;
    ElementKernels kernels_;
    std::unique_ptr<OperatorScan> scan_;
    std::unique_ptr<CompiledTree> tree_;
};

std::unique_ptr<OperatorKernel> make(const OperatorProblem& p, const Options& options, bool in_registers,
                                     std::string& refusal) {
    if (!p.is_custom()) {
        refusal = "the operator is built in";
    } else if (p.custom.code_kind == CodeKind::none) {
        refusal = "the custom operator has no device code";
    } else if (p.differentiable() && p.custom.adjoint_name.empty()) {
        refusal = "the custom operator has no device adjoint beside its other one";
    } else if (in_registers && p.custom.element_bytes > most_register_bytes) {
        refusal = fmt::format("a thread's registers hold elements of up to {} bytes", most_register_bytes);
    } else {
        const DeviceScope scope(options.device);
        auto kernel = std::make_unique<Compiled>(p, options, in_registers);
        refusal = kernel->refusal();
        if (refusal.empty()) return kernel;
    }
    return nullptr;
}

}  // namespace

std::unique_ptr<OperatorKernel> make_custom_scan(const OperatorProblem& p, const Options& options,
                                                 std::string& refusal) {
    return make(p, options, true, refusal);
}

std::unique_ptr<OperatorKernel> make_custom_tree(const OperatorProblem& p, const Options& options,
                                                 std::string& refusal) {
    return make(p, options, false, refusal);
}

}  // namespace flashscan::cuda
