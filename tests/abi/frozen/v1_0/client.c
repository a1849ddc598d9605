/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of version 1.0: a plan of every family, with as many fields of its descriptor as go together, and what can
 * be asked of plans and of the library. The results are worked out by hand.
 */
#include "client.h"

/* What callbacks are given as `user`. */
typedef struct counts {
    int allocated, released, logged, gathered;
} counts;

static counts counted;

static void* FLASHSCAN_CALL allocate(void* user, size_t bytes, void* stream) {
    /* Aligned to 256, with the pointer that malloc gave in front. */
    char* memory = malloc(bytes + 512);
    char* aligned = memory == NULL ? NULL : memory + 512 - (uintptr_t)memory % 256;
    expect(stream == NULL, "the stream of the allocator");
    if (aligned == NULL) return NULL;
    memcpy(aligned - sizeof memory, &memory, sizeof memory);
    ++((counts*)user)->allocated;
    return aligned;
}

static void FLASHSCAN_CALL release(void* user, void* aligned, size_t bytes, void* stream) {
    char* memory;
    expect(bytes > 0 && stream == NULL, "what the allocator takes back");
    memcpy(&memory, (char*)aligned - sizeof memory, sizeof memory);
    free(memory);
    ++((counts*)user)->released;
}

static void FLASHSCAN_CALL log_line(void* user, int32_t level, const char* message) {
    if (level == FLASHSCAN_LOG_ERROR) printf("%s\n", message);
    expect(level == FLASHSCAN_LOG_INFO && strlen(message) > 0, "what is logged of a plan");
    ++((counts*)user)->logged;
}

static int32_t FLASHSCAN_CALL all_gather(void* user, const void* send, void* receive, size_t bytes, void* stream) {
    expect(stream == NULL, "the stream of the communicator");
    memcpy(receive, send, bytes);
    ++((counts*)user)->gathered;
    return 0;
}

