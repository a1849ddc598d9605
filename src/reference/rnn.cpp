// SPDX-License-Identifier: Apache-2.0
#include "reference/rnn.h"

#include <algorithm>
#include <vector>

#include "math/cells.h"
#include "reference/values.h"

namespace flashscan::reference {
namespace {

using Vector = std::vector<double>;

void add_scaled(double* y, double a, const double* x, int64_t count) {
    for (int64_t i = 0; i < count; ++i) y[i] += a * x[i];
}

double clipped(double x, double limit) {
    if (limit == 0) return x;
    return x > limit ? limit : x < -limit ? -limit : x;
}

// WEIGHT in double, and its blocks transposed.
struct Weights {
    Weights(const RnnProblem& p, const void* data) : d(p.head_dim), blocks(p.counts().gates * p.heads) {
        const auto size = static_cast<size_t>(p.weight_count());
        rows.resize(size);
        columns.resize(size);
        for (int64_t block = 0; block < blocks; ++block)
            for (int64_t j = 0; j < d; ++j)
                for (int64_t k = 0; k < d; ++k) {
                    const double value = load(data, p.weight_dtype, (block * d + j) * d + k).real();
                    rows[static_cast<size_t>((block * d + j) * d + k)] = value;
                    columns[static_cast<size_t>((block * d + k) * d + j)] = value;
                }
    }
    // y += R x and y += R^T x of one block.
    void multiply(int64_t block, const double* x, double* y) const { apply(columns, block, x, y); }
    void multiply_transposed(int64_t block, const double* x, double* y) const { apply(rows, block, x, y); }

    int64_t d, blocks;
    Vector rows, columns;

  private:
    void apply(const Vector& matrix, int64_t block, const double* x, double* y) const {
        for (int64_t k = 0; k < d; ++k) add_scaled(y, x[k], matrix.data() + (block * d + k) * d, d);
    }
};

template <typename Cell>
class Rnn final : public RnnKernel {
    static constexpr int S = Cell::states, K = Cell::kept, P = Cell::biases, G = Cell::gates;
    struct States {
        double v[size_t{S}] = {};
    };
    struct Kept {
        double v[size_t{K}] = {};
    };
    struct Pre {
        double v[size_t{P}] = {};
    };
    // Sums over batch and time; of weights only where they are wanted.
    struct Sums {
        Vector weight, bias;
    };

  public:
    explicit Rnn(const RnnProblem& problem)
        : p_(problem),
          state_(state_dtype(problem.dtype)),
          in_(problem.input_strides()),
          out_(problem.output_strides()) {}

    std::string describe() const override { return "step by step in double, one thread"; }
    size_t scratch_bytes(Pass) const override { return 0; }
    size_t reserve_bytes() const override {
        return static_cast<size_t>(p_.batch * p_.time * p_.width() * K * size_of(state_));
    }

    void forward(const RnnBuffers& b, void*) const override {
        const Weights weights(p_, b.weight);
        for (const Sequence& s : sequences_of(p_, b.seq_offsets))
            for (int64_t head = 0; head < p_.heads; ++head) forward_row(b, weights, s, head);
    }

    void backward(const RnnBuffers& b, void*) const override {
        const Weights weights(p_, b.weight);
        Sums sums;
        if (b.grad_weight != nullptr) sums.weight.resize(static_cast<size_t>(p_.weight_count()));
        sums.bias.resize(static_cast<size_t>(p_.bias_count()));
        for (const Sequence& s : sequences_of(p_, b.seq_offsets))
            for (int64_t head = 0; head < p_.heads; ++head) backward_row(b, weights, s, head, sums);
        if (b.grad_weight != nullptr)
            for (int64_t i = 0; i < p_.weight_count(); ++i)
                store(b.grad_weight, p_.weight_dtype, i, sums.weight[static_cast<size_t>(i)]);
        if (b.grad_bias != nullptr)
            for (int64_t i = 0; i < p_.bias_count(); ++i)
                store(b.grad_bias, p_.weight_dtype, i, sums.bias[static_cast<size_t>(i)]);
    }

  private:
    static size_t at(int64_t i) { return static_cast<size_t>(i); }
    // Element d of a head in INPUT (j: gate), OUTPUT (j: state), STATE_IN and STATE_OUT, RESERVE.
    int64_t element(const RnnStrides& strides, int64_t j, int64_t b, int64_t t, int64_t head, int64_t d) const {
        return j * strides.state + b * strides.batch + t * strides.time + head * p_.head_dim + d;
    }
    int64_t state_element(int64_t j, int64_t row, int64_t head, int64_t d) const {
        return ((j * p_.state_rows() + row) * p_.heads + head) * p_.head_dim + d;
    }
    int64_t kept_element(int64_t b, int64_t t, int64_t head, int64_t d) const {
        return (((b * p_.time + t) * p_.heads + head) * p_.head_dim + d) * K;
    }
    bool resets(const RnnBuffers& b, int64_t row, int64_t t) const {
        return p_.has_reset && b.reset[row * p_.time + t] != 0;
    }

