// SPDX-License-Identifier: Apache-2.0
// A golden case: a descriptor and inputs, with room for the outputs.
#pragma once

#include <flashscan/flashscan.h>

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

namespace golden {

struct Tensor {
    int32_t id = 0;
    std::vector<int64_t> shape;
    bool complex = false;      // data are pairs
    bool narrow = false;       // offsets of 32 bits
    std::vector<double> data;  // row-major
};

struct Case {
    std::string name;
    std::variant<flashscan_linear_desc, flashscan_rnn_desc, flashscan_operator_desc, flashscan_gated_desc,
                 flashscan_selective_desc>
        desc;
    std::vector<Tensor> inputs{}, outputs{};
    std::vector<int32_t> reused{};  // what backward takes of them
    std::vector<Tensor> grad_inputs{}, grad_outputs{};
    bool halves = false;                  // also held to by 16-bit types
    std::vector<std::string> integers{};  // the types of integers that hold it, instead of all others

    std::string family() const;
    nlohmann::ordered_json runs() const, fields() const;
};

std::vector<Case> make_cases();

}  // namespace golden
