// SPDX-License-Identifier: Apache-2.0
#include "numeric/networks/grid.h"

#include <fmt/format.h>

#include <utility>

#include "support/pairwise.h"

namespace numeric {
namespace {

using namespace support;

// Where a pass has more than `most` multiplications, T and then B take their next smaller value.
std::vector<RnnProblem> grid(bool large) {
    constexpr int64_t most = 5'000'000;
    const std::vector<std::string> cells = cell_words();
    constexpr const char* types[] = {"f32", "bf16", "f16", "f64", "bf16 weight-f32", "f16 weight-f32"};
    constexpr int64_t dims[] = {1, 7, 16, 33, 64, 100, 128, 200, 256, 512, 768, 1024};
    constexpr int64_t batches[] = {1, 3, 8, 16, 17, 64}, times[] = {0, 1, 2, 65, 500};
    std::vector<RnnProblem> problems;
    for (std::vector<int> row : pairwise_rows({flashscan::cell_count, 6, 12, 6, 5}, 11)) {
        const size_t i = problems.size();
        RnnProblem p = rnn_problem_of(fmt::format("rnn bwd {} {} d{} state-in state-out",
                                                  cells[static_cast<size_t>(row[0])], types[row[1]], dims[row[2]]));
        p.heads = p.dim >= 200 ? 1 : 1 + static_cast<int64_t>(i % 3);
        p.layout = i % 2 == 0 ? FLASHSCAN_LAYOUT_BTGHD : FLASHSCAN_LAYOUT_TBGHD;
        const auto multiplications = [&] { return batches[row[3]] * times[row[4]] * p.gates() * p.width() * p.dim; };
        while (multiplications() > most && row[4] > 2) --row[4];
        while (multiplications() > most && row[3] > 0) --row[3];
        p.batch = batches[row[3]];
        p.time = times[row[4]];
        p.seed = 1 + i;
        problems.push_back(p);
    }
    std::erase_if(problems, [=](const RnnProblem& p) { return (p.gates() * p.width() * p.dim > 300'000) != large; });
    return problems;
}

}  // namespace

std::vector<RnnProblem> small_grid() { return grid(false); }
std::vector<RnnProblem> large_grid() { return grid(true); }

std::vector<Target> kernels_apart() {
    std::vector<Target> targets = rnn_kernel_targets();
    std::erase_if(targets, [](const Target& t) { return t.backend == FLASHSCAN_BACKEND_CPU && t.kernel.empty(); });
    return targets;
}

}  // namespace numeric
