// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/operators.h"

namespace bench {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(Outcome outcome) {
    switch (outcome) {
    case Outcome::measured: return "measured";
    case Outcome::wrong: return "wrong";
    case Outcome::failed: return "failed";
    case Outcome::skipped: return "skipped";
    }
    return "?";
}

std::string bytes_text(size_t bytes) {
    if (bytes < 10000) return fmt::format("{} B", bytes);
    if (bytes < 10000000) return fmt::format("{:.0f} kB", static_cast<double>(bytes) * 1e-3);
    return fmt::format("{:.0f} MB", static_cast<double>(bytes) * 1e-6);
}

std::string gbps_text(double gbps) { return gbps < 100 ? fmt::format("{:.2f}", gbps) : fmt::format("{:.0f}", gbps); }

// "95% met", "4us missed"
std::string targets_text(const Result& result) {
    std::string text;
    for (const Judgement& judgement : result.judgements) {
        if (!text.empty()) text += ", ";
        text += judgement.target.text.substr(1);
        text += !judgement.known ? " ?" : judgement.met ? " met" : " MISSED";
        if (judgement.known && judgement.target.measure == Measure::plain_percent)
            text += fmt::format(" ({:+.1f}%)", judgement.measured);
    }
    return text;
}

// Six digits. JSON has no infinity and no NaN.
Json number(double value) {
    if (!std::isfinite(value)) return nullptr;
    return std::stod(fmt::format("{:.6g}", value));
}

Json target_json(const Judgement& judgement) {
    return {{"target", judgement.target.text},
            {"limit", number(judgement.target.limit)},
            {"measured", judgement.known ? number(judgement.measured) : Json(nullptr)},
            {"met", judgement.known ? Json(judgement.met) : Json(nullptr)}};
}

template <typename Items, typename Write>
Json list(const Items& items, Write write) {
    Json json = Json::array();
    for (const auto& item : items) json.push_back(write(item));
    return json;
}

const char* layout_name(const Problem& p) {
    if (p.rnn() != nullptr) return p.layout == FLASHSCAN_LAYOUT_BTGHD ? "BTGHD" : "TBGHD";
    return p.layout == FLASHSCAN_LAYOUT_BTC ? "BTC" : "BCT";
}

Json problem_json(const Result& r) {
    const Problem& p = r.problem;
    return {{"problem", p.text},
            {"set", r.set},
            {"outcome", name_of(r.outcome)},
            {"note", r.note},
            {"pass", p.backward ? "bwd" : "fwd"},
            {"dtype", bench::name_of(p.dtype)},
            {"layout", layout_name(p)},
            {"batch", p.extents.batch},
            {"time", p.extents.time},
            {"channels", p.extents.channels},
            {"array_bytes", p.array_bytes},
            {"required_bytes", p.required_bytes()},
            {"kernel", r.kernel},
            {"description", r.description}};
}

Json measures_json(const Result& r) {
    return {{"error", number(r.verdict.error)},
            {"error_bound", number(r.verdict.bound)},
            {"compared", r.verdict.what},
            {"runs", r.us.size()},
            {"min_us", number(r.min_us)},
            {"median_us", number(r.median_us)},
            {"spread_percent", number(r.spread_percent)},
            {"gbps", number(r.gbps)},
            {"ceiling_gbps", number(r.ceiling_gbps)},
            {"ceiling_percent", number(r.ceiling_percent)},
            {"burst_us", number(r.burst_us)},
            {"host_us", number(r.host_us)},
            {"launch_us", number(r.launch_us)},
            {"plan_cold_us", number(r.plan_cold_us)},
            {"plan_warm_us", number(r.plan_warm_us)},
            {"scratch_bytes", r.scratch_bytes}};
}

// Fields that only one family has.
Json family_json(const support::Problem&, const Result&) { return Json::object(); }
Json family_json(const support::RnnProblem& p, const Result& r) {
    return {{"cell", support::cell_row(p.cell).word},
            {"heads", p.heads},
            {"head_dim", p.dim},
            {"weight_dtype", bench::name_of(p.weight_dtype)},
            {"training", p.trains()},
            {"step_us", number(r.step_us)},
            {"step_floor_us", number(r.step_floor_us)},
            {"floor_percent", number(r.floor_percent)},
            {"reserve_bytes", r.reserve_bytes}};
}
Json family_json(const support::OperatorProblem& p, const Result&) {
    return {{"operator", support::operator_row(p.kind).word}, {"mode", mode_name(p)}, {"dim", p.dim}};
}
Json family_json(const support::GatedProblem& p, const Result& r) {
    return {{"layer", layer_text(p)},
            {"gate_dtype", bench::name_of(p.gate_dtype)},
            {"param_dtype", bench::name_of(p.param_dtype)},
            {"reserve_bytes", r.reserve_bytes}};
}
Json family_json(const support::SelectiveProblem& p, const Result&) {
    return {{"states", p.states}, {"groups", p.groups}, {"matrix_dtype", bench::name_of(p.matrix_dtype())}};
}

Json case_json(const Result& r) {
    Json json = problem_json(r);
    json.update(measures_json(r));
    json.update(std::visit([&](const auto& of) { return family_json(of, r); }, r.problem.line));
    json["targets"] = list(r.judgements, target_json);
    json["us"] = list(r.us, number);
    return json;
}

Json ceiling_json(const std::pair<const std::pair<bool, size_t>, Ceiling>& entry) {
    const auto& [key, ceiling] = entry;
    return {{"traffic", key.first ? "3 reads, 2 writes" : "2 reads, 1 write"},
            {"array_bytes", key.second},
            {"gbps", number(ceiling.gbps)},
            {"us", number(ceiling.us)},
            {"variant", ceiling.variant}};
}

std::string version_text() {
    const int32_t version = flashscan_version();
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

double first_plan_us(const std::vector<Result>& results) {
    for (const Result& result : results)
        if (result.plan_cold_us > 0) return result.plan_cold_us;
    return 0;
}

std::string table_header(size_t width) {
    return fmt::format("{:<{}} {:<14} {:>9} {:>9} {:>6} {:>6} {:>7} {:>8} {:>7} {:>7} {:>14} {:>8} {:>8}  {}\n",
                       "problem", width, "kernel", "min us", "median us", "spread", "GB/s", "ceiling", "us/step",
                       "burst", "host us", "plan cold/warm", "scratch", "error", "target");
}

std::string table_row(const Result& r, size_t width) {
    if (r.outcome != Outcome::measured)
        return fmt::format("{:<{}} {:<14} {}: {}\n", r.problem.text, width, r.kernel, name_of(r.outcome), r.note);
    const double percent = r.problem.rnn() != nullptr ? r.floor_percent : r.ceiling_percent;
    const auto optional = [](double value) { return value > 0 ? fmt::format("{:.2f}", value) : std::string("-"); };
    return fmt::format(
        "{:<{}} {:<14} {:>9.2f} {:>9.2f} {:>5.1f}% {:>6} {:>7} {:>8} {:>7} {:>7} {:>14} {:>8} {:>8.1e}  {}{}\n",
        r.problem.text, width, r.kernel, r.min_us, r.median_us, r.spread_percent, gbps_text(r.gbps),
        percent > 0 ? fmt::format("{:.1f}%", percent) : std::string("-"), optional(r.step_us), optional(r.burst_us),
        optional(r.host_us), fmt::format("{:.0f}/{:.1f}", r.plan_cold_us, r.plan_warm_us), bytes_text(r.scratch_bytes),
        r.verdict.error, targets_text(r), r.note.empty() ? "" : "  (" + r.note + ")");
}

std::string summary(const std::vector<Result>& results) {
    int outcomes[4] = {}, targets = 0, met = 0;
    for (const Result& result : results) {
        ++outcomes[static_cast<int>(result.outcome)];
        for (const Judgement& judgement : result.judgements) {
            targets += judgement.known ? 1 : 0;
            met += judgement.known && judgement.met ? 1 : 0;
        }
    }
    return fmt::format("{} measured, {} wrong, {} failed, {} skipped; {} of {} targets met\n", outcomes[0], outcomes[1],
                       outcomes[2], outcomes[3], met, targets);
}

void write_json(const std::string& path, const RunInfo& info, const Machine& machine,
                const std::vector<Result>& results) {
    const Json report = {{"format", "flashscan_bench 1"},
                         {"library_version", version_text()},
                         {"commit", info.commit},
                         {"date", info.date},
                         {"backend", info.backend},
                         {"device", info.device},
                         {"driver", info.driver},
                         {"threads", info.settings.threads},
                         {"cache_bytes", machine.cache_bytes()},
                         {"runs", info.settings.runs},
                         {"caches_flushed", info.flushed},
                         {"graph", info.settings.graph},
                         {"forced_kernel", info.settings.kernel},
                         {"timer_floor_us", number(info.timer_floor_us)},
                         {"first_plan_us", number(first_plan_us(results))},
                         {"ceilings", list(machine.ceilings(), ceiling_json)},
                         {"cases", list(results, case_json)}};
    std::ofstream file(path);
    file << report.dump(1) << '\n';
    file.close();
    if (!file) throw Failure(fmt::format("could not write {}", path));
}

}  // namespace bench
