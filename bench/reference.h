// SPDX-License-Identifier: Apache-2.0
// The CPU backend in 64 bits on a part of a problem, beside which the outputs of a pass are put.
#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>

#include "check.h"

namespace bench {

using Values = std::map<int32_t, std::vector<double>>;  // of arguments by their ids

inline bool is_state(int32_t id) {
    const int32_t argument = id & ~FLASHSCAN_GRAD;
    return argument == FLASHSCAN_ARG_STATE_IN || argument == FLASHSCAN_ARG_STATE_OUT;
}

template <typename P>
class Reference {
  public:
    // `part` is in 64 bits and dense; `kernel` may be null for the planner's choice. RESET and the offsets are empty
    // where there are none.
    Reference(P part, const char* kernel, std::vector<std::byte> reset, std::vector<int64_t> offsets)
        : part_(std::move(part)), reset_(std::move(reset)), offsets_(std::move(offsets)) {
        part_.threads = 0;
        part_.offsets_dtype = FLASHSCAN_DTYPE_I64;
        flashscan_options options{};
        options.struct_size = sizeof options;
        options.backend = FLASHSCAN_BACKEND_CPU;
        options.kernel = kernel;
        flashscan_plan* made = nullptr;
        expect_ok(make_plan(&made, part_, options));
        plan_.reset(made);
        if (!reset_.empty()) shared_.push_back({FLASHSCAN_ARG_RESET, 0, reset_.data(), reset_.size()});
        if (!offsets_.empty())
            shared_.push_back({FLASHSCAN_ARG_SEQ_OFFSETS, 0, offsets_.data(), offsets_.size() * sizeof(int64_t)});
        if (has_reserve(part_)) add_reserve();
    }

    // Runs a pass on the values that it reads, and returns those that it writes.
    Values run(bool backward, Values& values) {
        Values written;
        std::map<int32_t, std::vector<std::byte>> integers;
        std::vector<flashscan_arg> args = shared_;
        const auto add = [&](int32_t id, std::vector<double>& data) {
            const int32_t dtype = dtype_of(part_, id);
            if (!support::is_integer(dtype)) return args.push_back({id, 0, data.data(), data.size() * sizeof(double)});
            std::vector<std::byte>& bytes = integers[id] = integers_of(data, dtype);
            args.push_back({id, 0, bytes.data(), bytes.size()});
        };
        for (const int32_t id : read_by(part_, backward)) add(id, values.at(id));
        for (const int32_t id : written_by(part_, backward)) {
            const auto& extents = tensor_of(part_, id).extents;
            const int64_t numbers = is_complex(dtype_of(part_, id)) ? 2 : 1;
            written[id].resize(static_cast<size_t>(extents[0] * extents[1] * extents[2] * numbers));
            add(id, written[id]);
        }
        const int32_t pass = backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
        expect_ok(flashscan_execute(plan_.get(), pass, args.data(), static_cast<int32_t>(args.size()), nullptr));
        for (auto& [id, data] : written)
            if (integers.contains(id)) data = widen(integers[id], dtype_of(part_, id));
        return written;
    }

  private:
    static void expect_ok(flashscan_status status) {
        if (status != FLASHSCAN_STATUS_OK) throw Failure(fmt::format("reference: {}", flashscan_last_error()));
    }

    void add_reserve() {
        size_t bytes = 0;
        expect_ok(flashscan_plan_arg_bytes(plan_.get(), FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE, &bytes));
        memory_.resize(bytes + 256);
        void* aligned = memory_.data();
        size_t space = memory_.size();
        aligned = std::align(256, bytes, aligned, space);
        shared_.push_back({FLASHSCAN_ARG_RESERVE, 0, aligned, bytes});
    }

    P part_;
    std::unique_ptr<flashscan_plan, void (*)(flashscan_plan*)> plan_{nullptr, flashscan_plan_destroy};
    std::vector<std::byte> reset_;
    std::vector<int64_t> offsets_;
    std::vector<char> memory_;
    std::vector<flashscan_arg> shared_;
};

}  // namespace bench
