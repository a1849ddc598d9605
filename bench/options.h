// SPDX-License-Identifier: Apache-2.0
// The command line.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "measure.h"

namespace bench {

struct CommandLine {
    Settings settings;
    bool flush = true;
    bool list = false;  // print the problems alone
    std::string json, commit;
    std::string help;                                       // what --help asked for, else empty
    std::vector<std::pair<std::string, Problem>> problems;  // with the set they come from, "" for --problem
};

// Throws UsageError. The problem sets are looked up beside the executable unless --problems-dir is given.
CommandLine parse_command_line(int argc, char** argv);

}  // namespace bench
