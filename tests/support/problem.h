// SPDX-License-Identifier: Apache-2.0
// A test problem: everything that a linear recurrence plan and its data depend on, with a one-line text form that a
// failure prints and FLASHSCAN_TEST_CASE takes.
#pragma once

#include <flashscan/flashscan.h>

#include <array>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "support/number.h"
#include "support/pass_arguments.h"

namespace support {

// The ways in which tensors lie in memory.
enum class Placement {
    dense,       // strides left at zero
    fused,       // one half of a tensor with twice the channels
    transposed,  // the other layout, by strides
    padded,      // gaps after each row and each batch
    misaligned,  // dense, one element past an aligned address
    spread,      // every second element
    time_major,  // [T, B, C]
    mixed        // each tensor another of the above
};
inline constexpr int placement_count = 8;

enum class Gates {
    mixed,  // magnitudes up to 1, exact 0 and +-1 among them
    ones,   // a = 1 wherever the form can express it
    large,  // magnitudes up to 1.5
    range   // products leave the range of the arithmetic's type and return, no state does
};

enum Gradient : uint32_t {
    gradient_input = 1,
    gradient_gate = 2,
    gradient_state = 4
};

struct Problem {
    int32_t dtype = FLASHSCAN_DTYPE_F32, gate_dtype = FLASHSCAN_DTYPE_F32;
    int32_t layout = FLASHSCAN_LAYOUT_BTC;
    int64_t batch = 1, time = 1, channels = 1;
    int32_t form = FLASHSCAN_GATE_VALUE;
    uint32_t broadcast = 0;
    bool reverse = false, reset = false;
    int64_t sequences = 0;
    int32_t offsets_dtype = FLASHSCAN_DTYPE_I64;
    bool state_in = false, state_out = false;  // state_out: STATE_OUT forward, GRAD|STATE_OUT backward
    uint32_t gradients = 7;                    // GRAD|STATE_IN only together with state_in; 0: forward alone
    Placement placement = Placement::dense;
    bool strided = false;   // INPUT and GATE, and their gradients, lie like the halves of arrays of twice the channels
    bool in_place = false;  // every pair of arguments that may be the same memory is
    bool pooled = false;    // states are rows of a pool, with gaps between them
    bool batch_invariant = false, caller_scratch = false;
    int32_t threads = 0;
    Gates gates = Gates::mixed;
    uint64_t seed = 1;

    int64_t elements() const { return batch * time * channels; }
    int64_t state_rows() const { return sequences > 0 ? sequences : batch; }
    bool broadcasts(uint32_t axis) const { return (broadcast & axis) != 0; }
    std::array<int64_t, 3> extents() const { return {batch, time, channels}; }
    std::array<int64_t, 3> gate_extents() const {
        return {broadcasts(FLASHSCAN_BROADCAST_BATCH) ? 1 : batch, broadcasts(FLASHSCAN_BROADCAST_TIME) ? 1 : time,
                broadcasts(FLASHSCAN_BROADCAST_CHANNELS) ? 1 : channels};
    }
    // Index into GATE's values in [B, T, C] order, broadcast axes collapsed.
    size_t gate_index(int64_t b, int64_t t, int64_t c) const;
    size_t index(int64_t b, int64_t t, int64_t c) const { return static_cast<size_t>((b * time + t) * channels + c); }
    // The same problem for the oracle: 64-bit, dense, default options.
    Problem widened() const;
};

// "linear bwd bf16 BTC b8 t8192 c1024 form-log state-in state-out": what is as in a new problem has no word; `bwd` runs
// forward too. flashscan_bench takes the lines of all families, and words may stand in any order.
std::string text_of(const Problem& problem);
// Throws std::invalid_argument naming the word that is not understood.
Problem problem_of(const std::string& text);
std::ostream& operator<<(std::ostream& stream, const Problem& problem);

// Says where the elements of one tensor lie, in elements; axes are batch, time, channels.
struct Tensor {
    std::array<int64_t, 3> extents{}, strides{};
    bool strides_given = false;  // false: the descriptor's strides stay zero
    bool misaligned = false;

