// SPDX-License-Identifier: Apache-2.0
// The passes of an operator on one rank of several, composed of small problems of the same operator, each run by a
// kernel of one GPU. What an all-gather leaves lies in memory as a sequence that has the ranks' elements for steps and
// all chains for channels.
//
//               numbers, custom        matrix products          affine maps
//     forward   y' = y o total         y' = y total             y' = product y + total
//     backward  g = slope g' + local   g = g' total^H + local   g = product^H g' + local
//
// Forward the totals of all ranks are gathered, of affine maps with the products of their matrices, and those before
// this rank reduced. Backward slopes and local gradients are gathered, and those behind this rank joined: of numbers
// they are a linear recurrence, or of sums, whose slopes are 1, a reduction; of custom elements backward of a scan of
// totals.
//
// That is the gathered way. Scans go in a wavefront too (wave.h); backward an all-gather comes first, for the states
// before the own steps, which are the last ones in OUTPUT or, of numbers with slopes, follow from the totals.
//
// Slopes of numbers are those of the totals at the states that enter, so that backward computes these states again.
// Scans of matrices and affine maps find them in OUTPUT. A reduction's result is the reduction of all totals, and its
// gradient is the sum of the ranks' gradients. A rank without steps sends the identity; custom operators have none that
// is known, and leave such ranks out.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/workspace.h"
#include "cuda/launch/launch.h"
#include "cuda/ranks/operator_cost.h"
#include "cuda/ranks/operator_gradients.h"
#include "cuda/ranks/operator_messages.h"
#include "cuda/ranks/operator_states.h"
#include "cuda/ranks/over_ranks.h"
#include "cuda/ranks/ranks.h"
#include "cuda/ranks/wave.h"

namespace flashscan::cuda {
namespace {

struct OperatorFamily {
    using Problem = OperatorProblem;
    using Buffers = OperatorBuffers;
    using Kernel = OperatorKernel;
    static constexpr bool gathers = true;
    static int64_t state_bytes(const OperatorProblem& p) { return p.element() * p.state_number_bytes(); }
};

class OperatorRanks final : public OperatorKernel {
  public:
    OperatorRanks(const OperatorProblem& problem, const Options& options, std::unique_ptr<OperatorKernel> inner,
                  MakeOperator make, MakeLinear make_linear, bool in_registers)
        : p_(problem),
          messages_(p_, options.communicator),
          in_registers_(in_registers),
          options_(options),
          inner_(std::move(inner)),
          wavefront_(problem, options, make) {
        options_.communicator = {};
        options_.kernel.clear();
        if (alone()) return;
        states_.emplace(p_, options_, make, messages_);
        if (p_.is_reduction()) {
            OperatorProblem store = elements_of_ranks(p_, OperatorMode::reduction, 0);
            store.dtype = p_.dtype;
            store_ = make(store, options_);
        }
        if (p_.differentiable()) gradients_.emplace(p_, options_, make, make_linear, messages_, *states_);
        lay_out();
    }

    void meet() override {
        if (!alone()) wavefront_.meet();
    }
    void settle(std::span<const int64_t> steps) override {
        if (alone()) return;
        messages_.settle(steps);
        states_->settle();
        if (gradients_) gradients_->settle();
        const int64_t most = most_steps(steps);
        const int32_t ranks = messages_.ranks().size;
        wavefront_.settle(passes(), [&](Pass pass) { return operator_work(p_, in_registers_, pass, ranks, most); });
        lay_out();
    }

    std::string describe() const override {
        const std::span<const Pass> all = passes();
        const std::string place = fmt::format("rank {} of {}", messages_.ranks().rank, messages_.ranks().size);
        if (alone()) return inner_->describe() + "; " + place;
        const bool runs = !std::all_of(all.begin(), all.end(), [&](Pass pass) { return is_wavefront(pass); });
        std::string text = (runs ? inner_->describe() + "; " : "") + place;
        for (const Pass pass : all)
            text += "; carries " + wavefront_.describe(pass, fmt::format("from {} bytes of each", of(pass).told_bytes));
        return text;
    }
    size_t scratch_bytes(Pass pass) const override { return alone() ? inner_->scratch_bytes(pass) : of(pass).bytes; }

    void forward(const OperatorBuffers& b, void* stream) const override {
        if (alone()) return inner_->forward(b, stream);
        const DeviceScope scope(options_.device);
        if (is_wavefront(Pass::forward)) return wavefront_.run(Pass::forward, b, nullptr, false, stream);
        const OperatorCall call = begin(Pass::forward, b, stream);
        OperatorBuffers own = b;
        own.scratch = call.at(call.places.inner);
        if (!p_.is_reduction()) {
            own.state_in = states_->find_carry(call);
            return inner_->forward(own, stream);
        }
        void* const result = call.at(call.places.carry);
        states_->join_all(call, result);
        own = {};
        own.state_in = result;
        own.output = b.output;
        own.state_out = b.state_out;
        own.scratch = call.at(call.places.inner);
        store_->forward(own, stream);
    }

