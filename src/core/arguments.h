// SPDX-License-Identifier: Apache-2.0
// The arguments of one call: which a pass takes, how large they are, and the checks before a kernel sees them.
#pragma once

#include <array>
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

// One argument of one pass.
struct ArgumentSpec {
    int32_t id = 0;
    const char* name = "";
    Presence presence = Presence::required;
    bool written = false;
    size_t bytes = 0;
    Dtype dtype = Dtype::f32;
    int64_t alignment = 1;
    // The argument whose memory, start and strides included, this one may have; 0: none.
    int32_t may_be = 0;
    // For tensors with strides: where their elements lie, to tell interleaved tensors apart.
    bool is_tensor = false;
    std::array<int64_t, 3> extents{};
    Strides strides{};
};

constexpr int32_t id_of(ArgId id) { return static_cast<int32_t>(id); }
constexpr int32_t grad_of(ArgId id) { return grad_bit | static_cast<int32_t>(id); }

ArgumentSpec dense_argument(int32_t id, const char* name, Presence presence, bool written, int64_t bytes, Dtype dtype);
// RESET and SEQ_OFFSETS where the problem has them.
void add_sequence_arguments(std::vector<ArgumentSpec>& specs, const Sequences& sequences);
// SCRATCH, last in every list.
void add_scratch_argument(std::vector<ArgumentSpec>& specs, size_t bytes, bool required);

// The pointers of a call by id; null where an argument was not given.
class Pointers {
  public:
    void set(int32_t id, void* data) { at(id) = data; }
    void* operator[](ArgId id) const { return data_[static_cast<size_t>(id)]; }
    void* grad(ArgId id) const { return grads_[static_cast<size_t>(id)]; }

  private:
    void*& at(int32_t id) {
        return (id & grad_bit) != 0 ? grads_[static_cast<size_t>(id & ~grad_bit)] : data_[static_cast<size_t>(id)];
    }
    std::array<void*, 16> data_{}, grads_{};
};

// Checks the arguments of a call against the specs and against each other. Throws Error; writes nothing.
Pointers check_arguments(Pass pass, std::span<const ArgumentSpec> specs, std::span<const Argument> arguments);

}  // namespace flashscan
