// SPDX-License-Identifier: Apache-2.0
// Gated layers run as the linear recurrence does (linear.cpp), by kernels that make its gates and inputs on the way.
#include "cpu/gated.h"

#include "core/workspace.h"
#include "cpu/isa.h"
#include "cpu/kernels/gated.h"
#include "cpu/linear_chain.h"
#include "cpu/linear_run.h"
#include "cpu/number.h"

namespace flashscan::cpu {
namespace {

// Sums of a channel: of PARAM and of BIAS.
constexpr int32_t sums_of_channel = 2;

LinearKernels kernels_for(Isa isa, const LinearVariant& variant) {
    return FLASHSCAN_OF_ISA(isa, gated_kernels(variant));
}

Tensor tensor(const void* data, Dtype dtype, const Strides& s) {
    return {static_cast<char*>(const_cast<void*>(data)), number_of(dtype), 1, s.batch, s.time, s.channels};
}

// The linear recurrence of the same shape, with a gate gradient that is summed over batch and time.
LinearProblem recurrence_of(const GatedProblem& p) {
    LinearProblem linear;
    static_cast<Sequences&>(linear) = p;
    linear.dtype = linear.gate_dtype = p.dtype;
    linear.layout = p.layout;
    linear.channels = p.channels;
    linear.gate_broadcast = broadcast_batch | broadcast_time;
    linear.input = p.gate;
    linear.grad_output = p.grad_output;
    return linear;
}

LinearPartition gated_partition(const GatedProblem& p, Pass pass, bool chunked, const Options& options, int threads) {
    LinearPartition q = partition(recurrence_of(p), pass, chunked, options.batch_invariant, threads);
    q.sum_batch = q.sum_time = pass == Pass::backward;
    q.gate_numbers = p.channels * sums_of_channel;
    if (q.chained && pass == Pass::backward) q.step_sums = q.gate_numbers;
    if (q.chained) q.scratch_bytes = chain_layout(q).bytes;
    if (q.chained) return q;
    q.slots = q.groups;
    q.scratch_bytes =
        pass == Pass::backward ? static_cast<size_t>(q.slots.named("SCRATCH") * q.gate_numbers * sizeof(double)) : 0;
    return q;
}

class Gated final : public GatedKernel {
  public:
    Gated(const GatedProblem& problem, const Options& options, bool chunked)
        : p_(problem),
          isa_(choose_isa()),
          threads_(thread_count(options.threads)),
          forward_(gated_partition(problem, Pass::forward, chunked, options, threads_)),
          backward_(gated_partition(problem, Pass::backward, chunked, options, threads_)) {
        for (LinearPartition* q : {&forward_, &backward_}) q->work_bytes = kernels_for(isa_, q->variant).work_bytes;
    }

    const LinearPartition& partition_of(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }

    std::string describe() const override {
        return fmt::format("{}, {} threads; forward {}; backward {}", name_of(isa_), threads_,
                           cpu::describe(forward_, isa_, p_.channels), cpu::describe(backward_, isa_, p_.channels));
    }
    size_t scratch_bytes(Pass pass) const override { return layout(partition_of(pass)).bytes; }

    void forward(const GatedBuffers& b, void*) const override {
        GatedCall call = common(b, forward_);
        call.output = tensor(b.output, p_.dtype, p_.output);
        if (p_.hides_state()) call.states = tensor(b.reserve, p_.dtype, p_.reserve_strides());
        call.start = static_cast<const char*>(b.state_in);
        call.end = static_cast<char*>(b.state_out);
        call.ascending = p_.direction == Direction::forward;
        if (b.output == b.input) call.stream_stores = false;
        run(call, forward_, b);
    }

    void backward(const GatedBuffers& b, void*) const override {
        GatedCall call = common(b, backward_);
        call.backward = true;
        call.states = tensor(b.states(), p_.dtype, p_.hides_state() ? p_.reserve_strides() : p_.output);
        call.grad_output = tensor(b.grad_output, p_.dtype, p_.grad_output);
        call.grad_input = tensor(b.grad_input, p_.dtype, p_.grad_input);
        call.grad_gates = tensor(b.grad_gate, p_.gate_dtype, p_.grad_gate);
        call.grad_second_gate = tensor(b.grad_second_gate, p_.gate_dtype, p_.grad_second_gate);
        call.grad_input_gate = tensor(b.grad_input_gate, p_.dtype, p_.grad_input_gate);
        call.grad_output_gate = tensor(b.grad_output_gate, p_.dtype, p_.grad_output_gate);
        // Only whether sums are wanted counts.
        if (b.grad_param != nullptr || b.grad_bias != nullptr) call.grad_gate.data = static_cast<char*>(b.scratch);
        call.start = static_cast<const char*>(b.grad_state_out);
        call.end = static_cast<char*>(b.grad_state_in);
        call.first_state = static_cast<const char*>(b.state_in);
        call.ascending = p_.direction == Direction::reverse;
        if (b.grad_input == b.grad_output) call.stream_stores = false;
        run(call, backward_, b);
    }

