// SPDX-License-Identifier: Apache-2.0
// Every golden case through flashscan.hpp, in every type and on every backend. FLASHSCAN_GOLDEN names the file.
#include <gtest/gtest.h>

#include <cstdlib>
#include <flashscan/flashscan.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "golden/words.h"
#include "support/memory.h"

namespace golden {
namespace {

using nlohmann::json;

const json& file() {
    static const json parsed = [] {
        const char* named = std::getenv("FLASHSCAN_GOLDEN");
        return json::parse(std::ifstream(named != nullptr ? named : "tests/golden/cases.json"));
    }();
    return parsed;
}

// The dtype of `field` in a run or a description; 0 where it is left out.
int32_t dtype_in(const json& fields, const char* field) { return number(dtypes, fields.value(field, "")); }

template <typename Desc>
Desc common_desc(const json& run, const json& fields) {
    Desc desc;
    desc.dtype = dtype_in(run, "dtype");
    desc.direction = number(directions, fields["direction"]);
    desc.batch = fields["batch"];
    desc.time = fields["time"];
    desc.num_sequences = fields["num_sequences"];
    desc.offsets_dtype = dtype_in(fields, "offsets_dtype");
    return desc;
}

flashscan::GatedDesc gated_desc(const json& run, const json& fields) {
    auto desc = common_desc<flashscan::GatedDesc>(run, fields);
    desc.gate_dtype = dtype_in(run, "gate_dtype");
    desc.param_dtype = dtype_in(run, "param_dtype");
    desc.layout = number(layouts, fields["layout"]);
    desc.layer = number(gated_layers, fields["layer"]);
    if (desc.layer == 0) {
        desc.decay = number(gated_decays, fields["decay"]);
        desc.scale = number(gated_scales, fields["scale"]);
        desc.activation = number(gated_activations, fields["activation"]);
        desc.input_gating = number(gated_input_gatings, fields["input_gating"]);
        desc.epilogue = number(gated_epilogues, fields["epilogue"]);
    }
    desc.flags = bits(gated_bits, fields["flags"]);
    desc.channels = fields["channels"];
    desc.decay_rate = fields["decay_rate"];
    desc.sqrt_slope_limit = fields["sqrt_slope_limit"];
    return desc;
}

flashscan::SelectiveDesc selective_desc(const json& run, const json& fields) {
    auto desc = common_desc<flashscan::SelectiveDesc>(run, fields);
    desc.matrix_dtype = dtype_in(run, "matrix_dtype");
    desc.layout = number(layouts, fields["layout"]);
    desc.flags = bits(selective_bits, fields["flags"]);
    desc.channels = fields["channels"];
    desc.states = fields["states"];
    desc.groups = fields["groups"];
    return desc;
}

flashscan_status make_plan(flashscan::Plan& plan, const json& one, const json& run, int32_t backend) {
    const json& fields = one["desc"];
    flashscan::Options how;
    how.backend = backend;
    if (one["family"] == "linear") {
        auto desc = common_desc<flashscan::LinearDesc>(run, fields);
        desc.gate_dtype = dtype_in(run, "gate_dtype");
        desc.layout = number(layouts, fields["layout"]);
        desc.gate_form = number(gate_forms, fields["gate_form"]);
        desc.gate_broadcast = bits(broadcast_bits, fields["gate_broadcast"]);
        desc.flags = bits(linear_bits, fields["flags"]);
        desc.channels = fields["channels"];
        return flashscan::Plan::make(plan, desc, &how);
    }
    if (one["family"] == "rnn") {
        auto desc = common_desc<flashscan::RnnDesc>(run, fields);
        desc.weight_dtype = dtype_in(run, "weight_dtype");
        desc.layout = number(rnn_layouts, fields["layout"]);
        desc.cell = number(cells, fields["cell"]);
        desc.flags = bits(rnn_bits, fields["flags"]);
        desc.heads = fields["heads"];
        desc.head_dim = fields["head_dim"];
        desc.recurrent_clip = fields["recurrent_clip"];
        return flashscan::Plan::make(plan, desc, &how);
    }
    if (one["family"] == "gated") return flashscan::Plan::make(plan, gated_desc(run, fields), &how);
    if (one["family"] == "selective") return flashscan::Plan::make(plan, selective_desc(run, fields), &how);
    auto desc = common_desc<flashscan::OperatorDesc>(run, fields);
    desc.layout = number(layouts, fields["layout"]);
    desc.kind = number(kinds, fields["kind"]);
    desc.mode = number(modes, fields["mode"]);
    desc.channels = fields["channels"];
    desc.dim = fields["dim"];
    return flashscan::Plan::make(plan, desc, &how);
}

int32_t dtype_of(const std::string& argument, const json& run, const json& fields) {
    const int32_t dtype = dtype_in(run, "dtype");
    const auto or_dtype = [&](int32_t own) { return own != 0 ? own : dtype; };
    if (argument == "seq_offsets") return dtype_in(fields, "offsets_dtype");
    if (argument == "index") return FLASHSCAN_DTYPE_I64;
    const bool is_state = argument.find("state_") != std::string::npos;
    if (fields.contains("states")) {  // a selective scan
        const std::string name = argument.starts_with("grad_") ? argument.substr(5) : argument;
        if (name == "d" || name == "bias") return support::state_dtype(dtype);
        const int32_t own = dtype_in(run, "matrix_dtype"), matrix = own != 0 ? own : support::state_dtype(dtype);
        const bool per_step = (name == "b" || name == "c") &&
                              (bits(selective_bits, fields["flags"]) & bits(selective_bits, {name + "_per_step"})) != 0;
        if (is_state || name == "a" || ((name == "b" || name == "c") && !per_step)) return matrix;
        return per_step ? or_dtype(own) : dtype;
    }
    if (fields.contains("layer")) {  // a gated layer
        if (argument.ends_with("input_gate") || argument.ends_with("output_gate")) return dtype;
        if (argument.ends_with("param") || argument.ends_with("bias")) return or_dtype(dtype_in(run, "param_dtype"));
    }
    if (argument.ends_with("gate")) return or_dtype(dtype_in(run, "gate_dtype"));
    if (argument.ends_with("weight") || argument.ends_with("bias")) return or_dtype(dtype_in(run, "weight_dtype"));
    return is_state ? support::state_dtype(dtype) : dtype;
}

support::Bytes bytes_of(const std::vector<double>& data, int32_t dtype, bool flags) {
    if (flags) return {data.begin(), data.end()};
    const size_t size = support::size_of(dtype), parts = support::is_complex(dtype) ? 2 : 1;
    support::Bytes bytes(data.size() / parts * size);
    for (size_t i = 0; i < data.size() / parts; ++i)
        support::store(bytes.data() + i * size, dtype, {data[parts * i], parts == 2 ? data[2 * i + 1] : 0});
    return bytes;
}

// One case in one of its runs.
class Scene {
  public:
    Scene(const json& one, const json& run, int32_t backend) : one_(one), run_(run), backend_(backend) {}

