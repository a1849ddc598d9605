// SPDX-License-Identifier: Apache-2.0
#include "cuda/rnn_fused.h"

#include <algorithm>
#include <limits>

#include "cuda/kernels/rnn_fused_params.h"
#include "cuda/launch.h"
#include "cuda/rnn_edges.h"
#include "cuda/tuning/rnn_tuning.h"

namespace flashscan::cuda {
namespace {

// A launch of backward leaves the factors of this many rows for one product.
constexpr int64_t launch_rows = 16384;

size_t bytes_of(int64_t count, Dtype dtype) { return static_cast<size_t>(count * size_of(dtype)); }

void load(const RnnFusedShape& shape) {
    for (const RnnFusedKernel* kernel : {&shape.forward, &shape.backward}) {
        check(cudaFuncSetAttribute(kernel->function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel->shared_bytes),
              "loading a kernel");
        if (shape.kind == Team::cluster)
            check(cudaFuncSetAttribute(kernel->function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                  "loading a kernel");
    }
}

// Blocks of a team wait for each other: all of them must run at once.
cudaLaunchConfig_t configure(const RnnFusedKernel& kernel, const RnnTeams& teams, cudaLaunchAttribute& attribute,
                             void* stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(teams.blocks * teams.teams));
    config.blockDim = dim3(static_cast<unsigned>(kernel.threads));
    config.dynamicSmemBytes = static_cast<size_t>(kernel.shared_bytes);
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &attribute;
    config.numAttrs = teams.shape->kind == Team::block ? 0 : 1;
    if (teams.shape->kind == Team::grid) {
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
    } else {
        attribute.id = cudaLaunchAttributeClusterDimension;
        attribute.val.clusterDim = {static_cast<unsigned>(teams.blocks), 1, 1};
    }
    return config;
}

// Teams that can run at once, fewer where clusters do not fit everywhere.
int64_t resident_teams(const RnnTeams& teams) {
    if (teams.shape->kind != Team::cluster) return teams.teams;
    int least = std::numeric_limits<int>::max();
    for (const RnnFusedKernel* kernel : {&teams.shape->forward, &teams.shape->backward}) {
        cudaLaunchAttribute attribute{};
        const cudaLaunchConfig_t config = configure(*kernel, teams, attribute, nullptr);
        int clusters = 0;
        check(cudaOccupancyMaxActiveClusters(&clusters, kernel->function, &config), "asking how many clusters fit");
        least = std::min(least, clusters);
    }
    return std::min<int64_t>(teams.teams, least);
}

class Fused final : public RnnKernel {
  public:
    Fused(const RnnProblem& problem, const Options& options, const RnnTeams& teams, int kept, std::string& refusal)
        : p_(problem),
          device_(options.device),
          teams_(teams),
          kept_(kept),
          s_(problem, false, launch_rows),
          edges_(p_, s_),
          order_weights_(rnn_fused_weight_kernel(problem.dtype, problem.weight_dtype)) {
        if (p_.training) grad_weights_ = make_grad_weights(device_, s_, refusal);
        book_forward();
        if (p_.training) book_backward();
        cudaFuncAttributes attributes{};
        check(cudaFuncGetAttributes(&attributes, order_weights_), "loading a kernel");
    }

    std::string describe() const override {
        constexpr const char* kinds[] = {"a block", "a cluster", "a part of the grid"};
        std::string text =
            fmt::format("{} of {} blocks for {} rows of a head", kinds[static_cast<int>(teams_.shape->kind)],
                        teams_.blocks, teams_.shape->forward.rows);
        text += fmt::format(", {} of {} at once", teams_.teams, teams_.jobs);
        if (p_.training) text += fmt::format(", backward {} steps a launch", s_.chunk_steps);
        return text;
    }
    size_t scratch_bytes(Pass pass) const override {
        return pass == Pass::forward ? forward_.bytes() : backward_.bytes();
    }
    size_t reserve_bytes() const override {
        const int64_t patches = p_.heads * ceil_div(p_.batch, 8) * ceil_div(p_.head_dim, 8);
        return static_cast<size_t>(p_.time * patches * kept_ * 64) * sizeof(float);
    }

    void forward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        char* const base = static_cast<char*>(b.scratch);
        RnnFusedParams f = common(b, base + forward_ring_, teams_.shape->forward, stream);
        f.weights = order_weights(b, base + forward_weights_, teams_.shape->forward, 0, stream);
        f.p.bias = edges_.widen_bias(b, base + forward_bias_, stream);
        f.p.input = b.input;
        f.p.state_out = b.state_out;
        f.end = p_.time;
        launch_teams(teams_.shape->forward, f, stream);
    }

