// SPDX-License-Identifier: Apache-2.0
// Gated layers: the stages, which compute on the panels of a tile what comes before and after the linear recurrence.
// Each stage is one loop over vectors, compiled once for each choice of the layer's part that it computes:
//
//     decay        gate, second gate -> a, m; backward also their slopes
//     value        input, input gate, m -> x
//     epilogue     h, output gate -> y                backward: y's gradient -> that of h, and of the output gate
//     input        g, m -> gradients of input and input gate, and v
//     gate         g, h before, v -> gradients of gate and second gate, and of the rate
//
// So the number of instances is the sum of the choices and not their product. Panels stay in the caches between stages.
#pragma once

#include "cpu/kernels/gated.h"
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/linear_tile.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The numbers of a tensor's tile. `at` points to the copy in `own`, or into the tensor itself where its layout and
// dtype are those of a panel.
template <typename T>
struct Panel {
    const T* at;
    alignas(64) T own[Work<T>::size];
};

// The numbers that a stage computes of a tile of an output. `at` points to `own`, from where they are copied, or into
// the tensor itself, which is then written past the caches if `streamed`.
template <typename T>
struct OutputPanel {
    T* at;
    bool streamed;
    alignas(64) T own[Work<T>::size];
};

// The memory of one worker thread, about 370 KB in f32, of which a tile touches 4 KB of each panel that its layer has.
// Members with the names of those of Work (linear_tile.h) have the same use.
template <typename T>
struct GatedWork {
    static constexpr size_t size = Work<T>::size;
    Panel<T> input, gate, second_gate, input_gate, output_gate, grad_output, states, previous;
    alignas(64) T a[size], m[size], gate_slope[size], second_slope[size], rate_slope[size], scale_slope[size];
    alignas(64) T x[size], h[size], value[size], grad_rate[size];
    OutputPanel<T> y, hidden, grad_input, grad_gate, grad_second, grad_input_gate, grad_output_gate;
    alignas(64) T bias[size], rate[size], rate_by_param[size];  // of the channels of a block
    alignas(64) T carry[size], next[size], product[size], power[size], local[size];
    alignas(64) T gate_sum[size], rate_sum[size];  // over GatedColumns::summed_steps steps
    alignas(64) double sums[2 * size], chunk_sums[2 * size];
    uint8_t flags[size];
};

// For prefetching: the address in a tensor of what the next tile has in the place of a span of this one. Rows of the
// span are `row` bytes apart, and numbers of a row `number` bytes.
struct Ahead {
    const char* at;
    int64_t row, number;
};

// The numbers of panels that a stage computes: `rows` rows of `n` numbers, the first at `first` and each `pitch` after
// the one before. Whole vectors are computed; what they write past n is unused or is computed again by a later span.
// Parameters of a channel are read at `channel`, and `channel_step` further on for each number of a row: 1 where lanes
// are channels, and 0 where they are steps of one channel.
struct Span {
    int64_t first, rows, n, pitch, channel, channel_step;
    Ahead ahead[2];  // for the two tensors that a stage reads
};

// Calls use(place in the panels, place in the channels' parameters) for each vector of the span, and prefetches what
// the next tile has in its place, so that memory is fetched while the stages compute.
template <typename T, typename Use>
FLASHSCAN_INLINE void for_vectors(const Span s, Use use) {
    constexpr int64_t width = Simd<T>::width;
    const int64_t one_step = width * s.ahead[0].number, two_step = width * s.ahead[1].number;
    for (int64_t r = 0; r < s.rows; ++r) {
        const char *one = s.ahead[0].at + r * s.ahead[0].row, *two = s.ahead[1].at + r * s.ahead[1].row;
        int64_t i = s.first + r * s.pitch, c = s.channel;
        for (const int64_t end = i + s.n; i < end; i += width) {
            prefetch(one);
            prefetch(two);
            use(i, c);
            one += one_step, two += two_step, c += width * s.channel_step;
        }
    }
}

template <typename T>
FLASHSCAN_INLINE Lanes<T> take(const T* panel, int64_t i) {
    return Lanes<T>(load(panel + i));
}
template <typename T>
FLASHSCAN_INLINE void put_lanes(T* panel, int64_t i, Lanes<T> v) {
    store<T>(panel + i, v.v);
}
// A stage puts an output's vectors there. It is a copy, which stores cannot change.
template <typename T>
struct Target {
    T* at;
    bool streamed;
    explicit Target(const OutputPanel<T>& panel) : at(panel.at), streamed(panel.streamed) {}
};
template <typename T>
FLASHSCAN_INLINE void put_lanes(const Target<T>& to, int64_t i, Lanes<T> v) {
    if (to.streamed)
        stream(to.at + i, v.v);
    else
        store<T>(to.at + i, v.v);
}
template <typename T>
FLASHSCAN_INLINE Lanes<T> take_channel(const T* numbers, int64_t i, int64_t step) {
    return step == 0 ? Lanes<T>(numbers[i]) : take(numbers, i);
}

