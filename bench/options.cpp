// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

namespace bench {
namespace {

std::string problems_beside_executable() {
    std::error_code error;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    return error ? "problems" : (self.parent_path() / "problems").string();
}

int32_t default_backend() {
    int32_t count = 0;
    return flashscan_device_count(FLASHSCAN_BACKEND_CUDA, &count) == FLASHSCAN_STATUS_OK && count > 0
               ? FLASHSCAN_BACKEND_CUDA
               : FLASHSCAN_BACKEND_CPU;
}

constexpr const char* problem_lines = R"(A problem is one line:
  linear fwd|bwd DTYPE BTC|BCT bN tN cN [options] [targets]
    options: gate-DTYPE form-log form-logit broadcast-AXES reverse reset sequencesN state-in state-out strided
             place-PLACE
    targets: @95% of the stream ceiling, @4us, @host3us, @plain+3% of the case without options
  rnn CELL fwd|bwd DTYPE bN tN hN dN [options] [targets]
    options: TBGHD weight-f32 training reverse reset sequencesN state-in state-out all-states no-bias tf32
    targets: @1.2us/step, @4us, @host3us
  operator KIND fwd|bwd DTYPE bN tN cN [dN] [options] [targets]
    options: exclusive reduction BCT reverse sequencesN state-in state-out custom tf32; targets: @95%, @4us, @plain+3%
  gated fwd|bwd DTYPE BTC|BCT bN tN cN LAYER [options] [targets]
    LAYER: mingru minlstm hgrn rglru qrnn gilr, or parts: decay-exp scale-sqrt ... (a wrong word lists them)
    options: no-bias gate-DTYPE param-DTYPE reverse reset sequencesN state-in state-out place-PLACE
    targets: @85%, @4us, @host3us
  selective fwd|bwd DTYPE BTC|BCT bN tN cN nN [options] [targets]
    options: gN b-per-step c-per-step softplus gate skip bias complex, and those of gated layers from reverse on
  Lines are also what the tests print and take; all families have the options invariant pooled threadsN
  seedN too, all but operators grads-LETTERS. A wrong word lists those that there are.

Exit status: 0, 1 when a result was wrong or failed, 2 for a mistake in the command line.)";

// What the options say before anything is made of it.
struct Words {
    std::vector<std::string> sets, lines;
    std::string backend, directory = problems_beside_executable();
};

void load_problems(CommandLine& command, const Words& words) {
    for (const std::string& set : words.sets)
        for (Problem& problem : read_problem_set(words.directory, set))
            command.problems.emplace_back(set, std::move(problem));
    for (const std::string& line : words.lines) command.problems.emplace_back("", parse_problem(line));
}

void add_options(CLI::App& app, CommandLine& command, Words& words) {
    Settings& settings = command.settings;
    const CLI::Range from_1(1, 1000000000);
    app.footer(problem_lines);
    app.add_option("--backend", words.backend, "cpu or cuda; default: cuda where there is a device")
        ->check(CLI::IsMember({"cpu", "cuda"}));
    // A name or a line each time; further words would be taken for more of them.
    app.add_option("--set", words.sets, "problems/NAME.txt, may be repeated; default: quick")->allow_extra_args(false);
    app.add_option("--problem", words.lines, "one problem, may be repeated")->allow_extra_args(false);
    app.add_option("--problems-dir", words.directory, "default: problems beside the executable");
    app.add_flag("--list", command.list, "print the problems as they are understood, and time nothing");
    app.add_option("--runs", settings.runs, "timed runs of each problem, default 30")->check(from_1);
    app.add_option("--budget-s", settings.budget_s,
                   "seconds after which the runs of one problem stop early, default 10")
        ->check(CLI::Range(0.001, 1e9));
    app.add_option("--threads", settings.threads, "CPU threads, default all")->check(from_1);
    app.add_option("--device", settings.device, "CUDA device, default 0")->check(CLI::NonNegativeNumber);
    app.add_option("--kernel", settings.kernel, "force a kernel, by its name in the plan's description");
    app.add_flag("--graph", settings.graph, "time the replay of a CUDA graph that holds the call");
    app.add_flag("!--no-flush", command.flush, "leave the caches as the previous run left them");
    app.add_option("--json", command.json, "write everything measured to this file");
    app.add_option("--commit", command.commit, "noted in the JSON");
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv) {
    CommandLine command;
    Words words;
    CLI::App app("Times recurrences; linear ones against the memory stream of the same machine.", "flashscan_bench");
    add_options(app, command, words);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        command.help = app.help();
        return command;
    } catch (const CLI::ParseError& error) {
        throw UsageError(error.what());
    }
    Settings& settings = command.settings;
    settings.backend = words.backend.empty()    ? default_backend()
                       : words.backend == "cpu" ? FLASHSCAN_BACKEND_CPU
                                                : FLASHSCAN_BACKEND_CUDA;
    if (settings.backend == FLASHSCAN_BACKEND_CUDA && settings.threads != 0)
        throw UsageError("--threads is for the cpu backend");
    if (settings.backend == FLASHSCAN_BACKEND_CPU && settings.device != 0)
        throw UsageError("--device is for the cuda backend");
    if (settings.backend == FLASHSCAN_BACKEND_CPU && settings.graph)
        throw UsageError("--graph is for the cuda backend");
    if (words.sets.empty() && words.lines.empty()) words.sets.push_back("quick");
    load_problems(command, words);
    return command;
}

}  // namespace bench
