// SPDX-License-Identifier: Apache-2.0
// Affine maps step by step: y[t] = W[t] y[t-1] + x[t], and backward g[t-1] = dy[t-1] + W[t]^H g[t], dx[t] = g[t],
// dW[t] = g[t] y[t-1]^H.
//
// One thread walks a chain of steps. Forward reads each W once: the dot products of its rows with y. Backward reads
// each W and writes each dW once: rows scaled by a number of g. Everything else is d numbers for each step, and stays
// in the cache.
#pragma once

#include "cpu/kernels/convert.h"
#include "cpu/kernels/operator.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// Adds the sum of w[j] y[j] to `sum`, as complex numbers where parts is 2.
template <typename T, typename Form>
void dot(Form, const typename Form::Type* w, const T* y, int64_t dim, int32_t parts, T* sum) {
    if (parts == 2) {
        for (int64_t j = 0; j < 2 * dim; j += 2) {
            const T re = Form::get(w[j]), im = Form::get(w[j + 1]);
            sum[0] += re * y[j] - im * y[j + 1];
            sum[1] += re * y[j + 1] + im * y[j];
        }
        return;
    }
    constexpr int64_t width = Simd<T>::width;
    Vec<T> even = {}, odd = {};
    int64_t j = 0;
    for (; j + 2 * width <= dim; j += 2 * width) {
        even = fused(widen(w + j), load(y + j), even);
        odd = fused(widen(w + j + width), load(y + j + width), odd);
    }
    for (; j + width <= dim; j += width) even = fused(widen(w + j), load(y + j), even);
    T rest = 0;
    for (; j < dim; ++j) rest = fused(Form::get(w[j]), y[j], rest);
    even += odd;
    for (int64_t k = 0; k < width && dim >= width; ++k) rest += even[k];
    sum[0] += rest;
}

// to[j] += conj(w[j]) g
template <typename T, typename Form>
void add_conjugate(Form, const typename Form::Type* w, const T* g, int64_t dim, int32_t parts, T* to) {
    if (parts == 2) {
        for (int64_t j = 0; j < 2 * dim; j += 2) {
            const T re = Form::get(w[j]), im = Form::get(w[j + 1]);
            to[j] += re * g[0] + im * g[1];
            to[j + 1] += re * g[1] - im * g[0];
        }
        return;
    }
    const Vec<T> factor = splat<T>(g[0]);
    int64_t j = 0;
    for (; j + Simd<T>::width <= dim; j += Simd<T>::width) store<T>(to + j, fused(widen(w + j), factor, load(to + j)));
    for (; j < dim; ++j) to[j] = fused(Form::get(w[j]), g[0], to[j]);
}

// to[j] = g conj(y[j])
template <typename T>
void outer_row(const T* g, const T* y, int64_t dim, int32_t parts, T* to) {
    if (parts == 2) {
        for (int64_t j = 0; j < 2 * dim; j += 2) {
            to[j] = g[0] * y[j] + g[1] * y[j + 1];
            to[j + 1] = g[1] * y[j] - g[0] * y[j + 1];
        }
        return;
    }
    for (int64_t j = 0; j < dim; ++j) to[j] = g[0] * y[j];
}

template <typename T>
class AffineWalk {
  public:
    AffineWalk(const MatrixCall& call, const OperatorPiece& piece, char* buffer)
        : p_(call),
          q_(piece),
          size_(call.dim * call.parts),
          y_(reinterpret_cast<T*>(buffer)),
          next_(y_ + size_),
          before_(next_ + size_) {}

    void forward(char* carry) {
        __builtin_memcpy(y_, carry, carry_bytes());
        for (int64_t i = 0; i < q_.steps; ++i) {
            const int64_t at = place(i);
            const bool first = i == 0 && q_.start;
            if (first)
                for (int64_t j = 0; j < size_; ++j) y_[j] = 0;
            if (p_.prefix != nullptr) __builtin_memcpy(at_prefix(at), y_, carry_bytes());
            if (p_.exclusive && p_.y != nullptr) put(y_, p_.y, at);
            get(p_.x, at, next_);
            if (!first)
                with_number<T>(p_.number, [&](auto form) {
                    const auto* w = gate(form, at);
                    for (int64_t r = 0; r < p_.dim; ++r)
                        dot<T>(form, w + r * size_, y_, p_.dim, p_.parts, next_ + r * p_.parts);
                });
            exchange(y_, next_);
            if (!p_.exclusive && p_.y != nullptr) put(y_, p_.y, at);
        }
        __builtin_memcpy(carry, y_, carry_bytes());
    }

