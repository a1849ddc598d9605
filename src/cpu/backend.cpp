// SPDX-License-Identifier: Apache-2.0
#include "cpu/backend.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "core/error.h"
#include "cpu/empty.h"
#include "cpu/gated.h"
#include "cpu/isa.h"
#include "cpu/linear.h"
#include "cpu/operator.h"
#include "cpu/rnn.h"
#include "reference/gated.h"
#include "reference/linear.h"
#include "reference/operator.h"
#include "reference/rnn.h"

namespace flashscan::cpu {
namespace {

// Whatever kernel was chosen or forced, a problem without elements is left to one that does nothing.
template <auto make, typename Problem>
auto unless_empty(const Problem& problem, const Options& options, std::string& refusal) {
    auto kernel = make(problem, options, refusal);
    return kernel && problem.empty() ? make_empty(problem) : std::move(kernel);
}

constexpr LinearCandidate linear[] = {
    {"chunked", unless_empty<make_linear_chunked>},
    {"stream", unless_empty<make_linear_stream>},
    {"reference", unless_empty<reference::make_linear>},
};

constexpr RnnCandidate rnn[] = {
    {"blocked", unless_empty<make_rnn_blocked>},
    {"reference", unless_empty<reference::make_rnn>},
};

constexpr OperatorCandidate operators[] = {
    {"numbers", unless_empty<make_operator_numbers>}, {"matrices", unless_empty<make_operator_matrices>},
    {"affine", unless_empty<make_operator_affine>},   {"batched", unless_empty<make_operator_batched>},
    {"host", unless_empty<make_operator_host>},       {"reference", unless_empty<reference::make_operator>},
};

constexpr GatedCandidate gated[] = {
    {"chunked", unless_empty<make_gated_chunked>},
    {"stream", unless_empty<make_gated_stream>},
    {"reference", unless_empty<reference::make_gated>},
};

class CpuBackend final : public Backend {
  public:
    const char* name() const override { return "cpu"; }
    int32_t device_count() const override { return 1; }

    BackendFacts facts() const override {
        BackendFacts facts;
        for (const Isa isa : built_isas())
            facts.built_for += (facts.built_for.empty() ? "" : " ") + std::string(name_of(isa));
        try {
            facts.in_use = name_of(choose_isa());
        } catch (const Error&) {  // FLASHSCAN_CPU_ISA names none, which plans say
        }
        return facts;
    }

    void check(const Options& options) const override {
        if (options.device != 0) fail(Code::no_device, "device is {}; the cpu backend has device 0", options.device);
        if (options.threads < 0) fail(Code::invalid_argument, "threads is {}; accepted are 0 and up", options.threads);
    }

    std::span<const LinearCandidate> linear_candidates() const override { return linear; }
    std::span<const RnnCandidate> rnn_candidates() const override { return rnn; }
    std::span<const OperatorCandidate> operator_candidates() const override { return operators; }
    std::span<const GatedCandidate> gated_candidates() const override { return gated; }

    void* allocate(size_t bytes, const Options&, void*) const override {
        void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
        if (memory == nullptr) fail(Code::out_of_memory, "no host memory for {} bytes of scratch", bytes);
        return memory;
    }
    void release(void* memory, const Options&, void*) const noexcept override { std::free(memory); }
    std::shared_ptr<void> keep_scratch(size_t, const Options&) const override { return nullptr; }

    void check_memory(std::span<const ArgumentSpec>, std::span<const Argument>, const Options&) const override {}

    bool write_cookie(void* to, const void* from, size_t bytes, const Options&, void*) const override {
        std::memcpy(to, from, bytes);
        return true;
    }
    bool read_cookie(void* to, const void* from, size_t bytes, const Options&, void*) const override {
        std::memcpy(to, from, bytes);
        return true;
    }

    void copy_rows(const RowCopy& copy, const Options&, void*) const override {
        auto* to = static_cast<std::byte*>(copy.to);
        const auto* from = static_cast<const std::byte*>(copy.from);
        for (int64_t i = 0; i < copy.count; ++i)
            std::memcpy(to + i * copy.to_step, from + i * copy.from_step, static_cast<size_t>(copy.bytes));
    }

    int64_t count_launches(const std::function<void()>&) const override { return 0; }
    std::vector<int64_t> read_offsets(const void* offsets, Dtype dtype, int64_t count, const Options&,
                                      void*) const override {
        std::vector<int64_t> values(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i)
            values[static_cast<size_t>(i)] =
                dtype == Dtype::i32 ? static_cast<const int32_t*>(offsets)[i] : static_cast<const int64_t*>(offsets)[i];
        return values;
    }
};

}  // namespace

const Backend& backend() {
    static const CpuBackend instance;
    return instance;
}

}  // namespace flashscan::cpu
