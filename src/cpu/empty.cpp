// SPDX-License-Identifier: Apache-2.0
#include "cpu/empty.h"

#include <cstring>

#include "cpu/operator_elements.h"

namespace flashscan::cpu {
namespace {

// The two may be the same memory.
void pass_states(const void* from, void* to, int64_t bytes) {
    if (to == nullptr || bytes == 0) return;
    if (from != nullptr)
        std::memmove(to, from, static_cast<size_t>(bytes));
    else
        std::memset(to, 0, static_cast<size_t>(bytes));
}

template <typename Base>
class Empty : public Base {
  public:
    std::string describe() const override { return "passes states through"; }
    size_t scratch_bytes(Pass) const override { return 0; }
};

class EmptyLinear final : public Empty<LinearKernel> {
  public:
    explicit EmptyLinear(const LinearProblem& problem) : p_(problem) {}
    void forward(const LinearBuffers& b, void*) const override {
        pass_states(b.state_in, b.state_out, p_.state_bytes());
    }
    void backward(const LinearBuffers& b, void*) const override {
        pass_states(b.grad_state_out, b.grad_state_in, p_.state_bytes());
        if (b.grad_gate == nullptr || p_.gate_bytes(p_.grad_gate) == 0) return;
        const Strides& s = p_.grad_gate;
        // Steps past the last sequence are not written.
        const int64_t steps = p_.packed() && !p_.broadcasts(broadcast_time)
                                  ? reference::load_offset(b.seq_offsets, p_.offsets_dtype, p_.num_sequences)
                                  : int64_t{p_.gate_time()};
        const int64_t rows = p_.gate_batch(), channels = p_.gate_channels();
        for (int64_t row = 0; row < rows; ++row)
            for (int64_t step = 0; step < steps; ++step)
                for (int64_t c = 0; c < channels; ++c)
                    reference::store(b.grad_gate, p_.gate_dtype, row * s.batch + step * s.time + c * s.channels, 0);
    }

  private:
    LinearProblem p_;
};

class EmptyRnn final : public Empty<RnnKernel> {
  public:
    explicit EmptyRnn(const RnnProblem& problem)
        : p_(problem), state_bytes_(p_.state_count() * size_of(state_dtype(p_.dtype))) {}
    size_t reserve_bytes() const override { return 0; }
    void forward(const RnnBuffers& b, void*) const override { pass_states(b.state_in, b.state_out, state_bytes_); }
    void backward(const RnnBuffers& b, void*) const override {
        pass_states(b.grad_state_out, b.grad_state_in, state_bytes_);
        pass_states(nullptr, b.grad_weight, p_.weight_count() * size_of(p_.weight_dtype));
        pass_states(nullptr, b.grad_bias, p_.bias_count() * size_of(p_.weight_dtype));
    }

  private:
    RnnProblem p_;
    Extent state_bytes_;
};

class EmptyOperator final : public Empty<OperatorKernel> {
  public:
    explicit EmptyOperator(const OperatorProblem& problem)
        : p_(problem), state_bytes_(p_.chains() * p_.element() * p_.state_number_bytes()) {}

    void forward(const OperatorBuffers& b, void*) const override {
        if (p_.is_custom()) return forward_custom(b);
        for (int64_t i = 0; i < numbers(b.state_out, b); ++i) {
            if (p_.is_reduction()) pass_number(b.state_in, b.output, p_.dtype, i);
            if (p_.is_reduction() && b.index != nullptr) static_cast<int64_t*>(b.index)[i] = -1;
            if (b.state_out != nullptr) pass_number(b.state_in, b.state_out, state(), i);
        }
    }
    void backward(const OperatorBuffers& b, void*) const override {
        if (b.grad_state_in == nullptr) return;
        if (!p_.is_reduction()) return pass_states(b.grad_state_out, b.grad_state_in, state_bytes_);
        for (int64_t i = 0; i < numbers(b.grad_state_in, b); ++i) {
            reference::Wide sum = reference::load(b.grad_output, p_.dtype, i);
            if (b.grad_state_out != nullptr) sum += reference::load(b.grad_state_out, state(), i);
            reference::store(b.grad_state_in, state(), i, sum);
        }
    }

