// SPDX-License-Identifier: Apache-2.0
// Tests list their problems as lines of text, which problems_of parses with the same words before each line.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

namespace support {

// Returns the problems that `parse` makes of `words` followed by each of the lines.
template <typename Problem>
std::vector<Problem> problems_of(Problem (*parse)(const std::string&), const std::string& words,
                                 std::initializer_list<const char*> lines) {
    std::vector<Problem> problems;
    for (const char* line : lines) problems.push_back(parse(words + line));
    return problems;
}

}  // namespace support
