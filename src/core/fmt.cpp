// SPDX-License-Identifier: Apache-2.0
// Compiles the implementation of fmt, once for the whole library: in each file that formats a sentence it would take
// four seconds.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

namespace {

// Other files see only fmt's declarations, and all their calls end in this function.
using Format = std::string(fmt::string_view, fmt::format_args);
[[gnu::used]] Format* const implementation = &fmt::vformat;

}  // namespace
