// SPDX-License-Identifier: Apache-2.0
// Makes cases.json, or checks it: the answers of the kernel `reference` in f64 to the cases in cases.cpp.
//
//     generate FILE            writes FILE
//     generate --check FILE    exits with 0 if FILE holds what would be written
#include <cmath>
#include <complex>
#include <cstdio>
#include <fstream>
#include <memory>

#include "golden/case.h"
#include "golden/words.h"

namespace golden {
namespace {

using nlohmann::ordered_json;

struct Destroy {
    void operator()(flashscan_plan* plan) const { flashscan_plan_destroy(plan); }
};
using Plan = std::unique_ptr<flashscan_plan, Destroy>;

void check(flashscan_status status) {
    if (status != FLASHSCAN_STATUS_OK) throw std::runtime_error(flashscan_last_error());
}

Plan make_plan(const Case& what) {
    flashscan_options how{};
    how.struct_size = sizeof how;
    how.kernel = "reference";
    flashscan_plan* plan = nullptr;
    if (const auto* desc = std::get_if<flashscan_linear_desc>(&what.desc))
        check(flashscan_plan_linear(&plan, desc, &how));
    else if (const auto* rnn = std::get_if<flashscan_rnn_desc>(&what.desc))
        check(flashscan_plan_rnn(&plan, rnn, &how));
    else if (const auto* gated = std::get_if<flashscan_gated_desc>(&what.desc))
        check(flashscan_plan_gated(&plan, gated, &how));
    else if (const auto* selective = std::get_if<flashscan_selective_desc>(&what.desc))
        check(flashscan_plan_selective(&plan, selective, &how));
    else
        check(flashscan_plan_operator(&plan, &std::get<flashscan_operator_desc>(what.desc), &how));
    return Plan(plan);
}

struct alignas(256) Block {
    unsigned char bytes[256];
};

// The arguments of a call. Tensors stay where they are; flags, offsets and integers are converted.
class Arguments {
  public:
    Arguments(const flashscan_plan* plan, int32_t pass, bool integers = false)
        : plan_(plan), pass_(pass), integers_(integers) {}
    void add(Tensor& tensor) {
        if (tensor.id == FLASHSCAN_ARG_RESET) return add_as<uint8_t>(tensor);
        if (tensor.id == FLASHSCAN_ARG_SEQ_OFFSETS)
            return tensor.narrow ? add_as<int32_t>(tensor) : add_as<int64_t>(tensor);
        if (integers_ || tensor.id == FLASHSCAN_ARG_INDEX) return add_as<int64_t>(tensor);
        add(tensor.id, tensor.data.data(), tensor.data.size() * sizeof(double));
    }
    // What was written to converted tensors, back into them.
    void take_back(std::vector<Tensor>& outputs) const {
        for (size_t i = 0; i < args_.size(); ++i)
            for (Tensor& tensor : outputs)
                if (tensor.id == args_[i].id && (integers_ || tensor.id == FLASHSCAN_ARG_INDEX))
                    for (size_t k = 0; k < tensor.data.size(); ++k)
                        tensor.data[k] = static_cast<double>(static_cast<const int64_t*>(args_[i].data)[k]);
    }
    void add(int32_t id, void* data, size_t bytes) {
        size_t needed = 0;
        check(flashscan_plan_arg_bytes(plan_, pass_, id, &needed));
        if (bytes != needed && id != FLASHSCAN_ARG_RESERVE)
            throw std::logic_error(argument_word(id) + " has another size");
        args_.push_back({id, 0, data, bytes});
    }
    const flashscan_arg* data() const { return args_.data(); }
    int32_t size() const { return static_cast<int32_t>(args_.size()); }

  private:
    template <typename Number>
    void add_as(const Tensor& tensor) {
        std::vector<unsigned char>& bytes = converted_.emplace_back(tensor.data.size() * sizeof(Number));
        for (size_t i = 0; i < tensor.data.size(); ++i)
            reinterpret_cast<Number*>(bytes.data())[i] = static_cast<Number>(tensor.data[i]);
        add(tensor.id, bytes.data(), bytes.size());
    }

