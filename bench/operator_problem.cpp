// SPDX-License-Identifier: Apache-2.0
// Problem lines of associative operators.
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "problem.h"

namespace bench {
namespace {

struct Name {
    int32_t number;
    const char* name;
};
constexpr Name kinds[] = {{FLASHSCAN_OPERATOR_ADD, "add"},
                          {FLASHSCAN_OPERATOR_MUL, "mul"},
                          {FLASHSCAN_OPERATOR_MIN, "min"},
                          {FLASHSCAN_OPERATOR_MAX, "max"},
                          {FLASHSCAN_OPERATOR_LOGADDEXP, "logaddexp"},
                          {FLASHSCAN_OPERATOR_MATMUL, "matmul"},
                          {FLASHSCAN_OPERATOR_AFFINE, "affine"},
                          {FLASHSCAN_OPERATOR_AND, "and"},
                          {FLASHSCAN_OPERATOR_OR, "or"},
                          {FLASHSCAN_OPERATOR_XOR, "xor"}};
constexpr Name modes[] = {{FLASHSCAN_MODE_INCLUSIVE, "inclusive"},
                          {FLASHSCAN_MODE_EXCLUSIVE, "exclusive"},
                          {FLASHSCAN_MODE_REDUCTION, "reduction"}};

const char* find_name(std::span<const Name> names, int32_t number) {
    for (const Name& entry : names)
        if (entry.number == number) return entry.name;
    return "?";
}

int32_t parse_kind(const std::string& word) {
    for (const Name& entry : kinds)
        if (word == entry.name) return entry.number;
    std::string names;
    for (const Name& entry : kinds) names += fmt::format("{}{}", names.empty() ? "" : ", ", entry.name);
    throw UsageError(fmt::format("'{}' is no operator; accepted are {}", word, names));
}

void parse_option(Problem& p, const std::string& word) {
    if (word == "exclusive")
        p.op->mode = FLASHSCAN_MODE_EXCLUSIVE;
    else if (word == "reduction")
        p.op->mode = FLASHSCAN_MODE_REDUCTION;
    else if (word == "BCT")
        p.layout = FLASHSCAN_LAYOUT_BCT;
    else if (word == "reverse")
        p.reverse = true;
    else if (word == "states")
        p.states = true;
    else if (word == "custom")
        p.op->custom = true;
    else if (word.starts_with("@"))
        p.targets.push_back(parse_target(word));
    else
        throw UsageError(fmt::format(
            "'{}' is no option; accepted are exclusive, reduction, BCT, reverse, states, custom and targets", word));
}

std::string write_problem(const Problem& p) {
    std::string text = fmt::format("operator {} {} {} b{} t{} c{}", p.op->kind_name(), p.backward ? "bwd" : "fwd",
                                   name_of(p.dtype), p.extents.batch, p.extents.time, p.extents.channels);
    if (p.op->dim > 0) text += fmt::format(" d{}", p.op->dim);
    if (p.op->mode != FLASHSCAN_MODE_INCLUSIVE) text += fmt::format(" {}", p.op->mode_name());
    if (p.layout == FLASHSCAN_LAYOUT_BCT) text += " BCT";
    if (p.reverse) text += " reverse";
    if (p.states) text += " states";
    if (p.op->custom) text += " custom";
    return text;
}

}  // namespace

const char* OperatorPart::kind_name() const { return find_name(kinds, kind); }
const char* OperatorPart::mode_name() const { return find_name(modes, mode); }

Problem parse_operator_problem(const std::vector<std::string>& words) {
    if (words.size() < 7) throw UsageError("too few words");
    Problem p;
    p.op.emplace();
    p.op->kind = parse_kind(words[1]);
    if (words[2] != "fwd" && words[2] != "bwd")
        throw UsageError(fmt::format("'{}' is no pass; accepted are fwd and bwd", words[2]));
    p.backward = words[2] == "bwd";
    p.dtype = p.gate_dtype = parse_dtype(words[3]);
    p.extents = {parse_count(words[4], "b"), parse_count(words[5], "t"), parse_count(words[6], "c")};
    size_t next = 7;
    if (p.op->matmul() || p.op->affine()) {
        if (words.size() < 8) throw UsageError(fmt::format("{} needs dN", p.op->kind_name()));
        p.op->dim = parse_count(words[next++], "d");
        if (p.op->dim > 1024) throw UsageError("d must be at most 1024");
    }
    for (; next < words.size(); ++next) parse_option(p, words[next]);
    constexpr int64_t most = int64_t{1} << 50;
    const int64_t element = std::max(p.op->element(), p.op->gate_element());
    if (p.extents.time > most / p.extents.batch / p.extents.channels / element)
        throw UsageError("b * t * c * the numbers of an element is more than 2^50");
    if (p.op->custom) operator_code(*p.op, p.dtype);
    p.text = write_problem(p);
    return p;
}

// Each argument once; what a reduction writes counts for nothing.
int64_t operator_required_bytes(const Problem& p) {
    const OperatorPart& op = *p.op;
    const int64_t array = p.array_bytes(), gate = p.extents.count() * op.gate_element() * size_of(p.dtype);
    const int64_t output = op.reduction() ? 0 : array;
    if (!p.backward) return array + output + gate;
    if (op.custom) return 2 * array + output;
    const bool reads_input = op.affine() ? op.reduction() : op.kind != FLASHSCAN_OPERATOR_ADD;
    const bool reads_output = op.affine() || op.matmul();
    return (reads_input ? array : 0) + (reads_output ? 2 : 1) * output + array + 2 * gate;
}

flashscan_operator_desc Problem::describe_operator() const {
    flashscan_operator_desc desc = describe_plain_operator();
    if (!op->custom) return desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.dim = 0;
    desc.custom = operator_code(*op, dtype);
    return desc;
}

flashscan_operator_desc Problem::describe_plain_operator() const {
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = dtype;
    desc.kind = op->kind;
    desc.layout = layout;
    desc.mode = op->mode;
    desc.direction = reverse ? FLASHSCAN_DIRECTION_REVERSE : FLASHSCAN_DIRECTION_FORWARD;
    desc.batch = extents.batch;
    desc.time = extents.time;
    desc.channels = extents.channels;
    desc.dim = op->dim;
    return desc;
}

}  // namespace bench
