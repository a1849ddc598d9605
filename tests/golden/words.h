// SPDX-License-Identifier: Apache-2.0
// The words of cases.json for the numbers of flashscan.h.
#pragma once

#include <flashscan/flashscan.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace golden {

using Words = std::vector<std::string>;  // a word's place is its number; of bits, its place is the bit's

inline const Words dtypes = {"", "f32", "bf16", "f16", "f64", "c64", "c128", "i32", "i64"};
inline const Words layouts = {"btc", "bct"};
inline const Words rnn_layouts = {"btghd", "tbghd"};
inline const Words directions = {"forward", "reverse"};
inline const Words gate_forms = {"value", "log", "logit"};
inline const Words broadcast_bits = {"batch", "time", "channels"};
inline const Words linear_bits = {"reset"};
inline const Words rnn_bits = {"reset", "all_states", "training"};
inline const Words cells = {"lstm", "gru", "elman", "slstm", "gru_reset_before", "elman_relu"};
inline const Words kinds = {"add", "mul", "min", "max", "logaddexp", "matmul", "affine"};
inline const Words modes = {"inclusive", "exclusive", "reduction"};
inline const Words arguments = {"",      "input",       "gate",   "output", "state_in", "state_out",
                                "reset", "seq_offsets", "weight", "bias",   "scratch",  "reserve"};

inline const std::string& word(const Words& words, int32_t number) { return words.at(static_cast<size_t>(number)); }

inline int32_t number(const Words& words, const std::string& word) {
    for (size_t i = 0; i < words.size(); ++i)
        if (words[i] == word) return static_cast<int32_t>(i);
    throw std::invalid_argument("unknown word " + word);
}

inline uint32_t bits(const Words& words, const Words& set) {
    uint32_t bits = 0;
    for (const std::string& word : set) bits |= 1U << number(words, word);
    return bits;
}

inline Words words_of(const Words& words, uint32_t bits) {
    Words set;
    for (size_t i = 0; i < words.size(); ++i)
        if ((bits >> i & 1U) != 0) set.push_back(words[i]);
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
