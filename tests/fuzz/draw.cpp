// SPDX-License-Identifier: Apache-2.0
#include "fuzz/draw.h"

#include <algorithm>
#include <utility>

#include "support/operators.h"

namespace fuzz {
namespace {

using namespace support;

// Shrinks extents in turn until their product is at most `most`. No extent counts as one: tensors without it stay
// large.
void limit(Random& random, int64_t most, std::initializer_list<int64_t*> extents) {
    const auto product = [&] {
        double all = 1;
        for (const int64_t* extent : extents) all *= static_cast<double>(std::max<int64_t>(1, *extent));
        return all;
    };
    while (product() > static_cast<double>(most)) {
        int64_t& one = *random.of(extents);
        if (one > 0) one = std::max<int64_t>(1, one / 2 - random.below(2));
    }
}

// Few problems are large enough for several chunks and blocks of every kernel.
int64_t size_of_case(Random& random) { return random.chance(0.05) ? 120000 : random.chance(0.3) ? 12000 : 1500; }

// Options that every family's problems have.
template <typename P>
void draw_common(Random& random, P& p) {
    p.reverse = random.chance(0.5);
    p.state_in = random.chance(0.5);
    p.state_out = random.chance(0.5);
    p.pooled = random.chance(0.15);
    p.batch_invariant = random.chance(0.2);
    p.caller_scratch = random.chance(0.3);
    p.threads = static_cast<int32_t>(random.between(0, 4));
    p.seed = random.bits() % 1000000;
    if (random.chance(0.25)) {
        p.batch = 1;
        p.sequences = random.chance(0.2) ? 1 : random.between(1, std::max<int64_t>(2, std::min<int64_t>(p.time, 40)));
        p.offsets_dtype = random.chance(0.5) ? FLASHSCAN_DTYPE_I32 : FLASHSCAN_DTYPE_I64;
    }
}

}  // namespace

Problem draw_linear(Random& random) {
    constexpr std::pair<int32_t, int32_t> dtypes[] = {
        {FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32},   {FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32},
        {FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_BF16}, {FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F32},
        {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F16},   {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F32},
        {FLASHSCAN_DTYPE_F64, FLASHSCAN_DTYPE_F64},   {FLASHSCAN_DTYPE_C64, FLASHSCAN_DTYPE_C64},
        {FLASHSCAN_DTYPE_C64, FLASHSCAN_DTYPE_F32},   {FLASHSCAN_DTYPE_C128, FLASHSCAN_DTYPE_C128},
        {FLASHSCAN_DTYPE_C128, FLASHSCAN_DTYPE_F64},
    };
    Problem p;
    std::tie(p.dtype, p.gate_dtype) = random.of(dtypes);
    p.layout = random.of({FLASHSCAN_LAYOUT_BTC, FLASHSCAN_LAYOUT_BCT});
    p.batch = random.chance(0.4) ? 1 : random.extent(70);
    p.time = random.extent(20000);
    p.channels = random.chance(0.2) ? 1 : random.extent(2100);
    draw_common(random, p);
    limit(random, size_of_case(random), {&p.batch, &p.time, &p.channels});
    p.form = random.of({FLASHSCAN_GATE_VALUE, FLASHSCAN_GATE_LOG, FLASHSCAN_GATE_LOGIT});
    if (random.chance(0.3)) p.broadcast = static_cast<uint32_t>(random.between(1, 7));
    p.reset = random.chance(0.25);
    do p.gradients = static_cast<uint32_t>(random.chance(0.5) ? 7 : random.between(1, 7));
    while (p.gradients == gradient_state && !p.state_in);
    if (random.chance(0.4)) p.placement = static_cast<Placement>(random.below(placement_count));
    p.in_place = random.chance(0.2);
    p.gates = random.of({Gates::mixed, Gates::mixed, Gates::mixed, Gates::ones, Gates::large, Gates::range});
    if (p.gates == Gates::range) {  // time to leave and to return
        p.time = random.between(261, 2500);
        p.batch = std::min<int64_t>(p.batch, 2);
        p.channels = std::min<int64_t>(p.channels, random.between(1, 70));
        p.broadcast &= ~static_cast<uint32_t>(FLASHSCAN_BROADCAST_TIME);
        p.state_in = true;
        p.reset = false;
    }
    return p;
}

OperatorProblem draw_operator(Random& random) {
    OperatorProblem p;
    p.kind = random.chance(0.45) ? random.of({FLASHSCAN_OPERATOR_MATMUL, FLASHSCAN_OPERATOR_AFFINE})
                                 : random.of(number_operators());
    do
        p.dtype = random.of({FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F16,
                             FLASHSCAN_DTYPE_F64, FLASHSCAN_DTYPE_C64, FLASHSCAN_DTYPE_C128, FLASHSCAN_DTYPE_I32,
                             FLASHSCAN_DTYPE_I64, FLASHSCAN_DTYPE_U8});
    while (!takes(p.kind, p.dtype));
    p.layout = random.of({FLASHSCAN_LAYOUT_BTC, FLASHSCAN_LAYOUT_BCT});
    p.mode = random.of({FLASHSCAN_MODE_INCLUSIVE, FLASHSCAN_MODE_EXCLUSIVE, FLASHSCAN_MODE_REDUCTION});
    p.batch = random.chance(0.4) ? 1 : random.extent(40);
    p.time = random.extent(6000);
    p.channels = random.chance(0.4) ? 1 : random.extent(300);
    draw_common(random, p);
    if (p.matmul() || p.affine()) {
        p.dim = std::max<int64_t>(1, random.chance(0.7) ? random.between(1, 17) : random.extent(70));
        // Loops of matrices take d^3 a step and their bounds grow with d: fewer steps.
        const int64_t most = p.matmul() ? 400000 : 800000,
                      work = p.matmul() ? p.dim * p.dim * p.dim : 2 * p.dim * p.dim;
        limit(random, std::max<int64_t>(1, std::min<int64_t>(most / work, size_of_case(random) / p.dim)),
              {&p.batch, &p.time, &p.channels});
    } else {
        limit(random, size_of_case(random), {&p.batch, &p.time, &p.channels});
    }
    p.backward = random.chance(0.8) && !p.integers();
    p.index = operator_row(p.kind).has_index && random.chance(0.5);
    p.misaligned = random.chance(0.2);
    p.allow_tf32 = p.matmul() && p.dtype == FLASHSCAN_DTYPE_F32 && random.chance(0.2);
    p.values = random.of({OperatorValues::positive, OperatorValues::positive, OperatorValues::ties});
    if (p.time <= 200 && random.chance(0.3)) p.values = OperatorValues::sign;
    return p;
}

RnnProblem draw_rnn(Random& random) {
    RnnProblem p;
    p.cell = FLASHSCAN_CELL_LSTM + static_cast<int32_t>(random.between(0, flashscan::cell_count - 1));
    p.dtype = p.weight_dtype =
        random.of({FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F64});
    if (size_of(p.dtype) == 2 && random.chance(0.3)) p.weight_dtype = FLASHSCAN_DTYPE_F32;
    p.layout = random.of({FLASHSCAN_LAYOUT_BTGHD, FLASHSCAN_LAYOUT_TBGHD});
    p.batch = random.chance(0.2) ? 1 : random.extent(40);
    p.time = random.extent(300);
    p.heads = random.chance(0.6) ? 1 : random.between(1, 5);
    p.dim = std::max<int64_t>(1, random.extent(random.chance(0.1) ? 300 : 70));
    draw_common(random, p);
    // The oracle runs about ten times.
    int64_t width = p.heads * p.dim * p.dim;
    limit(random, random.chance(0.1) ? 400000 : 60000, {&width, &p.batch, &p.time});
    while (p.heads * p.dim * p.dim > width) p.heads > 1 ? --p.heads : --p.dim;
    p.reset = random.chance(0.25);
    p.bias = random.chance(0.8);
    p.all_states = random.chance(0.3);
    p.allow_tf32 = p.dtype == FLASHSCAN_DTYPE_F32 && random.chance(0.3);
    p.backward = random.chance(0.85);
    p.gradients = static_cast<uint32_t>(random.chance(0.6) ? 15 : random.between(1, 15));
    p.clip = random.chance(0.2) ? 0.05 : 0;
    p.values =
        random.of({RnnValues::usual, RnnValues::usual, RnnValues::saturated, RnnValues::large, RnnValues::loose});
    return p;
}

GatedProblem draw_gated(Random& random) {
    GatedProblem p;
    p.dtype = p.gate_dtype = p.param_dtype = random.of(
        {FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F64});
    if (size_of(p.dtype) == 2 && random.chance(0.3)) p.gate_dtype = FLASHSCAN_DTYPE_F32;
    if (size_of(p.dtype) == 2 && random.chance(0.3)) p.param_dtype = FLASHSCAN_DTYPE_F32;
    p.layout = random.of({FLASHSCAN_LAYOUT_BTC, FLASHSCAN_LAYOUT_BCT});
    if (random.chance(0.3)) {
        p.set_layer(FLASHSCAN_GATED_LAYER_MINGRU + static_cast<int32_t>(random.below(6)));
    } else {
        p.decay = FLASHSCAN_GATED_DECAY_VALUE + static_cast<int32_t>(random.below(7));
        p.scale = FLASHSCAN_GATED_SCALE_ONE + static_cast<int32_t>(random.below(3));
        p.activation = FLASHSCAN_GATED_ACTIVATION_NONE + static_cast<int32_t>(random.below(4));
        p.input_gating = FLASHSCAN_GATED_INPUT_GATE_NONE + static_cast<int32_t>(random.below(2));
        p.epilogue = FLASHSCAN_GATED_EPILOGUE_NONE + static_cast<int32_t>(random.below(4));
        p.first_step = random.chance(0.3);
    }
    p.batch = random.chance(0.4) ? 1 : random.extent(70);
    p.time = random.extent(6000);
    p.channels = random.chance(0.2) ? 1 : random.extent(2100);
    draw_common(random, p);
    limit(random, size_of_case(random), {&p.batch, &p.time, &p.channels});
    p.reset = random.chance(0.25);
    p.bias = random.chance(0.6);
    p.gradients = static_cast<uint32_t>(random.chance(0.6) ? 255 : random.between(1, 255));
    if (random.chance(0.4)) p.placement = static_cast<Placement>(random.below(placement_count));
    p.in_place = random.chance(0.2);
    if (random.chance(0.3)) p.values = GatedValues::saturated;
    if (p.values == GatedValues::saturated || random.chance(0.3)) p.slope_limit = 1000;
    if (p.is_softplus() && random.chance(0.3)) p.decay_rate = 2;
    return p;
}

SelectiveProblem draw_selective(Random& random) {
    SelectiveProblem p;
    p.dtype = random.of(
        {FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F64});
    p.complex = size_of(p.dtype) > 2 && random.chance(0.4);
    p.layout = random.of({FLASHSCAN_LAYOUT_BTC, FLASHSCAN_LAYOUT_BCT});
    p.batch = random.chance(0.4) ? 1 : random.extent(40);
    p.time = random.extent(6000);
    p.channels = random.chance(0.2) ? 1 : random.extent(1000);
    p.states = std::max<int64_t>(1, random.chance(0.8) ? random.between(1, 20) : random.extent(256));
    p.b_per_step = random.chance(0.6);
    p.c_per_step = random.chance(0.6);
    p.softplus = random.chance(0.5);
    p.bias = random.chance(0.5);
    // Steps of both signs: states would leave the range on the way.
    if (p.bias && !p.softplus) p.time = std::min<int64_t>(p.time, 300);
    draw_common(random, p);
    limit(random, std::max<int64_t>(1, 4 * size_of_case(random) / p.states), {&p.batch, &p.time, &p.channels});
    if ((p.b_per_step || p.c_per_step) && p.channels > 0 && random.chance(0.4)) {
        p.groups = random.between(1, p.channels);
        while (p.channels % p.groups != 0) --p.groups;
    }
    p.gate = random.chance(0.5);
    p.skip = random.chance(0.5);
    p.reset = random.chance(0.25);
    p.gradients = static_cast<uint32_t>(random.chance(0.6) ? 0x1ff : random.between(0, 0x1ff));
    if (random.chance(0.4)) p.placement = static_cast<Placement>(random.below(placement_count));
    p.in_place = random.chance(0.2);
    return p;
}

}  // namespace fuzz
