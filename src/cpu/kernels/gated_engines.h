// SPDX-License-Identifier: Apache-2.0
// Gated layers: two engines, which walk the panels of gated_tile.h by the steps of the linear recurrence. GatedColumns
// puts neighbouring channels into the lanes of a vector. GatedRows puts consecutive steps of one channel into them, and
// walks one channel after the other. One thread owns all channels of a block, and nothing is shared between threads.
#pragma once

#include "cpu/kernels/gated_tile.h"
#include "cpu/kernels/linear_column_steps.h"
#include "cpu/kernels/linear_row_steps.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// A panel is [steps][pitch] numbers, where pitch is the channels rounded up to whole vectors.
template <typename T>
class GatedColumns : public GatedEngine<T, GatedColumns<T>> {
    using Base = GatedEngine<T, GatedColumns<T>>;
    using Base::block_;
    using Base::channels_;
    using Base::p_;
    using Base::w_;

  public:
    GatedColumns(const LinearCall& p, const LinearBlock& block, GatedWork<T>& work)
        : Base(p, block, work), pitch_(Base::round_to_vectors(channels_)) {
        if (pitch_ == channels_) return;
        for (Panel<T>* panel : {&w_.input, &w_.gate, &w_.second_gate, &w_.input_gate, &w_.output_gate, &w_.grad_output,
                                &w_.states, &w_.previous})
            for (int64_t k = 0; k < tile_steps(); ++k)
                for (int64_t l = channels_; l < pitch_; ++l) panel->own[k * pitch_ + l] = 0;
        for (T* state : {w_.carry, w_.local, w_.power})
            for (int64_t l = channels_; l < pitch_; ++l) state[l] = 0;
        Base::one(w_.product, pitch_);
    }

    int64_t tile_steps() const { return pitch_ < Base::tile_numbers ? Base::tile_numbers / pitch_ : 1; }

    void apply(const Row& row, int64_t i, int64_t n, bool write) {
        const TileOf t = this->tile(row, i, n, 0);
        this->before(t, write);
        Tile steps = open(t);
        steps.carry = w_.carry;
        if (write)
            steps.y = walked(t, w_.h);
        else
            steps.y = {w_.h, 0};
        if (!p_.backward)
            columns_forward<false>(steps);
        else
            columns_backward<false, false, false>(steps);
        if (!write) return;
        if (p_.backward)
            this->after_backward(t);
        else
            this->after_forward(t);
    }

    bool summarise(const Row& row, int64_t i, int64_t n) {
        const TileOf t = this->tile(row, i, n, 0);
        this->before(t, false);
        Tile steps = open(t);
        steps.carry = w_.local;
        steps.product = w_.product;
        steps.power = w_.power;
        return p_.backward ? columns_summarise<false, true>(steps) : columns_summarise<false, false>(steps);
    }

    Span place(const TileOf&, int64_t k, int64_t count) const { return {k * pitch_, count, pitch_, pitch_, 0, 1, {}}; }
    Ahead ahead(const TileOf& t, int64_t k, const Tensor& of) const {
        const int64_t bytes = bytes_of(of.number);
        return {address(of, t.row.batch, t.time + k + this->walking_step() * t.n, block_.c0), of.time * bytes,
                of.channels * bytes};
    }
    bool in_place(const TileOf& t, const Tensor& from) const {
        return same_number<T>(from.number) && from.channels == 1 && pitch_ == channels_ &&
               (t.n == 1 || from.time == pitch_);
    }
    bool writes_in_place(const TileOf& t, const Tensor& to) const { return in_place(t, to); }
    void copy(const TileOf& t, const Tensor& from, T* to, int64_t skip, int64_t shift, int64_t count) const {
        load_panel(to + skip * pitch_, pitch_, from.number,
                   address(from, t.row.batch, t.time + skip + shift, block_.c0),
                   {count, from.time, channels_, from.channels, 1});
    }
    void store(const TileOf& t, const Tensor& to, const T* panel) const {
        store_panel(panel, pitch_, to.number, address(to, t.row.batch, t.time, block_.c0),
                    {t.n, to.time, channels_, to.channels, 1}, p_.stream_stores);
    }
    // The numbers of a tile are added in T, and the sums of tiles in double. For each channel w_.sums holds the sum by
    // the rate and then the sum by the bias.
    void add_sums(const TileOf& t) const {
        constexpr int64_t width = Simd<T>::width;
        for (int64_t l = 0; l < pitch_; l += width) {
            Two<T> sums{};
            for (int64_t k = 0; k < t.n; ++k) {
                sums.odd += cpu::FLASHSCAN_ISA::load(w_.grad_gate.own + k * pitch_ + l);
                if (p_.parts.has_param()) sums.even += cpu::FLASHSCAN_ISA::load(w_.grad_rate + k * pitch_ + l);
            }
            sums.even *= cpu::FLASHSCAN_ISA::load(w_.rate_by_param + l);
            add_in_double<T>(w_.sums + 2 * l, low_half(sums));
            add_in_double<T>(w_.sums + 2 * l + width, high_half(sums));
        }
    }

  private:
    using Tile = ColumnTile<T, Own<T>, Own<T>>;