    void backward(const OperatorBuffers& b, void* stream) const override {
        if (alone()) return inner_->backward(b, stream);
        const DeviceScope scope(options_.device);
        const OperatorCall call = begin(Pass::backward, b, stream);
        OperatorBuffers own = b;
        own.scratch = call.at(call.places.inner);
        if (!told().is_sum())
            own.state_in = told().reads_edges() ? states_->find_in_output(call) : states_->find_carry(call);
        if (is_wavefront(Pass::backward)) return wavefront_.run(Pass::backward, b, own.state_in, false, stream);
        if (p_.is_reduction()) {
            own.grad_output = nullptr;
            own.grad_state_out = gradients_->gradient_of_all(call);
        }
        gradients_->gather_locals(call, *inner_, own);
        if (told().has_slopes()) gradients_->gather_slopes(call, own);
        if (!messages_.is_last()) own.grad_state_out = gradients_->find_gradient(call);
        inner_->backward(own, stream);
    }

  private:
    static constexpr Pass both_passes[] = {Pass::forward, Pass::backward};
    std::span<const Pass> passes() const { return std::span(both_passes).first(p_.differentiable() ? 2 : 1); }
    const OperatorPlaces& of(Pass pass) const { return pass == Pass::forward ? forward_ : backward_; }
    bool is_wavefront(Pass pass) const { return wavefront_.is_wavefront(pass); }
    bool alone() const { return messages_.alone(); }
    const OperatorTold& told() const { return messages_.told(); }

    // Begins a call by gathering totals and products. The rank's message starts as NaN and stays so where no rank needs
    // it or an argument is missing.
    OperatorCall begin(Pass pass, const OperatorBuffers& b, void* stream) const {
        const OperatorCall call{of(pass), b, stream};
        fill(call.at(call.places.sent), 0xff, static_cast<size_t>(told().most_bytes()), stream);
        if (told().totals(pass, is_wavefront(pass))) states_->gather_totals(call, pass);
        if (told().products(pass, is_wavefront(pass))) states_->gather_products(call, pass);
        return call;
    }

    void lay_out() {
        for (const Pass pass : passes()) (pass == Pass::forward ? forward_ : backward_) = lay_out(pass);
    }
    OperatorPlaces lay_out(Pass pass) {
        const bool backward = pass == Pass::backward, map = !is_wavefront(pass);
        const Extent states(told().state_bytes(), "SCRATCH"), products(told().product_bytes(), "SCRATCH");
        const Extent size = messages_.ranks().size;
        OperatorPlaces to;
        Workspace scratch;
        const auto book = [&](size_t& place, bool there, Extent bytes) {
            place = scratch.book(there ? bytes * size : Extent());
            if (there) to.told_bytes += static_cast<size_t>(bytes);
        };
        to.sent = scratch.book(Extent(told().most_bytes(), "SCRATCH"));
        book(to.totals, told().totals(pass, is_wavefront(pass)), states);
        book(to.products, told().products(pass, is_wavefront(pass)), products);
        book(to.slopes, backward && map && told().has_slopes(), states);
        book(to.locals, backward && map, states);
        book(to.outputs, backward && p_.is_reduction(), Extent(told().output_bytes()));
        book(to.edges, backward && told().reads_edges(), Extent(told().edge_bytes()));
        for (size_t* place : {&to.carry, &to.gradient, &to.other}) *place = scratch.book(states);
        const Extent joined = messages_.all_tell() ? Extent() : states * size;
        to.totals_joined = scratch.book(joined);
        to.locals_joined = scratch.book(backward ? joined : Extent());
        to.unread_output = scratch.book(max(states, products) * size);
        size_t inner = states_->scratch_bytes();
        if (!backward && store_) inner = std::max(inner, store_->scratch_bytes(Pass::forward));
        if (map) inner = std::max(inner, inner_->scratch_bytes(pass));
        if (map && backward) inner = std::max(inner, gradients_->scratch_bytes());
        to.inner = scratch.book(Extent(inner, "SCRATCH"));
        wavefront_.book(pass, scratch);
        to.bytes = scratch.bytes();
        return to;
    }

    OperatorProblem p_;
    OperatorMessages messages_;
    bool in_registers_;
    Options options_;  // of one GPU
    std::unique_ptr<OperatorKernel> inner_;
    Wavefront<OperatorFamily> wavefront_;
    std::optional<OperatorStates> states_;  // this and those below are there where other ranks are
    std::optional<OperatorGradients> gradients_;
    std::unique_ptr<OperatorKernel> store_;  // of a reduction: stores a state as OUTPUT, by a reduction of no steps
    OperatorPlaces forward_, backward_;
};

}  // namespace

std::unique_ptr<OperatorKernel> make_operator_ranks(const OperatorProblem& problem, const Options& options,
                                                    std::unique_ptr<OperatorKernel> inner, MakeOperator make,
                                                    MakeLinear make_linear, bool in_registers) {
    return std::make_unique<OperatorRanks>(problem, options, std::move(inner), make, make_linear, in_registers);
}

}  // namespace flashscan::cuda
