// SPDX-License-Identifier: Apache-2.0
// Plans and launches walks over chains of matrices.
#include "cuda/matrix/pass.h"

#include <array>
#include <utility>

#include "cuda/launch/alignment.h"
#include "cuda/matrix/small_scan.h"

namespace flashscan::cuda {
namespace {

int64_t row_tiles(const MatrixKernel& kernel, const MatrixShape& shape, bool summaries) {
    const int64_t rows = ceil_div(shape.rows, kernel.rows), all = ceil_div(shape.dim, kernel.rows);
    return summaries ? (shape.has_sums ? rows : 0) + all : rows;
}

// Whether MatrixKernel::plain takes the walk.
bool is_plain(const MatrixWalk& w) {
    return w.dim % 4 == 0 && w.matrix_dtype == Dtype::f32 && (w.emitted == nullptr || w.emitted_dtype == Dtype::f32) &&
           (w.reduced == nullptr || w.reduced_dtype == Dtype::f32) &&
           (w.last == nullptr || w.last_dtype == Dtype::f32) && w.addend == nullptr && w.added_start == nullptr &&
           w.transposed == 0 && w.rounded_factors == 0 &&
           are_multiples({w.matrix, w.emitted, w.started, w.finished, w.reduced, w.last}, 16);
}

// Whether the library has code of the warpgroup kernels for the device. Code for sm_90a runs on no later device.
bool can_multiply_by_warpgroups(std::span<const MatrixKernel> walks, int major) {
    for (const MatrixKernel& kernel : walks) {
        if (!kernel.by_warpgroups || major != 9) continue;
        return kernel_attributes(kernel.function, "asking for a kernel's attributes").binaryVersion == 90;
    }
    return false;
}

}  // namespace

MatrixPass::MatrixPass(const MatrixShape& shape, Dtype numbers, bool last_only, int device, Workspace& workspace,
                       std::string& refusal)
    : shape_(shape), numbers_(numbers), last_only_(last_only) {
    const int shared_bytes = shared_memory_of_block(device);
    const auto walks = matrix_kernels(numbers).walks;
    if (!has_matrix_kernel(walks, shape.dim, shared_bytes)) {
        refusal = fmt::format("dim is {} with {}; the device's {} bytes of shared memory a block do not hold its rows",
                              shape.dim, name_of(numbers), shared_bytes);
        return;
    }
    shape_.warpgroups = can_multiply_by_warpgroups(walks, device_attribute(cudaDevAttrComputeCapabilityMajor, device));
    const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount, device);
    for (const MatrixLevel& level : plan_matrices(walks, shape_, multiprocessors, shared_bytes).levels)
        static_cast<MatrixLevel&>(levels_.emplace_back()) = level;
    overlaps_ = can_overlap(levels_.front().walk->function, device);
    settle(workspace);
    for (const Level& level : levels_)
        for (const MatrixKernel* kernel : {level.summarise, level.walk}) {
            if (kernel == nullptr) continue;
            for (const void* function : {kernel->function, kernel->plain})
                if (function != nullptr) allow_shared_memory(function, device);
        }
}

// Settles what depends on whether all steps are wanted.
void MatrixPass::settle(Workspace& workspace) {
    for (Level& level : levels_) {
        if (level.summarise != nullptr) level.summaries = launch_of(level, *level.summarise, MatrixWork::summaries);
        if (!level.walk->is_tree) level.walks = launch_of(level, *level.walk, MatrixWork::walk);
        if (level.walk->is_tree) {
            const int64_t tiles = ceil_div(shape_.dim, level.walk->rows);
            for (const bool has_start : {false, true}) {
                const MatrixTree tree(static_cast<int32_t>(level.steps + (has_start ? 1 : 0)), last_only_);
                level.trees[has_start] = tree;
                LaunchShape& grid = level.tree_grids[has_start];
                grid = blocks_of(Extent(shape_.chains) * tree.products() * tiles * tiles, level.walk->threads);
                grid.shared_bytes = level.walk->shared_bytes;
                grid.overlaps = overlaps_;
            }
        }
        book(level, workspace);
    }
}

MatrixPass::Launch MatrixPass::launch_of(const MatrixLevel& level, const MatrixKernel& kernel, MatrixWork work) const {
    Launch launch;
    const int64_t tiles = row_tiles(kernel, shape_, work == MatrixWork::summaries);
    launch.row_tiles = static_cast<int32_t>(tiles);
    launch.grid = blocks_of(Extent(shape_.chains) * level.chunks * tiles, kernel.threads);
    launch.grid.overlaps = overlaps_;
    launch.grid.shared_bytes = kernel.is_scan
                                   ? matrix_scan_shared_bytes(kernel.dim, level.chunk_steps / matrix_scan_warps)
                                   : kernel.shared_bytes;
    return launch;
}

void MatrixPass::book(Level& level, Workspace& workspace) const {
    const int64_t number = size_of(numbers_), matrix = number * shape_.dim * shape_.dim,
                  rows = number * shape_.rows * shape_.dim;
    if (level.walk->is_tree) {
        const Extent products = Extent(shape_.chains) * level.trees[true].products();
        level.num_counters = products;
        level.products = workspace.book(products * matrix);
        level.counters = workspace.book(products * sizeof(uint32_t));
    }
    if (level.walk->is_scan) {
        const Extent bytes = Extent(matrix_scan_words(level.walk->dim, shape_.chains, level.chunks)) * number;
        level.products = workspace.book(bytes);
        level.clear = ClearLaunch(static_cast<size_t>(bytes));
    }
    if (level.summarise == nullptr) return;
    const Extent chunks = Extent(shape_.chains) * level.chunks;
    level.products = workspace.book(chunks * matrix);
    level.sums = workspace.book(shape_.has_sums ? chunks * rows : Extent());
    level.carries = workspace.book(last_only_ ? Extent() : chunks * rows);
}

