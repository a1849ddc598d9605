// SPDX-License-Identifier: Apache-2.0
#include "reference/operator.h"

#include <type_traits>
#include <vector>

#include "math/operators.h"
#include "reference/operator_custom.h"
#include "reference/values.h"

namespace flashscan::reference {
namespace {

double of(Wide value, double) { return value.real(); }
Complex<double> of(Wide value, Complex<double>) { return {value.real(), value.imag()}; }
Wide wide(double value) { return value; }
Wide wide(Complex<double> value) { return {value.re, value.im}; }

template <typename T>
T get_number(const void* data, Dtype dtype, int64_t place) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<const T*>(data)[place];
    else
        return of(load(data, dtype, place), T{});
}
template <typename T>
void put_number(void* data, Dtype dtype, int64_t place, T value) {
    if constexpr (std::is_integral_v<T>)
        static_cast<T*>(data)[place] = value;
    else
        store(data, dtype, place, wide(value));
}
double number(double value, double) { return value; }
Complex<double> number(double value, Complex<double>) { return {value, 0}; }

// y[i][j] (+)= sum over k of a[i][k] b[k][j], in the order of k; Left and Right take the conjugate transpose of a and
// b. The innermost loop walks rows of b.
template <bool Left, bool Right, typename T>
void product(const T* a, const T* b, T* y, int64_t rows, int64_t depth, int64_t columns, bool add = false) {
    const auto left = [&](int64_t i, int64_t k) { return Left ? conj(a[k * rows + i]) : a[i * depth + k]; };
    for (int64_t i = 0; i < rows; ++i) {
        T* row = y + i * columns;
        if (!add) std::fill_n(row, columns, T{});
        if constexpr (Right) {
            for (int64_t j = 0; j < columns; ++j)
                for (int64_t k = 0; k < depth; ++k) row[j] = row[j] + left(i, k) * conj(b[j * depth + k]);
        } else {
            for (int64_t k = 0; k < depth; ++k) {
                const T factor = left(i, k);
                for (int64_t j = 0; j < columns; ++j) row[j] = row[j] + factor * b[k * columns + j];
            }
        }
    }
}

// The operators on whole elements. The adjoints overwrite what they are given for their results.
template <typename Op>
struct Numbers {
    template <typename T>
    static void identity(T* y, int64_t) {
        *y = combine::Identity<Op, T>::get();
    }
    template <typename T>
    static void combine(const T* l, const T* r, const T*, T* y, int64_t) {
        *y = Op::combine(*l, *r);
    }
    template <typename T>
    static bool takes_right(const T* l, const T* r) {
        if constexpr (requires { Op::chooses; })
            return Op::takes_right(*l, *r);
        else
            return false;
    }
    template <typename T>
    static void adjoint(const T* l, const T* r, const T*, const T* g, T* gl, T* gr, T*, int64_t) {
        *gl = Op::left_slope(*l, *r) * *g;
        *gr = Op::right_slope(*l, *r) * *g;
    }
};

struct Matmul {
    template <typename T>
    static void identity(T* y, int64_t d) {
        for (int64_t i = 0; i < d * d; ++i) y[i] = number(i % (d + 1) == 0 ? 1 : 0, T{});
    }
    template <typename T>
    static void combine(const T* l, const T* r, const T*, T* y, int64_t d) {
        product<false, false>(l, r, y, d, d, d);
    }
    template <typename T>
    static void adjoint(const T* l, const T* r, const T*, const T* g, T* gl, T* gr, T*, int64_t d) {
        product<false, true>(g, r, gl, d, d, d);
        product<true, false>(l, g, gr, d, d, d);
    }
};

struct Affine {
    template <typename T>
    static void identity(T* y, int64_t d) {
        std::fill_n(y, d, T{});
    }
    template <typename T>
    static void combine(const T* l, const T* r, const T* w, T* y, int64_t d) {
        std::copy_n(r, d, y);
        product<false, false>(w, l, y, d, d, 1, true);
    }
    template <typename T>
    static void adjoint(const T* l, const T*, const T* w, const T* g, T* gl, T* gr, T* gw, int64_t d) {
        product<true, false>(w, g, gl, d, d, 1);
        std::copy_n(g, d, gr);
        product<false, true>(g, l, gw, d, 1, d);
    }
};

template <typename Op, typename T>
class Operator final : public OperatorKernel {
  public:
    explicit Operator(const OperatorProblem& problem)
        : p_(problem), state_(state_dtype(p_.dtype)), size_(p_.element()), gate_(p_.gate_element()) {}

