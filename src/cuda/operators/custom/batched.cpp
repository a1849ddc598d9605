// SPDX-License-Identifier: Apache-2.0
// Custom operators by a batched callback, which is called once for each level of a tree over all chains (tree_params.h)
// and enqueues its work on the call's stream.
//
// Operands that lie a constant stride apart, as those of one chain do, are passed where they are; others are gathered
// into scratch memory, and results are scattered from there.
#include <cstdint>

#include "core/error.h"
#include "cuda/operators/candidates.h"
#include "cuda/operators/custom/tree.h"

namespace flashscan::cuda {
namespace {

class Batched final : public CustomTree {
  public:
    Batched(const OperatorProblem& problem, const Options& options) : CustomTree(problem, options, 3, 5) {}

    std::string describe() const override {
        return fmt::format("batched callback, once for each level of a tree of {} steps", p_.time);
    }

  private:
    struct Operand {
        char* data;
        int64_t stride;  // 0 where it is not constant
    };
    static const char* address(const TreePair& pair, TreeOperand which) {
        return which == TreeOperand::left ? pair.left : which == TreeOperand::right ? pair.right : pair.out;
    }
    // Finds the stride of an operand. Addresses are linear in row, channel and place in a row, except for the first and
    // the last place in a row, so a stride that holds around each kind of boundary holds everywhere.
    Operand operand(const TreeParams& p, const TreeLevel& level, TreeOperand which) const {
        const auto at = [&](int64_t index) { return reinterpret_cast<intptr_t>(address(p.pair(level, index), which)); };
        auto* const data = reinterpret_cast<char*>(at(0));
        if (level.count == 1) return {data, p.bytes};
        const int64_t stride = at(1) - at(0);
        const int64_t row = level.per_row;
        for (const int64_t boundary : {int64_t{1}, row, row * p.rows, p.channels, row * p.channels, level.count})
            for (int64_t i = std::max<int64_t>(boundary - 3, 1); i < std::min(boundary + 3, level.count); ++i)
                if (at(i) - at(i - 1) != stride) return {data, 0};
        return {data, stride};
    }

    void move(const Tree& tree, const TreeLevel& level, TreeOperand which, char* dense, int bytes) const {
        launch(kernels_.gather, threads_in_blocks(level.count * (tree.params.bytes / bytes), tree_block), tree.stream,
               tree.params, level, TreeEdge{bytes, 0, 0}, which, dense);
    }
    int word_of(const TreeParams& p) const {
        return word({p.input, p.state_in, p.output, p.grad_input, p.grad_state_in});
    }

    void combine(const Tree& tree, const TreeLevel& level) const override {
        const TreeParams& p = tree.params;
        Operand left = operand(p, level, TreeOperand::left), right = operand(p, level, TreeOperand::right);
        Operand out = operand(p, level, TreeOperand::out);
        const auto gather = [&](Operand& o, TreeOperand which, int64_t place) {
            if (o.stride != 0) return;
            o = {pair_elements(tree, place), p.bytes};
            move(tree, level, which, o.data, word_of(p));
        };
        gather(left, TreeOperand::left, 0);
        gather(right, TreeOperand::right, 1);
        const bool scattered = out.stride == 0;
        if (scattered) out = {pair_elements(tree, 2), p.bytes};
        if (!is_counting_launches())
            check(p_.custom.batched(p_.custom.state, left.data, left.stride, right.data, right.stride, out.data,
                                    out.stride, level.count, tree.stream),
                  "batched");
        if (scattered) move(tree, level, TreeOperand::out, out.data, word_of(p));
    }

    void differentiate(const Tree& tree, const TreeLevel& level) const override {
        char* elements[5];
        for (int64_t i = 0; i < 5; ++i) elements[i] = pair_elements(tree, i);
        move(tree, level, TreeOperand::left, elements[0], word_of(tree.params));
        move(tree, level, TreeOperand::right, elements[1], word_of(tree.params));
        move(tree, level, TreeOperand::grad_out, elements[2], word_of(tree.params));
        if (!is_counting_launches())
            check(p_.custom.batched_adjoint(p_.custom.state, elements[0], elements[1], elements[2], elements[3],
                                            elements[4], level.count, tree.stream),
                  "batched_adjoint");
        launch(kernels_.add, threads_in_blocks(level.count * (tree.params.bytes / size_of(p_.dtype)), tree_block),
               tree.stream, tree.params, level, static_cast<const char*>(elements[3]),
               static_cast<const char*>(elements[4]));
    }

    static void check(int32_t result, const char* name) {
        if (result != 0) fail(Code::callback_failed, "custom.{} returned {}; accepted is 0", name, result);
    }
};

}  // namespace

std::unique_ptr<OperatorKernel> make_custom_batched(const OperatorProblem& p, const Options& options,
                                                    std::string& refusal) {
    if (!p.is_custom())
        refusal = "the operator is built in";
    else if (p.custom.batched == nullptr)
        refusal = "the custom operator has no batched callback";
    else if (p.differentiable() && p.custom.batched_adjoint == nullptr)
        refusal = "the custom operator has no batched adjoint beside its other one";
    else if (p.packed())
        refusal = fmt::format(
            "num_sequences is {}: how many pairs a level has is in SEQ_OFFSETS on the device, and a "
            "batched callback is told on the host; accepted is 0, or device code",
            p.num_sequences);
    else
        return std::make_unique<Batched>(p, options);
    return nullptr;
}

}  // namespace flashscan::cuda
