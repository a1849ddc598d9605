// SPDX-License-Identifier: Apache-2.0
// A test problem of gated layers: everything that a plan and its data depend on, with a one-line text form.
#pragma once

#include <map>
#include <span>

#include "support/data.h"
#include "support/pass_arguments.h"

namespace support {

enum class GatedValues {
    usual,      // gates everywhere between open and closed
    saturated,  // gates and inputs of up to 100
    growing     // gates by value and of exp make factors of 0.9 to 1.1
};

struct GatedProblem {
    int32_t dtype = FLASHSCAN_DTYPE_F32, gate_dtype = FLASHSCAN_DTYPE_F32, param_dtype = FLASHSCAN_DTYPE_F32;
    int32_t layout = FLASHSCAN_LAYOUT_BTC;
    int32_t layer = 0;  // 0: the parts, which are those of the layer otherwise
    int32_t decay = FLASHSCAN_GATED_DECAY_SIGMOID, scale = FLASHSCAN_GATED_SCALE_ONE;
    int32_t activation = FLASHSCAN_GATED_ACTIVATION_NONE, input_gating = FLASHSCAN_GATED_INPUT_GATE_NONE;
    int32_t epilogue = FLASHSCAN_GATED_EPILOGUE_NONE;
    bool first_step = false;
    int64_t batch = 1, time = 1, channels = 1;
    bool reverse = false, reset = false;
    int64_t sequences = 0;
    int32_t offsets_dtype = FLASHSCAN_DTYPE_I64;
    bool state_in = false, state_out = false;  // state_out: STATE_OUT forward, GRAD|STATE_OUT backward
    bool bias = true;
    uint32_t gradients = 0xff;  // of gradient_ids; 0: forward alone
    double decay_rate = 0, slope_limit = 0;
    Placement placement = Placement::dense;
    bool in_place = false, pooled = false, batch_invariant = false, caller_scratch = false;
    int32_t threads = 0;
    GatedValues values = GatedValues::usual;
    uint64_t seed = 1;

    // Takes over the parts of a layer.
    void set_layer(int32_t layer);
    bool has_second_gate() const { return decay == FLASHSCAN_GATED_DECAY_RATIO; }
    bool has_param() const {
        return decay == FLASHSCAN_GATED_DECAY_LOWER_BOUND || decay == FLASHSCAN_GATED_DECAY_SOFTPLUS;
    }
    bool has_input_gate() const { return input_gating != FLASHSCAN_GATED_INPUT_GATE_NONE; }
    bool has_output_gate() const { return epilogue != FLASHSCAN_GATED_EPILOGUE_NONE; }
    bool keeps_input() const {
        return activation != FLASHSCAN_GATED_ACTIVATION_NONE || has_input_gate() || scale != FLASHSCAN_GATED_SCALE_ONE;
    }
    bool is_softplus() const { return decay == FLASHSCAN_GATED_DECAY_SOFTPLUS; }
    double rate() const { return decay_rate == 0 ? 8 : decay_rate; }
    int64_t elements() const { return batch * time * channels; }
    int64_t state_rows() const { return sequences > 0 ? sequences : batch; }
    std::array<int64_t, 3> extents() const { return {batch, time, channels}; }
    size_t index(int64_t b, int64_t t, int64_t c) const { return static_cast<size_t>((b * time + t) * channels + c); }
    // The same problem for the oracle: 64-bit, dense, default options, all gradients.
    GatedProblem widened() const;
};

// The inputs whose gradients backward may write, in the order of GatedProblem::gradients.
inline constexpr int32_t gradient_ids[] = {
    FLASHSCAN_ARG_INPUT,       FLASHSCAN_ARG_GATE,  FLASHSCAN_ARG_SECOND_GATE, FLASHSCAN_ARG_INPUT_GATE,
    FLASHSCAN_ARG_OUTPUT_GATE, FLASHSCAN_ARG_PARAM, FLASHSCAN_ARG_BIAS,        FLASHSCAN_ARG_STATE_IN};

inline std::span<const int32_t> gradients_of(const GatedProblem&) { return gradient_ids; }

// The words of the layer: its name, or its parts.
std::string layer_text(const GatedProblem& problem);
// "gated bwd bf16 BTC b8 t4096 c2560 rglru no-bias": what is as in a new problem has no word; `bwd` runs forward too.
// flashscan_bench takes the same lines, and after `fwd` or `bwd` words may stand in any order.
std::string text_of(const GatedProblem& problem);
// Throws std::invalid_argument naming the word that is not understood.
GatedProblem gated_problem_of(const std::string& text);
std::ostream& operator<<(std::ostream& stream, const GatedProblem& problem);

// Whether the problem has this argument, gradients by the id of the argument itself.
bool has_argument(const GatedProblem& problem, int32_t id);
// The tensors that a pass reads: all but RESERVE, RESET and SEQ_OFFSETS.
std::vector<int32_t> read_by(const GatedProblem& problem, bool backward);
bool has_steps(const GatedProblem& problem, int32_t id);
int32_t dtype_of(const GatedProblem& problem, int32_t id);
Tensor tensor_of(const GatedProblem& problem, int32_t id);
flashscan_gated_desc desc_of(const GatedProblem& problem);
flashscan_options options_of(const GatedProblem& problem, int32_t backend, const std::string& kernel);
// Every kernel by name but the oracle and the planner of every backend that has kernels; these and the oracle.
std::vector<Target> gated_kernel_targets();
std::vector<Target> gated_targets();

// Values of every argument that is read, by its id, as numbers that its dtype represents exactly.
struct GatedData {
    std::map<int32_t, Values> values;
    std::vector<unsigned char> reset;
    std::vector<int64_t> offsets;
    double real(int32_t id, size_t place) const { return values.at(id)[place].real(); }
};
GatedData make_data(const GatedProblem& problem);
int64_t written_time(const GatedProblem& problem, const GatedData& data);

}  // namespace support