    void backward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        char* const base = static_cast<char*>(b.scratch);
        const bool sums_weights = b.grad_weight != nullptr;
        const RnnFusedKernel& kernel = teams_.shape->backward;
        RnnFusedParams f = common(b, base + backward_ring_, kernel, stream);
        f.weights =
            order_weights(b, base + backward_weights_, kernel, kernel.depth / static_cast<int>(s_.gates), stream);
        f.p.states = base + states_;
        f.p.grad_output = b.grad_output;
        f.p.grad_state_out = b.grad_state_out;
        f.p.grad_input = b.grad_input;
        f.p.grad_state_in = b.grad_state_in;
        f.input_words =
            static_cast<int32_t>(p_.head_dim % 2 == 0 && reinterpret_cast<uintptr_t>(b.grad_input) % 4 == 0);
        f.p.bias_sums = b.grad_bias != nullptr ? base + bias_sums_ : nullptr;
        f.gradients = sums_weights ? base + gradients_ : nullptr;
        f.factors = sums_weights ? base + factors_ : nullptr;
        for (f.end = p_.time; f.end > 0; f.end = f.first) {
            f.first = sums_weights ? std::max<int64_t>(f.end - s_.chunk_steps, 0) : 0;
            launch_teams(kernel, f, stream);
            if (sums_weights) add_grad_weights(base, f, stream);
            if (f.first > 0) fill_ring(f.ring, kernel, stream);
        }
        edges_.store_grad_bias(b, f.p.bias_sums, stream);
        edges_.store_grad_weight(b, base + weight_sums_, stream);
    }

  private:
    size_t ring_bytes(const RnnFusedKernel& kernel) const {
        return teams_.shape->kind != Team::grid ? 0
                                                : static_cast<size_t>(teams_.teams * rnn_ring_slots * kernel.rows *
                                                                      kernel.depth * size_of(s_.dtype));
    }
    void book_forward() {
        forward_weights_ = forward_.book(static_cast<size_t>(ordered_words(teams_.shape->forward)) * 16);
        forward_bias_ = forward_.book(bytes_of(p_.bias_count(), s_.wide));
        forward_ring_ = forward_.book(ring_bytes(teams_.shape->forward));
    }
    void book_backward() {
        const int64_t rows = s_.chunk_steps * s_.rows;
        backward_weights_ = backward_.book(static_cast<size_t>(ordered_words(teams_.shape->backward)) * 16);
        backward_ring_ = backward_.book(ring_bytes(teams_.shape->backward));
        states_ = backward_.book(bytes_of(p_.counts().states * s_.rows * p_.width(), s_.wide));
        bias_sums_ = backward_.book(bytes_of(p_.counts().biases * s_.rows * p_.width(), s_.wide));
        gradients_ = backward_.book(bytes_of(rows * s_.product(), s_.dtype));
        factors_ = backward_.book(bytes_of(rows * s_.factor(), s_.dtype));
        weight_sums_ = backward_.book(bytes_of(s_.weights(), s_.wide));
        blas_ = backward_.book(grad_weights_.workspace_bytes());
    }

    // Words of 16 bytes.
    int64_t ordered_words(const RnnFusedKernel& k) const {
        return p_.heads * teams_.blocks * k.threads * k.tiles * k.steps;
    }
    // `period`: of k in backward, 0 in forward.
    const void* order_weights(const RnnBuffers& b, void* to, const RnnFusedKernel& k, int period, void* stream) const {
        const RnnFusedWeightParams params{b.weight,
                                          to,
                                          static_cast<int32_t>(s_.gates),
                                          static_cast<int32_t>(p_.heads),
                                          static_cast<int32_t>(p_.head_dim),
                                          teams_.blocks,
                                          k.row_gates,
                                          k.groups,
                                          k.unit_warps,
                                          k.parts,
                                          k.tiles,
                                          k.steps,
                                          period};
        launch(order_weights_, threads_in_blocks(ordered_words(k), rnn_fused_weight_block), stream, params);
        return to;
    }

