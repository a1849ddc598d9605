// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "cuda/linear_pass.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

constexpr int reduce_threads = 256;

// `overlaps`: the kernel may begin while the one launched before it still runs.
template <typename... Params>
void launch(const void* kernel, dim3 grid, int threads, int shared_bytes, void* stream, bool overlaps,
            Params&... params) {
    void* arguments[] = {&params...};
    cudaLaunchAttribute overlap{};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
    config.stream = static_cast<cudaStream_t>(stream);
    config.attrs = &overlap;
    config.numAttrs = overlaps ? 1 : 0;
    check(cudaLaunchKernelExC(&config, kernel, arguments), "launching a kernel");
}

dim3 blocks_of(int64_t count) { return dim3(static_cast<unsigned>(count)); }

// Kernels can wait for one another from compute capability 9.0 on.
bool can_overlap(const LinearPass& pass, int device) {
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
          "asking for the compute capability");
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, pass.kernel()), "asking for a kernel's attributes");
    return major >= 9 && attributes.ptxVersion >= 90;
}

// A pass for tensors aligned as its strides allow, and for any other; the former is absent where strides rule it out.
struct PassVariants {
    std::optional<LinearPass> aligned;
    LinearPass any;

    const LinearPass& usual() const { return aligned ? *aligned : any; }
    std::vector<const LinearPass*> all() const {
        return aligned ? std::vector<const LinearPass*>{&*aligned, &any} : std::vector<const LinearPass*>{&any};
    }
};

class Linear final : public LinearKernel {
  public:
    Linear(const LinearProblem& problem, const Options& options, PassVariants forward, PassVariants backward)
        : p_(problem), device_(options.device), forward_(std::move(forward)), backward_(std::move(backward)) {
        const DeviceScope scope(device_);
        overlaps_ = can_overlap(forward_.any, device_);
        for (const PassVariants* variants : {&forward_, &backward_})
            for (const LinearPass* pass : variants->all())
                check(cudaFuncSetAttribute(pass->kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           pass->shared_bytes()),
                      "reserving shared memory for a kernel");
    }

    std::string describe() const override {
        return fmt::format("forward {}; backward {}", forward_.usual().describe(), backward_.usual().describe());
    }

    size_t scratch_bytes(Pass pass) const override {
        size_t bytes = 0;
        for (const LinearPass* p : (pass == Pass::forward ? forward_ : backward_).all())
            bytes = std::max(bytes, p->workspace.bytes());
        return bytes;
    }

    void forward(const LinearBuffers& b, void* stream) const override {
        const LinearPass& pass = pick(forward_, {b.input, b.output}, b.gate);
        const DeviceScope scope(device_);
        LinearParams params = common(pass, b);
        params.source = view_of(pass, b.input, p_.input, p_.dtype);
        params.result = view_of(pass, b.output, p_.output, p_.dtype);
        run(pass, params, b.state_in, b.state_out, b.scratch, stream);
    }

    void backward(const LinearBuffers& b, void* stream) const override {
        const void* output = b.grad_gate != nullptr ? b.output : nullptr;
        const LinearPass& pass = pick(backward_, {b.grad_output, output, b.grad_input}, b.gate, b.grad_gate);
        const DeviceScope scope(device_);
        LinearParams params = common(pass, b);
        params.source = view_of(pass, b.grad_output, p_.grad_output, p_.dtype);
        params.result = view_of(pass, b.grad_input, p_.grad_input, p_.dtype);
        if (b.grad_gate != nullptr) {
            params.states = view_of(pass, b.output, p_.output, p_.dtype);
            params.grad_gate = view_of(pass, b.grad_gate, p_.grad_gate, p_.gate_dtype);
            params.state_in = b.state_in;
        }
        run(pass, params, b.grad_state_out, b.grad_state_in, b.scratch, stream);
    }

  private:
    const LinearPass& pick(const PassVariants& variants, std::initializer_list<const void*> data, const void* gate,
                           const void* grad_gate = nullptr) const {
        if (!variants.aligned) return variants.any;
        const auto aligned = [&](const void* address, Dtype dtype) {
            const int64_t piece = alignment_of_access(*variants.aligned, dtype);
            return reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(piece) == 0;
        };
        const bool all = std::all_of(data.begin(), data.end(), [&](const void* x) { return aligned(x, p_.dtype); }) &&
                         aligned(gate, p_.gate_dtype) && aligned(grad_gate, p_.gate_dtype);
        return all ? *variants.aligned : variants.any;
    }

