// SPDX-License-Identifier: Apache-2.0
// The kernels that copy what the tree of custom operators (tree_params.h) needs beside its combinations: prefixes that
// are no pair's result, last elements, operands of a batched callback, and gradients, which are added as numbers.
//
// Ownership  A thread copies one word of an element, the largest that divides it and all addresses, or adds one number.
// Bytes      Each array is read once and written once.
// Sync       None. Launches follow one another on the stream, and no block waits for another.
// Limits     None.
#pragma once

#include "cuda/operators/custom/tree_copies_params.h"
#include "cuda/operators/custom/tree_params.h"
#include "cuda/operators/custom/unaligned_numbers.cuh"

namespace flashscan::cuda {

__device__ __forceinline__ int64_t tree_thread() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }

__device__ __forceinline__ void copy_word(char* to, const char* from, int64_t word, int bytes) {
    const int64_t at = word * bytes;
    switch (bytes) {
    case 16: *reinterpret_cast<uint4*>(to + at) = *reinterpret_cast<const uint4*>(from + at); break;
    case 8: *reinterpret_cast<uint64_t*>(to + at) = *reinterpret_cast<const uint64_t*>(from + at); break;
    case 4: *reinterpret_cast<uint32_t*>(to + at) = *reinterpret_cast<const uint32_t*>(from + at); break;
    case 2: *reinterpret_cast<uint16_t*>(to + at) = *reinterpret_cast<const uint16_t*>(from + at); break;
    default: to[at] = from[at];
    }
}

// Copies A[k][0], which is the prefix of 2^k elements, to where that prefix belongs; or copies its gradient back.
__global__ void __launch_bounds__(tree_block) tree_first(const __grid_constant__ TreeParams p, TreeEdge edge) {
    const int64_t words = p.bytes / edge.word, index = tree_thread() / words, word = tree_thread() % words;
    const int k = static_cast<int>(index % edge.levels);
    const int64_t chain = index / edge.levels, n = chain / p.channels, c = chain % p.channels;
    if (chain >= p.chains() || p.length(n, k) == 0) return;
    const int64_t j = (int64_t{1} << k) - 1;
    if (edge.gradients) return copy_word(p.grad_element(n, c, k, 0), p.grad_prefix(n, c, j), word, edge.word);
    if (k > 0) return copy_word(p.later_prefix(n, c, j), p.above(n, c, k, 0), word, edge.word);
    if (p.output == nullptr || p.step_of(0) < 0 || p.steps(n) == 0) return;
    copy_word(p.output + p.step_place(n, c, 0) * p.bytes, p.first(n, c, 0), word, edge.word);
}

// Copies the last prefix to STATE_OUT and to a reduction's OUTPUT.
__global__ void __launch_bounds__(tree_block)
    tree_last(const __grid_constant__ TreeParams p, TreeEdge edge, char* state_out, char* reduction) {
    const int64_t words = p.bytes / edge.word, chain = tree_thread() / words, word = tree_thread() % words;
    const int64_t n = chain / p.channels, c = chain % p.channels;
    if (chain >= p.chains() || p.length(n) == 0) return;
    const char* last = p.is_reduction ? p.reduced(n, c) : p.prefix(n, c, p.length(n) - 1);
    if (state_out != nullptr) copy_word(state_out + chain * p.bytes, last, word, edge.word);
    if (reduction != nullptr) copy_word(reduction + chain * p.bytes, last, word, edge.word);
}

// Gathers an operand of all pairs of a level into a dense array, or scatters their results from one.
__global__ void __launch_bounds__(tree_block)
    tree_gather(const __grid_constant__ TreeParams p, TreeLevel level, TreeEdge edge, TreeOperand which, char* dense) {
    const int64_t words = p.bytes / edge.word, index = tree_thread() / words, word = tree_thread() % words;
    if (index >= level.count) return;
    const char* from = nullptr;
    if (which == TreeOperand::grad_out) {
        from = p.adjoint(level, index).grad_out;
    } else {
        const TreePair pair = p.pair(level, index);
        if (which == TreeOperand::out) return copy_word(pair.out, dense + index * p.bytes, word, edge.word);
        from = which == TreeOperand::left ? pair.left : pair.right;
    }
    copy_word(dense + index * p.bytes, from, word, edge.word);
}

// Initialises the gradients of prefixes from those of OUTPUT and STATE_OUT.
template <typename T>
__global__ void __launch_bounds__(tree_block) tree_enter(const __grid_constant__ TreeParams p) {
    const int64_t numbers = p.bytes / static_cast<int64_t>(sizeof(T));
    const int64_t index = tree_thread() / numbers, number = tree_thread() % numbers;
    if (index >= p.room(0) * p.channels) return;
    const auto [n, c, j] = p.item(index, 0, p.time + p.has_state);
    if (j >= p.length(n)) return;
    const int64_t step = p.step_of(j);
    const bool last = j == p.length(n) - 1;
    T sum = 0;
    if (!p.is_reduction && step >= 0 && step < p.steps(n))
        sum += load_number<T>(p.grad_output + p.step_place(n, c, step) * p.bytes, number);
    if (last && p.is_reduction && p.grad_output != nullptr)
        sum += load_number<T>(p.grad_output + p.state_place(n, c) * p.bytes, number);
    if (last && p.grad_state_out != nullptr)
        sum += load_number<T>(p.grad_state_out + p.state_place(n, c) * p.bytes, number);
    store_number<T>(p.grad_prefix(n, c, j), number, sum);
}

// Adds the results of a batched adjoint to the gradients of left operands and stores those of right ones.
template <typename T>
__global__ void __launch_bounds__(tree_block)
    tree_add(const __grid_constant__ TreeParams p, TreeLevel level, const char* grad_left, const char* grad_right) {
    const int64_t numbers = p.bytes / static_cast<int64_t>(sizeof(T));
    const int64_t index = tree_thread() / numbers, number = tree_thread() % numbers;
    if (index >= level.count) return;
    const TreeAdjoint pair = p.adjoint(level, index);
    add_number<T>(pair.grad_left, number, load_number<T>(grad_left + index * p.bytes, number));
    store_number<T>(pair.grad_right, number, load_number<T>(grad_right + index * p.bytes, number));
}

}  // namespace flashscan::cuda
