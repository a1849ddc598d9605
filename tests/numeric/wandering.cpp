// SPDX-License-Identifier: Apache-2.0
#include "numeric/wandering.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "numeric/problems.h"

namespace numeric {

using namespace support;

namespace {

// Gates take a state from one end of the range to the other and back; some of their steps are leaps.
class Wanderer {
  public:
    Wanderer(const Problem& p, const Range& range, uint64_t stream)
        : p_(p), range_(range), stream_(stream), place_(stream % 2 == 0 ? range.high : range.low) {}

    double place() const { return place_; }
    double draw() { return uniform(p_.seed, stream_, count_++); }

    // The gate as GATE holds it, and the state's place after it.
    Value step() {
        if (place_ >= range_.high - range_.most_step) rising_ = false;
        if (place_ <= range_.low + range_.most_step) rising_ = true;
        double size = range_.least_step + (range_.most_step - range_.least_step) * draw();
        const double room = rising_ ? range_.high - place_ : place_ - range_.low;
        if (draw() < 0.02) size = std::max(size, std::min(room * draw(), range_.leap));
        const double turn = is_complex(p_.gate_dtype) ? 2 * std::numbers::pi * draw()
                            : draw() < 0.2            ? std::numbers::pi
                                                      : 0;
        Value g = std::exp2(rising_ ? size : -size);
        if (p_.form == FLASHSCAN_GATE_LOG)
            g = {std::log(g.real()), is_complex(p_.gate_dtype) ? turn : 0};
        else
            g = is_complex(p_.gate_dtype) ? std::polar(g.real(), turn) : turn == 0 ? g : -g;
        g = rounded(p_.gate_dtype, g);
        place_ += std::log2(std::abs(gate_of(p_.form, g).value));
        return g;
    }
    // The same of states that only climb, and a gate of 0 where they begin anew.
    Value climb() {
        if (place_ < range_.high - range_.most_step) {
            rising_ = true;
            return step();
        }
        place_ = range_.low;
        return p_.form == FLASHSCAN_GATE_LOG ? -2000 : 0;
    }
    Value number(int32_t dtype, double place) {
        const double re = 2 * draw() - 1, im = 2 * draw() - 1;
        return rounded(dtype, std::exp2(place) * Value(re, is_complex(dtype) ? im : 0));
    }

