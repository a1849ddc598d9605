// SPDX-License-Identifier: Apache-2.0
// A test problem of selective scans: everything that a plan and its data depend on, with a one-line text form.
#pragma once

#include <map>
#include <span>

#include "support/data.h"
#include "support/pass_arguments.h"

namespace support {

struct SelectiveProblem {
    int32_t dtype = FLASHSCAN_DTYPE_F32, layout = FLASHSCAN_LAYOUT_BTC;
    bool complex = false;
    int64_t batch = 1, time = 1, channels = 1, states = 1, groups = 1;
    bool b_per_step = false, c_per_step = false, softplus = false;
    bool gate = false, skip = false, bias = false;  // OUTPUT_GATE, D and BIAS are given
    bool reverse = false, reset = false;
    int64_t sequences = 0;
    int32_t offsets_dtype = FLASHSCAN_DTYPE_I64;
    bool state_in = false, state_out = false;  // state_out: STATE_OUT forward, GRAD|STATE_OUT backward
    uint32_t gradients = 0x1ff;                // of selective_gradients, where there is the argument; 0: forward alone
    Placement placement = Placement::dense;
    bool forgets = false;     // A of each channel's first state is -inf
    bool far_deltas = false;  // DELTA before the softplus lies up to 60 from 0
    bool in_place = false, pooled = false, batch_invariant = false, caller_scratch = false;
    int32_t threads = 0;
    uint64_t seed = 1;

    int32_t real_dtype() const { return state_dtype(dtype); }
    int32_t matrix_dtype() const {
        if (!complex) return real_dtype();
        return dtype == FLASHSCAN_DTYPE_F64 ? FLASHSCAN_DTYPE_C128 : FLASHSCAN_DTYPE_C64;
    }
    int64_t elements() const { return batch * time * channels; }
    int64_t state_rows() const { return sequences > 0 ? sequences : batch; }
    int64_t group_of(int64_t c) const { return c / (channels / groups); }
    // Places among the values of a tensor, of a matrix and of the states.
    size_t at(int64_t b, int64_t t, int64_t c) const { return static_cast<size_t>((b * time + t) * channels + c); }
    size_t matrix_at(bool per_step, int64_t b, int64_t t, int64_t c, int64_t n) const {
        return static_cast<size_t>((per_step ? (b * time + t) * groups + group_of(c) : c) * states + n);
    }
    size_t state_at(int64_t row, int64_t c, int64_t n) const {
        return static_cast<size_t>((row * channels + c) * states + n);
    }
    // The same problem for the oracle: 64-bit, dense, default options, all gradients.
    SelectiveProblem widened() const;
};

inline constexpr int32_t selective_gradients[] = {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_DELTA, FLASHSCAN_ARG_OUTPUT_GATE,
                                                  FLASHSCAN_ARG_A,     FLASHSCAN_ARG_B,     FLASHSCAN_ARG_C,
                                                  FLASHSCAN_ARG_D,     FLASHSCAN_ARG_BIAS,  FLASHSCAN_ARG_STATE_IN};

inline std::span<const int32_t> gradients_of(const SelectiveProblem&) { return selective_gradients; }

// "selective bwd f32 BCT b2 t100 c32 n16 b-per-step c-per-step softplus", as lines of gated layers.
std::string text_of(const SelectiveProblem& problem);
// Throws std::invalid_argument naming the word that is not understood.
SelectiveProblem selective_problem_of(const std::string& text);
std::ostream& operator<<(std::ostream& stream, const SelectiveProblem& problem);

bool has_argument(const SelectiveProblem& problem, int32_t id);
// The tensors that a pass reads: all but RESET and SEQ_OFFSETS.
std::vector<int32_t> read_by(const SelectiveProblem& problem, bool backward);
// Whether an argument or its gradient has a value for each step.
bool has_steps(const SelectiveProblem& problem, int32_t id);
int32_t dtype_of(const SelectiveProblem& problem, int32_t id);
Tensor tensor_of(const SelectiveProblem& problem, int32_t id);
flashscan_selective_desc desc_of(const SelectiveProblem& problem);
flashscan_options options_of(const SelectiveProblem& problem, int32_t backend, const std::string& kernel);

// Every kernel of both backends by itself and the plan's choice; then the reference too.
std::vector<Target> selective_kernel_targets();
std::vector<Target> selective_targets();

struct SelectiveData {
    std::map<int32_t, Values> values;
    std::vector<unsigned char> reset;
    std::vector<int64_t> offsets;
};
SelectiveData make_data(const SelectiveProblem& problem);
// Steps from here on belong to no sequence.
int64_t written_time(const SelectiveProblem& problem, const SelectiveData& data);

}  // namespace support
