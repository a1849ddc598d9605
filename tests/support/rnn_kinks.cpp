// SPDX-License-Identifier: Apache-2.0
#include "support/rnn_kinks.h"

#include <algorithm>
#include <cmath>

namespace support {
namespace {

// All up, all down; and, since at SLSTM's i = l what comes from later steps goes on to earlier ones or not, every third
// of a chain up.
constexpr int sides = 2, thirds = 3;

bool upward(int choice, int near_before) {
    return choice < sides ? choice == 0 : near_before % thirds == choice - sides;
}

}  // namespace

RnnKinks::RnnKinks(const RnnProblem& problem, const RnnData& data, const RnnOutcome& outcome, const Margin& margin)
    : p_(problem), wide_(problem.widened()), data_(data), base_(outcome) {
    const bool slstm = p_.cell == FLASHSCAN_CELL_SLSTM;
    if (!slstm && p_.cell != FLASHSCAN_CELL_ELMAN_RELU) return;
    places_.resize(static_cast<size_t>(p_.batch * p_.time * p_.width()));
    bool any = false;
    for (const Sequence& q : sequences_of(p_.batch, p_.time, data_.offsets))
        for (int64_t i = 0; i < q.length(); ++i)
            for (int64_t w = 0; w < p_.width(); ++w) {
                Place& place = places_[index(q, q.step(p_.reverse, i), w)];
                place = place_of(q, i, w, margin);
                any = any || place.near();
            }
    if (any) choices_ = slstm ? sides + thirds : sides;
}

size_t RnnKinks::index(const Sequence& q, int64_t t, int64_t w) const {
    return static_cast<size_t>((q.batch * p_.time + t) * p_.width() + w);
}

double RnnKinks::reach(int64_t batch, int64_t t, int64_t w) const {
    if (p_.cell != FLASHSCAN_CELL_ELMAN_RELU) return 0;
    const Place& place = places_[static_cast<size_t>((batch * p_.time + t) * p_.width() + w)];
    return place.position <= 0 ? std::max(place.position + place.margin, 0.0) : 0;
}

double RnnKinks::state_before(const Sequence& q, int64_t i, int64_t s, int64_t w) const {
    if (p_.reset && data_.reset[static_cast<size_t>(q.batch * p_.time + q.step(p_.reverse, i))] != 0) return 0;
    if (i > 0) return base_[FLASHSCAN_ARG_OUTPUT][wide_.output_index(s, q.batch, q.step(p_.reverse, i - 1), w)].real();
    return data_.state_in.empty() ? 0 : data_.state_in[p_.state_index(s, q.state, w)].real();
}

double RnnKinks::raw(const Sequence& q, int64_t i, int64_t gate, int64_t w) const {
    const auto row = static_cast<size_t>(gate * p_.width() + w);
    double sum = data_.input[p_.input_index(q.batch, q.step(p_.reverse, i), gate, w)].real();
    if (p_.bias) sum += data_.bias[row].real();
    for (int64_t k = 0; k < p_.dim; ++k)
        sum += data_.weight[row * static_cast<size_t>(p_.dim) + static_cast<size_t>(k)].real() *
               state_before(q, i, 0, w / p_.dim * p_.dim + k);
    return sum;
}

RnnKinks::Place RnnKinks::place_of(const Sequence& q, int64_t i, int64_t w, const Margin& margin) const {
    if (p_.cell == FLASHSCAN_CELL_ELMAN_RELU) return {raw(q, i, 0, w), 0, margin(q, i, w)};
    const double n = state_before(q, i, 2, w), f = raw(q, i, 1, w);
    if (n == 0) return {};
    const double l = std::min(f, 0.0) - std::log1p(std::exp(-std::abs(f))) + state_before(q, i, 3, w);
    const double gap = raw(q, i, 0, w) - l, limit = n < 1 ? std::log1p(-n) : 0;
    return {gap, std::abs(gap - limit) < std::abs(gap) ? limit : 0, margin(q, i, w)};
}

RnnData RnnKinks::pushed(int choice) const {
    RnnData data = data_;
    for (const Sequence& q : sequences_of(p_.batch, p_.time, data_.offsets))
        for (int64_t w = 0; w < p_.width(); ++w) {
            int near = 0;
            double drift = 0;  // of SLSTM's m, which its i follows: c, n and h do not see it
            for (int64_t i = 0; i < q.length(); ++i) {
                const int64_t t = q.step(p_.reverse, i);
                const Place& place = places_[index(q, t, w)];
                if (place.margin < 0) drift = 0;
                if (place.margin < 0) continue;
                double target = place.position;
                if (place.near()) target = place.kink + (upward(choice, near++) ? 2 : -2) * place.margin;
                data.input[p_.input_index(q.batch, t, 0, w)] += target - place.position + drift;
                if (p_.cell == FLASHSCAN_CELL_SLSTM) drift += std::max(target, 0.0) - std::max(place.position, 0.0);
            }
        }
    return data;
}

}  // namespace support
