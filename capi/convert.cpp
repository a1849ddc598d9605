// SPDX-License-Identifier: Apache-2.0
#include "capi/convert.h"

#include <string>

#include "capi/enumerators.h"
#include "capi/structs.h"

namespace flashscan {
namespace {

constexpr Enumerator<BackendId> backends[] = {
    FLASHSCAN_ENUMERATOR(BACKEND_CPU, BackendId::cpu),
    FLASHSCAN_ENUMERATOR(BACKEND_CUDA, BackendId::cuda),
};
constexpr Enumerator<RnnLayout> rnn_layouts[] = {
    FLASHSCAN_ENUMERATOR(LAYOUT_BTGHD, RnnLayout::btghd),
    FLASHSCAN_ENUMERATOR(LAYOUT_TBGHD, RnnLayout::tbghd),
};
constexpr Enumerator<Pass> passes[] = {
    FLASHSCAN_ENUMERATOR(PASS_FORWARD, Pass::forward),
    FLASHSCAN_ENUMERATOR(PASS_BACKWARD, Pass::backward),
};
constexpr Enumerator<bool> determinisms[] = {
    FLASHSCAN_ENUMERATOR(DETERMINISM_RUN_TO_RUN, false),
    FLASHSCAN_ENUMERATOR(DETERMINISM_BATCH_INVARIANT, true),
};
constexpr Enumerator<bool> workspaces[] = {
    FLASHSCAN_ENUMERATOR(WORKSPACE_LIBRARY, false),
    FLASHSCAN_ENUMERATOR(WORKSPACE_CALLER, true),
};
constexpr Enumerator<GateForm> gate_forms[] = {
    FLASHSCAN_ENUMERATOR(GATE_VALUE, GateForm::value),
    FLASHSCAN_ENUMERATOR(GATE_LOG, GateForm::log),
    FLASHSCAN_ENUMERATOR(GATE_LOGIT, GateForm::logit),
};
constexpr Enumerator<Cell> cells[] = {
#define FLASHSCAN_ROW(name, CONSTANT, ...) FLASHSCAN_ENUMERATOR(CELL_##CONSTANT, Cell::name),
    FLASHSCAN_CELLS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW
};
#define FLASHSCAN_ROW(name, CONSTANT, number, ...) \
    static_assert(FLASHSCAN_CELL_##CONSTANT == FLASHSCAN_CELL_LSTM + (number));
FLASHSCAN_CELLS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW
constexpr Enumerator<OperatorKind> kinds[] = {
#define FLASHSCAN_ROW(name, CONSTANT, number, ...) FLASHSCAN_ENUMERATOR(OPERATOR_##CONSTANT, OperatorKind::name),
    FLASHSCAN_NUMBER_OPERATORS(FLASHSCAN_ROW) FLASHSCAN_OTHER_OPERATORS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW
};
#define FLASHSCAN_ROW(name, CONSTANT, number, ...) \
    static_assert(FLASHSCAN_OPERATOR_##CONSTANT == FLASHSCAN_OPERATOR_ADD + (number));
FLASHSCAN_NUMBER_OPERATORS(FLASHSCAN_ROW)
FLASHSCAN_OTHER_OPERATORS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW
constexpr Enumerator<OperatorMode> modes[] = {
    FLASHSCAN_ENUMERATOR(MODE_INCLUSIVE, OperatorMode::inclusive),
    FLASHSCAN_ENUMERATOR(MODE_EXCLUSIVE, OperatorMode::exclusive),
    FLASHSCAN_ENUMERATOR(MODE_REDUCTION, OperatorMode::reduction),
};
constexpr Enumerator<CodeKind> code_kinds[] = {
    FLASHSCAN_ENUMERATOR(CODE_CUDA_SOURCE, CodeKind::cuda_source),
    FLASHSCAN_ENUMERATOR(CODE_LTO_IR, CodeKind::lto_ir),
};
constexpr Enumerator<uint32_t> broadcasts[] = {
    FLASHSCAN_ENUMERATOR(BROADCAST_BATCH, broadcast_batch),
    FLASHSCAN_ENUMERATOR(BROADCAST_TIME, broadcast_time),
    FLASHSCAN_ENUMERATOR(BROADCAST_CHANNELS, broadcast_channels),
};

CustomOperator convert(const flashscan_custom_operator& c) {
    CustomOperator custom;
    custom.element_bytes = c.element_bytes;
    custom.state = c.state;
    custom.host = c.host;
    custom.host_adjoint = c.host_adjoint;
    custom.batched = c.batched;
    custom.batched_adjoint = c.batched_adjoint;
    custom.code_kind = optional(c.code_kind, code_kinds, "custom.code_kind");
    if (c.code != nullptr) custom.code.assign(static_cast<const char*>(c.code), c.code_bytes);
    if (c.name != nullptr) custom.name = c.name;
    if (c.adjoint_name != nullptr) custom.adjoint_name = c.adjoint_name;
    if (c.state_bytes > 0) {
        check_pointer(c.state, "custom.state");
        custom.device_state.assign(static_cast<const char*>(c.state), c.state_bytes);
    }
    return custom;
}

Allocator convert(const flashscan_allocator& a) {
    if (a.reserved != 0) fail(Code::invalid_argument, "allocator.reserved is {}; accepted is 0", a.reserved);
    if (a.allocate == nullptr || a.release == nullptr)
        fail(Code::invalid_argument, "allocator.{} is NULL; both functions are needed",
             a.allocate == nullptr ? "allocate" : "release");
    return {a.user, a.allocate, a.release};
}

constexpr Enumerator<int32_t> comm_kinds[] = {
    FLASHSCAN_ENUMERATOR(COMM_CALLBACKS, FLASHSCAN_COMM_CALLBACKS),
    FLASHSCAN_ENUMERATOR(COMM_NCCL, FLASHSCAN_COMM_NCCL),
};
constexpr Enumerator<Carries> ways_of_carries[] = {
    FLASHSCAN_ENUMERATOR(CARRIES_GATHERED, Carries::gathered),
    FLASHSCAN_ENUMERATOR(CARRIES_WAVEFRONT, Carries::wavefront),
};

constexpr size_t nccl_first_size = 96;

std::shared_ptr<const NcclFunctions> convert(const flashscan_nccl& n) {
    const NcclFunctions f{n.all_gather, n.send,        n.receive,     n.group_start, n.group_end, n.comm_count,
                          n.comm_rank,  n.comm_device, n.async_error, n.error_text,  n.last_error};
    if (n.reserved != 0) fail(Code::invalid_argument, "communicator.nccl.reserved is {}; accepted is 0", n.reserved);
    if (!f.all_gather || !f.send || !f.receive || !f.group_start || !f.group_end || !f.comm_count || !f.comm_rank ||
        !f.comm_device || !f.async_error || !f.error_text)
        fail(Code::invalid_argument, "communicator.nccl has a function that is NULL; all but last_error are needed");
    return std::make_shared<NcclFunctions>(f);
}

// Checks what makes sense together, and the ranges of numbers.
void check_comm(const flashscan_comm& c) {
    constexpr int32_t most_ranks = 65536, most_groups = 1024;
    const bool nccl = needed(c.kind, comm_kinds, "communicator.kind") == FLASHSCAN_COMM_NCCL;
    if (c.size < (nccl ? 0 : 1) || c.size > most_ranks)
        fail(Code::invalid_argument, "communicator.size is {}; accepted are {} to {}", c.size, nccl ? 0 : 1,
             most_ranks);
    if (c.rank < 0 || c.rank >= std::max(c.size, 1))
        fail(Code::invalid_argument, "communicator.rank is {} of {}; accepted are 0 to {}", c.rank, c.size,
             std::max(c.size, 1) - 1);
    if (nccl && c.user == nullptr) fail(Code::invalid_argument, "communicator.user is NULL; the ncclComm_t is needed");
    if (nccl && (c.all_gather != nullptr || c.send != nullptr || c.receive != nullptr))
        fail(Code::invalid_argument, "communicator has functions of the caller; with COMM_NCCL accepted is NULL");
    if (!nccl && c.all_gather == nullptr)
        fail(Code::invalid_argument, "communicator.all_gather is NULL; the function is needed");
    if (!nccl && c.nccl != nullptr)
        fail(Code::invalid_argument, "communicator.nccl is given; with COMM_CALLBACKS accepted is NULL");
    if ((c.send == nullptr) != (c.receive == nullptr))
        fail(Code::invalid_argument, "communicator.{} is NULL; send and receive are both given or none",
             c.send == nullptr ? "send" : "receive");
    check_flags(c.flags, FLASHSCAN_COMM_FLAG_SUM_GRADIENTS, "communicator.flags",
                "COMM_FLAG_SUM_GRADIENTS (268435456)");
    if (c.groups < 0 || c.groups > most_groups)
        fail(Code::invalid_argument, "communicator.groups is {}; accepted are 0 to {}", c.groups, most_groups);
    if (c.reserved != 0) fail(Code::invalid_argument, "communicator.reserved is {}; accepted is 0", c.reserved);
    if (c.carries == FLASHSCAN_CARRIES_WAVEFRONT && !nccl && c.send == nullptr)
        fail(Code::invalid_argument, "communicator.carries is CARRIES_WAVEFRONT, which needs send and receive");
}

Communicator convert(const flashscan_comm& c) {
    check_comm(c);
    Communicator ranks;
    ranks.rank = c.rank;
    ranks.size = c.size;
    ranks.sums_gradients = (c.flags & FLASHSCAN_COMM_FLAG_SUM_GRADIENTS) != 0;
    ranks.user = c.user;
    ranks.all_gather = c.all_gather;
    ranks.send = c.send;
    ranks.receive = c.receive;
    ranks.carries = optional(c.carries, ways_of_carries, "communicator.carries");
    ranks.groups = c.groups;
    ranks.nccl_handle = c.kind == FLASHSCAN_COMM_NCCL;
    if (c.nccl != nullptr) ranks.nccl = convert(read_struct(c.nccl, nccl_first_size, "communicator.nccl"));
    return ranks;
}

// sizeof in the first version that had the struct.
constexpr size_t custom_operator_first_size = 96;
constexpr size_t allocator_first_size = 32;
constexpr size_t comm_first_size = 32;

}  // namespace

BackendId convert_backend(int32_t backend) { return needed(backend, backends, "backend"); }

Pass convert_pass(int32_t pass) {
    if (pass == FLASHSCAN_PASS_TANGENT)
        fail(Code::unsupported, "pass is PASS_TANGENT ({}), which no plan of this version has; accepted are {}", pass,
             names_of(passes));
    return needed(pass, passes, "pass");
}

int32_t number_of(BackendId backend) { return number_in(backends, backend); }
int32_t number_of(Dtype dtype) { return number_in(dtypes, dtype); }

LinearProblem convert(const flashscan_linear_desc& d) {
    check_flags(d.flags, FLASHSCAN_LINEAR_FLAG_RESET, "flags", "LINEAR_FLAG_RESET (16)");
    if (d.reserved != 0) fail(Code::invalid_argument, "reserved is {}; accepted is 0", d.reserved);
    LinearProblem p;
    p.dtype = needed(d.dtype, dtypes, "dtype");
    p.gate_dtype = optional(d.gate_dtype, dtypes, "gate_dtype");
    p.layout = optional(d.layout, layouts, "layout");
    p.gate_form = optional(d.gate_form, gate_forms, "gate_form");
    for (const auto& axis : broadcasts)
        if ((d.gate_broadcast & static_cast<uint32_t>(axis.number)) != 0) p.gate_broadcast |= axis.value;
    check_flags(d.gate_broadcast, FLASHSCAN_BROADCAST_BATCH | FLASHSCAN_BROADCAST_TIME | FLASHSCAN_BROADCAST_CHANNELS,
                "gate_broadcast", names_of(broadcasts).c_str());
    p.direction = optional(d.direction, directions, "direction");
    p.has_reset = (d.flags & FLASHSCAN_LINEAR_FLAG_RESET) != 0;
    p.batch = d.batch;
    p.time = d.time;
    p.channels = d.channels;
    p.num_sequences = d.num_sequences;
    p.offsets_dtype = optional(d.offsets_dtype, dtypes, "offsets_dtype");
    p.input = convert(d.input);
    p.gate = convert(d.gate);
    p.output = convert(d.output);
    p.grad_input = convert(d.grad_input);
    p.grad_gate = convert(d.grad_gate);
    p.grad_output = convert(d.grad_output);
    convert_states(p, d);
    return p;
}

RnnProblem convert(const flashscan_rnn_desc& d) {
    check_flags(d.flags,
                FLASHSCAN_RNN_FLAG_RESET | FLASHSCAN_RNN_FLAG_ALL_STATES | FLASHSCAN_RNN_FLAG_TRAINING |
                    FLASHSCAN_RNN_FLAG_ALLOW_TF32,
                "flags",
                "RNN_FLAG_RESET (256), RNN_FLAG_ALL_STATES (512), RNN_FLAG_TRAINING (1024), "
                "RNN_FLAG_ALLOW_TF32 (2048)");
    RnnProblem p;
    p.dtype = needed(d.dtype, dtypes, "dtype");
    p.weight_dtype = optional(d.weight_dtype, dtypes, "weight_dtype");
    p.layout = optional(d.layout, rnn_layouts, "layout");
    p.cell = needed(d.cell, cells, "cell");
    p.direction = optional(d.direction, directions, "direction");
    p.has_reset = (d.flags & FLASHSCAN_RNN_FLAG_RESET) != 0;
    p.all_states = (d.flags & FLASHSCAN_RNN_FLAG_ALL_STATES) != 0;
    p.training = (d.flags & FLASHSCAN_RNN_FLAG_TRAINING) != 0;
    p.allow_tf32 = (d.flags & FLASHSCAN_RNN_FLAG_ALLOW_TF32) != 0;
    p.batch = d.batch;
    p.time = d.time;
    p.heads = d.heads;
    p.head_dim = d.head_dim;
    p.num_sequences = d.num_sequences;
    p.offsets_dtype = optional(d.offsets_dtype, dtypes, "offsets_dtype");
    p.recurrent_clip = d.recurrent_clip;
    convert_states(p, d);
    return p;
}

OperatorProblem convert(const flashscan_operator_desc& d) {
    check_flags(d.flags, FLASHSCAN_OPERATOR_FLAG_ALLOW_TF32, "flags", "OPERATOR_FLAG_ALLOW_TF32 (65536)");
    OperatorProblem p;
    p.kind = needed(d.kind, kinds, "kind");
    p.dtype = p.is_custom() ? optional(d.dtype, dtypes, "dtype") : needed(d.dtype, dtypes, "dtype");
    p.layout = optional(d.layout, layouts, "layout");
    p.mode = optional(d.mode, modes, "mode");
    p.direction = optional(d.direction, directions, "direction");
    p.allow_tf32 = (d.flags & FLASHSCAN_OPERATOR_FLAG_ALLOW_TF32) != 0;
    p.offsets_dtype = optional(d.offsets_dtype, dtypes, "offsets_dtype");
    p.batch = d.batch;
    p.time = d.time;
    p.channels = d.channels;
    p.dim = d.dim;
    p.num_sequences = d.num_sequences;
    convert_states(p, d);
    if (d.custom != nullptr) {
        p.custom = convert(read_struct(d.custom, custom_operator_first_size, "flashscan_custom_operator"));
        p.has_custom = true;
    }
    return p;
}

Options convert(const flashscan_options& o) {
    Options options;
    options.backend = optional(o.backend, backends, "backend");
    options.device = o.device;
    options.threads = o.threads;
    options.batch_invariant = optional(o.determinism, determinisms, "determinism");
    options.caller_scratch = optional(o.workspace, workspaces, "workspace");
    if (o.kernel != nullptr) options.kernel = o.kernel;
    if (o.allocator != nullptr)
        options.allocator = convert(read_struct(o.allocator, allocator_first_size, "allocator"));
    if (o.log != nullptr)
        options.log = [log = o.log, user = o.log_user](LogLevel level, const char* message) {
            log(user, level == LogLevel::error ? FLASHSCAN_LOG_ERROR : FLASHSCAN_LOG_INFO, message);
        };
    if (o.communicator != nullptr) {
        options.communicator = convert(read_struct(o.communicator, comm_first_size, "communicator"));
        find_backend(options.backend).connect(options);
    }
    return options;
}

}  // namespace flashscan
