// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend.h"

namespace flashscan::cuda {

const Backend& backend();

}  // namespace flashscan::cuda
