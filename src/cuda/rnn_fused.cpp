// SPDX-License-Identifier: Apache-2.0
#include "cuda/rnn_fused.h"

#include <algorithm>
#include <limits>

#include "cuda/kernels/rnn_fused_params.h"
#include "cuda/launch.h"
#include "cuda/rnn_edges.h"
#include "cuda/sequence_offsets.h"
#include "cuda/tuning/rnn_tuning.h"

namespace flashscan::cuda {
namespace {

// A launch of backward leaves the factors of this many rows for one product.
constexpr int64_t launch_rows = 16384;

void load(const RnnTeams& teams) {
    const auto set = [&](cudaFuncAttribute attribute, int value) {
        check(cudaFuncSetAttribute(teams.kernel->function, attribute, value), "loading a kernel");
    };
    set(cudaFuncAttributeMaxDynamicSharedMemorySize, teams.kernel->shared_bytes);
    if (teams.kind == Team::cluster) set(cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}

// Blocks of a team wait for each other: all of them must run at once.
cudaLaunchConfig_t configure(const RnnTeams& teams, cudaLaunchAttribute& attribute, void* stream) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(teams.blocks * teams.teams));
    config.blockDim = dim3(static_cast<unsigned>(teams.kernel->threads));
    config.dynamicSmemBytes = static_cast<size_t>(teams.kernel->shared_bytes);
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &attribute;
    config.numAttrs = teams.kind == Team::block ? 0 : 1;
    if (teams.kind == Team::grid) {
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
    if (teams.kind != Team::cluster) return teams.teams;
    cudaLaunchAttribute attribute{};
    const cudaLaunchConfig_t config = configure(teams, attribute, nullptr);
    int clusters = 0;
    check(cudaOccupancyMaxActiveClusters(&clusters, teams.kernel->function, &config), "asking how many clusters fit");
    return std::min<int64_t>(teams.teams, clusters);
}

// The teams of a pass; fills `refusal` where there are none.
RnnTeams make_teams(const RnnProblem& p, Pass pass, const Options& options, std::string& refusal) {
    const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount, options.device);
    RnnTeams teams = choose_teams(rnn_fused_shapes(p.dtype, p.cell), pass, p.head_dim, p.heads, p.state_rows(),
                                  multiprocessors, options.batch_invariant);
    if (teams.kernel == nullptr) {
        refusal =
            fmt::format("head_dim is {}; the weights of a head in {} do not fit on {} multiprocessors{}", p.head_dim,
                        name_of(p.dtype), multiprocessors, pass == Pass::forward ? "" : " in backward");
        return teams;
    }
    if (kernel_attributes(teams.kernel->function).ptxVersion < 90) {
        refusal = "the library was built without code of compute capability 9.0";
        return teams;
    }
    load(teams);
    teams.teams = resident_teams(teams);
    if (teams.teams == 0) refusal = fmt::format("clusters of {} blocks do not fit the device", teams.blocks);
    if (teams.jobs > std::numeric_limits<int32_t>::max())
        refusal = fmt::format("{} heads of {} rows are {} jobs; takes up to {}", p.heads, p.state_rows(), teams.jobs,
                              std::numeric_limits<int32_t>::max());
    return teams;
}

std::string describe(const RnnTeams& teams) {
    constexpr const char* kinds[] = {"block", "cluster", "part of the grid"};
    return fmt::format("{} of {} for {} rows of a head, {} of {} at once", kinds[static_cast<int>(teams.kind)],
                       teams.blocks, teams.kernel->rows, teams.teams, teams.jobs);
}

class Fused final : public RnnKernel {
  public:
    Fused(const RnnProblem& problem, const Options& options, std::string& refusal)
        : p_(problem),
          device_(options.device),
          kept_(rnn_data_kernels(p_.dtype).cells[static_cast<int>(p_.cell)].kept),
          s_(problem, false, launch_rows),
          edges_(p_, s_),
          order_weights_(rnn_fused_weight_kernel(problem.dtype, problem.weight_dtype)) {
        forward_teams_ = make_teams(p_, Pass::forward, options, refusal);
        if (refusal.empty()) book_forward();
        if (p_.training && refusal.empty()) backward_teams_ = make_teams(p_, Pass::backward, options, refusal);
        if (p_.training && refusal.empty()) grad_weights_ = make_grad_weights(device_, s_, refusal);
        if (p_.training && refusal.empty()) book_backward();
        kernel_attributes(order_weights_);
    }

    std::string describe() const override {
        std::string text = cuda::describe(forward_teams_);
        if (p_.training)
            text += fmt::format("; backward {}, {} steps a launch", cuda::describe(backward_teams_), s_.chunk_steps);
        return text;
    }
    size_t scratch_bytes(Pass pass) const override {
        return pass == Pass::forward ? forward_.bytes() : backward_.bytes();
    }
    size_t reserve_bytes() const override {
        const int64_t patches = p_.heads * ceil_div(p_.head_dim, 8) * (p_.packed() ? 1 : ceil_div(p_.batch, 8) * 8);
        return static_cast<size_t>(p_.time * patches * kept_ * 8) * sizeof(float);
    }

