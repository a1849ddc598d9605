// SPDX-License-Identifier: Apache-2.0
#include "support/words.h"

#include <sstream>

namespace support {
namespace {

constexpr const char* placement_names[] = {"dense",      "fused",  "transposed", "padded",
                                           "misaligned", "spread", "time-major", "mixed"};

// bench/reports.py has the same table.
struct Renamed {
    std::string_view old_word;
    std::vector<std::string> words;
};
const std::vector<Renamed>& renamed_words() {
    static const std::vector<Renamed> table{{"states", {"state-in", "state-out"}},
                                            {"log", {"form-log"}},
                                            {"logit", {"form-logit"}},
                                            {"misaligned", {"place-misaligned"}}};
    return table;
}

}  // namespace

std::vector<std::string> words_of(std::string_view line) {
    std::vector<std::string> words;
    std::istringstream stream{std::string(line)};
    for (std::string word; stream >> word;) {
        const auto& table = renamed_words();
        const auto renamed =
            std::find_if(table.begin(), table.end(), [&](const Renamed& r) { return r.old_word == word; });
        if (renamed == table.end())
            words.push_back(word);
        else
            words.insert(words.end(), renamed->words.begin(), renamed->words.end());
    }
    return words;
}

bool dtype_after(std::string_view word, std::string_view prefix, int32_t& to) {
    const int32_t dtype = word.starts_with(prefix) ? dtype_named(word.substr(prefix.size())) : 0;
    if (dtype != 0) to = dtype;
    return dtype != 0;
}

bool letters_after(std::string_view word, std::string_view prefix, std::string_view alphabet, uint32_t& to) {
    if (!word.starts_with(prefix)) return false;
    uint32_t bits = 0;
    for (const char letter : word.substr(prefix.size())) {
        const size_t place = alphabet.find(letter);
        if (place == std::string_view::npos) return false;
        bits |= 1U << place;
    }
    to = bits;
    return true;
}

std::string spell(uint32_t bits, std::string_view alphabet) {
    std::string text;
    for (size_t i = 0; i < alphabet.size(); ++i)
        if ((bits >> i & 1U) != 0) text += alphabet[i];
    return text;
}

bool placement_after(std::string_view word, std::string_view prefix, Placement& to) {
    return name_after(word, prefix, placement_names, to);
}

const char* name_of(Placement placement) { return placement_names[static_cast<int>(placement)]; }

bool parse_layout(std::string_view word, int32_t& layout) {
    if (word != "BTC" && word != "BCT") return false;
    layout = word == "BCT" ? FLASHSCAN_LAYOUT_BCT : FLASHSCAN_LAYOUT_BTC;
    return true;
}

}  // namespace support
