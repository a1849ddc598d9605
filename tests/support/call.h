// SPDX-License-Identifier: Apache-2.0
// Runs plans on values: watched and poisoned buffers, packed and unpacked by the tensors' strides.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "support/data.h"
#include "support/memory.h"

namespace support {

class Plan {
  public:
    Plan(const flashscan_linear_desc& desc, const flashscan_options& options);
    Plan(const flashscan_rnn_desc& desc, const flashscan_options& options);
    Plan(const flashscan_operator_desc& desc, const flashscan_options& options);
    Plan(const flashscan_gated_desc& desc, const flashscan_options& options);
    Plan(const flashscan_selective_desc& desc, const flashscan_options& options);
    Plan(const Problem& problem, const Target& target)
        : Plan(desc_of(problem), options_of(problem, target.backend, target.kernel)) {}

    explicit operator bool() const { return plan_ != nullptr; }
    const flashscan_plan* get() const { return plan_.get(); }
    flashscan_status status() const { return status_; }
    const std::string& message() const { return message_; }
    size_t bytes(int32_t pass, int32_t id) const;
    std::string describe() const;

  private:
    void take(flashscan_plan* plan);
    struct Destroy {
        void operator()(flashscan_plan* plan) const { flashscan_plan_destroy(plan); }
    };
    std::unique_ptr<flashscan_plan, Destroy> plan_;
    flashscan_status status_ = FLASHSCAN_STATUS_OK;
    std::string message_;
};

// The arguments of one call in memory. Inputs are written with NaN in every gap, outputs are NaN throughout.
class Call {
  public:
    Call(int32_t backend, int32_t pass, Guard guard) : backend_(backend), pass_(pass), guard_(guard) {}

    void input(int32_t id, int32_t dtype, const Tensor& tensor, const Values& values);
    void input_bytes(int32_t id, Bytes bytes, size_t alignment);
    // Only steps before `written_time` of an output are expected to be written.
    void output(int32_t id, int32_t dtype, const Tensor& tensor, int64_t written_time);
    // An output in the memory of `input_id`, which was added before.
    void output_in(int32_t input_id, int32_t id, int32_t dtype, const Tensor& tensor, int64_t written_time);
    // SCRATCH or RESERVE, whose contents are the kernel's.
    void opaque(int32_t id, size_t bytes);

    // (Re)writes all buffers, executes, waits and reads back.
    flashscan_status run(const flashscan_plan* plan);
    // The parts of run, to execute more than once or from elsewhere.
    void prepare();
    flashscan_status execute(const flashscan_plan* plan) const;
    void collect();

    Values values(int32_t id) const;
    std::map<int32_t, Bytes> output_bytes() const;
    bool outputs_are(const std::map<int32_t, Bytes>& bits) const;
    // Names what was written but should not have been: inputs, gaps, surroundings. Empty if nothing.
    std::string damage() const;
    // Whether every output is as it was before the call.
    bool outputs_untouched() const;

    std::vector<flashscan_arg>& arguments() { return arguments_; }
    flashscan_arg& argument(int32_t id);
    // Replace the values of an input, or its bytes; prepare() writes them.
    void set_input(int32_t id, const Values& values);
    void set_bytes(int32_t id, const Bytes& bytes);
    // Replaces what all inputs hold by what they hold in a call with the same arguments.
    void take_inputs(const Call& from);

  private:
    struct Slot {
        int32_t id = 0, dtype = 0;
        Tensor tensor;
        bool written = false, raw = false;
        int64_t written_time = 0;
        std::shared_ptr<Buffer> buffer;
        std::shared_ptr<Bytes> before;
        Bytes after;
    };
    Slot& add(int32_t id, int32_t dtype, const Tensor& tensor, Bytes before, size_t alignment);
    const Slot& slot(int32_t id) const;
    Bytes packed(const Slot& slot, const Values& values) const;
    std::string damage_of(const Slot& slot) const;

    int32_t backend_, pass_;
    Guard guard_;
    std::vector<Slot> slots_;
    std::vector<flashscan_arg> arguments_;
    std::string trouble_;
};

// The tensors of a pass: `values_of` gives what an argument that is read holds, and `written_time` is the end of the
// steps that are written.
template <typename P, typename ValuesOf>
Call call_of(const P& problem, bool backward, int32_t backend, Guard guard, ValuesOf values_of, int64_t written_time) {
    Call call(backend, backward ? FLASHSCAN_PASS_BACKWARD : FLASHSCAN_PASS_FORWARD, guard);
    for (const int32_t id : read_by(problem, backward))
        call.input(id, dtype_of(problem, id), tensor_of(problem, id), values_of(id));
    for (const int32_t id : written_by(problem, backward)) {
        const Tensor tensor = tensor_of(problem, id);
        const int64_t end = has_steps(problem, id) ? written_time : tensor.extents[1];
        if (const int32_t place = place_of(problem, id); place != 0)
            call.output_in(place, id, dtype_of(problem, id), tensor, end);
        else
            call.output(id, dtype_of(problem, id), tensor, end);
    }
    return call;
}

// The arguments that `problem` calls for, ready to run.
Call forward_call(const Problem& problem, const Plan& plan, int32_t backend, const Data& data, Guard guard);
Call backward_call(const Problem& problem, const Plan& plan, int32_t backend, const Data& data, Guard guard);

// The outcome of planning a pass and running it, twice in the same memory unless `times` says otherwise.
struct Run {
    flashscan_status status = FLASHSCAN_STATUS_OK;
    std::string message;            // of the library, when status is not OK
    std::string damage;             // stray writes, differing bits of the second run; empty if none
    std::map<int32_t, Bytes> bits;  // of each output
};
struct Outcome : Run {
    Values output, state_out, grad_input, grad_gate, grad_state_in;
};
Outcome run_forward(const Problem& problem, const Target& target, const Data& data, Guard guard, int times = 2);
Outcome run_backward(const Problem& problem, const Target& target, const Data& data, Guard guard, int times = 2);

// Runs `call` so often in the same memory; every run must give the same bits. False if a call failed.
bool run_repeatedly(Call& call, const Plan& plan, int times, Run& outcome);
// Whether there is no plan; takes over its status.
bool failed(const Plan& plan, Run& outcome);
// Adds SCRATCH where the plan uses some.
void add_scratch(Call& call, const Plan& plan, int32_t pass);
// Adds RESET and SEQ_OFFSETS unless empty.
void add_masks(Call& call, const Bytes& reset, const std::vector<int64_t>& offsets, int32_t offsets_dtype);

// Throws std::runtime_error unless the run succeeded without damage.
void require(const Run& outcome);

}  // namespace support