    void forward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        edges_.pass_states(b, b.state_in, b.state_out, stream);
        char* const base = static_cast<char*>(b.scratch);
        RnnFusedParams f = common(b, base + forward_ring_, forward_teams_, stream);
        f.weights = order_weights(b, base + forward_weights_, forward_teams_, 0, stream);
        f.p.bias = edges_.widen_bias(b, base + forward_bias_, stream);
        f.p.input = b.input;
        f.p.state_out = b.state_out;
        f.end = p_.time;
        launch_teams(forward_teams_, f, stream);
    }

    void backward(const RnnBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        edges_.pass_states(b, b.grad_state_out, b.grad_state_in, stream);
        char* const base = static_cast<char*>(b.scratch);
        const int period = backward_teams_.kernel->depth / static_cast<int>(s_.gates);
        RnnFusedParams f = common(b, base + backward_ring_, backward_teams_, stream);
        f.weights = order_weights(b, base + backward_weights_, backward_teams_, period, stream);
        f.p.states = base + states_;
        f.p.grad_output = b.grad_output;
        f.p.grad_state_out = b.grad_state_out;
        f.p.grad_input = b.grad_input;
        f.p.grad_state_in = b.grad_state_in;
        f.input_words =
            static_cast<int32_t>(p_.head_dim % 2 == 0 && reinterpret_cast<uintptr_t>(b.grad_input) % 4 == 0);
        f.p.bias_sums = b.grad_bias != nullptr ? base + bias_sums_ : nullptr;
        f.gradients = b.grad_weight != nullptr ? base + gradients_ : nullptr;
        f.factors = b.grad_weight != nullptr ? base + factors_ : nullptr;
        if (p_.packed())
            run_packed(base, f, stream);
        else
            run_launches(base, f, stream);
        edges_.store_grad_bias(b, f.p.bias_sums, p_.state_rows(), stream);
        edges_.store_grad_weight(b, base + weight_sums_, stream);
    }

  private:
    void run_launches(char* base, RnnFusedParams& f, void* stream) const {
        for (f.end = p_.time; f.end > 0; f.end = f.first) {
            f.first = f.factors != nullptr ? std::max<int64_t>(f.end - s_.chunk_steps, 0) : 0;
            launch_teams(backward_teams_, f, stream);
            if (f.factors != nullptr) {
                clear_factors(base, f.end - f.first, stream);
                add_grad_weights(base, 0, f.end < p_.time, stream);
            }
            if (f.first > 0) fill_ring(f.ring, backward_teams_, stream);
        }
    }
    // Which rows take part in a step is known on the device alone: one launch leaves the factors of all steps.
    void run_packed(char* base, RnnFusedParams& f, void* stream) const {
        if (f.factors != nullptr) clear_factors(base, 0, stream);
        if (f.p.bias_sums != nullptr) clear(f.p.bias_sums, bias_sum_bytes(), stream);
        f.end = p_.time;
        launch_teams(backward_teams_, f, stream);
        if (f.factors == nullptr) return;
        for (int64_t step = 0; step < p_.time; step += s_.chunk_steps) add_grad_weights(base, step, step > 0, stream);
    }
    // Rows of the factors, whole chunks of them.
    int64_t factor_rows() const { return p_.packed() ? round_up(p_.time, s_.chunk_steps) : s_.chunk_steps * s_.rows; }
    size_t bias_sum_bytes() const { return bytes_of(p_.counts().biases * p_.state_rows() * p_.width(), s_.wide); }

    size_t ring_bytes(const RnnTeams& t) const {
        if (t.kind != Team::grid) return 0;
        return static_cast<size_t>(t.teams * rnn_ring_slots * t.kernel->rows * t.kernel->depth * t.kernel->planes * 2);
    }
    void book_forward() {
        forward_weights_ = forward_.book(static_cast<size_t>(ordered_words(forward_teams_)) * 16);
        forward_bias_ = forward_.book(bytes_of(p_.bias_count(), s_.wide));
        forward_ring_ = forward_.book(ring_bytes(forward_teams_));
    }
    void book_backward() {
        backward_weights_ = backward_.book(static_cast<size_t>(ordered_words(backward_teams_)) * 16);
        backward_ring_ = backward_.book(ring_bytes(backward_teams_));
        states_ = backward_.book(bytes_of(p_.counts().states * s_.rows * p_.width(), s_.wide));
        bias_sums_ = backward_.book(bias_sum_bytes());
        gradients_ = backward_.book(bytes_of(factor_rows() * s_.product(), s_.dtype));
        factors_ = backward_.book(bytes_of(factor_rows() * s_.factor(), s_.dtype));
        weight_sums_ = backward_.book(bytes_of(s_.weights(), s_.wide));
        blas_ = backward_.book(grad_weights_.workspace_bytes());
    }

