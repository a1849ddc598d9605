// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <algorithm>

namespace bench {

const Ceiling& Machine::ceiling(bool backward, size_t array_bytes, int runs) {
    const std::pair key{backward, array_bytes};
    const auto known = ceilings_.find(key);
    if (known != ceilings_.end()) return known->second;
    return ceilings_[key] = measure_ceiling(backward, array_bytes, runs);
}

double quantile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

#if !BENCH_WITH_CUDA
std::unique_ptr<Machine> make_cuda_machine(int) { throw Failure("this bench was built without CUDA"); }
#endif

}  // namespace bench
