// SPDX-License-Identifier: Apache-2.0
#include "api/cuda_scenes.h"

#include <cstring>

#include "support/gated_problem.h"
#include "support/operator_problem.h"
#include "support/rnn_problem.h"
#include "support/selective_problem.h"

namespace api {

using namespace support;

namespace {

constexpr const char* code = R"(
extern "C" __device__ void add(void* s, const void* l, const void* r, void* o) {
    *(float*)o = *(const float*)l + *(const float*)r + *(const float*)s;
}
extern "C" __device__ void add_adjoint(void*, const void*, const void*, const void* g, void* gl, void* gr) {
    *(float*)gl = *(float*)gr = *(const float*)g;
}
)";

flashscan_status make_custom(flashscan_plan** plan, const std::string& kernel, int32_t device,
                             const flashscan_comm* comm = nullptr) {
    static float state = 0;
    flashscan_custom_operator custom{};
    custom.struct_size = sizeof custom;
    custom.element_bytes = 4;
    if (kernel == "batched") {  // by callbacks that write nothing
        custom.batched = [](void*, const void*, int64_t, const void*, int64_t, void*, int64_t, int64_t, void*) {
            return int32_t{0};
        };
        custom.batched_adjoint = [](void*, const void*, const void*, const void*, void*, void*, int64_t, void*) {
            return int32_t{0};
        };
    } else {
        custom.code_kind = FLASHSCAN_CODE_CUDA_SOURCE;
        custom.code = code;
        custom.code_bytes = std::strlen(code);
        custom.name = "add";
        custom.adjoint_name = "add_adjoint";
        custom.state = &state;
        custom.state_bytes = sizeof state;
    }
    flashscan_operator_desc desc{};
    desc.struct_size = sizeof desc;
    desc.kind = FLASHSCAN_OPERATOR_CUSTOM;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.batch = 2;
    desc.time = 300;
    desc.channels = 3;
    desc.custom = &custom;
    flashscan_options options = make_options(FLASHSCAN_BACKEND_CUDA, kernel, 0, false, false);
    options.device = device;
    options.communicator = comm;
    return flashscan_plan_operator(plan, &desc, &options);
}

template <typename Problem, typename Make>
CudaScene scene_of(const Problem& problem, const std::string& kernel, Make make) {
    return {text_of(problem) + (kernel.empty() ? "" : " by " + kernel), [=](flashscan_plan** plan, int32_t device) {
                const auto desc = desc_of(problem);
                flashscan_options options = options_of(problem, FLASHSCAN_BACKEND_CUDA, kernel);
                options.device = device;
                return make(plan, &desc, &options);
            }};
}

// A rank in the middle of three that do not exist: notes of plans come back as if all had sent the same, and messages
// of calls stay where they are.
constexpr int32_t ranks = 3;
int32_t answer_for_all(void*, const void* send, void* receive, size_t bytes, void* stream) {
    for (int32_t rank = 0; rank < ranks && stream == nullptr; ++rank) {
        auto* const to = static_cast<char*>(receive) + static_cast<size_t>(rank) * bytes;
        std::memcpy(to, send, bytes);
        std::memcpy(to, &rank, sizeof rank);
    }
    return 0;
}
flashscan_comm comm_in_the_middle(int32_t carries) {
    flashscan_comm comm{};
    comm.struct_size = sizeof comm;
    comm.kind = FLASHSCAN_COMM_CALLBACKS;
    comm.rank = 1;
    comm.size = ranks;
    comm.all_gather = answer_for_all;
    comm.send = [](void*, const void*, size_t, int32_t, void*) { return int32_t{0}; };
    comm.receive = [](void*, void*, size_t, int32_t, void*) { return int32_t{0}; };
    comm.carries = carries;
    comm.groups = 2;
    return comm;
}
template <typename Problem, typename Make>
CudaScene scene_over_ranks(const Problem& problem, int32_t carries, Make make) {
    return {text_of(problem) + (carries == FLASHSCAN_CARRIES_GATHERED ? " gathered" : " in a wavefront"),
            [=](flashscan_plan** plan, int32_t device) {
                const flashscan_comm comm = comm_in_the_middle(carries);
                const auto desc = desc_of(problem);
                flashscan_options options = options_of(problem, FLASHSCAN_BACKEND_CUDA, "");
                options.device = device;
                options.communicator = &comm;
                return make(plan, &desc, &options);
            },
            false};
}

}  // namespace

