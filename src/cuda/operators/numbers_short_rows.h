// SPDX-License-Identifier: Apache-2.0
// Host side of scans of short rows of numbers (numbers_short_rows.cuh): of OUTPUT from INPUT, and of sums also of
// GRAD|INPUT from GRAD|OUTPUT, which is the same scan in the other direction.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>

#include "core/backend.h"
#include "core/operator_problem.h"
#include "cuda/operators/instances/table.h"
#include "cuda/operators/numbers_chained.h"
#include "cuda/operators/numbers_chained_params.h"

namespace flashscan::cuda {

class ShortNumbers {
  public:
    // Returns nothing where the problem rules these kernels out. `backward` is of sums alone.
    static std::optional<ShortNumbers> make(const OperatorProblem& problem, bool backward, const Options& options);

    // Whether a call's arrays lie as the kernels need; null ones do.
    bool takes(std::initializer_list<const void*> arrays) const;
    void run(const NumberArrays& arrays, void* stream) const;
    std::string describe() const;

  private:
    const void* kernel_ = nullptr;
    ShortNumberParams params_;  // without a call's pointers
    int tiles_ = 0;
    int64_t blocks_ = 0;
};

}  // namespace flashscan::cuda
