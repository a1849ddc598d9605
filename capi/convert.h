// SPDX-License-Identifier: Apache-2.0
// From the structs and numbers of the C interface to those of the core. All throw Error naming the field, its value and
// what is accepted.
#pragma once

#include "core/backend.h"
#include "flashscan/flashscan.h"

namespace flashscan {

BackendId convert_backend(int32_t backend);
Pass convert_pass(int32_t pass);
// The numbers of the interface.
int32_t number_of(BackendId backend);
int32_t number_of(Dtype dtype);  // 0: bytes

LinearProblem convert(const flashscan_linear_desc& desc);
RnnProblem convert(const flashscan_rnn_desc& desc);
OperatorProblem convert(const flashscan_operator_desc& desc);
GatedProblem convert(const flashscan_gated_desc& desc);
SelectiveProblem convert(const flashscan_selective_desc& desc);
Options convert(const flashscan_options& options);

}  // namespace flashscan
