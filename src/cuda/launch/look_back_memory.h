// SPDX-License-Identifier: Apache-2.0
// The memory in SCRATCH through which chunks that look back (device/scan/look_back.cuh) exchange what they publish.
#pragma once

#include "core/rounding.h"
#include "core/workspace.h"
#include "cuda/launch/launch.h"

namespace flashscan::cuda {

class LookBackMemory {
  public:
    LookBackMemory() = default;
    // Books it for the chunks, groups and links of `cut`, each of which publishes for `rows` rows. The sizes are those
    // of what chunks and groups publish for a row, and of a carry.
    template <typename Cut>
    LookBackMemory(const Cut& cut, bool by_sequence, const Extent& rows, int64_t record_bytes, int64_t carry_bytes,
                   Workspace& workspace) {
        // A packed sequence that is cut from its own start publishes its k-th group or link at the place of its k-th
        // chunk, so that there are as many places for these as for chunks.
        const auto bytes = [&](int log2_chunks, int64_t size) {
            return (by_sequence ? cut.chunks : ceil_div(cut.chunks, int64_t{1} << log2_chunks)) * rows * size;
        };
        // Chunks publish where groups have several of them, and groups where links have several of them.
        const Extent records = cut.log2_group_chunks > 0 ? bytes(0, record_bytes) : Extent();
        const Extent totals = cut.log2_link_groups > 0 ? bytes(cut.log2_group_chunks, record_bytes) : Extent();
        const Extent all = records + totals + bytes(cut.log2_group_chunks + cut.log2_link_groups, carry_bytes);
        place_ = workspace.book(all);
        totals_ = static_cast<size_t>(records);
        carries_ = static_cast<size_t>(records + totals);
        clear_ = ClearLaunch(static_cast<size_t>(all));
    }

    // Fills in the pointers of a call.
    template <typename Params>
    void point(Params& to, void* scratch) const {
        char* const memory = static_cast<char*>(scratch) + place_;
        to.records = memory;
        to.totals = memory + totals_;
        to.carries = memory + carries_;
    }
    // The launch that fills this memory with ones before the kernel; it does nothing if there is none.
    const ClearLaunch& clear() const { return clear_; }

  private:
    size_t place_ = 0, totals_ = 0, carries_ = 0;
    ClearLaunch clear_;
};

}  // namespace flashscan::cuda
