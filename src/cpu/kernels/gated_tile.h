// SPDX-License-Identifier: Apache-2.0
// Gated layers: tiles of a block of channels, which one thread owns. A tile's tensors are read as panels, which are
// copies unless a tensor has the layout and dtype of a panel. The stages of gated_stages.h compute a and x from them,
// an engine of gated_engines.h walks the panels by the steps of the linear recurrence, and further stages compute what
// is stored. Every tensor moves once; where a row is cut into chunks that several threads walk, what the recurrence
// reads moves twice. Steps lie in panels in ascending time.
#pragma once

#include "cpu/kernels/gated_layers.h"

namespace flashscan::cpu::FLASHSCAN_ISA {

// A tile has the steps [i, i + n) of a row in walking order, which are the times [time, time + n), and the channels of
// a block from `c` on. `start` is the step of the panel at which the row's sequence starts with m = 1, or -1. Where the
// tile is `flagged`, as some of its steps are reset, GatedWork::flags holds the flags of each of them.
struct TileOf {
    const Row& row;
    int64_t i, n, time, c, start;
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
    // The most numbers of a panel in a tile of more than one step.
    static constexpr int64_t tile_numbers = 4096 / int64_t(sizeof(T));
    enum Flag : uint8_t {
        fresh = 1,   // m is 1 at this step
        dropped = 2  // a reset drops the state before this step
    };

    GatedTiles(const LinearCall& p, const LinearBlock& block, Memory& work)
        : p_(static_cast<const GatedCall&>(p)),
          block_(block),
          w_(work),
          channels_(block.c1 - block.c0),
          layer_(layer_of(p_.parts)) {
        load_channels(w_.bias, p_.bias, T(0));
        load_channels(w_.rate, p_.param, T(0));
        for (int64_t c = 0; c < channels_ && p_.param.data != nullptr; ++c) {
            const auto rate = gated::rate_of<T>(p_.parts.decay, w_.rate[c], static_cast<T>(p_.decay_rate));
            w_.rate[c] = rate.value, w_.rate_by_param[c] = rate.slope;
        }
        // Whole vectors of channels are computed, and the spare channels need gates of 1 or less.
        const bool by_value = p_.parts.decay == Decay::value;
        for (int64_t c = channels_; c < round_to_vectors(channels_); ++c)
            w_.bias[c] = by_value ? T(1) : T(0), w_.rate[c] = 0;
    }

    static int64_t round_to_vectors(int64_t n) { return (n + Simd<T>::width - 1) / Simd<T>::width * Simd<T>::width; }

    bool wants_gate_gradients() const {
        return p_.grad_gates.data != nullptr || p_.grad_second_gate.data != nullptr || p_.grad_gate.data != nullptr;
    }
    // Whether the gradients of PARAM and BIAS are wanted, which are sums over a row.
    bool wants_sums() const { return p_.backward && p_.grad_gate.data != nullptr; }
    bool wants_input_gradients() const { return p_.grad_input.data != nullptr || p_.grad_input_gate.data != nullptr; }

    // Fills w_.flags for the steps of the tile if any of them is reset; returns whether one is.
    bool flag_steps(const TileOf& t) const {
        const uint8_t* reset = reset_at(p_, t.row, t.time);
        if (reset == nullptr || run_of(reset, t.n, 0) == t.n) return false;
        const uint8_t at_reset = p_.parts.first_step ? fresh | dropped : dropped;
        for (int64_t k = 0; k < t.n; ++k) w_.flags[k] = reset[k] != 0 ? at_reset : uint8_t(0);
        if (t.start >= 0) w_.flags[t.start] |= fresh;
        return true;
    }
    // How many of the `n` bytes at `from` are equal to `value` before the first that is not.
    static int64_t run_of(const uint8_t* from, int64_t n, uint8_t value) {
        constexpr int64_t width = sizeof(uint64_t);
        const uint64_t wanted = value * 0x0101010101010101U;
        int64_t k = 0;
        for (uint64_t word = 0; k + width <= n; k += width) {
            __builtin_memcpy(&word, from + k, width);
            if (word != wanted) break;
        }
        while (k < n && from[k] == value) ++k;
        return k;
    }
    // The step of a tile's panel at which its row starts with m = 1; -1 if it does not, or not in this tile.
    int64_t start_of(const Row& row, int64_t i, int64_t n) const {
        // The first step of the sequence is the last step of the walk in backward.
        const int64_t first = p_.backward ? row.steps() - 1 : 0;
        if (!p_.starts_with_one || first < i || first >= i + n) return -1;
        return p_.backward == p_.ascending ? n - 1 : 0;
    }
    // Steps [i, i + n) in walking order of a row, of channels from `c` on.
    TileOf tile(const Row& row, int64_t i, int64_t n, int64_t c) const {
        TileOf t{row, i, n, row.time(p_, p_.ascending ? i : i + n - 1), c, start_of(row, i, n), false};
        t.flagged = flag_steps(t);
        return t;
    }
    // How much the time changes from one step of the walk to the next.
    int64_t walking_step() const { return p_.ascending ? 1 : -1; }