std::vector<CudaScene> cuda_scenes() {
    std::vector<CudaScene> list;
    for (const auto& [kernel, problem] : std::initializer_list<std::pair<const char*, const char*>>{
             {"decode", "linear bf16 BTC b8 t2 c512 state-in state-out"},
             {"decode", "linear f32 BTC b3 t1 c33 state-in state-out pooled"},
             {"short_rows", "linear bf16 BCT b2 t304 c64 state-in state-out"},
             {"rows", "linear bf16 BCT b2 t300 c64 state-in state-out"},
             {"columns", "linear bf16 BTC b2 t2048 c512"},
             {"columns", "linear f32 BTC b2 t512 c64 state-in state-out"},
             {"columns", "linear f32 BTC b2 t512 c64 state-in state-out pooled"},
             {"few_long_rows", "linear f32 BTC b1 t4096 c256"},
             {"chunked", "linear f32 BTC b1 t2560 c64 sequences7 state-in state-out invariant"},
             {"chunked", "linear f32 BTC b2 t3000 c40 broadcast-b state-in state-out"}})
        list.push_back(scene_of(problem_of(problem), kernel, flashscan_plan_linear));
    for (const auto& [kernel, problem] : std::initializer_list<std::pair<const char*, const char*>>{
             {"decode", "gated rglru bf16 b8 t2 c64 state-in state-out"},
             {"decode", "gated minlstm f32 b3 t1 c33 state-in state-out pooled"},
             {"chunked", "gated hgrn f32 b2 t300 c64 state-in state-out"}})
        list.push_back(scene_of(gated_problem_of(problem), kernel, flashscan_plan_gated));
    for (const auto& [kernel, problem] : std::initializer_list<std::pair<const char*, const char*>>{
             {"decode", "selective bf16 b8 t2 c64 n16 b-per-step c-per-step softplus gate state-in state-out"},
             {"decode", "selective f32 b3 t1 c33 n5 state-in state-out pooled"},
             {"resident", "selective f32 b1 t600 c64 n16 b-per-step c-per-step state-in state-out"}})
        list.push_back(scene_of(selective_problem_of(problem), kernel, flashscan_plan_selective));
    for (const int32_t carries : {FLASHSCAN_CARRIES_GATHERED, FLASHSCAN_CARRIES_WAVEFRONT})
        list.push_back(scene_over_ranks(problem_of("linear f32 BTC b2 t512 c64"), carries, flashscan_plan_linear));
    list.push_back(scene_over_ranks(gated_problem_of("gated mingru bf16 b2 t300 c128"), FLASHSCAN_CARRIES_WAVEFRONT,
                                    flashscan_plan_gated));
    list.push_back(scene_over_ranks(operator_problem_of("operator affine inclusive f32 b2 t300 c3 d20"),
                                    FLASHSCAN_CARRIES_WAVEFRONT, flashscan_plan_operator));
    list.push_back(scene_over_ranks(selective_problem_of("selective f32 b2 t300 c70 n4 b-per-step c-per-step"),
                                    FLASHSCAN_CARRIES_WAVEFRONT, flashscan_plan_selective));
    for (const auto& [kernel, problem] : std::initializer_list<std::pair<const char*, const char*>>{
             {"diagonal_newton", "rnn lstm f32 b2 t600 h40 d1 state-in state-out"},
             {"diagonal", "rnn gru bf16 b4 t30 h40 d1 state-in state-out"},
             {"decode", "rnn lstm fwd bf16 b4 t1 h1 d64 state-in state-out pooled"},
             {"fused", "rnn lstm bf16 b4 t30 h1 d64 state-in state-out"},
             {"persistent", "rnn gru f64 b4 t30 h1 d40 state-in state-out"},
             {"persistent", "rnn lstm f64 b4 t30 h1 d40 state-in state-out pooled"},
             {"alternating", "rnn slstm f32 b4 t30 h2 d40 state-in state-out"}})
        list.push_back(scene_of(rnn_problem_of(problem), kernel, flashscan_plan_rnn));
    for (const auto& [kernel, problem] : std::initializer_list<std::pair<const char*, const char*>>{
             {"numbers", "operator add inclusive f32 b2 t5000 c3 state-in state-out"},
             {"numbers", "operator max reduction f32 b2 t5000 c3 state-in state-out"},
             {"numbers", "operator logaddexp exclusive bf16 BCT b2 t5000 c3 state-in state-out"},
             {"numbers", "operator mul inclusive f32 BCT b2 t256 c3 state-in state-out"},
             {"tiny", "operator matmul inclusive f32 b2 t2000 c1 d2 state-in state-out"},
             {"tiny", "operator affine inclusive bf16 b2 t600 c1 d3 state-in state-out"},
             {"matrices", "operator matmul reduction f32 b2 t600 c1 d20 state-in state-out"},
             {"matrices", "operator affine inclusive bf16 b2 t600 c1 d20 state-in state-out"}})
        list.push_back(scene_of(operator_problem_of(problem), kernel, flashscan_plan_operator));
    for (const char* kernel : {"compiled", "compiled_tree", "batched"})
        list.push_back({std::string("custom operator by ") + kernel,
                        [=](flashscan_plan** plan, int32_t device) { return make_custom(plan, kernel, device); },
                        kernel != std::string("batched")});
    list.push_back({"custom operator over ranks",
                    [](flashscan_plan** plan, int32_t device) {
                        const flashscan_comm comm = comm_in_the_middle(FLASHSCAN_CARRIES_GATHERED);
                        return make_custom(plan, "", device, &comm);
                    },
                    false});
    return list;
}