/* h = a h + x with a = 1/2, x = 1 and h[-1] = 4: rows of 4 channels, the second of which starts again at step 1. */
static void linear(void) {
    static float input[40], output[24], state_in[12], state_out[14];
    static float grad_output[48], grad_input[60], grad_state_in[16], grad_state_out[18];
    float gate[1] = {0.5F}, grad_gate[1];
    uint8_t reset[6] = {0, 0, 0, 0, 1, 0};
    flashscan_allocator allocator = {sizeof allocator, 0, &counted, allocate, release};
    flashscan_options options = {0};
    flashscan_linear_desc desc = {0};
    flashscan_pass_info pass = {0};
    flashscan_plan* plan = NULL;
    int b;
    options.struct_size = sizeof options;
    options.backend = FLASHSCAN_BACKEND_CPU;
    options.threads = 1;
    options.determinism = FLASHSCAN_DETERMINISM_BATCH_INVARIANT;
    options.workspace = FLASHSCAN_WORKSPACE_LIBRARY;
    options.allocator = &allocator;
    options.log = log_line;
    options.log_user = &counted;
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.gate_dtype = FLASHSCAN_DTYPE_F32;
    desc.layout = FLASHSCAN_LAYOUT_BTC;
    desc.gate_form = FLASHSCAN_GATE_VALUE;
    desc.gate_broadcast = FLASHSCAN_BROADCAST_BATCH | FLASHSCAN_BROADCAST_TIME | FLASHSCAN_BROADCAST_CHANNELS;
    desc.direction = FLASHSCAN_DIRECTION_FORWARD;
    desc.flags = FLASHSCAN_LINEAR_FLAG_RESET;
    desc.batch = 2, desc.time = 3, desc.channels = 4;
    desc.input = (flashscan_strides){20, 5, 1};
    desc.output = (flashscan_strides){12, 4, 1};
    desc.grad_output = (flashscan_strides){24, 8, 2};
    desc.grad_input = (flashscan_strides){30, 10, 2};
    desc.state_in.row = 6, desc.state_out.row = 7, desc.grad_state_in.row = 8, desc.grad_state_out.row = 9;
    FILL(input, 1), FILL(state_in, 4), FILL(grad_output, 1), FILL(grad_state_out, 2);
    check(flashscan_plan_linear(&plan, &desc, &options));
    expect(counted.logged > 0, "the log of a plan");
    {
        flashscan_arg forward[] = {IN(INPUT, input),       IN(GATE, gate),      IN(RESET, reset),
                                   IN(STATE_IN, state_in), OUT(OUTPUT, output), OUT(STATE_OUT, state_out)};
        flashscan_arg backward[] = {IN(GATE, gate),
                                    IN(RESET, reset),
                                    IN(OUTPUT, output),
                                    IN(STATE_IN, state_in),
                                    GRAD_IN(OUTPUT, grad_output),
                                    GRAD_IN(STATE_OUT, grad_state_out),
                                    GRAD_OUT(INPUT, grad_input),
                                    GRAD_OUT(GATE, grad_gate),
                                    GRAD_OUT(STATE_IN, grad_state_in)};
        RUN(plan, FORWARD, forward);
        RUN(plan, BACKWARD, backward);
    }
    for (b = 0; b < 2; ++b) {
        near(output[12 * b + 3], 3, "OUTPUT of a linear recurrence at step 0");
        near(output[12 * b + 8], b ? 1.5 : 2.25, "OUTPUT of a linear recurrence at step 2");
        near(state_out[7 * b + 3], b ? 1.5 : 2.25, "STATE_OUT of a linear recurrence");
        near(grad_input[30 * b + 20], 3, "GRAD|INPUT of a linear recurrence at step 2");
        near(grad_input[30 * b + 6], b ? 1 : 2.25, "GRAD|INPUT of a linear recurrence at step 0");
        near(grad_state_in[8 * b], b ? 0.5 : 1.125, "GRAD|STATE_IN of a linear recurrence");
    }
    near(grad_gate[0], 124, "GRAD|GATE of a linear recurrence");
    pass.struct_size = sizeof pass;
    check(flashscan_plan_info(plan, FLASHSCAN_PASS_FORWARD, &pass));
    expect(pass.backend == FLASHSCAN_BACKEND_CPU && pass.device == 0 && pass.num_args >= 7 && pass.reserve_bytes == 0 &&
               pass.launches == 0 && strlen(pass.kernel) > 0 && pass.detail != NULL,
           "what is known of a pass");
    expect(pass.scratch_bytes == 0 || counted.allocated > 0, "scratch memory of the allocator");
    expect(counted.allocated == counted.released, "scratch memory is given back");
    flashscan_plan_destroy(plan);
}

/* Two packed sequences of 2 and 3 steps whose states are rows 3 and 1 of a pool. */
static void packed(void) {
    float input[10], gate[10], output[10], pool[8] = {0};
    int32_t offsets[3] = {0, 2, 5}, indices[2] = {3, 1};
    flashscan_linear_desc desc = {0};
    flashscan_arg_info infos[8] = {{0}};
    flashscan_plan* plan = NULL;
    int32_t count = 0, i;
    size_t bytes = 0, length = 0;
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.batch = 1, desc.time = 5, desc.channels = 2;
    desc.num_sequences = 2;
    desc.offsets_dtype = FLASHSCAN_DTYPE_I32;
    desc.state_pool = 4;
    FILL(input, 1), FILL(gate, 0.5F);
    pool[6] = 4, pool[2] = 8;
    check(flashscan_plan_linear(&plan, &desc, NULL));
    {
        flashscan_arg args[] = {IN(INPUT, input),           IN(GATE, gate),     IN(SEQ_OFFSETS, offsets),
                                IN(STATE_INDICES, indices), IN(STATE_IN, pool), OUT(STATE_OUT, pool),
                                OUT(OUTPUT, output)};
        RUN(plan, FORWARD, args);
    }
    near(output[2], 2.5, "OUTPUT of a packed sequence");
    near(pool[6], 2.5, "the state of the first packed sequence");
    near(pool[2], 2.75, "the state of the second packed sequence");
    infos[0].struct_size = sizeof infos[0];
    check(flashscan_plan_args(plan, FLASHSCAN_PASS_FORWARD, infos, COUNT(infos), &count));
    expect(count >= COUNT(infos), "the number of arguments");
    for (i = 0; i < COUNT(infos) && infos[i].id != FLASHSCAN_ARG_INPUT;) ++i;
    expect(i < COUNT(infos) && infos[i].access == FLASHSCAN_ACCESS_READ && infos[i].optional == 0 &&
               infos[i].dtype == FLASHSCAN_DTYPE_F32 && infos[i].num_axes == 3 && infos[i].extents[1] == 5 &&
               infos[i].strides[1] == 2 && infos[i].bytes == sizeof input && infos[i].alignment == 4 &&
               strcmp(infos[i].name, "INPUT") == 0,
           "what is known of INPUT");
    check(flashscan_plan_arg_bytes(plan, FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_STATE_IN, &bytes));
    expect(bytes == sizeof pool, "bytes of STATE_IN");
    check(flashscan_plan_describe(plan, NULL, 0, &length));
    expect(length > 0, "the length of a description");
    flashscan_plan_destroy(plan);
}

