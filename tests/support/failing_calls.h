// SPDX-License-Identifier: Apache-2.0
// Makes calls of the CUDA runtime or driver fail, where a stand-in for them is loaded: the fake machine of tests/fake,
// or the driver's interposer, tests/support/interposed_driver.c.
#pragma once

#include <cstdint>
#include <string>

namespace support {

struct FailingCalls {
    // From now on the n-th call fails with `error`, and all after it on request; 0: none. Forgets what was noted.
    void (*begin)(int64_t call, int error, int all_after);
    // Makes calls succeed again. The name of the first call that failed; "" if none did.
    const char* (*end)();
    // Both return text for comparison, of what was launched and of what lives; "" where the stand-in does not know.
    const char* (*launches)();
    const char* (*living)();
};

// Null where no stand-in is loaded.
const FailingCalls* failing_calls();

}  // namespace support