    void play() {
        const flashscan_status made = make_plan(plan_, one_, run_, backend_);
        if (backend_ != FLASHSCAN_BACKEND_CPU && made == FLASHSCAN_STATUS_UNSUPPORTED) return;
        ASSERT_EQ(made, FLASHSCAN_STATUS_OK) << flashscan_last_error();
        ++played;
        size_t reserve = 0;
        if (plan_.try_arg_bytes(FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE, reserve) == FLASHSCAN_STATUS_OK)
            add("reserve", support::Bytes(reserve));
        call(one_["forward"], &flashscan::Plan::try_forward);
        if (one_.contains("backward")) call(one_["backward"], &flashscan::Plan::try_backward);
    }

    static inline int played = 0;

  private:
    using Execute = flashscan_status (flashscan::Plan::*)(const flashscan_arg*, size_t, void*) const noexcept;

    flashscan_arg add(const std::string& name, const support::Bytes& bytes) {
        auto& buffer = buffers_[name];
        buffer = support::make_buffer(backend_, bytes.size(), support::Guard::start, 256, 0);
        buffer->write(bytes);
        return given(name);
    }
    flashscan_arg given(const std::string& name) const {
        const support::Buffer& buffer = *buffers_.at(name);
        return flashscan::out(argument_id(name), buffer.data(), buffer.bytes());
    }
    support::Bytes bytes_in(const std::string& name, const json& tensor) const {
        return bytes_of(tensor["data"], dtype_of(name, run_, one_["desc"]), name == "reset");
    }

