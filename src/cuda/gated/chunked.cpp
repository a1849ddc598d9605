// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "chunked" of gated layers: blocks that have a chunk of steps each and pass their carries on
// (forward.cuh, backward.cuh).
#include <array>

#include "core/workspace.h"
#include "cuda/device/scan/look_back_tuning.h"
#include "cuda/gated/call.h"
#include "cuda/gated/candidates.h"
#include "cuda/gated/instances/table.h"
#include "cuda/launch/alignment.h"
#include "cuda/launch/device_code.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/look_back_memory.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/launch/view_of.h"

namespace flashscan::cuda {
namespace {

constexpr int64_t most_plain = int64_t{1} << 30;  // plain problems have fewer steps, channels and words of carries
// With so many groups of channels side by side a chain of carries is fast enough: for plain kernels of each pass, and
// for the general ones, which their instructions bound (bench/results/tried_layers.md).
constexpr int64_t forward_chain_groups = 24, backward_chain_groups = 16, general_chain_groups = 8;
constexpr int edge_threads = 256, sum_threads = 1024, sum_channels = 32;

// Every tensor of a kernel.
constexpr std::array tensors{&GatedParams::input,
                             &GatedParams::gate,
                             &GatedParams::second_gate,
                             &GatedParams::input_gate,
                             &GatedParams::output_gate,
                             &GatedParams::output,
                             &GatedParams::states,
                             &GatedParams::grad_output,
                             &GatedParams::grad_input,
                             &GatedParams::grad_gate,
                             &GatedParams::grad_second_gate,
                             &GatedParams::grad_input_gate,
                             &GatedParams::grad_output_gate};

class Chunked final : public GatedKernel {
  public:
    Chunked(const GatedProblem& problem, const Options& options)
        : p_(problem),
          device_(options.device),
          batch_invariant_(options.batch_invariant),
          kernels_(gated_kernels(p_.dtype)),
          plain_refusal_(why_not_plain(p_, kernels_.forward[p_.layout == Layout::bct], batch_invariant_)),
          few_rows_refusal_(plain_refusal_.empty() ? code_refusal_of(Compiled::to_machine_code, device_)
                                                   : plain_refusal_),
          forward_(settle(kernels_.forward, Pass::forward)),
          backward_(settle(kernels_.backward, Pass::backward)) {
        const int64_t states = p_.state_rows() * p_.channels;
        if (p_.packed() || p_.time == 0)
            pass_states_ = {kernels_.pass_states,
                            threads_in_blocks(states, edge_threads),
                            {offsets_of(p_, nullptr), states, p_.channels}};
        sums_ = {
            kernels_.sums,
            blocks_of(ceil_div(p_.channels, sum_channels), sum_threads),
            {.parts = p_.batch * backward_.params.chunks, .channels = p_.channels, .wide = p_.param_dtype != p_.dtype}};
    }

    std::string describe() const override {
        const auto one = [&](const Settled& s) {
            std::string text = fmt::format("{} chunks of {} steps x {} groups of {} channels x {} rows",
                                           s.params.chunks, s.steps, s.params.groups, s.channels, p_.batch);
            if (s.params.by_sequence != 0) text += ", of each sequence from its start";
            if (s.looks_back())
                text += fmt::format(", look-back over {} x {}", 1 << s.params.log2_group_chunks,
                                    1 << s.params.log2_link_groups);
            if (s.looks_back() && few_rows_refusal_ != plain_refusal_)
                text += fmt::format(", not plain: {}", few_rows_refusal_);
            return text;
        };
        std::string text = fmt::format("forward {}; backward {}", one(forward_), one(backward_));
        if (!plain_refusal_.empty()) return text + "; " + plain_refusal_;
        if (forward_.plain != nullptr || backward_.plain != nullptr) text += "; plain where pointers are aligned";
        return text;
    }
    size_t scratch_bytes(Pass pass) const override { return (pass == Pass::forward ? forward_ : backward_).bytes; }

    void forward(const GatedBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        GatedParams params = forward_.params;
        point_forward(params, p_, b);
        run(params, forward_, true, b.scratch, stream);
        pass_states(b, b.state_in, b.state_out, stream);
    }

    void backward(const GatedBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        GatedParams params = backward_.params;
        point_inputs(params, p_, b);
        point(params.states, b.states());
        point(params.grad_output, b.grad_output);
        point(params.grad_input, b.grad_input);
        point(params.grad_gate, b.grad_gate);
        point(params.grad_second_gate, b.grad_second_gate);
        point(params.grad_input_gate, b.grad_input_gate);
        point(params.grad_output_gate, b.grad_output_gate);
        params.grad_state_out = b.grad_state_out;
        params.grad_state_in = b.grad_state_in;
        const bool sums = b.grad_param != nullptr || b.grad_bias != nullptr;
        if (sums) params.sums = static_cast<char*>(b.scratch) + backward_.sums;
        const bool has_all = params.grad_output.data != nullptr && params.states.data != nullptr;
        run(params, backward_, has_all, b.scratch, stream);
        pass_states(b, b.grad_state_out, b.grad_state_in, stream);
        if (sums) add_sums(b, params.sums, stream);
    }