MatrixPass MatrixPass::of_all_steps(Workspace& workspace) const {
    MatrixPass pass = *this;
    pass.last_only_ = false;
    pass.settle(workspace);
    return pass;
}

void MatrixPass::run(const MatrixWalk& walk, char* scratch, void* stream) const {
    if (shape_.chains == 0) return;
    std::array<MatrixWalk, most_matrix_levels> walks{walk};
    const size_t top = levels_.size() - 1;
    for (size_t i = 0; i <= top; ++i) {
        const Level& level = levels_[i];
        MatrixWalk& w = walks[i];
        w.steps = level.steps;
        w.chunk_steps = level.chunk_steps;
        w.chunks = level.chunks;
        w.products = scratch + level.products;
        if (i == top) break;
        w.sums = scratch + level.sums;
        w.carries = scratch + level.carries;
        walks[i + 1] = above(w);
        MatrixWalk summaries = w;
        if (const Level& next = levels_[i + 1]; next.walk->is_tree) {
            summaries.counters = reinterpret_cast<uint32_t*>(scratch + next.counters);
            summaries.num_counters = next.num_counters;
            walks[i + 1].counters = summaries.counters;
        }
        launch_walk(summaries, *level.summarise, level.summaries, MatrixWork::summaries, stream);
    }
    for (size_t i = 0; i < top; ++i) walks[i].leaves_end = 1;
    if (top > 0) hand_end_over(walks[0], walks[top]);
    if (last_only_) walks[top].emitted = nullptr;
    for (size_t i = top + 1; i-- > (last_only_ ? top : 0);) {
        const Level& level = levels_[i];
        level.clear.run(walks[i].products, stream);
        if (level.walk->is_tree)
            launch_tree(walks[i], level, stream);
        else
            launch_walk(walks[i], *level.walk, level.walks, MatrixWork::walk, stream);
    }
}

// The walk over the chain of the summaries of `walk`.
MatrixWalk MatrixPass::above(const MatrixWalk& walk) const {
    MatrixWalk w;
    w.dim = walk.dim;
    w.rows = walk.rows;
    w.chains = walk.chains;
    w.places = {walk.chunks, 1, 0};
    w.matrix = walk.products;
    w.addend = shape_.has_sums ? walk.sums : nullptr;
    w.emitted = const_cast<void*>(walk.carries);
    w.matrix_dtype = w.addend_dtype = w.emitted_dtype = numbers_;
    w.emits_before = 1;
    w.rounded_factors = walk.rounded_factors;
    w.start = walk.start;
    w.started = walk.started;
    w.added_start = walk.added_start;
    w.added_start_dtype = walk.added_start_dtype;
    return w;
}

// r after the last step is also the end of the uppermost chain, which has a fraction of the steps. It is always taken
// from there, so that all modes have the same bits.
void MatrixPass::hand_end_over(MatrixWalk& walk, MatrixWalk& top) {
    top.finished = std::exchange(walk.finished, nullptr);
    top.reduced = std::exchange(walk.reduced, nullptr);
    top.reduced_dtype = walk.reduced_dtype;
    if (walk.emits_before != 0 || walk.emitted == nullptr) return;
    top.last = walk.emitted;
    top.last_dtype = walk.emitted_dtype;
    top.last_inside = walk.chains_inside;
    top.last_places = {walk.places.outer, walk.turned != 0 ? 0 : (walk.steps - 1) * walk.places.time,
                       walk.places.inner};
}

void MatrixPass::launch_walk(MatrixWalk walk, const MatrixKernel& kernel, const Launch& how, MatrixWork work,
                             void* stream) {
    walk.work = work;
    walk.row_tiles = how.row_tiles;
    launch(kernel.plain != nullptr && is_plain(walk) ? kernel.plain : kernel.function, how.grid, stream, walk);
}

// A tree over the summaries of the level below, with STATE_IN before them.
void MatrixPass::launch_tree(const MatrixWalk& walk, const Level& level, void* stream) {
    const bool has_start = walk.start == MatrixStart::carried;
    launch(level.walk->function, level.tree_grids[has_start], stream, walk, level.trees[has_start]);
}

namespace {

// The file that holds the kernel.
const char* file_of(const MatrixKernel& kernel) {
    if (kernel.is_tree) return "prefix_tree";
    if (kernel.is_scan) return "small_scan";
    return kernel.plain_only ? "walk_pipelined" : "walk_general";
}

}  // namespace

std::string MatrixPass::describe() const {
    std::string text = levels_.front().walk->on_tensor_cores ? "tensor cores" : "multiply-adds";
    for (const Level& level : levels_) {
        const MatrixKernel& kernel = *level.walk;
        const char* const by = file_of(kernel);
        if (kernel.is_tree)
            text += fmt::format(", {} steps by {}", level.steps, by);
        else if (kernel.is_scan)
            text += fmt::format(", {} steps in {} chunks by {}", level.steps, level.chunks, by);
        else if (level.summarise != nullptr)
            text += fmt::format(", {} steps in {} chunks by {} ({} rows a block)", level.steps, level.chunks, by,
                                kernel.rows);
        else
            text += fmt::format(", {} steps one by one by {} ({} rows a block)", level.steps, by, kernel.rows);
    }
    return text;
}

}  // namespace flashscan::cuda
