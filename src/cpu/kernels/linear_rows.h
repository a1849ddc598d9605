// SPDX-License-Identifier: Apache-2.0
// Linear recurrence with consecutive steps in the lanes of a vector, for data whose innermost axis is time. The
// arithmetic of a channel is in linear_row_steps.h. One thread owns some channels and reads each as one stream: in
// place where its steps are adjacent and its dtype is one of the forms, otherwise through panels of 8 KB. For each
// number forward moves 2 reads and 1 write, and backward 3 reads and 2 writes.
#pragma once

#include "cpu/kernels/linear_row_steps.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The engine of linear_walk.h: computes ranges of steps of one block of channels.
template <typename T, bool ComplexData>
class Rows {
    static constexpr int parts = ComplexData ? 2 : 1;

  public:
    using Memory = Work<T>;
    Rows(const LinearCall& p, const LinearBlock& block, Work<T>& work)
        : p_(p), block_(block), w_(work), channels_(block.c1 - block.c0) {}

    // Each channel is walked to the end of the range before the next begins.
    int64_t tile_steps() const {
        if (!p_.backward || !sums_gate(p_) || p_.sum_time) return int64_t(1) << 62;
        // The sums of a tile have to fit one panel.
        const int64_t step = p_.gate.parts * (p_.sum_channels ? 1 : channels_);
        return panel_numbers<T> / (step > parts ? step : parts);
    }
    int64_t lanes() const { return channels_ * parts; }
    static void one(T* product, int64_t lanes) {
        for (int64_t l = 0; l < lanes; ++l) product[l] = l % parts == 0 ? T(1) : T(0);
    }

    void apply(const Row& row, int64_t i, int64_t n, bool write) {
        for_tiles(row, i, n, [&](auto x, auto a, const Part& part, int64_t c) {
            auto t = open<decltype(x), decltype(a)>(row, part, c);
            load_element(w_.carry, c, t.carry);
            apply_channel<decltype(x), decltype(a)>(t, row, part, c, write);
            store_element(w_.carry, c, t.carry);
        });
    }

    bool summarise(const Row& row, int64_t i, int64_t n) {
        bool any = false;
        for_tiles(row, i, n, [&](auto x, auto a, const Part& part, int64_t c) {
            auto t = open<decltype(x), decltype(a)>(row, part, c);
            load_element(w_.local, c, t.carry);
            load_element(w_.product, c, t.product);
            t.power = w_.power[c * parts];
            if (p_.backward)
                p_.ascending ? rows_summarise<false, true>(t) : rows_summarise<true, true>(t);
            else
                p_.ascending ? rows_summarise<false, false>(t) : rows_summarise<true, false>(t);
            store_element(w_.local, c, t.carry);
            store_element(w_.product, c, t.product);
            w_.power[c * parts] = t.power;
            any = any || t.any_reset;
        });
        return any;
    }

  private:
    template <typename X, typename A>
    using Tile = RowTile<T, ComplexData, X, A>;
    using Element = std::conditional_t<ComplexData, Complex<T>, T>;

    // Steps [i, i + n) of a row in walking order, and the lowest of their times.
    struct Part {
        int64_t i, n, time;
    };

    static void load_element(const T* from, int64_t c, Element& x) { get_element<Own<T>>(from, c, x); }
    static void store_element(T* to, int64_t c, Element x) { put_element<Own<T>>(to, c, x); }

    static bool fits(const Tensor& t) { return t.data == nullptr || (t.time == parts && t.parts == parts); }
    template <typename Form>
    static bool direct(const Tensor& t) {
        return t.data != nullptr && t.number == Form::number && fits(t);
    }
    template <typename A>
    bool gate_direct() const {
        return p_.form == 0 && direct<A>(p_.gate);
    }

    // Calls use(X, A, part, channel) for the parts of [i, i + n) of each channel. Channels descend where time does, so
    // that memory is walked in the order of addresses.
    template <typename Use>
    void for_tiles(const Row& row, int64_t i, int64_t n, Use use) {
        with_forms<T, ComplexData>(p_, fits, [&](auto x, auto a) {
            using X = decltype(x);
            using A = decltype(a);
            bool in_place = gate_direct<A>() && !(p_.backward && sums_gate(p_));
            for (const Tensor* t : {&p_.x, &p_.y, &p_.previous})
                in_place = in_place && (t->data == nullptr || direct<X>(*t));
            in_place = in_place && (p_.grad_gate.data == nullptr || direct<A>(p_.grad_gate));
            const bool detours = streams_panels<X>() && (!whole_vectors(p_.y) || !whole_vectors(p_.grad_gate));
            const int64_t most = in_place && !detours ? n : panel_numbers<T> / parts;
            for (int64_t next = 0; next < channels_; ++next) {
                const int64_t c = p_.ascending ? next : channels_ - 1 - next;
                for (int64_t k = 0; k < n; k += most) {
                    const int64_t steps = k + most < n ? most : n - k;
                    use(x, a, Part{i + k, steps, row.time(p_, p_.ascending ? i + k : i + k + steps - 1)}, c);
                }
            }
        });
    }

