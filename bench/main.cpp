// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "options.h"
#include "report.h"

namespace bench {
namespace {

int run(const CommandLine& command) {
    const Settings& settings = command.settings;
    const bool cuda = settings.backend == FLASHSCAN_BACKEND_CUDA;
    const std::unique_ptr<Machine> machine =
        cuda ? make_cuda_machine(settings.device) : make_cpu_machine(settings.threads);
    machine->flush_caches = command.flush;
    RunInfo info{cuda ? "cuda" : "cpu", machine->device(),
                 machine->driver(),     fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
                 command.commit,        settings,
                 command.flush,         machine->timer_floor_us()};
    fmt::print("{} on {}{}; {} runs, caches {}; two timestamps measure {:.2f} us\n\n", info.backend, info.device,
               info.driver.empty() ? "" : ", driver " + info.driver, settings.runs,
               command.flush ? "flushed before each" : "not flushed", info.timer_floor_us);
    size_t width = 58;
    for (const auto& [set, problem] : command.problems) width = std::max(width, problem.text.size());
    fmt::print("{}", table_header(width));
    std::vector<Result> results;
    for (const auto& [set, problem] : command.problems) {
        fmt::print(stderr, "[{}/{}] {}\n", results.size() + 1, command.problems.size(), problem.text);
        Result result = measure(*machine, problem, settings, results);
        result.set = set;
        fmt::print("{}", table_row(result, width));
        std::fflush(stdout);
        results.push_back(std::move(result));
        // After each case: a run that is stopped leaves what it had.
        if (!command.json.empty()) write_json(command.json, info, *machine, results);
    }
    if (!machine->ceilings().empty()) fmt::print("\nstream ceilings\n");
    for (const auto& [key, ceiling] : machine->ceilings())
        fmt::print("  {} of {:.3f} MB arrays: {:.1f} GB/s, {:.2f} us ({})\n",
                   key.first ? "3 reads, 2 writes" : "2 reads, 1 write ", static_cast<double>(key.second) * 1e-6,
                   ceiling.gbps, ceiling.us, ceiling.variant);
    fmt::print("\nfirst plan of the process: {:.0f} us\n{}", first_plan_us(results), summary(results));
    const bool bad = std::any_of(results.begin(), results.end(), [](const Result& result) {
        return result.outcome == Outcome::wrong || result.outcome == Outcome::failed;
    });
    return bad ? 1 : 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
    try {
        const bench::CommandLine command = bench::parse_command_line(argc, argv);
        if (!command.help.empty()) {
            fmt::print("{}", command.help);
            return 0;
        }
        if (command.list) {
            for (const auto& [set, problem] : command.problems) fmt::print("{}\n", problem.text);
            return 0;
        }
        return bench::run(command);
    } catch (const bench::UsageError& error) {
        std::fprintf(stderr, "flashscan_bench: %s\n", error.what());
        return 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "flashscan_bench: %s\n", error.what());
        return 1;
    }
}
