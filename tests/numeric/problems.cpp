// SPDX-License-Identifier: Apache-2.0
#include "numeric/problems.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <tuple>
#include <utility>

#include "support/data.h"
#include "support/pairwise.h"

namespace numeric {
namespace {

using support::Gates;
using support::Placement;
using support::Problem;

constexpr std::pair<int32_t, int32_t> dtypes[] = {
    {FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32},   {FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_BF16},
    {FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F32},  {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F16},
    {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F32},   {FLASHSCAN_DTYPE_F64, FLASHSCAN_DTYPE_F64},
    {FLASHSCAN_DTYPE_C64, FLASHSCAN_DTYPE_C64},   {FLASHSCAN_DTYPE_C64, FLASHSCAN_DTYPE_F32},
    {FLASHSCAN_DTYPE_C128, FLASHSCAN_DTYPE_C128}, {FLASHSCAN_DTYPE_C128, FLASHSCAN_DTYPE_F64},
};
constexpr std::pair<int32_t, int32_t> few_long_row_dtypes[] = {{FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32},
                                                               {FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_BF16},
                                                               {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F16}};
constexpr std::pair<int32_t, int32_t> short_row_dtypes[] = {{FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32},
                                                            {FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_BF16},
                                                            {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F16},
                                                            {FLASHSCAN_DTYPE_F64, FLASHSCAN_DTYPE_F64}};
constexpr std::pair<int32_t, int32_t> ragged_dtypes[] = {{FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32},
                                                         {FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_BF16},
                                                         {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F16},
                                                         {FLASHSCAN_DTYPE_F64, FLASHSCAN_DTYPE_F64},
                                                         {FLASHSCAN_DTYPE_C64, FLASHSCAN_DTYPE_C64}};
constexpr std::pair<int32_t, int32_t> skewed_dtypes[] = {{FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_BF16},
                                                         {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F16},
                                                         {FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F32},
                                                         {FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F32}};
constexpr int dtype_count = static_cast<int>(std::size(dtypes));

constexpr std::array<int64_t, 3> tiny_shapes[] = {{1, 37, 1}, {2, 5, 3},   {3, 33, 2},  {1, 70, 4},
                                                  {2, 1, 9},  {1, 129, 1}, {1, 5000, 1}};
constexpr std::array<int64_t, 3> varied_shapes[] = {{2, 63, 5},  {1, 257, 33}, {3, 128, 8},  {1, 1025, 2},
                                                    {4, 31, 65}, {2, 7, 129},  {1, 4099, 1}, {2, 512, 16},
                                                    {5, 100, 7}, {1, 2050, 9}, {17, 65, 3},  {2, 33, 256}};

constexpr std::array<int64_t, 3> few_shapes[] = {{1, 1, 1},  {1, 1, 2048},  {64, 1, 40}, {3, 2, 9},   {2, 4, 64},
                                                 {5, 3, 33}, {130, 1, 129}, {2, 16, 5},  {7, 1, 516}, {4, 2, 36}};

constexpr std::array<int64_t, 3> chunked_shapes[] = {
    {1, 1030, 64}, {1, 8200, 9}, {2, 4100, 8}, {1, 1537, 70}, {1, 20011, 3}};

constexpr std::array<int64_t, 3> aligned_shapes[] = {{2, 304, 64},  {1, 1000, 136}, {3, 72, 24},   {1, 64, 8},
                                                     {2, 520, 256}, {1, 96, 8720},  {2, 40, 4232}, {5, 2056, 40},
                                                     {3, 1024, 72}, {1, 12296, 24}};

constexpr std::array<int64_t, 3> few_long_row_shapes[] = {{1, 70000, 1}, {2, 5000, 16},  {1, 15368, 3},  {3, 2056, 24},
                                                          {1, 40, 8},    {1, 8, 64},     {5, 10240, 1},  {2, 5128, 4},
                                                          {1, 9001, 16}, {2, 2051, 100}, {1, 3001, 128}, {3, 777, 200}};

constexpr std::array<int64_t, 3> column_shapes[] = {{2, 303, 65},  {1, 1021, 130}, {3, 514, 10}, {1, 1030, 257},
                                                    {2, 129, 64},  {5, 2051, 33},  {3, 1, 7},    {1, 4099, 96},
                                                    {2, 256, 128}, {70, 17, 40},   {1, 700, 9},  {5, 140, 1700}};
constexpr std::array<int64_t, 3> ragged_shapes[] = {{2, 303, 65}, {3, 1, 7},    {1, 1021, 3},  {1, 1027, 33},
                                                    {3, 514, 10}, {2, 7, 129},  {3, 2339, 9},  {1, 4678, 4},
                                                    {2, 4095, 8}, {1, 8201, 5}, {1, 16389, 3}, {5, 2051, 2}};
constexpr std::array<int64_t, 3> skewed_shapes[] = {{2, 303, 65}, {1, 1021, 131}, {3, 514, 11}, {1, 1030, 257},
                                                    {2, 129, 63}, {5, 2051, 33},  {3, 1, 7},    {1, 4099, 125},
                                                    {70, 17, 1},  {2, 256, 128},  {1, 32, 61},  {3, 65, 1031}};
constexpr std::array<int64_t, 3> short_row_shapes[] = {
    {2, 8, 5},    {3, 16, 77},  {1, 24, 1},   {2, 40, 33}, {5, 64, 129}, {2, 104, 40}, {1, 128, 9},
    {4, 136, 31}, {3, 200, 16}, {2, 256, 65}, {1, 504, 3}, {2, 512, 24}, {1, 1024, 66}};
constexpr Placement short_row_placements[] = {Placement::dense, Placement::fused};
constexpr Placement ragged_placements[] = {Placement::dense, Placement::misaligned, Placement::padded,
                                           Placement::fused};

std::span<const std::array<int64_t, 3>> shapes_of(Size size) {
    if (size == Size::tiny) return tiny_shapes;
    if (size == Size::few) return few_shapes;
    if (size == Size::chunks) return chunked_shapes;
    if (size == Size::aligned) return aligned_shapes;
    if (size == Size::few_long_rows) return few_long_row_shapes;
    if (size == Size::columns) return column_shapes;
    if (size == Size::ragged) return ragged_shapes;
    if (size == Size::short_rows) return short_row_shapes;
    if (size == Size::skewed) return skewed_shapes;
    return varied_shapes;
}

std::span<const std::pair<int32_t, int32_t>> dtypes_of(Size size) {
    if (size == Size::few_long_rows) return few_long_row_dtypes;
    if (size == Size::ragged) return ragged_dtypes;
    if (size == Size::short_rows) return short_row_dtypes;
    if (size == Size::skewed) return skewed_dtypes;
    return dtypes;
}

enum Factor : size_t {
    factor_dtype,
    factor_layout,
    factor_reverse,
    factor_form,
    factor_broadcast,
    factor_reset,
    factor_packing,
    factor_states,
    factor_placement,
    factor_gradients,
    factor_in_place,
    factor_option,
    factor_shape,
    factor_count
};

Problem problem_of_row(const std::vector<int>& row, Size size, uint64_t seed) {
    Problem p;
    std::tie(p.dtype, p.gate_dtype) = dtypes_of(size)[static_cast<size_t>(row[factor_dtype])];
    p.layout = size == Size::ragged || size == Size::short_rows ? FLASHSCAN_LAYOUT_BCT
                                                                : FLASHSCAN_LAYOUT_BTC + row[factor_layout];
    p.reverse = row[factor_reverse] == 1;
    p.form = FLASHSCAN_GATE_VALUE + row[factor_form];
    p.broadcast = static_cast<uint32_t>(row[factor_broadcast]);
    p.reset = row[factor_reset] == 1;
    p.state_in = (row[factor_states] & 1) != 0;
    p.state_out = (row[factor_states] & 2) != 0;
    const int placement = row[factor_placement];
    p.placement = size == Size::ragged       ? ragged_placements[placement]
                  : size == Size::short_rows ? short_row_placements[placement]
                                             : static_cast<Placement>(placement);
    p.gradients = static_cast<uint32_t>(row[factor_gradients]) + 1;
    p.in_place = row[factor_in_place] == 1;
    p.threads = row[factor_option] == 1 ? 1 : row[factor_option] == 2 ? 3 : 0;
    p.batch_invariant = row[factor_option] == 3;
    p.caller_scratch = row[factor_option] == 4;
    p.seed = seed;
    const auto& shape = shapes_of(size)[static_cast<size_t>(row[factor_shape])];
    std::tie(p.batch, p.time, p.channels) = std::tuple(shape[0], shape[1], shape[2]);
    if (row[factor_packing] > 0) {
        p.time *= p.batch;
        p.batch = 1;
        p.sequences = row[factor_packing] == 1 ? 5 : size == Size::chunks ? 2 : 1 + p.time / 9;
        if (size == Size::few) p.sequences = p.time + row[factor_packing] - 1;
        p.offsets_dtype = row[factor_packing] == 1 ? FLASHSCAN_DTYPE_I32 : FLASHSCAN_DTYPE_I64;
    }
    return p;
}

// A problem with features drawn at random, for lists that vary something else.
Problem drawn(int64_t batch, int64_t time, int64_t channels, uint64_t seed) {
    const auto draw = [&](uint64_t what, int levels) {
        return static_cast<int>(support::uniform(seed, 100 + what, 0) * levels);
    };
    Problem p;
    std::tie(p.dtype, p.gate_dtype) = dtypes[draw(0, dtype_count)];
    p.batch = batch;
    p.time = time;
    p.channels = channels;
    p.layout = FLASHSCAN_LAYOUT_BTC + draw(1, 2);
    p.reverse = draw(2, 2) == 1;
    p.form = FLASHSCAN_GATE_VALUE + draw(3, 3);
    p.broadcast = draw(4, 2) == 0 ? 0 : static_cast<uint32_t>(draw(5, 8));
    p.reset = draw(6, 3) == 0;
    p.state_in = draw(7, 2) == 0;
    p.state_out = draw(8, 2) == 0;
    p.placement = draw(9, 2) == 0 ? Placement::dense : static_cast<Placement>(draw(10, support::placement_count));
    if (batch == 1 && draw(11, 3) == 0) p.sequences = 1 + time / 20;
    p.seed = seed;
    return p;
}

}  // namespace

std::vector<Problem> pairs(Size size) {
    std::vector<int> levels(factor_count);
    levels[factor_dtype] = static_cast<int>(dtypes_of(size).size());
    levels[factor_layout] = levels[factor_reverse] = levels[factor_reset] = levels[factor_in_place] = 2;
    levels[factor_form] = levels[factor_packing] = 3;
    levels[factor_broadcast] = size >= Size::aligned ? 1 : 8;
    levels[factor_placement] = support::placement_count;
    levels[factor_states] = 4;
    levels[factor_gradients] = 7;
    levels[factor_option] = 5;
    levels[factor_shape] = static_cast<int>(shapes_of(size).size());
    if (size == Size::aligned || size == Size::few_long_rows) levels[factor_packing] = 1;
    if (size == Size::short_rows) {
        levels[factor_layout] = 1;  // BCT
        levels[factor_packing] = levels[factor_form] = levels[factor_reset] = 1;
        levels[factor_placement] = static_cast<int>(std::size(short_row_placements));
        levels[factor_option] = 3;
    }
    if (size == Size::columns || size == Size::skewed) levels[factor_layout] = 1;  // BTC
    if (size == Size::ragged) {
        levels[factor_layout] = 1;
        levels[factor_packing] = 2;
        levels[factor_placement] = static_cast<int>(std::size(ragged_placements));
    }
    if (size == Size::few_long_rows) levels[factor_form] = levels[factor_reset] = 1;
    std::vector<Problem> problems;
    constexpr uint64_t seeds[] = {1000, 2000, 2600, 2500, 2800, 2900, 2960, 2950, 2990, 2980};
    const uint64_t seed = seeds[static_cast<int>(size)];
    for (const std::vector<int>& row : support::pairwise_rows(levels, seed))
        problems.push_back(problem_of_row(row, size, seed + problems.size()));
    return problems;
}

std::vector<Problem> singles() {
    Problem plain;
    plain.batch = 2;
    plain.time = 300;
    plain.channels = 24;
    plain.state_in = true;
    std::vector<Problem> problems;
    const auto add = [&](auto&& change) {
        for (const int32_t layout : {FLASHSCAN_LAYOUT_BTC, FLASHSCAN_LAYOUT_BCT}) {
            Problem p = plain;
            p.layout = layout;
            p.seed = 3000 + problems.size();
            change(p);
            problems.push_back(p);
        }
    };
    for (const auto& dtype : dtypes) add([&](Problem& p) { std::tie(p.dtype, p.gate_dtype) = dtype; });
    add([](Problem& p) { p.reverse = true; });
    for (const int32_t form : {FLASHSCAN_GATE_LOG, FLASHSCAN_GATE_LOGIT}) add([&](Problem& p) { p.form = form; });
    for (uint32_t broadcast = 1; broadcast < 8; ++broadcast) add([&](Problem& p) { p.broadcast = broadcast; });
    add([](Problem& p) { p.reset = true; });
    for (const int32_t offsets : {FLASHSCAN_DTYPE_I32, FLASHSCAN_DTYPE_I64})
        add([&](Problem& p) { p.batch = 1, p.sequences = 11, p.offsets_dtype = offsets; });
    add([](Problem& p) { p.state_in = false; });
    add([](Problem& p) { p.state_out = true; });
    for (uint32_t gradients = 1; gradients < 7; ++gradients) add([&](Problem& p) { p.gradients = gradients; });
    for (int i = 1; i < support::placement_count; ++i)
        add([&](Problem& p) { p.placement = static_cast<Placement>(i); });
    add([](Problem& p) { p.in_place = p.state_out = true; });
    add([](Problem& p) { p.batch_invariant = true; });
    add([](Problem& p) { p.caller_scratch = true; });
    for (const int32_t threads : {1, 2, 5}) add([&](Problem& p) { p.threads = threads; });
    add([](Problem& p) { p.gates = Gates::ones; });
    add([](Problem& p) { p.gates = Gates::ones, p.form = FLASHSCAN_GATE_LOG; });
    add([](Problem& p) { p.gates = Gates::large, p.time = 40; });
    add([](Problem& p) { p.gates = Gates::large, p.time = 40, p.form = FLASHSCAN_GATE_LOG; });
    return problems;
}

std::vector<Problem> shapes() {
    constexpr int64_t edges[] = {0,   1,   2,   3,   7,   31,   32,   33,   63,   64,   65,   127,  128,  129,  255,
                                 256, 257, 511, 512, 513, 1000, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4099};
    std::vector<Problem> problems;
    const auto add = [&](int64_t b, int64_t t, int64_t c) {
        problems.push_back(drawn(b, t, c, 4000 + problems.size()));
    };
    for (const int64_t edge : edges) {
        add(1, edge, 1);
        add(2, edge, 3);
        add(3, 17, edge);
        if (edge <= 1025) add(edge, 11, 2);
        if (edge <= 257) add(1, edge, edge);
        if (edge <= 129) add(edge, 1, edge);
    }
    return problems;
}

std::vector<Problem> extremes() {
    std::vector<Problem> problems;
    const auto add = [&](int64_t b, int64_t t, int64_t c, int32_t layout) {
        problems.push_back(drawn(b, t, c, 5000 + problems.size()));
        problems.back().layout = layout;
    };
    for (const int32_t layout : {FLASHSCAN_LAYOUT_BTC, FLASHSCAN_LAYOUT_BCT}) {
        add(1, 300007, 1, layout);
        add(3, 100003, 1, layout);
        add(1, 100003, 3, layout);
        add(1, 65537, 5, layout);
        add(2, 16385, 8, layout);
        add(1, 3, 100003, layout);
        add(30011, 5, 2, layout);
        add(400, 3, 257, layout);
        add(8, 1024, 32, layout);
    }
    // Several waves of chunks on a large device.
    for (const char* text : {"linear f32 BCT b1 t655360 c7 state-in state-out grads-xgs seed5200",
                             "linear f32 BTC b1 t4194304 c1 state-in grads-xgs seed5201",
                             "linear bf16 BCT b1 t1400000 c3 reverse state-in state-out grads-xgs seed5202",
                             "linear f16 BCT b2 t1200000 c2 reverse state-in state-out grads-xgs seed5203",
                             // Two sets of rows, the second not full, of several chunks.
                             "linear f32 BCT b3 t9000 c110 state-in state-out grads-xgs seed5204",
                             "linear bf16 BCT b3 t18000 c100 reverse reset state-in state-out grads-xgs seed5205",
                             "linear f32 BCT b3 t9001 c110 reverse reset state-in state-out grads-xgs seed5209",
                             "linear bf16 BCT b3 t18001 c100 state-in state-out grads-xgs place-misaligned seed5210",
                             "linear f32 BTC b1 t300000 c16 state-in state-out grads-xgs seed5206",
                             "linear f32 BTC b1 t150001 c24 reverse state-in state-out grads-xgs seed5207",
                             "linear bf16 BTC b1 t40000 c128 state-in state-out grads-xgs seed5208"})
        problems.push_back(support::problem_of(text));
    // Gates that are broadcast, whether their gradient is wanted or not, and states that leave where they came in.
    for (const char* text : {"linear f32 BTC b2 t8200 c80 broadcast-b state-in state-out grads-xs seed5100",
                             "linear f32 BTC b2 t8200 c80 broadcast-b state-in state-out grads-xgs in-place seed5101",
                             "linear bf16 BCT b2 t8200 c80 broadcast-c state-in state-out grads-xgs seed5102",
                             "linear f32 BTC b1 t15360 c64 state-in state-out grads-xgs in-place seed5103"})
        problems.push_back(support::problem_of(text));
    return problems;
}

std::vector<Problem> shared_gates(std::initializer_list<const char*> shapes,
                                  std::initializer_list<const char*> broadcasts) {
    std::vector<Problem> problems;
    for (const char* shape : shapes)
        for (const char* broadcast : broadcasts)
            for (const char* options : {"", " reverse reset", " state-in state-out", " form-logit reverse"})
                for (const auto& [dtype, gate_dtype] : dtypes) {
                    Problem p = support::problem_of(fmt::format("linear f32 {} broadcast-{}{} seed{}", shape, broadcast,
                                                                options, 5400 + problems.size()));
                    p.dtype = dtype;
                    p.gate_dtype = gate_dtype;
                    const bool in_range = gate_dtype != FLASHSCAN_DTYPE_F16 || !p.broadcasts(FLASHSCAN_BROADCAST_TIME);
                    if (in_range) problems.push_back(p);  // sums over time are too large for f16
                }
    return problems;
}

std::vector<Problem> problems_of(std::initializer_list<const char*> lines) {
    std::vector<Problem> problems;
    for (const char* line : lines) problems.push_back(support::problem_of(line));
    return problems;
}

std::vector<Problem> chunk_groups() {
    // A group has 128 chunks of 8192 steps of f32, 16384 of 16-bit data and 4096 of f64 and c64 forward, of half as
    // many backward.
    return problems_of({"linear f32 BTC b1 t1100003 c1 state-in state-out seed5300",
                        "linear bf16 BCT b1 t2100001 c1 reverse reset state-in state-out seed5301",
                        "linear f64 BCT b4 t270001 c3 state-in state-out seed5302",
                        "linear c64 BCT b1 t530000 c3 reverse reset state-in seed5303",
                        "linear f32 BCT b3 t530004 c1 broadcast-t state-in state-out seed5304",
                        "linear f32 BTC b1 t1100003 c1 reset sequences5 offsets-i32 grads-xg seed5305",
                        "linear bf16 BCT b1 t1060000 c3 reverse sequences3 grads-xg seed5306",
                        "linear f32 BCT b1 t540000 c3 in-place state-in state-out grads-xs seed5307",
                        "linear fwd f16 BCT b1 t2100008 c1 gate-f32 form-log state-in state-out seed5308"});
}

}  // namespace numeric
