// SPDX-License-Identifier: Apache-2.0
// Host side of custom operators that are combined level by level of a tree (tree.h).
#include "cuda/operators/custom/tree.h"

#include <algorithm>

#include "core/workspace.h"
#include "cuda/operators/custom/levels.h"

namespace flashscan::cuda {
namespace {

char* bytes_at(void* base, size_t offset) { return static_cast<char*>(base) + offset; }
const char* bytes_of(const void* data) { return static_cast<const char*>(data); }

}  // namespace

CustomTree::CustomTree(const OperatorProblem& problem, const Options& options, int64_t pair_elements_forward,
                       int64_t pair_elements_backward)
    : p_(problem), device_(options.device), kernels_(tree_kernels(problem.dtype)) {
    for (const bool has_state : {false, true}) {
        // Here it counts only whether SEQ_OFFSETS are given, and any pointer tells that they are.
        const TreeParams t = tree_params(p_, &p_, has_state);
        levels_[has_state] = {t, tree_height(t), tree_sweep(t, TreeSweep::up), tree_sweep(t, TreeSweep::down),
                              tree_sweep(t, TreeSweep::rest)};
    }
    const TreeParams& most = levels_[true].params;
    pair_bytes_ =
        static_cast<size_t>(round_up(max(most.room(1) * p_.channels, most.chains()) * most.bytes, workspace_alignment));
    forward_ = make_layout(Pass::forward, pair_elements_forward);
    backward_ = make_layout(Pass::backward, pair_elements_backward);
    const DeviceScope scope(device_);
    for (const void* kernel : {kernels_.first, kernels_.last, kernels_.gather, kernels_.enter, kernels_.add})
        kernel_attributes(kernel);
}

CustomTree::Layout CustomTree::make_layout(Pass pass, int64_t pair_elements) const {
    const TreeParams& most = levels_[true].params;
    const int64_t above = tree_room_above(most);
    const auto elements = [&](Extent count) { return count * most.bytes; };
    Workspace workspace;
    Layout l;
    l.levels = workspace.book(elements(above));
    l.spare = workspace.book(elements(2 * most.chains()));
    if (pass == Pass::backward) {
        for (size_t* of_all : {&l.prefixes, &l.grad_prefixes, &l.grad_first})
            *of_all = workspace.book(elements(most.room(0) * most.channels));
        l.grad_levels = workspace.book(elements(above));
    }
    l.pairs = workspace.book(Extent(pair_elements) * pair_bytes_);
    l.bytes = workspace.bytes();
    return l;
}

char* CustomTree::pair_elements(const Tree& tree, int64_t i) const {
    return tree.pairs + static_cast<size_t>(i) * pair_bytes_;
}

CustomTree::Tree CustomTree::tree(const OperatorBuffers& b, Pass pass, void* stream) const {
    const Layout& l = layout_of(pass);
    const Levels& levels = levels_[b.state_in != nullptr];
    TreeParams t = levels.params;
    t.offsets.data = b.seq_offsets;
    t.input = bytes_of(b.input);
    t.state_in = bytes_of(b.state_in);
    t.levels = bytes_at(b.scratch, l.levels);
    t.spare = bytes_at(b.scratch, l.spare);
    t.state = state();
    if (pass == Pass::forward) {
        t.output = p_.is_reduction() ? nullptr : static_cast<char*>(b.output);
    } else {
        t.grad_output = bytes_of(b.grad_output);
        t.grad_state_out = bytes_of(b.grad_state_out);
        t.prefixes = bytes_at(b.scratch, l.prefixes);
        t.grad_prefixes = bytes_at(b.scratch, l.grad_prefixes);
        t.grad_levels = bytes_at(b.scratch, l.grad_levels);
        t.grad_first = bytes_at(b.scratch, l.grad_first);
        t.grad_input = static_cast<char*>(b.grad_input);
        t.grad_state_in = static_cast<char*>(b.grad_state_in);
    }
    return {t, levels, bytes_at(b.scratch, l.pairs), stream};
}

int CustomTree::word(std::initializer_list<const void*> addresses) const {
    auto common = static_cast<uintptr_t>(p_.custom.element_bytes) | 16;
    for (const void* address : addresses) common |= reinterpret_cast<uintptr_t>(address);
    return static_cast<int>(common & (~common + 1));
}

void CustomTree::combine_all(const Tree& tree, const std::vector<TreeLevel>& levels) const {
    for (const TreeLevel& level : levels) combine(tree, level);
}

void CustomTree::move_first(const Tree& tree, int word, bool gradients) const {
    const TreeEdge edge{word, tree.levels.height, gradients ? 1 : 0};
    launch(kernels_.first,
           threads_in_blocks(tree.params.chains() * edge.levels * (tree.params.bytes / word), tree_block), tree.stream,
           tree.params, edge);
}

void CustomTree::forward(const OperatorBuffers& b, void* stream) const {
    const Tree tree = this->tree(b, Pass::forward, stream);
    if (tree.levels.height == 0) return;
    const DeviceScope scope(device_);
    const int bytes = word({b.input, b.output, b.state_in, b.state_out});
    combine_all(tree, tree.levels.up);
    if (!p_.is_reduction()) move_first(tree, bytes, false);
    combine_all(tree, p_.is_reduction() ? tree.levels.rest : tree.levels.down);
    char* reduction = p_.is_reduction() ? static_cast<char*>(b.output) : nullptr;
    if (b.state_out == nullptr && reduction == nullptr) return;
    launch(kernels_.last, threads_in_blocks(p_.chains() * (tree.params.bytes / bytes), tree_block), stream, tree.params,
           TreeEdge{bytes, 0, 0}, static_cast<char*>(b.state_out), reduction);
}

// Differentiates the levels in the reverse of the order in which they were combined. The gradients of prefixes are
// complete when a level reads them, since prefixes are operands of lower levels only.
void CustomTree::backward(const OperatorBuffers& b, void* stream) const {
    const Tree tree = this->tree(b, Pass::backward, stream);
    if (tree.levels.height == 0) return;
    const DeviceScope scope(device_);
    const int bytes = word({b.input, b.state_in, b.grad_input, b.grad_state_in});
    combine_all(tree, tree.levels.up);
    move_first(tree, bytes, false);
    combine_all(tree, tree.levels.down);
    const int64_t numbers = tree.params.bytes / size_of(p_.dtype);
    launch(kernels_.enter, threads_in_blocks(tree.params.room(0) * p_.channels * numbers, tree_block), stream,
           tree.params);
    const auto differentiate_all = [&](const std::vector<TreeLevel>& levels) {
        for (auto level = levels.rbegin(); level != levels.rend(); ++level) differentiate(tree, *level);
    };
    differentiate_all(tree.levels.down);
    move_first(tree, bytes, true);
    differentiate_all(tree.levels.up);
}

}  // namespace flashscan::cuda
