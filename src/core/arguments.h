// SPDX-License-Identifier: Apache-2.0
// The arguments of one call: which of them a pass takes, how large they are, and the checks before a kernel sees them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "core/extents.h"
#include "core/sequences.h"

namespace flashscan {

struct Argument {
    int32_t id = 0;
    void* data = nullptr;
    size_t bytes = 0;
};

enum class Presence {
    required,
    optional
};

// The extents of an argument's axes, the outermost first.
struct Axes {
    static constexpr size_t most = 6;
    Axes() = default;
    Axes(std::initializer_list<Extent> given) {
        for (const Extent extent : given) extents[count++] = extent;
    }
    // Returns the product of the extents; `what` is its name in the Error where it does not fit.
    Extent product(const char* what) const;

    std::array<Extent, most> extents;
    size_t count = 0;
};

// One argument of one pass. A dtype of 0 stands for bytes.
struct ArgumentSpec {
    int32_t id = 0;
    const char* name = "";
    Presence presence = Presence::required;
    bool written = false;
    size_t bytes = 0;
    Dtype dtype = Dtype::f32;
    int64_t alignment = 1;
    // The argument that this one may share its memory with, where their start and strides are the same; 0: none.
    int32_t may_be = 0;
    Axes axes;
    std::array<int64_t, Axes::most> strides{};  // one for each axis, in elements
    // The axis of the rows of the batch (in a state of packed sequences: of the sequences) and that of time; -1: none.
    int batch_axis = -1, time_axis = -1;
};

constexpr int32_t id_of(ArgId id) { return static_cast<int32_t>(id); }
constexpr int32_t grad_of(ArgId id) { return grad_bit | static_cast<int32_t>(id); }

ArgumentSpec dense_argument(int32_t id, const char* name, Presence presence, bool written, const Axes& axes,
                            Dtype dtype);
// Returns the spec of a state, whose rows may have strides and lie in a pool. Axis `row_axis` of `axes` is that of the
// rows that a call works on; the axis before it, if there is one, is that of a cell's states.
ArgumentSpec state_argument(int32_t id, const char* name, Presence presence, bool written, Axes axes, int row_axis,
                            const Sequences& sequences, Dtype dtype);
// Adds RESET, SEQ_OFFSETS and STATE_INDICES where the problem has them.
void add_sequence_arguments(std::vector<ArgumentSpec>& specs, const Sequences& sequences);
// Adds SCRATCH, which is the last in every list.
void add_scratch_argument(std::vector<ArgumentSpec>& specs, size_t bytes, bool required);

// The pointers of a call by id; null where an argument was not given.
class Pointers {
  public:
    void set(int32_t id, void* data) { at(id) = data; }
    void* get(int32_t id) const { return (id & grad_bit) != 0 ? grads_[place(id)] : data_[place(id)]; }
    void* operator[](ArgId id) const { return data_[place(id_of(id))]; }
    void* grad(ArgId id) const { return grads_[place(id_of(id))]; }

  private:
    static size_t place(int32_t id) { return static_cast<size_t>((id & ~grad_bit) - first_arg_id); }
    void*& at(int32_t id) { return (id & grad_bit) != 0 ? grads_[place(id)] : data_[place(id)]; }
    std::array<void*, 24> data_{}, grads_{};
};

// The pointers that kernels of every family work on. Optional arguments that were not given, and those that a family or
// a layer does not have, are null.
struct CommonBuffers {
    const void* input = nullptr;
    void* output = nullptr;  // backward, where it is given, reads it
    const void* state_in = nullptr;
    void* state_out = nullptr;
    const uint8_t* reset = nullptr;
    const void* seq_offsets = nullptr;
    const int32_t* state_indices = nullptr;  // for kernels that take states where they lie
    const void *grad_output = nullptr, *grad_state_out = nullptr;
    void *grad_input = nullptr, *grad_state_in = nullptr;
    void* scratch = nullptr;

    CommonBuffers() = default;
    explicit CommonBuffers(const Pointers& found);
};

// Throws Error for an argument of a number that is none of the specs'; `field` is where the caller gave it.
[[noreturn]] void refuse_unknown(Pass pass, std::span<const ArgumentSpec> specs, const char* field, int32_t id);

// Checks the arguments of a call against the specs and against each other. Throws Error; writes nothing.
Pointers check_arguments(Pass pass, std::span<const ArgumentSpec> specs, std::span<const Argument> arguments);

}  // namespace flashscan
