// SPDX-License-Identifier: Apache-2.0
// Numbers that the fields of hostile descriptors get.
#pragma once

#include "fuzz/api.h"
#include "support/cells.h"
#include "support/operators.h"

namespace fuzz {

inline constexpr int32_t words[] = {0, 1,  -1, 2,   3,    4,    5,     6,         7,
                                    8, 16, 64, 256, 1024, 4096, 65536, INT32_MAX, INT32_MIN};
inline constexpr int64_t extents[] = {0,
                                      1,
                                      2,
                                      3,
                                      5,
                                      17,
                                      64,
                                      1000,
                                      -1,
                                      INT64_MAX,
                                      INT64_MIN,
                                      int64_t{1} << 31,
                                      int64_t{1} << 32,
                                      (int64_t{1} << 32) + 1,
                                      int64_t{1} << 40,
                                      int64_t{1} << 50,
                                      int64_t{1} << 60,
                                      int64_t{1} << 61,
                                      int64_t{1} << 62};
inline constexpr int32_t enumerators[] = {FLASHSCAN_DTYPE_F32,
                                          FLASHSCAN_DTYPE_BF16,
                                          FLASHSCAN_DTYPE_F16,
                                          FLASHSCAN_DTYPE_F64,
                                          FLASHSCAN_DTYPE_C64,
                                          FLASHSCAN_DTYPE_C128,
                                          FLASHSCAN_DTYPE_I32,
                                          FLASHSCAN_DTYPE_I64,
                                          FLASHSCAN_DTYPE_U8,
                                          FLASHSCAN_LAYOUT_BTC,
                                          FLASHSCAN_LAYOUT_BCT,
                                          FLASHSCAN_LAYOUT_TBGHD,
                                          FLASHSCAN_DIRECTION_REVERSE,
                                          FLASHSCAN_BACKEND_CUDA,
                                          FLASHSCAN_DETERMINISM_BATCH_INVARIANT,
                                          FLASHSCAN_WORKSPACE_CALLER,
                                          FLASHSCAN_GATE_LOG,
                                          FLASHSCAN_GATE_LOGIT,
#define FLASHSCAN_ROW(name, CONSTANT, ...) FLASHSCAN_CELL_##CONSTANT,
                                          FLASHSCAN_CELLS(FLASHSCAN_ROW)  //
#undef FLASHSCAN_ROW
#define FLASHSCAN_ROW(name, CONSTANT, ...) FLASHSCAN_OPERATOR_##CONSTANT,
                                          FLASHSCAN_NUMBER_OPERATORS(FLASHSCAN_ROW)  //
                                          FLASHSCAN_OTHER_OPERATORS(FLASHSCAN_ROW)
#undef FLASHSCAN_ROW
                                              FLASHSCAN_MODE_EXCLUSIVE,
                                          FLASHSCAN_MODE_REDUCTION,
                                          FLASHSCAN_LINEAR_FLAG_RESET,
                                          FLASHSCAN_RNN_FLAG_ALL_STATES,
                                          FLASHSCAN_RNN_FLAG_TRAINING,
                                          FLASHSCAN_RNN_FLAG_ALLOW_TF32,
                                          FLASHSCAN_OPERATOR_FLAG_ALLOW_TF32,
                                          FLASHSCAN_GATED_LAYER_MINGRU,
                                          FLASHSCAN_GATED_LAYER_RGLRU,
                                          FLASHSCAN_GATED_DECAY_SOFTPLUS,
                                          FLASHSCAN_GATED_DECAY_RATIO,
                                          FLASHSCAN_GATED_SCALE_SQRT,
                                          FLASHSCAN_GATED_EPILOGUE_SILU,
                                          FLASHSCAN_GATED_FLAG_FIRST_STEP,
                                          FLASHSCAN_SELECTIVE_FLAG_SOFTPLUS,
                                          FLASHSCAN_SELECTIVE_FLAG_B_PER_STEP,
                                          FLASHSCAN_SELECTIVE_FLAG_C_PER_STEP};
inline int32_t any_word(Source& source) {
    const uint8_t kind = source.byte();
    return kind < 120 ? source.of(enumerators) : kind < 220 ? source.of(words) : source.raw<int32_t>();
}
inline int64_t any_extent(Source& source) {
    const uint8_t kind = source.byte();
    return kind < 200 ? source.of(extents) : kind < 230 ? source.byte() : source.raw<int64_t>();
}
inline int64_t small_extent(Source& source) { return source.chance(30) ? any_extent(source) : source.byte() % 20; }

// Writes to a field of 4 bytes, or of 8 if it is an extent, somewhere in [first, last).
inline void disturb(Source& source, void* object, size_t first, size_t last) {
    for (int left = source.byte() % 4; left > 0 && last - first >= 8; --left) {
        auto* at = static_cast<unsigned char*>(object) + first;
        if (source.chance(128)) {
            const int32_t word = any_word(source);
            std::memcpy(at + source.below((last - first) / 4) * 4, &word, sizeof word);
        } else {
            const int64_t extent = any_extent(source);
            std::memcpy(at + source.below((last - first) / 8) * 8, &extent, sizeof extent);
        }
    }
}

}  // namespace fuzz
