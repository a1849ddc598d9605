// SPDX-License-Identifier: Apache-2.0
// Launches the scan of elements.
#include "cuda/operators/scan.h"

#include "cuda/launch/sequence_offsets.h"
#include "cuda/operators/backward_params.h"

namespace flashscan::cuda {
namespace {

constexpr int empty_threads = 256;

}  // namespace

OperatorScan::OperatorScan(const OperatorProblem& problem, const ElementKernels& kernels, const Options& options,
                           Workspace& workspace)
    : p_(problem),
      kernels_(kernels),
      device_(options.device),
      pass_(make_element_pass(problem, kernels.forward, options.batch_invariant, workspace)),
      overlaps_(can_overlap(kernels.scan, device_)) {}

std::string OperatorScan::refusal() const { return refusal_of(pass_, kernels_.scan, device_); }

ElementScanParams OperatorScan::common(const OperatorBuffers& b, const void* output) const {
    ElementScanParams params;
    // A reduction writes its result element by element, so INDEX need not be aligned to vectors.
    const void* const index = p_.is_reduction() ? nullptr : b.index;
    params.grid = grid_of_call(pass_, kernels_.forward, b.seq_offsets, b.scratch, {b.input, output, index});
    params.index = b.index;
    params.input = b.input;
    params.state_in = b.state_in;
    params.mode = static_cast<int32_t>(p_.mode);
    params.kind = static_cast<int32_t>(p_.kind);
    params.operator_state = kernels_.operator_state;
    return params;
}

void OperatorScan::forward(const OperatorBuffers& b, void* stream) const {
    void* const output = p_.is_reduction() ? nullptr : b.output;
    ElementScanParams params = common(b, output);
    params.output = output;
    params.reduced = p_.is_reduction() ? b.output : nullptr;
    params.state_out = b.state_out;
    launch_elements(kernels_.scan, pass_, params, overlaps_, stream);
    pass_empty_states(p_, kernels_, p_.channels / kernels_.forward.channels, b, stream);
}

void OperatorScan::find_marks(const OperatorBuffers& b, void* marks, void* stream) const {
    ElementScanParams params = common(b, nullptr);
    params.marks = marks;
    launch_elements(kernels_.scan, pass_, params, overlaps_, stream);
}

void OperatorScan::find_prefixes(const OperatorBuffers& b, void* prefixes, void* stream) const {
    ElementScanParams params = common(b, nullptr);
    params.prefixes = prefixes;
    params.mode = element_exclusive;
    launch_elements(kernels_.scan, pass_, params, overlaps_, stream);
}

int32_t prefix_of(const OperatorProblem& p) {
    return p.is_reduction() ? prefix_wide : p.mode == OperatorMode::exclusive ? prefix_exclusive : prefix_inclusive;
}

void pass_empty_states(const OperatorProblem& p, const ElementKernels& kernels, int64_t elements,
                       const OperatorBuffers& b, void* stream) {
    EmptyElementParams params;
    params.offsets = offsets_of(p, b.seq_offsets);
    params.rows = elements;
    params.chains = p.state_rows() * elements;
    params.state_in = b.state_in;
    params.state_out = b.state_out;
    params.reduced = p.is_reduction() ? b.output : nullptr;
    params.index = b.index;
    params.kind = static_cast<int32_t>(p.kind);
    params.operator_state = kernels.operator_state;
    const bool written = params.state_out != nullptr || params.reduced != nullptr;
    if (!written || params.chains == 0 || (!p.packed() && p.time > 0)) return;
    launch(kernels.empty, threads_in_blocks(params.chains, empty_threads), stream, params);
}

void pass_empty_gradients(const OperatorProblem& p, const ElementKernels& kernels, const OperatorBuffers& b,
                          void* stream) {
    if (b.grad_state_in == nullptr || p.chains() == 0 || (!p.packed() && p.time > 0)) return;
    EmptyGradientParams params;
    params.offsets = offsets_of(p, b.seq_offsets);
    params.numbers = p.chains() * p.element();
    params.row_numbers = p.channels * p.element();
    params.grad_reduced = p.is_reduction() ? b.grad_output : nullptr;
    params.grad_state_out = b.grad_state_out;
    params.grad_state_in = b.grad_state_in;
    launch(kernels.empty_gradients, threads_in_blocks(params.numbers, empty_threads), stream, params);
}

}  // namespace flashscan::cuda
