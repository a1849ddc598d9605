// SPDX-License-Identifier: Apache-2.0
// Linear recurrence with neighbouring channels in the lanes of a vector, for data whose innermost axis is channels. The
// arithmetic of a tile is in linear_column_steps.h. One thread owns a block of channels (at most 8 KB of a step) and
// walks time; threads do not wait for each other here. A tensor whose channels are adjacent and whose dtype is one of
// the forms is read and written in place, whole steps at a time, so that memory sees one stream for each tensor. Any
// other dtype, stride, broadcast or form of the gate is copied through panels of 8 KB. For each number forward moves 2
// reads and 1 write, and backward 3 reads and 2 writes.
#pragma once

#include "cpu/kernels/linear_column_steps.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// The engine of linear_walk.h: computes ranges of steps of one block of channels.
template <typename T, bool ComplexGate>
class Columns {
  public:
    using Memory = Work<T>;
    Columns(const LinearCall& p, const LinearBlock& block, Work<T>& work)
        : p_(p),
          block_(block),
          w_(work),
          channels_(block.c1 - block.c0),
          parts_(p.x.parts),
          lanes_(channels_ * parts_),
          pitch_((lanes_ + Simd<T>::width - 1) / Simd<T>::width * Simd<T>::width),
          whole_(lanes_ == pitch_ || lanes_ >= 4 * Simd<T>::width) {
        if (lanes_ == pitch_) return;
        // Panels are read in whole vectors, whose spare lanes have gates of 1.
        for (T* panel : {w_.x, w_.y, w_.previous, w_.grad, w_.slope})
            for (int64_t i = 0; i < panel_numbers<T>; ++i) panel[i] = 0;
        for (T* state : {w_.carry, w_.local, w_.power})
            for (int64_t l = lanes_; l < pitch_; ++l) state[l] = 0;
        one(w_.product, pitch_);
        fill_spare(w_.gate, panel_numbers<T> / pitch_);
    }

    int64_t tile_steps() const {
        bool all_in_place = false;
        forms([&](auto x, auto a) { all_in_place = in_place<decltype(x), decltype(a)>(); });
        return all_in_place && !(p_.stream_stores && detours()) ? 512 : panel_numbers<T> / pitch_;
    }

    // Steps [i, i + n) of `row` from the carry in work.carry. Without `write` only the carry changes.
    void apply(const Row& row, int64_t i, int64_t n, bool write) {
        const bool grads = write && p_.backward && p_.grad_gate.data != nullptr;
        // The step before the row's first is its initial state, not an element of OUTPUT.
        const int64_t plain = grads && i + n == row.steps() ? n - 1 : n;
        if (plain > 0)
            forms([&](auto x, auto a) { tile<decltype(x), decltype(a)>(row, {i, plain, 0, n}, write, grads); });
        if (plain < n) tile<Own<T>, Own<T>>(row, {i + plain, 1, plain, n}, write, grads);
    }

    bool summarise(const Row& row, int64_t i, int64_t n) {
        bool any = false;
        forms([&](auto x, auto a) {
            auto t = open<decltype(x), decltype(a)>(row, i, n);
            t.carry = w_.local;
            t.product = w_.product;
            t.power = w_.power;
            any = p_.backward ? columns_summarise<ComplexGate, true>(t) : columns_summarise<ComplexGate, false>(t);
        });
        return any;
    }

    static void one(T* product, int64_t lanes) {
        for (int64_t l = 0; l < lanes; ++l) product[l] = ComplexGate && (l & 1) != 0 ? T(0) : T(1);
    }
    int64_t lanes() const { return lanes_; }

  private:
    template <typename X, typename A>
    using Tile = ColumnTile<T, X, A>;

    // Walking steps [i, i + n) of a row: those from `first` on of a tile of `all`.
    struct Part {
        int64_t i, n, first, all;
    };

    int64_t sign() const { return p_.ascending ? 1 : -1; }

    bool fits(const Tensor& t) const {
        return t.data == nullptr || (whole_ && t.parts == parts_ && (t.channels == parts_ || channels_ == 1));
    }
    template <typename Form>
    bool direct(const Tensor& t) const {
        return t.data == nullptr || (t.number == Form::number && fits(t));
    }
    template <typename Use>
    void forms(Use use) const {
        with_forms<T, ComplexGate>(
            p_, [&](const Tensor& t) { return fits(t); }, use);
    }
    template <typename A>
    bool gate_direct() const {
        return p_.form == 0 && direct<A>(p_.gate);
    }
    template <typename X, typename A>
    bool in_place() const {
        return gate_direct<A>() && direct<X>(p_.x) && direct<X>(p_.y) && direct<X>(p_.previous) &&
               direct<A>(p_.grad_gate) && !(p_.backward && sums_gate(p_));
    }
    template <typename Form>
    bool aligned(const Tensor& t, const View<typename Form::Type>& v) const {
        constexpr int64_t size = sizeof(typename Form::Type), bytes = size * Simd<T>::width;
        return t.data != nullptr && direct<Form>(t) && reinterpret_cast<uintptr_t>(v.data) % bytes == 0 &&
               v.pitch * size % bytes == 0;
    }

