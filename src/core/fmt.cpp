// SPDX-License-Identifier: Apache-2.0
// fmt's implementation, compiled here alone: in every file that formats a sentence it would cost four seconds.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

namespace {

// Elsewhere fmt is declared, and this is what calls come down to.
using Format = std::string(fmt::string_view, fmt::format_args);
[[gnu::used]] Format* const implementation = &fmt::vformat;

}  // namespace
