// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <complex>

#include "fuzz/loops.h"

namespace fuzz {
namespace {

using namespace support;

template <typename T>
struct Part {
    using Type = T;
    static T from(Value v) { return static_cast<T>(v.real()); }
    static Value to(T x) { return static_cast<double>(x); }
    static T conj(T x) { return x; }
};
template <typename R>
struct Part<std::complex<R>> {
    using T = std::complex<R>;
    static T from(Value v) { return {static_cast<R>(v.real()), static_cast<R>(v.imag())}; }
    static Value to(T x) { return {static_cast<double>(x.real()), static_cast<double>(x.imag())}; }
    static T conj(T x) { return std::conj(x); }
};

template <typename T>
class LinearLoop {
  public:
    LinearLoop(const Problem& problem, const Data& data) : p_(problem), data_(data) {}

    Outcome forward() const {
        Values output(static_cast<size_t>(p_.elements())), state_out(states());
        for (const Sequence& s : sequences_of(p_, data_))
            for (int64_t c = 0; c < p_.channels; ++c) {
                T h = state(data_.state_in, p_.state_in, s, c);
                for (int64_t i = 0; i < s.length(); ++i) {
                    const int64_t t = s.step(p_, i);
                    const size_t at = p_.index(s.batch, t, c);
                    const T x = read(data_.input[at]), a = gate(s, t, c).value;
                    h = resets(s, t) ? x : a * h + x;
                    output[at] = Part<T>::to(h);
                }
                state_out[place(s, c)] = Part<T>::to(h);
            }
        Outcome results;
        results.output = std::move(output);
        if (p_.state_out) results.state_out = std::move(state_out);
        return results;
    }

    Outcome backward() const {
        Values input(static_cast<size_t>(p_.elements())), first(states());
        std::vector<T> gates(data_.gate.size());
        for (const Sequence& s : sequences_of(p_, data_))
            for (int64_t c = 0; c < p_.channels; ++c) {
                T g = state(data_.grad_state_out, p_.state_out, s, c);
                for (int64_t i = s.length() - 1; i >= 0; --i) {
                    const int64_t t = s.step(p_, i);
                    const size_t at = p_.index(s.batch, t, c);
                    g += read(data_.grad_output[at]);
                    input[at] = Part<T>::to(g);
                    if (resets(s, t)) {
                        g = T(0);
                        continue;
                    }
                    const T before = i > 0 ? read(data_.output[p_.index(s.batch, s.step(p_, i - 1), c)])
                                           : state(data_.state_in, p_.state_in, s, c);
                    const Gate a = gate(s, t, c);
                    gates[p_.gate_index(s.batch, t, c)] += g * Part<T>::conj(before * a.slope);
                    g = Part<T>::conj(a.value) * g;
                }
                first[place(s, c)] = Part<T>::to(g);
            }
        Outcome results;
        if ((p_.gradients & gradient_input) != 0) results.grad_input = std::move(input);
        if ((p_.gradients & gradient_gate) != 0)
            for (const T& sum : gates)
                results.grad_gate.push_back(is_complex(p_.gate_dtype) ? Part<T>::to(sum) : Part<T>::to(sum).real());
        if ((p_.gradients & gradient_state) != 0 && p_.state_in) results.grad_state_in = std::move(first);
        return results;
    }

  private:
    struct Gate {
        T value, slope;
    };
    static T read(Value v) { return Part<T>::from(v); }
    size_t states() const { return static_cast<size_t>(p_.state_rows() * p_.channels); }
    size_t place(const Sequence& s, int64_t c) const { return static_cast<size_t>(s.state * p_.channels + c); }
    T state(const Values& from, bool given, const Sequence& s, int64_t c) const {
        return given ? read(from[place(s, c)]) : T(0);
    }
    bool resets(const Sequence& s, int64_t t) const {
        return p_.reset && data_.reset[static_cast<size_t>(s.batch * p_.time + t)] != 0;
    }
    Gate gate(const Sequence& s, int64_t t, int64_t c) const {
        const T g = read(data_.gate[p_.gate_index(s.batch, t, c)]);
        if (p_.form == FLASHSCAN_GATE_VALUE) return {g, T(1)};
        if (p_.form == FLASHSCAN_GATE_LOG) return {std::exp(g), std::exp(g)};
        const T open = T(1) / (T(1) + std::exp(-g)), closed = T(1) / (T(1) + std::exp(g));
        return {open, open * closed};
    }

    const Problem& p_;
    const Data& data_;
};

}  // namespace

Outcome linear_loop(const Problem& p, const Data& data, bool backward, Arithmetic arithmetic) {
    const auto run = [&](const auto& loop) { return backward ? loop.backward() : loop.forward(); };
    const int32_t dtype = state_dtype(p.dtype);
    if (arithmetic == Arithmetic::exact) {
        if (is_complex(dtype)) return run(LinearLoop<std::complex<long double>>(p, data));
        return run(LinearLoop<long double>(p, data));
    }
    if (dtype == FLASHSCAN_DTYPE_F32) return run(LinearLoop<float>(p, data));
    if (dtype == FLASHSCAN_DTYPE_F64) return run(LinearLoop<double>(p, data));
    if (dtype == FLASHSCAN_DTYPE_C64) return run(LinearLoop<std::complex<float>>(p, data));
    return run(LinearLoop<std::complex<double>>(p, data));
}

}  // namespace fuzz
