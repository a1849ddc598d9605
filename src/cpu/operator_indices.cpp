// SPDX-License-Identifier: Apache-2.0
// Chains side by side in memory are walked together, a block of them by a thread.
#include "cpu/operator_indices.h"

#include "core/rounding.h"
#include "cpu/threads.h"
#include "math/operators.h"
#include "reference/values.h"

namespace flashscan::cpu {
namespace {

constexpr int64_t lanes = 64;  // channels of a block

float widen(Bf16 x) { return to_float(x); }
float widen(F16 x) { return to_float(x); }
template <typename X>
X widen(X x) {
    return x;
}

// A block of channels of one sequence, with the first element of its arrays.
template <typename X>
struct Block {
    using Wide = decltype(widen(X{}));
    const X* x;
    const Wide* state;  // of the first channel; null without STATE_IN
    int64_t *index, *reduced;
    int64_t channels;
};

template <typename Op, typename X>
void walk(const OperatorProblem& p, const reference::Sequence& s, const Block<X>& block) {
    const auto steps = p.steps();
    typename Block<X>::Wide y[lanes] = {};
    int64_t found[lanes];
    for (int64_t c = 0; c < block.channels; ++c) {
        if (block.state != nullptr) y[c] = block.state[c];
        found[c] = -1;
    }
    const auto write = [&](int64_t t) {
        for (int64_t c = 0; c < block.channels; ++c) block.index[t * steps.time + c * steps.channels] = found[c];
    };
    for (int64_t i = 0; i < s.length(); ++i) {
        const int64_t t = s.step(p.direction, i);
        const X* x = block.x + t * steps.time;
        const bool first = i == 0 && block.state == nullptr;
        if (p.mode == OperatorMode::exclusive) write(t);
        for (int64_t c = 0; c < block.channels; ++c) {
            const auto now = widen(x[c * steps.channels]);
            const bool taken = first || Op::takes_right(y[c], now);
            y[c] = taken ? now : y[c];
            found[c] = taken ? t : found[c];
        }
        if (p.mode == OperatorMode::inclusive) write(t);
    }
    if (p.is_reduction())
        for (int64_t c = 0; c < block.channels; ++c) block.reduced[c] = found[c];
}

template <typename Op, typename X>
void find(const OperatorProblem& p, const OperatorBuffers& b, int threads) {
    const int64_t blocks = ceil_div(p.channels, lanes);
    const auto steps = p.steps();
    for_each(threads, p.state_rows() * blocks, [&](int64_t i, int64_t) {
        const reference::Sequence s = reference::sequence_of(p, b.seq_offsets, i / blocks);
        const int64_t c = i % blocks * lanes, first = s.b * steps.batch + c * steps.channels;
        const int64_t state = s.state * p.channels + c;
        using Wide = typename Block<X>::Wide;
        auto* const index = static_cast<int64_t*>(b.index);
        walk<Op>(p, s,
                 Block<X>{static_cast<const X*>(b.input) + first,
                          b.state_in == nullptr ? nullptr : static_cast<const Wide*>(b.state_in) + state,
                          p.is_reduction() ? nullptr : index + first, p.is_reduction() ? index + state : nullptr,
                          std::min<int64_t>(lanes, p.channels - c)});
    });
}

template <typename Op>
void find_of(const OperatorProblem& p, const OperatorBuffers& b, int threads) {
    switch (p.dtype) {
    case Dtype::f32: return find<Op, float>(p, b, threads);
    case Dtype::bf16: return find<Op, Bf16>(p, b, threads);
    case Dtype::f16: return find<Op, F16>(p, b, threads);
    case Dtype::f64: return find<Op, double>(p, b, threads);
    case Dtype::i32: return find<Op, int32_t>(p, b, threads);
    case Dtype::i64: return find<Op, int64_t>(p, b, threads);
    case Dtype::u8: return find<Op, uint8_t>(p, b, threads);
    case Dtype::c64:
    case Dtype::c128: return;  // complex numbers have no order
    }
}

}  // namespace

void find_indices(const OperatorProblem& p, const OperatorBuffers& b, int threads) {
    if (p.kind == OperatorKind::min)
        find_of<combine::Min>(p, b, threads);
    else
        find_of<combine::Max>(p, b, threads);
}

}  // namespace flashscan::cpu
