// SPDX-License-Identifier: Apache-2.0
// Which products make the prefixes of a chain.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/matrix/prefix_tree.h"

namespace {

using flashscan::cuda::MatrixTree;

// Elements of a chain from first to last, and how they are bracketed.
struct Stretch {
    int first = 0, last = 0;
    std::string brackets;
};

// Makes all products in the order of blocks; operands have to be made before their level. What elements end as: all, or
// the last alone.
std::vector<Stretch> run_tree(const MatrixTree& tree) {
    std::vector<Stretch> products(static_cast<size_t>(tree.products()));
    const auto before = [&](int32_t i, int k) {
        const int level = tree.level_before(i, k);
        if (level < 0) return Stretch{i, i, "x"};
        const int32_t product = tree.product(i, level);
        EXPECT_LT(product, tree.first[k]);
        return products[static_cast<size_t>(product)];
    };
    for (int k = 0; k < tree.levels; ++k)
        for (int32_t n = 0; n < tree.first[k + 1] - tree.first[k]; ++n) {
            const int32_t i = tree.element(k, n);
            EXPECT_LT(i, tree.elements);
            EXPECT_EQ(tree.product(i, k), tree.first[k] + n);
            const Stretch left = before((i >> k << k) - 1, k), right = before(i, k);
            EXPECT_EQ(left.last + 1, right.first);
            EXPECT_EQ(right.last, i);
            const Stretch both{left.first, right.last, "(" + left.brackets + right.brackets + ")"};
            EXPECT_EQ(tree.is_prefix(i, k), both.first == 0);
            products[static_cast<size_t>(tree.product(i, k))] = both;
        }
    std::vector<Stretch> ends;
    for (int32_t i = tree.last_only != 0 ? tree.elements - 1 : 0; i < tree.elements; ++i)
        ends.push_back(before(i, tree.levels));
    return ends;
}

TEST(MatrixTree, MakesAllPrefixesAndTheLastWithTheSameBrackets) {
    for (int32_t count = 1; count < 140; ++count) {
        const MatrixTree all(count, false), last(count, true);
        const std::vector<Stretch> prefixes = run_tree(all);
        for (const Stretch& prefix : prefixes) EXPECT_EQ(prefix.first, 0) << count;
        EXPECT_EQ(run_tree(last).back().brackets, prefixes.back().brackets);
        EXPECT_EQ(last.products(), count - 1);
        EXPECT_LE(all.products(), all.levels * (count / 2 + 1));
    }
}

}  // namespace
