// SPDX-License-Identifier: Apache-2.0
// Prefix products of matrices: y[t] = y[t-1] x[t], and backward g[t-1] = dy[t-1] + g[t] x[t]^H, dx[t] = y[t-1]^H g[t].
//
// A row of y depends on the same row of y[t-1] alone, and a row of g likewise. So a thread owns some rows and walks
// them through time, which takes one product for each step and no waiting for other threads. Each step copies x[t] to
// panels (O(d^2) numbers, which each of the threads that share a chain repeats) and multiplies by it (rnn_product.h).
// dx needs y and g: it is one product for each step, and the steps are independent, with g kept in scratch. Sums run in
// a fixed order, so no bit depends on how rows are given to threads.
//
// Forward of real matrices of 2 to 4, 8 and 16 rows has walks of its own (operator_tiny.h, operator_small.h).
//
// A product l r of complex matrices is computed as one of real matrices: a row of l is (re, im) pairs, and r becomes
// the 2d x 2d matrix whose row 2k is r[k] and whose row 2k + 1 is i r[k].
#pragma once

#include "cpu/kernels/convert.h"
#include "cpu/kernels/operator.h"
#include "cpu/kernels/operator_small.h"
#include "cpu/kernels/operator_tiny.h"
#include "cpu/kernels/rnn_product.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The extents of a matrix in numbers, and of the panels and buffers for it.
template <typename T>
struct Matrix {
    int64_t dim, size, pitch;  // size is the numbers of a row, and pitch the same rounded up to whole panels
    int32_t parts;
    int64_t element() const { return dim * size; }
    int64_t panels() const { return pitch / panel_width<T>; }
    static Matrix of(int64_t dim, int32_t parts) { return {dim, dim * parts, padded_width<T>(dim * parts), parts}; }
    static int64_t buffer_numbers(int64_t dim, int32_t parts, int64_t rows) {
        const Matrix m = of(dim, parts);
        return m.pitch * (m.size + 2 * rows + 2);
    }
};

// Loads row k of x, or of x^H, in the type of the arithmetic.
template <bool Adjoint, typename T, typename Form>
void load_row(Form form, const Matrix<T>& m, const typename Form::Type* x, int64_t k, T* to) {
    if constexpr (!Adjoint) {
        widen_row<T>(form, to, x + k * m.size, m.size, 0);
    } else {
        for (int64_t j = 0; j < m.dim; ++j) {
            const auto* from = x + j * m.size + k * m.parts;
            to[j * m.parts] = Form::get(from[0]);
            if (m.parts == 2) to[2 * j + 1] = -Form::get(from[1]);
        }
    }
}

// Copies x or x^H to panels. `row` is scratch for pitch numbers.
template <bool Adjoint, typename T>
void pack(const Matrix<T>& m, Number number, const char* from, T* panels, T* row) {
    constexpr int64_t width = panel_width<T>;
    const auto put = [&](int64_t k) {
        for (int64_t q = 0; q < m.panels(); ++q)
            for (int64_t i = 0; i < width; i += Simd<T>::width)
                store<T>(panels + (q * m.size + k) * width + i, load(row + q * width + i));
    };
    for (int64_t j = m.size; j < m.pitch; ++j) row[j] = 0;
    with_number<T>(number, [&](auto form) {
        const auto* x = reinterpret_cast<const typename decltype(form)::Type*>(from);
        for (int64_t k = 0; k < m.dim; ++k) {
            load_row<Adjoint, T>(form, m, x, k, row);
            put(k * m.parts);
            if (m.parts == 1) continue;
            for (int64_t j = 0; j < m.size; j += 2) {
                const T re = row[j];
                row[j] = -row[j + 1];
                row[j + 1] = re;
            }
            put(2 * k + 1);
        }
    });
}

// Returns how rows of y lie in buffers. Where a row is whole vectors, number k of row r is at ((k / W) rows + r) W + k
// % W, so that the product finds the same vector of all rows side by side; otherwise rows lie one after the other.
template <typename T>
bool in_vectors(const Matrix<T>& m) {
    return m.size % Simd<T>::width == 0;
}

// Returns whether the product can read r in place, without panels: r has the type of the arithmetic and rows of whole
// panels, and is so small that it stays in the cache.
template <typename T>
bool as_it_lies(const Matrix<T>& m, Number number) {
    constexpr int64_t most = 65536 / static_cast<int64_t>(sizeof(T));
    return m.parts == 1 && same_number<T>(number) && m.size == m.pitch && m.element() <= most;
}