    // The panel as a view whose step 0 is the first step walked.
    View<T> walked(const TileOf& t, T* panel) const {
        if (p_.ascending) return {panel, pitch_};
        return {panel + (t.n - 1) * pitch_, -pitch_};
    }
    Tile open(const TileOf& t) const {
        Tile steps{};
        steps.steps = t.n;
        steps.lanes = pitch_;
        steps.x = walked(t, this->recurrence_input());
        steps.gate = walked(t, w_.a);
        steps.reset = reset_at(p_, t.row, p_.ascending ? t.time : t.time + t.n - 1);
        steps.reset_step = this->walking_step();
        return steps;
    }

    int64_t pitch_;
};

// A panel is the steps of one channel.
template <typename T>
class GatedRows : public GatedEngine<T, GatedRows<T>> {
    using Base = GatedEngine<T, GatedRows<T>>;
    using Base::block_;
    using Base::channels_;
    using Base::p_;
    using Base::w_;
    static constexpr int64_t most = Base::tile_numbers;

  public:
    GatedRows(const LinearCall& p, const LinearBlock& block, GatedWork<T>& work) : Base(p, block, work) {}

    // Each channel is walked to the end of the range before the next begins.
    static int64_t tile_steps() { return int64_t(1) << 62; }

    void apply(const Row& row, int64_t i, int64_t n, bool write) {
        for_tiles(row, i, n, [&](const TileOf& t) {
            this->before(t, write);
            Tile steps = open(t);
            steps.carry = w_.carry[t.c];
            if (write) steps.y = w_.h;
            if (p_.backward)
                p_.ascending ? rows_backward<false>(steps) : rows_backward<true>(steps);
            else
                p_.ascending ? rows_forward<false>(steps) : rows_forward<true>(steps);
            w_.carry[t.c] = steps.carry;
            if (!write) return;
            if (p_.backward)
                this->after_backward(t);
            else
                this->after_forward(t);
        });
    }

    bool summarise(const Row& row, int64_t i, int64_t n) {
        bool any = false;
        for_tiles(row, i, n, [&](const TileOf& t) {
            this->before(t, false);
            Tile steps = open(t);
            steps.carry = w_.local[t.c], steps.product = w_.product[t.c], steps.power = w_.power[t.c];
            if (p_.backward)
                p_.ascending ? rows_summarise<false, true>(steps) : rows_summarise<true, true>(steps);
            else
                p_.ascending ? rows_summarise<false, false>(steps) : rows_summarise<true, false>(steps);
            w_.local[t.c] = steps.carry, w_.product[t.c] = steps.product, w_.power[t.c] = steps.power;
            any = any || steps.any_reset;
        });
        return any;
    }

    Span place(const TileOf& t, int64_t k, int64_t count) const { return {k, 1, count, 0, t.c, 0, {}}; }
    Ahead ahead(const TileOf& t, int64_t k, const Tensor& of) const {
        const int64_t next = t.time + k + (p_.ascending ? most : -most), bytes = bytes_of(of.number);
        return {address(of, t.row.batch, next, block_.c0 + t.c), 0, of.time * bytes};
    }
    // Needs whole vectors of steps: those of a run of steps may reach past the tile (see for_runs).
    bool in_place(const TileOf& t, const Tensor& from) const {
        const bool runs_fit = !t.flagged && t.start <= 0 && (t.start < 0 || t.n > Simd<T>::width);
        return same_number<T>(from.number) && from.time == 1 && t.n % Simd<T>::width == 0 && runs_fit;
    }
    // Vectors of runs that are not whole would overlap.
    bool writes_in_place(const TileOf& t, const Tensor& to) const { return t.start < 0 && in_place(t, to); }
    // Fills the numbers past the steps, which the last vector reads too, with 0.
    void copy(const TileOf& t, const Tensor& from, T* to, int64_t skip, int64_t shift, int64_t count) const {
        if (count > 0)
            load_panel(to + skip, count, from.number,
                       address(from, t.row.batch, t.time + skip + shift, block_.c0 + t.c), {1, 0, count, from.time, 1});
        for (int64_t k = skip + count; k < Base::round_to_vectors(skip + count + 1); ++k) to[k] = 0;
    }
    void store(const TileOf& t, const Tensor& to, const T* panel) const {
        store_panel(panel, t.n, to.number, address(to, t.row.batch, t.time, block_.c0 + t.c), {1, 0, t.n, to.time, 1},
                    p_.stream_stores);
    }
    void add_sums(const TileOf& t) const {
        w_.sums[2 * t.c + 1] += add_up(w_.grad_gate.own, t.n, 1);
        if (p_.parts.has_param())
            w_.sums[2 * t.c] += add_up(w_.grad_rate, t.n, 1) * static_cast<double>(w_.rate_by_param[t.c]);
    }

  private:
    using Tile = RowTile<T, false, Own<T>, Own<T>>;

    template <typename Use>
    void for_tiles(const Row& row, int64_t i, int64_t n, Use use) const {
        for (int64_t next = 0; next < channels_; ++next) {
            const int64_t c = p_.ascending ? next : channels_ - 1 - next;
            for (int64_t k = 0; k < n; k += most) {
                const int64_t steps = k + most < n ? most : n - k;
                use(this->tile(row, i + k, steps, c));
            }
        }
    }
    Tile open(const TileOf& t) const {
        Tile steps{};
        steps.steps = t.n;
        steps.x = this->recurrence_input();
        steps.gate = w_.a;
        steps.reset = reset_at(p_, t.row, t.time);
        return steps;
    }
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
