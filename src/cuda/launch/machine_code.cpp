// SPDX-License-Identifier: Apache-2.0
// The rules of CUDA for what runs where. Machine code runs on its own major version from its own minor version on, and
// PTX on everything newer; what is specific to an architecture ("90a") runs on that alone, and what is specific to a
// family ("100f") on its major version alone.
#include "cuda/launch/machine_code.h"

#include <algorithm>
#include <charconv>

namespace flashscan::cuda {
namespace {

bool one_runs_on(std::string_view architecture, int major, int minor) {
    int number = 0;
    const auto [rest, error] = std::from_chars(architecture.data(), architecture.data() + architecture.size(), number);
    if (error != std::errc()) return true;
    const std::string_view kind(rest, architecture.data() + architecture.size());
    const int device = 10 * major + minor;
    if (kind.starts_with('a')) return device == number;
    const bool same_major = number / 10 == major, only_real = kind.ends_with("-real");
    return device >= number && (same_major || !(only_real || kind.starts_with('f')));
}

}  // namespace

bool runs_on(std::string_view architectures, int major, int minor) {
    while (!architectures.empty()) {
        const size_t end = std::min(architectures.find(' '), architectures.size());
        if (end > 0 && one_runs_on(architectures.substr(0, end), major, minor)) return true;
        architectures.remove_prefix(std::min(end + 1, architectures.size()));
    }
    return false;
}

}  // namespace flashscan::cuda
