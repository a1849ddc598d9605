// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "rnn_floor.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

void expect_ok(flashscan_status status) {
    if (status != FLASHSCAN_STATUS_OK)
        throw Failure(fmt::format("{}: {}", flashscan_status_name(status), flashscan_last_error()));
}

class Plan {
  public:
    Plan(const Problem& problem, const Settings& settings) {
        flashscan_options options{};
        options.struct_size = sizeof options;
        options.backend = settings.backend;
        options.device = settings.device;
        options.threads = settings.backend == FLASHSCAN_BACKEND_CPU ? settings.threads : 0;
        options.kernel = settings.kernel.empty() ? nullptr : settings.kernel.c_str();
        expect_ok(make_plan(&plan_, problem.line, options));
    }
    ~Plan() { flashscan_plan_destroy(plan_); }
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    const flashscan_plan* get() const { return plan_; }

    std::string describe() const {
        size_t length = 0;
        expect_ok(flashscan_plan_describe(plan_, nullptr, 0, &length));
        std::string text(length + 1, '\0');
        expect_ok(flashscan_plan_describe(plan_, text.data(), text.size(), nullptr));
        text.resize(length);
        return text;
    }

  private:
    flashscan_plan* plan_ = nullptr;
};

// The word after "kernel " at the start of a line of the description.
std::string kernel_name(const std::string& description) {
    const std::string key = "\nkernel ";
    const size_t begin = description.find(key);
    if (begin == std::string::npos) return "?";
    const size_t name = begin + key.size();
    return description.substr(name, description.find_first_of(":\n", name) - name);
}

double warm_plan_us(const Problem& problem, const Settings& settings) {
    std::vector<double> us;
    for (int i = 0; i < 20; ++i) {
        const Clock::time_point start = Clock::now();
        const Plan plan(problem, settings);
        us.push_back(us_since(start));
    }
    return median(us);
}

// Time until a call returns; on a GPU the device lags behind, so few enough calls that its queue never fills.
double host_us(Machine& machine, const Call& call, double median_us) {
    const int calls = median_us > 2000 ? 20 : 200;
    machine.synchronize();
    std::vector<double> us;
    for (int i = 0; i < calls; ++i) {
        const Clock::time_point start = Clock::now();
        call();
        us.push_back(us_since(start));
    }
    machine.synchronize();
    return median(us);
}

Judgement judge(const Target& target, const Result& result, const std::vector<Result>& earlier, bool cuda) {
    Judgement judgement{target};
    const bool of_gpu =
        target.measure == Measure::gpu_us || target.measure == Measure::step_us || target.measure == Measure::host_us;
    if (of_gpu && !cuda) return judgement;
    switch (target.measure) {
    case Measure::ceiling_percent: judgement.measured = result.ceiling_percent; break;
    case Measure::gpu_us: judgement.measured = result.median_us; break;
    case Measure::step_us: judgement.measured = result.step_us; break;
    case Measure::host_us: judgement.measured = result.host_us; break;
    case Measure::plain_percent: {
        const auto plain = std::find_if(earlier.rbegin(), earlier.rend(), [&](const Result& other) {
            return other.problem.text == result.problem.plain_text() && other.median_us > 0;
        });
        if (plain == earlier.rend()) return judgement;
        judgement.measured = (result.median_us / plain->median_us - 1) * 100;
        break;
    }
    }
    judgement.known = true;
    judgement.met = target.measure == Measure::ceiling_percent ? judgement.measured >= target.limit
                                                               : judgement.measured <= target.limit;
    return judgement;
}

void measure_plan(const Problem& problem, const Settings& settings, const Plan& plan, Result& result) {
    result.plan_warm_us = warm_plan_us(problem, settings);
    result.description = plan.describe();
    result.kernel = kernel_name(result.description);
    const int32_t pass = problem.backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
    expect_ok(flashscan_plan_arg_bytes(plan.get(), pass, FLASHSCAN_ARG_SCRATCH, &result.scratch_bytes));
    if (problem.has_reserve())
        expect_ok(flashscan_plan_arg_bytes(plan.get(), pass, FLASHSCAN_ARG_RESERVE, &result.reserve_bytes));
}

