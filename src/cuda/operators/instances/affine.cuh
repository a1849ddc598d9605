// SPDX-License-Identifier: Apache-2.0
// Fills the table's entries of affine maps for one dtype.
#pragma once

#include <vector>

#include "cuda/device/scan/look_back_tuning.h"
#include "cuda/operators/instances/table.h"
#include "cuda/operators/tiny_affine.cuh"

namespace flashscan::cuda {

template <typename X, int D, bool Backward>
ElementFacts affine_facts() {
    using Pass = TinyAffine<X, D, Backward>;
    ElementFacts facts;
    facts.bytes = Pass::Gates::bytes;
    facts.words = ElementWords<typename Pass::Map>::count;
    facts.carry_words = Pass::Maps::closed_words;
    facts.run_bytes = static_cast<int>(sizeof(Run<typename Pass::Map>));
    facts.steps = Pass::L;
    facts.warps = Pass::warps;
    facts.buffer_bytes = Pass::buffer_bytes;
    facts.keeps = true;
    facts.backward = Backward;
    constexpr int wide_access = 128;  // bytes
    facts.log2_least_rows = log2_up(wide_access / Pass::Steps::bytes, 5);
    return facts;
}

template <typename X, int D = 1>
void add_affine(std::vector<ElementKernels>& table, Dtype dtype) {
    if constexpr (D <= largest_tiny_dim && D * D * sizeof(X) <= largest_tiny_bytes) {
        ElementKernels k;
        k.dtype = dtype;
        k.dim = D;
        k.kind = static_cast<int>(OperatorKind::affine);
        k.forward = affine_facts<X, D, false>();
        k.backward = affine_facts<X, D, true>();
        k.scan = reinterpret_cast<const void*>(&tiny_affine<X, D, false>);
        k.gradients = reinterpret_cast<const void*>(&tiny_affine<X, D, true>);
        table.push_back(k);
        add_affine<X, D + 1>(table, dtype);
    }
}

}  // namespace flashscan::cuda