    // Words of 16 bytes.
    int64_t ordered_words(const RnnTeams& t) const {
        return p_.heads * t.blocks * t.kernel->threads * t.kernel->planes * t.kernel->tiles * t.kernel->steps;
    }
    // `period`: of k in backward, 0 in forward.
    const void* order_weights(const RnnBuffers& b, void* to, const RnnTeams& t, int period, void* stream) const {
        const RnnFusedKernel& k = *t.kernel;
        const RnnFusedWeightParams params{b.weight,
                                          to,
                                          static_cast<int32_t>(s_.gates),
                                          static_cast<int32_t>(p_.heads),
                                          static_cast<int32_t>(p_.head_dim),
                                          t.blocks,
                                          k.row_gates,
                                          k.groups,
                                          k.unit_warps,
                                          k.parts,
                                          k.planes,
                                          k.tiles,
                                          k.steps,
                                          period};
        launch(order_weights_, threads_in_blocks(ordered_words(t), rnn_fused_weight_block), stream, params);
        return to;
    }

    RnnFusedParams common(const RnnBuffers& b, void* ring, const RnnTeams& t, void* stream) const {
        RnnFusedParams f;
        f.p = edges_.common(b);
        f.offsets = offsets_of(p_, b.seq_offsets);
        f.heads = static_cast<int32_t>(p_.heads);
        f.blocks = t.blocks;
        f.teams = static_cast<int32_t>(t.teams);
        f.tiles = static_cast<int32_t>(t.tiles);
        f.jobs = static_cast<int32_t>(t.jobs);
        f.ring = ring;
        fill_ring(ring, t, stream);
        return f;
    }
    void fill_ring(void* ring, const RnnTeams& t, void* stream) const {
        if (ring_bytes(t) > 0)
            check(cudaMemsetAsync(ring, 0xff, ring_bytes(t), static_cast<cudaStream_t>(stream)), "filling memory");
    }
    static void launch_teams(const RnnTeams& teams, RnnFusedParams& f, void* stream) {
        cudaLaunchAttribute attribute{};
        const cudaLaunchConfig_t config = configure(teams, attribute, stream);
        void* arguments[] = {&f};
        check(cudaLaunchKernelExC(&config, teams.kernel->function, arguments), "launching a fused kernel");
    }

    // Those of `steps` and more: products take whole chunks.
    void clear_factors(char* base, int64_t steps, void* stream) const {
        const int64_t there = steps * s_.rows, rows = factor_rows() - there;
        clear(base + gradients_ + bytes_of(there * s_.product(), s_.dtype), bytes_of(rows * s_.product(), s_.dtype),
              stream);
        clear(base + factors_ + bytes_of(there * s_.factor(), s_.dtype), bytes_of(rows * s_.factor(), s_.dtype),
              stream);
    }
    // The product of a chunk.
    void add_grad_weights(char* base, int64_t step, bool add, void* stream) const {
        const int64_t row = step * s_.rows;
        grad_weights_.together.run(base + factors_ + bytes_of(row * s_.factor(), s_.dtype),
                                   base + gradients_ + bytes_of(row * s_.product(), s_.dtype), base + weight_sums_, add,
                                   base + blas_, stream);
    }

    RnnProblem p_;
    int device_;
    int kept_;
    RnnShape s_;
    RnnEdges edges_;
    const void* order_weights_;
    RnnTeams forward_teams_, backward_teams_;
    RnnProducts grad_weights_;
    Workspace forward_, backward_;
    size_t forward_weights_ = 0, forward_bias_ = 0, forward_ring_ = 0;
    size_t backward_weights_ = 0, backward_ring_ = 0, states_ = 0, bias_sums_ = 0, gradients_ = 0, factors_ = 0;
    size_t weight_sums_ = 0, blas_ = 0;
};

// Why no fused kernel takes the problem; empty: one may.
std::string refuse(const RnnProblem& p, int device) {
    if (p.dtype == Dtype::f64) return "dtype is f64; takes f32, bf16 and f16";
    if (p.cell == Cell::gru_reset_before) return "the cell has two products a step, one after the other";
    if (p.batch == 0 || p.time == 0) return "there are no steps";
    if (p.time > std::numeric_limits<int32_t>::max())
        return fmt::format("time is {}; takes up to {}", p.time, std::numeric_limits<int32_t>::max());
    const int major = device_attribute(cudaDevAttrComputeCapabilityMajor, device);
    if (major < 9) return fmt::format("the device's compute capability is {}.x; needs 9.0", major);
    return "";
}

}  // namespace

std::unique_ptr<RnnKernel> make_rnn_fused(const RnnProblem& problem, const Options& options, std::string& refusal) {
    refusal = refuse(problem, options.device);
    if (!refusal.empty()) return nullptr;
    const DeviceScope scope(options.device);
    auto kernel = std::make_unique<Fused>(problem, options, refusal);
    return refusal.empty() ? std::move(kernel) : nullptr;
}

}  // namespace flashscan::cuda