    int64_t span() const;  // from the first to the last element, inclusive
    int64_t at(int64_t b, int64_t t, int64_t c) const { return b * strides[0] + t * strides[1] + c * strides[2]; }
};

// Where a tensor of these extents lies that is placed so; `mixed` is no place.
Tensor placed(const std::array<int64_t, 3>& extents, int32_t layout, Placement placement);
// The place of the k-th tensor of a problem whose tensors are mixed.
Placement mixed_placement(uint64_t k);

// The inputs whose gradients backward may write, in the order of Problem::gradients.
inline constexpr int32_t linear_gradients[] = {FLASHSCAN_ARG_INPUT, FLASHSCAN_ARG_GATE, FLASHSCAN_ARG_STATE_IN};
inline std::span<const int32_t> gradients_of(const Problem&) { return linear_gradients; }

// The problems of all families have these functions. Whether there is this argument, gradients by that of the argument
// itself; the tensors that a pass reads: all but RESERVE, RESET and SEQ_OFFSETS; whether a tensor has a value for each
// step; of which type it is and where it lies, gradients too.
bool has_argument(const Problem& problem, int32_t id);
std::vector<int32_t> read_by(const Problem& problem, bool backward);
bool has_steps(const Problem& problem, int32_t id);
int32_t dtype_of(const Problem& problem, int32_t id);
Tensor tensor_of(const Problem& problem, int32_t id);
Tensor dense_tensor(int64_t rows, int64_t channels);
// The axes are a cell's states, rows, and what lies in a row.
Tensor state_tensor(int64_t states, int64_t rows, int64_t width, bool pooled);
Tensor state_tensor(const Problem& problem);
// Gives a descriptor of any family the strides of all states.
template <typename Desc>
void set_state_strides(Desc& desc, const Tensor& tensor) {
    if (!tensor.strides_given) return;
    const int64_t states = tensor.extents[0] > 1 ? tensor.strides[0] : 0;
    desc.state_in = desc.state_out = desc.grad_state_in = desc.grad_state_out = {tensor.strides[1], states};
}

flashscan_linear_desc desc_of(const Problem& problem);
// The options point into `kernel`.
flashscan_options options_of(const Problem& problem, int32_t backend, const std::string& kernel);
flashscan_options make_options(int32_t backend, const std::string& kernel, int32_t threads, bool batch_invariant,
                               bool caller_scratch);
// The kernels in the sentence of a library that was asked for one that it does not have.
std::vector<std::string> names_in(const std::string& sentence);
// The kernels that `backend` has for the family of `problem`: plans are made by `make`, and refuse an unknown kernel.
template <typename Problem, typename Desc>
std::vector<std::string> kernels_of(flashscan_status (*make)(flashscan_plan**, const Desc*, const flashscan_options*),
                                    const Problem& problem, int32_t backend) {
    flashscan_plan* plan = nullptr;
    const Desc desc = desc_of(problem);
    const std::string unknown = "?";  // the options point into it
    const flashscan_options options = options_of(problem, backend, unknown);
    if (make(&plan, &desc, &options) == FLASHSCAN_STATUS_INVALID_ARGUMENT) return names_in(flashscan_last_error());
    flashscan_plan_destroy(plan);
    return {};
}

// A backend and a kernel of it, empty for the planner's choice.
struct Target {
    int32_t backend = FLASHSCAN_BACKEND_CPU;
    std::string kernel;
};
std::string text_of(const Target& target);  // "cpu_auto", "cuda_chunked"
// The planner of every backend that has kernels, and these by name but for the oracle.
std::vector<Target> targets_of(std::vector<std::string> (*kernels_of)(int32_t backend));
// The planner of every backend; every kernel by name but the oracle; these and the oracle.
std::vector<Target> planner_targets();
std::vector<Target> kernel_targets();
std::vector<Target> all_targets();
// Those of `targets` that are on a backend.
std::vector<Target> on_backend(int32_t backend, std::vector<Target> targets);

}  // namespace support
