// SPDX-License-Identifier: Apache-2.0
#include "cuda/operators/numbers_short_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "cuda/device/scan/look_back_tuning.h"
#include "cuda/launch/launch.h"

namespace flashscan::cuda {
namespace {

constexpr int64_t vector_bytes = 16;

}  // namespace

std::optional<ShortNumbers> ShortNumbers::make(const OperatorProblem& p, bool backward, const Options& options) {
    const ShortNumberKernels* kernels = short_number_kernels(p.dtype, p.kind);
    // More than two of shorter rows could share a vector.
    if (kernels == nullptr || !is_for_dense_rows(p, options) || !is_time_innermost(p) || p.time < kernels->steps)
        return std::nullopt;
    // A row begins at most so many steps behind the begin of a vector.
    const int64_t skew = kernels->steps - std::gcd(int64_t{p.time}, int64_t{kernels->steps});
    const int64_t vectors = ceil_div(p.time + skew, int64_t{kernels->steps});
    // Costly operators (has_index() tells minima and maxima) have more tiles: a row then has fewer lanes, and fewer
    // results are combined across them.
    const bool is_long = p.kind == OperatorKind::logaddexp || (size_of(p.dtype) < 4 && p.has_index());
    ShortNumbers s;
    if (skew > 0) {
        s.kernel_ = kernels->shared;
        s.tiles_ = ShortNumberKernels::shared_tiles;
    } else {
        size_t n = is_long && p.time >= 128 ? 1 : 0;
        while (n < std::size(kernels->kernel) - 1 && vectors > 32 * ShortNumberKernels::tiles[n]) ++n;
        s.kernel_ = kernels->kernel[n];
        s.tiles_ = ShortNumberKernels::tiles[n];
    }
    // number_rows is faster where eight tiles would hold so few vectors.
    const bool too_few = s.tiles_ == 8 && vectors < (is_long ? 256 : 224);
    if (s.kernel_ == nullptr || vectors > 32 * s.tiles_ || too_few) return std::nullopt;
    ShortNumberParams& params = s.params_;
    params.rows = p.batch * p.channels;
    params.time = static_cast<int32_t>(p.time);
    params.log2_lanes = log2_up(ceil_div(vectors, int64_t{s.tiles_}), 5);
    params.exclusive = p.mode == OperatorMode::exclusive;
    params.down = (p.direction == Direction::reverse) != backward;
    s.blocks_ = ceil_div(ceil_div(params.rows, int64_t{32} >> params.log2_lanes), int64_t{short_number_warps});
    if (s.blocks_ > std::numeric_limits<int32_t>::max()) return std::nullopt;
    return s;
}

bool ShortNumbers::takes(std::initializer_list<const void*> arrays) const {
    return std::all_of(arrays.begin(), arrays.end(),
                       [](const void* array) { return reinterpret_cast<uintptr_t>(array) % vector_bytes == 0; });
}

void ShortNumbers::run(const NumberArrays& arrays, void* stream) const {
    ShortNumberParams params = params_;
    params.input = static_cast<const char*>(arrays.from);
    params.output = static_cast<char*>(arrays.to);
    params.reduced = arrays.reduced;
    params.state_in = arrays.state_in;
    params.state_out = arrays.state_out;
    launch(kernel_, blocks_of(blocks_, 32 * short_number_warps), stream, params);
}

std::string ShortNumbers::describe() const {
    return fmt::format("{} rows, {} of a warp, x {} tiles of {} vectors", params_.rows, 32 >> params_.log2_lanes,
                       tiles_, 1 << params_.log2_lanes);
}

}  // namespace flashscan::cuda
