// SPDX-License-Identifier: Apache-2.0
// A problem line, `linear fwd bf16 BTC b8 t8192 c1024 reverse @95%` or `rnn lstm fwd bf16 b16 t1024 h1 d768`, and what
// follows from it: the description that a plan is made of, the bytes that must be moved, and the targets that the result
// is judged by.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "flashscan/flashscan.h"
#include "support/gated_problem.h"
#include "support/selective_problem.h"

namespace bench {

// A mistake in the command line or in a problem line.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

enum class Measure {
    ceiling_percent,  // @95%      at least this share of the stream ceiling
    step_us,          // @1.2us/step median time of a step of a recurrent network at most this
    gpu_us,           // @4us      median time at most this
    host_us,          // @host3us  host cost of one call at most this
    plain_percent     // @plain+3% median time at most this much above the plain case of the same shape
};

struct Target {
    Measure measure;
    double limit;
    std::string text;
};

struct Extents {
    int64_t batch, time, channels;
    int64_t count() const { return batch * time * channels; }
};

// What only recurrent networks have; extents.channels is H D for them.
struct RnnPart {
    int32_t cell = FLASHSCAN_CELL_LSTM;
    int64_t heads = 1, dim = 1;
    int32_t weight_dtype = FLASHSCAN_DTYPE_F32;
    bool training = false;  // a forward pass that fills RESERVE; always so for backward
    bool all_states = false;

    int64_t gates() const;
    int64_t biases() const;
    int64_t states() const;
    bool resets_before() const;  // the product of the last gate
    int64_t output_states() const { return all_states ? states() : 1; }
    const char* cell_name() const;
};

// What only associative operators have; extents.channels is C for them.
struct OperatorPart {
    int32_t kind = FLASHSCAN_OPERATOR_ADD;
    int32_t mode = FLASHSCAN_MODE_INCLUSIVE;
    int64_t dim = 0;
    bool custom = false;  // by CUDA source that computes the same

    bool matmul() const { return kind == FLASHSCAN_OPERATOR_MATMUL; }
    bool affine() const { return kind == FLASHSCAN_OPERATOR_AFFINE; }
    bool reduction() const { return mode == FLASHSCAN_MODE_REDUCTION; }
    int64_t element() const { return matmul() ? dim * dim : affine() ? dim : 1; }
    int64_t gate_element() const { return affine() ? dim * dim : 0; }
    const char* kind_name() const;
    const char* mode_name() const;
};

// Gated layers and selective scans are the tests' problems.
using Layer = std::variant<support::GatedProblem, support::SelectiveProblem>;

struct Problem {
    std::string text;  // without targets, words in the order below
    bool backward = false;
    int32_t dtype = FLASHSCAN_DTYPE_F32;
    int32_t layout = FLASHSCAN_LAYOUT_BTC;
    Extents extents{};
    int32_t gate_dtype = FLASHSCAN_DTYPE_F32;
    int32_t gate_form = FLASHSCAN_GATE_VALUE;
    uint32_t gate_broadcast = 0;
    bool reverse = false;
    bool reset = false;
    int64_t num_sequences = 0;
    bool states = false;
    bool strided = false;     // INPUT and GATE, and their gradients, are the halves of one buffer
    bool misaligned = false;  // every pointer is one element past what the allocator gave
    std::vector<Target> targets;
    // All empty: a linear recurrence.
    std::optional<RnnPart> rnn;
    std::optional<OperatorPart> op;
    std::optional<Layer> layer;

    Extents gate_extents() const;
    int64_t state_rows() const { return num_sequences > 0 ? num_sequences : extents.batch; }
    int64_t array_bytes() const;
    // What the pass must read and write at the least: each argument once.
    int64_t required_bytes() const;
    // Whether the pass has a RESERVE, which forward fills for backward.
    bool has_reserve() const;
    // The text of the case without any option word, which `@plain` compares with.
    std::string plain_text() const;
    flashscan_linear_desc describe() const;
    flashscan_rnn_desc describe_rnn() const;
    flashscan_operator_desc describe_operator() const;
    // The operator that is built in, also where op->custom.
    flashscan_operator_desc describe_plain_operator() const;
    // The strides of a dense tensor with these extents, or of one half of a fused one.
    flashscan_strides strides(const Extents& tensor, bool half) const;
};

using support::is_complex;
using support::name_of;
using support::state_dtype;
int64_t size_of(int32_t dtype);  // 1 for bytes, whose dtype is 0

// Words of problem lines. Each throws UsageError naming the word and what is accepted.
int32_t parse_dtype(std::string_view word);
int64_t parse_count(std::string_view word, std::string_view prefix);
Target parse_target(const std::string& word);

// A line whose first word is rnn.
Problem parse_rnn_problem(const std::vector<std::string>& words);
int64_t rnn_required_bytes(const Problem& problem);

// A line whose first word is operator.
Problem parse_operator_problem(const std::vector<std::string>& words);
int64_t operator_required_bytes(const Problem& problem);
// The operator as CUDA source; valid as long as the program runs. Throws UsageError where there is none.
const flashscan_custom_operator* operator_code(const OperatorPart& op, int32_t dtype);

// A line whose first word is gated or selective.
Problem parse_layer_problem(const std::vector<std::string>& words);
int64_t layer_required_bytes(const Problem& problem);
// Whether the layer's backward takes RESERVE.
bool has_reserve(const support::GatedProblem& layer);
bool has_reserve(const support::SelectiveProblem& layer);
// Takes from the layer what it says of options.
flashscan_status plan_layer(flashscan_plan** plan, const Layer& layer, flashscan_options options);

// Throws UsageError naming the word that is wrong and what is accepted.
Problem parse_problem(const std::string& line);

// The problems of `directory`/`name`.txt: one a line, `#` starts a comment. Throws UsageError.
std::vector<Problem> read_problem_set(const std::string& directory, const std::string& name);

}  // namespace bench