    std::string describe() const override {
        return fmt::format("element by element in {}, one thread",
                           std::is_integral_v<T> ? name_of(p_.dtype) : "double");
    }
    size_t scratch_bytes(Pass) const override { return 0; }

    void forward(const OperatorBuffers& b, void*) const override {
        for (const Sequence& s : sequences_of(p_, b.seq_offsets))
            for (int64_t c = 0; c < p_.channels; ++c) forward_chain(b, s, c);
    }
    void backward(const OperatorBuffers& b, void*) const override {
        if constexpr (std::is_integral_v<T>)
            fail(Code::internal_error, "integers have no backward pass");
        else
            backward_chains(b);
    }

  private:
    using Element = std::vector<T>;

    void backward_chains(const OperatorBuffers& b) const {
        for (const Sequence& s : sequences_of(p_, b.seq_offsets))
            for (int64_t c = 0; c < p_.channels; ++c) backward_chain(b, s, c);
    }

    int64_t place(const Sequence& s, int64_t t, int64_t c) const {
        const auto steps = p_.steps();
        return s.b * steps.batch + t * steps.time + c * steps.channels;
    }
    int64_t chain(const Sequence& s, int64_t c) const { return s.state * p_.channels + c; }

    static void get(const void* data, Dtype dtype, int64_t place, Element& e) {
        const auto size = static_cast<int64_t>(e.size());
        for (int64_t i = 0; i < size; ++i) e[static_cast<size_t>(i)] = get_number<T>(data, dtype, place * size + i);
    }
    static void put(void* data, Dtype dtype, int64_t place, const Element& e) {
        if (data == nullptr) return;
        const auto size = static_cast<int64_t>(e.size());
        for (int64_t i = 0; i < size; ++i) put_number(data, dtype, place * size + i, e[static_cast<size_t>(i)]);
    }
    static void add(const void* data, Dtype dtype, int64_t place, Element& e) {
        if (data == nullptr) return;
        Element more(e.size());
        get(data, dtype, place, more);
        for (size_t i = 0; i < e.size(); ++i) e[i] = e[i] + more[i];
    }
    Element element() const { return Element(static_cast<size_t>(size_)); }
    Element gate() const { return Element(static_cast<size_t>(gate_)); }

    // y[-1], and whether there is one.
    bool start(const OperatorBuffers& b, int64_t state, Element& y) const {
        if (b.state_in != nullptr)
            get(b.state_in, state_, state, y);
        else
            Op::identity(y.data(), p_.dim);
        return b.state_in != nullptr;
    }
    // y o x[t], which replaces y. Returns whether it is x[t], of operators that choose.
    bool step(const OperatorBuffers& b, int64_t at, bool any, Element& y) const {
        Element x = element(), w = gate(), next = element();
        get(b.input, p_.dtype, at, x);
        bool taken = true;
        if (any) {
            if constexpr (requires { Op::takes_right(y.data(), x.data()); })
                taken = Op::takes_right(y.data(), x.data());
            if (gate_ > 0) get(b.gate, p_.dtype, at, w);
            Op::combine(y.data(), x.data(), w.data(), next.data(), p_.dim);
            x.swap(next);
        }
        y.swap(x);
        return taken;
    }
    static void put_index(void* data, int64_t place, int64_t index) {
        if (data != nullptr) static_cast<int64_t*>(data)[place] = index;
    }

