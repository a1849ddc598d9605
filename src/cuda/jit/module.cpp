// SPDX-License-Identifier: Apache-2.0
// The cache of kernels that were compiled at run time.
#include "cuda/jit/module.h"

#include <future>
#include <map>
#include <memory>
#include <mutex>

#include "cuda/loader/driver.h"
#include "cuda/runtime.h"

namespace flashscan::cuda {
namespace {

// The key of machine code: everything that it depends on. The lengths keep texts apart.
std::string key_of(const KernelSource& source, const CustomOperator& custom, int arch) {
    std::string key = fmt::format("{} {} ", arch, static_cast<int>(custom.code_kind));
    for (const std::string* text : {&custom.code, &source.headers, &source.declarations, &source.kernels})
        key += fmt::format("{} ", text->size()) + *text;
    return key;
}

struct Entry {
    std::mutex mutex;
    std::string cubin;  // machine code that has not been loaded yet
    std::unique_ptr<Module> module;
};

Entry& entry_of(const std::string& key) {
    static std::mutex mutex;
    static auto& entries = *new std::map<std::string, Entry>;
    const std::scoped_lock lock(mutex);
    return entries[key];
}

#if CUDART_VERSION >= 12080
using LibraryHandle = cudaLibrary_t;
using KernelHandle = cudaKernel_t;
constexpr auto load_library = cudaLibraryLoadData;
constexpr auto find_kernel = cudaLibraryGetKernel;
#else
// The driver's own, which the runtime took over later.
using LibraryHandle = CUlibrary;
using KernelHandle = CUkernel;
const auto load_library = [](auto... arguments) { return driver().load_library(arguments...); };
const auto find_kernel = [](auto... arguments) { return driver().find_kernel(arguments...); };
#endif

}  // namespace

Module::Module(const std::string& cubin) {
    LibraryHandle library = nullptr;
    check(load_library(&library, cubin.data(), nullptr, nullptr, 0U, nullptr, nullptr, 0U), "loading compiled code");
    library_ = library;
}

const void* Module::kernel(const char* name) const {
    KernelHandle kernel = nullptr;
    check(find_kernel(&kernel, static_cast<LibraryHandle>(library_), name), "finding a compiled kernel");
    kernel_attributes(kernel, "loading a compiled kernel");
    return kernel;
}

std::vector<const Module*> find_modules(const std::vector<KernelSource>& sources, const CustomOperator& custom,
                                        int device) {
    const auto version = [device](cudaDeviceAttr which) {
        return device_attribute(which, device, "asking for the compute capability");
    };
    const int arch = 10 * version(cudaDevAttrComputeCapabilityMajor) + version(cudaDevAttrComputeCapabilityMinor);
    std::vector<Entry*> entries;
    std::vector<std::future<void>> compiled;
    for (const KernelSource& source : sources) {
        Entry* const entry = entries.emplace_back(&entry_of(key_of(source, custom, arch)));
        const auto is_missing = [entry] { return entry->module == nullptr && entry->cubin.empty(); };
        const std::scoped_lock lock(entry->mutex);
        if (!is_missing()) continue;
        // The threads call no CUDA functions, because they have another current device and capture mode.
        compiled.push_back(std::async([&source, &custom, arch, entry, is_missing] {
            const std::scoped_lock own_lock(entry->mutex);
            if (is_missing()) entry->cubin = compile(source, custom, arch);
        }));
    }
    for (std::future<void>& one : compiled) one.get();
    std::vector<const Module*> modules;
    for (Entry* entry : entries) {
        const std::scoped_lock lock(entry->mutex);
        if (entry->module == nullptr) entry->module = std::make_unique<Module>(entry->cubin);
        std::string().swap(entry->cubin);
        modules.push_back(entry->module.get());
    }
    return modules;
}

}  // namespace flashscan::cuda
