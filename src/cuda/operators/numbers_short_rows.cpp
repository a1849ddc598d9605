// SPDX-License-Identifier: Apache-2.0
// Schedules of short rows of numbers (numbers_short_rows.cuh): of OUTPUT from INPUT, and of sums also of GRAD|INPUT
// from GRAD|OUTPUT, which is the same scan in the other direction.
#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "cuda/device/scan/look_back_tuning.h"
#include "cuda/launch/launch.h"
#include "cuda/operators/instances/table.h"
#include "cuda/operators/numbers_chained_params.h"
#include "cuda/operators/numbers_schedule.h"
#include "math/operators.h"

namespace flashscan::cuda {
namespace {

constexpr uintptr_t vector_bytes = 16;

// Whether a step takes many instructions: those of long operators do, and those of minima and maxima of numbers that
// share 32-bit words.
bool has_long_steps(const OperatorProblem& p) {
    bool is_long = false;
    combine::with_operator<float>(static_cast<int>(p.kind), [&](auto op) {
        is_long = requires { op.is_long; };
        if constexpr (requires { op.chooses; }) is_long = size_of(p.dtype) < 4;
    });
    return is_long;
}

class ShortNumbers final : public NumberSchedule {
  public:
    // Returns the condition that fails, if one does.
    std::string settle(const OperatorProblem& p, NumberUse use) {
        use_ = use;
        reduces_ = p.is_reduction();
        const bool backward = use == NumberUse::backward;
        if (backward && p.has_slopes())
            return fmt::format("gradients of {} depend on INPUT; takes those of sums", name_of(p.kind));
        const ShortNumberKernels* kernels = short_number_kernels(p.dtype, p.kind);
        if (kernels == nullptr) return no_kernel_refusal(p);
        if (!is_time_innermost(p)) return "channels are innermost; takes time innermost";
        // The kernel joins a vector from two rows, and of shorter rows more could share one.
        if (p.time < kernels->steps) return fmt::format("time is {}; takes {} or more", p.time, kernels->steps);
        if (std::string why = choose_kernel(p, *kernels); !why.empty()) return why;
        params_.rows = p.batch * p.channels;
        params_.time = static_cast<int32_t>(p.time);
        params_.exclusive = p.mode == OperatorMode::exclusive;
        params_.down = (p.direction == Direction::reverse) != backward;
        const int64_t warps = ceil_div(params_.rows, int64_t{32} >> params_.log2_lanes),
                      blocks = ceil_div(warps, int64_t{short_number_warps});
        if (blocks > std::numeric_limits<int32_t>::max())
            return fmt::format("{} blocks are more than a grid's 2^31 - 1", blocks);
        shape_ = blocks_of(blocks, 32 * short_number_warps);
        return {};
    }

    std::string describe() const override {
        return fmt::format("number_short_rows, {} rows, {} of a warp, x {} tiles of {} vectors", params_.rows,
                           32 >> params_.log2_lanes, tiles_, 1 << params_.log2_lanes);
    }
    std::vector<std::string> obstacles() const override {
        std::vector<std::string> all{fmt::format("pointers are not multiples of {} bytes", vector_bytes)};
        if (use_ == NumberUse::backward) all.emplace_back("there is no GRAD|OUTPUT");
        return all;
    }
    bool takes(const OperatorBuffers& b) const override {
        const NumberArrays a = arrays_of_scan(b, use_, reduces_);
        const auto is_aligned = [](const void* x) { return reinterpret_cast<uintptr_t>(x) % vector_bytes == 0; };
        return a.from != nullptr && is_aligned(a.from) && is_aligned(a.to);
    }
    void run(const OperatorBuffers& b, void* stream) const override {
        const NumberArrays a = arrays_of_scan(b, use_, reduces_);
        ShortNumberParams params = params_;
        params.input = static_cast<const char*>(a.from);
        params.output = static_cast<char*>(a.to);
        params.reduced = a.reduced;
        params.state_in = a.state_in;
        params.state_out = a.state_out;
        launch(kernel_, shape_, stream, params);
    }

  private:
    // Chooses the number of tiles. Where a step is long, rows have more of them: a row then has fewer lanes, and fewer
    // results are combined across these.
    std::string choose_kernel(const OperatorProblem& p, const ShortNumberKernels& kernels) {
        using K = ShortNumberKernels;
        const bool is_long = has_long_steps(p);
        // A row begins at most so many steps behind the begin of a vector.
        const int64_t skew = kernels.steps - std::gcd(int64_t{p.time}, int64_t{kernels.steps});
        const int64_t vectors = ceil_div(p.time + skew, int64_t{kernels.steps});
        size_t n = is_long && p.time >= 128 ? 1 : 0;
        while (n < std::size(K::tiles) - 1 && vectors > 32 * K::tiles[n]) ++n;
        kernel_ = skew > 0 ? kernels.shared : kernels.kernel[n];
        tiles_ = skew > 0 ? K::shared_tiles : K::tiles[n];
        // number_rows is faster where eight tiles would hold so few vectors.
        const int least = is_long ? 256 : 224;
        if (kernel_ == nullptr || vectors > 32 * tiles_ || (tiles_ == 8 && vectors < least)) {
            const std::string more = is_long ? ", or 256" : ", or 224 to 256";
            return fmt::format("a row has {} vectors of {} bytes; takes up to {}{}", vectors, vector_bytes,
                               32 * K::tiles[1], skew == 0 && kernels.kernel[2] != nullptr ? more : "");
        }
        params_.log2_lanes = log2_up(ceil_div(vectors, int64_t{tiles_}), 5);
        return {};
    }

    NumberUse use_{};
    bool reduces_ = false;
    const void* kernel_ = nullptr;
    LaunchShape shape_;
    ShortNumberParams params_;  // without a call's pointers
    int tiles_ = 0;
};

}  // namespace

NumberSchedulePointer make_short_numbers(const OperatorProblem& p, NumberUse use, const Options&,
                                         std::string& refusal) {
    auto made = std::make_unique<ShortNumbers>();
    refusal = made->settle(p, use);
    if (refusal.empty()) return made;
    refusal = "number_short_rows: " + refusal;
    return nullptr;
}

}  // namespace flashscan::cuda