    // Whether panels are copied past the caches to where rows do not begin at a whole vector. In 16 bits, where that
    // saves half as much, the copy takes longer.
    template <typename X>
    bool streams_panels() const {
        return p_.stream_stores && sizeof(typename X::Type) >= 4;
    }
    // Whether all rows of a tensor that is written begin and end at a whole vector.
    bool whole_vectors(const Tensor& t) const {
        const int64_t size = bytes_of(t.number), strides = t.channels | t.batch | p_.time * t.parts;
        return reinterpret_cast<uintptr_t>(t.data) % vector_bytes == 0 && strides * size % vector_bytes == 0 &&
               p_.offsets == nullptr;
    }

    char* at(const Tensor& t, const Row& row, int64_t time, int64_t c) const {
        return address(t, row.batch, time, block_.c0 + c);
    }
    template <typename Form>
    typename Form::Type* place(const Tensor& t, const Row& row, int64_t time, int64_t c) const {
        return reinterpret_cast<typename Form::Type*>(at(t, row, time, c));
    }

    template <typename X, typename A>
    Tile<X, A> open(const Row& row, const Part& part, int64_t c) {
        const int64_t time = part.time, n = part.n;
        Tile<X, A> t{};
        t.steps = n;
        t.real_gate = p_.gate.parts < parts;
        t.reset = reset_at(p_, row, time);
        if (direct<X>(p_.x)) {
            t.x = place<X>(p_.x, row, time, c);
        } else if constexpr (std::is_same_v<X, Own<T>>) {
            load_panel(w_.x, n * parts, p_.x.number, at(p_.x, row, time, c), {1, 0, n, p_.x.time, parts});
            t.x = w_.x;
        }
        if (gate_direct<A>())
            t.gate = place<A>(p_.gate, row, time, c);
        else if constexpr (std::is_same_v<A, Own<T>>)
            load_gate(t, row, part, c);
        return t;
    }