template <Decay decay, Scale scale, bool Slopes, typename T>
void decay_stage(GatedWork<T>& w, const Span& s, T limit) {
    using V = Lanes<T>;
    const T *gate = w.gate.at, *second_gate = w.second_gate.at;
    for_vectors<T>(
        s, [&](int64_t i, int64_t c) __attribute__((always_inline)) {
            const V g = take(gate, i) + take_channel(w.bias, c, s.channel_step);
            const V second = decay == Decay::ratio ? take(second_gate, i) : V(0);
            const V rate = take_channel(w.rate, c, s.channel_step);
            const auto d = gated::decayed<decay>(g, second, rate);
            put_lanes(w.a, i, d.a);
            const V m = gated::scaled<scale>(d.a, d.rest);
            if constexpr (scale != Scale::one) put_lanes(w.m, i, m);
            if constexpr (Slopes) {
                put_lanes(w.gate_slope, i, d.gate_slope);
                if constexpr (decay == Decay::ratio) put_lanes(w.second_slope, i, d.second_slope);
                if constexpr (decay == Decay::lower_bound || decay == Decay::softplus)
                    put_lanes(w.rate_slope, i, d.rate_slope);
                if constexpr (scale == Scale::sqrt)
                    put_lanes(w.scale_slope, i, gated::scale_slope<scale>(d.a, m, V(limit)));
            }
        });
}

// Without `scaled` m is 1.
template <Activation activation, InputGating gating, typename T>
void value_stage(GatedWork<T>& w, const Span& s, bool scaled) {
    using V = Lanes<T>;
    const T *input = w.input.at, *input_gate = w.input_gate.at;
    for_vectors<T>(
        s, [&](int64_t i, int64_t) __attribute__((always_inline)) {
            V v = gated::activated<activation>(take(input, i)).value;
            if constexpr (gating != InputGating::none) v = v * gated::input_gated<gating>(take(input_gate, i)).value;
            put_lanes(w.x, i, scaled ? take(w.m, i) * v : v);
        });
}

template <Epilogue epilogue, typename T>
void epilogue_stage(GatedWork<T>& w, const Span& s) {
    const T* output_gate = w.output_gate.at;
    const Target<T> y(w.y);
    for_vectors<T>(
        s, [&](int64_t i, int64_t) __attribute__((always_inline)) {
            put_lanes(y, i, gated::epilogued<epilogue>(take(w.h, i), take(output_gate, i)).y);
        });
}

// Writes the gradient of h to w.x, which the backward recurrence reads.
template <Epilogue epilogue, typename T>
void epilogue_gradient_stage(GatedWork<T>& w, const Span& s) {
    const T *states = w.states.at, *output_gate = w.output_gate.at, *grad_output = w.grad_output.at;
    const Target<T> grad_output_gate(w.grad_output_gate);
    for_vectors<T>(
        s, [&](int64_t i, int64_t) __attribute__((always_inline)) {
            const auto e = gated::epilogued<epilogue>(take(states, i), take(output_gate, i));
            const Lanes<T> dy = take(grad_output, i);
            put_lanes(w.x, i, dy * e.state_slope);
            put_lanes(grad_output_gate, i, dy * e.gate_slope);
        });
}

// Reads g from w.h, and writes v to w.value for the gradient of the scale m.
template <Activation activation, InputGating gating, typename T>
void input_gradient_stage(GatedWork<T>& w, const Span& s, bool scaled) {
    using V = Lanes<T>;
    const T *input = w.input.at, *input_gate = w.input_gate.at;
    const Target<T> grad_input(w.grad_input), grad_input_gate(w.grad_input_gate);
    for_vectors<T>(
        s, [&](int64_t i, int64_t) __attribute__((always_inline)) {
            const auto x = gated::activated<activation>(take(input, i));
            const V g = take(w.h, i), dv = scaled ? take(w.m, i) * g : g;
            if constexpr (gating == InputGating::none) {
                put_lanes(w.value, i, x.value);
                put_lanes(grad_input, i, dv * x.slope);
            } else {
                const auto gate = gated::input_gated<gating>(take(input_gate, i));
                put_lanes(w.value, i, x.value * gate.value);
                put_lanes(grad_input, i, dv * (gate.value * x.slope));
                put_lanes(grad_input_gate, i, dv * (x.value * gate.slope));
            }
        });
}

// Without `carried` the step had a reset, and the state before it has no part in the gradient.
template <Scale scale, typename T>
void gate_gradient_stage(GatedWork<T>& w, const Span& s, bool carried, bool second, bool rate) {
    using V = Lanes<T>;
    const T* previous = w.previous.at;
    const Target<T> grad_gate(w.grad_gate), grad_second(w.grad_second);
    for_vectors<T>(
        s, [&](int64_t i, int64_t) __attribute__((always_inline)) {
            const V g = take(w.h, i);
            V da = carried ? g * take(previous, i) : V(0);
            if constexpr (scale == Scale::one_minus) da = da - g * take(w.value, i);
            if constexpr (scale == Scale::sqrt) da = da + g * take(w.value, i) * take(w.scale_slope, i);
            put_lanes(grad_gate, i, da * take(w.gate_slope, i));
            if (second) put_lanes(grad_second, i, da * take(w.second_slope, i));
            if (rate) put_lanes(w.grad_rate, i, da * take(w.rate_slope, i));
        });
}

