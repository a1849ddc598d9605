// SPDX-License-Identifier: Apache-2.0
// Headers of ours that kernels compiled at run time include, as they were when the library was built.
#pragma once

#include <vector>

namespace flashscan::cuda {

struct Header {
    const char* name;  // as it is included
    const char* text;
};
const std::vector<Header>& embedded_headers();

}  // namespace flashscan::cuda
