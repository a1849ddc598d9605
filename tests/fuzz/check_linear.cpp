// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "fuzz/loops.h"
#include "fuzz/problems.h"

namespace fuzz {
namespace {

using namespace support;

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// Nothing looks at steps that belong to no sequence.
void spoil(const Problem& p, Data& data) {
    for (int64_t t = written_time(p, data); t < p.time; ++t)
        for (int64_t c = 0; c < p.channels; ++c) {
            const size_t at = p.index(0, t, c);
            data.input[at] = data.grad_output[at] = data.output[at] = nan_value;
            if (!p.broadcasts(FLASHSCAN_BROADCAST_TIME)) data.gate[p.gate_index(0, t, c)] = nan_value;
        }
}

// Numbers that are none in the input and in the gradient of the output, here and there.
void add_specials(const Problem& p, Data& data) {
    constexpr double specials[] = {nan_value, HUGE_VAL, -HUGE_VAL};
    for (size_t i = 0; i < data.input.size(); ++i) {
        const double draw = uniform(p.seed, 900, i) * 200;
        if (draw < 3) data.input[i] = specials[static_cast<int>(draw)];
        if (draw > 197) data.grad_output[i] = specials[static_cast<int>(draw - 197)];
    }
}

bool finite(Value v) { return std::isfinite(v.real()) && std::isfinite(v.imag()); }

// Compares one output with the loop's. Nothing is asked where the loop in the arithmetic's own type is not finite, or
// where the dtype does not reach.
class Compare {
  public:
    Compare(const Session& session, const Target& target, int64_t end)
        : session_(session), target_(target), end_(end) {}

    void operator()(const char* name, int32_t dtype, std::array<int64_t, 3> extents, bool steps, const Values& got,
                    const Expected& expected, const Values& narrow) const {
        if (got.empty()) return;
        Expected asked = expected;
        for (size_t i = 0; i < asked.value.size() && i < got.size(); ++i) {
            const Value want = expected.value[i];
            const double tolerance = expected.tolerance[i];
            const bool reached = std::abs(want) + tolerance < largest(dtype) && finite(narrow[i]);
            if (finite(want) ? reached : !finite(narrow[i])) continue;
            asked.value[i] = got[i];
            asked.tolerance[i] = 1;
        }
        const Comparison result = compare(name, extents, steps ? end_ : extents[1], got, asked);
        session_.count("comparisons");
        if (!result.ok()) session_.finding(text_of(target_) + ": " + result.sentence);
    }

  private:
    const Session& session_;
    const Target& target_;
    int64_t end_;
};

struct Exact {
    Reference reference;
    Outcome forward, backward;  // in the arithmetic's type: backends promise to be as finite as they are
};

void check_target(const Session& session, const Problem& p, const Target& target, const Data& data, const Exact& exact,
                  Guard guard) {
    const Compare compare(session, target, written_time(p, data));
    const int32_t state = state_dtype(p.dtype);
    const std::array<int64_t, 3> states{p.state_rows(), 1, p.channels};
    const Reference& r = exact.reference;
    const Outcome forward = run_forward(p, target, data, guard);
    if (!completed(session, target, forward.status, forward.message, forward.damage)) return;
    compare("OUTPUT", p.dtype, p.extents(), true, forward.output, r.output, exact.forward.output);
    if (p.state_out)
        compare("STATE_OUT", state, states, false, forward.state_out, r.state_out, exact.forward.state_out);
    if (written_by(p, true).empty()) return;
    const Outcome backward = run_backward(p, target, data, guard);
    if (!completed(session, target, backward.status, backward.message, backward.damage)) return;
    compare("GRAD|INPUT", p.dtype, p.extents(), true, backward.grad_input, r.grad_input, exact.backward.grad_input);
    compare("GRAD|GATE", p.gate_dtype, p.gate_extents(), !p.broadcasts(FLASHSCAN_BROADCAST_TIME), backward.grad_gate,
            r.grad_gate, exact.backward.grad_gate);
    compare("GRAD|STATE_IN", state, states, false, backward.grad_state_in, r.grad_state_in,
            exact.backward.grad_state_in);
}

}  // namespace

void check_linear(const Session& session, const Line& line) {
    const Problem p = problem_of(line.problem);
    Data data = make_data(p);
    if (line.special && !is_complex(p.dtype)) add_specials(p, data);
    Exact exact;
    exact.reference = reference_of(
        p, data, [](const Problem& wide, const Data& d, bool backward) { return linear_loop(wide, d, backward); });
    exact.forward = linear_loop(p, data, false, Arithmetic::narrow);
    exact.backward = linear_loop(p, data, true, Arithmetic::narrow);
    if (line.spoiled) spoil(p, data);
    for (const Target& target : wanted(session, all_targets()))
        for (const Guard guard : {Guard::end, Guard::start})
            if (guard == Guard::end || p.elements() < 2000) check_target(session, p, target, data, exact, guard);
}

}  // namespace fuzz
