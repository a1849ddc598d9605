// SPDX-License-Identifier: Apache-2.0
// Base of the kernels that combine a custom operator's elements level by level of a tree (tree_params.h). Subclasses
// combine the pairs of a level.
#pragma once

#include <vector>

#include "core/backend.h"
#include "cuda/launch/launch.h"
#include "cuda/operators/custom/tree_copies_params.h"
#include "cuda/operators/custom/tree_params.h"
#include "cuda/operators/custom/tree_table.h"

namespace flashscan::cuda {

class CustomTree : public OperatorKernel {
  public:
    size_t scratch_bytes(Pass pass) const override { return layout_of(pass).bytes; }
    void forward(const OperatorBuffers& b, void* stream) const override;
    void backward(const OperatorBuffers& b, void* stream) const override;

  protected:
    // `pair_elements` is how many elements of scratch a pair of a level takes in each pass.
    CustomTree(const OperatorProblem& problem, const Options& options, int64_t pair_elements_forward,
               int64_t pair_elements_backward);

    // The levels of a tree with or without initial states, which are settled with the plan.
    struct Levels {
        TreeParams params;  // without a call's pointers
        int height = 0;
        std::vector<TreeLevel> up, down, rest;
    };
    struct Tree {
        TreeParams params;
        const Levels& levels;
        char* pairs;  // scratch
        void* stream;
    };
    // *out = *left o *right for all pairs of a level.
    virtual void combine(const Tree& tree, const TreeLevel& level) const = 0;
    // Calls the adjoint for all pairs of a level: adds to the gradient of each left operand and sets that of the right
    // one.
    virtual void differentiate(const Tree& tree, const TreeLevel& level) const = 0;
    // The operator's state on the device, for TreeParams.
    virtual void* state() const { return nullptr; }

    // An array in scratch with the i-th scratch element of every pair of a level.
    char* pair_elements(const Tree& tree, int64_t i) const;
    // The most bytes, up to 16, that can be copied at once between these addresses.
    int word(std::initializer_list<const void*> addresses) const;

    OperatorProblem p_;
    int device_;
    TreeKernels kernels_;

  private:
    struct Layout {
        size_t levels = 0, spare = 0, prefixes = 0, grad_prefixes = 0, grad_levels = 0, grad_first = 0, pairs = 0;
        size_t bytes = 0;
    };
    Layout make_layout(Pass pass, int64_t pair_elements) const;
    const Layout& layout_of(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    Tree tree(const OperatorBuffers& b, Pass pass, void* stream) const;
    void combine_all(const Tree& tree, const std::vector<TreeLevel>& levels) const;
    void move_first(const Tree& tree, int word, bool gradients) const;

    Levels levels_[2];  // [has STATE_IN]
    size_t pair_bytes_;
    Layout forward_, backward_;
};

}  // namespace flashscan::cuda
