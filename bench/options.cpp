// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <fmt/format.h>

#include <filesystem>

namespace bench {
namespace {

std::string problems_beside_executable() {
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? "problems" : (self.parent_path() / "problems").string();
}

double parse_number(const std::string& option, const std::string& text, double least) {
    size_t used = 0;
    double value = 0;
    try {
        value = std::stod(text, &used);
    } catch (const std::exception&) {
        used = 0;
    }
    if (used == 0 || used != text.size() || !(value >= least) || value > 1e9)
        throw UsageError(fmt::format("{} is '{}'; accepted are numbers from {} up", option, text, least));
    return value;
}

int parse_integer(const std::string& option, const std::string& text, int least) {
    const double value = parse_number(option, text, least);
    if (value != static_cast<int>(value)) throw UsageError(fmt::format("{} is '{}', no whole number", option, text));
    return static_cast<int>(value);
}

int32_t parse_backend(const std::string& text) {
    if (text == "cpu") return FLASHSCAN_BACKEND_CPU;
    if (text == "cuda") return FLASHSCAN_BACKEND_CUDA;
    throw UsageError(fmt::format("--backend is '{}'; accepted are cpu and cuda", text));
}

int32_t default_backend() {
    int32_t count = 0;
    return flashscan_device_count(FLASHSCAN_BACKEND_CUDA, &count) == FLASHSCAN_STATUS_OK && count > 0
               ? FLASHSCAN_BACKEND_CUDA
               : FLASHSCAN_BACKEND_CPU;
}

void load_problems(CommandLine& command, const std::vector<std::string>& sets, const std::vector<std::string>& lines,
                   const std::string& directory) {
    for (const std::string& set : sets)
        for (Problem& problem : read_problem_set(directory, set))
            command.problems.emplace_back(set, std::move(problem));
    for (const std::string& line : lines) command.problems.emplace_back("", parse_problem(line));
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv) {
    CommandLine command;
    Settings& settings = command.settings;
    std::vector<std::string> sets, lines;
    std::string directory = problems_beside_executable();
    bool backend_given = false;
    for (int i = 1; i < argc; ++i) {
        const std::string option = argv[i];
        const auto value = [&]() -> std::string {
            if (i + 1 >= argc) throw UsageError(fmt::format("{} needs a value", option));
            return argv[++i];
        };
        if (option == "--backend") {
            settings.backend = parse_backend(value());
            backend_given = true;
        } else if (option == "--set") {
            sets.push_back(value());
        } else if (option == "--problem") {
            lines.push_back(value());
        } else if (option == "--problems-dir") {
            directory = value();
        } else if (option == "--runs") {
            settings.runs = parse_integer(option, value(), 1);
        } else if (option == "--budget-s") {
            settings.budget_s = parse_number(option, value(), 0.001);
        } else if (option == "--threads") {
            settings.threads = parse_integer(option, value(), 1);
        } else if (option == "--device") {
            settings.device = parse_integer(option, value(), 0);
        } else if (option == "--kernel") {
            settings.kernel = value();
        } else if (option == "--json") {
            command.json = value();
        } else if (option == "--commit") {
            command.commit = value();
        } else if (option == "--graph") {
            settings.graph = true;
        } else if (option == "--no-flush") {
            command.flush = false;
        } else if (option == "--help" || option == "-h") {
            command.help = true;
            return command;
        } else {
            throw UsageError(fmt::format("'{}' is no option; --help lists them", option));
        }
    }
    if (!backend_given) settings.backend = default_backend();
    if (settings.backend == FLASHSCAN_BACKEND_CUDA && settings.threads != 0)
        throw UsageError("--threads is for the cpu backend");
    if (settings.backend == FLASHSCAN_BACKEND_CPU && settings.device != 0)
        throw UsageError("--device is for the cuda backend");
    if (settings.backend == FLASHSCAN_BACKEND_CPU && settings.graph)
        throw UsageError("--graph is for the cuda backend");
    if (sets.empty() && lines.empty()) sets.push_back("quick");
    load_problems(command, sets, lines, directory);
    return command;
}

std::string usage() {
    return R"(flashscan_bench: times recurrences; linear ones against the memory stream of the same machine

  --backend cpu|cuda   default: cuda where there is a device
  --set NAME           problems/NAME.txt, may be repeated; default: quick
  --problem "LINE"     one problem, may be repeated:
                         linear fwd|bwd DTYPE BTC|BCT bN tN cN [options] [targets]
                         options: gate-DTYPE log logit broadcast-AXES reverse reset sequencesN states strided misaligned
                         targets: @95% of the stream ceiling, @4us, @host3us, @plain+3% of the case without options
                         rnn CELL fwd|bwd DTYPE bN tN hN dN [options] [targets]
                         options: TBGHD weight-f32 training reverse reset sequencesN states all-states
                         targets: @1.2us/step, @4us, @host3us
                         operator KIND fwd|bwd DTYPE bN tN cN [dN] [options] [targets]
                         options: exclusive reduction BCT reverse states; targets: @95%, @4us
  --problems-dir DIR   default: problems beside the executable
  --runs N             timed runs of each problem, default 30
  --budget-s S         seconds after which the runs of one problem stop early, default 10
  --threads N          CPU threads, default all
  --device N           CUDA device, default 0
  --kernel NAME        force a kernel, by its name in the plan's description
  --graph              time the replay of a CUDA graph that holds the call
  --no-flush           leave the caches as the previous run left them
  --json FILE          write everything measured
  --commit SHA         noted in the JSON

Exit status: 0, 1 when a result was wrong or failed, 2 for a mistake in the command line.
)";
}

}  // namespace bench
