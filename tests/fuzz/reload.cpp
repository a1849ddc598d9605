// SPDX-License-Identifier: Apache-2.0
// Loads the library, runs a plan on several threads, and closes it, again and again. usage: reload LIBRARY
#include <dlfcn.h>
#include <flashscan/flashscan.h>

#include <cstdio>
#include <thread>
#include <vector>

namespace {

template <typename Function>
Function* find(void* library, const char* name) {
    return reinterpret_cast<Function*>(dlsym(library, name));
}

bool use(void* library) {
    auto* create = find<decltype(flashscan_plan_linear)>(library, "flashscan_plan_linear");
    auto* run = find<decltype(flashscan_execute)>(library, "flashscan_execute");
    auto* destroy = find<decltype(flashscan_plan_destroy)>(library, "flashscan_plan_destroy");
    if (create == nullptr || run == nullptr || destroy == nullptr) return false;
    constexpr int64_t rows = 64, steps = 500;
    flashscan_linear_desc desc{};
    desc.struct_size = sizeof desc;
    desc.dtype = FLASHSCAN_DTYPE_F32;
    desc.layout = FLASHSCAN_LAYOUT_BCT;
    desc.batch = 1;
    desc.channels = rows;
    desc.time = steps;
    flashscan_options options{};
    options.struct_size = sizeof options;
    options.threads = 4;
    flashscan_plan* plan = nullptr;
    if (create(&plan, &desc, &options) != FLASHSCAN_STATUS_OK) return false;
    std::vector<float> input(rows * steps, 1), gate(rows * steps, 0.5F), output(rows * steps);
    const size_t bytes = output.size() * sizeof(float);
    const flashscan_arg args[] = {{FLASHSCAN_ARG_INPUT, 0, input.data(), bytes},
                                  {FLASHSCAN_ARG_GATE, 0, gate.data(), bytes},
                                  {FLASHSCAN_ARG_OUTPUT, 0, output.data(), bytes}};
    const bool done = run(plan, FLASHSCAN_PASS_FORWARD, args, 3, nullptr) == FLASHSCAN_STATUS_OK && output[0] == 1 &&
                      output[2] == 1.75F;
    destroy(plan);
    return done;
}

}  // namespace

int main(int argc, char** argv) {
    for (int i = 0; i < 12; ++i) {
        void* library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
        if (library == nullptr) {
            std::printf("FAILED: %s\n", argc == 2 ? dlerror() : "usage: reload LIBRARY");
            return 1;
        }
        bool done = true, other = true;
        // A thread of the caller's that ends before the library is closed, or after it.
        std::thread thread([&] { other = use(library); });
        if (i % 2 == 0) thread.join();
        done = use(library);
        if (i % 2 != 0) thread.join();
        if (!done || !other || dlclose(library) != 0) {
            std::printf("FAILED: round %d\n", i);
            return 1;
        }
    }
    return 0;
}
