// SPDX-License-Identifier: Apache-2.0
#include "support/rnn_pieces.h"

namespace support {

template <typename Visit>
void RnnPiece::each(int32_t id, Visit visit) const {
    const bool input = (id & ~FLASHSCAN_GRAD) == FLASHSCAN_ARG_INPUT;
    const int64_t parts = input ? whole_.gates() : whole_.output_states();
    for (int64_t b = 0; b < problem.batch; ++b)
        for (int64_t t = 0; t < problem.time; ++t)
            for (int64_t i = 0; i < parts; ++i)
                for (int64_t w = 0; w < whole_.width(); ++w) {
                    const int64_t from = row_ < 0 ? b : row_;
                    if (input)
                        visit(whole_.input_index(from, begin_ + t, i, w), problem.input_index(b, t, i, w));
                    else
                        visit(whole_.output_index(i, from, begin_ + t, w), problem.output_index(i, b, t, w));
                }
}

RnnPiece::RnnPiece(const RnnProblem& whole, const RnnData& all, int64_t row, int64_t begin, int64_t end)
    : problem(whole), data(all), whole_(whole), row_(row), begin_(begin) {
    problem.sequences = 0;
    problem.batch = row < 0 ? whole.batch : 1;
    problem.time = end - begin;
    data.offsets.clear();
    data.input.assign(static_cast<size_t>(problem.batch * problem.time * problem.gates() * problem.width()), 0);
    each(FLASHSCAN_ARG_INPUT, [&](size_t from, size_t to) { data.input[to] = all.input[from]; });
    data.grad_output.assign(
        static_cast<size_t>(problem.output_states() * problem.batch * problem.time * problem.width()), 0);
    each(FLASHSCAN_ARG_OUTPUT, [&](size_t from, size_t to) { data.grad_output[to] = all.grad_output[from]; });
    if (!whole.reset) return;
    data.reset.clear();
    for (int64_t b = 0; b < problem.batch; ++b)
        for (int64_t t = begin; t < end; ++t)
            data.reset.push_back(all.reset[static_cast<size_t>((row < 0 ? b : row) * whole.time + t)]);
}

void RnnPiece::paste(const RnnOutcome& piece, std::map<int32_t, Values>& whole) const {
    for (const int32_t id : {FLASHSCAN_ARG_OUTPUT + 0, FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT}) {
        const Values& from = piece[id];
        Values& to = whole[id];
        each(id, [&](size_t in_whole, size_t in_piece) { to.at(in_whole) = from.at(in_piece); });
    }
}

Values state_row(const RnnProblem& p, const Values& all, int64_t row) {
    Values one;
    for (int64_t s = 0; s < p.states(); ++s)
        for (int64_t w = 0; w < p.width(); ++w) one.push_back(all.at(p.state_index(s, row, w)));
    return one;
}

void paste_state_row(const RnnProblem& p, const Values& one, int64_t row, Values& all) {
    for (int64_t s = 0; s < p.states(); ++s)
        for (int64_t w = 0; w < p.width(); ++w)
            all.at(p.state_index(s, row, w)) = one.at(static_cast<size_t>(s * p.width() + w));
}

Values sum(const Values& a, const Values& b) {
    Values result = a;
    for (size_t i = 0; i < a.size(); ++i) result[i] += b[i];
    return result;
}

}  // namespace support
