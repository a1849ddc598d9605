// SPDX-License-Identifier: Apache-2.0
// flashscan_fuzz PART [--seconds N] [--seed S] [--first CASE] [--cases N] [--backend cpu|cuda] [--kernel NAME]
//                     [--problem LINE] [--file LINES] [--skip WORD] [--json FILE] [--findings N] [--case-seconds N]
//
//     problems     valid problems of all families against loops
//     api          descriptors, options and arguments of any kind
//     life         threads, fork, small stacks, floating-point modes, callbacks and allocations that fail
//     invariance   the same sequence among others and alone
//
// A finding is printed with the line that runs it alone. Exits with 1 where there are any.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>

#include "fuzz/parts.h"
#include "fuzz/problems.h"

namespace {

using fuzz::Settings;

const std::map<std::string, fuzz::Work> parts = {{"problems", fuzz::problems_case},
                                                 {"api", fuzz::api_case},
                                                 {"life", fuzz::life_case},
                                                 {"invariance", fuzz::invariance_case}};

void read_lines(const std::string& path, Settings& settings) {
    std::ifstream file(path);
    if (!file) throw std::invalid_argument("cannot read " + path);
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') settings.lines.push_back(line);
}

Settings parse(int argc, char** argv) {
    Settings settings;
    settings.part = argc > 1 ? argv[1] : "";
    settings.arguments.assign(argv, argv + argc);
    if (!parts.contains(settings.part)) throw std::invalid_argument("the first argument names a part");
    for (int i = 2; i < argc; i += 2) {
        const std::string name = argv[i];
        if (i + 1 >= argc) throw std::invalid_argument(name + " takes a value");
        const std::string value = argv[i + 1];
        if (name == "--seconds")
            settings.seconds = std::stod(value);
        else if (name == "--case-seconds")
            settings.case_seconds = std::stod(value);
        else if (name == "--seed")
            settings.seed = std::stoull(value);
        else if (name == "--first")
            settings.first = std::stoll(value);
        else if (name == "--cases")
            settings.cases = std::stoll(value);
        else if (name == "--findings")
            settings.findings = std::stoll(value);
        else if (name == "--backend" && (value == "cpu" || value == "cuda"))
            settings.cuda = value == "cuda";
        else if (name == "--kernel")
            settings.kernel = value;
        else if (name == "--json")
            settings.json = value;
        else if (name == "--child")
            settings.child = std::stoi(value);
        else if (name == "--problem")
            settings.lines.push_back(value);
        else if (name == "--skip")
            settings.skip.push_back(value);
        else if (name == "--file")
            read_lines(value, settings);
        else
            throw std::invalid_argument("unknown option: " + name + " " + value);
    }
    return settings;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const Settings settings = parse(argc, argv);
        // Guard pages for the GPU too; FLASHSCAN_TEST_MAPPED=0 takes device memory between sentinels.
        if (settings.cuda) setenv("FLASHSCAN_TEST_MAPPED", "1", 0);
        return fuzz::supervise(settings, parts.at(settings.part));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "flashscan_fuzz: %s\n", error.what());
        return 2;
    }
}