    // Calls use(first step, number of steps, flags) for each run of steps of a tile that have the same flags.
    template <typename Use>
    void for_runs(const TileOf& t, Use use) const {
        const auto use_some = [&](int64_t k, int64_t end, uint8_t flags) {
            if (k < end) use(k, end - k, flags);
        };
        if (!t.flagged && t.start < 0) return use_some(0, t.n, 0);
        if (!t.flagged) {
            // A vector of steps, before whole vectors: where a panel is the steps of one channel, none reads past its
            // end.
            const int64_t near = t.start > 0 ? t.n : t.n < Simd<T>::width ? t.n : Simd<T>::width;
            use_some(0, t.start, 0);
            use_some(t.start, t.start + 1, fresh);
            use_some(t.start + 1, near, 0);
            return use_some(near, t.n, 0);
        }
        for (int64_t k = 0; k < t.n;) {
            const int64_t end = k + run_of(w_.flags + k, t.n - k, w_.flags[k]);
            use_some(k, end, w_.flags[k]);
            k = end;
        }
    }
    Scale scale_of(uint8_t flags) const { return (flags & fresh) != 0 ? Scale::one : p_.parts.scale; }

    GatedCall const& p_;
    const LinearBlock& block_;
    Memory& w_;
    int64_t channels_;
    int layer_;  // gated_layer_count: the parts have no name

  private:
    void load_channels(T* to, const Tensor& from, T missing) const {
        if (from.data == nullptr) {
            for (int64_t c = 0; c < channels_; ++c) to[c] = missing;
            return;
        }
        load_panel(to, channels_, from.number, address(from, 0, 0, block_.c0), {1, 0, channels_, from.channels, 1});
    }
};

// Both engines do this before and after the walk over a tile. Shape is the engine; it says how a tile lies in panels:
//
//     in_place(tile, tensor)                        whether the tensor's memory can be used as a panel
//     writes_in_place(tile, tensor)                 the same where stages write to it
//     copy(tile, tensor, to, skip, shift, count)    copies `count` steps, from the tile's step skip + shift on, to
//                                                   the panel's steps from `skip` on
//     store(tile, tensor, panel)                    copies a panel to the tensor
//     place(tile, k, count)                         the Span of steps [k, k + count)
//     ahead(tile, k, tensor)                        the Ahead of the steps from k on
//     run_layer(layer tile)                         runs the loop of a layer with a name on the panels
template <typename T, typename Shape>
class GatedEngine : public GatedTiles<T> {
  protected:
    using Base = GatedTiles<T>;
    using Base::Base;
    using Base::layer_;
    using Base::p_;
    using Base::w_;

    Shape& shape() { return static_cast<Shape&>(*this); }

    // The span of steps [k, k + count) of a tile for a stage that reads two tensors, of which the second may be
    // missing.
    Span span(const TileOf& t, int64_t k, int64_t count, const Tensor& one, const Tensor& two) {
        Span s = shape().place(t, k, count);
        s.ahead[0] = shape().ahead(t, k, one);
        s.ahead[1] = two.data == nullptr ? s.ahead[0] : shape().ahead(t, k, two);
        return s;
    }

    // Makes `panel` hold the tile of a tensor, taken `shift` times later.
    void load(const TileOf& t, const Tensor& from, Panel<T>& panel, int64_t shift = 0) {
        if (shape().in_place(t, from)) {
            panel.at = reinterpret_cast<const T*>(address(from, t.row.batch, t.time + shift, this->block_.c0 + t.c));
            return;
        }
        panel.at = panel.own;
        shape().copy(t, from, panel.own, 0, shift, t.n);
    }
    // Loads the state before each step. Backward walks to it next, so it is one walking step further on.
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
    // Makes `panel` the place for a tile of an output, if it is wanted. Where `kept` it is read again from the panel.
    void aim(const TileOf& t, const Tensor& to, OutputPanel<T>& panel, bool kept = false) {
        panel.at = panel.own;
        panel.streamed = false;
        if (to.data == nullptr || kept || !shape().writes_in_place(t, to)) return;
        panel.at = reinterpret_cast<T*>(address(to, t.row.batch, t.time, this->block_.c0 + t.c));
        // A vector is a line of the cache where the tile begins with one and its steps are whole lines apart.
        constexpr uintptr_t line = Simd<T>::width * sizeof(T);
        const bool apart = t.n > 1 && to.time != 1;
        panel.streamed = p_.stream_stores && vector_bytes == 64 && reinterpret_cast<uintptr_t>(panel.at) % line == 0 &&
                         (!apart || static_cast<uintptr_t>(to.time) * sizeof(T) % line == 0);
    }
    // Copies a tile to the output, unless it was computed there.
    void put(const TileOf& t, const Tensor& to, const OutputPanel<T>& panel) {
        if (to.data != nullptr && panel.at == panel.own) shape().store(t, to, panel.own);
    }
    // The panel that the recurrence reads as x. In backward without an epilogue it is the gradient of the output
    // itself.
    T* recurrence_input() const {
        return p_.backward && !p_.parts.has_output_gate() ? const_cast<T*>(w_.grad_output.at) : w_.x;
    }