  private:
    // A plan settles this for each pass: its kernels, their arguments but for pointers, and offsets in SCRATCH.
    struct Settled {
        const GatedPass* pass = nullptr;
        // `plain` is null where no call is plain (gated/tile.cuh), `named` also where the layer has no named kernel.
        const void *named = nullptr, *plain = nullptr;
        std::array<bool, tensors.size()> strides_are_plain{};
        GatedParams params;
        int64_t steps = 0, channels = 0;  // of a block
        LaunchShape grid;
        LookBackMemory exchange;  // where chunks look back
        ClearLaunch clear;
        size_t carries = 0, sums = 0, bytes = 0;

        bool looks_back() const { return params.log2_group_chunks > 0; }
    };
    Settled settle(const GatedPass (&passes)[2], Pass pass) const {
        Settled s;
        s.pass = &passes[p_.layout == Layout::bct];
        s.params = params_of(p_, pass);
        GatedParams& params = s.params;
        params.by_sequence = batch_invariant_ && p_.packed();
        // Which channels share a block decides how it walks (gated/scan.cuh), and must not depend on other sequences.
        while (1 << params.log2_time_warps < s.pass->warps &&
               (params.by_sequence != 0 || s.pass->warp_steps << params.log2_time_warps < p_.time))
            ++params.log2_time_warps;
        s.steps = s.pass->warp_steps << params.log2_time_warps;
        s.channels = s.pass->warp_channels * (s.pass->warps >> params.log2_time_warps);
        params.batches = p_.batch;
        if (params.by_sequence == 0)
            params.chunks = ceil_div(p_.time, s.steps);
        else if (p_.time > 0)
            params.chunks = p_.time / s.steps + p_.num_sequences;
        params.groups = ceil_div(p_.channels, s.channels);
        params.packs = ceil_div(p_.channels, s.pass->lane_channels);
        s.grid = blocks_of(params.chunks * p_.batch * params.groups, s.pass->threads);
        params.by_columns = divisor_of(static_cast<uint32_t>(p_.batch * params.groups));
        params.by_groups = divisor_of(static_cast<uint32_t>(params.groups));
        // The chunks of few rows start before earlier ones have ended, and a chain of carries would be slow.
        // BATCH_INVARIANT must not ask how many rows there are.
        const int64_t chain_groups = !few_rows_refusal_.empty() ? general_chain_groups
                                     : pass == Pass::forward    ? forward_chain_groups
                                                                : backward_chain_groups;
        if (params.by_sequence != 0 ||
            (params.chunks > 1 && (batch_invariant_ || p_.batch * params.groups < chain_groups)))
            params.log2_group_chunks = params.log2_link_groups =
                log2_group_chunks(s.pass->warps, s.pass->warp_channels / s.pass->lane_channels);
        const int64_t carries_words = book(s, pass);
        if ((s.looks_back() ? few_rows_refusal_ : plain_refusal_).empty() && carries_words < most_plain) {
            const GatedPlainKernels& plain = s.looks_back() ? s.pass->few_rows : s.pass->plain;
            s.plain = plain.any;
            s.named = named_kernel(plain.named, p_.parts);
            for (size_t i = 0; i < tensors.size(); ++i) s.strides_are_plain[i] = are_plain(params.*tensors[i], *s.pass);
        }
        // The first call may be captured, where kernels cannot be loaded.
        for (const void* kernel : {s.pass->general, s.plain, s.named})
            if (kernel != nullptr) kernel_attributes(kernel);
        s.grid.overlaps = s.clear && can_overlap(s.pass->general, device_);
        return s;
    }
    // Books what chunks exchange, and sums. Returns the words of a chain's carries, 0 where chunks look back.
    int64_t book(Settled& s, Pass pass) const {
        Workspace workspace;
        const int64_t number = size_of(state_dtype(p_.dtype)), words = ceil_div(s.pass->lane_channels * number, 8);
        const int64_t chunks = s.params.chunks;
        Extent into;
        if (s.looks_back()) {
            const Extent packs = p_.batch.named("SCRATCH") * s.params.groups * (s.channels / s.pass->lane_channels);
            s.exchange = LookBackMemory(s.params, s.params.by_sequence != 0, packs,
                                        8 * ceil_div(2 * s.pass->lane_channels * number, 8), 8 * words, workspace);
            s.clear = s.exchange.clear();
        } else {
            into = p_.batch.named("SCRATCH") * s.params.packs * words * (chunks > 1 ? chunks - 1 : 0);
            s.carries = workspace.book(into * 8);
            s.clear = ClearLaunch(static_cast<size_t>(into * 8));
        }
        if (pass == Pass::backward)
            s.sums = workspace.book(p_.batch.named("SCRATCH") * chunks * 2 * p_.channels * number);
        s.bytes = workspace.bytes();
        return into;
    }

