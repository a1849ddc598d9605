// SPDX-License-Identifier: Apache-2.0
// Plans of gated layers: in C++, on CUDA, and with extents of any size, as sizes.cpp has them of the other families.
#include <flashscan/flashscan.hpp>

#include "api/sweep.h"

namespace api {
namespace {

// On CUDA a plan is refused by name, or there is no device.
TEST(GatedPlans, AreOfTheCpuAlone) {
    flashscan_gated_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.layer = FLASHSCAN_GATED_LAYER_MINGRU;
    desc.batch = 2, desc.time = 3, desc.channels = 1;
    flashscan_options options{};
    options.struct_size = sizeof options;
    options.backend = FLASHSCAN_BACKEND_CUDA;
    flashscan_plan* plan = nullptr;
    const flashscan_status status = flashscan_plan_gated(&plan, &desc, &options);
    EXPECT_EQ(plan, nullptr);
    EXPECT_TRUE(status == FLASHSCAN_STATUS_UNSUPPORTED || status == FLASHSCAN_STATUS_BACKEND_MISSING ||
                status == FLASHSCAN_STATUS_NO_DEVICE)
        << flashscan_status_name(status) << ": " << flashscan_last_error();
}

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
