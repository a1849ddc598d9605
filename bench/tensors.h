// SPDX-License-Identifier: Apache-2.0
// The arguments of a problem, placed as the tests place them: random inputs and poisoned outputs in a machine's memory.
#pragma once

#include <vector>

#include "machine.h"
#include "problem.h"

namespace bench {

struct Tensor {
    int32_t id;
    bool written;
    Box box;  // all of it, fastest axis last
};

class Tensors {
  public:
    // Throws Failure where the library refuses a call.
    Tensors(Machine& machine, const Problem& problem, const flashscan_plan* plan);

    const std::vector<flashscan_arg>& args() const { return args_; }
    const std::vector<Tensor>& tensors() const { return tensors_; }
    // Offsets of the packed sequences, empty if not packed.
    const std::vector<int64_t>& offsets() const { return offsets_; }

    // The tensor with this id; throws Failure where there is none.
    const Tensor& operator[](int32_t id) const;
    bool contains(int32_t id) const;

    // Bytes of memory that the tensors of `problem` take.
    static int64_t bytes(const Problem& problem);

  private:
    template <typename P>
    void add_pass(const P& p, bool backward);
    template <typename P>
    void add_all(const P& p);
    template <typename P>
    void add_tensor(const P& p, int32_t id, bool written);
    template <typename P>
    void keep_read(const P& p);
    void add_reset(int64_t batch, int64_t time);
    void add_offsets(int32_t dtype);
    void add_reserve();
    // Runs forward; what it wrote is then given.
    void run_forward();
    char* reserve(int64_t bytes);

    Machine& machine_;
    const Problem& problem_;
    const flashscan_plan* plan_;
    std::vector<Buffer> buffers_;
    std::vector<Tensor> tensors_;
    std::vector<flashscan_arg> args_;
    std::vector<int64_t> offsets_;
};

}  // namespace bench
