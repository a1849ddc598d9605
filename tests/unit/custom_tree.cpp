// SPDX-License-Identifier: Apache-2.0
// The tree of custom operators on the host: which pairs are combined, in which order, and where elements lie.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "cuda/operators/custom/levels.h"

namespace flashscan::cuda {
namespace {

// An element is the range of z that it stands for, in one chain: ranges can only be joined where they meet.
struct Range {
    int32_t chain, begin, end, unused;
};

struct Case {
    OperatorProblem problem;
    bool has_state;
    std::vector<int64_t> offsets;
};

class Tree {
  public:
    explicit Tree(const Case& c) : c_(c), t(tree_params(c.problem, c.offsets.data(), c.has_state)) {
        const auto elements = [](int64_t count) { return std::vector<Range>(static_cast<size_t>(count) + 1); };
        input_ = elements(c.problem.input_count()), output_ = elements(c.problem.input_count());
        states_ = elements(t.chains()), spare_ = elements(2 * t.chains()), above_ = elements(tree_room_above(t));
        t.input = bytes(input_), t.state_in = c.has_state ? bytes(states_) : nullptr, t.output = bytes(output_);
        t.spare = bytes(spare_), t.levels = bytes(above_);
        for (int64_t n = 0; n < t.rows; ++n)
            for (int64_t channel = 0; channel < t.channels; ++channel)
                for (int64_t i = 0; i < t.length(n); ++i) at(t.first(n, channel, i)) = range(n, channel, i, i + 1);
    }

    void combine(TreeSweep sweep) {
        for (const TreeLevel& level : tree_sweep(t, sweep)) {
            std::set<const char*> written;
            for (int64_t index = 0; index < level.count; ++index) {
                const TreePair pair = t.pair(level, index);
                if (!pair.valid) continue;
                ASSERT_TRUE(written.insert(pair.out).second);
                const Range l = at(pair.left), r = at(pair.right);
                ASSERT_EQ(l.chain, r.chain);
                ASSERT_EQ(l.end, r.begin);
                at(pair.out) = {l.chain, l.begin, r.end, 0};
                ++combined;
            }
        }
    }
    void move_first() {
        for (int64_t n = 0; n < t.rows; ++n)
            for (int64_t c = 0; c < t.channels; ++c)
                for (int k = 1; t.length(n, k) > 0; ++k)
                    at(t.later_prefix(n, c, (int64_t{1} << k) - 1)) = at(t.above(n, c, k, 0));
    }
    Range range(int64_t n, int64_t c, int64_t begin, int64_t end) const {
        return {static_cast<int32_t>(t.state_place(n, c)), static_cast<int32_t>(begin), static_cast<int32_t>(end), 1};
    }
    bool holds(const char* address) const {
        for (const std::vector<Range>* array : {&input_, &output_, &states_, &spare_, &above_}) {
            const auto* begin = reinterpret_cast<const char*>(array->data());
            if (address >= begin && address + sizeof(Range) <= begin + (array->size() - 1) * sizeof(Range)) return true;
        }
        return false;
    }
    static Range& at(const char* address) { return *reinterpret_cast<Range*>(const_cast<char*>(address)); }

    int64_t combined = 0;

  private:
    static char* bytes(std::vector<Range>& elements) { return reinterpret_cast<char*>(elements.data()); }
    const Case& c_;

  public:
    TreeParams t;

