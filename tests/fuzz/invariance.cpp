// SPDX-License-Identifier: Apache-2.0
// With DETERMINISM_BATCH_INVARIANT a sequence has the same bits among others and alone, in a batch and packed.
#include "fuzz/invariance.h"

#include <algorithm>

#include "fuzz/draw.h"
#include "fuzz/parts.h"
#include "support/operator_check.h"
#include "support/rnn_call.h"

namespace fuzz {
namespace {

using namespace invariance;

class LinearCut {
  public:
    LinearCut(const Problem& p, const Data& data)
        : p_(p), data_(data), s_(chosen(p, data.offsets)), one_(alone(p, s_)) {}
    const Problem& problem() const { return one_; }
    Values steps(const Values& all) const {
        Values one(all.empty() ? 0 : static_cast<size_t>(one_.elements()));
        for (int64_t t = 0; t < one_.time && !all.empty(); ++t)
            for (int64_t c = 0; c < p_.channels; ++c)
                one[one_.index(0, t, c)] = all[p_.index(s_.batch, s_.begin + t, c)];
        return one;
    }
    Values gates(const Values& all) const {
        const auto e = one_.gate_extents();
        Values one(all.empty() ? 0 : static_cast<size_t>(e[0] * e[1] * e[2]));
        for (int64_t t = 0; t < e[1] && !one.empty(); ++t)
            for (int64_t c = 0; c < e[2]; ++c)
                one[one_.gate_index(0, t, c)] = all[p_.gate_index(s_.batch, s_.begin + t, c)];
        return one;
    }
    Values states(const Values& all) const {
        if (all.empty()) return {};
        const auto first = all.begin() + s_.state * p_.channels;
        return {first, first + p_.channels};
    }
    Data data() const {
        Data one;
        one.input = steps(data_.input);
        one.output = steps(data_.output);
        one.grad_output = steps(data_.grad_output);
        one.gate = gates(data_.gate);
        one.state_in = states(data_.state_in);
        one.grad_state_out = states(data_.grad_state_out);
        cut_masks(p_, s_, data_, one);
        return one;
    }
    // Whether one sequence alone decides about its part of GRAD|GATE.
    bool own_gates() const {
        return !p_.broadcasts(p_.sequences > 0 ? FLASHSCAN_BROADCAST_TIME : FLASHSCAN_BROADCAST_BATCH);
    }

