// SPDX-License-Identifier: Apache-2.0
#include "problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/words.h"

namespace bench {
namespace {

constexpr int64_t most = int64_t{1} << 50;

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

// Only networks have the time of one step for a target, and only linear recurrences and operators a share of their
// plain case.
void check_target(const Problem& p, const Target& target) {
    const bool plain = p.linear() != nullptr || p.op() != nullptr;
    if ((target.measure == Measure::step_us && p.rnn() == nullptr) ||
        (target.measure == Measure::plain_percent && !plain))
        throw UsageError(fmt::format("'{}' is no target of this family; accepted are @95%, @4us and @host3us{}",
                                     target.text,
                                     plain                ? ", and @plain+3%"
                                     : p.rnn() != nullptr ? ", and @1.2us/step"
                                                          : ""));
}

// Timed calls are repeated in the same memory, take scratch memory from the library and have values of the driver's
// own.
template <typename P>
void refuse_test_words(const P& p) {
    if constexpr (requires { p.in_place; })
        if (p.in_place) throw UsageError("'in-place': timed calls must not write what they read");
    if (p.caller_scratch) throw UsageError("'caller-scratch': calls take scratch memory from the library here");
    bool values = false;
    if constexpr (requires { p.values; }) values = p.values != P{}.values;
    if constexpr (requires { p.gates == support::Gates::mixed; }) values = p.gates != support::Gates::mixed;
    if (values)
        throw UsageError(
            "'gates-', 'values-', 'saturated' and 'growing' are for tests: the driver has values of its own");
}

void check_family(const support::Problem& p) {
    const bool dense = p.placement == support::Placement::dense || p.placement == support::Placement::misaligned;
    if (p.strided && (p.broadcast != 0 || p.gate_dtype != p.dtype || !dense))
        throw UsageError("strided needs a gate of the input's shape and dtype, and no placement but place-misaligned");
}

void check_family(const support::RnnProblem& p) {
    if (is_complex(p.dtype)) throw UsageError(fmt::format("'{}': rnn takes f32, bf16, f16 and f64", name_of(p.dtype)));
    if (std::max({p.batch, p.time, p.heads, p.dim}) > int64_t{1} << 20)
        throw UsageError("b, t, h and d must be at most 2^20");
}

void check_family(const support::OperatorProblem& p) {
    const bool matrices = p.matmul() || p.affine();
    if (p.integers() && p.backward)
        throw UsageError(fmt::format("'bwd' with '{}': integers have no gradients", name_of(p.dtype)));
    if (matrices ? p.dim < 1 || p.dim > 1024 : p.dim != 0)
        throw UsageError(fmt::format("d{} must be from 1 to 1024 for matmul and affine, and is for no other", p.dim));
    if (p.batch * p.time * p.channels > most / std::max<int64_t>({p.element(), p.gate_element(), 1}))
        throw UsageError("b * t * c * the numbers of an element is more than 2^50");
    if (p.custom) (void)operator_code(p);
}

void check_family(const support::GatedProblem&) {}

void check_family(const support::SelectiveProblem& p) {
    if (p.states < 1 || p.groups < 1 || p.groups > p.channels)
        throw UsageError(fmt::format("n{} and g{} must be from 1 up, g at most c{}", p.states, p.groups, p.channels));
    if (p.states > most / (p.batch * p.time * p.channels)) throw UsageError("b * t * c * n is more than 2^50");
}

template <typename P>
Extents extents_of(const P& p) {
    return {p.batch, p.time, p.channels};
}
Extents extents_of(const support::RnnProblem& p) {
    return {p.batch, p.time, p.dim > 0 && p.heads > most / p.dim ? most + 1 : p.width()};
}

template <typename P>
bool is_backward(const P& p) {
    if constexpr (requires { p.backward; })
        return p.backward;
    else
        return p.gradients != 0;
}

// The words that every line of the family has: all up to the last extent, and the layer.
size_t head_words(const Problem& p) {
    if (p.linear() != nullptr) return 7;
    return p.op() == nullptr || p.op()->dim > 0 ? 8 : 7;
}

template <typename P>
void take_over(Problem& p, const P& of) {
    p.backward = is_backward(of);
    p.dtype = of.dtype;
    p.layout = of.layout;
    p.extents = extents_of(of);
    p.num_sequences = of.sequences;
    p.text = text_of(of);
    const Extents& e = p.extents;
    if (std::min({e.batch, e.time, e.channels}) < 1) throw UsageError("extents are numbers from 1 up");
    if (std::max(e.time, e.channels) > most || e.time > most / e.batch / e.channels)
        throw UsageError("b * t * c is more than 2^50");
    if (p.num_sequences > 0 && e.batch != 1)
        throw UsageError(fmt::format("sequences{} needs b1, not b{}", p.num_sequences, e.batch));
    if (p.num_sequences < 0 || p.num_sequences > e.time)
        throw UsageError(fmt::format("sequences{} must be from 1 to t{}", p.num_sequences, e.time));
    refuse_test_words(of);
    check_family(of);
    if (p.backward && written_by(of, true).empty())
        throw UsageError("no gradient of 'grads-' is an argument of this problem");
    p.array_bytes = of.elements() * size_of(of.dtype);
}

// Nothing that decides what is measured is left to a default.
void check_head(const Problem& p, const std::vector<std::string>& words) {
    const std::vector<std::string> read = support::words_of(p.text);
    for (size_t i = 0; i < head_words(p); ++i)
        if (std::find(words.begin(), words.end(), read[i]) == words.end())
            throw UsageError(fmt::format("it is understood as '{}', but does not say '{}'", p.text, read[i]));
}

Problem parse_words(const std::string& line) {
    Problem p;
    std::string rest;
    std::vector<std::string> words = support::words_of(line);
    for (const std::string& word : words)
        if (word.starts_with("@"))
            p.targets.push_back(parse_target(word));
        else
            rest += word + " ";
    p.line = support::any_problem_of(rest);
    std::visit([&](const auto& of) { take_over(p, of); }, p.line);
    check_head(p, words);
    for (const Target& target : p.targets) check_target(p, target);
    return p;
}

template <typename P>
int64_t bytes_of(const P& p, const std::vector<int32_t>& ids) {
    int64_t bytes = 0;
    for (const int32_t id : ids) {
        const auto& extents = tensor_of(p, id).extents;
        bytes += extents[0] * extents[1] * extents[2] * size_of(dtype_of(p, id));
    }
    return bytes;
}

// Each tensor of the pass once; of RESERVE, where it has nothing but the states that OUTPUT hides, an array.
template <typename P>
int64_t required_bytes_of(const Problem& problem, const P& p) {
    int64_t bytes = bytes_of(p, read_by(p, problem.backward)) + bytes_of(p, written_by(p, problem.backward));
    if constexpr (std::is_same_v<P, support::GatedProblem>)
        if (problem.backward && has_reserve(p)) bytes += problem.array_bytes;
    if constexpr (requires { p.reset; })
        if (p.reset) bytes += p.batch * p.time;
    if (p.sequences > 0) bytes += (p.sequences + 1) * size_of(p.offsets_dtype);
    return bytes;
}

flashscan_status create(flashscan_plan** plan, const flashscan_linear_desc& desc, const flashscan_options& options) {
    return flashscan_plan_linear(plan, &desc, &options);
}
flashscan_status create(flashscan_plan** plan, const flashscan_rnn_desc& desc, const flashscan_options& options) {
    return flashscan_plan_rnn(plan, &desc, &options);
}
flashscan_status create(flashscan_plan** plan, const flashscan_operator_desc& desc, const flashscan_options& options) {
    return flashscan_plan_operator(plan, &desc, &options);
}
flashscan_status create(flashscan_plan** plan, const flashscan_gated_desc& desc, const flashscan_options& options) {
    return flashscan_plan_gated(plan, &desc, &options);
}
flashscan_status create(flashscan_plan** plan, const flashscan_selective_desc& desc, const flashscan_options& options) {
    return flashscan_plan_selective(plan, &desc, &options);
}

}  // namespace

int64_t size_of(int32_t dtype) { return dtype == 0 ? 1 : static_cast<int64_t>(support::size_of(dtype)); }

flashscan_status make_plan(flashscan_plan** plan, const AnyProblem& problem, flashscan_options options) {
    return std::visit(
        [&](const auto& of) {
            if (options.threads == 0 && options.backend == FLASHSCAN_BACKEND_CPU) options.threads = of.threads;
            if (of.batch_invariant) options.determinism = FLASHSCAN_DETERMINISM_BATCH_INVARIANT;
            return create(plan, desc_of(of), options);
        },
        problem);
}

Problem parse_problem(const std::string& line) {
    try {
        return parse_words(line);
    } catch (const std::exception& error) {
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

int64_t Problem::required_bytes() const {
    return std::visit([&](const auto& of) { return required_bytes_of(*this, of); }, line);
}

bool Problem::has_reserve() const {
    return (backward || rnn() != nullptr) && std::visit([](const auto& of) { return bench::has_reserve(of); }, line);
}

std::string Problem::plain_text() const {
    if (op() != nullptr) {
        support::OperatorProblem built_in = *op();
        built_in.custom = false;
        return text_of(built_in);
    }
    const std::vector<std::string> words = support::words_of(text);
    return fmt::format("{}", fmt::join(words.begin(), words.begin() + static_cast<ptrdiff_t>(head_words(*this)), " "));
}

}  // namespace bench
