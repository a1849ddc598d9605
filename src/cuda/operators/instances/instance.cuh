// SPDX-License-Identifier: Apache-2.0
// Fills the table's entries for one dtype.
#pragma once

#include <vector>

#include "cuda/operators/instances/table.h"
#include "cuda/operators/numbers_backward.cuh"
#include "cuda/operators/numbers_general_index.cuh"
#include "cuda/operators/tiny_matrices.cuh"

namespace flashscan::cuda {

// `Element` is what is scanned: Op's elements, or in backward the maps of gradients.
template <typename Op, typename Element>
ElementFacts facts_of(bool backward) {
    ElementFacts facts;
    facts.bytes = Op::bytes;
    facts.words = ElementWords<Element>::count;
    facts.run_bytes = static_cast<int>(sizeof(Run<Element>));
    facts.steps = ElementScan<Op>::L;
    facts.warps = ElementScan<Op>::warps;
    facts.buffer_bytes = element_buffer_bytes(facts.bytes, facts.steps, facts.warps);
    facts.keeps = ElementScan<Op>::kept;
    facts.backward = backward;
    return facts;
}

template <typename X, int V, typename Operator>
ElementKernels number_kernels(Dtype dtype, int kind) {
    using Op = Numbers<X, V, Operator>;
    ElementKernels k;
    k.dtype = dtype;
    k.kind = kind;
    k.forward = facts_of<Op, typename Op::Element>(false);
    k.forward.channels = V;
    k.scan = reinterpret_cast<const void*>(&element_scan<Op>);
    k.empty = reinterpret_cast<const void*>(&element_empty<Op>);
    if constexpr (Op::has_gradients) {
        k.backward = facts_of<Op, typename NumberSlopes<X, V>::Element>(true);
        k.backward.keeps = false;
        k.backward.channels = V;
        k.gradients = reinterpret_cast<const void*>(&numbers_backward<X, V, Operator>);
        k.empty_gradients = reinterpret_cast<const void*>(&empty_gradients<X>);
    }
    return k;
}

template <typename X, typename Operator>
ElementKernels indexed_kernels(Dtype dtype, int kind) {
    using Op = Indexed<X, Operator>;
    using Scan = IndexedScan<X, Operator>;
    ElementKernels k;
    k.dtype = dtype;
    k.kind = kind;
    k.indexed = true;
    k.forward = facts_of<Op, typename Op::Element>(false);
    k.forward.buffer_bytes = Scan::number_buffer + Scan::step_buffer;
    k.scan = reinterpret_cast<const void*>(&indexed_scan<X, Operator>);
    k.empty = reinterpret_cast<const void*>(&element_empty<Op>);
    return k;
}

template <typename X, int D>
ElementKernels tiny_kernels(Dtype dtype) {
    using Op = Tiny<X, D>;
    ElementKernels k;
    k.dtype = dtype;
    k.dim = D;
    k.kind = static_cast<int>(OperatorKind::matmul);
    k.forward = facts_of<Op, typename Op::Element>(false);
    k.backward = facts_of<Op, typename TinyMaps<X, D>::Element>(true);
    k.backward.keeps = false;
    k.backward.buffer_bytes = 0;
    k.scan = reinterpret_cast<const void*>(&element_scan<Op>);
    k.empty = reinterpret_cast<const void*>(&element_empty<Op>);
    k.gradients = reinterpret_cast<const void*>(&tiny_backward<X, D>);
    k.empty_gradients = reinterpret_cast<const void*>(&empty_gradients<X>);
    return k;
}

template <typename X, int D>
void add_tiny(std::vector<ElementKernels>& table, Dtype dtype) {
    if constexpr (D <= largest_tiny_dim && Tiny<X, D>::bytes <= largest_tiny_bytes) {
        table.push_back(tiny_kernels<X, D>(dtype));
        add_tiny<X, D + 1>(table, dtype);
    }
}

template <typename X>
void add_number_kernels(std::vector<ElementKernels>& table, Dtype dtype) {
    combine::for_each_operator<typename Element<X>::Wide>([&](auto op) {
        constexpr int kind = combine::RowOf<decltype(op)>::number;
        table.push_back(number_kernels<X, 1, decltype(op)>(dtype, kind));
        // For small numbers there is a second kernel, whose elements are as many channels as fill a word.
        constexpr int in_word = 4 / static_cast<int>(sizeof(X));
        if constexpr (in_word > 1) table.push_back(number_kernels<X, in_word, decltype(op)>(dtype, kind));
        if constexpr (requires { op.chooses; }) table.push_back(indexed_kernels<X, decltype(op)>(dtype, kind));
    });
}

template <typename X>
void add_element_kernels(std::vector<ElementKernels>& table, Dtype dtype) {
    add_number_kernels<X>(table, dtype);
    add_tiny<X, 1>(table, dtype);
}

}  // namespace flashscan::cuda
