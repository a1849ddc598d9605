// SPDX-License-Identifier: Apache-2.0
// Gated layers: tiles of a block of channels. A tile's tensors are taken as panels, copied once unless they lie in memory
// as a panel does; the stages of gated_stages.h make a and x of them, the steps of the linear recurrence
// (linear_column_steps.h, linear_row_steps.h) walk the panels, and further stages make what is stored. Every named array
// moves once; in a chain of chunks what the recurrence needs moves twice.
//
// Two engines, as in the linear recurrence: columns, with vectors across channels, and rows, with vectors along time, one
// channel after the other. Steps lie in panels in ascending time.
#pragma once

#include "cpu/kernels/gated_stages.h"
#include "cpu/kernels/linear_column_steps.h"
#include "cpu/kernels/linear_row_steps.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// Where a tile lies: steps [i, i + n) in walking order of a row, which are the times [time, time + n), and channels from
// `c` on in a block. `flagged`: the memory of a worker has flags of the steps.
struct TileOf {
    const Row& row;
    int64_t i, n, time, c;
    bool flagged;
};

template <typename T>
class GatedTiles {
  public:
    using Memory = GatedWork<T>;
    int64_t lanes() const { return channels_; }
    static void one(T* product, int64_t lanes) {
        for (int64_t l = 0; l < lanes; ++l) product[l] = T(1);
    }

  protected:
    // Numbers of a panel that a tile fills where a step has less.
    static constexpr int64_t tile_numbers = 4096 / int64_t(sizeof(T));
    enum Flag : uint8_t {
        fresh = 1,   // m = 1
        dropped = 2  // the state before is not carried on
    };

    GatedTiles(const LinearCall& p, const LinearBlock& block, Memory& work)
        : p_(static_cast<const GatedCall&>(p)), block_(block), w_(work), channels_(block.c1 - block.c0) {
        load_channels(w_.bias, p_.bias, T(0));
        load_channels(w_.rate, p_.param, T(0));
        for (int64_t c = 0; c < channels_ && p_.param.data != nullptr; ++c) {
            const auto rate = gated::rate_of<T>(p_.parts.decay, w_.rate[c], static_cast<T>(p_.decay_rate));
            w_.rate[c] = rate.value, w_.rate_by_param[c] = rate.slope;
        }
        // Whole vectors of channels are computed, and spare ones have gates of 1 or less.
        const bool by_value = p_.parts.decay == Decay::value;
        for (int64_t c = channels_; c < round_to_vectors(channels_); ++c)
            w_.bias[c] = by_value ? T(1) : T(0), w_.rate[c] = 0;
    }

    static int64_t round_to_vectors(int64_t n) { return (n + Simd<T>::width - 1) / Simd<T>::width * Simd<T>::width; }

    bool wants_gate_gradients() const {
        return p_.grad_gates.data != nullptr || p_.grad_second_gate.data != nullptr || p_.grad_gate.data != nullptr;
    }
    bool wants_input_gradients() const { return p_.grad_input.data != nullptr || p_.grad_input_gate.data != nullptr; }

    // Fills flags, one for each step of the tile, with what is special about it; returns whether anything is.
    bool flag_steps(const TileOf& t) const {
        const uint8_t* reset = reset_at(p_, t.row, t.time);
        // The recurrence's first step is the walk's last one in backward.
        const int64_t first = p_.backward ? t.row.steps() - 1 : 0;
        const bool starts = p_.starts_with_one && first >= t.i && first < t.i + t.n;
        if (reset == nullptr && !starts) return false;
        uint8_t any = starts ? fresh : 0;
        const uint8_t at_reset = p_.parts.first_step ? fresh | dropped : dropped;
        for (int64_t k = 0; k < t.n; ++k) {
            w_.flags[k] = reset != nullptr && reset[k] != 0 ? at_reset : uint8_t(0);
            any = uint8_t(any | w_.flags[k]);
        }
        if (starts) w_.flags[p_.backward == p_.ascending ? t.n - 1 : 0] |= fresh;
        return any != 0;
    }
    // Steps [i, i + n) in walking order of a row, of channels from `c` on.
    TileOf tile(const Row& row, int64_t i, int64_t n, int64_t c) const {
        TileOf t{row, i, n, row.time(p_, p_.ascending ? i : i + n - 1), c, false};
        t.flagged = flag_steps(t);
        return t;
    }
    // From one step of the walk to the next, in time.
    int64_t walking_step() const { return p_.ascending ? 1 : -1; }

