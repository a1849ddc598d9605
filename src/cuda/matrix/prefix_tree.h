// SPDX-License-Identifier: Apache-2.0
// A Sklansky parallel prefix network: all prefixes of a chain of n elements in log2(n) levels, whose products may all
// run at the same time. Here is which elements are multiplied, and how products are numbered. It compiles as C++ and as
// CUDA C++.
//
// y[i] is x[i] at first. Level k computes y[i] = y[j] y[i] with j = (i >> k << k) - 1 for all i whose bit k is set
// (Sklansky 1960). Each product has a place of its own and is never overwritten, so that none waits for the readers of
// another. Where only the last prefix is wanted, products that it does not need are omitted; its bits are the same.
#pragma once

#include <cstdint>

#include "math/number.h"

namespace flashscan::cuda {

inline constexpr int most_tree_levels = 20;

struct MatrixTree {
    int32_t elements = 0, levels = 0;          // elements of a chain, and levels of its network
    int32_t last_only = 0;                     // whether only the last prefix is wanted
    int32_t first[most_tree_levels + 1] = {};  // the number of the first product of each level, in a chain

    MatrixTree() = default;
    MatrixTree(int32_t count, bool only_last) : elements(count), last_only(static_cast<int32_t>(only_last)) {
        while (int64_t{1} << levels < elements) {
            first[levels + 1] = first[levels] + products_of(levels);
            ++levels;
        }
    }
    int32_t products() const { return first[levels]; }

    // The element i whose y[i] is product n of level k.
    FLASHSCAN_HD int32_t element(int k, int32_t n) const {
        if (last_only == 0) return n >> k << (k + 1) | 1 << k | (n & ((1 << k) - 1));
        return n < elements >> (k + 1) ? ((n + 1) << (k + 1)) - 1 : elements - 1;
    }
    // The last level before k that changed y[i]; -1 where y[i] is still x[i].
    FLASHSCAN_HD int level_before(int32_t i, int k) const {
        while (--k >= 0)
            if ((i >> k & 1) != 0) break;
        return k;
    }
    // The number, among the chain's products, of the one that level k computes for element i.
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
