// SPDX-License-Identifier: Apache-2.0
// A test problem of recurrent networks: everything that a plan and its data depend on, with a one-line text form.
#pragma once

#include "support/cells.h"
#include "support/data.h"

namespace support {

enum class RnnValues {
    usual,      // gates everywhere between open and closed, R of spectral radius about 1
    saturated,  // pre-activations of up to 40
    large,      // of up to 4000
    loose       // R = 0: heads of independent elements, whose states nothing mixes
};

enum RnnGradient : uint32_t {
    rnn_gradient_input = 1,
    rnn_gradient_weight = 2,
    rnn_gradient_bias = 4,
    rnn_gradient_state = 8
};

struct RnnProblem {
    int32_t cell = FLASHSCAN_CELL_LSTM;
    int32_t dtype = FLASHSCAN_DTYPE_F32, weight_dtype = FLASHSCAN_DTYPE_F32;
    int32_t layout = FLASHSCAN_LAYOUT_BTGHD;
    int64_t batch = 1, time = 1, heads = 1, dim = 1;
    bool backward = true;   // a training plan, and both passes
    bool training = false;  // a training plan for forward alone, which fills RESERVE
    bool reverse = false, reset = false;
    int64_t sequences = 0;
    int32_t offsets_dtype = FLASHSCAN_DTYPE_I64;
    bool state_in = false, state_out = false;  // state_out: STATE_OUT forward, GRAD|STATE_OUT backward
    bool bias = true, all_states = false;
    bool allow_tf32 = false;  // of f32 data
    uint32_t gradients = 15;  // GRAD|STATE_IN only together with state_in
    double clip = 0;
    bool pooled = false;  // states are rows of a pool, with gaps between them
    bool batch_invariant = false, caller_scratch = false;
    int32_t threads = 0;
    RnnValues values = RnnValues::usual;
    uint64_t seed = 1;

    bool trains() const { return backward || training; }
    bool takes_tf32() const { return allow_tf32 && dtype == FLASHSCAN_DTYPE_F32; }
    int64_t gates() const;
    int64_t biases() const;
    int64_t states() const;
    int64_t output_states() const { return all_states ? states() : 1; }
    int64_t width() const { return heads * dim; }
    int64_t elements() const { return batch * time * width(); }
    int64_t state_rows() const { return sequences > 0 ? sequences : batch; }
    // Places in arrays that lie as in memory.
    size_t input_index(int64_t b, int64_t t, int64_t gate, int64_t w) const;
    size_t output_index(int64_t state, int64_t b, int64_t t, int64_t w) const;
    size_t state_index(int64_t state, int64_t row, int64_t w) const;
    // Their three axes, time in the middle.
    std::array<int64_t, 3> input_extents() const;
    std::array<int64_t, 3> output_extents() const;
    std::array<int64_t, 3> weight_extents() const { return {gates() * heads * dim, 1, dim}; }
    std::array<int64_t, 3> bias_extents() const { return {biases(), 1, width()}; }
    std::array<int64_t, 3> state_extents() const { return {states() * state_rows(), 1, width()}; }
    // The same problem for the oracle: 64-bit, all states, default options.
    RnnProblem widened() const;
};

inline uint32_t wanted_gradients(const RnnProblem& p) { return p.backward ? p.gradients : 0; }
std::vector<int32_t> gradients_of(const RnnProblem& problem);

// "rnn lstm fwd bf16 b16 t1024 h1 d768", as lines of linear recurrences.
std::string text_of(const RnnProblem& problem);
// Throws std::invalid_argument naming the word that is not understood.
RnnProblem rnn_problem_of(const std::string& text);
std::ostream& operator<<(std::ostream& stream, const RnnProblem& problem);

bool has_argument(const RnnProblem& problem, int32_t id);
std::vector<int32_t> read_by(const RnnProblem& problem, bool backward);
bool has_steps(const RnnProblem& problem, int32_t id);
int32_t dtype_of(const RnnProblem& problem, int32_t id);
Tensor tensor_of(const RnnProblem& problem, int32_t id);
Tensor state_tensor(const RnnProblem& problem);
flashscan_rnn_desc desc_of(const RnnProblem& problem);
flashscan_options options_of(const RnnProblem& problem, int32_t backend, const std::string& kernel);
// Every kernel by name but the oracle, and the planner of every backend that has kernels; these and the oracle.
std::vector<Target> rnn_kernel_targets();
std::vector<Target> rnn_targets();

// The problem in heads that the kernel of a target takes: "diagonal" and "diagonal_newton" take heads of one unit.
RnnProblem fitted(RnnProblem problem, const Target& target);

// In the order of memory, as values that the dtypes represent exactly.
struct RnnData {
    Values input, weight, bias, state_in, grad_output, grad_state_out;
    std::vector<unsigned char> reset;
    std::vector<int64_t> offsets;
};
RnnData make_data(const RnnProblem& problem);
int64_t written_time(const RnnProblem& problem, const RnnData& data);

}  // namespace support
