// SPDX-License-Identifier: Apache-2.0
// Problem lines of gated layers and selective scans. The tests' parser reads them: a line of either is one of both.
#include <fmt/format.h>

#include <algorithm>

#include "problem.h"

namespace bench {
namespace {

constexpr int64_t most = int64_t{1} << 50;

Target parse_layer_target(const std::string& word) {
    Target target = parse_target(word);
    if (target.measure == Measure::step_us || target.measure == Measure::plain_percent)
        throw UsageError(fmt::format("'{}' is no target of a layer; accepted are @95%, @4us and @host3us", word));
    return target;
}

// Timed calls are repeated in the same memory, and take scratch memory from the library.
template <typename L>
void refuse_test_words(const L& layer) {
    if (layer.in_place) throw UsageError("'in-place': timed calls must not write what they read");
    if (layer.caller_scratch) throw UsageError("'caller-scratch': calls take scratch memory from the library here");
}

void check(const support::GatedProblem& layer) {
    refuse_test_words(layer);
    if (layer.values != support::GatedValues::usual)
        throw UsageError("'saturated' and 'growing' are for tests: the driver has values of its own");
}

void check(const support::SelectiveProblem& layer) {
    refuse_test_words(layer);
    if (layer.states < 1 || layer.groups < 1 || layer.groups > layer.channels)
        throw UsageError(
            fmt::format("n{} and g{} must be from 1 up, g at most c{}", layer.states, layer.groups, layer.channels));
    if (layer.states > most / (layer.batch * layer.time * layer.channels))
        throw UsageError("b * t * c * n is more than 2^50");
}

template <typename L>
void take_over(Problem& p, L layer) {
    if (layer.batch != p.extents.batch || layer.time != p.extents.time || layer.channels != p.extents.channels)
        throw UsageError("b, t and c must be given once");
    p.backward = layer.gradients != 0;
    p.dtype = p.gate_dtype = layer.dtype;
    p.layout = layer.layout;
    p.reverse = layer.reverse;
    p.reset = layer.reset;
    p.num_sequences = layer.sequences;
    check(layer);
    p.text = text_of(layer);
    p.layer = std::move(layer);
}

template <typename L>
int64_t bytes_of(const L& layer, const std::vector<int32_t>& ids) {
    int64_t bytes = 0;
    for (const int32_t id : ids) {
        const auto& extents = tensor_of(layer, id).extents;
        bytes += extents[0] * extents[1] * extents[2] * size_of(dtype_of(layer, id));
    }
    return bytes;
}

flashscan_status plan_of(const support::GatedProblem& layer, flashscan_plan** plan, const flashscan_options& options) {
    const flashscan_gated_desc desc = desc_of(layer);
    return flashscan_plan_gated(plan, &desc, &options);
}

flashscan_status plan_of(const support::SelectiveProblem& layer, flashscan_plan** plan,
                         const flashscan_options& options) {
    const flashscan_selective_desc desc = desc_of(layer);
    return flashscan_plan_selective(plan, &desc, &options);
}

}  // namespace

bool has_reserve(const support::GatedProblem& layer) { return layer.has_output_gate(); }
bool has_reserve(const support::SelectiveProblem&) { return false; }

Problem parse_layer_problem(const std::vector<std::string>& words) {
    if (words.size() < 7) throw UsageError("too few words");
    if (words[1] != "fwd" && words[1] != "bwd")
        throw UsageError(fmt::format("'{}' is no pass; accepted are fwd and bwd", words[1]));
    if (is_complex(parse_dtype(words[2])))
        throw UsageError(fmt::format("'{}': {} takes f32, bf16, f16 and f64", words[2], words[0]));
    if (words[3] != "BTC" && words[3] != "BCT")
        throw UsageError(fmt::format("'{}' is no layout; accepted are BTC and BCT", words[3]));
    Problem p;
    p.extents = {parse_count(words[4], "b"), parse_count(words[5], "t"), parse_count(words[6], "c")};
    if (p.extents.time > most / p.extents.batch / p.extents.channels) throw UsageError("b * t * c is more than 2^50");
    std::string line;
    for (const std::string& word : words) {
        if (word.starts_with("@"))
            p.targets.push_back(parse_layer_target(word));
        else
            line += word + " ";
    }
    try {
        if (words[0] == "gated")
            take_over(p, support::gated_problem_of(line));
        else
            take_over(p, support::selective_problem_of(line));
    } catch (const std::invalid_argument& error) {
        throw UsageError(error.what());
    }
    if (p.backward != (words[1] == "bwd")) throw UsageError("grads- names what bwd computes, and at least one of them");
    if (p.num_sequences > 0 && p.extents.batch != 1)
        throw UsageError(fmt::format("sequences{} needs b1, not b{}", p.num_sequences, p.extents.batch));
    if (p.num_sequences < 0 || p.num_sequences > p.extents.time)
        throw UsageError(fmt::format("sequences{} must be from 1 to t{}", p.num_sequences, p.extents.time));
    return p;
}

// Each argument of the pass once; of RESERVE, which hides nothing but the states, an array.
int64_t layer_required_bytes(const Problem& p) {
    return std::visit(
        [&](const auto& layer) {
            int64_t bytes =
                bytes_of(layer, read_by(layer, p.backward)) + bytes_of(layer, written_by(layer, p.backward));
            if (p.backward && has_reserve(layer)) bytes += p.array_bytes();
            if (p.reset) bytes += p.extents.batch * p.extents.time;
            if (p.num_sequences > 0) bytes += (p.num_sequences + 1) * size_of(layer.offsets_dtype);
            return bytes;
        },
        *p.layer);
}

bool Problem::has_reserve() const {
    if (rnn) return rnn->training;
    return layer && backward && std::visit([](const auto& of) { return bench::has_reserve(of); }, *layer);
}

flashscan_status plan_layer(flashscan_plan** plan, const Layer& layer, flashscan_options options) {
    return std::visit(
        [&](const auto& of) {
            if (options.threads == 0 && options.backend == FLASHSCAN_BACKEND_CPU) options.threads = of.threads;
            if (of.batch_invariant) options.determinism = FLASHSCAN_DETERMINISM_BATCH_INVARIANT;
            return plan_of(of, plan, options);
        },
        layer);
}

}  // namespace bench
