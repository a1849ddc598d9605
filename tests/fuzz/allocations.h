// SPDX-License-Identifier: Apache-2.0
// Memory that runs out: every allocation of a plan and of its calls fails once.
#pragma once

#include <cstdint>
#include <string>

namespace fuzz {

// What a failure left wrong; empty if nothing, and where the sanitizers' malloc is in use.
std::string exhaust_allocations(const std::string& line, int32_t backend);

}  // namespace fuzz
