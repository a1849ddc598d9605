// SPDX-License-Identifier: Apache-2.0
#include "fuzz/scene.h"

#include <stdexcept>
#include <type_traits>

#include "fuzz/draw.h"
#include "fuzz/loops.h"

namespace fuzz {

using namespace support;

namespace {

// The problems of all families have the same functions.
template <typename P>
Plan plan_of(const P& p, int32_t backend) {
    return {desc_of(p), options_of(p, backend, "")};
}

void run(Call& call, const Plan& plan) {
    if (call.run(plan.get()) != FLASHSCAN_STATUS_OK) throw std::runtime_error(flashscan_last_error());
    if (!call.damage().empty()) throw std::runtime_error(call.damage());
}

}  // namespace

Scene::Scene(const std::string& line, int32_t backend) : line_(line), backend_(backend) {
    const std::string family = line.substr(0, line.find(' '));
    const auto begin = [&](const auto& p) {
        plan_.emplace(plan_of(p, backend));
        if (!*plan_) throw std::runtime_error(plan_->message());
    };
    if (family == "linear") {
        Problem p = problem_of(line);
        begin(p);
        Data data = make_data(p);
        data.output = linear_loop(p, data, false).output;
        for (Value& value : data.output) value = rounded(p.dtype, value);
        calls_.push_back(forward_call(p, *plan_, backend, data, Guard::end));
        if (!written_by(p, true).empty()) calls_.push_back(backward_call(p, *plan_, backend, data, Guard::end));
    } else if (family == "operator") {
        const OperatorProblem p = operator_problem_of(line);
        begin(p);
        const OperatorData data = make_data(p);
        calls_.push_back(forward_call(p, *plan_, backend, data, Guard::end));
        run(calls_[0], *plan_);
        if (p.backward)
            calls_.push_back(
                backward_call(p, *plan_, backend, data, calls_[0].values(FLASHSCAN_ARG_OUTPUT), Guard::end));
    } else if (family == "gated") {
        const GatedProblem p = gated_problem_of(line);
        begin(p);
        const GatedData data = make_data(p);
        calls_.push_back(forward_call(p, *plan_, backend, data, Guard::end));
        run(calls_[0], *plan_);
        if (!written_by(p, true).empty())
            calls_.push_back(
                backward_call(p, *plan_, backend, data, calls_[0], calls_[0].values(FLASHSCAN_ARG_OUTPUT), Guard::end));
    } else if (family == "selective") {
        const SelectiveProblem p = selective_problem_of(line);
        begin(p);
        const SelectiveData data = make_data(p);
        calls_.push_back(forward_call(p, *plan_, backend, data, Guard::end));
        if (!written_by(p, true).empty()) calls_.push_back(backward_call(p, *plan_, backend, data, Guard::end));
    } else {
        const RnnProblem p = rnn_problem_of(line);
        begin(p);
        const RnnData data = make_data(p);
        calls_.push_back(forward_call(p, *plan_, backend, data, Guard::end));
        run(calls_[0], *plan_);
        if (!written_by(p, true).empty())
            calls_.push_back(backward_call(p, *plan_, backend, data, calls_[0], Guard::end));
    }
    for (Call& call : calls_) {
        run(call, *plan_);
        expected_.push_back(call.output_bytes());
    }
}

std::string Scene::wrong(size_t i) {
    calls_[i].collect();
    std::string text = calls_[i].damage();
    if (calls_[i].output_bytes() != expected_[i]) text += "other bits than before; ";
    return text;
}

std::string Scene::repeat() {
    // The descriptor again, since plans are not copied.
    const Scene again(line_, backend_);
    for (size_t i = 0; i < calls_.size(); ++i)
        if (again.expected_[i] != expected_[i]) return "other bits than before; ";
    return "";
}

std::string draw_scene(Random& random, int32_t threads) {
    const auto with_threads = [&](auto p) {
        p.threads = threads;
        p.caller_scratch = false;
        return text_of(p);
    };
    switch (random.below(5)) {
    case 0: return with_threads(draw_linear(random));
    case 1: return with_threads(draw_operator(random));
    case 2: return with_threads(draw_gated(random));
    case 3: return with_threads(draw_selective(random));
    default: return with_threads(draw_rnn(random));
    }
}

}  // namespace fuzz
