// SPDX-License-Identifier: Apache-2.0
// Runs a linear recurrence: picks the pass that a call's tensors allow, fills in the pointers and launches its kernels.
#include "cuda/linear/kernel.h"

#include <algorithm>

#include "cuda/launch/alignment.h"

namespace flashscan::cuda {
namespace {

// Returns in words the demands on a call's arguments that `l` makes and `next` does not; empty where `next` makes all
// that `l` does.
std::string obstacles_of(const LinearPass& l, const LinearPass& next, const LinearProblem& p) {
    const int64_t data = l.data_alignment, gates = l.gate_alignment;
    const bool other_gates = gates != data && !l.finds_gate_values && !l.one_gate_a_row;
    std::string all;
    const auto add = [&](const std::string& obstacle) { all += (all.empty() ? "" : ", or ") + obstacle; };
    if (data > alignment_of(p.dtype) && next.data_alignment != l.data_alignment)
        add(fmt::format("pointers are not multiples of {} bytes{}", data,
                        other_gates ? fmt::format(", those of gates of {}", gates) : ""));
    if (l.lie_alike && !next.lie_alike) add("pointers do not lie alike within 16 bytes");
    if (!l.takes_states && next.takes_states)
        add("there are states");
    else if (!l.takes_states_in_place && next.takes_states_in_place && p.has_reset)
        add("states are updated in place");
    return all;
}

// Whether `l` takes all calls that `other` takes.
bool covers(const LinearPass& l, const LinearPass& other, const LinearProblem& p) {
    return other.data_alignment % l.data_alignment == 0 && other.gate_alignment % l.gate_alignment == 0 &&
           (!l.lie_alike || other.lie_alike) && (l.takes_states || !other.takes_states) &&
           (l.takes_states_in_place || !other.takes_states_in_place || !p.has_reset);
}

// Describes the variant that calls take if nothing keeps them from it, and which others they take otherwise, each where
// the one before does not take them.
std::string describe_variants(const PassVariants& variants, const LinearProblem& p) {
    const LinearPass* last = variants.front().get();
    std::string text = last->describe();
    if (!last->refusal.empty()) text = fmt::format("by chunked ({}): {}", last->refusal, text);
    for (const LinearPassPointer& next : variants) {
        if (covers(*last, *next, p)) continue;
        const std::string obstacles = obstacles_of(*last, *next, p);
        if (obstacles.empty()) continue;
        text += fmt::format("; where {}: {}", obstacles, next->describe_variant());
        last = next.get();
    }
    return text;
}

class Linear final : public LinearKernel {
  public:
    Linear(const LinearProblem& problem, const Options& options, PassVariants forward, PassVariants backward)
        : p_(problem), device_(options.device), forward_(std::move(forward)), backward_(std::move(backward)) {
        const DeviceScope scope(device_);
        const bool overlaps = can_overlap(forward_.front()->kernel, device_);
        for (const PassVariants* variants : {&forward_, &backward_})
            for (const LinearPassPointer& pass : *variants) {
                pass->grid.overlaps = overlaps && pass->clear;
                allow_shared_memory(pass->kernel, device_);
            }
        if (!p_.packed() || p_.channels == 0) return;
        empty_.kernel = linear_kernels(p_.dtype, p_.gate_dtype).pass_empty_sequences;
        empty_.shape = blocks_of(std::min<int64_t>(p_.num_sequences, 1024), 256);
    }

    std::string describe() const override {
        return fmt::format("forward {}; backward {}", describe_variants(forward_, p_),
                           describe_variants(backward_, p_));
    }

    size_t scratch_bytes(Pass pass) const override {
        size_t bytes = 0;
        for (const LinearPassPointer& p : pass == Pass::forward ? forward_ : backward_)
            bytes = std::max(bytes, p->workspace.bytes());
        return bytes;
    }

    void forward(const LinearBuffers& b, void* stream) const override {
        const bool states = b.state_in != nullptr || b.state_out != nullptr;
        const bool same = states && b.state_in == b.state_out;
        const LinearPass& pass = pick(forward_, states, same, {b.input, b.output}, b.gate, nullptr);
        const DeviceScope scope(device_);
        LinearParams params = common(pass, b);
        params.source.point(b.input, p_.time);
        params.result.point(b.output, p_.time);
        run(pass, params, b.state_in, b.state_out, b.scratch, stream);
    }