    // Whether some steps of what is written do not begin at a whole vector.
    bool detours() const {
        if (p_.y.data == nullptr) return true;
        for (const Tensor* t : {&p_.y, &p_.grad_gate}) {
            if (t->data == nullptr) continue;
            const int64_t size = bytes_of(t->number), vector = size * Simd<T>::width;
            if (reinterpret_cast<uintptr_t>(address(*t, 0, 0, block_.c0)) % uintptr_t(vector) != 0 ||
                t->time * size % vector != 0 || t->batch * size % vector != 0)
                return true;
        }
        return false;
    }

    // Panels hold numbers of T, so a tensor that is not used in place is read and written in that form.
    template <typename Form>
    View<typename Form::Type> target(const Tensor& t, T* panel, const Row& row, int64_t time) const {
        using M = typename Form::Type;
        if (!direct<Form>(t)) return {reinterpret_cast<M*>(panel), pitch_};
        return {reinterpret_cast<M*>(address(t, row.batch, time, block_.c0)), sign() * t.time};
    }
    template <typename Form>
    View<typename Form::Type> read(const Tensor& t, T* panel, const Row& row, int64_t time, int64_t n) const {
        if (!direct<Form>(t) && n > 0)
            load_panel(panel, pitch_, t.number, address(t, row.batch, time, block_.c0),
                       {n, sign() * t.time, channels_, t.channels, t.parts});
        return target<Form>(t, panel, row, time);
    }
    void put_back(const Tensor& t, const T* panel, const Row& row, int64_t time, int64_t n) const {
        store_panel(panel, pitch_, t.number, address(t, row.batch, time, block_.c0),
                    {n, sign() * t.time, channels_, t.channels, t.parts}, p_.stream_stores);
    }
    template <typename Form>
    void stream_back(const Tensor& t, const View<typename Form::Type>& panel, const Row& row, int64_t time,
                     int64_t n) const {
        const auto to = target<Form>(t, nullptr, row, time);
        for (int64_t i = 0; i < n; ++i) stream_row(to.data + i * to.pitch, panel.data + i * panel.pitch, lanes_);
    }

    template <typename X, typename A>
    void tile(const Row& row, const Part& part, bool write, bool grads) {
        const int64_t n = part.n, time = row.time(p_, part.i);
        Tile<X, A> t = open<X, A>(row, part.i, n);
        t.y = write && p_.y.data != nullptr ? target<X>(p_.y, w_.y, row, time)
                                            : View<typename X::Type>{reinterpret_cast<typename X::Type*>(w_.y), 0};
        bool straight = aligned<X>(p_.y, t.y);
        const bool grad_direct = grads && !sums_gate(p_) && direct<A>(p_.grad_gate);
        if (grads) {
            t.grad = {reinterpret_cast<typename A::Type*>(w_.grad), pitch_};
            if (grad_direct) t.grad = target<A>(p_.grad_gate, w_.grad, row, time);
            straight = straight && (!grad_direct || aligned<A>(p_.grad_gate, t.grad));
            if constexpr (std::is_same_v<X, Own<T>>)
                read_previous(t, row, part.i, n);
            else
                t.previous = target<X>(p_.previous, w_.previous, row, row.time(p_, part.i + 1));
        }
        // Stores past the caches are of whole vectors; what does not begin at one is written to panels, and copied.
        t.stream = write && p_.stream_stores && straight;
        const bool detour = write && p_.stream_stores && !straight && n * pitch_ <= panel_numbers<T>;
        const bool y_direct = p_.y.data != nullptr && direct<X>(p_.y);
        if (detour && y_direct) t.y = {reinterpret_cast<typename X::Type*>(w_.y), pitch_};
        if (detour && grad_direct) t.grad = {reinterpret_cast<typename A::Type*>(w_.grad), pitch_};
        run(t, grads);
        if (!write) return;
        if (detour && y_direct) stream_back<X>(p_.y, t.y, row, time, n);
        if (detour && grad_direct) stream_back<A>(p_.grad_gate, t.grad, row, time, n);
        if (p_.y.data != nullptr && !y_direct) put_back(p_.y, w_.y, row, time, n);
        if (!grads || grad_direct) return;
        fold_parts(n);
        if (sums_gate(p_))
            add_sums(part);
        else
            put_back(p_.grad_gate, w_.grad, row, time, n);
    }

    template <typename A>
    void read_previous(Tile<Own<T>, A>& t, const Row& row, int64_t i, int64_t n) const {
        if (i + n < row.steps()) {
            t.previous = read<Own<T>>(p_.previous, w_.previous, row, row.time(p_, i + 1), n);
            return;
        }
        const T* first = reinterpret_cast<const T*>(p_.first_state);
        for (int64_t l = 0; l < lanes_; ++l)
            w_.previous[l] = first == nullptr ? T(0) : first[(row.index * p_.channels + block_.c0) * parts_ + l];
        t.previous = {w_.previous, 0};
    }

