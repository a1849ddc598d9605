// SPDX-License-Identifier: Apache-2.0
// Problem lines of recurrent networks.
#include <fmt/format.h>

#include "math/cell_table.h"
#include "problem.h"

namespace bench {
namespace {

using flashscan::cell_rows;
using flashscan::CellRow;

int32_t parse_cell(const std::string& word) {
    std::string known;
    for (const CellRow& row : cell_rows) {
        if (word == row.word) return FLASHSCAN_CELL_LSTM + row.number;
        known += fmt::format("{}{}", known.empty() ? "" : ", ", row.word);
    }
    throw UsageError(fmt::format("'{}' is no cell; accepted are {}", word, known));
}

const CellRow& row_of(int32_t cell) {
    for (const CellRow& row : cell_rows)
        if (cell == FLASHSCAN_CELL_LSTM + row.number) return row;
    throw UsageError(fmt::format("no cell has number {}", cell));
}

void parse_option(Problem& p, const std::string& word) {
    if (word == "TBGHD")
        p.layout = FLASHSCAN_LAYOUT_TBGHD;
    else if (word == "weight-f32")
        p.rnn->weight_dtype = FLASHSCAN_DTYPE_F32;
    else if (word == "training")
        p.rnn->training = true;
    else if (word == "reverse")
        p.reverse = true;
    else if (word == "reset")
        p.reset = true;
    else if (word == "states")
        p.states = true;
    else if (word == "all-states")
        p.rnn->all_states = true;
    else if (word.starts_with("sequences"))
        p.num_sequences = parse_count(word, "sequences");
    else if (word.starts_with("@"))
        p.targets.push_back(parse_target(word));
    else
        throw UsageError(
            fmt::format("'{}' is no option; accepted are TBGHD, weight-f32, training, reverse, reset, sequencesN, "
                        "states, all-states and targets",
                        word));
}

std::string write_problem(const Problem& p) {
    std::string text = fmt::format("rnn {} {} {} b{} t{} h{} d{}", p.rnn->cell_name(), p.backward ? "bwd" : "fwd",
                                   name_of(p.dtype), p.extents.batch, p.extents.time, p.rnn->heads, p.rnn->dim);
    if (p.layout == FLASHSCAN_LAYOUT_TBGHD) text += " TBGHD";
    if (p.rnn->weight_dtype != p.dtype) text += fmt::format(" weight-{}", name_of(p.rnn->weight_dtype));
    if (p.rnn->training && !p.backward) text += " training";
    if (p.reverse) text += " reverse";
    if (p.reset) text += " reset";
    if (p.num_sequences > 0) text += fmt::format(" sequences{}", p.num_sequences);
    if (p.states) text += " states";
    if (p.rnn->all_states) text += " all-states";
    return text;
}

}  // namespace

int64_t RnnPart::gates() const { return row_of(cell).gates; }
int64_t RnnPart::biases() const { return row_of(cell).biases; }
int64_t RnnPart::states() const { return row_of(cell).states; }
bool RnnPart::resets_before() const { return row_of(cell).resets_before; }
const char* RnnPart::cell_name() const { return row_of(cell).word; }

Problem parse_rnn_problem(const std::vector<std::string>& words) {
    if (words.size() < 8) throw UsageError("too few words");
    Problem p;
    p.rnn.emplace();
    p.rnn->cell = parse_cell(words[1]);
    if (words[2] != "fwd" && words[2] != "bwd")
        throw UsageError(fmt::format("'{}' is no pass; accepted are fwd and bwd", words[2]));
    p.backward = words[2] == "bwd";
    p.dtype = p.gate_dtype = p.rnn->weight_dtype = parse_dtype(words[3]);
    if (is_complex(p.dtype)) throw UsageError(fmt::format("'{}': rnn takes f32, bf16, f16 and f64", words[3]));
    p.layout = FLASHSCAN_LAYOUT_BTGHD;
    p.rnn->heads = parse_count(words[6], "h");
    p.rnn->dim = parse_count(words[7], "d");
    constexpr int64_t most = int64_t{1} << 20;
    p.extents = {parse_count(words[4], "b"), parse_count(words[5], "t"), 0};
    if (p.rnn->heads > most || p.rnn->dim > most || p.extents.batch > most || p.extents.time > most)
        throw UsageError("b, t, h and d must be at most 2^20");
    p.extents.channels = p.rnn->heads * p.rnn->dim;
    for (size_t i = 8; i < words.size(); ++i) parse_option(p, words[i]);
    if (p.num_sequences > 0 && (p.extents.batch != 1 || p.num_sequences > p.extents.time))
        throw UsageError(fmt::format("sequences{} needs b1 and at least as many steps", p.num_sequences));
    p.rnn->training = p.rnn->training || p.backward;
    p.text = write_problem(p);
    return p;
}

// INPUT, OUTPUT and WEIGHT once; backward OUTPUT, both gradients of them, WEIGHT and its gradient. RESERVE is a
// kernel's own and not counted.
int64_t rnn_required_bytes(const Problem& p) {
    const int64_t step_arrays = p.rnn->gates() + (p.backward ? 2 : 1) * p.rnn->output_states();
    const int64_t weight = p.rnn->gates() * p.extents.channels * p.rnn->dim * size_of(p.rnn->weight_dtype);
    const int64_t masks = (p.reset ? p.extents.batch * p.extents.time : 0) +
                          (p.num_sequences > 0 ? (p.num_sequences + 1) * size_of(FLASHSCAN_DTYPE_I64) : 0);
    return step_arrays * p.array_bytes() + (p.backward ? 2 : 1) * weight + masks;
}

flashscan_rnn_desc Problem::describe_rnn() const {
    flashscan_rnn_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = dtype;
    desc.weight_dtype = rnn->weight_dtype;
    desc.layout = layout;
    desc.cell = rnn->cell;
    desc.direction = reverse ? FLASHSCAN_DIRECTION_REVERSE : FLASHSCAN_DIRECTION_FORWARD;
    if (rnn->training) desc.flags |= FLASHSCAN_RNN_FLAG_TRAINING;
    if (reset) desc.flags |= FLASHSCAN_RNN_FLAG_RESET;
    if (rnn->all_states) desc.flags |= FLASHSCAN_RNN_FLAG_ALL_STATES;
    desc.num_sequences = num_sequences;
    desc.batch = extents.batch;
    desc.time = extents.time;
    desc.heads = rnn->heads;
    desc.head_dim = rnn->dim;
    return desc;
}

}  // namespace bench
