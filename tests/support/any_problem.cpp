// SPDX-License-Identifier: Apache-2.0
#include "support/any_problem.h"

#include <fmt/format.h>

#include <stdexcept>

#include "support/words.h"

namespace support {

AnyProblem any_problem_of(const std::string& text) {
    const std::vector<std::string> words = words_of(text);
    const std::string family = words.empty() ? "" : words[0];
    if (family == "linear") return problem_of(text);
    if (family == "rnn") return rnn_problem_of(text);
    if (family == "operator") return operator_problem_of(text);
    if (family == "gated") return gated_problem_of(text);
    if (family == "selective") return selective_problem_of(text);
    throw std::invalid_argument(
        fmt::format("'{}' is no family; accepted are linear, rnn, operator, gated and selective", family));
}

std::string text_of(const AnyProblem& problem) {
    return std::visit([](const auto& of) { return text_of(of); }, problem);
}

}  // namespace support
