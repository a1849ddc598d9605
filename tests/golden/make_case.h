// SPDX-License-Identifier: Apache-2.0
// Golden cases with their inputs, from descriptors whose dtype is C128 or left out: F64.
#pragma once

#include "golden/case.h"

namespace golden {

struct Choice {
    bool states = false;     // STATE_IN, STATE_OUT and their gradients
    bool real_gate = false;  // with complex data
    bool bias = true;
    bool index = false;  // INDEX, and forward alone
};

Case linear(const char* name, flashscan_linear_desc desc, Choice choice = {});
// Two heads of two units; left out, the batch is 2 and the time 3.
Case rnn(const char* name, flashscan_rnn_desc desc, Choice choice = {.states = true});
// Left out, the batch is 2, the time 5 and the channels 3. A layer of parts has a BIAS.
Case gated(const char* name, flashscan_gated_desc desc, Choice choice = {.states = true});
// Left out, the batch is 2, the time 4, the channels 4 and the states 2. `layer`: with D, BIAS and OUTPUT_GATE.
Case selective(const char* name, flashscan_selective_desc desc, bool layer, Choice choice = {.states = true});
// Left out, the batch is 2, the time 5 and the channels 2.
Case scan(const char* name, flashscan_operator_desc desc, Choice choice = {});
// The same of integers from 0 to `most`, forward alone, which hold for `dtypes`.
Case integer_scan(const char* name, flashscan_operator_desc desc, int64_t most, std::vector<std::string> dtypes,
                  Choice choice = {});

}  // namespace golden
