// SPDX-License-Identifier: Apache-2.0
// Everything that is measured about one problem.
#pragma once

#include <string>
#include <vector>

#include "check.h"

namespace bench {

struct Settings {
    int32_t backend = FLASHSCAN_BACKEND_CPU;
    int device = 0;
    int threads = 0;
    int runs = 30;
    double budget_s = 10;  // for the timed runs of one problem
    std::string kernel;
    bool graph = false;
};

enum class Outcome {
    measured,
    wrong,   // differs from the reference
    failed,  // the library or the device refused
    skipped  // does not fit in memory
};

struct Judgement {
    Target target;
    double measured = 0;
    bool known = false;  // false: nothing to compare with
    bool met = false;
};

struct Result {
    Problem problem;
    std::string set;
    Outcome outcome = Outcome::measured;
    std::string note;    // why it failed, was skipped or cut short
    std::string kernel;  // by name
    std::string description;
    Verdict verdict;
    std::vector<double> us;
    double min_us = 0, median_us = 0, spread_percent = 0;  // between the 10th and 90th percentile, of the median
    double gbps = 0, ceiling_gbps = 0, ceiling_percent = 0;
    double step_us = 0;                           // recurrent networks: median over the steps
    double step_floor_us = 0, floor_percent = 0;  // of rnn_floor.h, on a GPU
    double burst_us = 0;                          // per call among 32 replayed from a graph, caches warm
    double host_us = 0;
    double launch_us = 0;  // of host time for a launch that does nothing
    double plan_cold_us = 0, plan_warm_us = 0;
    size_t scratch_bytes = 0;
    size_t reserve_bytes = 0;  // of a recurrent network's training, or a gated layer's backward
    std::vector<Judgement> judgements;
};

// Never throws for what goes wrong with the problem itself. `earlier` are results that @plain targets look into.
Result measure(Machine& machine, const Problem& problem, const Settings& settings, const std::vector<Result>& earlier);

}  // namespace bench
