// SPDX-License-Identifier: Apache-2.0
// Fills in the tensors of golden cases.
#pragma once

#include <functional>
#include <numeric>
#include <random>

#include "golden/case.h"

namespace golden {

using Shape = std::vector<int64_t>;

// Inputs are short fractions that every dtype holds exactly, and print in few digits.
class Maker {
  public:
    Maker(Case& what, bool complex) : what_(what), complex_(complex) {}

    // A tensor of multiples of 1/64 in [-scale, scale], the scale a power of two, coarser where that is above 1.
    Tensor tensor(int32_t id, Shape shape, double scale, bool real = false) {
        Tensor made = zeros(id, std::move(shape), real);
        const double step = scale / 64;
        for (double& number : made.data) number = step * (static_cast<double>(random_() % 129) - 64);
        return made;
    }
    Tensor zeros(int32_t id, Shape shape, bool real = false) const {
        Tensor made{.id = id, .shape = std::move(shape), .complex = complex_ && !real, .data = {}};
        const int64_t count = std::accumulate(made.shape.begin(), made.shape.end(), int64_t{1}, std::multiplies<>());
        made.data.resize(static_cast<size_t>(count) * (made.complex ? 2 : 1));
        return made;
    }
    void reset(int64_t batch, int64_t time) {
        Tensor& made = what_.inputs.emplace_back(zeros(FLASHSCAN_ARG_RESET, {batch, time}, true));
        for (double& number : made.data) number = random_() % 3 == 0 ? 1 : 0;
        what_.reused.push_back(made.id);
    }
    // Uneven sequences, the second one empty.
    void offsets(int64_t time, int64_t sequences, bool narrow) {
        Tensor& made = what_.inputs.emplace_back(zeros(FLASHSCAN_ARG_SEQ_OFFSETS, {sequences + 1}, true));
        made.narrow = narrow;
        for (int64_t n = 1; n <= sequences; ++n)
            made.data[static_cast<size_t>(n)] = static_cast<double>(n == sequences ? time
                                                                    : n <= 2       ? time / 2 - 1
                                                                                   : time - 1);
        what_.reused.push_back(made.id);
    }
    void in(Tensor tensor, bool reused) {
        if (reused) what_.reused.push_back(tensor.id);
        what_.inputs.push_back(std::move(tensor));
    }
    void out(int32_t id, const Shape& shape, bool reused, bool real = false) {
        if (reused) what_.reused.push_back(id);
        what_.outputs.push_back(zeros(id, shape, real));
        what_.grad_inputs.push_back(tensor(FLASHSCAN_GRAD | id, shape, 1, real));
    }
    void gradient(int32_t id) {
        for (const Tensor& tensor : what_.inputs)
            if (tensor.id == id)
                what_.grad_outputs.push_back(zeros(FLASHSCAN_GRAD | id, tensor.shape, complex_ && !tensor.complex));
    }

  private:
    Case& what_;
    bool complex_;
    std::mt19937_64 random_;
};

}  // namespace golden
