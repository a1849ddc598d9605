// SPDX-License-Identifier: Apache-2.0
#include "support/failing_calls.h"

#include <dlfcn.h>

namespace support {
namespace {

template <typename Function>
bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
}

}  // namespace

const FailingCalls* failing_calls() {
    static const FailingCalls calls = [] {
        FailingCalls found{};
        for (void* library : {RTLD_DEFAULT, dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)})
            if (found.begin == nullptr && find(library, "failing_calls_begin", found.begin)) {
                find(library, "failing_calls_end", found.end);
                find(library, "failing_calls_launches", found.launches);
                find(library, "failing_calls_living", found.living);
            }
        return found;
    }();
    return calls.begin != nullptr ? &calls : nullptr;
}

}  // namespace support
