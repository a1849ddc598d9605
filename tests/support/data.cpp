// SPDX-License-Identifier: Apache-2.0
#include "support/data.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace support {
namespace {

enum Stream : uint64_t {
    stream_input = 1,
    stream_gate,
    stream_state,
    stream_grad_output,
    stream_grad_state,
    stream_reset,
    stream_offsets
};

Values random_values(const Problem& p, int32_t dtype, Stream stream, int64_t count) {
    Values values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) {
        const double re = 2 * uniform(p.seed, stream, 2 * i) - 1, im = 2 * uniform(p.seed, stream, 2 * i + 1) - 1;
        values[i] = rounded(dtype, {re, im});
    }
    return values;
}

// The gate's magnitude, in the order of the cases: exact 0, exact 1, between.
double magnitude_of(Gates gates, double choice, double position) {
    if (gates == Gates::ones) return 1;
    if (gates == Gates::large) return 0.5 + position;
    if (choice < 0.03) return 0;
    if (choice < 0.10) return 1;
    return choice < 0.5 ? position : 1 - 0.1 * position;
}

Value value_gate(const Problem& p, double choice, double position, double angle) {
    const double magnitude = magnitude_of(p.gates, choice, position);
    if (p.gates == Gates::ones) return magnitude;
    if (!is_complex(p.gate_dtype)) return angle < 0.25 ? -magnitude : magnitude;
    const double turn = choice < 0.10 ? 0 : 2 * std::numbers::pi * angle;
    // Rounding must not push a gate past 1: powers of it would grow.
    return 0.999999 * std::polar(magnitude, turn);
}

Value log_gate(const Problem& p, double choice, double position, double angle) {
    const double imaginary = is_complex(p.gate_dtype) ? 6 * angle - 3 : 0;
    if (p.gates == Gates::ones) return 0;
    if (p.gates == Gates::large) return {0.8 * position - 0.4, imaginary};
    if (choice < 0.05) return {0, imaginary};
    return {choice < 0.15 ? -20 * position : -2 * position * position, imaginary};
}

// Gates::range: so many steps of which each halves or doubles (f32) take a product past the smallest and the largest
// numbers.
constexpr int64_t range_steps = 130;
int range_exponent(const Problem& p) { return unit_roundoff(p.dtype) < 0x1p-40 ? 8 : 1; }

// Down for range_steps, up for as many and even for as many, or first up; numbers start so that what they become stays
// in range, and the rest of a row adds little to them.
void leave_range(const Problem& p, Data& data) {
    const auto e = p.gate_extents();
    const int exponent = range_exponent(p);
    const bool down_first = p.seed % 2 == 0;
    for (size_t i = 0; i < data.gate.size(); ++i) {
        const int64_t t = static_cast<int64_t>(i) / e[2] % e[1];
        const int64_t stage = t / range_steps % 3;
        const double magnitude = stage == 2 ? 1 : std::ldexp(1.0, (stage == 0) == down_first ? -exponent : exponent);
        const bool negative = p.form == FLASHSCAN_GATE_VALUE && uniform(p.seed, stream_gate, i) < 0.25;
        const double g = p.form == FLASHSCAN_GATE_VALUE ? magnitude
                         : p.form == FLASHSCAN_GATE_LOG ? std::log(magnitude)
                                                        : -std::log(1 / std::min(magnitude, 0.999) - 1);
        data.gate[i] = rounded(p.gate_dtype, negative ? -g : g);
    }
    const auto scale = [&](Values& values, int by, double share) {
        for (size_t i = 0; i < values.size(); ++i)
            values[i] =
                uniform(p.seed, stream_input + 50, i) < share
                    ? rounded(
                          &values == &data.state_in || &values == &data.grad_state_out ? state_dtype(p.dtype) : p.dtype,
                          std::ldexp(1.0, by * exponent) * values[i])
                    : Value(0);
    };
    scale(data.input, -100, 0.1);
    scale(data.grad_output, -100, 0.1);
    // Steps one by one lose what starts low and goes down first.
    const bool states_down_first = down_first != p.reverse;
    scale(data.state_in, states_down_first ? 10 : -20, 1);
    scale(data.grad_state_out, states_down_first ? -20 : 10, 1);
}

// A complex logit has poles at odd multiples of pi i; the data stay away from them.
Value logit_gate(const Problem& p, double choice, double position, double angle) {
    const double imaginary = is_complex(p.gate_dtype) ? 2 * angle - 1 : 0;
    if (p.gates == Gates::ones) return 40;
    const double range = choice < 0.1 ? 30 : 6;
    return {range * (2 * position - 1) + (is_complex(p.gate_dtype) ? -range : 0.0), imaginary};
}

}  // namespace

