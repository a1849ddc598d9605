// SPDX-License-Identifier: Apache-2.0
#include "fuzz/allocations.h"

#include <fmt/format.h>

#include "fuzz/scene.h"

#if FLASHSCAN_FUZZ_ALLOCATIONS
#include "support/failing_memory.h"
#endif

namespace fuzz {

#if FLASHSCAN_FUZZ_ALLOCATIONS

using namespace support;

namespace {

// Repeats `body` with the n-th allocation failing until it succeeds without one; `check` looks at what a failure left.
template <typename Body, typename Check>
std::string fail_each(bool all_after, Body body, Check check) {
    for (int64_t n = 1; n < 2000; ++n) {
        ledger = {true, all_after, n, 0, 0, false};
        const flashscan_status status = body();
        ledger.on = false;
        const std::string where = fmt::format("allocation {}{}", n, all_after ? " and all after it" : "");
        if (ledger.live != 0) return fmt::format("{}: {} blocks leaked", where, ledger.live);
        if (!ledger.fired && status != FLASHSCAN_STATUS_OK)
            return fmt::format("no failure, but {}", flashscan_last_error());
        if (!ledger.fired) return "";
        // Some can do without.
        if (status != FLASHSCAN_STATUS_OUT_OF_MEMORY && status != FLASHSCAN_STATUS_OK)
            return fmt::format("{}: {} instead of OUT_OF_MEMORY", where, flashscan_status_name(status));
        if (const std::string wrong = check(status); !wrong.empty()) return where + ": " + wrong;
    }
    return "2000 allocations";
}

}  // namespace

std::string exhaust_allocations(const std::string& line, int32_t backend) {
    make_room_for_sentences();
    Scene scene(line, backend);
    for (const bool all_after : {false, true})
        for (size_t i = 0; i < scene.calls().size(); ++i) {
            Call& call = scene.calls()[i];
            call.prepare();
            const std::string wrong = fail_each(
                all_after, [&] { return scene.execute(i); },
                [&](flashscan_status status) -> std::string {
                    const std::string other = scene.wrong(i);
                    if (status == FLASHSCAN_STATUS_OK) {
                        call.prepare();
                        return other;
                    }
                    return call.outputs_untouched() ? "" : "outputs were written by a call that failed";
                });
            if (!wrong.empty()) return fmt::format("call {}: {}", i, wrong);
            if (const std::string after = scene.wrong(i); !after.empty()) return "the next call: " + after;
        }
    return "";
}

#else

std::string exhaust_allocations(const std::string&, int32_t) { return ""; }

#endif

}  // namespace fuzz
