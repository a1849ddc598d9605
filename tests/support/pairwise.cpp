// SPDX-License-Identifier: Apache-2.0
#include "support/pairwise.h"

#include <set>
#include <tuple>

#include "support/data.h"

namespace support {
namespace {

using Pair = std::tuple<size_t, int, size_t, int>;

class Cover {
  public:
    Cover(const std::vector<int>& levels, uint64_t seed) : levels_(levels), seed_(seed) {
        for (size_t f = 0; f < levels.size(); ++f)
            for (size_t g = f + 1; g < levels.size(); ++g)
                for (int i = 0; i < levels[f]; ++i)
                    for (int j = 0; j < levels[g]; ++j) open_.insert({f, i, g, j});
    }

    std::vector<std::vector<int>> rows() {
        std::vector<std::vector<int>> rows;
        while (!open_.empty()) {
            rows.push_back(best_row());
            for (size_t f = 0; f < levels_.size(); ++f)
                for (size_t g = f + 1; g < levels_.size(); ++g) open_.erase({f, rows.back()[f], g, rows.back()[g]});
        }
        return rows;
    }

  private:
    // Starts from a pair that is still open and gives each other factor, in a random order, its most useful level.
    std::vector<int> best_row() {
        std::vector<int> row(levels_.size(), -1);
        const auto& [f, i, g, j] = *open_.begin();
        row[f] = i;
        row[g] = j;
        const size_t start = static_cast<size_t>(uniform(seed_, 1, draws_++) * static_cast<double>(levels_.size()));
        for (size_t k = 0; k < levels_.size(); ++k) {
            const size_t factor = (start + k) % levels_.size();
            if (row[factor] < 0) row[factor] = best_level(row, factor);
        }
        return row;
    }

    int best_level(const std::vector<int>& row, size_t factor) {
        const int offset = static_cast<int>(uniform(seed_, 2, draws_++) * levels_[factor]);
        int best = offset, most = -1;
        for (int k = 0; k < levels_[factor]; ++k) {
            const int level = (k + offset) % levels_[factor];
            const int gained = newly_met(row, factor, level);
            if (gained > most) {
                most = gained;
                best = level;
            }
        }
        return best;
    }

    int newly_met(const std::vector<int>& row, size_t factor, int level) const {
        int count = 0;
        for (size_t other = 0; other < row.size(); ++other) {
            if (row[other] < 0) continue;
            const Pair pair =
                other < factor ? Pair{other, row[other], factor, level} : Pair{factor, level, other, row[other]};
            count += static_cast<int>(open_.count(pair));
        }
        return count;
    }

    const std::vector<int>& levels_;
    uint64_t seed_;
    uint64_t draws_ = 0;
    std::set<Pair> open_;
};

}  // namespace

std::vector<std::vector<int>> pairwise_rows(const std::vector<int>& levels, uint64_t seed) {
    return Cover(levels, seed).rows();
}

}  // namespace support