    std::vector<States> load_states(const void* data, int64_t row, int64_t head) const {
        std::vector<States> states(at(p_.head_dim));
        if (data == nullptr) return states;
        for (int64_t d = 0; d < p_.head_dim; ++d)
            for (int j = 0; j < S; ++j) states[at(d)].v[j] = load(data, state_, state_element(j, row, head, d)).real();
        return states;
    }
    void store_states(void* data, int64_t row, int64_t head, const std::vector<States>& states) const {
        if (data == nullptr) return;
        for (int64_t d = 0; d < p_.head_dim; ++d)
            for (int j = 0; j < S; ++j) store(data, state_, state_element(j, row, head, d), states[at(d)].v[j]);
    }
    Kept load_kept(const RnnBuffers& b, int64_t row, int64_t t, int64_t head, int64_t d) const {
        Kept kept;
        const int64_t start = kept_element(row, t, head, d);
        for (int j = 0; j < K; ++j) kept.v[j] = load(b.reserve, state_, start + j).real();
        return kept;
    }

    // Adds R_g x to the pre-activation of `gate`.
    void add_product(const Weights& weights, int gate, int64_t head, const Vector& x, std::vector<Pre>& pre) const {
        Vector y(at(p_.head_dim));
        weights.multiply(gate * p_.heads + head, x.data(), y.data());
        for (int64_t d = 0; d < p_.head_dim; ++d) pre[at(d)].v[Cell::recurrent(gate)] += y[at(d)];
    }

    std::vector<Pre> pre_activations(const RnnBuffers& b, const Weights& weights, const Sequence& s, int64_t t,
                                     int64_t head, const std::vector<States>& states) const {
        std::vector<Pre> pre(at(p_.head_dim));
        Vector h(at(p_.head_dim));
        for (int64_t d = 0; d < p_.head_dim; ++d) {
            h[at(d)] = states[at(d)].v[0];
            for (int g = 0; g < G; ++g)
                pre[at(d)].v[g] = load(b.input, p_.dtype, element(in_, g, s.b, t, head, d)).real();
            for (int j = 0; b.bias != nullptr && j < P; ++j)
                pre[at(d)].v[j] += load(b.bias, p_.weight_dtype, (j * p_.heads + head) * p_.head_dim + d).real();
        }
        for (int g = 0; g < G; ++g) {
            if constexpr (Cell::resets_before)
                for (int64_t d = 0; g == G - 1 && d < p_.head_dim; ++d)
                    h[at(d)] = Cell::reset(pre[at(d)].v[0], states[at(d)].v[0]);
            add_product(weights, g, head, h, pre);
        }
        return pre;
    }

    void forward_row(const RnnBuffers& b, const Weights& weights, const Sequence& s, int64_t head) const {
        std::vector<States> states = load_states(b.state_in, s.state, head);
        for (int64_t i = 0; i < s.length(); ++i) {
            const int64_t t = s.step(p_.direction, i);
            if (resets(b, s.b, t)) states.assign(states.size(), {});
            const std::vector<Pre> pre = pre_activations(b, weights, s, t, head, states);
            for (int64_t d = 0; d < p_.head_dim; ++d) {
                Kept kept;
                Cell::forward(pre[at(d)].v, states[at(d)].v, kept.v);
                for (int j = 0; j < p_.output_states(); ++j)
                    store(b.output, p_.dtype, element(out_, j, s.b, t, head, d), states[at(d)].v[j]);
                for (int j = 0; b.reserve != nullptr && j < K; ++j)
                    store(b.reserve, state_, kept_element(s.b, t, head, d) + j, kept.v[j]);
            }
        }
        store_states(b.state_out, s.state, head, states);
    }

    // The states before step i: what backward looks at, and h as it entered the products.
    std::vector<States> previous_states(const RnnBuffers& b, const Sequence& s, int64_t i, int64_t head,
                                        Vector& h) const {
        std::vector<States> states(at(p_.head_dim));
        h.assign(at(p_.head_dim), 0);
        if (resets(b, s.b, s.step(p_.direction, i))) return states;
        if (i == 0) states = load_states(b.state_in, s.state, head);
        for (int64_t d = 0; d < p_.head_dim; ++d) {
            if (i == 0) {
                h[at(d)] = states[at(d)].v[0];
                continue;
            }
            const int64_t before = s.step(p_.direction, i - 1);
            Cell::states_of(load_kept(b, s.b, before, head, d).v, states[at(d)].v);
            h[at(d)] = load(b.output, p_.dtype, element(out_, 0, s.b, before, head, d)).real();
        }
        return states;
    }