    const flashscan_plan* plan_;
    int32_t pass_;
    bool integers_;
    std::vector<flashscan_arg> args_;
    std::vector<std::vector<unsigned char>> converted_;
};

std::vector<Block> reserve_of(const flashscan_plan* plan) {
    size_t bytes = 0;
    if (flashscan_plan_arg_bytes(plan, FLASHSCAN_PASS_FORWARD, FLASHSCAN_ARG_RESERVE, &bytes) != FLASHSCAN_STATUS_OK)
        return {};
    return std::vector<Block>((bytes + sizeof(Block) - 1) / sizeof(Block));
}

// Fills the outputs of `what`.
void run(Case& what) {
    const Plan plan = make_plan(what);
    std::vector<Block> reserve = reserve_of(plan.get());
    Arguments forward(plan.get(), FLASHSCAN_PASS_FORWARD, !what.integers.empty());
    for (Tensor& tensor : what.inputs) forward.add(tensor);
    for (Tensor& tensor : what.outputs) forward.add(tensor);
    if (!reserve.empty()) forward.add(FLASHSCAN_ARG_RESERVE, reserve.data(), reserve.size() * sizeof(Block));
    check(flashscan_execute(plan.get(), FLASHSCAN_PASS_FORWARD, forward.data(), forward.size(), nullptr));
    forward.take_back(what.outputs);
    if (what.grad_outputs.empty()) return;

    Arguments backward(plan.get(), FLASHSCAN_PASS_BACKWARD);
    for (const int32_t id : what.reused)
        for (std::vector<Tensor>* tensors : {&what.inputs, &what.outputs})
            for (Tensor& tensor : *tensors)
                if (tensor.id == id) backward.add(tensor);
    if (!reserve.empty()) backward.add(FLASHSCAN_ARG_RESERVE, reserve.data(), reserve.size() * sizeof(Block));
    for (Tensor& tensor : what.grad_inputs) backward.add(tensor);
    for (Tensor& tensor : what.grad_outputs) backward.add(tensor);
    check(flashscan_execute(plan.get(), FLASHSCAN_PASS_BACKWARD, backward.data(), backward.size(), nullptr));
}

ordered_json json_of(const std::vector<Tensor>& tensors, bool integers = false) {
    ordered_json json = ordered_json::object();
    for (const Tensor& tensor : tensors) {
        ordered_json& one = json[argument_word(tensor.id)];
        one["shape"] = tensor.shape;
        if (tensor.complex) one["complex"] = true;
        const bool whole = integers || tensor.id == FLASHSCAN_ARG_RESET || tensor.id == FLASHSCAN_ARG_SEQ_OFFSETS ||
                           tensor.id == FLASHSCAN_ARG_INDEX;
        one["data"] = whole ? ordered_json(std::vector<int64_t>(tensor.data.begin(), tensor.data.end()))
                            : ordered_json(tensor.data);
    }
    return json;
}

ordered_json json_of(const Case& what) {
    ordered_json json;
    json["name"] = what.name;
    json["family"] = what.family();
    json["runs"] = what.runs();
    json["desc"] = what.fields();
    const bool integers = !what.integers.empty();
    json["forward"] = {{"in", json_of(what.inputs, integers)}, {"out", json_of(what.outputs, integers)}};
    if (what.grad_outputs.empty()) return json;
    Set reused;
    for (const int32_t id : what.reused) reused.push_back(argument_word(id));
    json["backward"] = {{"reuse", reused}, {"in", json_of(what.grad_inputs)}, {"out", json_of(what.grad_outputs)}};
    return json;
}

// What bindings have to know of each cell.
ordered_json cells_json() {
    ordered_json all = ordered_json::array();
    for (const flashscan::CellRow& row : flashscan::cell_rows)
        all.push_back({{"name", row.name},
                       {"number", support::cell_of(row)},
                       {"gates", row.gates},
                       {"biases", row.biases},
                       {"states", row.states}});
    return all;
}

std::string text_of(const ordered_json& tolerance, const std::vector<ordered_json>& cases) {
    std::string text = "{\"format\":1,\n\"tolerance\":" + tolerance.dump() + ",\n\"cells\":" + cells_json().dump() +
                       ",\n\"cases\":[\n";
    for (const ordered_json& one : cases) text += one.dump() + (&one == &cases.back() ? "\n" : ",\n");
    return text + "]}\n";
}

// Exponentials differ by a unit in the last place between C libraries.
bool same(const ordered_json& a, const ordered_json& b, const std::string& place) {
    if (a.is_number_float() && b.is_number_float()) {
        const double x = a, y = b;
        if (std::abs(x - y) <= 1e-13 * std::fmax(1, std::abs(x))) return true;
    } else if (a.is_structured() && a.type() == b.type() && a.size() == b.size()) {
        auto other = b.items().begin();
        for (const auto& item : a.items()) {
            if (item.key() != other.key()) break;
            if (!same(item.value(), other.value(), place + "/" + item.key())) return false;
            ++other;
        }
        if (other == b.items().end()) return true;
    } else if (a == b) {
        return true;
    }
    std::printf("%s: made %.80s, the file has %.80s\n", place.c_str(), a.dump().c_str(), b.dump().c_str());
    return false;
}

int generate(const std::string& path, bool check_only) {
    std::vector<ordered_json> made;
    for (Case& what : make_cases()) {
        run(what);
        made.push_back(json_of(what));
    }
    const ordered_json tolerance = {{"f64", 1e-12}, {"c128", 1e-12}, {"f32", 1e-5}, {"c64", 1e-5}, {"bf16", 1e-2},
                                    {"f16", 2e-3},  {"i64", 0},      {"i32", 0},    {"u8", 0}};
    const std::string text = text_of(tolerance, made);
    if (check_only) return same(ordered_json::parse(text), ordered_json::parse(std::ifstream(path)), "") ? 0 : 1;
    std::ofstream file(path);
    file << text;
    return file.flush() ? 0 : 1;
}

}  // namespace
}  // namespace golden

int main(int argc, char** argv) {
    const bool check_only = argc == 3 && std::string(argv[1]) == "--check";
    if (argc != 2 && !check_only) return std::fputs("usage: generate [--check] FILE\n", stderr), 2;
    try {
        return golden::generate(argv[argc - 1], check_only);
    } catch (const std::exception& error) {
        return std::fprintf(stderr, "FAILED: %s\n", error.what()), 1;
    }
}
