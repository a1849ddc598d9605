// SPDX-License-Identifier: Apache-2.0
#include "support/failing_memory.h"

#include <cerrno>
#include <cstdlib>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
}

namespace support {

constinit thread_local Ledger ledger;

bool Ledger::refuses() {
    if (!on) return false;
    ++count;
    const bool refused = fail_at > 0 && (count == fail_at || (all_after && count > fail_at));
    fired = fired || refused;
    if (!refused) ++live;
    return refused;
}

}  // namespace support

using support::ledger;

#define INTERPOSED extern "C" __attribute__((visibility("default")))

INTERPOSED void* malloc(size_t bytes) { return ledger.refuses() ? nullptr : __libc_malloc(bytes); }
INTERPOSED void* calloc(size_t count, size_t bytes) { return ledger.refuses() ? nullptr : __libc_calloc(count, bytes); }
INTERPOSED void* realloc(void* memory, size_t bytes) {
    if (ledger.refuses()) return nullptr;
    ledger.freed(memory);
    return __libc_realloc(memory, bytes);
}
INTERPOSED void* aligned_alloc(size_t alignment, size_t bytes) {
    return ledger.refuses() ? nullptr : __libc_memalign(alignment, bytes);
}
INTERPOSED int posix_memalign(void** memory, size_t alignment, size_t bytes) {
    if (ledger.refuses()) return ENOMEM;
    *memory = __libc_memalign(alignment, bytes);
    return *memory != nullptr ? 0 : ENOMEM;
}
INTERPOSED void free(void* memory) {
    ledger.freed(memory);
    __libc_free(memory);
}

// The fake machine's own allocations are none of the library's.
INTERPOSED bool failing_memory_switch(bool on) {
    const bool before = ledger.on;
    ledger.on = on;
    return before;
}