OwnedPlan make_plan(const CudaScene& scene, int32_t device) {
    flashscan_plan* plan = nullptr;
    EXPECT_EQ(scene.make(&plan, device), FLASHSCAN_STATUS_OK) << flashscan_last_error();
    return OwnedPlan(plan);
}

CudaArguments::CudaArguments(const flashscan_plan* plan) {
    constexpr int32_t grad = FLASHSCAN_GRAD;
    for (const int pass : both_passes)
        for (int32_t id = FLASHSCAN_ARG_INPUT; id <= FLASHSCAN_ARG_RESIDUAL; ++id)
            for (const int32_t whole : {id, grad | id}) {
                size_t bytes = 0;
                if (id == FLASHSCAN_ARG_SCRATCH || id == FLASHSCAN_ARG_STATE_INDICES ||
                    flashscan_plan_arg_bytes(plan, pass, whole, &bytes) != FLASHSCAN_STATUS_OK)
                    continue;
                auto& buffer = buffers_[whole];
                if (buffer == nullptr) {
                    buffer = make_buffer(FLASHSCAN_BACKEND_CUDA, bytes, Guard::end, 256, 0);
                    buffer->write(Bytes(bytes, 0x3c));  // small numbers in every type
                }
                calls_[pass].push_back({whole, 0, buffer->data(), bytes});
            }
}

flashscan_status CudaArguments::execute(const flashscan_plan* plan, int pass) const {
    const auto& args = calls_.at(pass);
    return flashscan_execute(plan, pass, args.data(), static_cast<int32_t>(args.size()),
                             test_stream(FLASHSCAN_BACKEND_CUDA));
}

std::map<int32_t, Bytes> CudaArguments::contents() const {
    std::map<int32_t, Bytes> all;
    for (const auto& [id, buffer] : buffers_)
        if (id != FLASHSCAN_ARG_RESERVE) all[id] = buffer->read();
    return all;
}

}  // namespace api
