// SPDX-License-Identifier: Apache-2.0
// A lane's work in one job of backward.cuh: its elements (unit, row) from the last step to the first, with their
// carried gradients in registers, and where they are in the tensors of the call.
#pragma once

#include "cuda/device/ptx/held.cuh"
#include "cuda/rnn/alternating/backward.cuh"
#include "cuda/rnn/fused/element.cuh"
#include "cuda/rnn/fused/team_scatter.cuh"

namespace flashscan::cuda {

// Offsets from a step to the next, and to the words of a pair of gates, which are kept in registers.
template <typename Cell>
struct RnnBackwardPace {
    static constexpr int G = Cell::gates, pairs = (G + 1) / 2;
    int64_t kept, input, output, factor;
    int even;
    int64_t input_gate[pairs], factor_gate[pairs];

    __device__ __forceinline__ RnnBackwardPace(const RnnFusedParams& f, int64_t kept_step)
        : kept(ptx::held(kept_step * sign(f))),
          input(ptx::held(f.p.input_strides.time * sign(f))),
          output(ptx::held(f.p.output_strides.time * sign(f))),
          factor(ptx::held(is_packed(f) ? sign(f) * f.heads * f.p.padded : f.p.rows * f.heads * f.p.padded)),
          even(ptx::held(static_cast<int>(has_even_unit()))) {
#pragma unroll
        for (int pair = 0; pair < pairs; ++pair) {
            input_gate[pair] = ptx::held(mine(pair) * f.p.input_strides.state - (even != 0 ? 0 : 1));
            factor_gate[pair] = ptx::held(mine(pair) * f.p.padded - (even != 0 ? 0 : 1));
        }
    }
    static __device__ __forceinline__ int64_t sign(const RnnFusedParams& f) { return f.p.reverse != 0 ? -1 : 1; }
    // Gates are stored in pairs, in words that hold two neighbouring units: lanes of even units store the first gate of
    // a pair, lanes of odd units the last one.
    static __device__ __forceinline__ constexpr int last_of(int pair) {
        return 2 * pair + 1 < G ? 2 * pair + 1 : 2 * pair;
    }
    __device__ __forceinline__ int mine(int pair) const { return even != 0 ? 2 * pair : last_of(pair); }
    __device__ __forceinline__ bool has_word(int pair) const { return 2 * pair + 1 < G || even != 0; }
};

template <typename X, typename Cell, typename S>
class RnnBackwardJob {
    static constexpr int G = Cell::gates, P = Cell::biases, N = Cell::states, K = Cell::kept, own = S::own;
    static constexpr int pairs = (G + 1) / 2, slopes = Cell::slopes;
    // Whether a step's tensors are loaded one step ahead, because the step is shorter than the latency of its loads.
    static constexpr bool loads_ahead = S::kind != Team::grid || S::cell_warps > 0;
    // Whether tensors are prefetched into L2. For large heads that load ahead, a step is longer than memory's latency.
    static constexpr bool fetches = !loads_ahead || S::depth < 512 * G;
    // Whether a lane passes its own 16-bit halves to the team, through shared memory; words for the stores are made
    // later.
    static constexpr bool puts_halves = S::in_shared && S::planes == 1;
    using Real = typename TeamNumber<X>::Real;
    using Kept = RnnKept<X, Cell>;
    static constexpr int kept = Kept::count;

  public:
    using Pace = RnnBackwardPace<Cell>;

    __device__ __forceinline__ RnnBackwardJob(const RnnFusedParams& f, const Pace& pace, int index, int shift)
        : f_(f), pace_(pace), job_(f, index, shift), limit_(f.clip) {}