    void call(const json& pass, Execute execute) {
        std::vector<flashscan_arg> args;
        for (const auto& [name, tensor] : pass["in"].items()) args.push_back(add(name, bytes_in(name, tensor)));
        for (const auto& [name, tensor] : pass["out"].items())
            args.push_back(add(name, support::Bytes(bytes_in(name, tensor).size(), 0xff)));
        if (pass.contains("reuse"))
            for (const std::string name : pass["reuse"]) args.push_back(given(name));
        if (buffers_.count("reserve") != 0) args.push_back(given("reserve"));
        ASSERT_EQ((plan_.*execute)(args.data(), args.size(), support::test_stream(backend_)), FLASHSCAN_STATUS_OK)
            << flashscan_last_error();
        ASSERT_EQ(support::synchronize(backend_), nullptr);
        for (const auto& [name, tensor] : pass["out"].items()) compare(name, tensor["data"]);
    }

    void compare(const std::string& name, const std::vector<double>& expected) const {
        const support::Bytes bytes = buffers_.at(name)->read();
        const int32_t dtype = dtype_of(name, run_, one_["desc"]);
        const size_t size = support::size_of(dtype), parts = support::is_complex(dtype) ? 2 : 1;
        ASSERT_EQ(bytes.size() / size * parts, expected.size()) << name;
        double scale = 1;
        for (const double number : expected) scale = std::max(scale, std::abs(number));
        const double tolerance = file()["tolerance"][run_["dtype"].get<std::string>()].get<double>() * scale;
        for (size_t i = 0; i < expected.size(); ++i) {
            const support::Value got = support::load(bytes.data() + i / parts * size, dtype);
            EXPECT_NEAR(i % parts == 0 ? got.real() : got.imag(), expected[i], tolerance) << name << " at " << i;
        }
    }

    const json &one_, &run_;
    int32_t backend_;
    flashscan::Plan plan_;
    std::map<std::string, std::unique_ptr<support::Buffer>> buffers_;
};

class Golden : public testing::TestWithParam<std::tuple<const char*, int32_t>> {};

TEST_P(Golden, Cases) {
    const auto [family, backend] = GetParam();
    if (const char* why = support::unavailable(backend)) GTEST_SKIP() << why;
    Scene::played = 0;
    for (const json& one : file()["cases"]) {
        if (one["family"] != family) continue;
        for (const json& run : one["runs"]) {
            SCOPED_TRACE(one["name"].get<std::string>() + " " + run.dump());
            Scene(one, run, backend).play();
            if (HasFatalFailure()) return;
        }
    }
    if (Scene::played == 0) GTEST_SKIP() << "no kernel of this backend takes the family";
}

INSTANTIATE_TEST_SUITE_P(, Golden,
                         testing::Combine(testing::Values("linear", "rnn", "operator", "gated", "selective"),
                                          testing::Values(FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA)),
                         [](const auto& i) {
                             return std::get<0>(i.param) +
                                    std::string(std::get<1>(i.param) == FLASHSCAN_BACKEND_CPU ? "_cpu" : "_cuda");
                         });

}  // namespace
}  // namespace golden
