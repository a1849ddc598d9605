// SPDX-License-Identifier: Apache-2.0
// The launches of kernels for few steps, and the states of a call as these take them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/backend.h"
#include "core/sequences.h"
#include "cuda/device/tile/step_rows.h"
#include "cuda/launch/alignment.h"
#include "cuda/launch/launch.h"

namespace flashscan::cuda {

// The rows of the states, of elements of `bytes` bytes, without a call's pointers.
inline StateRows state_rows_of(const Sequences& problem, int64_t bytes) {
    StateRows states;
    states.in_step = problem.state_in.row * bytes;
    states.out_step = problem.state_out.row * bytes;
    states.rows = problem.pooled() ? problem.state_pool : problem.state_rows();
    return states;
}
inline void point(StateRows& states, const CommonBuffers& b) {
    states.in = static_cast<const char*>(b.state_in);
    states.out = static_cast<char*>(b.state_out);
    states.indices = b.state_indices;
}

// Whether the rows of the states begin at multiples of 16 bytes.
inline bool lie_aligned(const StateRows& states) {
    constexpr int64_t bytes = 16;
    return are_multiples({states.in, states.out}, bytes) && states.in_step % bytes == 0 && states.out_step % bytes == 0;
}

// Returns what the address of a tensor must be a multiple of so that `pack` neighbouring elements of each step, of
// `element` bytes, lie next to each other and aligned to all of them; 0 where its strides rule that out.
inline int64_t pack_alignment(const View& strides, int64_t element, int64_t pack) {
    const int64_t bytes = element * pack;
    return strides.row == element && strides.batch % bytes == 0 && strides.time % bytes == 0 ? bytes : 0;
}
// Whether a tensor, which may be absent, lies so.
inline bool lies_in_packs(const void* data, int64_t alignment) {
    return data == nullptr || (alignment > 0 && is_multiple(data, alignment));
}

// Threads of a block, at most `most`, where `threads` threads are wanted: fewer, where that lets more multiprocessors
// have a block.
inline int step_block(int64_t threads, int most, int multiprocessors) {
    int block = most;
    while (block > 32 && ceil_div(threads, block) < multiprocessors) block /= 2;
    return block;
}

// Returns why kernels for few steps cannot take a problem, or an empty string. They count steps, the numbers of a step
// (`numbers`, which the sentence calls `name`) and threads (`threads` for each row of the states) in 31 bits, in which
// the threads of the last block need room too.
inline std::string step_threads_refusal(const Sequences& problem, Extent numbers, Extent threads, const char* name) {
    constexpr int64_t most = std::numeric_limits<int32_t>::max() - 1024;
    const std::pair<const char*, Extent> counts[] = {
        {"time", problem.time}, {name, numbers}, {"the number of threads", max(problem.state_rows(), 1) * threads}};
    for (const auto& [what, count] : counts)
        if (count > most) return fmt::format("{} is {}; takes up to {}", what, count, most);
    return {};
}

// Returns why there are not so few steps, up to `most`, that kernels for few steps are faster, or an empty string. Only
// the device knows the lengths of packed sequences; if there are as many sequences as steps, they are taken to have one
// step each.
inline std::string steps_refusal(const Sequences& problem, int64_t most, bool batch_invariant) {
    if (problem.packed() && batch_invariant)
        return "sequences are packed, and may have several steps, which BATCH_INVARIANT rules out";
    if (problem.packed() && problem.time > problem.num_sequences)
        return fmt::format("time is {}; takes up to {}, a step of each sequence", problem.time, problem.num_sequences);
    if (!problem.packed() && problem.time > most) return fmt::format("time is {}; takes up to {}", problem.time, most);
    return {};
}

// The base of the kernels for few steps of all families. They run forward, and `rest` runs the other passes; it is null
// where there are none.
template <typename Kernel, typename Buffers>
class ForwardSteps : public Kernel {
  public:
    size_t scratch_bytes(Pass pass) const override {
        return pass == Pass::forward || rest_ == nullptr ? 0 : rest_->scratch_bytes(pass);
    }
    bool takes_states_in_place(Pass pass) const override { return pass == Pass::forward; }
    void backward(const Buffers& b, void* stream) const override { rest_->backward(b, stream); }

  protected:
    explicit ForwardSteps(std::unique_ptr<Kernel> rest) : rest_(std::move(rest)) {}
    std::string describe_backward() const { return rest_ ? "backward as of " + rest_->describe() : "no backward"; }

    std::unique_ptr<Kernel> rest_;
};

// A launch of a kernel with a thread for `pack` channels of each row, settled with the plan.
template <typename Params>
class StepLaunch {
  public:
    struct Tensor {
        View Params::*view;
        int64_t element;  // bytes of an element
    };
    // `params` has the strides of `tensors`; elements of the states have `state_bytes` bytes.
    StepLaunch(const Sequences& problem, const Params& params, std::initializer_list<Tensor> tensors,
               int64_t state_bytes, int pack, int multiprocessors) {
        steps_.states = state_rows_of(problem, state_bytes);
        steps_.packs = static_cast<uint32_t>(ceil_div(params.channels, pack));
        steps_.threads = static_cast<uint32_t>(int64_t{problem.state_rows()}) * steps_.packs;
        steps_.by_packs = divisor_of(steps_.packs);
        shape_ = threads_in_blocks(steps_.threads, step_block(steps_.threads, step_threads, multiprocessors));
        fills_packs_ = params.channels % pack == 0;
        for (const Tensor& tensor : tensors)
            places_.push_back({tensor.view, pack_alignment(params.*tensor.view, tensor.element, pack)});
    }

    void run(const void* kernel, const Params& params, const CommonBuffers& b, void* stream) const {
        if (steps_.threads == 0) return;
        StepParams steps = steps_;
        point(steps.states, b);
        steps.whole = fills_packs_ && lie_aligned(steps.states) &&
                      std::all_of(places_.begin(), places_.end(),
                                  [&](const Place& p) { return lies_in_packs((params.*p.view).data, p.alignment); });
        launch(kernel, shape_, stream, params, steps);
    }

  private:
    struct Place {
        View Params::*view;
        int64_t alignment;  // pack_alignment
    };
    StepParams steps_;
    LaunchShape shape_;
    bool fills_packs_;
    std::vector<Place> places_;
};

}  // namespace flashscan::cuda
