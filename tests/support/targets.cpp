// SPDX-License-Identifier: Apache-2.0
// The backends and kernels that problems run on.
#include <fmt/format.h>

#include <sstream>

#include "support/problem.h"

namespace support {

std::string text_of(const Target& target) {
    return fmt::format("{}_{}", target.backend == FLASHSCAN_BACKEND_CUDA ? "cuda" : "cpu",
                       target.kernel.empty() ? "auto" : target.kernel);
}

std::vector<Target> planner_targets() { return {{FLASHSCAN_BACKEND_CPU, ""}, {FLASHSCAN_BACKEND_CUDA, ""}}; }

std::vector<std::string> names_in(const std::string& sentence) {
    const std::string mark = " accepts ";
    const size_t start = sentence.find(mark);
    if (start == std::string::npos) return {};
    std::istringstream list(sentence.substr(start + mark.size()));
    std::vector<std::string> names;
    for (std::string name; list >> name;) {
        if (name.back() == ',') name.pop_back();
        names.push_back(name);
    }
    return names;
}

std::vector<Target> kernel_targets() {
    std::vector<Target> targets;
    for (const int32_t backend : {FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA})
        for (const std::string& kernel : kernels_of(flashscan_plan_linear, Problem{}, backend))
            if (kernel != "reference") targets.push_back({backend, kernel});
    return targets;
}

std::vector<Target> targets_of(std::vector<std::string> (*kernels_of)(int32_t backend)) {
    std::vector<Target> targets;
    for (const int32_t backend : {FLASHSCAN_BACKEND_CPU, FLASHSCAN_BACKEND_CUDA}) {
        const std::vector<std::string> kernels = kernels_of(backend);
        if (!kernels.empty()) targets.push_back({backend, ""});
        for (const std::string& kernel : kernels)
            if (kernel != "reference") targets.push_back({backend, kernel});
    }
    return targets;
}

std::vector<Target> all_targets() {
    std::vector<Target> targets = planner_targets();
    for (const Target& target : kernel_targets()) targets.push_back(target);
    targets.push_back({FLASHSCAN_BACKEND_CPU, "reference"});
    return targets;
}

std::vector<Target> on_backend(int32_t backend, std::vector<Target> targets) {
    std::erase_if(targets, [=](const Target& target) { return target.backend != backend; });
    return targets;
}

}  // namespace support
