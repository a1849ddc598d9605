// SPDX-License-Identifier: Apache-2.0
// All prefixes of a chain of elements in log2 of its length many levels, each product of which may run at once: what is
// multiplied where. Compiles as C++ and as CUDA C++.
//
// With y[i] = x[i] at first, level k makes y[i] = y[j] y[i], j = (i >> k << k) - 1, for all i whose bit k is set
// (Sklansky 1960). Products are never overwritten, so that none waits for the readers of another: y[i] before level k
// is what the last level before did to it. Where the last prefix alone is wanted, products that it does not need are
// left out; it has the same bits.
#pragma once

#include <cstdint>

#include "math/number.h"

namespace flashscan::cuda {

inline constexpr int most_tree_levels = 20;

struct MatrixTree {
    int32_t elements = 0, levels = 0;  // of a chain
    int32_t last_only = 0;
    int32_t first[most_tree_levels + 1] = {};  // product of each level, of a chain's

    MatrixTree() = default;
    MatrixTree(int32_t count, bool only_last) : elements(count), last_only(static_cast<int32_t>(only_last)) {
        while (int64_t{1} << levels < elements) {
            first[levels + 1] = first[levels] + products_of(levels);
            ++levels;
        }
    }
    int32_t products() const { return first[levels]; }

    // The element that product n of level k is of.
    FLASHSCAN_HD int32_t element(int k, int32_t n) const {
        if (last_only == 0) return n >> k << (k + 1) | 1 << k | (n & ((1 << k) - 1));
        return n < elements >> (k + 1) ? ((n + 1) << (k + 1)) - 1 : elements - 1;
    }
    // The level that y[i] has its value from before level k; -1: it is x[i].
    FLASHSCAN_HD int level_before(int32_t i, int k) const {
        while (--k >= 0)
            if ((i >> k & 1) != 0) break;
        return k;
    }
    // Of the chain's products the one that level k makes of element i.
    FLASHSCAN_HD int32_t product(int32_t i, int k) const {
        if (last_only == 0) return first[k] + (i >> (k + 1) << k | (i & ((1 << k) - 1)));
        return first[k] + (is_total(i, k) ? ((i + 1) >> (k + 1)) - 1 : elements >> (k + 1));
    }
    // Whether y[i] after level k is a prefix of the chain.
    FLASHSCAN_HD bool is_prefix(int32_t i, int k) const { return i >> (k + 1) == 0; }

  private:
    // Whether y[i] after level k is the product of 2^(k+1) elements of which i is the last.
    FLASHSCAN_HD bool is_total(int32_t i, int k) const { return ((i + 1) & ((2 << k) - 1)) == 0; }
    int32_t products_of(int k) const {
        const int32_t totals = elements >> (k + 1), rest = elements & ((2 << k) - 1);
        if (last_only == 0) return (totals << k) + (rest > 1 << k ? rest - (1 << k) : 0);
        return totals + static_cast<int32_t>(rest > 1 << k);
    }
};

}  // namespace flashscan::cuda
