// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend.h"

namespace flashscan::cpu {

const Backend& backend();

}  // namespace flashscan::cpu