    // Calls use(k, count, flags) for runs of steps of a tile that are alike.
    template <typename Use>
    void for_runs(const TileOf& t, Use use) const {
        if (!t.flagged) return use(int64_t(0), t.n, uint8_t(0));
        for (int64_t k = 0; k < t.n;) {
            int64_t end = k + 1;
            while (end < t.n && w_.flags[end] == w_.flags[k]) ++end;
            use(k, end - k, w_.flags[k]);
            k = end;
        }
    }
    Scale scale_of(uint8_t flags) const { return (flags & fresh) != 0 ? Scale::one : p_.parts.scale; }

    GatedCall const& p_;
    const LinearBlock& block_;
    Memory& w_;
    int64_t channels_;

  private:
    void load_channels(T* to, const Tensor& from, T missing) const {
        if (from.data == nullptr) {
            for (int64_t c = 0; c < channels_; ++c) to[c] = missing;
            return;
        }
        load_panel(to, channels_, from.number, address(from, 0, 0, block_.c0), {1, 0, channels_, from.channels, 1});
    }
};

// An engine: Shape says how a tile lies in panels.
//
//     in_place(tile, tensor)                                      whether memory has a tile as a panel does
//     copy(tile, tensor, to, skip, shift, count)                  `count` steps from the tile's (skip + shift)-th on, to
//                                                                 the skip-th of a panel
//     store(tile, tensor, panel)                                  from a panel to memory
//     place(tile, k, count)                                       steps of a tile as numbers of panels
//     ahead(tile, k, tensor)                                      what the next tile has in place of those from k on
template <typename T, typename Shape>
class GatedEngine : public GatedTiles<T> {
  protected:
    using Base = GatedTiles<T>;
    using Base::Base;
    using Base::p_;
    using Base::w_;

    Shape& shape() { return static_cast<Shape&>(*this); }

    // Steps [k, k + count) of a tile for a stage that takes two tensors, of which the second may be missing.
    Span span(const TileOf& t, int64_t k, int64_t count, const Tensor& one, const Tensor& two) {
        Span s = shape().place(t, k, count);
        s.ahead[0] = shape().ahead(t, k, one);
        s.ahead[1] = two.data == nullptr ? s.ahead[0] : shape().ahead(t, k, two);
        return s;
    }

    // The tile of a tensor, `shift` steps later.
    void load(const TileOf& t, const Tensor& from, Panel<T>& panel, int64_t shift = 0) {
        if (shape().in_place(t, from)) {
            panel.at = reinterpret_cast<const T*>(address(from, t.row.batch, t.time + shift, this->block_.c0 + t.c));
            return;
        }
        panel.at = panel.own;
        shape().copy(t, from, panel.own, 0, shift, t.n);
    }
    // The state before each step, which is what backward meets next.
    void load_previous(const TileOf& t) {
        const int64_t shift = this->walking_step(), skip = shift < 0 ? 1 : 0;
        if (t.i + t.n < t.row.steps()) return load(t, p_.states, w_.previous, shift);
        w_.previous.at = w_.previous.own;
        shape().copy(t, p_.states, w_.previous.own, skip, shift, t.n - 1);
        const T* state = reinterpret_cast<const T*>(p_.first_state);
        if (state != nullptr) state += t.row.index * p_.channels + this->block_.c0 + t.c;
        const Span s = shape().place(t, skip == 1 ? 0 : t.n - 1, 1);
        const int64_t lanes = s.channel_step == 0 ? 1 : this->channels_;
        for (int64_t l = 0; l < lanes; ++l) w_.previous.own[s.first + l] = state == nullptr ? T(0) : state[l];
    }
    // What the recurrence takes for x.
    T* recurrence_input() const {
        return p_.backward && !p_.parts.has_output_gate() ? const_cast<T*>(w_.grad_output.at) : w_.x;
    }

    // a and x of a tile; x is the gradient of h in backward.
    void before(const TileOf& t, bool slopes) {
        const bool second = p_.parts.has_second_gate();
        load(t, p_.gates, w_.gate);
        if (second) load(t, p_.second_gate, w_.second_gate);
        if (!p_.backward) {
            load(t, p_.input, w_.input);
            if (p_.parts.has_input_gate()) load(t, p_.input_gate, w_.input_gate);
        } else {
            load(t, p_.grad_output, w_.grad_output);
            if (p_.parts.has_output_gate()) {
                load(t, p_.output_gate, w_.output_gate);
                load(t, p_.states, w_.states);
            }
        }
        this->for_runs(t, [&](int64_t k, int64_t count, uint8_t flags) {
            const Scale scale = this->scale_of(flags);
            const Span gates = span(t, k, count, p_.gates, p_.second_gate);
            if (slopes)
                run_decay<true>(p_, w_, gates, scale);
            else
                run_decay<false>(p_, w_, gates, scale);
            if (!p_.backward)
                run_value(p_, w_, span(t, k, count, p_.input, p_.input_gate), scale != Scale::one);
            else
                run_epilogue_gradient(p_, w_, span(t, k, count, p_.grad_output, p_.output_gate));
        });
    }