    RnnFusedParams common(const RnnBuffers& b, void* ring, const RnnFusedKernel& kernel, void* stream) const {
        RnnFusedParams f;
        f.p = edges_.common(b);
        f.heads = static_cast<int32_t>(p_.heads);
        f.blocks = teams_.blocks;
        f.teams = static_cast<int32_t>(teams_.teams);
        f.tiles = static_cast<int32_t>(teams_.tiles);
        f.jobs = static_cast<int32_t>(teams_.jobs);
        f.ring = ring;
        fill_ring(ring, kernel, stream);
        return f;
    }
    void fill_ring(void* ring, const RnnFusedKernel& kernel, void* stream) const {
        if (ring_bytes(kernel) > 0)
            check(cudaMemsetAsync(ring, 0xff, ring_bytes(kernel), static_cast<cudaStream_t>(stream)), "filling memory");
    }

    void launch_teams(const RnnFusedKernel& kernel, RnnFusedParams& f, void* stream) const {
        cudaLaunchAttribute attribute{};
        const cudaLaunchConfig_t config = configure(kernel, teams_, attribute, stream);
        void* arguments[] = {&f};
        check(cudaLaunchKernelExC(&config, kernel.function, arguments), "launching a fused kernel");
    }

    void add_grad_weights(char* base, const RnnFusedParams& f, void* stream) const {
        const int64_t missing = s_.chunk_steps - (f.end - f.first);
        if (missing > 0) {  // the product takes whole chunks
            const int64_t there = (f.end - f.first) * s_.rows, rows = missing * s_.rows;
            clear(base + gradients_ + bytes_of(there * s_.product(), s_.dtype), bytes_of(rows * s_.product(), s_.dtype),
                  stream);
            clear(base + factors_ + bytes_of(there * s_.factor(), s_.dtype), bytes_of(rows * s_.factor(), s_.dtype),
                  stream);
        }
        grad_weights_.together.run(base + factors_, base + gradients_, base + weight_sums_, f.end < p_.time,
                                   base + blas_, stream);
    }

    RnnProblem p_;
    int device_;
    RnnTeams teams_;
    int kept_;
    RnnShape s_;
    RnnEdges edges_;
    const void* order_weights_;
    RnnProducts grad_weights_;
    Workspace forward_, backward_;
    size_t forward_weights_ = 0, forward_bias_ = 0, forward_ring_ = 0;
    size_t backward_weights_ = 0, backward_ring_ = 0, states_ = 0, bias_sums_ = 0, gradients_ = 0, factors_ = 0;
    size_t weight_sums_ = 0, blas_ = 0;
};

// Why no fused kernel takes the problem; empty: one may.
std::string refuse(const RnnProblem& p, int device) {
    if (size_of(p.dtype) != 2) return fmt::format("dtype is {}; takes bf16 and f16", name_of(p.dtype));
    if (p.cell == Cell::gru_reset_before) return "the cell has two products a step, one after the other";
    if (p.packed()) return fmt::format("num_sequences is {}; takes rows that are not packed", p.num_sequences);
    if (p.batch == 0 || p.time == 0) return "there are no steps";
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "asking what the device is");
    if (major < 9) return fmt::format("the device's compute capability is {}.x; needs 9.0", major);
    return "";
}

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_fused(const RnnProblem& problem, const Options& options, std::string& refusal) {
    refusal = refuse(problem, options.device);
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    int multiprocessors = 0;
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, options.device),
          "asking what the device is");
    RnnTeams teams = choose_teams(rnn_fused_shapes(problem.dtype, problem.cell), problem.head_dim, problem.heads,
                                  problem.batch, multiprocessors, options.batch_invariant);
    if (teams.shape == nullptr) {
        refusal = fmt::format("head_dim is {}; the weights of a head do not fit the registers of {} multiprocessors",
                              problem.head_dim, multiprocessors);
        return nullptr;
    }
    load(*teams.shape);
    teams.teams = resident_teams(teams);
    if (teams.teams == 0) {
        refusal = fmt::format("clusters of {} blocks do not fit the device", teams.blocks);
        return nullptr;
    }
    if (teams.jobs > std::numeric_limits<int32_t>::max()) {
        refusal = fmt::format("{} heads of {} rows are {} jobs; takes up to {}", problem.heads, problem.batch,
                              teams.jobs, std::numeric_limits<int32_t>::max());
        return nullptr;
    }
    const int kept = rnn_data_kernels(problem.dtype).cells[static_cast<int>(problem.cell)].kept;
    auto kernel = std::make_unique<Fused>(problem, options, teams, kept, refusal);
    return refusal.empty() ? std::move(kernel) : nullptr;
}

}  // namespace flashscan::cuda
