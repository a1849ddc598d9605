// SPDX-License-Identifier: Apache-2.0
// Which kernels take which problems.
#include "cuda/linear/candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "cuda/launch/device_code.h"
#include "cuda/linear/kernel.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

// Returns a sentence about the limit of the device that the pass exceeds; it is empty where the pass fits.
std::string refusal_of(const LinearPass& pass, int device) {
    const int available = shared_memory_of_block(device);
    const cudaFuncAttributes attributes = kernel_attributes(pass.kernel, "asking for a kernel's attributes");
    const int needed = static_cast<int>(attributes.sharedSizeBytes) + pass.grid.shared_bytes;
    if (needed > available)
        return fmt::format("a block needs {} bytes of shared memory, of which device {} has {}", needed, device,
                           available);
    return {};
}

std::unique_ptr<LinearKernel> make(const LinearProblem& problem, const Options& options, PassVariants forward,
                                   PassVariants backward, std::string& refusal) {
    for (const PassVariants* variants : {&forward, &backward})
        for (const LinearPassPointer& pass : *variants) {
            refusal = refusal_of(*pass, options.device);
            if (!refusal.empty()) return nullptr;
        }
    return make_linear_kernel(problem, options, std::move(forward), std::move(backward));
}

using MakePasses = decltype(make_rows_passes);

// Makes a kernel of the passes that `make_passes` offers, followed by passes of "chunked", which run where the former
// are absent or a call's tensors are not aligned as they need.
std::unique_ptr<LinearKernel> make_before_chunks(const LinearProblem& problem, const Options& options,
                                                 MakePasses* make_passes, std::string& refusal) {
    if (options.batch_invariant) {
        refusal = "kernels that share rows out by their number may take a call, which BATCH_INVARIANT rules out";
        return nullptr;
    }
    const DeviceScope scope(options.device);
    std::string forward_refusal, backward_refusal;
    PassVariants forward = make_passes(problem, Pass::forward, options, forward_refusal),
                 backward = make_passes(problem, Pass::backward, options, backward_refusal);
    if (forward.empty() && backward.empty()) {
        refusal = forward_refusal == backward_refusal
                      ? forward_refusal
                      : fmt::format("forward: {}; backward: {}", forward_refusal, backward_refusal);
        return nullptr;
    }
    const auto append_chunked = [&](PassVariants& to, Pass pass, std::string& why) {
        PassVariants chunked = make_chunked_passes(problem, pass, false);
        if (to.empty()) chunked.front()->refusal = std::move(why);
        std::move(chunked.begin(), chunked.end(), std::back_inserter(to));
    };
    append_chunked(forward, Pass::forward, forward_refusal);
    append_chunked(backward, Pass::backward, backward_refusal);
    return make(problem, options, std::move(forward), std::move(backward), refusal);
}

// The same where the device can run kernels that are compiled to machine code alone.
std::unique_ptr<LinearKernel> make_of_machine_code(const LinearProblem& problem, const Options& options,
                                                   MakePasses* make_passes, std::string& refusal) {
    refusal = code_refusal_of(Compiled::to_machine_code, options.device);
    return refusal.empty() ? make_before_chunks(problem, options, make_passes, refusal) : nullptr;
}

}  // namespace

std::unique_ptr<LinearKernel> make_linear_short_rows(const LinearProblem& problem, const Options& options,
                                                     std::string& refusal) {
    return make_of_machine_code(problem, options, make_short_rows_passes, refusal);
}

std::unique_ptr<LinearKernel> make_linear_rows(const LinearProblem& problem, const Options& options,
                                               std::string& refusal) {
    return make_of_machine_code(problem, options, make_rows_passes, refusal);
}

std::unique_ptr<LinearKernel> make_linear_columns(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal) {
    return make_of_machine_code(problem, options, make_columns_passes, refusal);
}

std::unique_ptr<LinearKernel> make_linear_few_long_rows(const LinearProblem& problem, const Options& options,
                                                        std::string& refusal) {
    return make_before_chunks(problem, options, make_few_long_rows_passes, refusal);
}

std::unique_ptr<LinearKernel> make_linear_chunked(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal) {
    const DeviceScope scope(options.device);
    return make(problem, options, make_chunked_passes(problem, Pass::forward, options.batch_invariant),
                make_chunked_passes(problem, Pass::backward, options.batch_invariant), refusal);
}

}  // namespace flashscan::cuda
