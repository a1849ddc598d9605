// SPDX-License-Identifier: Apache-2.0
#include "api/no_exceptions.h"

#include <flashscan/flashscan.hpp>

#if __cplusplus != 201703L || FLASHSCAN_EXCEPTIONS
#error "built as C++17 without exceptions"
#endif

float sum_without_exceptions() {
    flashscan::LinearDesc what;
    what.dtype = FLASHSCAN_DTYPE_F32;
    what.batch = what.channels = 1;
    what.time = 4;
    flashscan::Plan plan;
    const float gate[] = {0.5F, 0.5F, 0.5F, 0.5F}, input[] = {1, 1, 1, 1};
    float output[4];
    if (flashscan::Plan::make(plan, what) != FLASHSCAN_STATUS_OK) return -1;
    size_t bytes = 0;
    if (plan.try_arg_bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_SCRATCH, bytes) != FLASHSCAN_STATUS_OK) return -2;
    flashscan::HostBuffer scratch(bytes, std::nothrow);
    if (scratch.data() == nullptr) return -3;
    const flashscan_status status = plan.try_forward(
        {flashscan::in(FLASHSCAN_ARG_GATE, gate), flashscan::in(FLASHSCAN_ARG_INPUT, input),
         flashscan::out(FLASHSCAN_ARG_OUTPUT, output), flashscan::out(FLASHSCAN_ARG_SCRATCH, scratch)});
    return status == FLASHSCAN_STATUS_OK ? output[3] : -4;
}
