// SPDX-License-Identifier: Apache-2.0
#include "reference/operator_custom.h"

#include <cstring>
#include <vector>

#include "core/error.h"
#include "reference/values.h"

namespace flashscan::reference {
namespace {

// Aligned as the interface promises: to the largest power of two that divides the size, up to 256.
class Element {
  public:
    explicit Element(int64_t bytes) : memory_(static_cast<size_t>(bytes) + 256) {
        const auto address = reinterpret_cast<uintptr_t>(memory_.data());
        data_ = memory_.data() + (256 - address % 256) % 256;
    }
    Element(const Element&) = delete;
    Element& operator=(const Element&) = delete;
    char* data() const { return data_; }

  private:
    std::vector<char> memory_;
    char* data_;
};

class Custom final : public OperatorKernel {
  public:
    explicit Custom(const OperatorProblem& problem)
        : p_(problem), f_(problem.custom), bytes_(static_cast<size_t>(f_.element_bytes)) {}

    std::string describe() const override { return "element by element, one thread"; }
    size_t scratch_bytes(Pass) const override { return 0; }

    void forward(const OperatorBuffers& b, void*) const override {
        for (const Sequence& s : sequences_of(p_, b.seq_offsets))
            for (int64_t c = 0; c < p_.channels; ++c) forward_chain(b, s, c);
    }
    void backward(const OperatorBuffers& b, void*) const override {
        for (const Sequence& s : sequences_of(p_, b.seq_offsets))
            for (int64_t c = 0; c < p_.channels; ++c) backward_chain(b, s, c);
    }

  private:
    const char* at(const void* data, int64_t place) const {
        return static_cast<const char*>(data) + place * f_.element_bytes;
    }
    void put(void* data, int64_t place, const char* from) const {
        if (data != nullptr) std::memcpy(static_cast<char*>(data) + place * f_.element_bytes, from, bytes_);
    }
    int64_t place(const Sequence& s, int64_t i, int64_t c) const {
        const auto steps = p_.steps();
        return s.b * steps.batch + s.step(p_.direction, i) * steps.time + c * steps.channels;
    }

    void combine(const char* l, const char* r, char* out) const {
        if (f_.host != nullptr) return f_.host(f_.state, l, r, out);
        check(f_.batched(f_.state, l, f_.element_bytes, r, f_.element_bytes, out, f_.element_bytes, 1, nullptr),
              "batched");
    }
    void adjoint(const char* l, const char* r, const char* g, char* gl, char* gr) const {
        if (f_.host_adjoint != nullptr) return f_.host_adjoint(f_.state, l, r, g, gl, gr);
        check(f_.batched_adjoint(f_.state, l, r, g, gl, gr, 1, nullptr), "batched_adjoint");
    }
    static void check(int32_t result, const char* name) {
        if (result != 0) fail(Code::callback_failed, "custom.{} returned {}; accepted is 0", name, result);
    }

    // y[-1] .. y[n-1], as far as they exist: y[i] is element i + 1.
    std::vector<char> fold(const OperatorBuffers& b, const Sequence& s, int64_t c) const {
        std::vector<char> all(static_cast<size_t>(s.length() + 1) * bytes_);
        const Element y(f_.element_bytes), next(f_.element_bytes);
        if (b.state_in != nullptr) std::memcpy(y.data(), at(b.state_in, s.state * p_.channels + c), bytes_);
        std::memcpy(all.data(), y.data(), bytes_);
        for (int64_t i = 0; i < s.length(); ++i) {
            const char* x = at(b.input, place(s, i, c));
            if (i > 0 || b.state_in != nullptr)
                combine(y.data(), x, next.data());
            else
                std::memcpy(next.data(), x, bytes_);
            std::memcpy(y.data(), next.data(), bytes_);
            std::memcpy(all.data() + static_cast<size_t>(i + 1) * bytes_, y.data(), bytes_);
        }
        return all;
    }

    void forward_chain(const OperatorBuffers& b, const Sequence& s, int64_t c) const {
        const std::vector<char> y = fold(b, s, c);
        const int64_t chain = s.state * p_.channels + c;
        for (int64_t i = 0; !p_.is_reduction() && i < s.length(); ++i)
            put(b.output, place(s, i, c), at(y.data(), p_.mode == OperatorMode::exclusive ? i : i + 1));
        if (s.length() == 0 && b.state_in == nullptr) return;
        if (p_.is_reduction()) put(b.output, chain, at(y.data(), s.length()));
        put(b.state_out, chain, at(y.data(), s.length()));
    }

    // to += gradient `place` of `data`.
    void add(const void* data, int64_t place, char* to) const {
        if (data == nullptr) return;
        if (p_.dtype == Dtype::f64)
            add_numbers<double>(at(data, place), to);
        else
            add_numbers<float>(at(data, place), to);
    }
    template <typename T>
    void add_numbers(const char* from, char* to) const {
        for (size_t i = 0; i < bytes_; i += sizeof(T)) {
            T sum, more;
            std::memcpy(&sum, to + i, sizeof(T));
            std::memcpy(&more, from + i, sizeof(T));
            sum += more;
            std::memcpy(to + i, &sum, sizeof(T));
        }
    }

    void backward_chain(const OperatorBuffers& b, const Sequence& s, int64_t c) const {
        const std::vector<char> y = fold(b, s, c);
        const int64_t chain = s.state * p_.channels + c;
        const Element l(f_.element_bytes), g(f_.element_bytes), gl(f_.element_bytes), gr(f_.element_bytes);
        std::memset(g.data(), 0, bytes_);
        add(b.grad_state_out, chain, g.data());
        if (p_.is_reduction()) add(b.grad_output, chain, g.data());
        for (int64_t i = s.length() - 1; i >= 0; --i) {
            const int64_t here = place(s, i, c);
            if (p_.mode == OperatorMode::inclusive) add(b.grad_output, here, g.data());
            if (i > 0 || b.state_in != nullptr) {
                std::memcpy(l.data(), at(y.data(), i), bytes_);
                adjoint(l.data(), at(b.input, here), g.data(), gl.data(), gr.data());
                put(b.grad_input, here, gr.data());
                std::memcpy(g.data(), gl.data(), bytes_);
            } else {
                put(b.grad_input, here, g.data());
            }
            if (p_.mode == OperatorMode::exclusive) add(b.grad_output, here, g.data());
        }
        put(b.grad_state_in, chain, g.data());
    }

    OperatorProblem p_;
    CustomOperator f_;
    size_t bytes_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_custom(const OperatorProblem& p, std::string& refusal) {
    const CustomOperator& f = p.custom;
    const bool has_adjoint = f.host != nullptr ? f.host_adjoint != nullptr : f.batched_adjoint != nullptr;
    if (f.host == nullptr && f.batched == nullptr) {
        refusal = "the custom operator has neither a host function nor a batched callback";
        return nullptr;
    }
    if (p.differentiable() && !has_adjoint) {
        refusal = "the custom operator has an adjoint, but not of the host function or callback that would be called";
        return nullptr;
    }
    return std::make_unique<Custom>(p);
}

}  // namespace flashscan::reference
