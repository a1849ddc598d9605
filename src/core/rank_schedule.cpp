// SPDX-License-Identifier: Apache-2.0
// The cost model. Its numbers are those of H200s, measured between two of a host (bench/ranks.py has their source); on
// another card both ways scale alike with its memory.
#include "core/rank_schedule.h"

#include <algorithm>

#include "core/rounding.h"

namespace flashscan {
namespace {

constexpr double launch_us = 4.4;         // before a kernel streams, its launch included
constexpr double bytes_per_us = 4.2e6;    // of a stream
constexpr double closing_us = 6;          // kernels that close a summary and join those of other ranks
constexpr double gather_us = 8.8;         // an all-gather of nothing on two ranks
constexpr double further_rank_us = 1.34;  // of each further one
constexpr double gathered_bytes = 105e3;  // bytes a microsecond
constexpr double sent_us = 20;            // from the end of a group to its state in the next rank, through NCCL
constexpr double peer_us = 10;            // through the memory of the GPUs
constexpr double sent_bytes = 215e3;      // bytes a microsecond
constexpr double group_us = 3;            // from one group of a wavefront to the next
// The model assumes that two groups run at once if they have no more blocks than this together.
constexpr double filling_blocks = 16 * filled_multiprocessors;

double all_gather_us(int32_t ranks, double bytes) {
    return gather_us + further_rank_us * (ranks - 2) + (ranks - 1) * bytes / gathered_bytes;
}

}  // namespace

double stream_us(double bytes) { return bytes / bytes_per_us; }

RowCut RankWork::cut_into(int32_t groups) const {
    const auto index = static_cast<size_t>(groups);
    return index < cuts.size() ? cuts[index] : RowCut{groups, 1.0 / groups};
}

double gathered_us(const RankWork& w) {
    return 2 * launch_us + w.summary_us + w.pass_us + w.steps_us + closing_us + all_gather_us(w.ranks, w.message_bytes);
}

// Groups that run at once are done at once, so that the next rank starts behind all of them.
double wavefront_us(const RankWork& w, int32_t groups) {
    const RowCut cut = w.cut_into(groups);
    const int32_t at_once = cut.groups > 1 && w.blocks > 0 && 2 * cut.largest * w.blocks <= filling_blocks ? 2 : 1;
    const double pass = w.pass_us + w.steps_us * ceil_div(cut.groups, at_once) + group_us * cut.groups;
    const double first = at_once * cut.largest * w.pass_us + w.steps_us;
    const double hop = (w.peer_memory ? peer_us : sent_us) + cut.largest * w.state_bytes / sent_bytes;
    const double edges = w.edge_bytes > 0 ? all_gather_us(w.ranks, w.edge_bytes) : 0;
    const double before = w.before_us > 0 ? launch_us + w.before_us : 0;
    return launch_us + pass + (first + hop) * (w.ranks - 1) + edges + before;
}

RankSchedule choose_schedule(const RankWork& w, Carries wanted, int32_t groups) {
    const auto us = [](double value) { return fmt::format("{:.0f} us", value); };
    RankSchedule gathered{Carries::gathered, 1, gathered_us(w), ""};
    if (w.most_groups == 0) {
        if (wanted == Carries::wavefront)
            fail(Code::unsupported, "communicator.carries is CARRIES_WAVEFRONT, but {}", w.why_whole);
        gathered.why = w.why_whole;
        return gathered;
    }
    RankSchedule wave{Carries::wavefront, 1, 0, ""};
    const int64_t parts = w.rows / w.least_rows;
    const int64_t sensible =
        std::clamp<int64_t>(std::max(std::min(parts, few_groups), parts / 4), 1, most_chosen_groups);
    const auto most = static_cast<int32_t>(std::min<int64_t>(w.most_groups, groups > 0 ? groups : sensible));
    wave.us = wavefront_us(w, groups > 0 ? most : 1);
    if (groups > 0) wave.groups = most;
    for (int32_t k = 2; groups == 0 && k <= most; ++k)
        if (const double t = wavefront_us(w, k); t < wave.us) wave.groups = k, wave.us = t;
    const bool waves = wanted == Carries::chosen ? wave.us < gathered.us : wanted == Carries::wavefront;
    RankSchedule& chosen = waves ? wave : gathered;
    chosen.why = wanted != Carries::chosen ? "as communicator.carries says"
                 : waves ? fmt::format("expected to take {}, gathered summaries {}", us(wave.us), us(gathered.us))
                         : fmt::format("expected to take {}, a wavefront {}", us(gathered.us), us(wave.us));
    return chosen;
}

}  // namespace flashscan