    LinearParams common(const LinearPass& pass, const LinearBuffers& b) const {
        LinearParams params;
        params.gate = view_of(pass, b.gate, p_.gate, p_.gate_dtype);
        params.reset = p_.has_reset ? b.reset : nullptr;
        if (p_.packed()) params.offsets = {b.seq_offsets, p_.num_sequences, p_.offsets_dtype == Dtype::i64, 0};
        params.gate_form = static_cast<int32_t>(p_.gate_form);
        params.batches = pass.batches;
        params.rows = pass.rows;
        params.row_groups = pass.tuning.row_groups;
        params.by_row_groups = divisor_of(static_cast<uint32_t>(pass.tuning.row_groups));
        params.time = p_.time;
        params.log2_lane_rows = pass.tuning.log2_lane_rows;
        params.log2_warp_rows = pass.tuning.log2_warp_rows;
        params.log2_group_chunks = pass.tuning.log2_group_chunks;
        params.log2_link_groups = pass.tuning.log2_link_groups;
        if (pass.sums_gate) {
            params.sum_batch = p_.broadcasts(broadcast_batch);
            params.sum_time = p_.broadcasts(broadcast_time);
            params.sum_rows = p_.broadcasts(broadcast_channels);
        }
        params.partial_time = pass.partial_time;
        params.partial_rows = pass.partial_rows;
        return params;
    }

    // One launch, or one for each piece that time is cut into, from the first to the last in the order of the walk.
    void run(const LinearPass& pass, LinearParams& params, const void* carry_in, void* carry_out, void* scratch,
             void* stream) const {
        if (params.offsets.data != nullptr) {
            params.carry_in = carry_in;
            params.carry_out = carry_out;
            pass_empty_sequences(pass, params, stream);
            carry_in = nullptr;
            carry_out = nullptr;
        }
        char* const base = static_cast<char*>(scratch);
        const bool sums = pass.sums_gate && params.grad_gate.data != nullptr;
        if (pass.batches * pass.rows == 0) {  // the sums of a gate that is broadcast over absent rows are zero
            if (sums) reduce(pass, params, 0, p_.time, stream);
            return;
        }
        const bool partial = sums && pass.partial_rows > 0;
        if (partial) params.partial = base + pass.partial;
        if (sums) params.batch_loop = pass.batch_loop;
        const int64_t launches = pass.launches();
        const int64_t steps = launches > 1 ? pass.launch_steps : p_.time;
        for (int64_t n = 0; n < launches; ++n) {
            const int64_t place = pass.down ? launches - 1 - n : n;
            params.begin = place * steps;
            params.end = std::min(params.begin + steps, p_.time);
            params.edge_in = n == 0 ? carry_in : base + pass.edges;
            params.edge_out = n == launches - 1 ? carry_out : base + pass.edges;
            launch_steps(pass, params, base, stream);
            if (partial) reduce(pass, params, params.begin, params.end, stream);
        }
    }

    void launch_steps(const LinearPass& pass, LinearParams& params, char* base, void* stream) const {
        const int64_t steps = params.end - params.begin;
        params.chunks =
            pass.streams() ? 1 : std::max<int64_t>((steps + pass.tuning.chunk_steps - 1) / pass.tuning.chunk_steps, 1);
        const bool looks_back = params.chunks > 1;
        if (looks_back) {
            params.records = base + pass.records;
            params.totals = base + pass.totals;
            params.carries = base + pass.carries;
            int64_t words = static_cast<int64_t>(pass.look_back_bytes / sizeof(uint64_t));
            launch(clear_look_back_kernel(), blocks_of(std::min<int64_t>((words + 255) / 256, 1024)), 256, 0, stream,
                   false, params.records, words);
        }
        // Rows first, so that blocks that run at once read what lies together and chunks begin long after those before.
        constexpr int64_t limit = 65535;
        const int64_t planes = (params.chunks + limit - 1) / limit, layers = (params.chunks + planes - 1) / planes;
        const dim3 grid(static_cast<unsigned>(pass.batches / params.batch_loop * pass.tuning.row_groups),
                        static_cast<unsigned>(layers), static_cast<unsigned>(planes));
        launch(pass.kernel(), grid, 32 * pass.tile().warps, pass.shared_bytes(), stream, looks_back && overlaps_,
               params);
    }

