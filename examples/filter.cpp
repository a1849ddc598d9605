// SPDX-License-Identifier: Apache-2.0
// Learns a filter back from nothing but its input and its output, as quickstart.c does with a recording.
//
//     y[t] = 0.97 y[t-1] + x[t]
//
// is the linear recurrence with one batch, one channel and a gate that is the same at every step. Exits with 0 when the
// coefficient was found again within 0.001.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <flashscan/flashscan.hpp>
#include <vector>

namespace {

using flashscan::in;
using flashscan::out;
using Signal = std::vector<float>;

// Tones over noise, the noise from a linear congruential generator.
Signal make_signal(size_t count) {
    Signal signal(count);
    uint32_t noise = 1;
    for (size_t t = 0; t < count; ++t) {
        noise = noise * 1664525U + 1013904223U;
        signal[t] = static_cast<float>(std::sin(0.03 * static_cast<double>(t)) + noise / 4294967296.0 - 0.5);
    }
    return signal;
}

class Filter {
  public:
    explicit Filter(size_t count) : plan_(desc_of(count)) {}

    // y[t] = gate y[t-1] + x[t]
    Signal operator()(float gate, const Signal& x) const {
        Signal y(x.size());
        plan_.forward(
            {in(FLASHSCAN_ARG_GATE, &gate, sizeof gate), in(FLASHSCAN_ARG_INPUT, x), out(FLASHSCAN_ARG_OUTPUT, y)});
        return y;
    }

    // d loss / d gate, summed over time by the library, from d loss / d y.
    double slope(float gate, const Signal& y, const Signal& grad_y) const {
        float sum = 0;
        plan_.backward({in(FLASHSCAN_ARG_GATE, &gate, sizeof gate), in(FLASHSCAN_ARG_OUTPUT, y),
                        in(FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, grad_y),
                        out(FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE, &sum, sizeof sum)});
        return sum;
    }

  private:
    static flashscan::LinearDesc desc_of(size_t count) {
        flashscan::LinearDesc what;
        what.dtype = FLASHSCAN_DTYPE_F32;
        what.gate_broadcast = FLASHSCAN_BROADCAST_TIME;
        what.batch = what.channels = 1;
        what.time = static_cast<int64_t>(count);
        return what;
    }

    flashscan::Plan plan_;
};

double energy(const Signal& signal) {
    double sum = 0;
    for (const float value : signal) sum += static_cast<double>(value) * value;
    return sum;
}

Signal difference(const Signal& a, const Signal& b) {
    Signal made(a.size());
    for (size_t t = 0; t < a.size(); ++t) made[t] = a[t] - b[t];
    return made;
}

// Gradient descent on 1/2 sum (y - wanted)^2. The step is divided by the curvature, the sum of (dy/da)^2, and halved
// while it does not lower the loss. dy/da is a recurrence of the same filter: d[t] = a d[t-1] + y[t-1].
double learn(const Filter& filter, const Signal& x, const Signal& wanted, double a) {
    Signal y = filter(static_cast<float>(a), x), residual = difference(y, wanted);
    double loss = energy(residual) / 2;
    for (int i = 0; i < 50; ++i) {
        Signal delayed(y.size());
        for (size_t t = 1; t < y.size(); ++t) delayed[t] = y[t - 1];
        const double curvature = energy(filter(static_cast<float>(a), delayed));
        double step = filter.slope(static_cast<float>(a), y, residual) / curvature, next = loss;
        for (; std::abs(step) > 1e-7; step /= 2) {
            y = filter(static_cast<float>(a - step), x);
            residual = difference(y, wanted);
            next = energy(residual) / 2;
            if (next < loss) break;
        }
        if (!(next < loss)) break;
        a -= step;
        loss = next;
        std::printf("loss %11.4e at %.6f\n", loss, a);
    }
    return a;
}

}  // namespace

int main() {
    try {
        const Signal x = make_signal(20000);
        const Filter filter(x.size());
        const double learned = learn(filter, x, filter(0.97F, x), 0.5);
        std::printf("learned %.6f from 0.5; the signal was filtered with 0.97\n", learned);
        return std::abs(learned - 0.97) <= 1e-3 ? EXIT_SUCCESS : EXIT_FAILURE;
    } catch (const flashscan::Error& error) {
        std::fprintf(stderr, "%s: %s\n", error.status_name(), error.what());
        return EXIT_FAILURE;
    }
}
