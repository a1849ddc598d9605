// SPDX-License-Identifier: Apache-2.0
#include "cuda/operators/chained.h"

#include <fmt/format.h>

#include <limits>

#include "cuda/launch/launch.h"

namespace flashscan::cuda {
namespace {

constexpr int64_t sector_bytes = 32;
// A few long rows are cut into pieces, at least `enough_pieces` in all: with a block each, these fill a GPU several
// times over. Where a piece would have fewer than `least_piece_steps` steps or all rows fewer than `least_bytes` bytes,
// one pass whose blocks wait for each other is faster than two passes over INPUT.
constexpr int64_t enough_pieces = 1024, least_piece_steps = 8192, least_bytes = 32 << 20;

char* bytes_at(void* base, int64_t bytes) { return base == nullptr ? nullptr : static_cast<char*>(base) + bytes; }
const char* bytes_at(const void* base, int64_t bytes) { return static_cast<const char*>(base) + bytes; }

}  // namespace

std::optional<NumberLaunch> NumberLaunch::make(const ElementKernels& kernels, const NumberRows& of, bool must_suit,
                                               Workspace& workspace) {
    NumberLaunch l;
    l.time_inner_ = of.time_inner;
    l.down_ = of.down;
    l.kernels_ = &kernels.chained[of.time_inner];
    if (l.kernel() == nullptr || of.batches * of.rows > std::numeric_limits<int32_t>::max()) return std::nullopt;
    const int lane_rows = l.kernels_->lane_rows;
    if (!of.time_inner && of.rows % lane_rows != 0) return std::nullopt;
    l.element_bytes_ = size_of(kernels.dtype);

    NumberChainParams& params = l.params_;
    params.batches = of.batches;
    params.rows = of.rows;
    params.time = of.time;
    params.exclusive = of.exclusive;
    View& view = params.input;
    view.time = of.time_stride * l.element_bytes_;
    view.row = of.row_stride * l.element_bytes_;
    view.batch = of.batch_stride * l.element_bytes_;
    params.output = view;

    const ChainedShape shape{of.batches, of.rows, of.time, of.shares_sectors, 0, l.kernels_->skew};
    const ChainedTile tile{lane_rows, l.kernels_->steps, chained_warps};
    l.tuning_ = of.time_inner ? tune_chained_rows(shape, tile) : tune_chained_columns(shape, tile);
    const bool suits =
        of.time_inner ? chained_rows_suit(shape, l.tuning_) : chained_columns_suit(shape, tile, l.tuning_, true);
    if ((must_suit && !suits) || l.tuning_.blocks > std::numeric_limits<int32_t>::max()) return std::nullopt;
    params.row_groups = l.tuning_.row_groups;
    params.by_row_groups = divisor_of(static_cast<uint32_t>(params.row_groups));
    params.chunks = l.tuning_.chunks;
    params.log2_warp_rows = l.tuning_.log2_warp_rows;
    if (params.chunks > 1) {
        const Extent lanes = Extent(of.batches) * ceil_div(of.rows, int64_t{lane_rows});
        l.carries_bytes_ = static_cast<size_t>(lanes * params.chunks * l.kernels_->carry_bytes);
        l.carries_ = workspace.book(lanes * params.chunks * l.kernels_->carry_bytes);
    }
    return l;
}

bool NumberLaunch::takes(const void* from, const void* to) const {
    const auto in = reinterpret_cast<uintptr_t>(from), out = to == nullptr ? in : reinterpret_cast<uintptr_t>(to);
    const auto access = static_cast<uintptr_t>(element_bytes_ * kernels_->lane_rows);
    if (in % access != 0 || out % access != 0) return false;
    return !time_inner_ || (in - out) % 16 == 0;
}

void NumberLaunch::run(const NumberArrays& arrays, void* scratch, bool overlaps, void* stream) const {
    NumberChainParams params = params_;
    params.input.data = static_cast<char*>(const_cast<void*>(arrays.from));
    params.output.data = static_cast<char*>(arrays.to);
    params.reduced = arrays.reduced;
    params.state_in = arrays.state_in;
    params.state_out = arrays.state_out;
    LaunchShape shape = blocks_of(tuning_.blocks, 32 * tuning_.warps);
    shape.shared_bytes = kernels_->warp_bytes * tuning_.warps;
    if (params.chunks > 1) {
        params.carries = static_cast<char*>(scratch) + carries_;
        set_all_bits(params.carries, static_cast<int64_t>(carries_bytes_ / sizeof(uint64_t)), stream);
        shape.overlaps = overlaps;
    }
    launch(kernel(), shape, stream, params, sets_of(tuning_, params.rows));
}

std::string NumberLaunch::describe() const {
    return fmt::format("{} groups of rows x {} chunks of {} steps, {} groups a set, {} innermost",
                       (time_inner_ ? 1 : params_.batches) * params_.row_groups, tuning_.chunks, tuning_.chunk_steps,
                       tuning_.set_groups, time_inner_ ? "time" : "channel");
}

std::optional<ChainedNumbers> ChainedNumbers::make(const OperatorProblem& p, bool backward, bool batch_invariant,
                                                   Workspace& workspace) {
    const ElementKernels* kernels = number_kernels(p.dtype, p.kind, 1);
    // The number of rows decides how steps are cut into chunks, so results would depend on the batch.
    if (kernels == nullptr || batch_invariant || p.packed() || p.empty()) return std::nullopt;
    NumberRows rows;
    rows.time_inner = p.layout == Layout::bct || p.channels == 1;
    rows.down = (p.direction == Direction::reverse) != backward;
    rows.exclusive = p.mode == OperatorMode::exclusive;
    rows.shares_sectors = p.channels * size_of(p.dtype) % sector_bytes != 0;
    rows.batches = rows.time_inner ? Extent(1) : p.batch;
    rows.rows = rows.time_inner ? p.batch * p.channels : p.channels;
    rows.time = p.time;
    rows.time_stride = rows.time_inner ? Extent(1) : p.channels;
    rows.row_stride = rows.time_inner ? p.time : Extent(1);
    rows.batch_stride = p.time * p.channels;
    ChainedNumbers c;
    c.scan_ = NumberLaunch::make(*kernels, rows, true, workspace);
    if (c.scan_ || (rows.time_inner && !p.is_reduction() && c.cut(p, *kernels, rows, workspace))) return c;
    return std::nullopt;
}

bool ChainedNumbers::cut(const OperatorProblem& p, const ElementKernels& kernels, NumberRows rows,
                         Workspace& workspace) {
    const ElementKernels* wide = number_kernels(state_dtype(p.dtype), p.kind, 1);
    const int64_t size = size_of(p.dtype), state_size = size_of(state_dtype(p.dtype)), count = rows.rows;
    int64_t pieces = 1;
    while (pieces * count < enough_pieces) pieces *= 2;
    const int64_t steps = rows.time / pieces, rest = rows.time % pieces;
    if (wide == nullptr || steps < least_piece_steps || count * rows.time * size < least_bytes) return false;
    pieces_ = pieces;
    // The rest comes last in the order of the walk.
    rest_bytes_ = (rows.down ? 0 : rows.time - rest) * size;
    pieces_bytes_ = (rows.down ? rest : 0) * size;
    NumberRows in = rows;
    in.batches = count;
    in.batch_stride = rows.time;
    in.rows = pieces;
    in.row_stride = in.time = steps;
    scan_ = NumberLaunch::make(kernels, in, true, workspace);
    NumberRows between = rows;
    between.time = between.row_stride = pieces;
    between.exclusive = true;
    between_ = NumberLaunch::make(*wide, between, false, workspace);
    if (rest > 0) {
        in.rows = 1;
        in.row_stride = rows.time;
        in.time = rest;
        rest_ = NumberLaunch::make(kernels, in, false, workspace);
    }
    if (!scan_ || !between_ || (rest > 0 && !rest_)) return false;
    carries_ = workspace.book(Extent(count) * pieces * state_size);
    last_ = workspace.book(Extent(count) * state_size);
    return true;
}

void ChainedNumbers::run(const NumberArrays& a, void* scratch, bool overlaps, void* stream) const {
    if (pieces_ == 0) return scan_->run(a, scratch, overlaps, stream);
    void* const carries = bytes_at(scratch, static_cast<int64_t>(carries_));
    void* const last = bytes_at(scratch, static_cast<int64_t>(last_));
    const char* const from = bytes_at(a.from, pieces_bytes_);
    scan_->run({from, nullptr, nullptr, nullptr, carries}, scratch, overlaps, stream);
    // The value after the last piece is the state that leaves, unless steps remain after the pieces.
    between_->run({carries, carries, nullptr, a.state_in, rest_ ? last : a.state_out}, scratch, overlaps, stream);
    if (a.to != nullptr)
        scan_->run({from, bytes_at(a.to, pieces_bytes_), nullptr, carries, nullptr}, scratch, overlaps, stream);
    if (rest_)
        rest_->run({bytes_at(a.from, rest_bytes_), bytes_at(a.to, rest_bytes_), nullptr, last, a.state_out}, scratch,
                   overlaps, stream);
}

std::string ChainedNumbers::describe() const {
    if (pieces_ == 0) return scan_->describe();
    return fmt::format("{} pieces of each row, reduced and then scanned, {}", pieces_, scan_->describe());
}

}  // namespace flashscan::cuda
