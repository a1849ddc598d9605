// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <flashscan/flashscan.hpp>

int main() {
    try {
        flashscan::LinearDesc what;
        what.dtype = FLASHSCAN_DTYPE_F32;
        what.batch = what.channels = 1;
        what.time = 4;
        const flashscan::Plan plan(what);
        const std::array<float, 4> input = {1, 2, 3, 4}, gate = {0.5F, 0.5F, 0.5F, 0.5F};
        std::array<float, 4> output{};
        plan.forward({flashscan::in(FLASHSCAN_ARG_INPUT, input), flashscan::in(FLASHSCAN_ARG_GATE, gate),
                      flashscan::out(FLASHSCAN_ARG_OUTPUT, output)});
        std::printf("%g %g %g %g\n", output[0], output[1], output[2], output[3]);
        return output[3] == 6.125F ? 0 : 1;
    } catch (const flashscan::Error& error) {
        std::printf("FAILED: %s\n", error.what());
        return 1;
    }
}
