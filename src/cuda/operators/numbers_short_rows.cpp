// SPDX-License-Identifier: Apache-2.0
#include "cuda/operators/numbers_short_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cuda/device/scan/look_back_tuning.h"
#include "cuda/launch/launch.h"

namespace flashscan::cuda {
namespace {

constexpr int64_t vector_bytes = 16;

}  // namespace

std::optional<ShortNumbers> ShortNumbers::make(const OperatorProblem& p, bool backward, const Options& options) {
    const ShortNumberKernels* kernels = short_number_kernels(p.dtype, p.kind);
    if (kernels == nullptr || !is_for_dense_rows(p, options) || !is_time_innermost(p) || p.time % kernels->steps != 0)
        return std::nullopt;
    const int64_t vectors = p.time / kernels->steps;
    size_t n = 0;
    while (n < std::size(kernels->kernel) && vectors > 32 * ShortNumberKernels::tiles[n]) ++n;
    if (n == std::size(kernels->kernel) || kernels->kernel[n] == nullptr) return std::nullopt;
    ShortNumbers s;
    s.kernel_ = kernels->kernel[n];
    s.tiles_ = ShortNumberKernels::tiles[n];
    ShortNumberParams& params = s.params_;
    params.rows = p.batch * p.channels;
    params.vectors = static_cast<int32_t>(vectors);
    params.log2_lanes = log2_up(ceil_div(vectors, int64_t{s.tiles_}), 5);
    // The state after the row has the bits of its last step only if every lane has steps.
    if (int64_t{s.tiles_} << params.log2_lanes != vectors) return std::nullopt;
    params.exclusive = p.mode == OperatorMode::exclusive;
    params.down = (p.direction == Direction::reverse) != backward;
    params.input.row = params.output.row = vectors * vector_bytes;
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
    params.input.data = static_cast<char*>(const_cast<void*>(arrays.from));
    params.output.data = static_cast<char*>(arrays.to);
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
