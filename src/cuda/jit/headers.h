// SPDX-License-Identifier: Apache-2.0
// The library's headers that kernels compiled at run time include, embedded when the library is built (embed.cmake).
#pragma once

#include <vector>

namespace flashscan::cuda {

struct Header {
    const char* name;  // the name by which it is included
    const char* text;
};
const std::vector<Header>& embedded_headers();

}  // namespace flashscan::cuda
