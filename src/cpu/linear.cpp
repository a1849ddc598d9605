// SPDX-License-Identifier: Apache-2.0
#include "cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/workspace.h"
#include "cpu/isa.h"
#include "cpu/linear_chain.h"
#include "cpu/linear_run.h"
#include "cpu/number.h"

namespace flashscan::cpu {
namespace {

LinearKernels kernels_for(Isa isa, const LinearVariant& variant) {
    return FLASHSCAN_OF_ISA(isa, linear_kernels(variant));
}

Tensor tensor(const void* data, Dtype dtype, const Strides& s) {
    const int32_t parts = is_complex(dtype) ? 2 : 1;
    return {static_cast<char*>(const_cast<void*>(data)),
            number_of(dtype),
            parts,
            s.batch * parts,
            s.time * parts,
            s.channels * parts};
}

class Linear final : public LinearKernel {
  public:
    Linear(const LinearProblem& problem, const Options& options, bool chunked)
        : p_(problem),
          isa_(choose_isa()),
          threads_(thread_count(options.threads)),
          forward_(partition(problem, Pass::forward, chunked, options.batch_invariant, threads_)),
          backward_(partition(problem, Pass::backward, chunked, options.batch_invariant, threads_)) {
        for (LinearPartition* q : {&forward_, &backward_}) q->work_bytes = kernels_for(isa_, q->variant).work_bytes;
    }

    const LinearPartition& partition_of(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }

    std::string describe() const override {
        return fmt::format("{}, {} threads; forward {}; backward {}", name_of(isa_), threads_, describe(forward_),
                           describe(backward_));
    }
    size_t scratch_bytes(Pass pass) const override { return layout(partition_of(pass)).bytes; }

    void forward(const LinearBuffers& buffers, void*) const override {
        LinearCall call = common(buffers, forward_);
        call.x = tensor(buffers.input, p_.dtype, p_.input);
        call.y = tensor(buffers.output, p_.dtype, p_.output);
        call.start = static_cast<const char*>(buffers.state_in);
        call.end = static_cast<char*>(buffers.state_out);
        call.ascending = p_.direction == Direction::forward;
        run(call, forward_, buffers);
    }

    void backward(const LinearBuffers& buffers, void*) const override {
        LinearCall call = common(buffers, backward_);
        call.backward = true;
        call.x = tensor(buffers.grad_output, p_.dtype, p_.grad_output);
        call.y = tensor(buffers.grad_input, p_.dtype, p_.grad_input);
        call.previous = tensor(buffers.grad_gate != nullptr ? buffers.output : nullptr, p_.dtype, p_.output);
        call.grad_gate = tensor(buffers.grad_gate, p_.gate_dtype, p_.grad_gate);
        call.start = static_cast<const char*>(buffers.grad_state_out);
        call.end = static_cast<char*>(buffers.grad_state_in);
        call.first_state = static_cast<const char*>(buffers.state_in);
        call.ascending = p_.direction == Direction::reverse;
        run(call, backward_, buffers);
    }

  private:
    // Places in scratch of the partition's part and of the memory of workers.
    struct Layout {
        size_t partition, work, bytes;
    };
    Layout layout(const LinearPartition& q) const {
        Workspace workspace;
        Layout at{};
        at.partition = workspace.book(q.scratch_bytes);
        at.work = workspace.book(static_cast<size_t>(workers(q) * q.work_bytes));
        at.bytes = workspace.bytes();
        return at;
    }
    int64_t workers(const LinearPartition& q) const {
        if (p_.batch == 0 || p_.time == 0 || p_.channels == 0) return 0;
        return workers_of(q, threads_);
    }

    std::string describe(const LinearPartition& q) const;
    LinearCall common(const LinearBuffers& buffers, const LinearPartition& q) const;
    void run(LinearCall& call, const LinearPartition& q, const LinearBuffers& buffers) const;
    void run_rows(LinearCall& call, const LinearPartition& q, char* scratch) const;
    void run_chunks(const LinearCall& call, const LinearPartition& q, char* scratch) const;
    void store_sums(const LinearCall& call, const double* sums, int64_t slots, int64_t slot_numbers) const;