// Computes the product of `rows` rows and r. `panels` are those of r, or r itself where `packed` is false.
template <typename T>
void multiply_rows(const Matrix<T>& m, int64_t rows, const T* left, const T* panels, T* to, bool packed = true) {
    constexpr int64_t width = Simd<T>::width;
    if (!packed) {
        multiply<Left::blocks, T>(
            {left, rows, rows, m.size, panels, m.panels(), to, width, false, rows * width, m.size, panel_width<T>});
        return;
    }
    if (in_vectors(m))
        multiply<Left::blocks, T>({left, rows, rows, m.size, panels, m.panels(), to, width, false, rows * width});
    else
        multiply<Left::rows, T>({left, m.pitch, rows, m.size, panels, m.panels(), to, m.pitch, false});
}

// Copies rows [row, row + rows) of an element in memory to the layout of in_vectors(), and back.
template <typename T>
class MatrixRows {
  public:
    MatrixRows(const Matrix<T>& m, Number number, int64_t row, int64_t rows)
        : m_(m), number_(number), row_(row), rows_(rows) {}
    void get(const char* element, T* to) const {
        const char* from = element + row_ * m_.size * bytes_of(number_);
        if (!in_vectors(m_)) return load_panel(to, m_.pitch, number_, from, rectangle());
        with_number<T>(number_, [&](auto form) {
            const auto* x = reinterpret_cast<const typename decltype(form)::Type*>(from);
            for (int64_t r = 0; r < rows_; ++r)
                for (int64_t k = 0; k < m_.size; k += Simd<T>::width)
                    store<T>(to + k * rows_ + r * Simd<T>::width, widen(x + r * m_.size + k));
        });
    }
    void put(const T* from, char* element) const {
        char* to = element + row_ * m_.size * bytes_of(number_);
        if (!in_vectors(m_)) return store_panel(from, m_.pitch, number_, to, rectangle());
        with_number<T>(number_, [&](auto form) {
            auto* x = reinterpret_cast<typename decltype(form)::Type*>(to);
            for (int64_t r = 0; r < rows_; ++r)
                for (int64_t k = 0; k < m_.size; k += Simd<T>::width)
                    narrow(x + r * m_.size + k, load(from + k * rows_ + r * Simd<T>::width));
        });
    }
    // The place of number k of row r.
    T* at(T* rows, int64_t r, int64_t k) const {
        constexpr int64_t width = Simd<T>::width;
        return in_vectors(m_) ? rows + (k / width * rows_ + r) * width + k % width : rows + r * m_.pitch + k;
    }
    void put_identity(T* scratch, char* element) const {
        for (int64_t r = 0; r < rows_; ++r)
            for (int64_t k = 0; k < m_.size; ++k) *at(scratch, r, k) = k == (row_ + r) * m_.parts ? T(1) : T(0);
        put(scratch, element);
    }

  private:
    Rectangle rectangle() const { return {rows_, m_.size, m_.size, 1, 1}; }
    Matrix<T> m_;
    Number number_;
    int64_t row_, rows_;
};

// One thread's walk through the steps of a piece, for the rows that it owns.
template <typename T>
class MatrixWalk {
  public:
    MatrixWalk(const MatrixCall& call, const OperatorPiece& piece, int64_t row, int64_t rows, char* buffer)
        : p_(call),
          q_(piece),
          m_(Matrix<T>::of(call.dim, call.parts)),
          rows_(rows),
          data_(m_, call.number, row, rows),
          numbers_(m_, sizeof(T) == 8 ? Number::f64 : Number::f32, row, rows),
          row_(reinterpret_cast<T*>(buffer)),
          panels_(row_ + 2 * m_.pitch),
          y_(panels_ + m_.size * m_.pitch),
          next_(y_ + rows * m_.pitch) {}

    void forward(char* carry) {
        if (!q_.start) numbers_.get(carry, y_);
        for (int64_t i = 0; i < q_.steps; ++i) {
            const int64_t at = place(i);
            const bool first = i == 0 && q_.start;
            if (p_.prefix != nullptr && !first) numbers_.put(y_, at_prefix(at));
            if (p_.exclusive && p_.y != nullptr) first ? data_.put_identity(next_, at_y(at)) : data_.put(y_, at_y(at));
            if (first) {
                data_.get(p_.x + at * bytes(), y_);
            } else {
                const bool packed = !as_it_lies(m_, p_.number);
                const auto* x = reinterpret_cast<const T*>(p_.x + at * bytes());
                if (packed) pack<false>(m_, p_.number, p_.x + at * bytes(), panels_, row_);
                multiply_rows(m_, rows_, y_, packed ? panels_ : x, next_, packed);
                exchange(y_, next_);
            }
            if (!p_.exclusive && p_.y != nullptr) data_.put(y_, at_y(at));
        }
        numbers_.put(y_, carry);
    }

