// SPDX-License-Identifier: Apache-2.0
#include "cuda/linear.h"

#include <algorithm>
#include <limits>

#include "cuda/linear_pass.h"
#include "cuda/loader/tensor_map.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

constexpr int reduce_threads = 256;

template <typename... Params>
void launch(const void* kernel, int64_t blocks, int threads, int shared_bytes, void* stream, Params&... params) {
    void* arguments[] = {&params...};
    check(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), arguments,
                           static_cast<size_t>(shared_bytes), static_cast<cudaStream_t>(stream)),
          "launching a kernel");
}

class Linear final : public LinearKernel {
  public:
    Linear(const LinearProblem& problem, const Options& options, const LinearPass& forward, const LinearPass& backward)
        : p_(problem), device_(options.device), forward_(forward), backward_(backward) {
        const DeviceScope scope(device_);
        for (const LinearPass* pass : {&forward_, &backward_})
            check(cudaFuncSetAttribute(pass->kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       pass->shared_bytes(true)),
                  "reserving shared memory for a kernel");
    }

    std::string describe() const override {
        return fmt::format("forward {}; backward {}", forward_.describe(), backward_.describe());
    }

    size_t scratch_bytes(Pass pass) const override {
        return (pass == Pass::forward ? forward_ : backward_).workspace.bytes();
    }

    void forward(const LinearBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        LinearMaps maps;
        LinearParams params = common(forward_, b, maps);
        params.source = view_of(forward_, b.input, p_.input, p_.dtype, maps.source);
        params.result = view_of(forward_, b.output, p_.output, p_.dtype, maps.result);
        run(forward_, params, maps, b.state_in, b.state_out, b.scratch, stream);
    }

    void backward(const LinearBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        LinearMaps maps;
        LinearParams params = common(backward_, b, maps);
        params.source = view_of(backward_, b.grad_output, p_.grad_output, p_.dtype, maps.source);
        params.result = view_of(backward_, b.grad_input, p_.grad_input, p_.dtype, maps.result);
        if (b.grad_gate != nullptr) {
            params.states = view_of(backward_, b.output, p_.output, p_.dtype, maps.states);
            params.grad_gate = view_of(backward_, b.grad_gate, p_.grad_gate, p_.gate_dtype, maps.grad_gate);
            params.state_in = b.state_in;
        }
        run(backward_, params, maps, b.grad_state_out, b.grad_state_in, b.scratch, stream);
    }

  private:
    LinearParams common(const LinearPass& pass, const LinearBuffers& b, LinearMaps& maps) const {
        LinearParams params;
        params.gate = view_of(pass, b.gate, p_.gate, p_.gate_dtype, maps.gate);
        params.reset = p_.has_reset ? b.reset : nullptr;
        if (p_.packed()) params.offsets = {b.seq_offsets, p_.num_sequences, p_.offsets_dtype == Dtype::i64, 0};
        params.gate_form = static_cast<int32_t>(p_.gate_form);
        params.batches = pass.batches;
        params.rows = pass.rows;
        params.row_groups = pass.tuning.row_groups;
        params.time = p_.time;
        params.log2_lane_rows = pass.tuning.log2_lane_rows;
        params.group_chunks = pass.tuning.group_chunks;
        params.sum_time = p_.broadcasts(broadcast_time);
        params.sum_rows = p_.broadcasts(broadcast_channels);
        params.partial_time = pass.partial_time;
        params.partial_rows = pass.partial_rows;
        return params;
    }

    // One launch, or one for each piece that time is cut into, from the first to the last in the order of the walk.
    void run(const LinearPass& pass, LinearParams& params, LinearMaps& maps, const void* carry_in, void* carry_out,
             void* scratch, void* stream) const {
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
        if (sums) params.partial = base + pass.partial;
        const int64_t launches = pass.launches();
        const int64_t steps = launches > 1 ? pass.launch_steps : p_.time;
        for (int64_t n = 0; n < launches; ++n) {
            const int64_t place = pass.down ? launches - 1 - n : n;
            params.begin = place * steps;
            params.end = std::min(params.begin + steps, p_.time);
            params.edge_in = n == 0 ? carry_in : base + pass.edges;
            params.edge_out = n == launches - 1 ? carry_out : base + pass.edges;
            launch_steps(pass, params, maps, base, stream);
            if (sums) reduce(pass, params, params.begin, params.end, stream);
        }
    }

