// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>

namespace bench {
namespace {

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

std::string quoted(const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += fmt::format("\\{}", c);
        else if (static_cast<unsigned char>(c) < 0x20)
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
            out += c;
    }
    return out + "\"";
}

// JSON has no infinity and no NaN.
std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null"; }

std::string target_json(const Judgement& judgement) {
    return fmt::format(R"({{"target": {}, "limit": {}, "measured": {}, "met": {}}})", quoted(judgement.target.text),
                       number(judgement.target.limit), judgement.known ? number(judgement.measured) : "null",
                       !judgement.known ? "null"
                       : judgement.met  ? "true"
                                        : "false");
}

template <typename Items, typename Write>
std::string joined(const Items& items, const char* separator, Write write) {
    std::string text;
    for (const auto& item : items) text += (text.empty() ? "" : separator) + write(item);
    return text;
}

const char* layout_name(const Problem& p) {
    if (p.rnn) return p.layout == FLASHSCAN_LAYOUT_BTGHD ? "BTGHD" : "TBGHD";
    return p.layout == FLASHSCAN_LAYOUT_BTC ? "BTC" : "BCT";
}

// What only recurrent networks have.
std::string rnn_json(const Result& r) {
    const RnnPart& rnn = *r.problem.rnn;
    return fmt::format(R"(     "cell": "{}", "heads": {}, "head_dim": {}, "weight_dtype": "{}", "training": {},
     "step_us": {}, "step_floor_us": {}, "floor_percent": {}, "reserve_bytes": {},
)",
                       rnn.cell_name(), rnn.heads, rnn.dim, bench::name_of(rnn.weight_dtype), rnn.training,
                       number(r.step_us), number(r.step_floor_us), number(r.floor_percent), r.reserve_bytes);
}

// What only associative operators have.
std::string operator_json(const Problem& p) {
    return fmt::format(R"(     "operator": "{}", "mode": "{}", "dim": {},
)",
                       p.op->kind_name(), p.op->mode_name(), p.op->dim);
}

std::string case_json(const Result& r) {
    const Problem& p = r.problem;
    std::string text = fmt::format(
        R"(    {{"problem": {}, "set": {}, "outcome": "{}", "note": {},
     "pass": "{}", "dtype": "{}", "layout": "{}", "batch": {}, "time": {}, "channels": {},
     "array_bytes": {}, "required_bytes": {}, "kernel": {}, "description": {},
)",
        quoted(p.text), quoted(r.set), name_of(r.outcome), quoted(r.note), p.backward ? "bwd" : "fwd",
        bench::name_of(p.dtype), layout_name(p), p.extents.batch, p.extents.time, p.extents.channels, p.array_bytes(),
        p.required_bytes(), quoted(r.kernel), quoted(r.description));
    text += fmt::format(
        R"(     "error": {}, "error_bound": {}, "compared": {},
     "runs": {}, "min_us": {}, "median_us": {}, "spread_percent": {}, "gbps": {},
     "ceiling_gbps": {}, "ceiling_percent": {}, "burst_us": {}, "host_us": {}, "launch_us": {},
     "plan_cold_us": {}, "plan_warm_us": {}, "scratch_bytes": {},
)",
        number(r.verdict.error), number(r.verdict.bound), quoted(r.verdict.what), r.us.size(), number(r.min_us),
        number(r.median_us), number(r.spread_percent), number(r.gbps), number(r.ceiling_gbps),
        number(r.ceiling_percent), number(r.burst_us), number(r.host_us), number(r.launch_us), number(r.plan_cold_us),
        number(r.plan_warm_us), r.scratch_bytes);
    if (p.rnn) text += rnn_json(r);
    if (p.op) text += operator_json(p);
    return text + fmt::format("     \"targets\": [{}],\n     \"us\": [{}]}}", joined(r.judgements, ", ", target_json),
                              joined(r.us, ", ", number));
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

std::string table_header() {
    return fmt::format("{:<58} {:<14} {:>9} {:>9} {:>6} {:>6} {:>7} {:>8} {:>7} {:>7} {:>14} {:>8} {:>8}  {}\n",
                       "problem", "kernel", "min us", "median us", "spread", "GB/s", "ceiling", "us/step", "burst",
                       "host us", "plan cold/warm", "scratch", "error", "target");
}

std::string table_row(const Result& r) {
    if (r.outcome != Outcome::measured)
        return fmt::format("{:<58} {:<14} {}: {}\n", r.problem.text, r.kernel, name_of(r.outcome), r.note);
    const double percent = r.problem.rnn ? r.floor_percent : r.ceiling_percent;
    const auto optional = [](double value) { return value > 0 ? fmt::format("{:.2f}", value) : std::string("-"); };
    return fmt::format(
        "{:<58} {:<14} {:>9.2f} {:>9.2f} {:>5.1f}% {:>6} {:>7} {:>8} {:>7} {:>7} {:>14} {:>8} {:>8.1e}  {}{}\n",
        r.problem.text, r.kernel, r.min_us, r.median_us, r.spread_percent, gbps_text(r.gbps),
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
    std::ofstream file(path);
    file << fmt::format(
        R"({{
  "format": "flashscan_bench 1", "library_version": "{}", "commit": {}, "date": "{}",
  "backend": "{}", "device": {}, "driver": {}, "threads": {}, "cache_bytes": {},
  "runs": {}, "caches_flushed": {}, "graph": {}, "forced_kernel": {}, "timer_floor_us": {}, "first_plan_us": {},
)",
        version_text(), quoted(info.commit), info.date, info.backend, quoted(info.device), quoted(info.driver),
        info.settings.threads, machine.cache_bytes(), info.settings.runs, info.flushed, info.settings.graph,
        quoted(info.settings.kernel), number(info.timer_floor_us), number(first_plan_us(results)));
    file << "  \"ceilings\": [\n"
         << joined(machine.ceilings(), ",\n", [](const auto& entry) {
                return fmt::format(R"(    {{"traffic": "{}", "array_bytes": {}, "gbps": {}, "us": {}, "variant": {}}})",
                                   entry.first.first ? "3 reads, 2 writes" : "2 reads, 1 write", entry.first.second,
                                   number(entry.second.gbps), number(entry.second.us), quoted(entry.second.variant));
            });
    file << "\n  ],\n  \"cases\": [\n" << joined(results, ",\n", case_json) << "\n  ]\n}\n";
    file.close();
    if (!file) throw Failure(fmt::format("could not write {}", path));
}

}  // namespace bench
