// SPDX-License-Identifier: Apache-2.0
// When outputs are written with non-temporal stores, past the caches.
#pragma once

#include <cstdint>

namespace flashscan::cpu {

// Outputs of fewer bytes stay in the caches for whoever reads them next.
inline bool streams_outputs(int64_t output_bytes) { return output_bytes >= (int64_t(32) << 20) / 3; }

}  // namespace flashscan::cpu
