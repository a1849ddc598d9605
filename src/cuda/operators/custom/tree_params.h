// SPDX-License-Identifier: Apache-2.0
// The tree of custom operators, a work-efficient parallel scan by levels: which elements are combined at which level,
// and where each of them lies. It compiles as C++, for callbacks, as CUDA C++ and with NVRTC.
//
// Let z be the elements of one chain: STATE_IN, if there is one, followed by x. With A[0] = z, the up-sweep computes
// A[k+1][i] = A[k][2i] o A[k][2i+1]. For even i, the down-sweep computes the prefix P of elements 0 .. (i+1) 2^k - 1
// from that of 0 .. i 2^k - 1 and A[k][i]. This takes about 2n combinations in 2 log2(n) levels (Blelloch 1990). Every
// prefix is written directly to its place in OUTPUT. A reduction does the up-sweep and then combines the rest, the
// elements left over at the ends of levels, in the scan's order.
//
// A[k] of sequence n begins at the sequence's own start shifted right by k, so that the levels of packed sequences need
// no table: shifted lengths never add up to more than the shifted sum.
#pragma once

#include <cstdint>

#include "cuda/device/tile/sequences.h"
#include "math/number.h"

namespace flashscan::cuda {

inline constexpr int tree_levels = 44, tree_block = 256;

enum class TreeSweep : int32_t {
    up,
    down,
    rest
};

// One level of a sweep: `per_row` pairs in each row of a channel unless packed, and `count` items in all, of which some
// are no pairs where sequences are packed.
struct TreeLevel {
    TreeSweep sweep;
    int32_t k;
    int64_t per_row, count;
};

struct TreePair {
    const char *left, *right;
    char* out;
    bool valid;
};
// Arguments of the adjoint of a pair; its results are added to grad_left and stored to grad_right.
struct TreeAdjoint {
    const char *left, *right, *grad_out;
    char *grad_left, *grad_right;
    bool valid;
};

FLASHSCAN_HD int32_t count_bits(int64_t x) {
#if defined(__CUDA_ARCH__)
    return __popcll(x);
#else
    return __builtin_popcountll(static_cast<unsigned long long>(x));
#endif
}

struct TreeParams {
    const char* input = nullptr;
    const char* state_in = nullptr;
    char* output = nullptr;    // OUTPUT of a scan, forward; otherwise null
    char* levels = nullptr;    // A[1], A[2], ...
    char* spare = nullptr;     // [2][chain]: prefixes without a place in OUTPUT
    char* prefixes = nullptr;  // backward: P, laid out as A[0] in scratch; otherwise null
    const char* grad_output = nullptr;
    const char* grad_state_out = nullptr;
    char* grad_prefixes = nullptr;  // gradients of P, laid out as A[0]
    char* grad_levels = nullptr;    // gradients of A[1], A[2], ...
    char* grad_first = nullptr;     // gradients of A[0] that the caller does not ask for
    char* grad_input = nullptr;
    char* grad_state_in = nullptr;
    void* state = nullptr;                                    // state of the operator
    int64_t bytes = 0;                                        // bytes of an element
    int64_t rows = 0, time = 0, channels = 0;                 // rows are batch entries or packed sequences
    int64_t batch_step = 0, time_step = 0, channel_step = 0;  // strides of INPUT and OUTPUT in elements
    SequenceOffsets offsets;
    int64_t level_at[tree_levels] = {};  // the element of `levels` where A[k] begins
    int32_t has_state = 0, reverse = 0, exclusive = 0, is_reduction = 0;

    FLASHSCAN_HD bool packed() const { return offsets.data != nullptr; }
    FLASHSCAN_HD bool channels_inside() const { return channel_step == 1; }
    FLASHSCAN_HD int64_t chains() const { return rows * channels; }
    FLASHSCAN_HD int64_t offset(int64_t n) const { return offsets.at(n); }
    FLASHSCAN_HD int64_t steps(int64_t n) const {
        if (!packed()) return time;
        const int64_t from = offset(n), to = offset(n + 1);
        return from < to ? to - from : 0;
    }
    // The length of A[k] of a chain.
    FLASHSCAN_HD int64_t length(int64_t n, int k = 0) const { return (steps(n) + has_state) >> k; }
    // A[k] of sequence n begins at this element of a channel, which has room for so many elements.
    FLASHSCAN_HD int64_t start(int64_t n, int k) const {
        return packed() ? (offset(n) + n * has_state) >> k : n * ((time + has_state) >> k);
    }
    FLASHSCAN_HD int64_t room(int k) const {
        return packed() ? (time + rows * has_state) >> k : rows * ((time + has_state) >> k);
    }
    FLASHSCAN_HD int top(int64_t n) const {
        int k = 0;
        while (length(n, k + 1) > 0) ++k;
        return k;
    }

    // Where element i of A[k] of a chain lies in scratch.
    FLASHSCAN_HD int64_t place(int64_t n, int64_t c, int k, int64_t i) const {
        const int64_t slot = start(n, k) + i;
        return channels_inside() ? slot * channels + c : c * room(k) + slot;
    }
    // Where step t, in the order of computation, lies in INPUT and OUTPUT.
    FLASHSCAN_HD int64_t step_place(int64_t n, int64_t c, int64_t t) const {
        const int64_t begin = packed() ? offset(n) : 0, row = packed() ? 0 : n;
        return row * batch_step + (begin + (reverse ? steps(n) - 1 - t : t)) * time_step + c * channel_step;
    }
    FLASHSCAN_HD int64_t state_place(int64_t n, int64_t c) const { return n * channels + c; }
    // The step whose OUTPUT is prefix j: -1 for none, steps(n) for the last one of an exclusive scan, which goes to
    // STATE_OUT alone.
    FLASHSCAN_HD int64_t step_of(int64_t j) const { return exclusive ? j : j - has_state; }

