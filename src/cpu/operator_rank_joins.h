// SPDX-License-Identifier: Apache-2.0
// A rank computes what its own steps do to the elements of all chains, and joins that with what other ranks have sent.
// Both are small problems of the same operator, run by its kernels.
//
//     numbers, matrices, custom elements   y' = y o total
//     affine maps                          y' = product y + total, where product is that of the matrices of all steps
//
// The gradient of y follows from that of y' as g = slope g' + local, where slope is a number, of matrix products
// g' total^H, of affine maps product^H g'. Of custom elements the adjoint of y o total takes the place of slope g'.
#pragma once

#include <memory>

#include "cpu/operator.h"

namespace flashscan::cpu {

class OperatorJoins {
  public:
    // `options` have no communicator.
    OperatorJoins(const OperatorProblem& problem, const Options& options, OperatorMaker make);

    // These are the sizes of the states of all chains, of the products of affine maps (0 with other operators), and of
    // the `scratch` below.
    size_t state_bytes() const { return states_; }
    size_t product_bytes() const { return products_; }
    size_t scratch_bytes() const { return at_.bytes; }
    // The size of the slopes of all chains, by which gradients are multiplied.
    size_t slope_bytes() const { return p_.is_affine() ? products_ : states_; }

    // total computes the state after the rank's steps from `state_in`, which may be null; product computes the product
    // of the matrices of affine maps; join applies both to a state.
    void total(const OperatorBuffers& b, const void* state_in, void* total, char* scratch) const;
    void product(const OperatorBuffers& b, void* product, char* scratch) const;
    void join(const char* state, const char* total, const char* product, char* next, char* scratch) const;

    // slope computes the slopes of numbers at STATE_IN of `b`; join_gradient takes a gradient back through a rank's
    // steps.
    void slope(const OperatorBuffers& b, char* slope, char* scratch) const;
    void join_gradient(const char* gradient, const char* slope, const char* local, char* next, char* scratch) const;
    // join_gradient of custom elements, by the adjoint at the state that enters and the total.
    void pull_back(const char* state, const char* total, const char* gradient, const char* local, char* next,
                   char* scratch) const;

    // Rows of states: the identity of a built-in operator, and whether all numbers of one are finite.
    void set_identity(char* states, int64_t row) const;
    bool is_finite(const char* states, int64_t row) const;
    size_t row_bytes() const { return rows_ == 0 ? 0 : states_ / static_cast<size_t>(rows_); }
    // GRAD|OUTPUT or OUTPUT of a reduction from and to states.
    void load_output(const void* output, char* states) const;
    void store_output(const char* states, void* output) const;

  private:
    struct Scratch {
        size_t output = 0, pair = 0, pair_gradients = 0, transposed = 0, ones = 0, work = 0, bytes = 0;
    };
    Scratch layout() const;
    // Runs forward of `kernel` for its STATE_OUT; its OUTPUT is scratch memory.
    void run(const OperatorKernel& kernel, OperatorBuffers own, void* state_out, char* scratch) const;
    const void* put_pair(const char* left, const char* right, char* scratch) const;
    void combine(const char* left, const char* right, char* out, char* scratch) const;
    void apply(const char* matrix, const char* added, const char* state, char* out, char* scratch) const;
    void transpose(const char* from, char* to) const;

    OperatorProblem p_;
    Dtype state_;
    int64_t rows_, numbers_;  // numbers of all states; custom elements count in bytes
    size_t states_, products_;
    std::unique_ptr<OperatorKernel> total_, product_, pair_;
    Scratch at_;
};

}  // namespace flashscan::cpu
