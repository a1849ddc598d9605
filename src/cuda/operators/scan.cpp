// SPDX-License-Identifier: Apache-2.0
// Launches the scan of elements.
#include "cuda/operators/scan.h"

#include "cuda/launch/sequence_offsets.h"

namespace flashscan::cuda {
namespace {

constexpr int empty_threads = 256;

// Whether all rows of all calls have steps, or there are none.
bool has_no_empty_rows(const OperatorProblem& p) { return p.chains() == 0 || (!p.packed() && p.time > 0); }

}  // namespace

EmptyStates::EmptyStates(const OperatorProblem& p, const ElementKernels& kernels, int64_t elements)
    : reduces_(p.is_reduction()) {
    if (has_no_empty_rows(p)) return;
    launch_.kernel = kernels.empty;
    launch_.params.offsets = offsets_of(p, nullptr);
    launch_.params.rows = elements;
    launch_.params.chains = p.state_rows() * elements;
    launch_.params.kind = static_cast<int32_t>(p.kind);
    launch_.params.operator_state = kernels.operator_state;
    launch_.shape = threads_in_blocks(launch_.params.chains, empty_threads);
}

void EmptyStates::run(const OperatorBuffers& b, void* stream) const {
    if (b.state_out == nullptr && !reduces_) return;
    EmptyElementParams params = launch_.params;
    params.offsets.data = b.seq_offsets;
    params.state_in = b.state_in;
    params.state_out = b.state_out;
    params.reduced = reduces_ ? b.output : nullptr;
    params.index = b.index;
    launch_.run(params, stream);
}

EmptyGradients::EmptyGradients(const OperatorProblem& p, const ElementKernels& kernels) : reduces_(p.is_reduction()) {
    if (has_no_empty_rows(p)) return;
    launch_.kernel = kernels.empty_gradients;
    launch_.params.offsets = offsets_of(p, nullptr);
    launch_.params.numbers = p.chains() * p.element();
    launch_.params.row_numbers = p.channels * p.element();
    launch_.shape = threads_in_blocks(launch_.params.numbers, empty_threads);
}

void EmptyGradients::run(const OperatorBuffers& b, void* stream) const {
    if (b.grad_state_in == nullptr) return;
    EmptyGradientParams params = launch_.params;
    params.offsets.data = b.seq_offsets;
    params.grad_reduced = reduces_ ? b.grad_output : nullptr;
    params.grad_state_out = b.grad_state_out;
    params.grad_state_in = b.grad_state_in;
    launch_.run(params, stream);
}

OperatorScan::OperatorScan(const OperatorProblem& p, const ElementKernels& kernels, const Options& options,
                           Workspace& workspace)
    : pass_(make_element_pass(p, kernels.forward, kernels.scan, options, workspace)), reduces_(p.is_reduction()) {
    if (!pass_.refusal.empty()) return;
    params_.mode = static_cast<int32_t>(p.mode);
    params_.kind = static_cast<int32_t>(p.kind);
    params_.operator_state = kernels.operator_state;
    empty_ = EmptyStates(p, kernels, p.channels / kernels.forward.channels);
}

ElementScanParams OperatorScan::params_of_call(const OperatorBuffers& b, const void* output) const {
    ElementScanParams params = params_;
    // A reduction writes its result element by element, so INDEX need not be aligned to vectors.
    params.grid = pass_.grid_of_call(b.seq_offsets, b.scratch, {b.input, output, reduces_ ? nullptr : b.index});
    params.index = b.index;
    params.input = b.input;
    params.state_in = b.state_in;
    return params;
}

void OperatorScan::forward(const OperatorBuffers& b, void* stream) const {
    void* const output = reduces_ ? nullptr : b.output;
    ElementScanParams params = params_of_call(b, output);
    params.output = output;
    params.reduced = reduces_ ? b.output : nullptr;
    params.state_out = b.state_out;
    pass_.launch(params, stream);
    empty_.run(b, stream);
}

void OperatorScan::find_marks(const OperatorBuffers& b, void* marks, void* stream) const {
    ElementScanParams params = params_of_call(b, nullptr);
    params.marks = marks;
    pass_.launch(params, stream);
}

void OperatorScan::find_prefixes(const OperatorBuffers& b, void* prefixes, void* stream) const {
    ElementScanParams params = params_of_call(b, nullptr);
    params.prefixes = prefixes;
    params.mode = element_exclusive;
    pass_.launch(params, stream);
}

int32_t prefix_of(const OperatorProblem& p) {
    return p.is_reduction() ? prefix_wide : p.mode == OperatorMode::exclusive ? prefix_exclusive : prefix_inclusive;
}

}  // namespace flashscan::cuda