    // Returns why no call of the problem is plain (gated/tile.cuh); empty where calls with aligned pointers are.
    static std::string why_not_plain(const GatedProblem& p, const GatedPass& pass, bool batch_invariant) {
        const bool by_time = p.layout == Layout::bct;
        if (pass.plain.any == nullptr) return "not plain: f64";
        // A row may be aligned when it is alone, but not when it is in a batch, and the kernels' bits differ.
        if (batch_invariant) return "not plain: BATCH_INVARIANT";
        if (p.packed()) return "not plain: sequences are packed";
        if (p.has_reset) return "not plain: steps are reset";
        if (p.direction == Direction::reverse) return "not plain: the layer goes against time";
        if (p.gate_dtype != p.dtype) return "not plain: GATE is of another type";
        if (p.time >= most_plain || p.channels >= most_plain) return "not plain: 2^30 steps or channels";
        const int64_t lane = by_time ? pass.lane_steps : pass.lane_channels;
        if ((by_time ? p.time : p.channels) % lane != 0)
            return fmt::format("not plain: {} is no multiple of {}", by_time ? "TIME" : "CHANNELS", lane);
        return {};
    }
    // Whether a tensor with these strides is contiguous and aligned as plain kernels need, if its data are.
    bool are_plain(const View& strides, const GatedPass& pass) const {
        const bool by_time = p_.layout == Layout::bct;
        const int64_t inner = by_time ? strides.time : strides.row, outer = by_time ? strides.row : strides.time;
        return inner == size_of(p_.dtype) && outer % pass.vector_bytes == 0 && outer == static_cast<int32_t>(outer) &&
               (p_.batch <= 1 || strides.batch % pass.vector_bytes == 0);
    }
    // Whether the tensors of a call lie so.
    static bool lies_plain(const GatedParams& p, const Settled& s) {
        for (size_t i = 0; i < tensors.size(); ++i) {
            const void* const data = (p.*tensors[i]).data;
            if (data == nullptr) continue;
            if (!s.strides_are_plain[i] || !is_multiple(data, s.pass->vector_bytes)) return false;
        }
        return true;
    }

    // Launches a pass; `has_all` tells whether the call has all tensors that plain kernels read.
    static void run(GatedParams& params, const Settled& s, bool has_all, void* scratch, void* stream) {
        if (s.grid.blocks.x == 0) return;
        if (s.looks_back())
            s.exchange.point(params, scratch);
        else
            params.records = params.carries = static_cast<char*>(scratch) + s.carries;
        s.clear.run(params.records, stream);
        const void* kernel = s.pass->general;
        if (s.plain != nullptr && has_all && lies_plain(params, s))
            kernel = s.named != nullptr && params.bias == nullptr ? s.named : s.plain;
        launch(kernel, s.grid, stream, params);
    }

    // Copies the states of sequences without steps.
    void pass_states(const GatedBuffers& b, const void* from, void* to, void* stream) const {
        if (to == nullptr || to == from) return;
        GatedEdgeParams params = pass_states_.params;
        params.offsets.data = b.seq_offsets;
        params.from = from;
        params.to = to;
        pass_states_.run(params, stream);
    }
    void add_sums(const GatedBuffers& b, const void* sums, void* stream) const {
        GatedSumParams params = sums_.params;
        params.sums = sums;
        params.param = b.grad_param;
        params.bias = b.grad_bias;
        sums_.run(params, stream);
    }

    GatedProblem p_;
    int device_;
    bool batch_invariant_;
    const GatedKernels& kernels_;
    std::string plain_refusal_, few_rows_refusal_;  // why no call is plain, and none that looks back
    Settled forward_, backward_;
    SettledLaunch<GatedEdgeParams> pass_states_;
    SettledLaunch<GatedSumParams> sums_;
};

}  // namespace

std::unique_ptr<GatedKernel> make_gated_chunked(const GatedProblem& problem, const Options& options, std::string&) {
    const DeviceScope scope(options.device);
    return std::make_unique<Chunked>(problem, options);
}

}  // namespace flashscan::cuda
