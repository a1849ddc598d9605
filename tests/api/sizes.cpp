// SPDX-License-Identifier: Apache-2.0
// Extents of any size: a plan is refused with a sentence, or its arguments have exactly the bytes that the header's
// shapes say.
#include "api/sweep.h"
#include "support/cells.h"

namespace api {
namespace {

// ---- the linear recurrence

Exact span(Exact b, Exact t, Exact c, const flashscan_strides& s, int64_t bytes) {
    if (b.value == 0 || t.value == 0 || c.value == 0) return 0;
    const auto less_one = [](Exact e) { return Exact::of(e.value - 1); };
    if (s.batch == 0 && s.time == 0 && s.channels == 0) return b * t * c * bytes;
    return (less_one(b) * s.batch + less_one(t) * s.time + less_one(c) * s.channels + 1) * bytes;
}

struct Linear {
    flashscan_linear_desc d{};
    Linear(int32_t dtype, int32_t layout, uint32_t broadcast) {
        d.struct_size = sizeof d;
        d.dtype = dtype;
        d.layout = layout;
        d.gate_broadcast = broadcast;
        d.flags = FLASHSCAN_LINEAR_FLAG_RESET;
        d.batch = 1, d.time = 3, d.channels = 2;
    }
    Exact tensor(const flashscan_strides& s) const { return span(d.batch, d.time, d.channels, s, bytes_of(d.dtype)); }
    Exact gate(const flashscan_strides& s) const {
        const auto extent = [&](uint32_t bit, int64_t e) { return (d.gate_broadcast & bit) != 0 ? 1 : e; };
        return span(extent(FLASHSCAN_BROADCAST_BATCH, d.batch), extent(FLASHSCAN_BROADCAST_TIME, d.time),
                    extent(FLASHSCAN_BROADCAST_CHANNELS, d.channels), s, bytes_of(d.dtype));
    }
    std::vector<Size> sizes() const {
        const Exact states = state_rows(d) * d.channels * state_bytes_of(d.dtype);
        std::vector<Size> list{{forward, FLASHSCAN_ARG_INPUT, tensor(d.input)},
                               {forward, FLASHSCAN_ARG_GATE, gate(d.gate)},
                               {forward, FLASHSCAN_ARG_OUTPUT, tensor(d.output)},
                               {forward, FLASHSCAN_ARG_STATE_IN, states},
                               {backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_INPUT, tensor(d.grad_input)},
                               {backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_GATE, gate(d.grad_gate)},
                               {backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_OUTPUT, tensor(d.grad_output)},
                               {backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_OUT, states}};
        add_sequences(list, d, true);
        return list;
    }
    Family family(bool strides) {
        Family f;
        f.fields = {&d.batch, &d.time, &d.channels, &d.num_sequences};
        f.names = {"batch", "time", "channels", "num_sequences"};
        if (strides) {
            f.fields = {&d.batch, &d.time, &d.channels, &d.input.batch, &d.input.time, &d.gate.time, &d.gate.channels};
            f.names = {"batch", "time", "channels", "input.batch", "input.time", "gate.time", "gate.channels"};
        }
        f.plan = [this](flashscan_plan** plan, const flashscan_options* o) {
            return flashscan_plan_linear(plan, &d, o);
        };
        f.is_valid = [this] {
            for (const flashscan_strides& s : {d.input, d.gate})
                if (s.batch < 0 || s.time < 0 || s.channels < 0) return false;
            return has_valid_rows(d) && d.channels >= 0;
        };
        f.sizes = [this] { return sizes(); };
        f.volume = [this] { return volume(d, d.channels); };
        f.least_scratch = [](int32_t) { return Exact(0); };
        return f;
    }
};

TEST(Sizes, OfLinearRecurrences) {
    for (Linear linear : {Linear(FLASHSCAN_DTYPE_F32, FLASHSCAN_LAYOUT_BTC, 0),
                          Linear(FLASHSCAN_DTYPE_C128, FLASHSCAN_LAYOUT_BCT, FLASHSCAN_BROADCAST_TIME),
                          Linear(FLASHSCAN_DTYPE_BF16, FLASHSCAN_LAYOUT_BTC, FLASHSCAN_BROADCAST_CHANNELS),
                          Linear(FLASHSCAN_DTYPE_F64, FLASHSCAN_LAYOUT_BTC, FLASHSCAN_BROADCAST_BATCH)})
        sweep(linear.family(false), {nullptr, "stream"});
}

TEST(Sizes, OfStrides) {
    Linear linear(FLASHSCAN_DTYPE_C64, FLASHSCAN_LAYOUT_BTC, 0);
    linear.d.gate = {7, 2, 1};
    linear.d.input = {9, 3, 1};
    sweep(linear.family(true), {nullptr});
}

// ---- recurrent networks

struct Rnn {
    flashscan_rnn_desc d{};
    int64_t kept = 0;  // bytes of RESERVE for each element
    Rnn(int32_t cell, int32_t dtype, int32_t weight_dtype, uint32_t flags) {
        d.struct_size = sizeof d;
        d.dtype = dtype;
        d.weight_dtype = weight_dtype;
        d.cell = cell;
        d.flags = flags;
        d.batch = d.time = d.heads = d.head_dim = 1;
    }
    bool trains() const { return (d.flags & FLASHSCAN_RNN_FLAG_TRAINING) != 0; }
    std::vector<Size> sizes() const {
        const flashscan::CellRow& row = cell_row(d.cell);
        const int64_t gates = row.gates, states = row.states, biases = row.biases;
        const int64_t out = (d.flags & FLASHSCAN_RNN_FLAG_ALL_STATES) != 0 ? states : 1;
        const Exact width = Exact(d.heads) * d.head_dim, elements = Exact(d.batch) * d.time * width;
        const Exact weights = width * d.head_dim * gates * bytes_of(d.weight_dtype);
        const Exact state = state_rows(d) * width * states * state_bytes_of(d.dtype);
        std::vector<Size> list{{forward, FLASHSCAN_ARG_INPUT, elements * gates * bytes_of(d.dtype)},
                               {forward, FLASHSCAN_ARG_OUTPUT, elements * out * bytes_of(d.dtype)},
                               {forward, FLASHSCAN_ARG_WEIGHT, weights},
                               {forward, FLASHSCAN_ARG_BIAS, width * biases * bytes_of(d.weight_dtype)},
                               {forward, FLASHSCAN_ARG_STATE_IN, state}};
        if (trains()) {
            list.push_back({backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_WEIGHT, weights});
            list.push_back({backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_IN, state});
            const bool empty = d.batch == 0 || d.time == 0;  // a plan of elements has 64 bytes before what it keeps
            list.push_back({backward, FLASHSCAN_ARG_RESERVE, elements * (kept - 64) + (empty ? 0 : 64)});
        }
        add_sequences(list, d, (d.flags & FLASHSCAN_RNN_FLAG_RESET) != 0);
        return list;
    }
    Family family() {
        Family f;
        f.fields = {&d.batch, &d.time, &d.heads, &d.head_dim, &d.num_sequences};
        f.names = {"batch", "time", "heads", "head_dim", "num_sequences"};
        f.plan = [this](flashscan_plan** plan, const flashscan_options* o) { return flashscan_plan_rnn(plan, &d, o); };
        f.is_valid = [this] { return has_valid_rows(d) && d.heads > 0 && d.head_dim > 0; };
        f.sizes = [this] { return sizes(); };
        f.volume = [this] { return volume(d, 1) * std::max<int64_t>(d.heads, 1) * std::max<int64_t>(d.head_dim, 1); };
        f.least_scratch = [](int32_t) { return Exact(0); };
        return f;
    }
    // Takes from the smallest plan how many bytes the kernel keeps for an element.
    void measure(const char* kernel) {
        flashscan_options options{};
        options.struct_size = sizeof options;
        options.kernel = kernel;
        const Plan plan(d, options);
        kept = trains() ? static_cast<int64_t>(plan.bytes(backward, FLASHSCAN_ARG_RESERVE)) : 0;
    }
};

TEST(Sizes, OfRecurrentNetworks) {
    for (Rnn rnn :
         {Rnn(FLASHSCAN_CELL_LSTM, FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32, FLASHSCAN_RNN_FLAG_TRAINING),
          Rnn(FLASHSCAN_CELL_SLSTM, FLASHSCAN_DTYPE_BF16, FLASHSCAN_DTYPE_F32,
              FLASHSCAN_RNN_FLAG_TRAINING | FLASHSCAN_RNN_FLAG_ALL_STATES | FLASHSCAN_RNN_FLAG_RESET),
          Rnn(FLASHSCAN_CELL_GRU, FLASHSCAN_DTYPE_F64, FLASHSCAN_DTYPE_F64, FLASHSCAN_RNN_FLAG_TRAINING),
          Rnn(FLASHSCAN_CELL_GRU_RESET_BEFORE, FLASHSCAN_DTYPE_F16, FLASHSCAN_DTYPE_F16, FLASHSCAN_RNN_FLAG_TRAINING),
          Rnn(FLASHSCAN_CELL_ELMAN, FLASHSCAN_DTYPE_F32, FLASHSCAN_DTYPE_F32, 0)})
        for (const char* kernel : {"diagonal", "blocked", "reference"}) {
            rnn.measure(kernel);
            Family family = rnn.family();
            if (kernel == std::string("diagonal"))  // takes heads of one unit
                family.fields.erase(family.fields.begin() + 3), family.names.erase(family.names.begin() + 3);
            // The matrices are packed, and the gradients of raw kept.
            if (kernel == std::string("blocked"))
                family.least_scratch = [&](int32_t pass) {
                    const std::vector<Size> sizes = rnn.sizes();
                    return pass == forward ? Exact::of(sizes[2].bytes.value / 2) : sizes[0].bytes;
                };
            sweep(family, {kernel});
        }
}

// ---- operators

struct Operator {
    flashscan_operator_desc d{};
    flashscan_custom_operator custom{};
    Operator(int32_t kind, int32_t dtype, int32_t mode, int32_t layout = FLASHSCAN_LAYOUT_BTC) {
        d.struct_size = sizeof d;
        d.kind = kind;
        d.dtype = dtype;
        d.mode = mode;
        d.layout = layout;
        d.batch = 1, d.time = 3, d.channels = 2;
        if (has_dim()) d.dim = 3;
        custom.struct_size = sizeof custom;
        custom.element_bytes = 3;
    }
    bool has_dim() const { return d.kind == FLASHSCAN_OPERATOR_MATMUL || d.kind == FLASHSCAN_OPERATOR_AFFINE; }
    bool is_custom() const { return d.kind == FLASHSCAN_OPERATOR_CUSTOM; }
    Exact element() const {
        if (is_custom()) return custom.element_bytes;
        return d.kind == FLASHSCAN_OPERATOR_MATMUL   ? Exact(d.dim) * d.dim
               : d.kind == FLASHSCAN_OPERATOR_AFFINE ? Exact(d.dim)
                                                     : Exact(1);
    }
    std::vector<Size> sizes() const {
        const int64_t number = is_custom() ? 1 : bytes_of(d.dtype), state = is_custom() ? 1 : state_bytes_of(d.dtype);
        const Exact steps = Exact(d.batch) * d.time * d.channels, chains = state_rows(d) * d.channels;
        const Exact outputs = d.mode == FLASHSCAN_MODE_REDUCTION ? chains : steps;
        std::vector<Size> list{{forward, FLASHSCAN_ARG_INPUT, steps * element() * number},
                               {forward, FLASHSCAN_ARG_OUTPUT, outputs * element() * number},
                               {forward, FLASHSCAN_ARG_STATE_IN, chains * element() * state}};
        if (d.kind == FLASHSCAN_OPERATOR_AFFINE)
            list.push_back({forward, FLASHSCAN_ARG_GATE, steps * d.dim * d.dim * number});
        if (!is_custom()) list.push_back({backward, FLASHSCAN_GRAD | FLASHSCAN_ARG_STATE_IN, list[2].bytes});
        add_sequences(list, d, false);
        return list;
    }
    Family family() {
        Family f;
        f.fields = {&d.batch, &d.time, &d.channels, &d.num_sequences};
        f.names = {"batch", "time", "channels", "num_sequences"};
        if (has_dim()) f.fields.push_back(&d.dim), f.names.push_back("dim");
        if (is_custom()) f.fields.push_back(&custom.element_bytes), f.names.push_back("element_bytes");
        f.plan = [this](flashscan_plan** plan, const flashscan_options* o) {
            d.custom = is_custom() ? &custom : nullptr;
            return flashscan_plan_operator(plan, &d, o);
        };
        f.is_valid = [this] {
            if (has_dim() && (d.dim < 1 || d.dim > 1024)) return false;
            if (is_custom() && (custom.element_bytes < 1 || (custom.host != nullptr && custom.element_bytes > 4096)))
                return false;
            return has_valid_rows(d) && d.channels >= 0;
        };
        f.sizes = [this] { return sizes(); };
        f.volume = [this] { return volume(d, d.channels) * element(); };
        f.least_scratch = [this](int32_t) {
            const bool is_tree = is_custom() && custom.batched != nullptr;
            return is_tree ? sizes()[0].bytes + sizes()[2].bytes : Exact(0);
        };
        return f;
    }
};

TEST(Sizes, OfOperators) {
    for (Operator o :
         {Operator(FLASHSCAN_OPERATOR_ADD, FLASHSCAN_DTYPE_F32, FLASHSCAN_MODE_INCLUSIVE),
          Operator(FLASHSCAN_OPERATOR_MUL, FLASHSCAN_DTYPE_C128, FLASHSCAN_MODE_REDUCTION, FLASHSCAN_LAYOUT_BCT),
          Operator(FLASHSCAN_OPERATOR_MATMUL, FLASHSCAN_DTYPE_F64, FLASHSCAN_MODE_REDUCTION),
          Operator(FLASHSCAN_OPERATOR_AFFINE, FLASHSCAN_DTYPE_BF16, FLASHSCAN_MODE_EXCLUSIVE)})
        sweep(o.family(), {nullptr, "reference"});
}

TEST(Sizes, OfCustomOperators) {
    Operator o(FLASHSCAN_OPERATOR_CUSTOM, 0, FLASHSCAN_MODE_INCLUSIVE);
    o.custom.host = [](void*, const void*, const void*, void*) {};
    sweep(o.family(), {"host"});
    o.custom.host = nullptr;
    o.custom.batched = [](void*, const void*, int64_t, const void*, int64_t, void*, int64_t, int64_t, void*) {
        return int32_t{0};
    };
    sweep(o.family(), {"batched"});
}

}  // namespace
}  // namespace api
