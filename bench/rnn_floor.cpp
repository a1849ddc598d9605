// SPDX-License-Identifier: Apache-2.0
//
// n SMs share a head's R (n = 1, a cluster of 2 to 16, or the grid); as many groups of n as the card holds split the
// batch, b rows each. A step is the sum of
//
//     point      the cell's two dependent transcendental stages, and a barrier of the block
//     feed       R's slice from registers and shared memory into the tensor cores, again for every 8 rows beyond 16;
//                backward reads it once as well: R^T times the gradients of the gates
//     exchange   what an SM gets from the others: h in the data's type, backward the partial sums of dh in f32, or the
//                gradients of the gates where these are fewer bytes
//     sums       backward: the product that gives GRAD|WEIGHT after the loop, over the steps
//
// The floor is the least over n. The traffic with memory is not in it: it overlaps.
#include "rnn_floor.h"

#include <algorithm>
#include <cmath>

namespace bench {
namespace {

constexpr double point_us = 0.14;
constexpr double alone_us = 0.06;              // barrier of one block and its round through shared memory
constexpr double cluster_us = 0.26;            // st.async and mbarrier, measured with 8 and 16 SMs and few bytes
constexpr double cluster_bytes_per_us = 40e3;  // received by an SM, same measurement
constexpr double grid_us = 0.80;               // barrier on a counter in memory
constexpr double grid_bytes_per_us = 66e3;     // 38 bytes a cycle from L2
constexpr double feed_bytes_per_us = 800e3;    // 330 bytes a cycle from registers, 128 from shared memory, together
constexpr double chip_bytes = 377e3;           // of R in an SM's registers and shared memory
constexpr double sums_flops_per_us = 600e6;    // of a large bf16 product
constexpr int64_t sms = 132;

double floor_of(const Problem& p, int64_t n, int64_t groups) {
    const auto gates = static_cast<double>(p.rnn()->gates()), dim = static_cast<double>(p.rnn()->dim);
    const auto size = static_cast<double>(size_of(p.dtype));
    const double slice = gates * dim * dim * size / static_cast<double>(n);
    if (slice > chip_bytes) return INFINITY;
    const int64_t rows = (p.extents.batch + groups - 1) / groups;
    const auto b = static_cast<double>(rows);
    const double feed = slice * static_cast<double>(std::max<int64_t>(1, (rows - 8 + 7) / 8)) / feed_bytes_per_us;
    const double share = static_cast<double>(n - 1) / static_cast<double>(n);
    const double bytes = share * dim * b * (p.backward ? std::min(4.0, gates * size) : size);
    const double exchange = n == 1    ? alone_us
                            : n <= 16 ? cluster_us + bytes / cluster_bytes_per_us
                                      : grid_us + bytes / grid_bytes_per_us;
    const double flops = 2 * gates * dim * dim * static_cast<double>(p.extents.batch * p.rnn()->heads);
    return point_us + feed + exchange + (p.backward ? flops / sums_flops_per_us : 0);
}

}  // namespace

double rnn_step_floor_us(const Problem& p) {
    if (size_of(p.dtype) > 4 || p.extents.batch == 0 || p.rnn()->dim == 1) return 0;
    double least = INFINITY;
    for (const int64_t n : {1, 2, 4, 8, 16}) {
        // Clusters of 16 fit 7 times, as they stay within a part of the card.
        const int64_t clusters = n == 16 ? 7 : sms / n;
        least = std::min(least, floor_of(p, n, std::max<int64_t>(1, clusters / p.rnn()->heads)));
    }
    if (const int64_t n = sms / p.rnn()->heads; n > 16) least = std::min(least, floor_of(p, n, 1));
    return std::isfinite(least) ? least : 0;
}

}  // namespace bench