    void launch_steps(const LinearPass& pass, LinearParams& params, LinearMaps& maps, char* base, void* stream) const {
        const bool stream_kernel = pass.tuning.algorithm == LinearAlgorithm::stream;
        const int64_t steps = params.end - params.begin;
        params.chunks =
            stream_kernel ? 1 : std::max<int64_t>((steps + pass.tuning.chunk_steps - 1) / pass.tuning.chunk_steps, 1);
        if (params.chunks > 1) {
            params.records = base + pass.records;
            params.carries = base + pass.carries;
            check(cudaMemsetAsync(params.records, 0xff, pass.record_bytes + pass.carry_bytes,
                                  static_cast<cudaStream_t>(stream)),
                  "clearing the look-back records");
        }
        const bool events = params.reset != nullptr || params.offsets.data != nullptr || params.state_in != nullptr;
        launch(pass.kernel(), params.chunks * pass.batches * pass.tuning.row_groups, 32 * pass.tile().warps,
               pass.shared_bytes(events), stream, params, maps);
    }

    void reduce(const LinearPass& pass, const LinearParams& params, int64_t begin, int64_t end, void* stream) const {
        ReduceParams r;
        r.partial = params.partial;
        r.grad_gate = params.grad_gate;
        r.batches = pass.batches;
        r.sum_batch = p_.broadcasts(broadcast_batch);
        r.sum_time = params.sum_time;
        r.sum_rows = params.sum_rows;
        r.slots_rows = pass.partial_rows;
        r.slots_time = r.sum_time == 0 ? end - begin : std::min(params.chunks, pass.partial_time);
        r.slots_stride = pass.partial_time;
        r.time_offset = begin;
        r.offsets = params.offsets;
        const int64_t sums =
            (r.sum_batch ? 1 : r.batches) * (r.sum_time ? 1 : r.slots_time) * (r.sum_rows ? 1 : r.slots_rows);
        if (sums == 0) return;
        const int64_t blocks = std::min<int64_t>((sums * 32 + reduce_threads - 1) / reduce_threads, 4096);
        launch(pass.kernels->reduce_gate_gradient, blocks, reduce_threads, 0, stream, r);
    }

    void pass_empty_sequences(const LinearPass& pass, const LinearParams& params, void* stream) const {
        if (params.carry_out == nullptr || p_.channels == 0) return;
        EmptyParams e;
        e.carry_in = params.carry_in;
        e.carry_out = params.carry_out;
        e.offsets = params.offsets;
        e.channels = p_.channels;
        launch(pass.kernels->pass_empty_sequences, std::min<int64_t>(p_.num_sequences, 1024), 256, 0, stream, e);
    }

    LinearProblem p_;
    int device_;
    LinearPass forward_, backward_;
};

struct DeviceFacts {
    int compute_capability_major = 0;
    int shared_bytes = 0;  // that a block can have
};

DeviceFacts facts_of(int device) {
    DeviceFacts facts;
    check(cudaDeviceGetAttribute(&facts.compute_capability_major, cudaDevAttrComputeCapabilityMajor, device),
          "asking for the compute capability");
    check(cudaDeviceGetAttribute(&facts.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          "asking for the shared memory of a block");
    return facts;
}

cudaFuncAttributes attributes_of(const LinearPass& pass) {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, pass.kernel()), "asking for a kernel's attributes");
    return attributes;
}

// The pass as it fits the device: chunks need more shared memory than some have, and only code compiled for compute
// capability 9.0 and up can drive the bulk copy engine.
LinearPass settle(const LinearProblem& problem, Pass pass, LinearAlgorithm algorithm, const Options& options,
                  const DeviceFacts& device) {
    LinearPass l = make_linear_pass(problem, pass, algorithm, options.batch_invariant);
    cudaFuncAttributes attributes = attributes_of(l);
    if (static_cast<int>(attributes.sharedSizeBytes) + l.shared_bytes(true) > device.shared_bytes) {
        l = make_linear_pass(problem, pass, LinearAlgorithm::stream, options.batch_invariant);
        attributes = attributes_of(l);
    }
    l.bulk = has_bulk_copies(device.compute_capability_major) && attributes.ptxVersion >= 90 && l.worth_bulk();
    return l;
}

std::unique_ptr<LinearKernel> make(const LinearProblem& problem, const Options& options, LinearAlgorithm algorithm,
                                   std::string& refusal) {
    const DeviceScope scope(options.device);
    const DeviceFacts device = facts_of(options.device);
    const LinearPass forward = settle(problem, Pass::forward, algorithm, options, device);
    const LinearPass backward = settle(problem, Pass::backward, algorithm, options, device);
    for (const LinearPass* pass : {&forward, &backward})
        if (pass->blocks() > std::numeric_limits<int32_t>::max()) {
            refusal = fmt::format("{} blocks are more than a grid's 2^31 - 1", pass->blocks());
            return nullptr;
        }
    return std::make_unique<Linear>(problem, options, forward, backward);
}

}  // namespace

std::unique_ptr<LinearKernel> make_linear_stream(const LinearProblem& problem, const Options& options,
                                                 std::string& refusal) {
    if (options.kernel.empty() &&
        choose_algorithm(problem, Pass::forward, options.batch_invariant) != LinearAlgorithm::stream) {
        refusal = fmt::format("{} steps are worth cutting into chunks", problem.time);
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
