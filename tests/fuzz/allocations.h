// SPDX-License-Identifier: Apache-2.0
// Memory that runs out: every allocation of a plan and of its calls fails once.
#pragma once

#include <cstdint>
#include <string>

namespace fuzz {

// Lets each allocation of the line's calls fail in turn and says what that left wrong: nothing if empty, and where the
// sanitizers' malloc is in use.
std::string exhaust_allocations(const std::string& line, int32_t backend);

}  // namespace fuzz
