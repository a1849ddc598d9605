// SPDX-License-Identifier: Apache-2.0
// Chains cut into pieces of time, and the scan over them: totals of pieces at once, the carries one after the other,
// the outputs of pieces at once. The cut follows from the problem alone, so the bits do not depend on the threads. The
// last piece of a chain is never totalled but walked from its carry: a reduction so has the bits of the scan's last
// element.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/operator_problem.h"
#include "core/rounding.h"
#include "cpu/kernels/operator.h"
#include "cpu/threads.h"

namespace flashscan::cpu {

struct ChainPiece {
    OperatorPiece at;
    int64_t state;     // element of its first lane in STATE_IN and STATE_OUT
    bool first, last;  // of the chain
};

// In the order of chains and of computation. `lanes` chains of a row go together; `cut` steps make a piece, 0: all.
inline std::vector<ChainPiece> pieces_of(const OperatorProblem& p, const void* offsets, bool has_state, int64_t lanes,
                                         int64_t cut) {
    std::vector<ChainPiece> list;
    const auto steps = p.steps();
    const auto offset = [&](int64_t n) {
        return p.offsets_dtype == Dtype::i32 ? static_cast<int64_t>(static_cast<const int32_t*>(offsets)[n])
                                             : static_cast<const int64_t*>(offsets)[n];
    };
    for (int64_t row = 0; row < p.state_rows(); ++row)
        for (int64_t c = 0; c < p.channels; c += lanes) {
            const int64_t begin = p.packed() ? offset(row) : 0, end = p.packed() ? offset(row + 1) : int64_t{p.time};
            const int64_t base = (p.packed() ? 0 : row) * steps.batch + c * steps.channels;
            const int64_t length = cut > 0 ? cut : std::max<int64_t>(end - begin, 1);
            int64_t first = 0;
            do {
                const int64_t taken = std::min(length, end - begin - first);
                list.push_back({{base, begin, end, first, taken, std::min<int64_t>(lanes, p.channels - c),
                                 first == 0 && !has_state},
                                int64_t{row * p.channels + c},
                                first == 0,
                                first + taken == end - begin});
                first += taken;
            } while (first < end - begin);
        }
    return list;
}

// The most pieces there can be.
inline Extent most_pieces(const OperatorProblem& p, int64_t lanes, int64_t cut) {
    const Extent blocks = ceil_div(p.channels, lanes);
    if (cut == 0) return p.state_rows() * blocks;
    const Extent rows = p.packed() ? Extent(1) : p.batch;
    return (p.state_rows() + rows * (p.time / cut + 1)) * blocks;
}

// Calls fold(k, worker) for pieces that others of their chain follow, join(k) in order for each of them, and
// scan(k, worker) for every piece after the joins before it. A window of pieces goes at a time, while they are in the
// caches.
template <typename Fold, typename Join, typename Scan>
void scan_pieces(int threads, const std::vector<ChainPiece>& pieces, bool cut, Fold&& fold, Join&& join, Scan&& scan) {
    const auto count = static_cast<int64_t>(pieces.size()), window = cut ? int64_t{64} : count;
    for (int64_t begin = 0; begin < count; begin += window) {
        const int64_t end = std::min(begin + window, count);
        const auto last = [&](int64_t k) { return pieces[static_cast<size_t>(k)].last; };
        if (cut) {
            for_each(threads, end - begin, [&](int64_t i, int64_t worker) {
                if (!last(begin + i)) fold(begin + i, worker);
            });
            for (int64_t k = begin; k < end; ++k)
                if (!last(k)) join(k);
        }
        for_each(threads, end - begin, [&](int64_t i, int64_t worker) { scan(begin + i, worker); });
    }
}

}  // namespace flashscan::cpu
