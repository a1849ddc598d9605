// SPDX-License-Identifier: Apache-2.0
// Plans and launches walks over chains of matrices.
#include "cuda/matrix/pass.h"

#include <limits>
#include <utility>

#include "cuda/matrix/small_scan.h"

namespace flashscan::cuda {
namespace {

int64_t row_tiles(const MatrixKernel& kernel, const MatrixShape& shape, bool summaries) {
    const int64_t rows = ceil_div(shape.rows, kernel.rows), all = ceil_div(shape.dim, kernel.rows);
    return summaries ? (shape.has_sums ? rows : 0) + all : rows;
}

// Whether MatrixKernel::plain takes the walk.
bool is_plain(const MatrixWalk& w) {
    const auto aligned = [](const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; };
    return w.dim % 4 == 0 && w.matrix_dtype == Dtype::f32 && (w.emitted == nullptr || w.emitted_dtype == Dtype::f32) &&
           (w.reduced == nullptr || w.reduced_dtype == Dtype::f32) &&
           (w.last == nullptr || w.last_dtype == Dtype::f32) && w.addend == nullptr && w.added_start == nullptr &&
           w.transposed == 0 && w.rounded_factors == 0 && aligned(w.matrix) && aligned(w.emitted) &&
           aligned(w.started) && aligned(w.finished) && aligned(w.reduced) && aligned(w.last);
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
    plan_ = plan_matrices(walks, shape_, device_attribute(cudaDevAttrMultiProcessorCount, device), shared_bytes);
    for (const MatrixLevel& level : plan_.levels)
        for (const MatrixKernel* kernel : {level.summarise, level.walk}) {
            if (kernel == nullptr) continue;
            for (const void* function : {kernel->function, kernel->plain})
                if (function != nullptr) allow_shared_memory(function, device);
            const Extent blocks = kernel->is_tree ? tree_blocks(level, tree_of(level, true))
                                                  : Extent(shape.chains) * level.pieces *
                                                        row_tiles(*kernel, shape, kernel == level.summarise);
            if (blocks > std::numeric_limits<int32_t>::max())
                refusal = fmt::format("{} chains in {} pieces are {} blocks; takes up to {}", shape.chains,
                                      level.pieces, blocks, std::numeric_limits<int32_t>::max());
        }
    overlaps_ = can_overlap(plan_.levels.front().walk->function, device);
    book(workspace);
}

void MatrixPass::book(Workspace& workspace) {
    const int64_t number = size_of(numbers_), matrix = number * shape_.dim * shape_.dim,
                  rows = number * shape_.rows * shape_.dim;
    for (size_t i = 0; i < plan_.levels.size(); ++i) {
        const MatrixLevel& level = plan_.levels[i];
        if (level.walk->is_tree) {
            const Extent products = Extent(shape_.chains) * tree_of(level, true).products();
            buffers_[i].products = workspace.book(products * matrix);
            buffers_[i].counters = workspace.book(products * sizeof(uint32_t));
        }
        if (level.walk->is_scan) {
            const Extent numbers = matrix_scan_words(level.walk->dim, shape_.chains, level.pieces);
            buffers_[i].products = workspace.book(numbers * number);
        }
        if (level.summarise == nullptr) continue;
        const Extent pieces = Extent(shape_.chains) * level.pieces;
        buffers_[i].products = workspace.book(pieces * matrix);
        buffers_[i].sums = workspace.book(shape_.has_sums ? pieces * rows : Extent());
        buffers_[i].carries = workspace.book(last_only_ ? Extent() : pieces * rows);
    }
}

MatrixPass MatrixPass::of_all_steps(Workspace& workspace) const {
    MatrixPass pass = *this;
    pass.last_only_ = false;
    pass.book(workspace);
    return pass;
}

void MatrixPass::run(const MatrixWalk& walk, char* scratch, void* stream) const {
    if (shape_.chains == 0) return;
    std::array<MatrixWalk, most_matrix_levels> walks{walk};
    const size_t top = plan_.levels.size() - 1;
    for (size_t i = 0; i <= top; ++i) {
        const MatrixLevel& level = plan_.levels[i];
        MatrixWalk& w = walks[i];
        w.steps = level.steps;
        w.piece_steps = level.piece_steps;
        w.pieces = level.pieces;
        w.products = scratch + buffers_[i].products;
        if (i == top) break;
        w.sums = scratch + buffers_[i].sums;
        w.carries = scratch + buffers_[i].carries;
        walks[i + 1] = above(w, level);
        MatrixWalk summaries = w;
        if (plan_.levels[i + 1].walk->is_tree) {
            summaries.counters = reinterpret_cast<uint32_t*>(scratch + buffers_[i + 1].counters);
            summaries.num_counters = shape_.chains * tree_of(plan_.levels[i + 1], true).products();
            walks[i + 1].counters = summaries.counters;
        }
        launch_walk(summaries, *level.summarise, MatrixWork::summaries, stream);
    }
    for (size_t i = 0; i < top; ++i) walks[i].leaves_end = 1;
    if (top > 0) hand_end_over(walks[0], walks[top]);
    if (last_only_) walks[top].emitted = nullptr;
    for (size_t i = top + 1; i-- > (last_only_ ? top : 0);) {
        const MatrixLevel& level = plan_.levels[i];
        if (level.walk->is_tree)
            launch_tree(walks[i], level, stream);
        else
            launch_walk(walks[i], *level.walk, MatrixWork::walk, stream);
    }
}

// The walk over the chain of the summaries of `walk`.
MatrixWalk MatrixPass::above(const MatrixWalk& walk, const MatrixLevel& level) const {
    MatrixWalk w;
    w.dim = walk.dim;
    w.rows = walk.rows;
    w.chains = walk.chains;
    w.places = {level.pieces, 1, 0};
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

void MatrixPass::launch_walk(MatrixWalk walk, const MatrixKernel& kernel, MatrixWork work, void* stream) const {
    walk.work = work;
    walk.row_tiles = static_cast<int32_t>(row_tiles(kernel, shape_, work == MatrixWork::summaries));
    LaunchShape shape = blocks_of(walk.chains * walk.pieces * walk.row_tiles, kernel.threads);
    shape.shared_bytes = kernel.is_scan ? matrix_scan_shared_bytes(kernel.dim, walk.piece_steps / matrix_scan_warps)
                                        : kernel.shared_bytes;
    shape.overlaps = overlaps_;
    if (kernel.is_scan)
        set_all_bits(walk.products, matrix_scan_words(kernel.dim, walk.chains, walk.pieces) / 2, stream);
    launch(kernel.plain != nullptr && is_plain(walk) ? kernel.plain : kernel.function, shape, stream, walk);
}

// The tree over the summaries of `level`, with STATE_IN before them.
MatrixTree MatrixPass::tree_of(const MatrixLevel& level, bool has_start) const {
    return {static_cast<int32_t>(level.steps + (has_start ? 1 : 0)), last_only_};
}
Extent MatrixPass::tree_blocks(const MatrixLevel& level, const MatrixTree& tree) const {
    const int64_t tiles = ceil_div(shape_.dim, level.walk->rows);
    return Extent(shape_.chains) * tree.products() * tiles * tiles;
}
void MatrixPass::launch_tree(const MatrixWalk& walk, const MatrixLevel& level, void* stream) const {
    const MatrixTree tree = tree_of(level, walk.start == MatrixStart::carried);
    LaunchShape shape = blocks_of(tree_blocks(level, tree), level.walk->threads);
    shape.shared_bytes = level.walk->shared_bytes;
    shape.overlaps = overlaps_;
    launch(level.walk->function, shape, stream, walk, tree);
}

std::string MatrixPass::describe() const {
    std::string text = plan_.levels.front().walk->on_tensor_cores ? "tensor cores" : "multiply-adds";
    for (const MatrixLevel& level : plan_.levels) {
        if (level.walk->is_tree) {
            text += fmt::format(", {} steps as a tree", level.steps);
            continue;
        }
        if (level.walk->is_scan) {
            text += fmt::format(", {} steps in {} chunks of one launch", level.steps, level.pieces);
            continue;
        }
        if (level.summarise != nullptr)
            text += fmt::format(", {} steps in {} pieces", level.steps, level.pieces);
        else
            text += fmt::format(", {} steps one by one", level.steps);
        text += fmt::format(" ({} rows a block)", level.walk->rows);
    }
    return text;
}

}  // namespace flashscan::cuda
