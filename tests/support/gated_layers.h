// SPDX-License-Identifier: Apache-2.0
// The table of gated layers by the numbers of the interface.
#pragma once

#include <flashscan/flashscan.h>

#include "math/gated.h"

namespace support {

inline int32_t layer_of(const flashscan::GatedLayer& row) {
    return FLASHSCAN_GATED_LAYER_MINGRU + static_cast<int32_t>(&row - flashscan::gated_layers);
}

inline flashscan::GatedParts parts_of(const flashscan_gated_desc& desc) {
    if (desc.layer != 0) return flashscan::gated_layers[desc.layer - FLASHSCAN_GATED_LAYER_MINGRU].parts;
    const auto place = [](int32_t number, int32_t first) { return number == 0 ? 0 : number - first; };
    return {static_cast<flashscan::Decay>(desc.decay - FLASHSCAN_GATED_DECAY_VALUE),
            static_cast<flashscan::Scale>(place(desc.scale, FLASHSCAN_GATED_SCALE_ONE)),
            static_cast<flashscan::Activation>(place(desc.activation, FLASHSCAN_GATED_ACTIVATION_NONE)),
            static_cast<flashscan::InputGating>(place(desc.input_gating, FLASHSCAN_GATED_INPUT_GATE_NONE)),
            static_cast<flashscan::Epilogue>(place(desc.epilogue, FLASHSCAN_GATED_EPILOGUE_NONE)),
            (desc.flags & FLASHSCAN_GATED_FLAG_FIRST_STEP) != 0};
}

}  // namespace support
