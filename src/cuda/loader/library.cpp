// SPDX-License-Identifier: Apache-2.0
// Opens shared libraries by dlopen.
#include "cuda/loader/library.h"

#include <dlfcn.h>

#include "core/error.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {

std::vector<const char*> both_versions(const char* of_13, const char* of_12) {
    if (CUDART_VERSION >= 13000) return {of_13, of_12};
    return {of_12, of_13};
}

Library::Library(const char* what, std::vector<const char*> files) {
    for (const char* file : files) names_ += fmt::format("{}{}", names_.empty() ? "" : " or ", file);
    for (const int only_if_loaded : {RTLD_NOLOAD, 0})
        for (const char* file : files)
            if (library_ == nullptr) library_ = dlopen(file, RTLD_NOW | RTLD_LOCAL | only_if_loaded);
    if (library_ != nullptr) return;
    dlopen(files[0], RTLD_NOW | RTLD_LOCAL);
    const char* reason = dlerror();
    fail(Code::dependency_missing, "this plan needs {}, but {} could not be loaded: {}", what, names_,
         reason != nullptr ? reason : "no reason given");
}

void* Library::find(const char* name) const {
    void* function = dlsym(library_, name);
    if (function == nullptr)
        fail(Code::dependency_missing, "this plan needs {}, which the {} that was loaded does not have", name, names_);
    return function;
}

}  // namespace flashscan::cuda
