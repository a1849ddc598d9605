// SPDX-License-Identifier: Apache-2.0
// Extents, products and scratch memory of a recurrent network that alternates between products and cells. All of it is
// settled when the plan is made, so that a call only fills in pointers.
#pragma once

#include <string>

#include "core/rnn_problem.h"
#include "core/workspace.h"
#include "cuda/rnn/alternating/product.h"
#include "cuda/rnn/instances/table.h"

namespace flashscan::cuda {

inline size_t bytes_of(Extent count, Dtype dtype) { return static_cast<size_t>(count * size_of(dtype)); }

// Extents of the problem as the products see it.
struct RnnShape {
    // A product for GRAD|WEIGHT covers at most `chunk_rows` rows, but at least those of one step.
    RnnShape(const RnnProblem& problem, bool batch_invariant, int64_t chunk_rows = 4096);

    Dtype dtype{}, wide{};
    bool tf32 = false;   // whether products round their factors to tf32
    bool any = false;    // whether there are steps to run
    bool split = false;  // whether the last gate has a product of its own, after that of the others
    Extent rows;         // rows of every step
    Extent heads, gates, padded;
    int64_t together = 0;  // how many gates share the first product
    Extent group;        // rows of one product: all, or a fixed number where bits must not depend on how many there are
    Extent groups;       // products of a step, each of `group` rows
    Extent chunk_steps;  // steps whose gradients are multiplied in one product for GRAD|WEIGHT

    // Elements of a row of factors and through, of a row of products and gradients, and of all weights.
    Extent factor() const { return heads * padded; }
    Extent product() const { return heads * gates * padded; }
    Extent weights() const { return heads * gates * padded * padded; }
    Extent padded_rows() const { return group * groups; }
};

// The products of one kind: that of all gates together, or, where they are split, that of the others and of the last.
struct RnnProducts {
    Product together, last;
    size_t workspace_bytes() const { return std::max(together.workspace_bytes(), last.workspace_bytes()); }
};

// The products gradients factors^T of a chunk of steps.
RnnProducts make_grad_weights(int device, const RnnShape& shape, std::string& refusal);

struct RnnForwardPass {
    RnnForwardPass(int device, const RnnProblem& problem, const RnnShape& shape, std::string& refusal);
    RnnProducts products;  // R factors
    Workspace workspace;
    size_t weights = 0, bias = 0, states = 0, factors = 0, reset_factors = 0, result = 0, sequence = 0, blas = 0;
};

struct RnnBackwardPass {
    RnnBackwardPass(int device, const RnnProblem& problem, const RnnShape& shape, std::string& refusal);
    RnnProducts through;  // R^T gradients
    Workspace workspace;
    size_t weights = 0, states = 0, result = 0, bias_sums = 0, sequence = 0, blas = 0;
};

}  // namespace flashscan::cuda