    FLASHSCAN_HD const char* first(int64_t n, int64_t c, int64_t i) const {
        if (has_state && i == 0) return state_in + state_place(n, c) * bytes;
        return input + step_place(n, c, i - has_state) * bytes;
    }
    FLASHSCAN_HD char* above(int64_t n, int64_t c, int k, int64_t i) const {
        return levels + (level_at[k] + place(n, c, k, i)) * bytes;
    }
    FLASHSCAN_HD const char* element(int64_t n, int64_t c, int k, int64_t i) const {
        return k == 0 ? first(n, c, i) : above(n, c, k, i);
    }
    FLASHSCAN_HD char* own(int64_t n, int64_t c, int which) const {
        return spare + (which * chains() + state_place(n, c)) * bytes;
    }
    // Finds the prefix of elements 0 .. j, for j > 0.
    FLASHSCAN_HD char* later_prefix(int64_t n, int64_t c, int64_t j) const {
        if (prefixes != nullptr) return prefixes + place(n, c, 0, j) * bytes;
        if (step_of(j) == steps(n)) return own(n, c, 0);
        return output + step_place(n, c, step_of(j)) * bytes;
    }
    FLASHSCAN_HD const char* prefix(int64_t n, int64_t c, int64_t j) const {
        return j == 0 ? first(n, c, 0) : later_prefix(n, c, j);
    }
    FLASHSCAN_HD char* grad_prefix(int64_t n, int64_t c, int64_t j) const {
        return grad_prefixes + place(n, c, 0, j) * bytes;
    }
    FLASHSCAN_HD char* grad_element(int64_t n, int64_t c, int k, int64_t i) const {
        if (k > 0) return grad_levels + (level_at[k] + place(n, c, k, i)) * bytes;
        if (has_state && i == 0 && grad_state_in != nullptr) return grad_state_in + state_place(n, c) * bytes;
        if (i >= has_state && grad_input != nullptr) return grad_input + step_place(n, c, i - has_state) * bytes;
        return grad_first + place(n, c, 0, i) * bytes;
    }
    // Finds the result of a reduction, after the rest has been combined.
    FLASHSCAN_HD const char* reduced(int64_t n, int64_t c) const {
        return count_bits(length(n)) == 1 ? element(n, c, top(n), 0) : own(n, c, 0);
    }

    struct Item {
        int64_t row, channel, i;
    };
    // Item `index` of those that A[k] has room for if packed, otherwise of `per_row` items in each row.
    FLASHSCAN_HD Item item(int64_t index, int k, int64_t per_row) const {
        const int64_t all = packed() ? room(k) : rows * per_row;
        const int64_t slot = channels_inside() ? index / channels : index % all;
        const int64_t channel = channels_inside() ? index % channels : index / all;
        if (!packed()) return {slot / per_row, channel, slot % per_row};
        int64_t low = 0, high = rows;  // finds the last sequence that starts at or before the slot
        while (high - low > 1) {
            const int64_t middle = (low + high) / 2;
            (start(middle, k) <= slot ? low : high) = middle;
        }
        const int64_t i = slot - start(low, k);  // negative only where offsets are wrong; the item then does not exist
        return {low, channel, i < 0 ? time + 1 : i};
    }

    FLASHSCAN_HD TreePair pair(const TreeLevel& level, int64_t index) const {
        const int k = level.k;
        if (level.sweep == TreeSweep::rest) return rest(index / channels, index % channels, k);
        const auto [n, c, i] = item(index, k + 1, level.per_row);
        const int64_t size = length(n, k);
        if (level.sweep == TreeSweep::up) {
            if (i >= size / 2) return {};
            return {element(n, c, k, 2 * i), element(n, c, k, 2 * i + 1), above(n, c, k + 1, i), true};
        }
        if (size == 0 || i >= (size - 1) / 2) return {};
        const int64_t even = 2 * (i + 1);
        return {prefix(n, c, (even << k) - 1), element(n, c, k, even), later_prefix(n, c, ((even + 1) << k) - 1), true};
    }
    // A pair of the rest. The result so far alternates between the two spare elements and ends in the first.
    FLASHSCAN_HD TreePair rest(int64_t n, int64_t c, int k) const {
        const int64_t size = length(n, k);
        if (size < 3 || size % 2 == 0) return {};
        const int32_t left = count_bits(length(n) & ((int64_t{2} << k) - 1));  // levels left, this one included
        const bool begins = count_bits(size / 2) == 1;
        const char* sum = begins ? element(n, c, top(n), 0) : own(n, c, left % 2);
        return {sum, element(n, c, k, size - 1), own(n, c, (left + 1) % 2), true};
    }
    FLASHSCAN_HD TreeAdjoint adjoint(const TreeLevel& level, int64_t index) const {
        const TreePair operands = pair(level, index);
        if (!operands.valid) return {};
        const int k = level.k;
        const auto [n, c, i] = item(index, k + 1, level.per_row);
        if (level.sweep == TreeSweep::up)
            return {operands.left,
                    operands.right,
                    grad_element(n, c, k + 1, i),
                    grad_element(n, c, k, 2 * i),
                    grad_element(n, c, k, 2 * i + 1),
                    true};
        const int64_t even = 2 * (i + 1);
        return {operands.left,
                operands.right,
                grad_prefix(n, c, ((even + 1) << k) - 1),
                grad_prefix(n, c, (even << k) - 1),
                grad_element(n, c, k, even),
                true};
    }
};

}  // namespace flashscan::cuda
