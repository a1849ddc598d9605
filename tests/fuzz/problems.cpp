// SPDX-License-Identifier: Apache-2.0
#include "fuzz/problems.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <sstream>

#include "fuzz/draw.h"

namespace fuzz {

using namespace support;

std::string text_of(const Line& line) {
    std::string text;
    if (!line.isa.empty()) text += "isa-" + line.isa + " ";
    if (line.spoiled) text += "spoiled ";
    if (line.special) text += "special ";
    if (!line.custom.empty()) text += line.custom + " ";
    return text + line.problem;
}

Line line_of(const std::string& text) {
    Line line;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        if (word.starts_with("isa-"))
            line.isa = word.substr(4);
        else if (word == "spoiled")
            line.spoiled = true;
        else if (word == "special")
            line.special = true;
        else if (word == "host" || word == "batched" || word == "source")
            line.custom = word;
        else
            line.problem += (line.problem.empty() ? "" : " ") + word;
    }
    return line;
}

std::vector<Target> wanted(const Session& session, const std::vector<Target>& all) {
    const int32_t backend = session.settings().cuda ? FLASHSCAN_BACKEND_CUDA : FLASHSCAN_BACKEND_CPU;
    const std::string& kernel = session.settings().kernel;
    std::vector<Target> targets;
    for (const Target& target : all)
        if (target.backend == backend && (kernel.empty() || kernel == target.kernel)) targets.push_back(target);
    return targets;
}

bool completed(const Session& session, const Target& target, int32_t status, const std::string& message,
               const std::string& damage) {
    session.count("runs");
    if (status == FLASHSCAN_STATUS_UNSUPPORTED && !target.kernel.empty()) return false;
    if (status != FLASHSCAN_STATUS_OK)
        session.finding(
            fmt::format("{}: {}: {}", text_of(target), flashscan_status_name(status), message.substr(0, 500)));
    else if (!damage.empty())
        session.finding(fmt::format("{}: {}", text_of(target), damage));
    return status == FLASHSCAN_STATUS_OK;
}

void forgive(int32_t dtype, const Values& got, Expected& expected) {
    for (size_t i = 0; i < got.size(); ++i)
        if (std::isfinite(expected.value[i].real()) &&
            !(std::abs(expected.value[i]) + expected.tolerance[i] < largest(dtype))) {
            expected.value[i] = got[i];
            expected.tolerance[i] = 1;
        }
}

namespace {

Line draw_line(Random& random) {
    Line line;
    const int64_t family = random.below(14);
    if (family < 5) {
        const Problem p = draw_linear(random);
        line.problem = text_of(p);
        line.special = p.reset && p.gates == Gates::mixed && random.chance(0.4);
    } else if (family < 8) {
        OperatorProblem p = draw_operator(random);
        if (p.kind == FLASHSCAN_OPERATOR_MUL && p.dtype == FLASHSCAN_DTYPE_C128 && random.chance(0.7)) {
            line.custom = random.of({"host", "batched"});
            p.pooled = false;  // strides of states count numbers, elements of a custom operator are bytes
            p.state_in = p.state_in || p.mode == FLASHSCAN_MODE_EXCLUSIVE || p.sequences > 0 || p.time == 0;
        }
        line.problem = text_of(p);
    } else if (family >= 12) {
        line.problem = text_of(draw_selective(random));
    } else if (family >= 10) {
        line.problem = text_of(draw_gated(random));
    } else {
        line.problem = text_of(draw_rnn(random));
    }
    line.spoiled = random.chance(0.3);
    return line;
}

void check(const Session& session, const Line& line) {
    const bool wanted_case =
        session.announce("problems " + std::string(session.settings().cuda ? "--backend cuda " : "") + "--problem \"" +
                         text_of(line) + "\"");
    if (!wanted_case) return;
    if (line.isa.empty())
        unsetenv("FLASHSCAN_CPU_ISA");
    else
        setenv("FLASHSCAN_CPU_ISA", line.isa.c_str(), 1);
    const std::string family = line.family();
    session.count(family.c_str());
    if (family == "linear") return check_linear(session, line);
    if (family == "operator") return check_operator(session, line);
    if (family == "rnn") return check_rnn(session, line);
    if (family == "gated") return check_gated(session, line);
    if (family == "selective") return check_selective(session, line);
    throw std::invalid_argument("unknown family: " + family);
}

}  // namespace

void problems_case(const Session& session, int64_t index) {
    const Settings& settings = session.settings();
    if (!settings.lines.empty()) return check(session, line_of(settings.lines[static_cast<size_t>(index)]));
    Random random(settings.seed, static_cast<uint64_t>(index));
    Line line = draw_line(random);
    // The library reads the variable once in a process, so those of a block share it.
    constexpr const char* isas[] = {"", "avx2", "", "baseline"};
    if (!settings.cuda) line.isa = isas[index / settings.block % 4];
    if (settings.cuda && !line.custom.empty()) line.custom = "source";
    // Products below the normal numbers keep all their digits on CUDA only if they are powers of two.
    constexpr std::string_view range = " gates-range";
    if (const size_t at = line.problem.find(range);
        settings.cuda && at != std::string::npos && line.problem.find(" form-") != std::string::npos)
        line.problem.erase(at, range.size());
    check(session, line);
}

}  // namespace fuzz