/* One rank, whose gate's gradient is that of all ranks. */
static void communicator(void) {
    float input[4] = {1, 1, 1, 1}, gate[1] = {0.5F}, output[4], grad_gate[1];
    flashscan_comm comm = {0};
    flashscan_options options = {0};
    flashscan_linear_desc desc = {0};
    flashscan_plan* plan = NULL;
    comm.struct_size = sizeof comm;
    comm.kind = FLASHSCAN_COMM_CALLBACKS;
    comm.rank = 0, comm.size = 1;
    comm.user = &counted;
    comm.all_gather = all_gather;
    comm.flags = FLASHSCAN_COMM_FLAG_SUM_GRADIENTS;
    comm.carries = FLASHSCAN_CARRIES_GATHERED;
    options.struct_size = sizeof options;
    options.communicator = &comm;
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.gate_broadcast = FLASHSCAN_BROADCAST_TIME;
    desc.batch = 1, desc.time = 4, desc.channels = 1;
    check(flashscan_plan_linear(&plan, &desc, &options));
    expect(counted.gathered > 0, "a plan calls all_gather");
    {
        flashscan_arg forward[] = {IN(INPUT, input), IN(GATE, gate), OUT(OUTPUT, output)};
        flashscan_arg backward[] = {IN(GATE, gate), IN(OUTPUT, output), GRAD_IN(OUTPUT, input),
                                    GRAD_OUT(GATE, grad_gate)};
        RUN(plan, FORWARD, forward);
        RUN(plan, BACKWARD, backward);
    }
    near(output[3], 1.875, "OUTPUT of a rank");
    near(grad_gate[0], 5.75, "GRAD|GATE of all ranks");
    flashscan_plan_destroy(plan);
}

static void library(void) {
    flashscan_build build = {0};
    flashscan_linear_desc desc = {0};
    flashscan_plan* plan = NULL;
    int32_t devices = 0;
    build.struct_size = sizeof build;
    check(flashscan_build_info(&build));
    expect(build.version == flashscan_version() && build.version >= FLASHSCAN_VERSION, "the version of the library");
    expect(build.version / 10000 == 1, "the major version of the library");
    expect(build.cuda_toolkit >= 0 && build.cuda_driver >= 0 && build.cuda_architectures != NULL &&
               build.cuda_unusable != NULL && strlen(build.cpu_instruction_sets) > 0 &&
               strlen(build.cpu_instruction_set) > 0,
           "what is known of the library");
    check(flashscan_device_count(FLASHSCAN_BACKEND_CPU, &devices));
    expect(devices == 1, "the number of devices");
    desc.struct_size = sizeof desc;
    expect(flashscan_plan_linear(&plan, &desc, NULL) == FLASHSCAN_STATUS_INVALID_ARGUMENT && plan == NULL &&
               strlen(flashscan_last_error()) > 0,
           "a plan without a dtype");
    expect(strcmp(flashscan_status_name(FLASHSCAN_STATUS_INVALID_ARGUMENT), "FLASHSCAN_STATUS_INVALID_ARGUMENT") == 0,
           "the name of a status");
}

int main(void) {
    library();
    linear();
    packed();
    communicator();
    recurrent_network();
    operators();
    custom_operator();
    gated_layers();
    selective_scan();
    printf("client of version %d ran with library %d\n", FLASHSCAN_VERSION, flashscan_version());
    return 0;
}