    __device__ __forceinline__ const RnnJob<S>& job() const { return job_; }
    __device__ __forceinline__ int first() const { return static_cast<int>(f_.first); }
    __device__ __forceinline__ int end() const { return end(f_, job_); }
    static __device__ __forceinline__ int end(const RnnFusedParams& f, const RnnJob<S>& job) {
        return min(static_cast<int>(f.end), job.steps);
    }
    // Whether the gradients of this launch's first step must be multiplied by R^T too. A cluster always does that, as
    // its barriers count every turn. So does a team that reduce-scatters for several jobs: readers recognise a new
    // value by a bit that alternates with every use of a slot, so that no use may be skipped.
    static __device__ __forceinline__ bool needs_last(const RnnFusedParams& f) {
        return S::kind == Team::cluster || (S::scatters && f.jobs > f.teams) || f.first > 0 ||
               f.p.grad_state_in != nullptr;
    }

    __device__ __forceinline__ void begin(const TeamVectors<S>& vectors) {
        const int step = end() - 1;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i);
            const RnnRowSteps steps(f_, e.row);
            const int64_t t = f_.p.reverse != 0 ? steps.first - step : steps.first + step;
            steps_[i] = e.inside ? steps.count : 0;
            pair_steps_[i] = TeamElement<S>::exist() && e.unit / 2 * 2 < f_.p.dim ? steps.count : 0;
            cut_[i] = false;
            place_[i] = vectors.place(TeamElement<S>(i).row, TeamElement<S>(i).unit);
            grad_output_[i] = static_cast<const X*>(f_.p.grad_output) + e.tensor(f_, f_.p.output_strides, t);
            output_[i] = static_cast<const X*>(f_.p.output) + e.tensor(f_, f_.p.output_strides, t);
            grad_input_[i] = static_cast<X*>(f_.p.grad_input) + e.tensor(f_, f_.p.input_strides, t);
            kept_[i] = static_cast<const float*>(f_.p.kept) + e.kept(f_, job_, kept, t);
            reset_[i] = e.reset(f_, steps.first);
            const int64_t row = is_packed(f_) ? t : (step - f_.first) * f_.p.rows + e.row;
            const int64_t block = row * f_.heads + job_.head;
            factor_[i] = static_cast<X*>(f_.factors) + block * f_.p.padded + e.unit;
            gradient_[i] = static_cast<X*>(f_.gradients) + block * G * f_.p.padded + e.unit;
            load_kept(i, step, keep_[i]);
            if constexpr (loads_ahead) load_step(i, step);
#pragma unroll
            for (int s = 0; s < N; ++s) carry_[i][s] = 0.0F;
#pragma unroll
            for (int j = 0; j < P; ++j) sums_[i][j] = 0.0F;
            through_[i][0] = 0.0F;
            if (f_.end == f_.p.time || !e.inside) continue;
#pragma unroll
            for (int s = 0; s < N; ++s) carry_[i][s] = static_cast<const float*>(f_.p.states)[carried(e, s)];
            if (f_.p.bias_sums != nullptr)
#pragma unroll
                for (int j = 0; j < P; ++j) sums_[i][j] = static_cast<const float*>(f_.p.bias_sums)[carried(e, j)];
        }
        prepare(step);
    }

    // Runs the cells of a step and passes their gradients to the team; `send` is called once they are put, if they are
    // needed.
    template <typename Send>
    __device__ __forceinline__ void hand_step_on(const TeamVectors<S>& vectors, uint32_t turn, int step,
                                                 const Send& send) {
        if (TeamElement<S>::exist()) {
            run_cell();
            hand_on(vectors, turn);
        }
        if (step > first() || needs_last(f_)) send();
        clear_slots(f_, job_, vectors, turn - 1);
    }
    // Receives the gradients that come through R. `product(early, late, sums)` computes them; `early` and `late` are
    // run while it waits.
    template <typename Product>
    __device__ __forceinline__ void take_through(int step, const Product& product) {
        product([&] { store_last(step); }, [&] { prepare(step - 1); }, through_);
    }

    // Stores the gradients of the states before the launch's first step, as GRAD|STATE_IN or for the next launch.
    template <typename Product>
    __device__ __forceinline__ void finish(const Product& product) {
        float through[own][1] = {};
        const auto stores = [&] { store_last(first()); };
        if (needs_last(f_))
            product(
                stores, [] {}, through);
        else
            stores();
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const RnnOwn<S> e(f_, job_, i);
            if (steps_[i] == 0) continue;
            take(i, through[i][0]);
            if (f_.p.bias_sums != nullptr)
#pragma unroll
                for (int j = 0; j < P; ++j) static_cast<float*>(f_.p.bias_sums)[carried(e, j)] = sums_[i][j];
            if (f_.first > 0) {
#pragma unroll
                for (int s = 0; s < N; ++s) static_cast<float*>(f_.p.states)[carried(e, s)] = value_of(carry_[i][s]);
            } else if (f_.p.grad_state_in != nullptr) {
                Real state[N];
                load_states(f_.p, e, f_.p.state_in, state);
                Cell::leave(state, carry_[i]);
                store_states(f_.p, e, f_.p.grad_state_in, carry_[i]);
            }
        }
    }

  private:
    // Does everything of a step that does not depend on the product.
    __device__ __forceinline__ void prepare(int step) {
        if (!TeamElement<S>::exist()) return;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            if constexpr (!loads_ahead) load_step(i, step);
        }
