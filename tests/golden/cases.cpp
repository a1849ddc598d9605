// SPDX-License-Identifier: Apache-2.0
// The list of golden cases.
#include <algorithm>
#include <stdexcept>

#include "golden/make_case.h"
#include "support/cells.h"
#include "support/gated_layers.h"
#include "support/operators.h"

namespace golden {
namespace {

Case in_halves(Case made) {
    made.halves = true;
    return made;
}

std::vector<Case> linear_cases() {
    constexpr Choice states{.states = true};
    const auto sized = [](int64_t batch, int64_t time, int64_t channels) {
        flashscan_linear_desc desc{};
        desc.batch = batch, desc.time = time, desc.channels = channels;
        return desc;
    };
    const auto edited = [&](auto edit) {
        flashscan_linear_desc desc = sized(2, 5, 3);
        edit(desc);
        return desc;
    };
    using Desc = flashscan_linear_desc&;
    const auto packed = [&](auto edit) {
        flashscan_linear_desc desc = sized(1, 7, 2);
        desc.num_sequences = 4;
        edit(desc);
        return desc;
    };
    return {
        in_halves(linear("linear", sized(2, 5, 3))),
        in_halves(linear("linear_states", sized(2, 5, 3), states)),
        linear("linear_long", sized(1, 67, 1), states),
        linear("linear_empty", sized(2, 0, 3), states),
        linear("linear_one", sized(1, 1, 1), states),
        linear("linear_bct", edited([](Desc d) { d.layout = FLASHSCAN_LAYOUT_BCT; }), states),
        linear("linear_reverse", edited([](Desc d) { d.direction = FLASHSCAN_DIRECTION_REVERSE; }), states),
        linear("linear_log", edited([](Desc d) { d.gate_form = FLASHSCAN_GATE_LOG; }), states),
        linear("linear_logit", edited([](Desc d) { d.gate_form = FLASHSCAN_GATE_LOGIT; }), states),
        linear("linear_gate_batch", edited([](Desc d) { d.gate_broadcast = FLASHSCAN_BROADCAST_BATCH; })),
        linear("linear_gate_time", edited([](Desc d) { d.gate_broadcast = FLASHSCAN_BROADCAST_TIME; }), states),
        linear("linear_gate_channels", edited([](Desc d) { d.gate_broadcast = FLASHSCAN_BROADCAST_CHANNELS; })),
        linear("linear_gate_all", edited([](Desc d) { d.gate_broadcast = 7; }), states),
        linear("linear_reset", edited([](Desc d) { d.flags = FLASHSCAN_LINEAR_FLAG_RESET; }), states),
        linear("linear_reset_reverse_bct", edited([](Desc d) {
                   d.flags = FLASHSCAN_LINEAR_FLAG_RESET;
                   d.direction = FLASHSCAN_DIRECTION_REVERSE;
                   d.layout = FLASHSCAN_LAYOUT_BCT;
                   d.gate_form = FLASHSCAN_GATE_LOGIT;
               })),
        linear("linear_packed", packed([](Desc) {}), states),
        linear("linear_packed_reverse_i32", packed([](Desc d) {
                   d.direction = FLASHSCAN_DIRECTION_REVERSE;
                   d.offsets_dtype = FLASHSCAN_DTYPE_I32;
               }),
               states),
        linear("linear_packed_reset", packed([](Desc d) { d.flags = FLASHSCAN_LINEAR_FLAG_RESET; })),
        linear("linear_complex", edited([](Desc d) { d.dtype = FLASHSCAN_DTYPE_C128; }), states),
        linear("linear_complex_real_gate", edited([](Desc d) {
                   d.dtype = FLASHSCAN_DTYPE_C128;
                   d.gate_form = FLASHSCAN_GATE_LOG;
               }),
               {.states = true, .real_gate = true}),
    };
}

std::vector<Case> rnn_cases() {
    const auto edited = [](int32_t cell, auto edit) {
        flashscan_rnn_desc desc{};
        desc.cell = cell;
        desc.flags = FLASHSCAN_RNN_FLAG_TRAINING;
        edit(desc);
        return desc;
    };
    const auto plain = [&](int32_t cell) { return edited(cell, [](flashscan_rnn_desc&) {}); };
    const auto pack = [](flashscan_rnn_desc& d) { d.batch = 1, d.time = 7, d.num_sequences = 4; };
    using Desc = flashscan_rnn_desc&;
    std::vector<Case> cases;
    for (const flashscan::CellRow& row : flashscan::cell_rows)
        cases.push_back(in_halves(rnn(row.name, plain(support::cell_of(row)))));
    const std::vector<Case> options = {
        rnn("slstm_no_states", plain(FLASHSCAN_CELL_SLSTM), {}),
        rnn("lstm_inference_no_bias", edited(FLASHSCAN_CELL_LSTM, [](Desc d) { d.flags = 0; }), {.bias = false}),
        rnn("lstm_reverse", edited(FLASHSCAN_CELL_LSTM, [](Desc d) { d.direction = FLASHSCAN_DIRECTION_REVERSE; })),
        rnn("gru_time_first", edited(FLASHSCAN_CELL_GRU, [](Desc d) { d.layout = FLASHSCAN_LAYOUT_TBGHD; })),
        rnn("lstm_all_states", edited(FLASHSCAN_CELL_LSTM, [](Desc d) { d.flags |= FLASHSCAN_RNN_FLAG_ALL_STATES; })),
        rnn("slstm_all_states_time_first", edited(FLASHSCAN_CELL_SLSTM,
                                                  [](Desc d) {
                                                      d.flags |= FLASHSCAN_RNN_FLAG_ALL_STATES;
                                                      d.layout = FLASHSCAN_LAYOUT_TBGHD;
                                                  })),
        rnn("lstm_reset", edited(FLASHSCAN_CELL_LSTM, [](Desc d) { d.flags |= FLASHSCAN_RNN_FLAG_RESET; })),
        rnn("slstm_reset_reverse", edited(FLASHSCAN_CELL_SLSTM,
                                          [](Desc d) {
                                              d.flags |= FLASHSCAN_RNN_FLAG_RESET;
                                              d.direction = FLASHSCAN_DIRECTION_REVERSE;
                                          })),
        rnn("lstm_packed", edited(FLASHSCAN_CELL_LSTM, pack)),
        rnn("gru_packed_reverse_i32", edited(FLASHSCAN_CELL_GRU,
                                             [&](Desc d) {
                                                 pack(d);
                                                 d.direction = FLASHSCAN_DIRECTION_REVERSE;
                                                 d.offsets_dtype = FLASHSCAN_DTYPE_I32;
                                             })),
        rnn("elman_clip", edited(FLASHSCAN_CELL_ELMAN, [](Desc d) { d.recurrent_clip = 0.125; })),
    };
    cases.insert(cases.end(), options.begin(), options.end());
    return cases;
}

std::vector<Case> operator_cases() {
    constexpr Choice states{.states = true};
    const auto desc = [](int32_t kind, int32_t mode, auto edit) {
        flashscan_operator_desc made{};
        made.kind = kind;
        made.mode = mode;
        edit(made);
        return made;
    };
    using Desc = flashscan_operator_desc&;
    const auto plain = [](Desc) {};
    const auto reverse = [](Desc d) { d.direction = FLASHSCAN_DIRECTION_REVERSE; };
    const auto bct = [](Desc d) { d.layout = FLASHSCAN_LAYOUT_BCT; };
    const std::vector<std::string> all{"i64", "i32", "u8"};
    const auto small = [](Desc d) { d.dim = 2, d.channels = 1, d.time = 4; };
    const auto packed = [](Desc d) { d.batch = 1, d.time = 7, d.num_sequences = 4; };
    constexpr int32_t inclusive = FLASHSCAN_MODE_INCLUSIVE, exclusive = FLASHSCAN_MODE_EXCLUSIVE;
    std::vector<Case> cases{
        in_halves(scan("add", desc(FLASHSCAN_OPERATOR_ADD, inclusive, plain))),
        scan("add_exclusive", desc(FLASHSCAN_OPERATOR_ADD, exclusive, plain)),
        scan("add_reduction_reverse", desc(FLASHSCAN_OPERATOR_ADD, FLASHSCAN_MODE_REDUCTION, reverse), states),
        scan("add_packed", desc(FLASHSCAN_OPERATOR_ADD, FLASHSCAN_MODE_REDUCTION, packed), states),
        scan("mul", desc(FLASHSCAN_OPERATOR_MUL, inclusive, plain), states),
        scan("mul_exclusive_reverse", desc(FLASHSCAN_OPERATOR_MUL, exclusive, reverse)),
        scan("mul_complex", desc(FLASHSCAN_OPERATOR_MUL, inclusive, [](Desc d) { d.dtype = FLASHSCAN_DTYPE_C128; }),
             states),
        scan("min", desc(FLASHSCAN_OPERATOR_MIN, inclusive, plain), states),
        scan("min_reduction_reverse", desc(FLASHSCAN_OPERATOR_MIN, FLASHSCAN_MODE_REDUCTION, reverse)),
        in_halves(scan("argmin", desc(FLASHSCAN_OPERATOR_MIN, inclusive, plain), {.index = true})),
        scan("argmax_packed_reverse", desc(FLASHSCAN_OPERATOR_MAX, inclusive, [&](Desc d) { packed(d), reverse(d); }),
             {.states = true, .index = true}),
        scan("argmax_exclusive_bct", desc(FLASHSCAN_OPERATOR_MAX, exclusive, bct), {.states = true, .index = true}),
        scan("argmin_reduction", desc(FLASHSCAN_OPERATOR_MIN, FLASHSCAN_MODE_REDUCTION, packed),
             {.states = true, .index = true}),
        integer_scan("argmax_integers", desc(FLASHSCAN_OPERATOR_MAX, inclusive, plain), 4, all,
                     {.states = true, .index = true}),
        scan("max_exclusive_bct",
             desc(FLASHSCAN_OPERATOR_MAX, exclusive, [](Desc d) { d.layout = FLASHSCAN_LAYOUT_BCT; }), states),
        scan("logaddexp", desc(FLASHSCAN_OPERATOR_LOGADDEXP, inclusive, plain), states),
        scan("logaddexp_reduction", desc(FLASHSCAN_OPERATOR_LOGADDEXP, FLASHSCAN_MODE_REDUCTION, plain)),
        scan("matmul", desc(FLASHSCAN_OPERATOR_MATMUL, inclusive, small), states),
        scan("matmul_exclusive_reverse",
             desc(FLASHSCAN_OPERATOR_MATMUL, exclusive, [&](Desc d) { small(d), reverse(d); })),
        scan("matmul_reduction",
             desc(FLASHSCAN_OPERATOR_MATMUL, FLASHSCAN_MODE_REDUCTION, [&](Desc d) { small(d), d.dim = 3; })),
        scan("matmul_packed_i32",
             desc(FLASHSCAN_OPERATOR_MATMUL, inclusive,
                  [&](Desc d) {
                      small(d), packed(d);
                      d.offsets_dtype = FLASHSCAN_DTYPE_I32;
                  }),
             states),
        scan("matmul_bct_complex", desc(FLASHSCAN_OPERATOR_MATMUL, inclusive,
                                        [&](Desc d) {
                                            small(d);
                                            d.batch = 1, d.channels = 2, d.layout = FLASHSCAN_LAYOUT_BCT,
                                            d.dtype = FLASHSCAN_DTYPE_C128;
                                        })),
        scan("affine", desc(FLASHSCAN_OPERATOR_AFFINE, inclusive, small), states),
        scan("affine_exclusive_reverse",
             desc(FLASHSCAN_OPERATOR_AFFINE, exclusive, [&](Desc d) { small(d), reverse(d); })),
        scan("affine_reduction", desc(FLASHSCAN_OPERATOR_AFFINE, FLASHSCAN_MODE_REDUCTION, small), states),
        scan("affine_packed", desc(FLASHSCAN_OPERATOR_AFFINE, inclusive, [&](Desc d) { small(d), packed(d); }), states),
        integer_scan("add_integers", desc(FLASHSCAN_OPERATOR_ADD, inclusive, plain), 20, all, states),
        integer_scan("add_integers_exclusive_reverse", desc(FLASHSCAN_OPERATOR_ADD, exclusive, reverse), 20, all),
        integer_scan("add_integers_packed", desc(FLASHSCAN_OPERATOR_ADD, FLASHSCAN_MODE_REDUCTION, packed), 20, all,
                     states),
        integer_scan("mul_integers", desc(FLASHSCAN_OPERATOR_MUL, inclusive, plain), 9, {"i64", "i32"}, states),
        integer_scan("min_integers_bct", desc(FLASHSCAN_OPERATOR_MIN, inclusive, bct), 255, all, states),
        integer_scan("max_integers_reduction", desc(FLASHSCAN_OPERATOR_MAX, FLASHSCAN_MODE_REDUCTION, plain), 255, all),
        integer_scan("and", desc(FLASHSCAN_OPERATOR_AND, inclusive, plain), 255, all, states),
        integer_scan("or_exclusive", desc(FLASHSCAN_OPERATOR_OR, exclusive, plain), 255, all),
        integer_scan("xor_reverse", desc(FLASHSCAN_OPERATOR_XOR, inclusive, reverse), 255, all, states),
    };
    for (const int32_t kind : support::named_operators())
        if (std::none_of(cases.begin(), cases.end(),
                         [&](const Case& made) { return std::get<flashscan_operator_desc>(made.desc).kind == kind; }))
            throw std::logic_error(std::string("no golden case of ") + support::operator_row(kind).word);
    return cases;
}

std::vector<Case> gated_cases() {
    using Desc = flashscan_gated_desc&;
    const auto layer = [](int32_t number, auto edit) {
        flashscan_gated_desc desc{};
        desc.layer = number;
        edit(desc);
        return desc;
    };
    const auto parts = [](int32_t decay, int32_t scale, int32_t activation, int32_t epilogue, auto edit) {
        flashscan_gated_desc desc{};
        desc.decay = decay, desc.scale = scale, desc.activation = activation, desc.epilogue = epilogue;
        edit(desc);
        return desc;
    };
    const auto plain = [](Desc) {};
    const auto pack = [](Desc d) { d.batch = 1, d.time = 7, d.num_sequences = 4; };
    std::vector<Case> cases;
    for (const flashscan::GatedLayer& row : flashscan::gated_layers)
        cases.push_back(in_halves(gated(row.name, layer(support::layer_of(row), plain))));
    const std::vector<Case> options = {
        gated("rglru_start", layer(FLASHSCAN_GATED_LAYER_RGLRU, plain), {}),
        gated("rglru_reset_limited", layer(FLASHSCAN_GATED_LAYER_RGLRU,
                                           [](Desc d) {
                                               d.flags = FLASHSCAN_GATED_FLAG_RESET;
                                               d.decay_rate = 4, d.sqrt_slope_limit = 0.75;
                                           })),
        gated("mingru_reverse_bct", layer(FLASHSCAN_GATED_LAYER_MINGRU,
                                          [](Desc d) {
                                              d.direction = FLASHSCAN_DIRECTION_REVERSE;
                                              d.layout = FLASHSCAN_LAYOUT_BCT;
                                          })),
        gated("minlstm_packed", layer(FLASHSCAN_GATED_LAYER_MINLSTM, pack)),
        gated("qrnn_packed_reverse_i32", layer(FLASHSCAN_GATED_LAYER_QRNN,
                                               [&](Desc d) {
                                                   pack(d);
                                                   d.direction = FLASHSCAN_DIRECTION_REVERSE;
                                                   d.offsets_dtype = FLASHSCAN_DTYPE_I32;
                                               })),
        gated("gated_value", parts(FLASHSCAN_GATED_DECAY_VALUE, 0, 0, 0, plain)),
        gated("gated_exp_sqrt_silu",
              parts(FLASHSCAN_GATED_DECAY_EXP, FLASHSCAN_GATED_SCALE_SQRT, 0, FLASHSCAN_GATED_EPILOGUE_SILU, plain)),
        gated("gated_sigmoid_tanh_sigmoid",
              parts(FLASHSCAN_GATED_DECAY_SIGMOID, FLASHSCAN_GATED_SCALE_ONE_MINUS, FLASHSCAN_GATED_ACTIVATION_SILU,
                    FLASHSCAN_GATED_EPILOGUE_TANH_SIGMOID,
                    [](Desc d) { d.input_gating = FLASHSCAN_GATED_INPUT_GATE_SIGMOID; })),
        gated("gated_first_step",
              parts(FLASHSCAN_GATED_DECAY_SOFTPLUS, FLASHSCAN_GATED_SCALE_ONE_MINUS, FLASHSCAN_GATED_ACTIVATION_TANH,
                    FLASHSCAN_GATED_EPILOGUE_NONE, [](Desc d) { d.flags = FLASHSCAN_GATED_FLAG_FIRST_STEP; }),
              {}),
    };
    cases.insert(cases.end(), options.begin(), options.end());
    return cases;
}

std::vector<Case> selective_cases() {
    using Desc = flashscan_selective_desc&;
    constexpr uint32_t steps = FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP | FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP;
    const auto edited = [](auto edit) {
        flashscan_selective_desc desc{};
        edit(desc);
        return desc;
    };
    const auto mamba = [](Desc d) { d.flags = steps | FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS; };
    const auto pack = [&](Desc d) { mamba(d), d.batch = 1, d.time = 7, d.num_sequences = 4; };
    return {
        in_halves(selective("selective", edited(mamba), true)),
        selective("selective_start", edited(mamba), true, {}),
        in_halves(selective("selective_constant", edited([](Desc) {}), false)),
        selective("selective_b_per_step", edited([](Desc d) { d.flags = FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP; }), false),
        selective("selective_c_per_step", edited([](Desc d) { d.flags = FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP; }), true),
        selective("selective_groups", edited([&](Desc d) { mamba(d), d.groups = 2; }), true),
        selective("selective_groups_reverse_bct", edited([&](Desc d) {
                      d.flags = steps, d.groups = 2;
                      d.direction = FLASHSCAN_DIRECTION_REVERSE;
                      d.layout = FLASHSCAN_LAYOUT_BCT;
                  }),
                  false),
        selective("selective_reset", edited([&](Desc d) { mamba(d), d.flags |= FLASHSCAN_SELECTIVE_FLAG_RESET; }),
                  true),
        selective("selective_packed", edited(pack), true),
        selective("selective_packed_reverse_i32", edited([&](Desc d) {
                      pack(d);
                      d.direction = FLASHSCAN_DIRECTION_REVERSE;
                      d.offsets_dtype = FLASHSCAN_DTYPE_I32;
                  }),
                  false),
        selective("selective_complex", edited([](Desc d) { d.matrix_dtype = FLASHSCAN_DTYPE_C128; }), true),
        selective("selective_complex_per_step",
                  edited([&](Desc d) { mamba(d), d.matrix_dtype = FLASHSCAN_DTYPE_C128, d.groups = 2; }), true),
    };
}

}  // namespace

std::vector<Case> make_cases() {
    std::vector<Case> all = linear_cases();
    for (const auto& more : {rnn_cases(), operator_cases(), gated_cases(), selective_cases()})
        all.insert(all.end(), more.begin(), more.end());
    return all;
}

}  // namespace golden