  private:
    const Problem& p_;
    Range range_;
    uint64_t stream_, count_ = 0;
    double place_;
    bool rising_ = false;
};

// Data of which row n is taken from step to step by the wanderer make(n), whose `step` gives the gates. Gradients are
// of the inverse of the states' size, and 2^below times smaller.
template <typename Make>
Data data_of(const Problem& p, double below, Value (Wanderer::*step)(), Make&& make) {
    Data data = make_data(p);
    const int32_t state = state_dtype(p.dtype);
    for (const Sequence& s : sequences_of(p, data))
        for (int64_t c = 0; c < p.channels; ++c) {
            const auto row = static_cast<size_t>(s.state * p.channels + c);
            Wanderer wanderer = make(row);
            if (p.state_in) data.state_in[row] = wanderer.number(state, wanderer.place());
            for (int64_t i = 0; i < s.length(); ++i) {
                const int64_t t = s.step(p, i);
                data.gate[p.gate_index(s.batch, t, c)] = (wanderer.*step)();
                data.input[p.index(s.batch, t, c)] = wanderer.number(p.dtype, wanderer.place());
                data.grad_output[p.index(s.batch, t, c)] = wanderer.number(p.dtype, -below - wanderer.place());
            }
            if (p.state_out) data.grad_state_out[row] = wanderer.number(state, -below - wanderer.place());
        }
    return data;
}

}  // namespace

Data wandering_data(const Problem& p, const Range& range) {
    return data_of(p, 0, &Wanderer::step, [&](uint64_t row) { return Wanderer(p, range, 100 + row); });
}

Data climbing_data(const Problem& p) {
    const bool wide = unit_roundoff(state_dtype(p.dtype)) < 1e-9, narrow = p.dtype == FLASHSCAN_DTYPE_F16;
    // Gradients lie so far below the inverse of the states that the gradient of a gate of 0, the state before it times
    // the gradient after it, is a number, and a sum of these too.
    const double below = wide ? 350 : p.broadcast != 0 ? 46 : 40;
    const Range range =
        wide ? Range{-600, 600, 1, 12, 0} : Range{narrow ? -124.0 : -80.0, narrow ? 6.0 : 80.0, 0.2, 3, 0};
    const auto channels = static_cast<uint64_t>(p.channels);
    return data_of(p, below, &Wanderer::climb, [&](uint64_t row) {
        if (p.broadcasts(FLASHSCAN_BROADCAST_CHANNELS)) row -= row % channels;
        if (p.broadcasts(FLASHSCAN_BROADCAST_BATCH)) row %= channels;
        return Wanderer(p, range, 101 + 2 * row);
    });
}

Range range_of(int32_t dtype, bool steep) {
    if (state_dtype(dtype) == FLASHSCAN_DTYPE_F64 || state_dtype(dtype) == FLASHSCAN_DTYPE_C128)
        return steep ? Range{-900, 900, 60, 300, 900} : Range{-900, 900, 1, 12, 900};
    // Numbers of f16 are narrower than their states.
    const double high = dtype == FLASHSCAN_DTYPE_F16 ? 6 : 100, low = dtype == FLASHSCAN_DTYPE_F16 ? -124 : -100;
    return steep ? Range{low, high, 6, 36, 100} : Range{low, high, 0.2, 3, 100};
}

std::vector<Problem> far_problems() {
    return problems_of({
        "linear f32 BTC b1 t2300 c64 state-in state-out seed1",
        "linear f32 BTC b2 t4100 c9 state-in state-out seed2",
        "linear f32 BTC b3 t1100 c17 form-log state-in state-out reverse seed3",
        "linear f32 BCT b1 t4100 c3 state-in state-out seed4",
        "linear f32 BCT b2 t1537 c5 reverse state-in state-out seed5",
        "linear f32 BCT b1 t2050 c2 form-log state-in state-out seed6",
        "linear f32 BTC b1 t3000 c16 sequences5 state-in state-out seed7",
        "linear f32 BTC b2 t2100 c8 place-spread reset state-in state-out seed8",
        "linear f32 BTC b2 t1900 c16 invariant threads1 state-in state-out seed9",
        "linear f32 BCT b4 t2600 c2 invariant threads2 state-in state-out seed10",
        "linear f32 BCT b1 t2000 c4 place-spread form-log state-in state-out seed11",
        "linear bf16 BTC b1 t2500 c40 state-in state-out seed12",
        "linear bf16 BCT b1 t2500 c6 reverse state-in state-out seed13",
        "linear bf16 gate-f32 BTC b1 t1100 c33 form-log state-in state-out seed14",
        "linear f16 gate-f32 BTC b1 t2500 c32 state-in state-out seed15",
        "linear f16 gate-f32 BCT b1 t2500 c3 state-in state-out seed16",
        "linear f64 BTC b1 t4100 c8 state-in state-out seed17",
        "linear f64 BCT b1 t4100 c3 reverse state-in state-out seed18",
        "linear f64 BTC b2 t1300 c5 form-log invariant state-in state-out seed19",
        "linear c64 BTC b1 t2300 c8 state-in state-out seed20",
        "linear c64 BTC b1 t2300 c3 form-log reverse state-in state-out seed21",
        "linear c64 BCT b2 t2300 c2 state-in state-out seed22",
        "linear c64 gate-f32 BTC b1 t2300 c6 state-in state-out seed23",
        "linear c64 gate-f32 BCT b1 t2300 c3 reverse state-in state-out seed24",
        "linear c128 BTC b1 t4100 c3 state-in state-out seed25",
        "linear c128 BCT b1 t4100 c2 state-in state-out seed26",
        "linear c128 gate-f64 BCT b1 t2100 c2 form-log state-in state-out seed27",
        "linear f32 BTC b1 t2300 c64 broadcast-b state-in state-out seed28",
        "linear f32 BCT b2 t4100 c1 broadcast-c reverse state-in state-out seed29",
        "linear bf16 BTC b1 t2500 c40 broadcast-b reverse state-in state-out seed30",
        "linear bf16 BCT b1 t2500 c6 broadcast-b state-in state-out seed31",
        "linear f32 BCT b3 t508 c5 state-in state-out seed32",
        "linear bf16 BCT b2 t1000 c3 reverse state-in state-out seed33",
        "linear f64 BCT b1 t256 c7 state-in state-out seed34",
        "linear f32 BTC b1 t3000 c16 sequences5 invariant state-in state-out seed52",
        "linear f32 BCT b1 t5000 c3 sequences4 invariant reverse state-in state-out seed53",
        "linear bf16 BCT b1 t5000 c2 sequences3 seed54",
        "linear f32 BCT b2 t2100 c5 reset seed55",
    });
}

}  // namespace numeric