    template <typename X, typename A>
    Tile<X, A> open(const Row& row, int64_t i, int64_t n) {
        const int64_t time = row.time(p_, i);
        Tile<X, A> t{};
        t.steps = n;
        t.lanes = whole_ ? lanes_ : pitch_;
        t.carry = w_.carry;
        t.x = read<X>(p_.x, w_.x, row, time, n);
        if (gate_direct<A>())
            t.gate = target<A>(p_.gate, w_.gate, row, time);
        else if constexpr (std::is_same_v<A, Own<T>>)
            load_gate(t, row, time, n);
        t.reset = reset_at(p_, row, time);
        t.reset_step = sign();
        return t;
    }

    template <typename X>
    void load_gate(Tile<X, Own<T>>& t, const Row& row, int64_t time, int64_t n) {
        const Tensor& gate = p_.gate;
        const int64_t steps = gate.time == 0 ? 1 : n;
        const int64_t pitch = steps == 1 ? 0 : pitch_;
        const bool slope = p_.backward && p_.form != 0;
        t.gate = {w_.gate, pitch};
        t.slope = {w_.slope, pitch};
        if (steps == 1 && n > 1 && gate_row_ == row.batch) return;
        gate_row_ = gate.time == 0 ? row.batch : -1;
        const int64_t channels = gate.channels == 0 ? 1 : channels_;
        const bool expand = channels < channels_ || gate.parts < parts_;
        const int64_t from_pitch = expand ? channels * gate.parts : pitch_;
        T *to = expand ? w_.compact_gate : w_.gate, *to_slope = expand ? w_.compact_slope : w_.slope;
        load_panel(to, from_pitch, gate.number, address(gate, row.batch, time, block_.c0),
                   {steps, sign() * gate.time, channels, gate.channels, gate.parts});
        transform_gate<T, ComplexGate>(p_.form, to, slope ? to_slope : nullptr, steps * from_pitch);
        if (!expand) {
            if (p_.form != 0) fill_spare(w_.gate, steps);
            return;
        }
        spread(w_.gate, w_.compact_gate, steps, channels);
        if (slope) spread(w_.slope, w_.compact_slope, steps, channels);
    }

    void fill_spare(T* gates, int64_t steps) const {
        for (int64_t i = 0; i < steps; ++i)
            for (int64_t l = lanes_; l < pitch_; ++l) gates[i * pitch_ + l] = ComplexGate && (l & 1) != 0 ? T(0) : T(1);
    }

    // Repeats gates that have fewer channels or parts than the data, so that each lane has one.
    void spread(T* to, const T* from, int64_t steps, int64_t channels) const {
        const int64_t parts = p_.gate.parts;
        for (int64_t i = 0; i < steps; ++i)
            for (int64_t c = 0; c < channels_; ++c)
                for (int64_t k = 0; k < parts_; ++k)
                    to[i * pitch_ + c * parts_ + k] =
                        from[(i * channels + (channels == 1 ? 0 : c)) * parts + (parts == 1 ? 0 : k)];
    }

    template <typename X, typename A>
    void run(const Tile<X, A>& t, bool grad) const {
        if (!p_.backward)
            columns_forward<ComplexGate>(t);
        else if (!grad)
            columns_backward<ComplexGate, false, false>(t);
        else if (p_.form == 0)
            columns_backward<ComplexGate, true, false>(t);
        else if constexpr (std::is_same_v<A, Own<T>>)
            columns_backward<ComplexGate, true, true>(t);
    }

    // The gradient of a real gate of complex data is a real part: the sum over both numbers.
    void fold_parts(int64_t n) const {
        if (p_.gate.parts == parts_) return;
        for (int64_t i = 0; i < n; ++i)
            for (int64_t c = 0; c < channels_; ++c)
                w_.grad[i * pitch_ + c] = w_.grad[i * pitch_ + 2 * c] + w_.grad[i * pitch_ + 2 * c + 1];
    }

    void add_sums(const Part& part) const {
        const int64_t parts = p_.gate.parts, numbers = channels_ * parts;
        for (int64_t i = 0; i < part.n; ++i) {
            const T* grad = w_.grad + i * pitch_;
            const int64_t walked = part.first + i;
            const int64_t at = p_.sum_time ? 0 : p_.ascending ? walked : part.all - 1 - walked;
            if (p_.sum_channels)
                for (int64_t k = 0; k < parts; ++k) w_.sums[at * parts + k] += add_up(grad + k, channels_, parts);
            else
                for (int64_t l = 0; l < numbers; ++l) w_.sums[at * numbers + l] += static_cast<double>(grad[l]);
        }
    }

    const LinearCall& p_;
    const LinearBlock& block_;
    Work<T>& w_;
    int64_t channels_, parts_, lanes_, pitch_;
    bool whole_;
    int64_t gate_row_ = -1;
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
