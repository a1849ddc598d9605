// SPDX-License-Identifier: Apache-2.0
// A plan and its calls, ready to be executed from anywhere, with the bits that they give.
#pragma once

#include <optional>
#include <string>

#include "fuzz/random.h"
#include "support/call.h"

namespace fuzz {

class Scene {
  public:
    // Takes a line as problems.h has it, and runs each call once.
    Scene(const std::string& line, int32_t backend);

    const std::string& line() const { return line_; }
    const support::Plan& plan() const { return *plan_; }
    std::vector<support::Call>& calls() { return calls_; }
    // Executes call `i` in its memory as it is prepared, and what is wrong with what came of it.
    flashscan_status execute(size_t i) const { return calls_[i].execute(plan_->get()); }
    std::string wrong(size_t i);
    // All calls once more, on a plan that is made for it; empty if all is as it was.
    std::string repeat();

  private:
    std::string line_;
    int32_t backend_;
    std::optional<support::Plan> plan_;
    std::vector<support::Call> calls_;
    std::vector<std::map<int32_t, support::Bytes>> expected_;
};

// A small problem of any family as a line, for `threads` threads, which a kernel of the backend takes.
std::string draw_scene(Random& random, int32_t threads);

}  // namespace fuzz
