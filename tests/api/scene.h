// SPDX-License-Identifier: Apache-2.0
// A small plan with all of its arguments in memory, for tests that break one of them.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "api/fixture.h"

namespace api {

using namespace support;

inline constexpr int32_t grad = FLASHSCAN_GRAD;

// A small plan on a backend with all of its arguments, ready to be broken.
struct Scene {
    Scene(Problem problem, int32_t pass, int32_t backend = FLASHSCAN_BACKEND_CPU) : p(problem), plan(p, {backend, ""}) {
        if (!plan) throw std::runtime_error(plan.message());
        data = make_data(p);
        data.output = data.input;
        call =
            std::make_unique<Call>(pass == FLASHSCAN_PASS_FORWARD ? forward_call(p, plan, backend, data, Guard::end)
                                                                  : backward_call(p, plan, backend, data, Guard::end));
    }
    flashscan_arg& arg(int32_t id) const { return call->argument(id); }

    Problem p;
    Plan plan;
    Data data;
    std::unique_ptr<Call> call;
};

inline void remove(Scene& s, int32_t id) {
    auto& list = s.call->arguments();
    list.erase(std::find_if(list.begin(), list.end(), [=](const flashscan_arg& a) { return a.id == id; }));
}

}  // namespace api