    void forward_chain(const OperatorBuffers& b, const Sequence& s, int64_t c) const {
        Element y = element();
        bool any = start(b, chain(s, c), y);
        int64_t index = -1;
        const auto write = [&](int64_t at) {
            put(b.output, p_.dtype, at, y);
            put_index(b.index, at, index);
        };
        for (int64_t i = 0; i < s.length(); ++i, any = true) {
            const int64_t t = s.step(p_.direction, i), at = place(s, t, c);
            if (p_.mode == OperatorMode::exclusive) write(at);
            if (step(b, at, any, y)) index = t;
            if (p_.mode == OperatorMode::inclusive) write(at);
        }
        if (p_.is_reduction()) write(chain(s, c));
        put(b.state_out, state_, chain(s, c), y);
    }

    // y[i-1] for all i: from OUTPUT where backward has it, else computed again. Empty where no gradient needs it.
    std::vector<Element> previous(const OperatorBuffers& b, const Sequence& s, int64_t c) const {
        std::vector<Element> list;
        if (!p_.has_slopes() || (b.output == nullptr && b.input == nullptr)) return list;
        Element y = element();
        bool any = start(b, chain(s, c), y);
        for (int64_t i = 0; i < s.length(); ++i, any = true) {
            const int64_t at = place(s, s.step(p_.direction, i), c);
            if (b.output == nullptr) {
                list.push_back(y);
                step(b, at, any, y);
            } else if (p_.mode == OperatorMode::exclusive) {
                if (i > 0) get(b.output, p_.dtype, at, y);
                list.push_back(y);
            } else {
                list.push_back(y);
                get(b.output, p_.dtype, at, y);
            }
        }
        return list;
    }

    void backward_chain(const OperatorBuffers& b, const Sequence& s, int64_t c) const {
        const std::vector<Element> before = previous(b, s, c);
        const bool exclusive = p_.mode == OperatorMode::exclusive;
        Element g = element(), gl = element(), gr = element(), gw = gate(), l = element(), x = element(), w = gate();
        add(b.grad_state_out, state_, chain(s, c), g);
        if (p_.is_reduction()) add(b.grad_output, p_.dtype, chain(s, c), g);
        for (int64_t i = s.length() - 1; i >= 0; --i) {
            const int64_t at = place(s, s.step(p_.direction, i), c);
            if (p_.mode == OperatorMode::inclusive) add(b.grad_output, p_.dtype, at, g);
            if (i > 0 || b.state_in != nullptr) {
                if (!before.empty()) l = before[static_cast<size_t>(i)];
                if (b.input != nullptr) get(b.input, p_.dtype, at, x);
                if (gate_ > 0) get(b.gate, p_.dtype, at, w);
                Op::adjoint(l.data(), x.data(), w.data(), g.data(), gl.data(), gr.data(), gw.data(), p_.dim);
            } else {
                gr = g;
                std::fill(gw.begin(), gw.end(), T{});
            }
            put(b.grad_input, p_.dtype, at, gr);
            put(b.grad_gate, p_.dtype, at, gw);
            g = gl;
            if (exclusive) add(b.grad_output, p_.dtype, at, g);
        }
        put(b.grad_state_in, state_, chain(s, c), g);
    }

    OperatorProblem p_;
    Dtype state_;
    int64_t size_, gate_;
};

template <typename Op>
std::unique_ptr<OperatorKernel> of_dtype(const OperatorProblem& p) {
    if (is_complex(p.dtype)) return std::make_unique<Operator<Op, Complex<double>>>(p);
    return std::make_unique<Operator<Op, double>>(p);
}

}  // namespace

std::unique_ptr<OperatorKernel> make_operator(const OperatorProblem& p, const Options&, std::string& refusal) {
    if (p.is_custom()) return make_custom(p, refusal);
    if (p.is_matmul()) return of_dtype<Matmul>(p);
    if (p.is_affine()) return of_dtype<Affine>(p);
    std::unique_ptr<OperatorKernel> kernel;
    const bool made = with_exact_number(p.dtype, [&](auto number) {
        using T = decltype(number);
        return combine::with_operator<T>(static_cast<int>(p.kind), [&](auto op) {
            kernel = std::make_unique<Operator<Numbers<decltype(op)>, T>>(p);
        });
    });
    if (!made) refusal = fmt::format("there is no formula of {} on {}", name_of(p.kind), name_of(p.dtype));
    return kernel;
}

}  // namespace flashscan::reference