    void reduce(const LinearPass& pass, const LinearParams& params, int64_t begin, int64_t end, void* stream) const {
        ReduceParams r;
        r.partial = params.partial;
        r.grad_gate = params.grad_gate;
        r.batches = pass.batches / params.batch_loop;
        r.sum_batch = params.sum_batch;
        r.sum_time = params.sum_time;
        r.sum_rows = params.sum_rows;
        r.slots_rows = pass.partial_rows > 0 ? pass.partial_rows : pass.rows;  // without rows nothing is booked
        r.slots_time = r.sum_time == 0 ? end - begin : std::min(params.chunks, pass.partial_time);
        r.slots_stride = pass.partial_time;
        r.time_offset = begin;
        r.offsets = params.offsets;
        const int64_t sums =
            (r.sum_batch ? 1 : r.batches) * (r.sum_time ? 1 : r.slots_time) * (r.sum_rows ? 1 : r.slots_rows);
        if (sums == 0) return;
        const int64_t blocks = std::min<int64_t>((sums * 32 + reduce_threads - 1) / reduce_threads, 4096);
        launch(pass.kernels->reduce_gate_gradient, blocks_of(blocks), reduce_threads, 0, stream, false, r);
    }

    void pass_empty_sequences(const LinearPass& pass, const LinearParams& params, void* stream) const {
        if (params.carry_out == nullptr || p_.channels == 0) return;
        EmptyParams e;
        e.carry_in = params.carry_in;
        e.carry_out = params.carry_out;
        e.offsets = params.offsets;
        e.channels = p_.channels;
        launch(pass.kernels->pass_empty_sequences, blocks_of(std::min<int64_t>(p_.num_sequences, 1024)), 256, 0, stream,
               false, e);
    }

    LinearProblem p_;
    int device_;
    PassVariants forward_, backward_;
    bool overlaps_ = false;  // a kernel may begin before the one that clears its look-back memory has ended
};

// Names the device's own limit where a pass does not fit it.
std::string refusal_of(const LinearPass& pass, int device) {
    if (pass.blocks() > std::numeric_limits<int32_t>::max())
        return fmt::format("{} blocks are more than a grid's 2^31 - 1", pass.blocks());
    int available = 0;
    check(cudaDeviceGetAttribute(&available, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "asking for the shared memory of a block");
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, pass.kernel()), "asking for a kernel's attributes");
    const int needed = static_cast<int>(attributes.sharedSizeBytes) + pass.shared_bytes();
    if (needed > available)
        return fmt::format("a block needs {} bytes of shared memory, of which device {} has {}", needed, device,
                           available);
    return {};
}

PassVariants variants_of(const LinearProblem& problem, Pass pass, LinearAlgorithm algorithm, bool batch_invariant) {
    PassVariants variants;
    variants.any = make_linear_pass(problem, pass, algorithm, false, batch_invariant);
    if (algorithm == LinearAlgorithm::chunked && can_align(problem, pass, batch_invariant))
        variants.aligned = make_linear_pass(problem, pass, algorithm, true, batch_invariant);
    return variants;
}

std::unique_ptr<LinearKernel> make(const LinearProblem& problem, const Options& options, LinearAlgorithm algorithm,
                                   std::string& refusal) {
    const DeviceScope scope(options.device);
    PassVariants forward = variants_of(problem, Pass::forward, algorithm, options.batch_invariant);
    PassVariants backward = variants_of(problem, Pass::backward, algorithm, options.batch_invariant);
    for (const PassVariants* variants : {&forward, &backward})
        for (const LinearPass* pass : variants->all()) {
            refusal = refusal_of(*pass, options.device);
            if (!refusal.empty()) return nullptr;
        }
    return std::make_unique<Linear>(problem, options, std::move(forward), std::move(backward));
}

}  // namespace

std::unique_ptr<LinearKernel> make_linear_stream(const LinearProblem& problem, const Options& options,
                                                 std::string& refusal) {
    if (options.kernel.empty() &&
        choose_algorithm(problem, Pass::forward, options.batch_invariant) != LinearAlgorithm::stream) {
        refusal = "time may be cut into chunks, which run side by side";
        return nullptr;
    }
    return make(problem, options, LinearAlgorithm::stream, refusal);
}

std::unique_ptr<LinearKernel> make_linear_chunked(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal) {
    if (options.batch_invariant && problem.packed()) {
        refusal = "chunks of packed sequences begin where those before end, which BATCH_INVARIANT rules out";
        return nullptr;
    }
    return make(problem, options, LinearAlgorithm::chunked, refusal);
}

}  // namespace flashscan::cuda
