// SPDX-License-Identifier: Apache-2.0
// Gated layers run as the linear recurrence does (linear.cpp), by kernels that make its gates and inputs on the way.
#include "cpu/gated.h"

#include "core/workspace.h"
#include "cpu/gated_call.h"
#include "cpu/isa.h"
#include "cpu/linear_chain.h"
#include "cpu/linear_run.h"
#include "cpu/number.h"

namespace flashscan::cpu {
namespace {

class Gated final : public GatedKernel {
  public:
    Gated(const GatedProblem& problem, const Options& options, bool chunked)
        : p_(problem),
          isa_(choose_isa()),
          threads_(thread_count(options.threads)),
          forward_(gated_partition(problem, Pass::forward, chunked, options, threads_)),
          backward_(gated_partition(problem, Pass::backward, chunked, options, threads_)) {
        for (LinearPartition* q : {&forward_, &backward_})
            q->work_bytes = gated_kernels_for(isa_, q->variant).work_bytes;
    }

    const LinearPartition& partition_of(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }

    std::string describe() const override {
        return fmt::format("{}, {} threads; forward {}; backward {}", name_of(isa_), threads_,
                           cpu::describe(forward_, isa_, p_.channels), cpu::describe(backward_, isa_, p_.channels));
    }
    size_t scratch_bytes(Pass pass) const override { return layout(partition_of(pass)).bytes; }

    void forward(const GatedBuffers& b, void*) const override { run(Pass::forward, b); }
    void backward(const GatedBuffers& b, void*) const override { run(Pass::backward, b); }

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

    void run(Pass pass, const GatedBuffers& buffers) const;
    void store_sums(const GatedBuffers& buffers, const double* sums, int64_t slots) const;

    GatedProblem p_;
    Isa isa_;
    int threads_;
    LinearPartition forward_, backward_;
};

void Gated::run(Pass pass, const GatedBuffers& b) const {
    const LinearPartition& q = partition_of(pass);
    const GatedCall call = gated_call(p_, q, b, pass);
    auto* scratch = static_cast<char*>(b.scratch);
    char* work_memory = scratch + layout(q).work;
    const LinearKernels kernels = gated_kernels_for(isa_, q.variant);
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
            store_number(tensor_of(targets[k], p_.param_dtype, {}), c, sum);
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
