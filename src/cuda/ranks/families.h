// SPDX-License-Identifier: Apache-2.0
// Tells ranks.cpp and wave.h what differs between linear recurrences and gated layers.
#pragma once

#include <algorithm>
#include <span>

#include "core/backend.h"
#include "core/communicator.h"
#include "core/error.h"

namespace flashscan::cuda {

// The bytes that a summary reads, and that a pass reads and writes, for a step of a row.
struct Traffic {
    double summary, pass;
};

struct LinearFamily {
    using Problem = LinearProblem;
    using Buffers = LinearBuffers;
    using Kernel = LinearKernel;
    static constexpr bool gathers = true;  // whether there are kernels that sum up steps
    static Dtype gate_dtype(const LinearProblem& p) { return p.gate_dtype; }
    static int64_t state_bytes(const LinearProblem& p) { return size_of(state_dtype(p.dtype)); }
    static const void* states(const Buffers& b) { return b.output; }
    static Strides state_strides(const LinearProblem& p) { return p.output; }
    static Traffic traffic(const LinearProblem& p, Pass pass) {
        const auto data = static_cast<double>(size_of(p.dtype));
        const double gate = p.gate_broadcast != 0 ? 0 : static_cast<double>(size_of(p.gate_dtype));
        return {data + gate, pass == Pass::forward ? 2 * data + gate : 3 * data + 2 * gate};
    }
    static void check_steps(const LinearProblem&, const Communicator&, std::span<const int64_t>) {}
};

struct GatedFamily {
    using Problem = GatedProblem;
    using Buffers = GatedBuffers;
    using Kernel = GatedKernel;
    static constexpr bool gathers = false;
    static Dtype gate_dtype(const GatedProblem& p) { return p.dtype; }  // only messages of summaries have gates
    static int64_t state_bytes(const GatedProblem& p) { return size_of(state_dtype(p.dtype)); }
    static const void* states(const GatedBuffers& b) { return b.states(); }
    static Strides state_strides(const GatedProblem& p) { return p.hides_state() ? p.reserve : p.output; }
    static Traffic traffic(const GatedProblem& p, Pass pass) {
        const auto data = static_cast<double>(size_of(p.dtype)), gate = static_cast<double>(size_of(p.gate_dtype));
        const double read =
            (1 + p.parts.has_input_gate() + p.parts.has_output_gate()) * data + (1 + p.parts.has_second_gate()) * gate;
        // Forward writes OUTPUT and maybe h; backward reads h and the gradient of OUTPUT, and has a gradient for all it
        // read.
        return {0, pass == Pass::forward ? read + (1 + p.hides_state()) * data : 2 * read + 2 * data};
    }
    // With GATED_FLAG_FIRST_STEP the first rank must have a step. Otherwise no rank would know whether its own first
    // step is the first of the sequence.
    static void check_steps(const GatedProblem& p, const Communicator& ranks, std::span<const int64_t> steps) {
        const int32_t first = ranks.place(0, p.direction);
        const bool any = std::any_of(steps.begin(), steps.end(), [](int64_t n) { return n > 0; });
        if (p.parts.first_step && any && steps[static_cast<size_t>(first)] == 0)
            fail(Code::unsupported,
                 "rank {} has no steps; with GATED_FLAG_FIRST_STEP the first rank to compute needs one", first);
    }
};

}  // namespace flashscan::cuda