#pragma unroll
        for (int i = 0; i < own; ++i) {
            blocked_[i] = cut_[i] || step >= steps_[i];
            if (blocked_[i])
#pragma unroll
                for (int s = 0; s < N; ++s) carry_[i][s] = 0.0F;
            Real keep[K], previous[N];
            all_kept(keep_[i], keep);
            enter(i, step, keep, previous);
            Cell::slopes_of(keep, previous, slope_[i]);
            if (step >= steps_[i])
#pragma unroll
                for (int j = 0; j < slopes; ++j) slope_[i][j] = 0.0F;
#pragma unroll
            for (int k = 0; k < kept; ++k) keep_[i][k] = before_[i][k];
            if constexpr (loads_ahead)
                if (step > first()) load_step(i, step - 1);
        }
    }
    __device__ __forceinline__ void run_cell() {
#pragma unroll
        for (int i = 0; i < own; ++i) {
            if (!blocked_[i]) carry_[i][0] += Real(ptx::clamp_between(through_[i][0], limit_));
            Cell::backward(slope_[i], carry_[i], d_pre_[i]);
        }
    }
    __device__ __forceinline__ void hand_on(const TeamVectors<S>& vectors, uint32_t turn) {
#pragma unroll
        for (int i = 0; i < own; ++i)
            if constexpr (puts_halves) {
#pragma unroll
                for (int g = 0; g < G; ++g)
                    vectors.put_half(turn, place_[i], 0, g, TeamHalves<X>(product_gradient(i, g)).bits[0]);
            } else {
                put_words(vectors, turn, i);
            }
    }
    __device__ __forceinline__ void put_words(const TeamVectors<S>& vectors, uint32_t turn, int i) {
#pragma unroll
        for (int pair = 0; pair < pairs; ++pair) {
            const TeamHalves<X> a(product_gradient(i, 2 * pair)), b(product_gradient(i, last_of(pair)));
#pragma unroll
            for (int plane = 0; plane < S::planes; ++plane) {
                const uint32_t word = pair_halves(a.bits[plane], b.bits[plane]);
                if (pace_.has_word(pair)) vectors.put(turn, place_[i], plane, pace_.mine(pair), word);
                if (plane == 0) words_[i][pair] = word;
            }
        }
    }
    // Adds the gradient of h that came through R; a reset stops all gradients.
    __device__ __forceinline__ void take(int i, float through) {
        if (cut_[i])
#pragma unroll
            for (int s = 0; s < N; ++s) carry_[i][s] = 0.0F;
        else
            carry_[i][0] += Real(clipped(through, f_.clip));
    }
    // Adds the gradients that the call gives at `step`, and finds the states before it and the h that entered its
    // product.
    __device__ __forceinline__ void enter(int i, int step, const Real (&keep)[K], Real (&previous)[N]) {
        if (step + 1 == steps_[i]) {
            Real last[N];
            load_states(f_.p, RnnOwn<S>(f_, job_, i), f_.p.grad_state_out, last);
            Cell::enter(last, keep, carry_[i]);
        }
        Real here[N];
#pragma unroll
        for (int s = 0; s < N; ++s) here[s] = Element<X>::widen(given_[i][s]), previous[s] = 0.0F;
        Cell::enter(here, keep, carry_[i]);
        cut_[i] = f_.p.reset != nullptr && step < steps_[i] &&
                  f_.p.reset[reset_[i] + (f_.p.reverse != 0 ? -step : step)] != 0;
        h_[i] = before_h_[i];
        if (cut_[i]) {
            h_[i] = Element<X>::narrow(0.0F);
        } else if (step == 0) {
            load_states(f_.p, RnnOwn<S>(f_, job_, i), f_.p.state_in, previous);
            h_[i] = Element<X>::narrow(value_of(previous[0]));
        } else {
            Real keep_before[K];
            all_kept(before_[i], keep_before);
            Cell::states_of(keep_before, previous);
            if constexpr (Kept::takes_h) previous[0] = Element<X>::widen(h_[i]);
        }
    }
    // The kept numbers; h may be missing among them (kept.cuh), as it is only needed to find the states of the step
    // before.
    static __device__ __forceinline__ void all_kept(const Real (&from)[kept], Real (&keep)[K]) {
#pragma unroll
        for (int k = 0; k < K; ++k) keep[k] = k < kept ? from[k < kept ? k : 0] : Real(0.0F);
    }
    __device__ __forceinline__ bool needs_h() const { return Kept::takes_h || f_.factors != nullptr; }
    // Starts the loads of `step`, and the prefetches into L2 of a later step.
    __device__ __forceinline__ void load_step(int i, int step) {
        if (step > 0) {
            kept_[i] -= pace_.kept;
            load_kept(i, step - 1, before_[i]);
        }
        const X zero = Element<X>::narrow(0.0F);
#pragma unroll
        for (int s = 0; s < N; ++s)
            given_[i][s] =
                step < steps_[i] && s < f_.p.output_states ? grad_output_[i][s * f_.p.output_strides.state] : zero;
        grad_output_[i] -= pace_.output;
        output_[i] -= pace_.output;
        before_h_[i] = step < steps_[i] && step > 0 && needs_h() ? *output_[i] : zero;
        if (fetches && step >= rnn_steps_ahead && step - rnn_steps_ahead < steps_[i]) fetch(i);
    }
    __device__ __forceinline__ void fetch(int i) const {
        constexpr int ahead = rnn_steps_ahead - 1;
        const int lane = static_cast<int>(threadIdx.x) % 32;
        if (lane / 4 < kept) ptx::prefetch(kept_[i] - ahead * pace_.kept + lane / 4 * 8);
        if (lane < 4) {
            ptx::prefetch(grad_output_[i] - ahead * pace_.output);
            if (needs_h()) ptx::prefetch(output_[i] - ahead * pace_.output);
        }
    }
    __device__ __forceinline__ int64_t carried(const RnnOwn<S>& e, int s) const {
        return (s * f_.p.state_rows + e.row) * f_.p.width + e.w;
    }
    __device__ __forceinline__ void load_kept(int i, int step, Real (&keep)[kept]) const {
#pragma unroll
        for (int k = 0; k < kept; ++k) keep[k] = step < steps_[i] ? kept_[i][k * 8] : 0.0F;
    }
    static __device__ __forceinline__ constexpr int last_of(int pair) { return Pace::last_of(pair); }
    // For 16-bit data: the word that a lane stores of a pair of gates, with its own unit and the neighbouring one.
    static __device__ __forceinline__ uint32_t pair_gates(float first, float last) {
        return pair_halves(TeamHalves<X>(first).bits[0], TeamHalves<X>(last).bits[0]);
    }
    static __device__ __forceinline__ void store_pair(X* to, uint32_t word) { *reinterpret_cast<uint32_t*>(to) = word; }
    // The gradient of the pre-activation that row block `gate` of R contributes to.
    __device__ __forceinline__ float product_gradient(int i, int gate) const {
        return value_of(d_pre_[i][Cell::recurrent(gate)]);
    }

    // Stores the results of `step`, the one that was computed last.
    __device__ __forceinline__ void store_last(int step) {
        if (!TeamElement<S>::exist()) return;
#pragma unroll
        for (int i = 0; i < own; ++i) {
#pragma unroll
            for (int pair = 0; pair < pairs && puts_halves; ++pair)
                words_[i][pair] = pair_gates(product_gradient(i, 2 * pair), product_gradient(i, last_of(pair)));
            if (f_.p.grad_input != nullptr) store_input(i, step);
            grad_input_[i] -= pace_.input;
            if (f_.factors != nullptr) store_factors(i, step);
            factor_[i] -= pace_.factor;
            gradient_[i] -= pace_.factor * G;
#pragma unroll
            for (int j = 0; j < P; ++j) sums_[i][j] += value_of(d_pre_[i][j]);
        }
    }
    __device__ __forceinline__ void store_factors(int i, int step) const {
        if constexpr (sizeof(X) == 2) {
            const bool there = step < pair_steps_[i];
            const uint32_t half = *reinterpret_cast<const uint16_t*>(&h_[i]), word = pair_halves(half, half);
            if (there && pace_.even != 0) store_pair(factor_[i], word);
#pragma unroll
            for (int pair = 0; pair < pairs; ++pair) {
                if (there && pace_.has_word(pair)) store_pair(gradient_[i] + pace_.factor_gate[pair], words_[i][pair]);
            }
        } else if (step < steps_[i]) {
            *factor_[i] = h_[i];
#pragma unroll
            for (int g = 0; g < G; ++g) gradient_[i][g * f_.p.padded] = product_gradient(i, g);
        }
    }
    __device__ __forceinline__ void store_input(int i, int step) const {
        if constexpr (sizeof(X) == 2)
            if (f_.input_words != 0) {
#pragma unroll
                for (int pair = 0; pair < pairs; ++pair) {
                    const bool same =
                        Cell::recurrent(2 * pair) == 2 * pair && Cell::recurrent(last_of(pair)) == last_of(pair);
                    const uint32_t word =
                        same ? words_[i][pair]
                             : pair_gates(value_of(d_pre_[i][2 * pair]), value_of(d_pre_[i][last_of(pair)]));
                    if (step < steps_[i] && pace_.has_word(pair))
                        store_pair(grad_input_[i] + pace_.input_gate[pair], word);
                }
                return;
            }
        if (step >= steps_[i]) return;
#pragma unroll
        for (int g = 0; g < G; ++g)
            store_narrow<X>(grad_input_[i], g * f_.p.input_strides.state, value_of(d_pre_[i][g]));
    }

    const RnnFusedParams& f_;
    const Pace& pace_;
    RnnJob<S> job_;
    float limit_;
    const float* kept_[own];  // points into RESERVE at the last step that was loaded from it
    const X* grad_output_[own];
    const X* output_[own];
    X* grad_input_[own];
    X* factor_[own];
    X* gradient_[own];
    int64_t reset_[own];
    int place_[own];
    int steps_[own];                // steps of the element's row; 0 where the element does not exist
    int pair_steps_[own];           // the same, but 0 only where neither the element nor its neighbour in a word exists
    bool cut_[own], blocked_[own];  // a reset at the current step; no gradient comes through R
    Real carry_[own][N], keep_[own][kept], slope_[own][slopes], d_pre_[own][P];
    Real before_[own][kept];  // the kept numbers that load_step loaded
    X given_[own][N], before_h_[own];
    float through_[own][1];       // the gradient of h that comes through R
    uint32_t words_[own][pairs];  // d_pre in 16 bits, as it was passed to the team
    X h_[own];
    float sums_[own][P];
};

}  // namespace flashscan::cuda
