// SPDX-License-Identifier: Apache-2.0
// Plans of gated layers: in C++, and with extents of any size, as sizes.cpp has them of the other families.
#include <flashscan/flashscan.hpp>

#include "api/sweep.h"

namespace api {
namespace {

TEST(GatedPlans, InCpp) {
    flashscan::GatedDesc what;
    what.dtype = FLASHSCAN_DTYPE_F64;
    what.decay = FLASHSCAN_GATED_DECAY_VALUE;
    what.scale = FLASHSCAN_GATED_SCALE_ONE_MINUS;
    what.batch = 1, what.time = 3, what.channels = 1;
    const flashscan::Plan plan(what);
    const double gate[] = {0.5, 0.25, 0.5}, input[] = {2, 4, 6};
    double output[3];
    plan.forward({flashscan::in(FLASHSCAN_ARG_GATE, gate), flashscan::in(FLASHSCAN_ARG_INPUT, input),
                  flashscan::out(FLASHSCAN_ARG_OUTPUT, output)});
    EXPECT_EQ(output[0], 1);
    EXPECT_EQ(output[1], 3.25);
    EXPECT_EQ(output[2], 4.625);
}

struct Gated {
    flashscan_gated_desc d{};
    Gated(int32_t layer, int32_t dtype, int32_t layout) {
        d.struct_size = sizeof d;
        d.layer = layer;
        d.dtype = dtype;
        d.layout = layout;
        d.flags = FLASHSCAN_GATED_FLAG_RESET;
        d.batch = 1, d.time = 3, d.channels = 2;
    }
    std::vector<Size> sizes() const {
        const Exact elements = Exact(d.batch) * d.time * d.channels, bytes = elements * bytes_of(d.dtype);
        const Exact states = state_rows(d) * d.channels * state_bytes_of(d.dtype);
        std::vector<Size> list{{forward, FLASHSCAN_ARG_INPUT, bytes},
                               {forward, FLASHSCAN_ARG_GATE, bytes},
                               {forward, FLASHSCAN_ARG_OUTPUT, bytes},
                               {forward, FLASHSCAN_ARG_BIAS, Exact(d.channels) * bytes_of(d.dtype)},
                               {forward, FLASHSCAN_ARG_STATE_IN, states},
                               {backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE, bytes},
                               {backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_BIAS, Exact(d.channels) * bytes_of(d.dtype)},
                               {backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_OUT, states}};
        if (d.layer == FLASHSCAN_GATED_LAYER_QRNN)
            list.push_back({backward, FLASHSCAN_ARG_RESERVE, bytes + (elements.value > 0 ? 64 : 0)});
        add_sequences(list, d, true);
        return list;
    }
    Family family() {
        Family f;
        f.fields = {&d.batch, &d.time, &d.channels, &d.num_sequences};
        f.names = {"batch", "time", "channels", "num_sequences"};
        f.plan = [this](flashscan_plan** plan, const flashscan_options* o) {
            return flashscan_plan_gated(plan, &d, o);
        };
        f.is_valid = [this] { return has_valid_rows(d) && d.channels >= 0; };
        f.sizes = [this] { return sizes(); };
        f.volume = [this] { return volume(d, d.channels); };
        f.least_scratch = [](int32_t) { return Exact(0); };
        return f;
    }
};

TEST(Sizes, OfGatedLayers) {
    for (Gated gated : {Gated(FLASHSCAN_GATED_LAYER_MINGRU, FLASHSCAN_DTYPE_F64, FLASHSCAN_LAYOUT_BTC),
                        Gated(FLASHSCAN_GATED_LAYER_QRNN, FLASHSCAN_DTYPE_BF16, FLASHSCAN_LAYOUT_BCT)})
        sweep(gated.family(), {nullptr, "reference"});
}

}  // namespace
}  // namespace api
