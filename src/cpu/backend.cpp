// SPDX-License-Identifier: Apache-2.0
#include "cpu/backend.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "cpu/empty.h"
#include "cpu/gated.h"
#include "cpu/isa.h"
#include "cpu/linear.h"
#include "cpu/operator.h"
#include "cpu/rnn.h"
#include "cpu/scratch_pool.h"
#include "cpu/selective.h"
#include "reference/gated.h"
#include "reference/linear.h"
#include "reference/operator.h"
#include "reference/rnn.h"
#include "reference/selective.h"
#include "reference/values.h"

namespace flashscan::cpu {
namespace {

// Whatever kernel was chosen or forced, a problem without elements is left to one that does nothing.
template <auto make, typename Problem>
auto unless_empty(const Problem& problem, const Options& options, std::string& refusal) {
    auto kernel = make(problem, options, refusal);
    return kernel && problem.empty() ? make_empty(problem) : std::move(kernel);
}

// A rank without steps still hands on what comes from those before it.
template <auto make>
std::unique_ptr<LinearKernel> over_ranks(const LinearProblem& problem, const Options& options, std::string& refusal) {
    auto kernel = unless_empty<make>(problem, options, refusal);
    return kernel && options.communicator ? make_linear_ranks(problem, options, std::move(kernel)) : std::move(kernel);
}
template <auto make>
std::unique_ptr<GatedKernel> over_ranks(const GatedProblem& problem, const Options& options, std::string& refusal) {
    auto kernel = unless_empty<make>(problem, options, refusal);
    return kernel && options.communicator ? make_gated_ranks(problem, options, std::move(kernel)) : std::move(kernel);
}
template <auto make>
std::unique_ptr<OperatorKernel> over_ranks(const OperatorProblem& problem, const Options& options,
                                           std::string& refusal) {
    auto kernel = unless_empty<make>(problem, options, refusal);
    return kernel && options.communicator ? make_operator_ranks(problem, options, std::move(kernel), make)
                                          : std::move(kernel);
}

template <auto make>
std::unique_ptr<SelectiveKernel> over_ranks(const SelectiveProblem& problem, const Options& options,
                                            std::string& refusal) {
    auto kernel = unless_empty<make>(problem, options, refusal);
    return kernel && options.communicator ? make_selective_ranks(problem, options, std::move(kernel))
                                          : std::move(kernel);
}

constexpr LinearCandidate linear[] = {
    {"chunked", over_ranks<make_linear_chunked>},
    {"stream", over_ranks<make_linear_stream>},
    {"reference", over_ranks<reference::make_linear>},
};

constexpr RnnCandidate rnn[] = {
    {"diagonal", unless_empty<make_rnn_diagonal>},
    {"blocked", unless_empty<make_rnn_blocked>},
    {"reference", unless_empty<reference::make_rnn>},
};

constexpr OperatorCandidate operators[] = {
    {"numbers", over_ranks<make_operator_numbers>}, {"matrices", over_ranks<make_operator_matrices>},
    {"affine", over_ranks<make_operator_affine>},   {"batched", over_ranks<make_operator_batched>},
    {"host", over_ranks<make_operator_host>},       {"reference", over_ranks<reference::make_operator>},
};

constexpr GatedCandidate gated[] = {
    {"chunked", over_ranks<make_gated_chunked>},
    {"stream", over_ranks<make_gated_stream>},
    {"reference", over_ranks<reference::make_gated>},
};

constexpr SelectiveCandidate selective[] = {
    {"vectors", over_ranks<make_selective_vectors>},
    {"reference", over_ranks<reference::make_selective>},
};

int64_t integer(const void* integers, Dtype dtype, int64_t i) {
    return dtype == Dtype::i32 ? static_cast<const int32_t*>(integers)[i] : static_cast<const int64_t*>(integers)[i];
}

// The tensor `spec`, from `axis` on, at `data`.
void clear(const ArgumentSpec& spec, size_t axis, std::byte* data) {
    const int64_t size = size_of(spec.dtype);
    const bool side_by_side = axis + 1 == spec.axes.count && spec.strides[axis] == 1;
    if (side_by_side || axis == spec.axes.count) {
        std::memset(data, 0, static_cast<size_t>((side_by_side ? spec.axes.extents[axis] : Extent(1)) * size));
        return;
    }
    for (int64_t i = 0; i < spec.axes.extents[axis]; ++i) clear(spec, axis + 1, data + i * spec.strides[axis] * size);
}

// Calls f(place, i) for element i of the tensor `spec`, in the order of dense memory, which is `place` elements from
// its first one.
template <typename F>
void for_each_element(const ArgumentSpec& spec, F&& f) {
    const int64_t count = spec.axes.product(spec.name);
    for (int64_t i = 0; i < count; ++i) {
        int64_t place = 0, rest = i;
        for (size_t axis = spec.axes.count; axis-- > 0; rest /= spec.axes.extents[axis])
            place += rest % spec.axes.extents[axis] * spec.strides[axis];
        f(place, i);
    }
}

class CpuBackend final : public Backend {
  public:
    const char* name() const override { return "cpu"; }
    int32_t device_count() const override { return 1; }

    BackendFacts facts() const override {
        BackendFacts facts;
        for (const Isa isa : built_isas())
            facts.built_for.append(facts.built_for.empty() ? "" : " ").append(name_of(isa));
        try {
            facts.in_use = name_of(choose_isa());
        } catch (const Error&) {  // FLASHSCAN_CPU_ISA names none, which plans say
        }
        return facts;
    }