  private:
    const Problem& p_;
    const Data& data_;
    Sequence s_;
    Problem one_;
};

void linear(const Session& session, const std::string& line) {
    Problem p = problem_of(line);
    p.batch_invariant = true;
    // Strides that depend on how many rows there are make another problem.
    if (p.placement == Placement::time_major || p.placement == Placement::mixed) p.placement = Placement::dense;
    if (written_by(p, true).empty()) p.gradients = gradient_input;
    if (p.state_rows() == 0) return;
    Data data = make_data(p);
    for (const Target& target : wanted(session, all_targets())) {
        const Outcome all = run_forward(p, target, data, Guard::end);
        if (!completed(session, target, all.status, all.message, all.damage)) continue;
        data.output = all.output;
        const LinearCut cut(p, data);
        const Outcome all_back = run_backward(p, target, data, Guard::end);
        const Outcome one = run_forward(cut.problem(), target, cut.data(), Guard::start);
        const Outcome one_back = run_backward(cut.problem(), target, cut.data(), Guard::start);
        for (const Outcome* outcome : {&all_back, &one, &one_back})
            if (!completed(session, target, outcome->status, outcome->message, outcome->damage)) return;
        report(session, target, "OUTPUT", same(one.output, cut.steps(all.output)));
        report(session, target, "STATE_OUT", same(one.state_out, cut.states(all.state_out)));
        report(session, target, "GRAD|INPUT", same(one_back.grad_input, cut.steps(all_back.grad_input)));
        report(session, target, "GRAD|STATE_IN", same(one_back.grad_state_in, cut.states(all_back.grad_state_in)));
        if (cut.own_gates())
            report(session, target, "GRAD|GATE", same(one_back.grad_gate, cut.gates(all_back.grad_gate)));
    }
}

// The places of each number of an array in the whole and in the one, where arrays lie as in memory.
using Places = std::vector<std::pair<size_t, size_t>>;
using PlacesOf = std::map<int32_t, Places>;  // each output, whose inputs lie like their gradients

Values cut(const Values& all, const Places& places) {
    Values one(all.empty() ? 0 : places.size());
    for (const auto& [from, to] : places)
        if (!all.empty()) one[to] = all[from];
    return one;
}

PlacesOf places_of(const OperatorProblem& p, const OperatorProblem& one, const Sequence& s) {
    const auto steps = [&](int64_t size) {
        Places places;
        for (int64_t t = 0; t < one.time; ++t)
            for (int64_t c = 0; c < p.channels; ++c)
                for (int64_t i = 0; i < size; ++i)
                    places.emplace_back(p.place(s.batch, s.begin + t, c, size) + static_cast<size_t>(i),
                                        one.place(0, t, c, size) + static_cast<size_t>(i));
        return places;
    };
    Places states;
    for (int64_t i = 0; i < p.channels * p.element(); ++i)
        states.emplace_back(p.state_place(s.state, 0) + static_cast<size_t>(i), static_cast<size_t>(i));
    PlacesOf places;
    places[grad | FLASHSCAN_ARG_INPUT] = steps(p.element());
    places[FLASHSCAN_ARG_OUTPUT] = p.reduction() ? states : places[grad | FLASHSCAN_ARG_INPUT];
    places[grad | FLASHSCAN_ARG_GATE] = steps(p.gate_element());
    places[FLASHSCAN_ARG_STATE_OUT] = places[grad | FLASHSCAN_ARG_STATE_IN] = states;
    return places;
}

PlacesOf places_of(const RnnProblem& p, const RnnProblem& one, const Sequence& s) {
    PlacesOf places;
    for (int64_t w = 0; w < p.width(); ++w) {
        for (int64_t t = 0; t < one.time; ++t) {
            for (int64_t g = 0; g < p.gates(); ++g)
                places[grad | FLASHSCAN_ARG_INPUT].emplace_back(p.input_index(s.batch, s.begin + t, g, w),
                                                                one.input_index(0, t, g, w));
            for (int64_t k = 0; k < p.output_states(); ++k)
                places[FLASHSCAN_ARG_OUTPUT].emplace_back(p.output_index(k, s.batch, s.begin + t, w),
                                                          one.output_index(k, 0, t, w));
        }
        for (int64_t k = 0; k < p.states(); ++k)
            places[FLASHSCAN_ARG_STATE_OUT].emplace_back(p.state_index(k, s.state, w), one.state_index(k, 0, w));
    }
    places[grad | FLASHSCAN_ARG_STATE_IN] = places[FLASHSCAN_ARG_STATE_OUT];
    return places;
}

// Operators and recurrent networks: run(problem, target, data, guard) gives an outcome with its values by their id.
template <typename P, typename Run>
void by_places(const Session& session, P p, const std::vector<Target>& targets, Run run) {
    p.batch_invariant = true;
    if constexpr (requires { p.index; }) p.index = false;  // it counts steps of the whole
    if (p.state_rows() == 0) return;
    const auto data = make_data(p);
    const Sequence s = chosen(p, data.offsets);
    const P q = alone(p, s);
    PlacesOf places = places_of(p, q, s);
    auto one = data;
    one.input = cut(data.input, places[grad | FLASHSCAN_ARG_INPUT]);
    if constexpr (requires { data.gate; }) one.gate = cut(data.gate, places[grad | FLASHSCAN_ARG_GATE]);
    one.state_in = cut(data.state_in, places[FLASHSCAN_ARG_STATE_OUT]);
    one.grad_output = cut(data.grad_output, places[FLASHSCAN_ARG_OUTPUT]);
    one.grad_state_out = cut(data.grad_state_out, places[FLASHSCAN_ARG_STATE_OUT]);
    cut_masks(p, s, data, one);
    for (const Target& target : wanted(session, targets)) {
        const auto a = run(p, target, data, Guard::end), b = run(q, target, one, Guard::start);
        if (!completed(session, target, a.status, a.message, a.damage) ||
            !completed(session, target, b.status, b.message, b.damage))
            continue;
        // An empty sequence alone is a plan of no steps, which copies a zero with its sign.
        const bool signs = s.length() > 0;
        for (const auto& [id, which] : places)
            if (a.values.contains(id))
                report(session, target, fmt::format("output {}{}", (id & grad) != 0 ? "GRAD|" : "", id & ~grad).c_str(),
                       same(b.values.at(id), cut(a.values.at(id), which), signs));
    }
}

void scan(const Session& session, const std::string& line) {
    OperatorProblem p = operator_problem_of(line);
    p.batch_invariant = true;
    by_places(session, p, operator_targets(), [](const auto&... arguments) { return run_operator(arguments...); });
}

void rnn(const Session& session, const std::string& line) {
    by_places(session, rnn_problem_of(line), rnn_targets(),
              [](const auto&... arguments) { return run_rnn(arguments...); });
}

}  // namespace

void invariance_case(const Session& session, int64_t index) {
    const Settings& settings = session.settings();
    std::string line;
    if (!settings.lines.empty()) {
        line = settings.lines[static_cast<size_t>(index)];
    } else {
        Random random(settings.seed, static_cast<uint64_t>(index));
        const int64_t family = random.below(14);
        line = family < 4    ? text_of(draw_linear(random))
               : family < 7  ? text_of(draw_operator(random))
               : family < 10 ? text_of(draw_rnn(random))
               : family < 12 ? text_of(draw_gated(random))
                             : text_of(draw_selective(random));
    }
    if (!session.announce(fmt::format("invariance {}--problem \"{}\"", settings.cuda ? "--backend cuda " : "", line)))
        return;
    const std::string family = line.substr(0, line.find(' '));
    session.count(family.c_str());
    if (family == "linear") return linear(session, line);
    if (family == "gated") return gated_invariance(session, line);
    if (family == "selective") return selective_invariance(session, line);
    return family == "operator" ? scan(session, line) : rnn(session, line);
}

}  // namespace fuzz