  private:
    std::vector<Range> input_, output_, states_, spare_, above_;
};

std::vector<Case> cases() {
    std::vector<Case> list;
    int i = 0;
    for (const int64_t time : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 64, 100, 129})
        for (const OperatorMode mode : {OperatorMode::inclusive, OperatorMode::exclusive, OperatorMode::reduction})
            for (const bool packed : {false, true}) {
                Case c{};
                OperatorProblem& p = c.problem;
                p.kind = OperatorKind::custom;
                p.mode = mode;
                p.layout = i % 2 == 0 ? Layout::btc : Layout::bct;
                p.direction = i % 3 == 0 ? Direction::reverse : Direction::forward;
                p.batch = packed ? 1 : 1 + i % 3;
                p.time = time;
                p.channels = 1 + i % 4;
                p.num_sequences = packed ? 6 : 0;
                p.custom.element_bytes = sizeof(Range);
                c.has_state = mode == OperatorMode::exclusive || i % 5 < 2;
                // Empty sequences, single steps, and steps after the last sequence.
                if (packed)
                    c.offsets = {
                        0, 0, time / 3, std::min(time / 3 + 1, time), time / 2 + 1, time / 2 + 1, time - time / 9};
                for (size_t n = 1; n < c.offsets.size(); ++n)
                    c.offsets[n] = std::min(std::max(c.offsets[n], c.offsets[n - 1]), time);
                list.push_back(c);
                ++i;
            }
    return list;
}

bool same(const Range& a, const Range& b) { return a.chain == b.chain && a.begin == b.begin && a.end == b.end; }

TEST(CustomTree, PrefixesCoverWhatTheyStandFor) {
    for (const Case& c : cases()) {
        Tree tree(c);
        tree.combine(TreeSweep::up);
        if (c.problem.is_reduction()) {
            tree.combine(TreeSweep::rest);
        } else {
            tree.move_first();
            tree.combine(TreeSweep::down);
        }
        const TreeParams& t = tree.t;
        int64_t elements = 0;
        for (int64_t n = 0; n < t.rows; ++n)
            for (int64_t channel = 0; channel < t.channels; ++channel) {
                elements += t.length(n);
                const auto whole = tree.range(n, channel, 0, t.length(n));
                const std::string where = c.problem.describe() + " row " + std::to_string(n);
                if (t.is_reduction) {
                    EXPECT_TRUE(t.length(n) == 0 || same(Tree::at(t.reduced(n, channel)), whole)) << where;
                    continue;
                }
                for (int64_t j = 0; j < t.length(n); ++j)
                    EXPECT_TRUE(same(Tree::at(t.prefix(n, channel, j)), tree.range(n, channel, 0, j + 1)))
                        << where << " prefix " << j;
            }
        EXPECT_LE(tree.combined, 2 * elements) << c.problem.describe();
    }
}

TEST(CustomTree, AdjointsMeetEveryGradientInItsOrder) {
    for (Case c : cases()) {
        if (c.problem.is_reduction()) continue;
        Tree tree(c);
        TreeParams& t = tree.t;
        // Each gradient's place counts how often it is set, which must be once and before it is read.
        const auto elements = static_cast<size_t>(std::max(t.room(0) * t.channels, tree_room_above(t)) + 1);
        std::vector<Range> prefixes(elements), levels(elements), first(elements);
        t.grad_prefixes = reinterpret_cast<char*>(prefixes.data());
        t.grad_levels = reinterpret_cast<char*>(levels.data());
        t.grad_first = reinterpret_cast<char*>(first.data());
        const auto sweep = [&](TreeSweep which) {
            std::vector<TreeLevel> list = tree_sweep(t, which);
            for (auto level = list.rbegin(); level != list.rend(); ++level)
                for (int64_t index = 0; index < level->count; ++index) {
                    const TreeAdjoint pair = t.adjoint(*level, index);
                    if (!pair.valid) continue;
                    EXPECT_EQ(Tree::at(pair.grad_out).unused, 1);
                    EXPECT_EQ(Tree::at(pair.grad_left).unused, 1);
                    EXPECT_EQ(Tree::at(pair.grad_right).unused, 0);
                    Tree::at(pair.grad_right).unused = 1;
                }
        };
        const auto each_chain = [&](auto body) {
            for (int64_t n = 0; n < t.rows; ++n)
                for (int64_t channel = 0; channel < t.channels; ++channel) body(n, channel);
        };
        each_chain([&](int64_t n, int64_t channel) {
            for (int64_t j = 0; j < t.length(n); ++j) Tree::at(t.grad_prefix(n, channel, j)).unused = 1;
        });
        sweep(TreeSweep::down);
        each_chain([&](int64_t n, int64_t channel) {
            for (int k = 0; t.length(n, k) > 0; ++k) {
                EXPECT_EQ(Tree::at(t.grad_element(n, channel, k, 0)).unused, 0);
                Tree::at(t.grad_element(n, channel, k, 0)).unused = 1;
            }
        });
        sweep(TreeSweep::up);
        each_chain([&](int64_t n, int64_t channel) {
            for (int64_t i = 0; i < t.length(n); ++i) EXPECT_EQ(Tree::at(t.grad_element(n, channel, 0, i)).unused, 1);
        });
    }
}

// Offsets that are changed on the device after the call was checked.
TEST(CustomTree, WrongOffsetsLeadNowhereElse) {
    constexpr int64_t huge = std::numeric_limits<int64_t>::max(), low = std::numeric_limits<int64_t>::min();
    int64_t met = 0;
    for (Case c : cases()) {
        if (!c.problem.packed()) continue;
        Tree tree(c);
        const TreeParams& t = tree.t;
        const int64_t time = c.problem.time;
        for (const std::vector<int64_t>& wrong :
             std::vector<std::vector<int64_t>>{{time, time, time / 2, time / 3, 1, 0, 0},
                                               {0, 1, 2, 3, 4, 5, time + 1},
                                               {-1, 0, time, 0, time, 0, time},
                                               {low, huge, low, huge, low, huge, low},
                                               {huge, low, huge, 0, time / 2, low, huge},
                                               {time / 2, time, time / 3, time, 0, time / 2, time / 2},
                                               {1000000, 1, 1000000, 2, 1000000, 3, 1000000}}) {
            std::copy(wrong.begin(), wrong.end(), c.offsets.begin());
            for (const TreeSweep sweep : {TreeSweep::up, TreeSweep::down, TreeSweep::rest})
                for (const TreeLevel& level : tree_sweep(t, sweep))
                    for (int64_t index = 0; index < level.count; ++index) {
                        const TreePair pair = t.pair(level, index);
                        if (!pair.valid) continue;
                        ++met;
                        ASSERT_TRUE(tree.holds(pair.left) && tree.holds(pair.right) && tree.holds(pair.out))
                            << c.problem.describe() << " level " << level.k << " pair " << index;
                    }
            for (int64_t n = 0; n < t.rows; ++n)
                for (int k = 1; t.length(n, k) > 0; ++k) {
                    ASSERT_TRUE(tree.holds(t.above(n, 0, k, 0)));
                    ASSERT_TRUE(tree.holds(t.later_prefix(n, 0, (int64_t{1} << k) - 1)));
                }
        }
    }
    EXPECT_GT(met, 1000);
}

}  // namespace
}  // namespace flashscan::cuda
