// SPDX-License-Identifier: Apache-2.0
// The words of cases.json for the numbers of flashscan.h.
#pragma once

#include <flashscan/flashscan.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "support/cells.h"
#include "support/operators.h"

namespace golden {

// Words of consecutive numbers from `first` on; of bits, `first` is the first bit's place.
struct Words {
    int32_t first;
    std::vector<std::string> words;
};
using Set = std::vector<std::string>;

inline const Words dtypes = {FLASHSCAN_DTYPE_F32, {"f32", "bf16", "f16", "f64", "c64", "c128", "i32", "i64", "u8"}};
inline const Words layouts = {FLASHSCAN_LAYOUT_BTC, {"btc", "bct"}};
inline const Words rnn_layouts = {FLASHSCAN_LAYOUT_BTGHD, {"btghd", "tbghd"}};
inline const Words directions = {FLASHSCAN_DIRECTION_FORWARD, {"forward", "reverse"}};
inline const Words gate_forms = {FLASHSCAN_GATE_VALUE, {"value", "log", "logit"}};
inline const Words broadcast_bits = {0, {"batch", "time", "channels"}};
inline const Words linear_bits = {4, {"reset"}};
inline const Words rnn_bits = {8, {"reset", "all_states", "training"}};
inline const Words cells = {FLASHSCAN_CELL_LSTM, support::cell_names()};
inline const Words kinds = {FLASHSCAN_OPERATOR_ADD, support::operator_words()};
inline const Words modes = {FLASHSCAN_MODE_INCLUSIVE, {"inclusive", "exclusive", "reduction"}};
inline const Words gated_layers = {FLASHSCAN_GATED_LAYER_MINGRU,
                                   {"mingru", "minlstm", "hgrn", "rglru", "qrnn", "gilr"}};
inline const Words gated_decays = {
    FLASHSCAN_GATED_DECAY_VALUE, {"value", "exp", "sigmoid", "one_minus_sigmoid", "lower_bound", "softplus", "ratio"}};
inline const Words gated_scales = {FLASHSCAN_GATED_SCALE_ONE, {"one", "one_minus", "sqrt"}};
inline const Words gated_activations = {FLASHSCAN_GATED_ACTIVATION_NONE, {"none", "tanh", "silu", "positive"}};
inline const Words gated_input_gatings = {FLASHSCAN_GATED_INPUT_GATE_NONE, {"none", "sigmoid"}};
inline const Words gated_epilogues = {FLASHSCAN_GATED_EPILOGUE_NONE, {"none", "sigmoid", "silu", "tanh_sigmoid"}};
inline const Words gated_bits = {20, {"reset", "first_step"}};
inline const Words selective_bits = {24, {"reset", "softplus", "b_per_step", "c_per_step"}};
inline const Words arguments = {FLASHSCAN_ARG_INPUT,
                                {"input",       "gate",        "output",      "state_in", "state_out", "reset",
                                 "seq_offsets", "weight",      "bias",        "scratch",  "reserve",   "state_indices",
                                 "input_gate",  "output_gate", "second_gate", "param",    "delta",     "a",
                                 "b",           "c",           "d",           "index"}};

// Zero, a field's default, is the first word.
inline const std::string& word(const Words& words, int32_t number) {
    return words.words.at(static_cast<size_t>(number == 0 ? 0 : number - words.first));
}

// The empty word for what a description leaves out.
inline std::string word_or_none(const Words& words, int32_t number) { return number == 0 ? "" : word(words, number); }

// The empty word is zero.
inline int32_t number(const Words& words, const std::string& word) {
    if (word.empty()) return 0;
    for (size_t i = 0; i < words.words.size(); ++i)
        if (words.words[i] == word) return words.first + static_cast<int32_t>(i);
    throw std::invalid_argument("unknown word " + word);
}

inline uint32_t bits(const Words& words, const Set& set) {
    uint32_t bits = 0;
    for (const std::string& word : set)
        for (size_t i = 0; i < words.words.size(); ++i)
            if (words.words[i] == word) bits |= 1U << (static_cast<size_t>(words.first) + i);
    return bits;
}

inline Set words_of(const Words& words, uint32_t bits) {
    Set set;
    for (size_t i = 0; i < words.words.size(); ++i)
        if ((bits >> (static_cast<size_t>(words.first) + i) & 1U) != 0) set.push_back(words.words[i]);
    return set;
}

inline std::string argument_word(int32_t id) {
    const std::string& name = word(arguments, id & ~FLASHSCAN_GRAD);
    return (id & FLASHSCAN_GRAD) != 0 ? "grad_" + name : name;
}

inline int32_t argument_id(const std::string& word) {
    return word.starts_with("grad_") ? FLASHSCAN_GRAD | number(arguments, word.substr(5)) : number(arguments, word);
}

}  // namespace golden