  private:
    Dtype state() const { return state_dtype(p_.dtype); }
    // How many numbers of an array of states are written; 0 where it is null and the operator is no reduction.
    int64_t numbers(const void* states, const OperatorBuffers&) const {
        return states == nullptr && !p_.is_reduction() ? int64_t{0} : int64_t{state_bytes_ / size_of(state())};
    }
    // Stores number i of STATE_IN, or of the identity if there is none.
    void pass_number(const void* state_in, void* to, Dtype dtype, int64_t i) const {
        if (state_in != nullptr)
            reference::convert(to, dtype, i, state_in, state(), i);
        else if (p_.on_numbers())
            reference::store_identity(to, dtype, i, p_.kind);
        else
            reference::store(to, dtype, i, p_.is_matmul() && i % p_.element() % (p_.dim + 1) == 0 ? 1 : 0);
    }
    // The identity of a custom operator is not known, so that without STATE_IN there is nothing to write.
    void forward_custom(const OperatorBuffers& b) const {
        if (b.state_in == nullptr) return;
        pass_states(b.state_in, b.state_out, state_bytes_);
        if (p_.is_reduction()) pass_states(b.state_in, b.output, state_bytes_);
    }

    OperatorProblem p_;
    Extent state_bytes_;
};

class EmptyGated final : public Empty<GatedKernel> {
  public:
    explicit EmptyGated(const GatedProblem& problem) : p_(problem) {}
    void forward(const GatedBuffers& b, void*) const override {
        pass_states(b.state_in, b.state_out, p_.state_bytes());
    }
    void backward(const GatedBuffers& b, void*) const override {
        pass_states(b.grad_state_out, b.grad_state_in, p_.state_bytes());
        pass_states(nullptr, b.grad_param, p_.channels * size_of(p_.param_dtype));
        pass_states(nullptr, b.grad_bias, p_.channels * size_of(p_.param_dtype));
    }

  private:
    GatedProblem p_;
};

class EmptySelective final : public Empty<SelectiveKernel> {
  public:
    explicit EmptySelective(const SelectiveProblem& problem) : p_(problem) {}
    void forward(const SelectiveBuffers& x, void*) const override {
        pass_states(x.state_in, x.state_out, p_.state_bytes());
    }
    void backward(const SelectiveBuffers& x, void*) const override {
        pass_states(x.grad_state_out, x.grad_state_in, p_.state_bytes());
        const Extent numbers = p_.channels * p_.states * size_of(p_.matrix_dtype);
        pass_states(nullptr, x.grad_a, numbers);
        if (!p_.b_per_step) pass_states(nullptr, x.grad_b, numbers);
        if (!p_.c_per_step) pass_states(nullptr, x.grad_c, numbers);
        pass_states(nullptr, x.grad_d, p_.channels * size_of(p_.param_dtype()));
        pass_states(nullptr, x.grad_bias, p_.channels * size_of(p_.param_dtype()));
        // Without channels there are still B and C of each step.
        if (p_.b_per_step) clear(x, x.grad_b, p_.grad_b);
        if (p_.c_per_step) clear(x, x.grad_c, p_.grad_c);
    }

  private:
    void clear(const SelectiveBuffers& x, void* gradient, const Strides& s) const {
        if (gradient == nullptr || p_.batch == 0 || p_.time == 0) return;
        const int64_t steps =
            p_.packed() ? reference::load_offset(x.seq_offsets, p_.offsets_dtype, p_.num_sequences) : int64_t{p_.time};
        for (int64_t b = 0; b < p_.batch; ++b)
            for (int64_t t = 0; t < steps; ++t)
                for (int64_t i = 0; i < p_.groups * p_.states; ++i)
                    reference::store(gradient, p_.step_dtype(), b * s.batch + t * s.time + i * s.channels, 0);
    }
    SelectiveProblem p_;
};

}  // namespace

std::unique_ptr<LinearKernel> make_empty(const LinearProblem& problem) {
    return std::make_unique<EmptyLinear>(problem);
}
std::unique_ptr<RnnKernel> make_empty(const RnnProblem& problem) { return std::make_unique<EmptyRnn>(problem); }
std::unique_ptr<OperatorKernel> make_empty(const OperatorProblem& problem) {
    return std::make_unique<EmptyOperator>(problem);
}
std::unique_ptr<GatedKernel> make_empty(const GatedProblem& problem) { return std::make_unique<EmptyGated>(problem); }
std::unique_ptr<SelectiveKernel> make_empty(const SelectiveProblem& problem) {
    return std::make_unique<EmptySelective>(problem);
}

}  // namespace flashscan::cpu
