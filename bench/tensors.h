// SPDX-License-Identifier: Apache-2.0
// The arguments of a problem: random inputs and poisoned outputs in a machine's memory.
#pragma once

#include <vector>

#include "machine.h"
#include "problem.h"

namespace bench {

struct Tensor {
    int32_t id;
    bool written;
    int64_t offset_of_batch, offset_of_time, offset_of_channel;  // strides in elements; 0 where broadcast
    Box box;                                                     // all of it, fastest axis last
};

// The axes by falling stride, so that filling writes memory in order.
Box ordered_box(void* data, int32_t dtype, const Extents& extents, const flashscan_strides& strides);

class Tensors {
  public:
    // Throws Failure when the plan wants more bytes of an argument than its tensor has.
    Tensors(Machine& machine, const Problem& problem, const flashscan_plan* plan);

    const std::vector<flashscan_arg>& args() const { return args_; }
    const std::vector<Tensor>& tensors() const { return tensors_; }
    // Offsets of the packed sequences, empty if not packed.
    const std::vector<int64_t>& offsets() const { return offsets_; }

    // The tensor with this id; throws Failure where there is none.
    const Tensor& operator[](int32_t id) const;

    // Bytes of memory that the tensors of `problem` take.
    static int64_t bytes(const Problem& problem);

  private:
    void add(int32_t id, int32_t dtype, Kind kind, const Extents& extents, const flashscan_strides& strides,
             bool written);
    void add_fused(int32_t first_id, int32_t second_id, Kind second_kind, bool written);
    void add_gate(int32_t id, bool written);
    void add_offsets(int32_t dtype);
    void add_reserve();
    // Runs forward; what it wrote is then given.
    void run_forward();
    void add_rnn();
    void add_rnn_forward();
    void add_operator();
    void add_operator_element(int32_t id, int64_t count, int64_t element);
    void add_layer();
    template <typename L>
    void add_layer_forward(const L& layer);
    template <typename L>
    void add_layer_backward(const L& layer);
    template <typename L>
    void add_layer_tensor(const L& layer, int32_t id, bool written);
    void add_dense(int32_t id, int32_t dtype, Kind kind, int64_t count, bool written);
    void place(int32_t id, int32_t dtype, Kind kind, const Extents& extents, const flashscan_strides& strides,
               bool written, char* data, size_t bytes);
    char* reserve(int64_t count, int32_t dtype);

    Machine& machine_;
    const Problem& problem_;
    const flashscan_plan* plan_;
    std::vector<Buffer> buffers_;
    std::vector<Tensor> tensors_;
    std::vector<flashscan_arg> args_;
    std::vector<int64_t> offsets_;
};

}  // namespace bench