    void backward(char* carry) {
        numbers_.get(carry, y_);
        for (int64_t i = q_.steps - 1; i >= 0; --i) {
            const int64_t at = place(i);
            if (!p_.exclusive) add(at);
            if (p_.prefix != nullptr) numbers_.put(y_, at_prefix(at));
            if (i == 0 && q_.start) break;
            pack<true>(m_, p_.number, p_.x + at * bytes(), panels_, row_);
            multiply_rows(m_, rows_, y_, panels_, next_);
            exchange(y_, next_);
            if (p_.exclusive) add(at);
        }
        numbers_.put(y_, carry);
    }

  private:
    int64_t place(int64_t i) const {
        const int64_t time = p_.ascending ? q_.begin + q_.first + i : q_.end - 1 - q_.first - i;
        return q_.base + time * p_.time_stride;
    }
    int64_t bytes() const { return m_.element() * bytes_of(p_.number); }
    char* at_y(int64_t at) const { return p_.y + at * bytes(); }
    char* at_prefix(int64_t at) const { return p_.prefix + at * m_.element() * static_cast<int64_t>(sizeof(T)); }
    void add(int64_t at) {
        if (p_.dy == nullptr) return;
        data_.get(p_.dy + at * bytes(), next_);
        const int64_t pitch = in_vectors(m_) ? m_.size : m_.pitch;
        for (int64_t i = 0; i < rows_ * pitch; ++i) y_[i] += next_[i];
    }

    const MatrixCall& p_;
    const OperatorPiece& q_;
    Matrix<T> m_;
    int64_t rows_;
    MatrixRows<T> data_, numbers_;
    T *row_, *panels_, *y_, *next_;
};

template <typename T>
void matrix_forward(const MatrixCall& call, const OperatorPiece& piece, int64_t row, int64_t rows, char* carry,
                    char* buffer) {
    if (call.parts == 1 && rows == call.dim && call.prefix == nullptr) {
        if (call.dim == 2) return TinyWalk<T, 2>(call, piece).forward(carry);
        if (call.dim == 3) return TinyWalk<T, 3>(call, piece).forward(carry);
        if (call.dim == 4) return TinyWalk<T, 4>(call, piece).forward(carry);
    }
    if (SmallWalk<T, 8>::takes(call)) return SmallWalk<T, 8>(call, piece, row, rows).forward(carry);
    if (SmallWalk<T, 16>::takes(call)) return SmallWalk<T, 16>(call, piece, row, rows).forward(carry);
    MatrixWalk<T>(call, piece, row, rows, buffer).forward(carry);
}
template <typename T>
void matrix_backward(const MatrixCall& call, const OperatorPiece& piece, int64_t row, int64_t rows, char* carry,
                     char* buffer) {
    MatrixWalk<T>(call, piece, row, rows, buffer).backward(carry);
}

template <typename T>
void matrix_join(int64_t dim, int32_t parts, const char* l, const char* r, char* out, char* buffer) {
    const Matrix<T> m = Matrix<T>::of(dim, parts);
    constexpr Number number = sizeof(T) == 8 ? Number::f64 : Number::f32;
    T *row = reinterpret_cast<T*>(buffer), *panels = row + 2 * m.pitch, *left = panels + m.size * m.pitch;
    T* to = left + dim * m.pitch;
    const MatrixRows<T> all(m, number, 0, dim);
    pack<false>(m, number, r, panels, row);
    all.get(l, left);
    multiply_rows(m, dim, left, panels, to);
    all.put(to, out);
}

template <typename T>
void matrix_gradient(const MatrixCall& call, Number number, const char* before, const char* g, char* to, char* buffer) {
    const Matrix<T> m = Matrix<T>::of(call.dim, call.parts);
    constexpr Number wide = sizeof(T) == 8 ? Number::f64 : Number::f32;
    T *row = reinterpret_cast<T*>(buffer), *panels = row + 2 * m.pitch, *left = panels + m.size * m.pitch;
    T* result = left + m.dim * m.pitch;
    const MatrixRows<T> all(m, wide, 0, m.dim), data(m, call.number, 0, m.dim);
    if (before == nullptr) {
        all.get(g, result);
        return data.put(result, to);
    }
    pack<false>(m, wide, g, panels, row);
    with_number<T>(number, [&](auto form) {
        const auto* y = reinterpret_cast<const typename decltype(form)::Type*>(before);
        for (int64_t k = 0; k < m.dim; ++k) {
            load_row<true, T>(form, m, y, k, row);
            for (int64_t j = 0; j < m.size; ++j) *all.at(left, k, j) = row[j];
        }
    });
    multiply_rows(m, m.dim, left, panels, result);
    data.put(result, to);
}

}  // namespace flashscan::cpu::FLASHSCAN_ISA