// ---- The functions run_... call the instance of a stage that fits the parts of a call.

template <Scale scale, bool Slopes, typename T>
void run_decay(const GatedCall& p, GatedWork<T>& w, const Span& s) {
    const T limit = static_cast<T>(p.sqrt_slope_limit);
    switch (p.parts.decay) {
    case Decay::value: return decay_stage<Decay::value, scale, Slopes>(w, s, limit);
    case Decay::exp: return decay_stage<Decay::exp, scale, Slopes>(w, s, limit);
    case Decay::sigmoid: return decay_stage<Decay::sigmoid, scale, Slopes>(w, s, limit);
    case Decay::one_minus_sigmoid: return decay_stage<Decay::one_minus_sigmoid, scale, Slopes>(w, s, limit);
    case Decay::lower_bound: return decay_stage<Decay::lower_bound, scale, Slopes>(w, s, limit);
    case Decay::softplus: return decay_stage<Decay::softplus, scale, Slopes>(w, s, limit);
    case Decay::ratio: return decay_stage<Decay::ratio, scale, Slopes>(w, s, limit);
    }
}
template <bool Slopes, typename T>
void run_decay(const GatedCall& p, GatedWork<T>& w, const Span& s, Scale scale) {
    switch (scale) {
    case Scale::one: return run_decay<Scale::one, Slopes>(p, w, s);
    case Scale::one_minus: return run_decay<Scale::one_minus, Slopes>(p, w, s);
    case Scale::sqrt: return run_decay<Scale::sqrt, Slopes>(p, w, s);
    }
}

// Calls use.template operator()<activation, gating>().
template <typename Use>
FLASHSCAN_INLINE void with_input_parts(const GatedParts& parts, Use use) {
    const auto with_gating = [&]<Activation activation>() {
        if (parts.has_input_gate())
            use.template operator()<activation, InputGating::sigmoid>();
        else
            use.template operator()<activation, InputGating::none>();
    };
    switch (parts.activation) {
    case Activation::none: return with_gating.template operator()<Activation::none>();
    case Activation::tanh: return with_gating.template operator()<Activation::tanh>();
    case Activation::silu: return with_gating.template operator()<Activation::silu>();
    case Activation::positive: return with_gating.template operator()<Activation::positive>();
    }
}

template <typename T>
void run_value(const GatedCall& p, GatedWork<T>& w, const Span& s, bool scaled) {
    with_input_parts(
        p.parts, [&]<Activation activation, InputGating gating>() { value_stage<activation, gating>(w, s, scaled); });
}
template <typename T>
void run_input_gradient(const GatedCall& p, GatedWork<T>& w, const Span& s, bool scaled) {
    with_input_parts(p.parts, [&]<Activation activation, InputGating gating>() {
        input_gradient_stage<activation, gating>(w, s, scaled);
    });
}

template <typename T>
void run_epilogue(const GatedCall& p, GatedWork<T>& w, const Span& s) {
    switch (p.parts.epilogue) {
    case Epilogue::none: return;
    case Epilogue::sigmoid: return epilogue_stage<Epilogue::sigmoid>(w, s);
    case Epilogue::silu: return epilogue_stage<Epilogue::silu>(w, s);
    case Epilogue::tanh_sigmoid: return epilogue_stage<Epilogue::tanh_sigmoid>(w, s);
    }
}
template <typename T>
void run_epilogue_gradient(const GatedCall& p, GatedWork<T>& w, const Span& s) {
    switch (p.parts.epilogue) {
    case Epilogue::none: return;
    case Epilogue::sigmoid: return epilogue_gradient_stage<Epilogue::sigmoid>(w, s);
    case Epilogue::silu: return epilogue_gradient_stage<Epilogue::silu>(w, s);
    case Epilogue::tanh_sigmoid: return epilogue_gradient_stage<Epilogue::tanh_sigmoid>(w, s);
    }
}

template <typename T>
void run_gate_gradient(const GatedCall& p, GatedWork<T>& w, const Span& s, Scale scale, bool carried) {
    const bool second = p.parts.has_second_gate(), rate = p.parts.has_param();
    switch (scale) {
    case Scale::one: return gate_gradient_stage<Scale::one>(w, s, carried, second, rate);
    case Scale::one_minus: return gate_gradient_stage<Scale::one_minus>(w, s, carried, second, rate);
    case Scale::sqrt: return gate_gradient_stage<Scale::sqrt>(w, s, carried, second, rate);
    }
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
