// SPDX-License-Identifier: Apache-2.0
// This file sets the alignment that linear kernels demand of tensors, and tests what they demand of problems. A
// function whose name ends with _refusal returns why a problem is refused, or an empty string.
#include <fmt/format.h>

#include <vector>

#include "cuda/linear/pass.h"

namespace flashscan::cuda {
namespace {

// The alignment that each tensor must have for aligned access.
int64_t alignment_of_access(const LinearPass& pass, Dtype dtype) {
    if (pass.own_alignment != 0) return pass.own_alignment;
    if (pass.time_inner) return 16;
    // Lanes of one row load and store single elements, which is fast where each row of memory begins at a sector of
    // 32 bytes. Calls that are not aligned so take a variant which puts warps that share a sector into one block.
    return pass.lane_rows == 1 ? sector_bytes : pass.lane_rows * size_of(dtype);
}

}  // namespace

void settle_alignment(LinearPass& l, const LinearProblem& p, bool one_gate) {
    l.data_alignment = alignment_of_access(l, p.dtype);
    l.gate_alignment = one_gate ? size_of(p.gate_dtype) : alignment_of_access(l, p.gate_dtype);
}

const char* name_of(GateForm form) {
    return form == GateForm::log ? "log" : form == GateForm::logit ? "logit" : "value";
}

std::string names_of_broadcast(const LinearProblem& p) {
    std::string names;
    const auto add = [&](GateBroadcast axis, const char* name) {
        if (p.broadcasts(axis)) names += (names.empty() ? "" : "|") + std::string(name);
    };
    add(broadcast_batch, "batch");
    add(broadcast_time, "time");
    add(broadcast_channels, "channels");
    return names;
}

std::string empty_refusal(const LinearProblem& p) {
    if (!p.empty()) return {};
    return fmt::format("{} is 0; takes problems with elements", p.batch == 0  ? "batch"
                                                                : p.time == 0 ? "time"
                                                                              : "channels");
}

std::string plain_refusal(const LinearProblem& p) {
    if (p.packed()) return fmt::format("num_sequences is {}; takes 0", p.num_sequences);
    if (p.has_reset) return "flags is LINEAR_FLAG_RESET; takes 0";
    if (p.gate_form != GateForm::value) return fmt::format("gate_form is {}; takes value", name_of(p.gate_form));
    if (p.gate_broadcast != 0)
        return fmt::format("gate_broadcast is {}; takes a gate for each element", names_of_broadcast(p));
    return empty_refusal(p);
}

std::string alignment_refusal(const LinearPass& l, const LinearProblem& p, bool one_gate) {
    if (!l.time_inner && l.lane_rows == 1) return {};
    std::vector<Tensor> tensors = tensors_of(p, l.pass);
    if (!one_gate) tensors.push_back({"gate", p.gate, p.gate_dtype});
    if (l.pass == Pass::backward && (l.sums == GateSums::none || l.sums == GateSums::of_elements))
        tensors.push_back({"grad_gate", p.grad_gate, p.gate_dtype});
    for (const auto& [name, strides, dtype] : tensors) {
        const RowAxis time{"time", strides.time}, rows = row_axis(l, strides);
        const auto& [inner, step] = l.time_inner ? time : rows;
        const auto& [outer, line] = l.time_inner ? rows : time;
        const int64_t pack = alignment_of_access(l, dtype) / size_of(dtype);
        if (step != 1) return fmt::format("stride {}.{} is {}; takes 1", name, inner, step);
        if (line % pack != 0) return fmt::format("stride {}.{} is {}; takes multiples of {}", name, outer, line, pack);
        if (l.batches != 1 && strides.batch % pack != 0)
            return fmt::format("stride {}.batch is {}; takes multiples of {}", name, strides.batch, pack);
        const Extent extent = l.time_inner ? p.time : l.rows;
        if (extent % pack != 0) return fmt::format("{} is {}; takes multiples of {}", inner, extent, pack);
    }
    return {};
}

}  // namespace flashscan::cuda