  private:
    // Places in scratch of the partition's part and of the memory of workers.
    struct Layout {
        size_t partition, work, bytes;
    };
    Layout layout(const LinearPartition& q) const {
        Workspace workspace;
        Layout at{};
        if (p_.empty()) return at;
        at.partition = workspace.book(q.scratch_bytes);
        at.work = workspace.book(static_cast<size_t>(workers_of(q, threads_) * q.work_bytes));
        at.bytes = workspace.bytes();
        return at;
    }

    GatedCall common(const GatedBuffers& buffers, const LinearPartition& q) const;
    void run(const GatedCall& call, const LinearPartition& q, const GatedBuffers& buffers) const;
    void store_sums(const GatedBuffers& buffers, const double* sums, int64_t slots) const;

    GatedProblem p_;
    Isa isa_;
    int threads_;
    LinearPartition forward_, backward_;
};

GatedCall Gated::common(const GatedBuffers& b, const LinearPartition& q) const {
    GatedCall call{};
    call.x.parts = 1;
    call.x.number = number_of(p_.dtype);
    call.grad_gate.parts = sums_of_channel;
    call.reset = b.reset;
    call.offsets = p_.packed() ? b.seq_offsets : nullptr;
    call.wide_offsets = p_.offsets_dtype == Dtype::i64;
    call.stream_stores = streams_outputs(p_.element_count() * size_of(p_.dtype));
    call.sum_batch = call.sum_time = q.sum_batch;
    call.rows = q.rows;
    call.time = p_.time;
    call.channels = p_.channels;
    call.chunk = q.chunk;
    call.input = tensor(b.input, p_.dtype, p_.input);
    call.gates = tensor(b.gate, p_.gate_dtype, p_.gate);
    call.second_gate = tensor(b.second_gate, p_.gate_dtype, p_.second_gate);
    call.input_gate = tensor(b.input_gate, p_.dtype, p_.input_gate);
    call.output_gate = tensor(b.output_gate, p_.dtype, p_.output_gate);
    call.param = tensor(b.param, p_.param_dtype, {0, 0, 1});
    call.bias = tensor(b.bias, p_.param_dtype, {0, 0, 1});
    call.parts = p_.parts;
    call.starts_with_one = p_.starts_with_one(b.state_in != nullptr);
    call.decay_rate = p_.decay_rate;
    call.sqrt_slope_limit = p_.sqrt_slope_limit;
    return call;
}

void Gated::run(const GatedCall& call, const LinearPartition& q, const GatedBuffers& b) const {
    auto* scratch = static_cast<char*>(b.scratch);
    char* work_memory = scratch + layout(q).work;
    const LinearKernels kernels = kernels_for(isa_, q.variant);
    if (q.chained) {
        ChunkChain chain(call, q, kernels, scratch, work_memory);
        chain.run();
        if (chain.sums()) store_sums(b, chain.totals(), 1);
        return;
    }
    auto* sums = call.grad_gate.data != nullptr ? reinterpret_cast<double*>(scratch) : nullptr;
    run_blocks(call, q, kernels, threads_, work_memory,
               [&](int64_t group, int64_t) { return sums == nullptr ? nullptr : sums + group * q.gate_numbers; });
    if (sums != nullptr) store_sums(b, sums, q.slots);
}

// The sums of `slots` partial sums in order.
void Gated::store_sums(const GatedBuffers& b, const double* sums, int64_t slots) const {
    void* const targets[sums_of_channel] = {b.grad_param, b.grad_bias};
    for (int64_t c = 0; c < p_.channels; ++c)
        for (int64_t k = 0; k < sums_of_channel; ++k) {
            if (targets[k] == nullptr) continue;
            double sum = 0;
            for (int64_t slot = 0; slot < slots; ++slot) sum += sums[(slot * p_.channels + c) * sums_of_channel + k];
            store_number(tensor(targets[k], p_.param_dtype, {}), c, sum);
        }
}

}  // namespace

std::unique_ptr<GatedKernel> make_gated_stream(const GatedProblem& problem, const Options& options, std::string&) {
    return std::make_unique<Gated>(problem, options, false);
}

std::unique_ptr<GatedKernel> make_gated_chunked(const GatedProblem& problem, const Options& options,
                                                std::string& refusal) {
    auto kernel = std::make_unique<Gated>(problem, options, true);
    refusal = refusal_of_chunks(kernel->partition_of(Pass::forward), kernel->partition_of(Pass::backward), problem.time,
                                problem.channels);
    if (!refusal.empty()) kernel = nullptr;
    return kernel;
}

}  // namespace flashscan::cpu
