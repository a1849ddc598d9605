// SPDX-License-Identifier: Apache-2.0
// Which kernels take which problems.
#include "cuda/linear/candidates.h"

#include <fmt/format.h>

#include <array>
#include <iterator>
#include <limits>

#include "cuda/launch/device_code.h"
#include "cuda/linear/kernel.h"
#include "cuda/loader/tensor_map.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

// Returns a sentence about the limit of the device that the pass exceeds; it is empty where the pass fits.
std::string refusal_of(const LinearPass& pass, int device) {
    if (pass.blocks > std::numeric_limits<int32_t>::max())
        return fmt::format("{} blocks are more than a grid's 2^31 - 1", pass.blocks);
    const int available = shared_memory_of_block(device);
    const cudaFuncAttributes attributes = kernel_attributes(pass.kernel, "asking for a kernel's attributes");
    const int needed = static_cast<int>(attributes.sharedSizeBytes) + pass.shared_bytes;
    if (needed > available)
        return fmt::format("a block needs {} bytes of shared memory, of which device {} has {}", needed, device,
                           available);
    return {};
}

// Passes of the kernel "chunked". With time innermost one kernel finds out by itself what is aligned. Sequences that
// have chunks of their own begin anywhere, so that these are not aligned.
PassVariants chunked_variants(const LinearProblem& problem, Pass pass, bool batch_invariant) {
    PassVariants variants;
    LinearPassPointer any = make_chunked_pass(problem, pass, false, batch_invariant);
    const bool by_sequence = batch_invariant && problem.packed();
    if (!any->time_inner && !by_sequence && can_align(problem, pass, batch_invariant))
        variants.push_back(make_chunked_pass(problem, pass, true, batch_invariant));
    variants.push_back(std::move(any));
    return variants;
}

// What the device or the build lacks for a kernel that is compiled to machine code alone, and for one that is fed by the
// bulk copy engine (TMA), in a sentence.
std::string machine_code_refusal_of(const void* /*kernel*/, int device) {
    return code_refusal_of(Compiled::to_machine_code, device);
}
std::string copy_engine_refusal_of(const void* kernel, int device) {
    if (device_attribute(cudaDevAttrComputeCapabilityMajor, device) < 9 || !has_tensor_maps())
        return fmt::format("device {} has no bulk copy engine, which compute capability 9.0 brings", device);
    if (kernel_attributes(kernel).ptxVersion < 90)
        return "the library was built without code of compute capability 9.0";
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
void append(PassVariants& to, LinearPassPointer pass) {
    if (pass) to.push_back(std::move(pass));
}

// Makes a kernel of the passes that `make_passes` offers, followed by passes of "chunked", which run where the former
// are absent or a call's tensors are not aligned as they need. `takes` is the refusal where neither direction has such a
// pass, `lacks` gives the one where the device or the build cannot run their kernels.
template <typename MakePasses, typename Lacks>
std::unique_ptr<LinearKernel> make_before_chunks(const LinearProblem& problem, const Options& options,
                                                 MakePasses&& make_passes, const char* takes, Lacks&& lacks,
                                                 std::string& refusal) {
    if (options.batch_invariant) {
        refusal = "rows are shared out by their number, which BATCH_INVARIANT rules out";
        return nullptr;
    }
    const DeviceScope scope(options.device);
    std::array<PassVariants, 2> variants;
    const void* kernel = nullptr;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
        PassVariants& all = variants[pass == Pass::backward];
        all = chunked_variants(problem, pass, false);
        PassVariants preferred = make_passes(pass);
        if (preferred.empty()) continue;
        kernel = preferred.front()->kernel;
        all.insert(all.begin(), std::move_iterator(preferred.begin()), std::move_iterator(preferred.end()));
    }
    refusal = kernel == nullptr ? takes : lacks(kernel, options.device);
    if (!refusal.empty()) return nullptr;
    return make(problem, options, std::move(variants[0]), std::move(variants[1]), refusal);
}

// Whether "few_long_rows" takes both passes of the problem, and is expected to be faster than groups of "rows".
bool waves_take(const LinearProblem& problem, int device) {
    const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount, device);
    for (const Pass pass : {Pass::forward, Pass::backward}) {
        const auto waves = make_few_long_rows_pass(problem, pass, multiprocessors, true);
        if (!waves || !copy_engine_refusal_of(waves->kernel, device).empty()) return false;
    }
    return true;
}

}  // namespace

std::unique_ptr<LinearKernel> make_linear_rows(const LinearProblem& problem, const Options& options,
                                               std::string& refusal) {
    return make_before_chunks(
        problem, options,
        [&](Pass pass) {
            const bool must_suit = options.kernel.empty();
            PassVariants passes;
            for (const bool skewed : {false, true}) append(passes, make_rows_pass(problem, pass, skewed, must_suit));
            const bool grouped = !passes.empty() && passes.front()->params.grouped != 0;
            if (grouped && must_suit && waves_take(problem, options.device)) passes.clear();
            return passes;
        },
        "takes rows with time innermost, many or long but for those that few_long_rows takes, strides that are alike "
        "in multiples of 16 bytes, and 16-bit gates by value where steps are reset or packed, as backward complex "
        "gates are; backward 16-bit gates of each element, or shared by all steps and by value",
        machine_code_refusal_of, refusal);
}

std::unique_ptr<LinearKernel> make_linear_columns(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal) {
    return make_before_chunks(
        problem, options,
        [&](Pass pass) {
            PassVariants passes;
            const bool must_suit = options.kernel.empty();
            // Lanes of one row make strips that are half as wide, and longer chunks. Of two variants that suit, the
            // wide one is kept unless it cuts time into chunks where the narrow one does not, or has few strips.
            auto wide = make_columns_pass(problem, pass, 2, false, must_suit);
            auto narrow = make_columns_pass(problem, pass, 1, false, must_suit);
            if (wide && narrow && must_suit)
                (wide->params.grouped != 0 || (wide->params.chunks > 1 && narrow->params.chunks == 1) ? wide : narrow)
                    .reset();
            append(passes, std::move(wide));
            append(passes, std::move(narrow));
            append(passes, make_columns_pass(problem, pass, 2, true, must_suit));
            return passes;
        },
        "takes many rows with channels innermost, aligned but for 16-bit data, and 16-bit gates by value where steps "
        "are reset or packed, as backward complex gates are",
        machine_code_refusal_of, refusal);
}

std::unique_ptr<LinearKernel> make_linear_few_long_rows(const LinearProblem& problem, const Options& options,
                                                        std::string& refusal) {
    const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount, options.device);
    return make_before_chunks(
        problem, options,
        [&](Pass pass) {
            PassVariants passes;
            append(passes, make_few_long_rows_pass(problem, pass, multiprocessors, options.kernel.empty()));
            return passes;
        },
        "takes few long rows, up to 64 with time innermost, in multiples of 16 bytes of time, or of channels but "
        "for f32 forward, neither packed nor reset, in f32, bf16 or f16 with a gate by value for each element",
        copy_engine_refusal_of, refusal);
}

std::unique_ptr<LinearKernel> make_linear_chunked(const LinearProblem& problem, const Options& options,
                                                  std::string& refusal) {
    const DeviceScope scope(options.device);
    return make(problem, options, chunked_variants(problem, Pass::forward, options.batch_invariant),
                chunked_variants(problem, Pass::backward, options.batch_invariant), refusal);
}

}  // namespace flashscan::cuda