    // Computes a and x of a tile; in backward x is the gradient of h. Without `write` nothing is stored.
    void before(const TileOf& t, bool write) {
        const bool second = p_.parts.has_second_gate();
        const bool slopes = write && p_.backward && this->wants_gate_gradients();
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
                aim(t, p_.grad_output_gate, w_.grad_output_gate, !write);
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

    // Whether one loop computes all of a tile (gated_layers.h).
    bool takes_layer(const TileOf& t, bool write) const {
        return write && layer_ < gated_layer_count && !t.flagged && (!p_.backward || this->wants_gate_gradients());
    }
    void apply_layer(const TileOf& t, LayerTile tile) {
        const Tensor* const sources[source_count] = {&p_.gates,       &p_.input,       &p_.second_gate, &p_.input_gate,
                                                     &p_.output_gate, &p_.grad_output, &p_.states};
        Panel<T>* const panels[source_count] = {&w_.gate,        &w_.input,       &w_.second_gate, &w_.input_gate,
                                                &w_.output_gate, &w_.grad_output, &w_.states};
        for (int k = 0; k < source_count; ++k) {
            if (!reads(p_.parts, p_.backward, k)) continue;
            tile.ahead[k] = shape().ahead(t, 0, *sources[k]);
            if (k != states_source || p_.parts.has_output_gate()) load(t, *sources[k], *panels[k]);
        }
        if (!p_.backward) return apply_outputs<2>(t, tile, {&p_.output, &p_.states}, {&w_.y, &w_.hidden});
        apply_outputs<5>(
            t, tile, {&p_.grad_input, &p_.grad_input_gate, &p_.grad_gates, &p_.grad_second_gate, &p_.grad_output_gate},
            {&w_.grad_input, &w_.grad_input_gate, &w_.grad_gate, &w_.grad_second, &w_.grad_output_gate});
    }
    template <size_t Count>
    void apply_outputs(const TileOf& t, const LayerTile& tile, const Tensor* const (&tensors)[Count],
                       OutputPanel<T>* const (&panels)[Count]) {
        for (size_t k = 0; k < Count; ++k) aim(t, *tensors[k], *panels[k]);
        shape().run_layer(tile);
        for (size_t k = 0; k < Count; ++k) put(t, *tensors[k], *panels[k]);
    }

    void after_forward(const TileOf& t) {
        if (!p_.parts.has_output_gate()) return shape().store(t, p_.output, w_.h);
        load(t, p_.output_gate, w_.output_gate);
        aim(t, p_.output, w_.y);
        run_epilogue(p_, w_, span(t, 0, t.n, p_.output_gate, p_.output_gate));
        put(t, p_.output, w_.y);
        if (p_.states.data != nullptr) shape().store(t, p_.states, w_.h);
    }

    // Computes and stores the gradients of a tile, whose g is in w_.h.
    void after_backward(const TileOf& t) {
        const bool gates = this->wants_gate_gradients(), keeps = p_.parts.keeps_input();
        const bool inputs = keeps && (this->wants_input_gradients() || (gates && p_.parts.scale != Scale::one));
        if (inputs) {
            load(t, p_.input, w_.input);
            if (p_.parts.has_input_gate()) load(t, p_.input_gate, w_.input_gate);
        }
        if (gates) load_previous(t);
        const bool sums = this->wants_sums();
        if (keeps) aim(t, p_.grad_input, w_.grad_input);
        aim(t, p_.grad_input_gate, w_.grad_input_gate);
        aim(t, p_.grad_gates, w_.grad_gate, sums);
        aim(t, p_.grad_second_gate, w_.grad_second);
        this->for_runs(t, [&](int64_t k, int64_t count, uint8_t flags) {
            const Scale scale = this->scale_of(flags);
            if (inputs) run_input_gradient(p_, w_, span(t, k, count, p_.input, p_.input_gate), scale != Scale::one);
            if (gates)
                run_gate_gradient(p_, w_, span(t, k, count, p_.states, p_.grad_output), scale,
                                  (flags & Base::dropped) == 0);
        });
        if (keeps)
            put(t, p_.grad_input, w_.grad_input);
        else if (p_.grad_input.data != nullptr)
            shape().store(t, p_.grad_input, w_.h);
        put(t, p_.grad_input_gate, w_.grad_input_gate);
        put(t, p_.grad_gates, w_.grad_gate);
        put(t, p_.grad_second_gate, w_.grad_second);
        put(t, p_.grad_output_gate, w_.grad_output_gate);
        if (sums) shape().add_sums(t);
    }
};

}  // namespace flashscan::cpu::FLASHSCAN_ISA
