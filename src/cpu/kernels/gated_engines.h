// SPDX-License-Identifier: Apache-2.0
// Gated layers: two engines, which walk the panels of gated_tile.h by the steps of the linear recurrence. GatedColumns
// puts neighbouring channels into the lanes of a vector. GatedRows puts consecutive steps of one channel into them, and
// walks one channel after the other. One thread owns all channels of a block, and nothing is shared between threads.
#pragma once

#include "cpu/kernels/gated_layer_rows.h"
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
    using Base::layer_;
    using Base::p_;
    using Base::w_;

  public:
    GatedColumns(const LinearCall& p, const LinearBlock& block, GatedWork<T>& work)
        : Base(p, block, work),
          pitch_(Base::round_to_vectors(channels_)),
          panel_steps_(panel_steps_of(pitch_)),
          long_tiles_(layer_ < gated_layer_count && all_in_place()) {
        if (this->wants_sums())
            for (int64_t l = 0; l < pitch_; ++l) w_.gate_sum[l] = w_.rate_sum[l] = 0;
        if (pitch_ == channels_) return;
        for (Panel<T>* panel : {&w_.input, &w_.gate, &w_.second_gate, &w_.input_gate, &w_.output_gate, &w_.grad_output,
                                &w_.states, &w_.previous})
            for (int64_t k = 0; k < panel_steps_; ++k)
                for (int64_t l = channels_; l < pitch_; ++l) panel->own[k * pitch_ + l] = 0;
        for (T* state : {w_.carry, w_.local, w_.power})
            for (int64_t l = channels_; l < pitch_; ++l) state[l] = 0;
        Base::one(w_.product, pitch_);
    }

    // Panels hold panel_steps_ steps. Where no panel is used, a tile may have more.
    int64_t tile_steps() const { return long_tiles_ ? summed_steps : panel_steps_; }

    void apply(const Row& row, int64_t i, int64_t n, bool write) {
        for (int64_t k = 0, steps; k < n; k += steps) {
            steps = write && long_tiles_ ? steps_of_layer(row, i + k, n - k) : least(panel_steps_, n - k);
            apply_tile(this->tile(row, i + k, steps, 0), write);
        }
        if (write && this->wants_sums() && ((i + n) % summed_steps == 0 || i + n == row.steps())) fold_sums();
    }

    bool summarise(const Row& row, int64_t i, int64_t n) {
        bool any = false;
        for (int64_t k = 0; k < n; k += panel_steps_) {
            const TileOf t = this->tile(row, i + k, least(panel_steps_, n - k), 0);
            this->before(t, false);
            Tile steps = open(t);
            steps.carry = w_.local;
            steps.product = w_.product;
            steps.power = w_.power;
            any = (p_.backward ? columns_summarise<false, true>(steps) : columns_summarise<false, false>(steps)) || any;
        }
        return any;
    }

    Span place(const TileOf&, int64_t k, int64_t count) const { return {k * pitch_, count, pitch_, pitch_, 0, 1, {}}; }
    Ahead ahead(const TileOf& t, int64_t k, const Tensor& of) const {
        const int64_t bytes = bytes_of(of.number), steps = least(panel_steps_, t.n);
        return {address(of, t.row.batch, t.time + k + this->walking_step() * steps, block_.c0), of.time * bytes,
                of.channels * bytes};
    }
    bool in_place(const TileOf& t, const Tensor& from) const {
        return lies_as_step(from) && (t.n == 1 || from.time == pitch_of(t));
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
    // Adds the gradients of a tile as the loops of gated_layers.h do, from the first step walked on.
    void add_sums(const TileOf& t) const {
        for (int64_t k = 0; k < t.n; ++k) {
            const int64_t step = (p_.ascending ? k : t.n - 1 - k) * pitch_;
            for (int64_t l = 0; l < pitch_; l += Simd<T>::width) {
                put_lanes(w_.gate_sum, l, take(w_.gate_sum, l) + take(w_.grad_gate.own, step + l));
                if (p_.parts.has_param())
                    put_lanes(w_.rate_sum, l, take(w_.rate_sum, l) + take(w_.grad_rate, step + l));
            }
        }
    }
    void run_layer(const LayerTile& tile) const {
        if (!p_.backward)
            return with_layer(layer_, [&]<int K>() { layer_forward<K>(w_, tile, p_.states.data != nullptr); });
        const T limit = static_cast<T>(p_.sqrt_slope_limit);
        with_layer(layer_, [&]<int K>() { layer_backward<K>(w_, tile, limit, this->wants_sums()); });
    }

  private:
    using Tile = ColumnTile<T, Own<T>, Own<T>>;

    static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

    // For GRAD|PARAM and GRAD|BIAS the gradients of so many steps are added in T, and these sums in double. Chunks and
    // tiles end at multiples of them, so that the order is the same in blocks of any width.
    static constexpr int64_t summed_steps = 64;
    static int64_t panel_steps_of(int64_t pitch) {
        int64_t steps = summed_steps;
        while (steps > 1 && steps * pitch > Base::tile_numbers) steps /= 2;
        return steps;
    }
    // For each channel w_.sums holds the sum by the rate and then the sum by the bias.
    void fold_sums() const {
        constexpr int64_t width = Simd<T>::width;
        for (int64_t l = 0; l < pitch_; l += width) {
            const Two<T> sums{(take(w_.rate_sum, l) * take(w_.rate_by_param, l)).v, take(w_.gate_sum, l).v};
            add_in_double<T>(w_.sums + 2 * l, low_half(sums));
            add_in_double<T>(w_.sums + 2 * l + width, high_half(sums));
            put_lanes(w_.gate_sum, l, Lanes<T>(T(0)));
            put_lanes(w_.rate_sum, l, Lanes<T>(T(0)));
        }
    }

    bool lies_as_step(const Tensor& t) const {
        return same_number<T>(t.number) && t.channels == 1 && pitch_ == channels_;
    }
    // The distance of steps in a tile: steps of a block lie in tensors as far apart as those of all channels.
    int64_t pitch_of(const TileOf& t) const { return t.n > panel_steps_ ? p_.gates.time : pitch_; }
    // Whether the loops of gated_layers.h can read and write nothing but tensors where they lie.
    bool all_in_place() const {
        const GatedParts& parts = p_.parts;
        const auto fit = [&](bool used, const Tensor& t) {
            return !used || (t.data != nullptr && lies_as_step(t) && t.time == p_.gates.time);
        };
        const bool read = fit(true, p_.input) && fit(true, p_.gates) && fit(parts.has_second_gate(), p_.second_gate) &&
                          fit(parts.has_input_gate(), p_.input_gate) && fit(parts.has_output_gate(), p_.output_gate);
        if (!read || p_.reset != nullptr) return false;
        if (!p_.backward) return fit(true, p_.output) && fit(p_.states.data != nullptr, p_.states);
        return fit(true, p_.states) && fit(true, p_.grad_output) && fit(true, p_.grad_input) &&
               fit(true, p_.grad_gates) && fit(parts.has_second_gate(), p_.grad_second_gate) &&
               fit(parts.has_input_gate(), p_.grad_input_gate) && fit(parts.has_output_gate(), p_.grad_output_gate);
    }
    // How many of n steps from i on are one tile. One step of a row is a tile of its own: in forward the first, if its
    // m is 1; in backward the last one walked, as the state before it is not in `states`.
    int64_t steps_of_layer(const Row& row, int64_t i, int64_t n) const {
        const int64_t apart = p_.backward ? row.steps() - 1 : p_.starts_with_one ? 0 : row.steps();
        return i == apart ? 1 : i < apart ? least(n, apart - i) : n;
    }

    void apply_tile(const TileOf& t, bool write) {
        if (t.start < 0 && this->takes_layer(t, write)) return apply_layer(t);
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

    void apply_layer(const TileOf& t) {
        LayerTile tile{};
        tile.steps = t.n, tile.lanes = pitch_, tile.pitch = pitch_of(t), tile.down = !p_.ascending;
        if (p_.backward) this->load_previous(t);
        Base::apply_layer(t, tile);
    }

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

    int64_t pitch_, panel_steps_;
    bool long_tiles_;
};

// A panel is the steps of one channel.
template <typename T>
class GatedRows : public GatedEngine<T, GatedRows<T>> {
    using Base = GatedEngine<T, GatedRows<T>>;
    using Base::block_;
    using Base::channels_;
    using Base::layer_;
    using Base::p_;
    using Base::w_;
    static constexpr int64_t most = Base::tile_numbers;

  public:
    GatedRows(const LinearCall& p, const LinearBlock& block, GatedWork<T>& work) : Base(p, block, work) {}

    // Each channel is walked to the end of the range before the next begins.
    static int64_t tile_steps() { return int64_t(1) << 62; }

    void apply(const Row& row, int64_t i, int64_t n, bool write) {
        for_tiles(row, i, n, [&](const TileOf& t) {
            if (this->takes_layer(t, write)) return apply_layer(t);
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
        // Backward reads tensors in place block by block, and not the whole tile at once.
        const int64_t steps = p_.backward && same_number<T>(of.number) ? most / 2 : most;
        const int64_t next = t.time + k + this->walking_step() * steps, bytes = bytes_of(of.number);
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
    void run_layer(const LayerTile& tile) const {
        Tile steps{};
        steps.steps = tile.steps;
        steps.x = this->recurrence_input();
        steps.gate = w_.a;
        steps.y = w_.h;
        steps.carry = w_.carry[tile.channel];
        const bool kept = p_.states.data != nullptr;
        const T limit = static_cast<T>(p_.sqrt_slope_limit);
        double* const sums = this->wants_sums() ? w_.sums + 2 * tile.channel : nullptr;
        with_layer(layer_, [&]<int K>() {
            if (!p_.backward)
                tile.down ? layer_row_forward<K, true>(w_, steps, tile, kept)
                          : layer_row_forward<K, false>(w_, steps, tile, kept);
            else
                tile.down ? layer_row_backward<K, true>(w_, steps, tile, limit, sums)
                          : layer_row_backward<K, false>(w_, steps, tile, limit, sums);
        });
        w_.carry[tile.channel] = steps.carry;
    }
    void add_sums(const TileOf& t) const {
        w_.sums[2 * t.c + 1] += add_up(w_.grad_gate.own, t.n, 1);
        if (p_.parts.has_param())
            w_.sums[2 * t.c] += add_up(w_.grad_rate, t.n, 1) * static_cast<double>(w_.rate_by_param[t.c]);
    }

  private:
    using Tile = RowTile<T, false, Own<T>, Own<T>>;

    void apply_layer(TileOf t) {
        LayerTile tile{};
        tile.steps = t.n, tile.down = !p_.ascending;
        tile.channel = t.c, tile.fresh = t.start, tile.edge = -1;
        // The loops handle the step `fresh` themselves, so tensors may be read in place.
        t.start = -1;
        if (p_.backward) tile.edge = load_previous_layer(t);
        Base::apply_layer(t, tile);
    }
    // Loads the states before the steps, and returns the first step of the vector whose states are in w_.previous.own,
    // or -1.
    int64_t load_previous_layer(const TileOf& t) {
        constexpr int64_t width = Simd<T>::width;
        if (t.i + t.n < t.row.steps() || !in_place(t, p_.states)) {
            this->load_previous(t);
            return -1;
        }
        const int64_t shift = this->walking_step(), edge = shift < 0 ? 0 : t.n - width,
                      first = shift < 0 ? 0 : width - 1;
        const T* states = reinterpret_cast<const T*>(address(p_.states, t.row.batch, t.time, block_.c0 + t.c));
        const T* state = reinterpret_cast<const T*>(p_.first_state);
        if (state != nullptr) state += t.row.index * p_.channels + block_.c0 + t.c;
        for (int64_t k = 0; k < width; ++k)
            w_.previous.own[k] = k != first ? states[edge + k + shift] : state != nullptr ? *state : T(0);
        w_.previous.at = states + shift;
        return edge;
    }

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
