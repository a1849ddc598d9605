// SPDX-License-Identifier: Apache-2.0
// How a plan for a recurrent network alternates between products and cells: settled when the plan is made, so that a
// call only fills in pointers.
#pragma once

#include <string>

#include "core/rnn_problem.h"
#include "core/workspace.h"
#include "cuda/rnn/instances/table.h"
#include "cuda/rnn/product.h"

namespace flashscan::cuda {

inline size_t bytes_of(Extent count, Dtype dtype) { return static_cast<size_t>(count * size_of(dtype)); }

// Extents of the problem as the products see it.
struct RnnShape {
    // The rows of a product for GRAD|WEIGHT are at most `chunk_rows`, at least one step's.
    RnnShape(const RnnProblem& problem, bool batch_invariant, int64_t chunk_rows = 4096);

    Dtype dtype{}, wide{};
    bool any = false;    // there are steps to run
    bool split = false;  // the last gate's product is one of its own, after the others'
    Extent rows;         // walked at once
    Extent heads, gates, padded;
    int64_t together = 0;  // gates of the first product
    Extent group;          // rows of one product: all, or a fixed number so that bits do not depend on how many
    Extent groups;         // products of a step
    Extent chunk_steps;    // steps whose gradients make one product for GRAD|WEIGHT

    // Elements, by row: of factors and through, and of products and gradients. Of all weights.
    Extent factor() const { return heads * padded; }
    Extent product() const { return heads * gates * padded; }
    Extent weights() const { return heads * gates * padded * padded; }
    Extent padded_rows() const { return group * groups; }
};

// The products of one kind: of the gates together, and where they are split that of the last.
struct RnnProducts {
    Product together, last;
    size_t workspace_bytes() const { return std::max(together.workspace_bytes(), last.workspace_bytes()); }
};

// gradients factors^T of a chunk's steps.
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