    void backward(const LinearBuffers& b, void* stream) const override {
        const void* output = b.grad_gate != nullptr ? b.output : nullptr;
        const bool states = b.state_in != nullptr || b.grad_state_in != nullptr || b.grad_state_out != nullptr;
        const bool same = b.grad_state_out != nullptr && b.grad_state_out == b.grad_state_in;
        const LinearPass& pass =
            pick(backward_, states, same, {b.grad_output, output, b.grad_input}, b.gate, b.grad_gate);
        const DeviceScope scope(device_);
        LinearParams params = common(pass, b);
        params.source.point(b.grad_output, p_.time);
        params.result.point(b.grad_input, p_.time);
        char* const terms = static_cast<char*>(b.scratch) + pass.terms;
        const bool of_steps = pass.sums == GateSums::of_elements || pass.sums == GateSums::of_blocks;
        const bool whole = pass.params.sums_whole != 0;
        const bool sums = pass.sums != GateSums::none && b.grad_gate != nullptr;
        if (b.grad_gate != nullptr && !(sums && p_.empty())) {
            params.states.point(b.output, p_.time);
            params.state_in = b.state_in;
            void* const to = sums && !whole ? terms : b.grad_gate;
            if (sums && pass.sums != GateSums::of_elements) params.partial = to;
            if (!sums || of_steps) params.grad_gate.point(to, p_.time);
        }
        if (pass.gate_values.kernel != nullptr) {
            GateValuesParams values = pass.gate_values.params;
            values.from = static_cast<const char*>(b.gate);
            values.to = static_cast<char*>(b.scratch) + pass.gates;
            pass.gate_values.run(values, stream);
            params.gate.point(values.to, p_.time);
        }
        run(pass, params, b.grad_state_out, b.grad_state_in, b.scratch, stream);
        if (sums) reduce(pass, params, b, stream);
    }

  private:
    // `same` tells that the states that enter are in the memory of those that leave. Where steps are reset, a chained
    // scan may then write what leaves a row before its first chunk has read what enters it.
    const LinearPass& pick(const PassVariants& variants, bool states, bool same,
                           std::initializer_list<const void*> data, const void* gate, const void* grad_gate) const {
        for (const LinearPassPointer& pass : variants) {
            const std::initializer_list<const void*> gates = {
                pass->finds_gate_values || pass->one_gate_a_row ? nullptr : gate,
                pass->sums == GateSums::none ? grad_gate : nullptr};
            if ((pass->takes_states || !states) && (pass->takes_states_in_place || !same || !p_.has_reset) &&
                are_multiples(data, pass->data_alignment) && are_multiples(gates, pass->gate_alignment) &&
                (!pass->lie_alike ||
                 (lie_alike(*data.begin(), data, bulk_alignment) && lie_alike(*data.begin(), gates, bulk_alignment))))
                return *pass;
        }
        return *variants.back();
    }

    LinearParams common(const LinearPass& pass, const LinearBuffers& b) const {
        LinearParams params = pass.params;
        params.gate.point(b.gate, p_.time);
        params.reset = p_.has_reset ? b.reset : nullptr;
        params.offsets.data = p_.packed() ? b.seq_offsets : nullptr;
        return params;
    }

    void run(const LinearPass& pass, LinearParams& params, const void* carry_in, void* carry_out, void* scratch,
             void* stream) const {
        if (params.offsets.data != nullptr) {
            params.carry_in = carry_in;
            params.carry_out = carry_out;
            if (carry_out != nullptr) empty_.run({carry_in, carry_out, params.offsets, p_.channels}, stream);
        } else {
            params.edge_in = carry_in;
            params.edge_out = carry_out;
        }
        if (pass.grid.blocks.x == 0) return;
        params.in_place = params.source.data == params.result.data ? 1 : 0;
        pass.enqueue(params, static_cast<char*>(scratch), stream);
    }

    // Adds up what the kernel has left into GRAD|GATE. Without terms it is zero.
    void reduce(const LinearPass& pass, const LinearParams& params, const LinearBuffers& b, void* stream) const {
        ReduceParams r = pass.reduce.params;
        View gradient = pass.gradient, gate = pass.gate;
        gradient.point(b.grad_gate, p_.time);
        gate.point(b.gate, p_.time);
        r.terms = params.grad_gate.data != nullptr ? params.grad_gate.data : static_cast<const char*>(params.partial);
        r.gradient = gradient.data;
        r.gate = gate.data;
        r.offsets.data = params.offsets.data;
        pass.reduce.run(r, stream);
    }

    LinearProblem p_;
    int device_;
    PassVariants forward_, backward_;
    SettledLaunch<EmptyParams> empty_;  // for packed sequences without steps
};

}  // namespace

std::unique_ptr<LinearKernel> make_linear_kernel(const LinearProblem& problem, const Options& options,
                                                 PassVariants forward, PassVariants backward) {
    return std::make_unique<Linear>(problem, options, std::move(forward), std::move(backward));
}

}  // namespace flashscan::cuda