double uniform(uint64_t seed, uint64_t stream, uint64_t index) {
    uint64_t z = seed * 0x9e3779b97f4a7c15U + stream * 0xd1342543de82ef95U + index * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    z ^= z >> 31;
    return static_cast<double>(z >> 11) * 0x1p-53;
}

std::vector<unsigned char> make_reset(uint64_t seed, int64_t count) {
    std::vector<unsigned char> reset(static_cast<size_t>(count));
    for (size_t i = 0; i < reset.size(); ++i) {
        const double draw = uniform(seed, stream_reset, i);
        reset[i] = draw < 0.05 ? 1 : draw < 0.07 ? 255 : 0;
    }
    return reset;
}

std::vector<int64_t> make_offsets(uint64_t seed, int64_t time, int64_t sequences) {
    std::vector<int64_t> offsets;
    const int64_t end = seed % 2 == 0 ? time : time - time / 7;
    for (int64_t n = 0; n + 1 < sequences; ++n) {
        const double draw = uniform(seed, stream_offsets, static_cast<uint64_t>(n - n % 3 / 2));
        offsets.push_back(static_cast<int64_t>(draw * static_cast<double>(end + 1)));
    }
    std::sort(offsets.begin(), offsets.end());
    offsets.insert(offsets.begin(), 0);
    offsets.push_back(end);
    return offsets;
}

Data make_data(const Problem& p) {
    Data data;
    const int64_t states = p.state_rows() * p.channels;
    data.input = random_values(p, p.dtype, stream_input, p.elements());
    data.grad_output = random_values(p, p.dtype, stream_grad_output, p.elements());
    if (p.state_in) data.state_in = random_values(p, state_dtype(p.dtype), stream_state, states);
    if (p.state_out) data.grad_state_out = random_values(p, state_dtype(p.dtype), stream_grad_state, states);
    const auto e = p.gate_extents();
    data.gate.resize(static_cast<size_t>(e[0] * e[1] * e[2]));
    for (size_t i = 0; i < data.gate.size(); ++i) {
        const double choice = uniform(p.seed, stream_gate, 3 * i), position = uniform(p.seed, stream_gate, 3 * i + 1);
        const double angle = uniform(p.seed, stream_gate, 3 * i + 2);
        const auto make = p.form == FLASHSCAN_GATE_VALUE ? value_gate
                          : p.form == FLASHSCAN_GATE_LOG ? log_gate
                                                         : logit_gate;
        data.gate[i] = rounded(p.gate_dtype, make(p, choice, position, angle));
    }
    if (p.gates == Gates::range) leave_range(p, data);
    if (p.reset) data.reset = make_reset(p.seed, p.batch * p.time);
    if (p.sequences > 0) data.offsets = make_offsets(p.seed, p.time, p.sequences);
    return data;
}

std::vector<Sequence> sequences_of(int64_t batch, int64_t time, const std::vector<int64_t>& offsets) {
    std::vector<Sequence> list;
    for (int64_t n = 0; offsets.empty() && n < batch; ++n) list.push_back({n, 0, time, n});
    for (size_t n = 0; n + 1 < offsets.size(); ++n)
        list.push_back({0, offsets[n], offsets[n + 1], static_cast<int64_t>(n)});
    return list;
}

std::vector<Sequence> sequences_of(const Problem& p, const Data& data) {
    return sequences_of(p.batch, p.time, data.offsets);
}

int64_t written_time(const Problem& p, const Data& data) { return p.sequences > 0 ? data.offsets.back() : p.time; }

// The error units allow exp by a multiplication with log2(e) and a 2-ulp exp2, and a 2-ulp division.
Gate gate_of(int32_t form, Value g) {
    if (form == FLASHSCAN_GATE_VALUE) return {g, 1.0, 0, 0};
    const double exp_error = 6 + 2 * std::abs(g);
    if (form == FLASHSCAN_GATE_LOG) return {std::exp(g), std::exp(g), exp_error, exp_error};
    const bool negative = g.real() < 0;
    const Value e = std::exp(negative ? g : -g), denominator = 1.0 + e, large = 1.0 / denominator, small = e * large;
    const double error = exp_error * (1 + std::abs(small)) + 6 / std::abs(denominator) + (g.imag() != 0 ? 6 : 0);
    return {negative ? small : large, large * small, error, 2 * error + 2};
}

}  // namespace support
