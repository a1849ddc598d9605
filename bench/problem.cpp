// SPDX-License-Identifier: Apache-2.0
#include "problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace bench {
namespace {

uint32_t parse_broadcast(std::string_view axes) {
    uint32_t bits = 0;
    for (const char axis : axes) {
        const size_t place = std::string_view("btc").find(axis);
        if (place == std::string_view::npos)
            throw UsageError(fmt::format("'broadcast-{}': accepted axes are b, t and c", axes));
        bits |= 1U << place;
    }
    if (bits == 0) throw UsageError("'broadcast-' names no axis; accepted are b, t and c");
    return bits;
}

void parse_option(Problem& p, const std::string& word) {
    if (word.starts_with("gate-"))
        p.gate_dtype = parse_dtype(std::string_view(word).substr(5));
    else if (word == "log" || word == "form-log")
        p.gate_form = FLASHSCAN_GATE_LOG;
    else if (word == "logit" || word == "form-logit")
        p.gate_form = FLASHSCAN_GATE_LOGIT;
    else if (word.starts_with("broadcast-"))
        p.gate_broadcast = parse_broadcast(std::string_view(word).substr(10));
    else if (word == "reverse")
        p.reverse = true;
    else if (word == "reset")
        p.reset = true;
    else if (word.starts_with("sequences"))
        p.num_sequences = parse_count(word, "sequences");
    else if (word == "states")
        p.states = true;
    else if (word == "strided" || word == "place-fused")
        p.strided = true;
    else if (word == "misaligned" || word == "place-misaligned")
        p.misaligned = true;
    else if (word.starts_with("@"))
        p.targets.push_back(parse_target(word));
    else
        throw UsageError(
            fmt::format("'{}' is no option; accepted are gate-DTYPE, log, logit, broadcast-AXES, reverse, reset, "
                        "sequencesN, states, strided, misaligned and targets",
                        word));
}

std::string head(const Problem& p) {
    return fmt::format("linear {} {} {} b{} t{} c{}", p.backward ? "bwd" : "fwd", name_of(p.dtype),
                       p.layout == FLASHSCAN_LAYOUT_BTC ? "BTC" : "BCT", p.extents.batch, p.extents.time,
                       p.extents.channels);
}

std::string write_problem(const Problem& p) {
    std::string text = head(p);
    if (p.gate_dtype != p.dtype) text += fmt::format(" gate-{}", name_of(p.gate_dtype));
    if (p.gate_form == FLASHSCAN_GATE_LOG) text += " log";
    if (p.gate_form == FLASHSCAN_GATE_LOGIT) text += " logit";
    if (p.gate_broadcast != 0) {
        text += " broadcast-";
        for (uint32_t axis = 0; axis < 3; ++axis)
            if ((p.gate_broadcast >> axis & 1U) != 0) text += "btc"[axis];
    }
    if (p.reverse) text += " reverse";
    if (p.reset) text += " reset";
    if (p.num_sequences > 0) text += fmt::format(" sequences{}", p.num_sequences);
    if (p.states) text += " states";
    if (p.strided) text += " strided";
    if (p.misaligned) text += " misaligned";
    return text;
}

void check(const Problem& p) {
    if (p.num_sequences > 0 && p.extents.batch != 1)
        throw UsageError(fmt::format("sequences{} needs b1, not b{}", p.num_sequences, p.extents.batch));
    if (p.num_sequences > p.extents.time)
        throw UsageError(
            fmt::format("sequences{} needs at least as many steps, not t{}", p.num_sequences, p.extents.time));
    if (p.strided && (p.gate_broadcast != 0 || p.gate_dtype != p.dtype))
        throw UsageError("strided needs a gate of the input's shape and dtype");
    constexpr int64_t most = int64_t{1} << 50;
    if (p.extents.time > most / p.extents.batch / p.extents.channels)
        throw UsageError(fmt::format("b * t * c is more than 2^50 in '{}'", p.text));
}

}  // namespace

int32_t parse_dtype(std::string_view word) {
    if (const int32_t dtype = support::dtype_named(word); dtype != 0 && !support::is_integer(dtype)) return dtype;
    throw UsageError(fmt::format("'{}' is no dtype; accepted are f32, bf16, f16, f64, c64 and c128", word));
}

int64_t parse_count(std::string_view word, std::string_view prefix) {
    int64_t value = 0;
    const char* last = word.data() + word.size();
    if (word.starts_with(prefix)) {
        const auto [end, error] = std::from_chars(word.data() + prefix.size(), last, value);
        if (error == std::errc{} && end == last && value >= 1) return value;
    }
    throw UsageError(fmt::format("'{}' must be '{}' and a number from 1 up", word, prefix));
}

Target parse_target(const std::string& word) {
    struct Form {
        const char *prefix, *suffix;
        Measure measure;
    };
    constexpr Form forms[] = {{"@plain+", "%", Measure::plain_percent},
                              {"@host", "us", Measure::host_us},
                              {"@", "us/step", Measure::step_us},
                              {"@", "%", Measure::ceiling_percent},
                              {"@", "us", Measure::gpu_us}};
    for (const Form& form : forms) {
        const std::string_view prefix = form.prefix, suffix = form.suffix;
        if (!word.starts_with(prefix) || !word.ends_with(suffix)) continue;
        const std::string number = word.substr(prefix.size(), word.size() - prefix.size() - suffix.size());
        size_t used = 0;
        double limit = 0;
        try {
            limit = std::stod(number, &used);
        } catch (const std::exception&) {
            continue;
        }
        if (used == number.size() && limit > 0) return {form.measure, limit, word};
    }
    throw UsageError(
        fmt::format("'{}' is no target; accepted are @95%, @1.2us/step, @4us, @host3us and @plain+3%", word));
}

