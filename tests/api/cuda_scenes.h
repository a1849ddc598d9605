// SPDX-License-Identifier: Apache-2.0
// Plans of every CUDA kernel and the arguments of their calls, for tests of what the library asks of the runtime.
#pragma once

#include <map>

#include "api/fixture.h"
#include "support/memory.h"

namespace api {

// A plan that can be made again and again.
struct CudaScene {
    std::string name;
    std::function<flashscan_status(flashscan_plan** plan, int32_t device)> make;
    bool has_results = true;  // false: what the arrays hold after a call is not defined
};
inline void PrintTo(const CudaScene& scene, std::ostream* to) { *to << scene.name; }
inline std::string name_of_scene(const testing::TestParamInfo<CudaScene>& info) {
    std::string name = info.param.name;
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return name;
}
// Problems that between them every kernel takes.
std::vector<CudaScene> cuda_scenes();

struct DestroyPlan {
    void operator()(flashscan_plan* plan) const { flashscan_plan_destroy(plan); }
};
using OwnedPlan = std::unique_ptr<flashscan_plan, DestroyPlan>;
// Null, and a failed expectation, where it cannot be made.
OwnedPlan make_plan(const CudaScene& scene, int32_t device = 0);

inline constexpr int both_passes[] = {FLASHSCAN_PASS_FORWARD, FLASHSCAN_PASS_BACKWARD};

// All that a plan's passes take but SCRATCH. Passes share memory, as forward's results are backward's inputs.
class CudaArguments {
  public:
    explicit CudaArguments(const flashscan_plan* plan);
    bool has(int pass) const { return calls_.count(pass) != 0; }
    flashscan_status execute(const flashscan_plan* plan, int pass) const;
    // Returns the bytes of all outputs but RESERVE.
    std::map<int32_t, support::Bytes> contents() const;

  private:
    std::map<int32_t, std::unique_ptr<support::Buffer>> buffers_;
    std::map<int, std::vector<flashscan_arg>> calls_;
};

}  // namespace api