    // Brings gates to the shape of the data: a broadcast gate is repeated for all steps, and a real gate of complex
    // data gets imaginary parts of 0.
    template <typename X>
    void load_gate(Tile<X, Own<T>>& t, const Row& row, const Part& part, int64_t c) {
        const Tensor& gate = p_.gate;
        const int64_t steps = gate.time == 0 ? 1 : part.n;
        const bool slope = p_.backward && p_.form != 0, expand = steps < part.n || gate.parts < parts;
        T *to = expand ? w_.compact_gate : w_.gate, *to_slope = expand ? w_.compact_slope : w_.slope;
        load_panel(to, steps * gate.parts, gate.number, at(gate, row, part.time, c),
                   {1, 0, steps, gate.time, gate.parts});
        if (gate.parts == 2)
            transform_gate<T, true>(p_.form, to, slope ? to_slope : nullptr, steps * 2);
        else
            transform_gate<T, false>(p_.form, to, slope ? to_slope : nullptr, steps);
        t.gate = w_.gate;
        t.slope = slope ? w_.slope : nullptr;
        if (!expand) return;
        spread(w_.gate, w_.compact_gate, steps, part.n);
        if (slope) spread(w_.slope, w_.compact_slope, steps, part.n);
    }
    void spread(T* to, const T* from, int64_t steps, int64_t n) const {
        const int64_t gate_parts = p_.gate.parts;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t k = 0; k < parts; ++k)
                to[i * parts + k] = k < gate_parts ? from[(steps == 1 ? 0 : i) * gate_parts + k] : T(0);
    }

    template <typename X, typename A>
    void apply_channel(Tile<X, A>& t, const Row& row, const Part& part, int64_t c, bool write) {
        const int64_t time = part.time, n = part.n;
        const bool write_y = write && p_.y.data != nullptr, y_direct = write_y && direct<X>(p_.y);
        const bool grads = write && p_.backward && p_.grad_gate.data != nullptr;
        const bool grad_direct = grads && !sums_gate(p_) && direct<A>(p_.grad_gate);
        if (write_y) t.y = y_direct ? place<X>(p_.y, row, time, c) : panel<X>(w_.y);
        if (grads) {
            t.grad = grad_direct ? place<A>(p_.grad_gate, row, time, c) : panel<A>(w_.grad);
            read_previous(t, row, part, c);
        }
        const bool straight = (!write_y || y_direct) && (!grads || grad_direct) && aligned(t);
        t.stream = p_.stream_stores && straight;
        // Stores past the caches are of whole vectors; what does not begin at one is written to panels, and copied.
        const bool detour = streams_panels<X>() && !straight && n * parts <= panel_numbers<T>;
        const auto y = t.y;
        const auto grad = t.grad;
        if (detour && y_direct) t.y = panel<X>(w_.y);
        if (detour && grad_direct) t.grad = panel<A>(w_.grad);
        if (p_.backward)
            p_.ascending ? rows_backward<false>(t) : rows_backward<true>(t);
        else
            p_.ascending ? rows_forward<false>(t) : rows_forward<true>(t);
        if (detour && y_direct) stream_row(y, t.y, n * parts);
        if (detour && grad_direct) stream_row(grad, t.grad, n * parts);
        if (write_y && !y_direct)
            store_panel(w_.y, n * parts, p_.y.number, at(p_.y, row, time, c), {1, 0, n, p_.y.time, parts},
                        p_.stream_stores);
        if (!grads || grad_direct) return;
        fold_parts(n);
        if (sums_gate(p_))
            add_sums(n, c);
        else
            store_panel(w_.grad, n * p_.gate.parts, p_.grad_gate.number, at(p_.grad_gate, row, time, c),
                        {1, 0, n, p_.grad_gate.time, p_.gate.parts});
    }
    // Panels hold numbers of T, so a tensor that is not used in place is read and written in that form.
    template <typename Form>
    static typename Form::Type* panel(T* numbers) {
        return reinterpret_cast<typename Form::Type*>(numbers);
    }

    template <typename X, typename A>
    bool aligned(const Tile<X, A>& t) const {
        const int64_t top = p_.ascending ? 0 : t.steps * parts;
        return (t.y == nullptr || reinterpret_cast<uintptr_t>(t.y + top) % vector_bytes == 0) &&
               (t.grad == nullptr || reinterpret_cast<uintptr_t>(t.grad + top) % vector_bytes == 0);
    }

    // OUTPUT one step earlier in the order of the recurrence: one time lower where backward walks down.
    template <typename X, typename A>
    void read_previous(Tile<X, A>& t, const Row& row, const Part& part, int64_t c) {
        const int64_t time = part.time, n = part.n;
        const int64_t shift = p_.ascending ? 1 : -1;
        t.has_first = part.i + n == row.steps();
        if (t.has_first && p_.first_state != nullptr)
            load_element(reinterpret_cast<const T*>(p_.first_state), row.index * p_.channels + block_.c0 + c, t.first);
        if (direct<X>(p_.previous)) {
            t.previous = place<X>(p_.previous, row, time, c) + shift * parts;
            return;
        }
        // The lowest time has no step before it when backward walks down to the row's first, and so for the highest.
        const int64_t skip = t.has_first && !p_.ascending ? 1 : 0, count = n - (t.has_first ? 1 : 0);
        if (count > 0)
            load_panel(w_.previous + skip * parts, count * parts, p_.previous.number,
                       at(p_.previous, row, time + shift + skip, c), {1, 0, count, p_.previous.time, parts});
        if (t.has_first) store_element(w_.previous, skip == 1 ? 0 : n - 1, t.first);
        t.has_first = false;
        t.previous = panel<X>(w_.previous);
    }

    // The gradient of a real gate of complex data is the real part.
    void fold_parts(int64_t n) const {
        if (p_.gate.parts == parts) return;
        for (int64_t j = 0; j < n; ++j) w_.grad[j] = w_.grad[2 * j];
    }

    void add_sums(int64_t n, int64_t c) const {
        const int64_t numbers = p_.gate.parts, channels = p_.sum_channels ? 1 : channels_;
        for (int64_t k = 0; k < numbers; ++k) {
            double* sums = w_.sums + (p_.sum_channels ? 0 : c) * numbers + k;
            if (p_.sum_time) {
                *sums += add_up(w_.grad + k, n, numbers);
                continue;
            }
            for (int64_t j = 0; j < n; ++j)
                sums[j * channels * numbers] += static_cast<double>(w_.grad[j * numbers + k]);
        }
    }

    const LinearCall& p_;
    const LinearBlock& block_;
    Work<T>& w_;
    int64_t channels_;
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