int64_t size_of(int32_t dtype) { return dtype == 0 ? 1 : static_cast<int64_t>(support::size_of(dtype)); }

Problem parse_problem(const std::string& line) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    try {
        if (!words.empty() && words[0] == "rnn") return parse_rnn_problem(words);
        if (!words.empty() && words[0] == "operator") return parse_operator_problem(words);
        if (!words.empty() && (words[0] == "gated" || words[0] == "selective")) return parse_layer_problem(words);
        if (words.size() < 7) throw UsageError("too few words");
        if (words[0] != "linear")
            throw UsageError(
                fmt::format("'{}' is no family; accepted are linear, rnn, operator, gated and selective", words[0]));
        Problem p;
        if (words[1] != "fwd" && words[1] != "bwd")
            throw UsageError(fmt::format("'{}' is no pass; accepted are fwd and bwd", words[1]));
        p.backward = words[1] == "bwd";
        p.dtype = p.gate_dtype = parse_dtype(words[2]);
        if (words[3] != "BTC" && words[3] != "BCT")
            throw UsageError(fmt::format("'{}' is no layout; accepted are BTC and BCT", words[3]));
        p.layout = words[3] == "BTC" ? FLASHSCAN_LAYOUT_BTC : FLASHSCAN_LAYOUT_BCT;
        p.extents = {parse_count(words[4], "b"), parse_count(words[5], "t"), parse_count(words[6], "c")};
        for (size_t i = 7; i < words.size(); ++i) parse_option(p, words[i]);
        check(p);
        p.text = write_problem(p);
        return p;
    } catch (const UsageError& error) {
        throw UsageError(
            fmt::format("problem '{}': {}\na problem reads: linear fwd|bwd DTYPE BTC|BCT bN tN cN [options]\n"
                        "or: rnn CELL fwd|bwd DTYPE bN tN hN dN [options]\n"
                        "or: operator KIND fwd|bwd DTYPE bN tN cN [dN] [options]\n"
                        "or: gated fwd|bwd DTYPE BTC|BCT bN tN cN LAYER [options]\n"
                        "or: selective fwd|bwd DTYPE BTC|BCT bN tN cN nN [options]",
                        line, error.what()));
    }
}

std::vector<Problem> read_problem_set(const std::string& directory, const std::string& name) {
    const std::filesystem::path path = std::filesystem::path(directory) / (name + ".txt");
    std::ifstream file(path);
    if (!file) {
        std::string known;
        std::error_code ignored;
        for (const auto& entry : std::filesystem::directory_iterator(directory, ignored))
            if (entry.path().extension() == ".txt") known += " " + entry.path().stem().string();
        throw UsageError(fmt::format("no problem set '{}' in {}; there are:{}", name, directory,
                                     known.empty() ? " none (see --problems-dir)" : known));
    }
    std::vector<Problem> problems;
    for (std::string line; std::getline(file, line);) {
        line = line.substr(0, line.find('#'));
        if (line.find_first_not_of(" \t\r") != std::string::npos) problems.push_back(parse_problem(line));
    }
    return problems;
}

Extents Problem::gate_extents() const {
    return {(gate_broadcast & FLASHSCAN_BROADCAST_BATCH) != 0 ? 1 : extents.batch,
            (gate_broadcast & FLASHSCAN_BROADCAST_TIME) != 0 ? 1 : extents.time,
            (gate_broadcast & FLASHSCAN_BROADCAST_CHANNELS) != 0 ? 1 : extents.channels};
}

int64_t Problem::array_bytes() const { return extents.count() * (op ? op->element() : 1) * size_of(dtype); }

int64_t Problem::required_bytes() const {
    if (rnn) return rnn_required_bytes(*this);
    if (op) return operator_required_bytes(*this);
    if (layer) return layer_required_bytes(*this);
    const int64_t gate = gate_extents().count() * size_of(gate_dtype);
    const int64_t state = state_rows() * extents.channels * size_of(state_dtype(dtype));
    int64_t bytes = backward ? 3 * array_bytes() + 2 * gate : 2 * array_bytes() + gate;
    if (states) bytes += backward ? 3 * state : 2 * state;
    if (reset) bytes += extents.batch * extents.time;
    if (num_sequences > 0) bytes += (num_sequences + 1) * size_of(FLASHSCAN_DTYPE_I64);
    return bytes;
}

std::string Problem::plain_text() const { return op ? text.substr(0, text.rfind(" custom")) : head(*this); }

flashscan_strides Problem::strides(const Extents& tensor, bool half) const {
    const int64_t parts = half ? 2 : 1;
    if (layout == FLASHSCAN_LAYOUT_BTC) return {tensor.time * tensor.channels * parts, tensor.channels * parts, 1};
    return {tensor.time * tensor.channels * parts, 1, tensor.time};
}

flashscan_linear_desc Problem::describe() const {
    flashscan_linear_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = dtype;
    desc.gate_dtype = gate_dtype;
    desc.layout = layout;
    desc.gate_form = gate_form;
    desc.gate_broadcast = gate_broadcast;
    desc.direction = reverse ? FLASHSCAN_DIRECTION_REVERSE : FLASHSCAN_DIRECTION_FORWARD;
    desc.flags = reset ? FLASHSCAN_LINEAR_FLAG_RESET : 0;
    desc.batch = extents.batch;
    desc.time = extents.time;
    desc.channels = extents.channels;
    desc.num_sequences = num_sequences;
    if (strided) desc.input = desc.gate = desc.grad_input = desc.grad_gate = strides(extents, true);
    return desc;
}

}  // namespace bench