// A kernel that cannot be captured still has its other times.
void measure_burst(Machine& machine, const Call& call, Result& result) {
    try {
        result.burst_us = machine.burst_us(call);
    } catch (const Failure& failure) {
        result.note += fmt::format("{}no graph: {}", result.note.empty() ? "" : "; ", failure.what());
    }
}

void measure_time(Machine& machine, const Settings& settings, const Call& call, Result& result) {
    const Problem& problem = result.problem;
    const Runs runs =
        machine.time(settings.graph ? machine.record_graph(call) : call, settings.runs, settings.budget_s);
    result.us = runs.us;
    if (runs.cut_short)
        result.note = fmt::format("{} runs only, the budget of {} s was spent", runs.us.size(), settings.budget_s);
    result.min_us = *std::min_element(runs.us.begin(), runs.us.end());
    result.median_us = median(runs.us);
    result.spread_percent = (quantile(runs.us, 0.9) - quantile(runs.us, 0.1)) / result.median_us * 100;
    result.gbps = static_cast<double>(problem.required_bytes()) / result.median_us * 1e-3;
    if (problem.rnn() != nullptr) result.step_us = result.median_us / static_cast<double>(problem.extents.time);
    if (problem.rnn() != nullptr && settings.backend == FLASHSCAN_BACKEND_CUDA) {
        result.step_floor_us = rnn_step_floor_us(problem);
        result.floor_percent = result.step_floor_us / result.step_us * 100;
    }
    if (result.median_us < 100) measure_burst(machine, call, result);
    if (settings.backend == FLASHSCAN_BACKEND_CUDA) {
        result.host_us = host_us(machine, call, result.median_us);
        result.launch_us = host_us(
            machine, [&] { machine.launch_nothing(); }, 0);
    }
}

void measure_or_throw(Machine& machine, const Settings& settings, Result& result) {
    const Problem& problem = result.problem;
    const Clock::time_point start = Clock::now();
    const Plan plan(problem, settings);
    result.plan_cold_us = us_since(start);
    measure_plan(problem, settings, plan, result);
    {
        const Tensors tensors(machine, problem, plan.get());
        const int32_t pass = problem.backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD;
        const auto num_args = static_cast<int32_t>(tensors.args().size());
        const Call call = [&] {
            expect_ok(flashscan_execute(plan.get(), pass, tensors.args().data(), num_args, machine.stream()));
        };
        call();
        machine.synchronize();
        result.verdict = check_outputs(machine, problem, tensors);
        if (!result.verdict.passed) {
            result.outcome = Outcome::wrong;
            result.note =
                fmt::format("WRONG: error {:.2e}, accepted is {:.2e}", result.verdict.error, result.verdict.bound);
            return;
        }
        measure_time(machine, settings, call, result);
    }
    if (problem.rnn() != nullptr) return;  // no stream bounds what waits from step to step
    const Ceiling& ceiling = machine.ceiling(problem.backward, static_cast<size_t>(problem.array_bytes), settings.runs);
    result.ceiling_gbps = ceiling.gbps;
    result.ceiling_percent = result.gbps / ceiling.gbps * 100;
}

}  // namespace

Result measure(Machine& machine, const Problem& problem, const Settings& settings, const std::vector<Result>& earlier) {
    Result result;
    result.problem = problem;
    try {
        const auto needed = static_cast<double>(Tensors::bytes(problem));
        const auto free = static_cast<double>(machine.free_bytes());
        if (needed > 0.8 * free) {
            result.outcome = Outcome::skipped;
            result.note = fmt::format("needs {:.1f} GB, {:.1f} GB are free", needed * 1e-9, free * 1e-9);
            return result;
        }
        measure_or_throw(machine, settings, result);
    } catch (const std::exception& failure) {
        result.outcome = Outcome::failed;
        result.note = failure.what();
        return result;
    }
    if (result.outcome == Outcome::measured)
        for (const Target& target : problem.targets)
            result.judgements.push_back(judge(target, result, earlier, settings.backend == FLASHSCAN_BACKEND_CUDA));
    return result;
}

}  // namespace bench
