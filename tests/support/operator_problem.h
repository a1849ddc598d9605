// SPDX-License-Identifier: Apache-2.0
// A test problem of associative operators: everything that a plan and its data depend on, with a one-line text form.
#pragma once

#include "support/data.h"

namespace support {

enum class OperatorValues {
    positive,  // nothing cancels: relative errors are those of the arithmetic
    sign,      // both signs, short problems
    ties       // small integers
};

struct OperatorProblem {
    int32_t kind = FLASHSCAN_OPERATOR_ADD;
    int32_t dtype = FLASHSCAN_DTYPE_F32;
    int32_t layout = FLASHSCAN_LAYOUT_BTC;
    int32_t mode = FLASHSCAN_MODE_INCLUSIVE;
    int64_t batch = 1, time = 1, channels = 1;
    int64_t dim = 0;       // of matmul and affine
    bool backward = true;  // both passes
    bool index = false;    // forward gives INDEX
    bool reverse = false;
    int64_t sequences = 0;
    int32_t offsets_dtype = FLASHSCAN_DTYPE_I64;
    bool state_in = false, state_out = false;  // state_out: STATE_OUT forward, GRAD|STATE_OUT backward
    bool pooled = false;                       // states are rows of a pool, with gaps between them
    bool batch_invariant = false, caller_scratch = false;
    bool allow_tf32 = false;
    bool custom = false;      // by CUDA source that computes the same, on a GPU
    bool misaligned = false;  // every array one element past an aligned address
    int32_t threads = 0;
    OperatorValues values = OperatorValues::positive;
    uint64_t seed = 1;

    // Integers have no gradients.
    bool integers() const { return is_integer(dtype); }
    bool affine() const { return kind == FLASHSCAN_OPERATOR_AFFINE; }
    bool matmul() const { return kind == FLASHSCAN_OPERATOR_MATMUL; }
    bool reduction() const { return mode == FLASHSCAN_MODE_REDUCTION; }
    int64_t element() const { return matmul() ? dim * dim : affine() ? dim : 1; }
    int64_t gate_element() const { return affine() ? dim * dim : 0; }
    int64_t elements() const { return batch * time * channels * element(); }
    int64_t state_rows() const { return sequences > 0 ? sequences : batch; }
    // The first number of an element in arrays of elements of `size` numbers that lie as in memory, and of a state.
    size_t place(int64_t b, int64_t t, int64_t c, int64_t size) const;
    size_t state_place(int64_t row, int64_t c) const { return static_cast<size_t>((row * channels + c) * element()); }
    // Axes of these arrays, time in the middle.
    std::array<int64_t, 3> extents(int64_t size) const;
    std::array<int64_t, 3> state_extents() const { return {state_rows(), 1, channels * element()}; }
    std::array<int64_t, 3> output_extents() const { return reduction() ? state_extents() : extents(element()); }
    // The same problem for the oracle: 64-bit, default options.
    OperatorProblem widened() const;
};

inline constexpr int32_t operator_gradients[] = {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_STATE_IN};
inline std::span<const int32_t> gradients_of(const OperatorProblem&) { return operator_gradients; }
inline uint32_t wanted_gradients(const OperatorProblem& p) { return p.backward ? 7 : 0; }

const char* mode_name(const OperatorProblem& problem);
// "operator matmul bwd f32 b2 t100 c1 d8 reduction", as lines of linear recurrences.
std::string text_of(const OperatorProblem& problem);
// Throws std::invalid_argument naming the word that is not understood.
OperatorProblem operator_problem_of(const std::string& text);

bool has_argument(const OperatorProblem& problem, int32_t id);
std::vector<int32_t> read_by(const OperatorProblem& problem, bool backward);
bool has_steps(const OperatorProblem& problem, int32_t id);
int32_t dtype_of(const OperatorProblem& problem, int32_t id);
Tensor tensor_of(const OperatorProblem& problem, int32_t id);
Tensor state_tensor(const OperatorProblem& problem);
// The operator as CUDA source; valid as long as the program runs. Throws std::invalid_argument where there is none.
const flashscan_custom_operator* operator_code(const OperatorProblem& problem);
flashscan_operator_desc desc_of(const OperatorProblem& problem);
flashscan_options options_of(const OperatorProblem& problem, int32_t backend, const std::string& kernel);
// Every kernel by name but the oracle, and the planner of every backend that has kernels; these and the oracle.
std::vector<Target> operator_kernel_targets();
std::vector<Target> operator_targets();

// In the order of memory, as values that the dtypes represent exactly.
struct OperatorData {
    Values input, gate, state_in, grad_output, grad_state_out;
    Values output;  // what backward reads; empty: what forward gave
    std::vector<int64_t> offsets;
};
OperatorData make_data(const OperatorProblem& problem);
int64_t written_time(const OperatorProblem& problem, const OperatorData& data);

}  // namespace support