    LinearProblem p_;
    Isa isa_;
    int threads_;
    LinearPartition forward_, backward_;
};

std::string Linear::describe(const LinearPartition& q) const {
    std::string text = cpu::describe(q, isa_, p_.channels);
    if (q.chained) return text;
    return text + (q.few_blocks ? ", few for the threads" : " for the threads");
}

LinearCall Linear::common(const LinearBuffers& buffers, const LinearPartition& q) const {
    LinearCall call{};
    call.gate = tensor(buffers.gate, p_.gate_dtype, p_.gate);
    call.reset = buffers.reset;
    call.offsets = p_.packed() ? buffers.seq_offsets : nullptr;
    call.wide_offsets = p_.offsets_dtype == Dtype::i64;
    call.stream_stores = streams_outputs(p_.batch * p_.time * p_.channels * size_of(p_.dtype));
    call.form = static_cast<int32_t>(p_.gate_form);
    call.sum_batch = q.sum_batch;
    call.sum_time = q.sum_time;
    call.sum_channels = q.sum_channels;
    call.rows = q.rows;
    call.time = p_.time;
    call.channels = p_.channels;
    call.chunk = q.chunk;
    return call;
}

void Linear::run(LinearCall& call, const LinearPartition& q, const LinearBuffers& buffers) const {
    if (call.x.data == call.y.data) call.stream_stores = false;
    auto* scratch = static_cast<char*>(buffers.scratch);
    if (q.chained)
        run_chunks(call, q, scratch);
    else
        run_rows(call, q, scratch);
}

void Linear::run_rows(LinearCall& call, const LinearPartition& q, char* scratch) const {
    const LinearKernels kernels = kernels_for(isa_, q.variant);
    auto* partial = q.slots > 1 && call.grad_gate.data != nullptr ? reinterpret_cast<double*>(scratch) : nullptr;
    const Extent partial_numbers = q.slots > 1 ? q.slots * q.gate_numbers : Extent();
    if (q.carries) call.carries = scratch + partial_numbers * int64_t(sizeof(double));
    const bool together = q.sum_time && (q.sum_batch || p_.packed());
    char* work_memory = scratch + layout(q).work;
    run_blocks(call, q, kernels, threads_, work_memory, [&](int64_t group, int64_t block) {
        const int64_t slot =
            (together ? group : 0) * (q.sum_channels ? q.blocks : Extent(1)) + (q.sum_channels ? block : 0);
        return partial == nullptr ? nullptr : partial + slot * q.gate_numbers;
    });
    if (partial != nullptr) store_sums(call, partial, q.slots, q.gate_numbers);
}

// Numbers of the gate gradient: sums of `slots` partial sums in order.
void Linear::store_sums(const LinearCall& call, const double* sums, int64_t slots, int64_t slot_numbers) const {
    const Tensor& t = call.grad_gate;
    // Steps past the last sequence are not written.
    const int64_t times =
        p_.gate_time() == 1 || call.offsets == nullptr ? int64_t{p_.gate_time()} : offset(call, p_.num_sequences);
    const int64_t channels = p_.gate_channels();
    auto store_row = [&](int64_t i) noexcept {
        const int64_t b = i / times, time = i % times;
        for (int64_t c = 0; c < channels; ++c)
            for (int32_t part = 0; part < t.parts; ++part) {
                const int64_t dense = ((b * p_.gate_time() + time) * channels + c) * t.parts + part;
                double sum = 0;
                for (int64_t slot = 0; slot < slots; ++slot) sum += sums[slot * slot_numbers + dense];
                store_number(t, b * t.batch + time * t.time + c * t.channels + part, sum);
            }
    };
    if (times > 0) parallel_for(threads_, p_.gate_batch() * times, false, store_row);
}

void Linear::run_chunks(const LinearCall& call, const LinearPartition& q, char* scratch) const {
    ChunkChain chain(call, q, kernels_for(isa_, q.variant), scratch, scratch + layout(q).work);
    chain.run();
    if (chain.sums()) store_sums(call, chain.totals(), 1, 0);
}

}  // namespace

std::unique_ptr<LinearKernel> make_linear_stream(const LinearProblem& problem, const Options& options, std::string&) {
    return std::make_unique<Linear>(problem, options, false);
}

std::unique_ptr<LinearKernel> make_linear_chunked(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal) {
    auto kernel = std::make_unique<Linear>(problem, options, true);
    refusal = refusal_of_chunks(kernel->partition_of(Pass::forward), kernel->partition_of(Pass::backward), problem.time,
                                problem.channels);
    if (!refusal.empty()) kernel = nullptr;
    return kernel;
}

}  // namespace flashscan::cpu