    void settle(Options& options) const override {
        if (options.device != 0) fail(Code::no_device, "device is {}; the cpu backend has device 0", options.device);
        if (options.threads < 0) fail(Code::invalid_argument, "threads is {}; accepted are 0 and up", options.threads);
    }

    std::span<const LinearCandidate> linear_candidates() const override { return linear; }
    std::span<const RnnCandidate> rnn_candidates() const override { return rnn; }
    std::span<const OperatorCandidate> operator_candidates() const override { return operators; }
    std::span<const GatedCandidate> gated_candidates() const override { return gated; }
    std::span<const SelectiveCandidate> selective_candidates() const override { return selective; }

    void* allocate(size_t bytes, const Options&, void*) const override { return allocate_scratch(bytes); }
    void release(void* memory, const Options&, void*) const noexcept override { release_scratch(memory); }
    std::shared_ptr<void> keep_scratch(size_t bytes, const Options&) const override { return cpu::keep_scratch(bytes); }

    void check_memory(std::span<const ArgumentSpec>, std::span<const Argument>, const Options&) const override {}

    void write_cookie(void* reserve, const Cookie& cookie, const Options&, void*) const override {
        std::memcpy(reserve, &cookie, Cookie::bytes);
    }
    std::optional<Cookie> read_cookie(const void* reserve, const Options&, void*) const override {
        Cookie cookie;
        std::memcpy(&cookie, reserve, Cookie::bytes);
        return cookie;
    }

    void copy_rows(const RowCopy& copy, const Options&, void*) const override {
        auto* to = static_cast<std::byte*>(copy.to);
        const auto* from = static_cast<const std::byte*>(copy.from);
        for (int64_t i = 0; i < copy.count; ++i) {
            const int64_t to_row = copy.to_indices != nullptr ? copy.to_indices[i] : i;
            const int64_t from_row = copy.from_indices != nullptr ? copy.from_indices[i] : i;
            if (to_row < 0) continue;
            if (from_row < 0)
                std::memset(to + to_row * copy.to_step, 0, static_cast<size_t>(copy.bytes));
            else
                std::memcpy(to + to_row * copy.to_step, from + from_row * copy.from_step,
                            static_cast<size_t>(copy.bytes));
        }
    }

    void pack(const ArgumentSpec& spec, const void* data, void* dense, const Options&, void*) const override {
        for_each_element(
            spec, [&](int64_t place, int64_t i) { reference::convert(dense, spec.dtype, i, data, spec.dtype, place); });
    }
    void add_up(const ArgumentSpec& spec, const void* dense, size_t step, int32_t count, void* data, const Options&,
                void*) const override {
        for_each_element(spec, [&](int64_t place, int64_t i) {
            reference::Wide sum = 0;
            for (int32_t k = 0; k < count; ++k)
                sum += reference::load(static_cast<const char*>(dense) + static_cast<size_t>(k) * step, spec.dtype, i);
            reference::store(data, spec.dtype, place, sum);
        });
    }
    void gather(const Communicator& ranks, const void* send, void* receive, size_t bytes, const Options&,
                void* stream) const override {
        ranks.gather(send, receive, bytes, stream);
    }

    void gather_on_host(const Communicator& ranks, const void* send, void* receive, size_t bytes,
                        const Options&) const override {
        ranks.gather(send, receive, bytes, nullptr);
    }
    void connect(Options& options) const override {
        if (options.communicator.nccl_handle)
            fail(Code::unsupported,
                 "communicator.kind is COMM_NCCL, which plans of backend BACKEND_CUDA take; with "
                 "BACKEND_CPU accepted is COMM_CALLBACKS");
        if (options.communicator.carries == Carries::wavefront)
            fail(Code::unsupported,
                 "communicator.carries is CARRIES_WAVEFRONT, which plans of backend BACKEND_CUDA take; "
                 "with BACKEND_CPU accepted are 0 and CARRIES_GATHERED");
    }
    bool settles_ranks() const override { return false; }

    int64_t count_launches(const std::function<void()>&) const override { return 0; }
    std::vector<int64_t> read_integers(const void* integers, Dtype dtype, int64_t count, const Options&,
                                       void*) const override {
        std::vector<int64_t> values(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = integer(integers, dtype, i);
        return values;
    }

    void clear_memory(void* memory, size_t bytes, const Options&, void*) const override {
        std::memset(memory, 0, bytes);
    }
    void clear_rows(const ArgumentSpec& spec, void* data, const RowSelection& rows, const Options&,
                    void*) const override {
        const auto axis = static_cast<size_t>(rows.seq_offsets != nullptr ? spec.time_axis : spec.batch_axis);
        for (int64_t i = 0; i < rows.count; ++i) {
            if (rows.indices[i] >= 0) continue;
            ArgumentSpec part = spec;
            int64_t begin = i;
            part.axes.extents[axis] = 1;
            if (rows.seq_offsets != nullptr) {
                begin = integer(rows.seq_offsets, rows.offsets_dtype, i);
                part.axes.extents[axis] = integer(rows.seq_offsets, rows.offsets_dtype, i + 1) - begin;
            }
            clear(part, 0, static_cast<std::byte*>(data) + begin * spec.strides[axis] * size_of(spec.dtype));
        }
    }
};

}  // namespace

const Backend& backend() {
    static const CpuBackend instance;
    return instance;
}

}  // namespace flashscan::cpu
