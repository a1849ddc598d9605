// SPDX-License-Identifier: Apache-2.0
#include "cuda/matrix_pass.h"

#include <limits>

namespace flashscan::cuda {
namespace {

int64_t row_tiles(const MatrixKernel& kernel, const MatrixShape& shape, bool summaries) {
    const int64_t rows = ceil_div(shape.rows, kernel.rows), all = ceil_div(shape.dim, kernel.rows);
    return summaries ? (shape.has_sums ? rows : 0) + all : rows;
}

// Whether their code is that of the device, which no later one runs.
bool can_multiply_by_warpgroups(std::span<const MatrixKernel> walks, int major) {
    for (const MatrixKernel& kernel : walks) {
        if (!kernel.by_warpgroups || major != 9) continue;
        cudaFuncAttributes attributes{};
        check(cudaFuncGetAttributes(&attributes, kernel.function), "asking for a kernel's attributes");
        return attributes.binaryVersion == 90;
    }
    return false;
}

}  // namespace

MatrixPass::MatrixPass(const MatrixShape& shape, Dtype numbers, bool last_only, int device, Workspace& workspace,
                       std::string& refusal)
    : shape_(shape), numbers_(numbers), last_only_(last_only) {
    const auto attribute = [device](cudaDeviceAttr which) {
        int value = 0;
        check(cudaDeviceGetAttribute(&value, which, device), "asking what the device is");
        return value;
    };
    const int shared_bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    const auto walks = matrix_kernels(numbers).walks;
    if (!has_matrix_kernel(walks, shape.dim, shared_bytes)) {
        refusal = fmt::format("dim is {} with {}; the device's {} bytes of shared memory a block do not hold its rows",
                              shape.dim, name_of(numbers), shared_bytes);
        return;
    }
    shape_.warpgroups = can_multiply_by_warpgroups(walks, attribute(cudaDevAttrComputeCapabilityMajor));
    plan_ = plan_matrices(walks, shape_, attribute(cudaDevAttrMultiProcessorCount), shared_bytes);
    const int64_t number = size_of(numbers), matrix = number * shape.dim * shape.dim,
                  rows = number * shape.rows * shape.dim;
    for (size_t i = 0; i < plan_.levels.size(); ++i) {
        const MatrixLevel& level = plan_.levels[i];
        for (const MatrixKernel* kernel : {level.summarise, level.walk}) {
            if (kernel == nullptr) continue;
            check(cudaFuncSetAttribute(kernel->function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       kernel->shared_bytes),
                  "loading a kernel");
            const int64_t blocks = shape.chains * level.pieces * row_tiles(*kernel, shape, kernel == level.summarise);
            if (blocks > std::numeric_limits<int32_t>::max())
                refusal = fmt::format("{} chains in {} pieces are {} blocks; takes up to {}", shape.chains,
                                      level.pieces, blocks, std::numeric_limits<int32_t>::max());
        }
        if (level.summarise == nullptr) continue;
        const int64_t pieces = shape.chains * level.pieces;
        buffers_[i].products = workspace.book(static_cast<size_t>(pieces * matrix));
        buffers_[i].sums = workspace.book(static_cast<size_t>(shape.has_sums ? pieces * rows : 0));
        buffers_[i].carries = workspace.book(static_cast<size_t>(pieces * rows));
    }
    overlaps_ = can_overlap(plan_.levels.front().walk->function, device);
}

void MatrixPass::run(const MatrixWalk& walk, char* scratch, void* stream) const {
    if (shape_.chains == 0) return;
    std::array<MatrixWalk, most_levels> walks{walk};
    const size_t count = plan_.levels.size();
    for (size_t i = 0; i < count; ++i) {
        const MatrixLevel& level = plan_.levels[i];
        MatrixWalk& w = walks[i];
        w.steps = level.steps;
        w.piece_steps = level.piece_steps;
        w.pieces = level.pieces;
        if (level.summarise == nullptr) break;
        w.products = scratch + buffers_[i].products;
        w.sums = scratch + buffers_[i].sums;
        w.carries = scratch + buffers_[i].carries;
        launch_summaries(w, level, stream);
        walks[i + 1] = above(w, level);
    }
    for (size_t i = count; i-- > 0;) launch_walk(walks[i], plan_.levels[i], stream);
}

// The chain of the summaries of `walk`.
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
    w.emits_before = w.emits_end = 1;
    w.rounded_factors = walk.rounded_factors;
    w.start = walk.start;
    w.started = walk.started;
    w.added_start = walk.added_start;
    w.added_start_dtype = walk.added_start_dtype;
    return w;
}

void MatrixPass::launch_summaries(MatrixWalk walk, const MatrixLevel& level, void* stream) const {
    walk.work = MatrixWork::summaries;
    walk.pieces_here = level.pieces - 1;  // nobody asks for the last one's
    walk.row_tiles = static_cast<int32_t>(row_tiles(*level.summarise, shape_, true));
    start(*level.summarise, walk, stream);
}

void MatrixPass::launch_walk(MatrixWalk walk, const MatrixLevel& level, void* stream) const {
    walk.work = MatrixWork::walk;
    walk.first_piece = last_only_ ? level.pieces - 1 : 0;
    walk.pieces_here = last_only_ ? 1 : level.pieces;
    walk.row_tiles = static_cast<int32_t>(row_tiles(*level.walk, shape_, false));
    start(*level.walk, walk, stream);
}

void MatrixPass::start(const MatrixKernel& kernel, const MatrixWalk& walk, void* stream) const {
    LaunchShape shape = blocks_of(walk.chains * walk.pieces_here * walk.row_tiles, kernel.threads);
    shape.shared_bytes = kernel.shared_bytes;
    shape.overlaps = overlaps_;
    launch(kernel.function, shape, stream, walk);
}

std::string MatrixPass::describe() const {
    std::string text = plan_.levels.front().walk->on_tensor_cores ? "tensor cores" : "multiply-adds";
    for (const MatrixLevel& level : plan_.levels) {
        if (level.summarise != nullptr)
            text += fmt::format(", {} steps in {} pieces", level.steps, level.pieces);
        else
            text += fmt::format(", {} steps one by one", level.steps);
        text += fmt::format(" ({} rows a block)", level.walk->rows);
    }
    return text;
}

}  // namespace flashscan::cuda
