/* SPDX-License-Identifier: Apache-2.0 */
#include <flashscan/flashscan.h>
#include <stdio.h>

int main(void) {
    float input[4] = {1, 2, 3, 4}, gate[4] = {0.5F, 0.5F, 0.5F, 0.5F}, output[4] = {0};
    flashscan_linear_desc desc = {0};
    flashscan_plan* plan = NULL;
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.batch = desc.channels = 1;
    desc.time = 4;
    flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, input, sizeof input},
                            {FLASHSCAN_ARG_GATE, 0, gate, sizeof gate},
                            {FLASHSCAN_ARG_OUTPUT, 0, output, sizeof output}};
    if (flashscan_plan_linear(&plan, &desc, NULL) != FLASHSCAN_STATUS_OK ||
        flashscan_execute(plan, FLASHSCAN_PASS_FORWARD, args, 3, NULL) != FLASHSCAN_STATUS_OK) {
        printf("FAILED: %s\n", flashscan_last_error());
        return 1;
    }
    flashscan_plan_destroy(plan);
    printf("%g %g %g %g\n", output[0], output[1], output[2], output[3]);
    return output[3] == 6.125F ? 0 : 1;
}
