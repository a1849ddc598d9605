// SPDX-License-Identifier: Apache-2.0
#include "cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/workspace.h"
#include "cpu/isa.h"
#include "cpu/linear_call.h"
#include "cpu/linear_chain.h"
#include "cpu/linear_run.h"
#include "cpu/number.h"

namespace flashscan::cpu {
namespace {

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

    void forward(const LinearBuffers& buffers, void*) const override { run(Pass::forward, buffers); }
    void backward(const LinearBuffers& buffers, void*) const override { run(Pass::backward, buffers); }

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
    void run(Pass pass, const LinearBuffers& buffers) const;
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

void Linear::run(Pass pass, const LinearBuffers& buffers) const {
    const LinearPartition& q = partition_of(pass);
    LinearCall call = linear_call(p_, q, buffers, pass);
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
