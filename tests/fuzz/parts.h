// SPDX-License-Identifier: Apache-2.0
// A case of each part of the program but problems (problems.h), by its number or by a line of the settings.
#pragma once

#include "fuzz/session.h"

namespace fuzz {

void api_case(const Session& session, int64_t index);
void life_case(const Session& session, int64_t index);
void invariance_case(const Session& session, int64_t index);

}  // namespace fuzz