    // What reaches the left factor of R_g through the product, whose gradient it adds to the sums.
    Vector through_product(const Weights& weights, int gate, int64_t head, const std::vector<Pre>& d_pre,
                           const Vector& factor, Sums& sums) const {
        const int64_t D = p_.head_dim, block = gate * p_.heads + head;
        Vector gradient(at(D)), through(at(D));
        for (int64_t d = 0; d < D; ++d) {
            gradient[at(d)] = d_pre[at(d)].v[Cell::recurrent(gate)];
            if (!sums.weight.empty())
                add_scaled(sums.weight.data() + (block * D + d) * D, gradient[at(d)], factor.data(), D);
        }
        weights.multiply_transposed(block, gradient.data(), through.data());
        return through;
    }

    void backward_row(const RnnBuffers& b, const Weights& weights, const Sequence& s, int64_t head, Sums& sums) const {
        const int64_t D = p_.head_dim;
        std::vector<States> carry(at(D)), last = load_states(b.grad_state_out, s.state, head);
        if (s.length() == 0) return store_states(b.grad_state_in, s.state, head, last);
        const int64_t end = s.step(p_.direction, s.length() - 1);
        for (int64_t d = 0; d < D; ++d) Cell::enter(last[at(d)].v, load_kept(b, s.b, end, head, d).v, carry[at(d)].v);
        for (int64_t i = s.length() - 1; i >= 0; --i) backward_step(b, weights, s, i, head, carry, sums);
        const std::vector<States> first = load_states(b.state_in, s.state, head);
        for (int64_t d = 0; d < D; ++d) Cell::leave(first[at(d)].v, carry[at(d)].v);
        store_states(b.grad_state_in, s.state, head, carry);
    }

    // What R_g was multiplied by in forward.
    static Vector factor_of(int gate, Vector h, const std::vector<Kept>& kept) {
        if (Cell::resets_before && gate == G - 1)
            for (size_t d = 0; d < h.size(); ++d) h[d] *= kept[d].v[0];
        return h;
    }

    void backward_step(const RnnBuffers& b, const Weights& weights, const Sequence& s, int64_t i, int64_t head,
                       std::vector<States>& carry, Sums& sums) const {
        const int64_t D = p_.head_dim, t = s.step(p_.direction, i);
        Vector h, through(at(D));
        const std::vector<States> previous = previous_states(b, s, i, head, h);
        std::vector<Pre> d_pre(at(D));
        std::vector<Kept> kept(at(D));
        for (int64_t d = 0; d < D; ++d) {
            States given;
            for (int j = 0; j < p_.output_states(); ++j)
                given.v[j] = load(b.grad_output, p_.dtype, element(out_, j, s.b, t, head, d)).real();
            kept[at(d)] = load_kept(b, s.b, t, head, d);
            Cell::enter(given.v, kept[at(d)].v, carry[at(d)].v);
            cell::backward<Cell>(kept[at(d)].v, previous[at(d)].v, carry[at(d)].v, d_pre[at(d)].v);
        }
        for (int g = G - 1; g >= 0; --g) {
            Vector part = through_product(weights, g, head, d_pre, factor_of(g, h, kept), sums);
            if constexpr (Cell::resets_before)
                for (int64_t d = 0; g == G - 1 && d < D; ++d)
                    part[at(d)] = Cell::backward_reset(kept[at(d)].v, previous[at(d)].v, part[at(d)], d_pre[at(d)].v);
            add_scaled(through.data(), 1, part.data(), D);
        }
        const bool reset = resets(b, s.b, t);
        for (int64_t d = 0; d < D; ++d) {
            for (int g = 0; b.grad_input != nullptr && g < G; ++g)
                store(b.grad_input, p_.dtype, element(in_, g, s.b, t, head, d), d_pre[at(d)].v[g]);
            for (int j = 0; j < P; ++j) sums.bias[at((j * p_.heads + head) * D + d)] += d_pre[at(d)].v[j];
            carry[at(d)].v[0] += clipped(through[at(d)], p_.recurrent_clip);
            if (reset) carry[at(d)] = {};
        }
    }

    RnnProblem p_;
    Dtype state_;
    RnnStrides in_, out_;
};

}  // namespace

std::unique_ptr<RnnKernel> make_rnn(const RnnProblem& problem, const Options&, std::string&) {
    return with_formula(problem.cell, [&](auto formula) -> std::unique_ptr<RnnKernel> {
        return std::make_unique<Rnn<typename decltype(formula)::Type>>(problem);
    });
}

}  // namespace flashscan::reference