    void backward(char* carry) {
        __builtin_memcpy(y_, carry, carry_bytes());
        for (int64_t i = q_.steps - 1; i >= 0; --i) {
            const int64_t at = place(i);
            const bool first = i == 0 && q_.start;
            if (!p_.exclusive) add(at);
            if (p_.y != nullptr) put(y_, p_.y, at);
            if (p_.grad_w != nullptr) gradient(i, at, first);
            for (int64_t j = 0; j < size_; ++j) next_[j] = 0;
            if (!first)
                with_number<T>(p_.number, [&](auto form) {
                    const auto* w = gate(form, at);
                    for (int64_t r = 0; r < p_.dim; ++r)
                        add_conjugate<T>(form, w + r * size_, y_ + r * p_.parts, p_.dim, p_.parts, next_);
                });
            exchange(y_, next_);
            if (p_.exclusive) add(at);
        }
        __builtin_memcpy(carry, y_, carry_bytes());
    }

  private:
    size_t carry_bytes() const { return static_cast<size_t>(size_) * sizeof(T); }
    int64_t place(int64_t i) const {
        const int64_t time = p_.ascending ? q_.begin + q_.first + i : q_.end - 1 - q_.first - i;
        return q_.base + time * p_.time_stride;
    }
    char* at_prefix(int64_t at) const { return p_.prefix + at * static_cast<int64_t>(carry_bytes()); }
    template <typename Form>
    const typename Form::Type* gate(Form, int64_t at) const {
        return reinterpret_cast<const typename Form::Type*>(p_.w) + at * p_.dim * size_;
    }
    void get(const char* tensor, int64_t at, T* to) const {
        load_panel(to, size_, p_.number, tensor + at * size_ * bytes_of(p_.number), {1, 0, size_, 1, 1});
    }
    void put(const T* from, char* tensor, int64_t at) const {
        store_panel(from, size_, p_.number, tensor + at * size_ * bytes_of(p_.number), {1, 0, size_, 1, 1});
    }
    void add(int64_t at) {
        if (p_.dy == nullptr) return;
        get(p_.dy, at, next_);
        for (int64_t j = 0; j < size_; ++j) y_[j] += next_[j];
    }
    // Loads y before step i to before_.
    void previous(int64_t i, int64_t at) {
        const bool first = q_.first + i == 0;
        if (p_.prefix != nullptr)
            __builtin_memcpy(before_, at_prefix(at), carry_bytes());
        else if (first)
            __builtin_memcpy(before_, p_.first_state, carry_bytes());
        else
            get(p_.output, p_.exclusive ? at : place(i - 1), before_);
    }
    void gradient(int64_t i, int64_t at, bool first) {
        if (!first) previous(i, at);
        char* to = p_.grad_w + at * p_.dim * size_ * bytes_of(p_.number);
        for (int64_t r = 0; r < p_.dim; ++r) {
            if (first)
                for (int64_t j = 0; j < size_; ++j) next_[j] = 0;
            else
                outer_row(y_ + r * p_.parts, before_, p_.dim, p_.parts, next_);
            store_panel(next_, size_, p_.number, to + r * size_ * bytes_of(p_.number), {1, 0, size_, 1, 1});
        }
    }

    const MatrixCall& p_;
    const OperatorPiece& q_;
    int64_t size_;
    T *y_, *next_, *before_;
};

template <typename T>
void affine_forward(const MatrixCall& call, const OperatorPiece& piece, char* carry, char* buffer) {
    AffineWalk<T>(call, piece, buffer).forward(carry);
}
template <typename T>
void affine_backward(const MatrixCall& call, const OperatorPiece& piece, char* carry, char* buffer) {
    AffineWalk<T>(call, piece, buffer).backward(carry);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