    void after_forward(const TileOf& t) {
        if (!p_.parts.has_output_gate()) return shape().store(t, p_.output, w_.h);
        load(t, p_.output_gate, w_.output_gate);
        run_epilogue(p_, w_, span(t, 0, t.n, p_.output_gate, p_.output_gate));
        shape().store(t, p_.output, w_.y);
        if (p_.states.data != nullptr) shape().store(t, p_.states, w_.h);
    }

    // g of the tile is in h.
    void after_backward(const TileOf& t) {
        const bool gates = this->wants_gate_gradients(), keeps = p_.parts.keeps_input();
        const bool inputs = keeps && (this->wants_input_gradients() || (gates && p_.parts.scale != Scale::one));
        if (inputs) {
            load(t, p_.input, w_.input);
            if (p_.parts.has_input_gate()) load(t, p_.input_gate, w_.input_gate);
        }
        if (gates) load_previous(t);
        this->for_runs(t, [&](int64_t k, int64_t count, uint8_t flags) {
            const Scale scale = this->scale_of(flags);
            if (inputs) run_input_gradient(p_, w_, span(t, k, count, p_.input, p_.input_gate), scale != Scale::one);
            if (gates)
                run_gate_gradient(p_, w_, span(t, k, count, p_.states, p_.grad_output), scale,
                                  (flags & Base::dropped) == 0);
        });
        const auto put = [&](const Tensor& to, T* panel) {
            if (to.data != nullptr) shape().store(t, to, panel);
        };
        put(p_.grad_input, keeps ? w_.grad_input : w_.h);
        put(p_.grad_input_gate, w_.grad_input_gate);
        put(p_.grad_gates, w_.grad_gate);
        put(p_.grad_second_gate, w_.grad_second);
        put(p_.grad_output_gate, w_.grad_output_gate);
        if (p_.grad_gate.data != nullptr) shape().add_sums(t);
    }
};

// Vectors across channels.
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
        this->before(t, write && p_.backward && this->wants_gate_gradients());
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
    void copy(const TileOf& t, const Tensor& from, T* to, int64_t skip, int64_t shift, int64_t count) const {
        load_panel(to + skip * pitch_, pitch_, from.number,
                   address(from, t.row.batch, t.time + skip + shift, block_.c0),
                   {count, from.time, channels_, from.channels, 1});
    }
    void store(const TileOf& t, const Tensor& to, const T* panel) const {
        store_panel(panel, pitch_, to.number, address(to, t.row.batch, t.time, block_.c0),
                    {t.n, to.time, channels_, to.channels, 1}, p_.stream_stores);
    }
    // A tile's numbers are added in T, tiles in double. Of a channel's two sums that by the rate comes first.
    void add_sums(const TileOf& t) const {
        constexpr int64_t width = Simd<T>::width;
        for (int64_t l = 0; l < pitch_; l += width) {
            Two<T> sums{};
            for (int64_t k = 0; k < t.n; ++k) {
                sums.odd += cpu::FLASHSCAN_ISA::load(w_.grad_gate + k * pitch_ + l);
                if (p_.parts.has_param()) sums.even += cpu::FLASHSCAN_ISA::load(w_.grad_rate + k * pitch_ + l);
            }
            sums.even *= cpu::FLASHSCAN_ISA::load(w_.rate_by_param + l);
            add_in_double<T>(w_.sums + 2 * l, low_half(sums));
            add_in_double<T>(w_.sums + 2 * l + width, high_half(sums));
        }
    }

  private:
    using Tile = ColumnTile<T, Own<T>, Own<T>>;

    // A panel in walking order.
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

// Vectors along time.
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

    // Channels are walked one after the other, each as far as possible.
    static int64_t tile_steps() { return int64_t(1) << 62; }

    void apply(const Row& row, int64_t i, int64_t n, bool write) {
        for_tiles(row, i, n, [&](const TileOf& t) {
            this->before(t, write && p_.backward && this->wants_gate_gradients());
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
    // The vectors of a run of steps may reach past the tile.
    bool in_place(const TileOf& t, const Tensor& from) const {
        return same_number<T>(from.number) && from.time == 1 && t.n % Simd<T>::width == 0 && !t.flagged;
    }
    // What vectors read past the steps becomes 0.
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
        w_.sums[2 * t.c + 1] += add_up(w_.grad_gate, t.n, 1);
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
