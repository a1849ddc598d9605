// SPDX-License-Identifier: Apache-2.0
// Host side of the kernel "chunked" of gated layers: blocks that have a chunk of steps each and pass their carries on
// (forward.cuh, backward.cuh), or, forward over few steps, a thread for some channels of a row (decode.cuh).
#include "core/workspace.h"
#include "cuda/gated/candidates.h"
#include "cuda/gated/instances/table.h"
#include "cuda/gated/params.h"
#include "cuda/launch/launch.h"
#include "cuda/launch/sequence_offsets.h"
#include "cuda/launch/step_rows.h"

namespace flashscan::cuda {
namespace {

constexpr int64_t most_plain = int64_t{1} << 30;  // plain problems have fewer steps, channels and words of carries
constexpr int edge_threads = 256, sum_threads = 1024, sum_channels = 32;

class Chunked final : public GatedKernel {
  public:
    Chunked(const GatedProblem& problem, const Options& options)
        : p_(problem),
          device_(options.device),
          batch_invariant_(options.batch_invariant),
          kernels_(gated_kernels(p_.dtype)),
          steps_(gated_step_kernels(p_.dtype, p_.gate_dtype)),
          short_(is_short(options)),
          multiprocessors_(device_attribute(cudaDevAttrMultiProcessorCount, device_)),
          plain_refusal_(why_not_plain(p_, kernels_.forward[p_.layout == Layout::bct], batch_invariant_)),
          forward_(settle(kernels_.forward, false)),
          backward_(settle(kernels_.backward, true)) {}

    std::string describe() const override {
        const auto one = [&](const Settled& s) {
            return fmt::format("{} chunks of {} steps x {} groups of {} channels x {} rows", s.chunks, s.steps,
                               s.groups, s.channels, p_.batch);
        };
        return fmt::format("forward {}; backward {}; {}",
                           short_ ? fmt::format("a thread for {} channels of a row", steps_.channels) : one(forward_),
                           one(backward_),
                           plain_refusal_.empty() ? "plain where pointers are aligned" : plain_refusal_);
    }
    size_t scratch_bytes(Pass pass) const override {
        if (pass == Pass::forward) return short_ ? 0 : forward_.bytes;
        return backward_.bytes;
    }
    bool takes_states_in_place(Pass pass) const override { return pass == Pass::forward && short_; }

    void forward(const GatedBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        GatedParams params = common(b, forward_);
        params.output = view(b.output, p_.output, p_.dtype);
        if (p_.hides_state()) params.states = view(b.reserve, p_.reserve, p_.dtype);
        params.state_out = b.state_out;
        if (short_) return walk_steps(b, params, stream);
        run(params, forward_, true, stream);
        pass_states(b, b.state_in, b.state_out, stream);
    }

    void backward(const GatedBuffers& b, void* stream) const override {
        const DeviceScope scope(device_);
        GatedParams params = common(b, backward_);
        params.states = view(b.states(), p_.hides_state() ? p_.reserve : p_.output, p_.dtype);
        params.grad_output = view(b.grad_output, p_.grad_output, p_.dtype);
        params.grad_input = view(b.grad_input, p_.grad_input, p_.dtype);
        params.grad_gate = view(b.grad_gate, p_.grad_gate, p_.gate_dtype);
        params.grad_second_gate = view(b.grad_second_gate, p_.grad_second_gate, p_.gate_dtype);
        params.grad_input_gate = view(b.grad_input_gate, p_.grad_input_gate, p_.dtype);
        params.grad_output_gate = view(b.grad_output_gate, p_.grad_output_gate, p_.dtype);
        params.grad_state_out = b.grad_state_out;
        params.grad_state_in = b.grad_state_in;
        const bool sums = b.grad_param != nullptr || b.grad_bias != nullptr;
        if (sums) params.sums = static_cast<char*>(b.scratch) + backward_.sums;
        const bool has_all = params.grad_output.data != nullptr && params.states.data != nullptr;
        run(params, backward_, has_all, stream);
        pass_states(b, b.grad_state_out, b.grad_state_in, stream);
        if (sums && p_.channels > 0) add_sums(b, params.sums, stream);
    }

  private:
    // A plan settles this for each pass: its kernels, its blocks, and offsets in SCRATCH.
    struct Settled {
        const GatedPass* pass = nullptr;
        // `plain` is null where no call is plain (gated/tile.cuh), `named` also where the layer has no named kernel.
        const void *named = nullptr, *plain = nullptr;
        int log2_time_warps = 0;
        int64_t steps = 0, channels = 0;  // steps and channels of a block
        int64_t chunks = 0, groups = 0, packs = 0, carries_words = 0;
        size_t carries = 0, sums = 0, bytes = 0;
        bool overlaps = false;
    };
    Settled settle(const GatedPass (&passes)[2], bool backward) const {
        Settled s;
        s.pass = &passes[p_.layout == Layout::bct];
        while (1 << s.log2_time_warps < s.pass->warps && s.pass->warp_steps << s.log2_time_warps < p_.time)
            ++s.log2_time_warps;
        s.steps = s.pass->warp_steps << s.log2_time_warps;
        s.channels = s.pass->warp_channels * (s.pass->warps >> s.log2_time_warps);
        s.chunks = ceil_div(p_.time, s.steps);
        s.groups = ceil_div(p_.channels, s.channels);
        s.packs = ceil_div(p_.channels, s.pass->lane_channels);
        Workspace workspace;
        const int64_t words = ceil_div(s.pass->lane_channels * size_of(state_dtype(p_.dtype)), 8);
        const Extent into = p_.batch.named("SCRATCH") * s.packs * words * (s.chunks > 1 ? s.chunks - 1 : 0);
        s.carries_words = into;
        if (plain_refusal_.empty() && s.carries_words < most_plain)
            s.plain = s.pass->plain, s.named = named_kernel(*s.pass);
        s.carries = workspace.book(into * 8);
        if (backward)
            s.sums =
                workspace.book(p_.batch.named("SCRATCH") * s.chunks * 2 * p_.channels * size_of(state_dtype(p_.dtype)));
        s.bytes = workspace.bytes();
        s.overlaps = into > 0 && can_overlap(s.pass->general, device_);
        return s;
    }

    // Returns why no call of the problem is plain (gated/tile.cuh); empty where calls with aligned pointers are.
    static std::string why_not_plain(const GatedProblem& p, const GatedPass& pass, bool batch_invariant) {
        const bool by_time = p.layout == Layout::bct;
        if (pass.plain == nullptr) return "not plain: f64";
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
    template <typename Kernels>
    const void* named_kernel(const Kernels& kernels) const {
        for (int i = 0; i < gated_layer_count; ++i)
            if (p_.parts == gated_layers[i].parts) return kernels.named[i];
        return nullptr;
    }
    // Whether the tensors of a call are contiguous and aligned as plain kernels need.
    bool lies_plain(const GatedParams& p, const Settled& s) const {
        const bool by_time = p_.layout == Layout::bct;
        const int64_t element = size_of(p_.dtype), vector = s.pass->vector_bytes;
        for (const View* v :
             {&p.input, &p.gate, &p.second_gate, &p.input_gate, &p.output_gate, &p.output, &p.states, &p.grad_output,
              &p.grad_input, &p.grad_gate, &p.grad_second_gate, &p.grad_input_gate, &p.grad_output_gate}) {
            if (v->data == nullptr) continue;
            const int64_t inner = by_time ? v->time : v->row, outer = by_time ? v->row : v->time;
            if (inner != element || outer % vector != 0 || (p_.batch > 1 && v->batch % vector != 0)) return false;
            if (outer != static_cast<int32_t>(outer)) return false;
            if (reinterpret_cast<uintptr_t>(v->data) % static_cast<uintptr_t>(vector) != 0) return false;
        }
        return true;
    }

    static View view(const void* data, const Strides& s, Dtype dtype) {
        const int64_t bytes = size_of(dtype);
        return {static_cast<char*>(const_cast<void*>(data)), s.batch * bytes, s.channels * bytes, s.time * bytes};
    }

    GatedParams common(const GatedBuffers& b, const Settled& s) const {
        GatedParams params;
        params.input = view(b.input, p_.input, p_.dtype);
        params.gate = view(b.gate, p_.gate, p_.gate_dtype);
        params.second_gate = view(b.second_gate, p_.second_gate, p_.gate_dtype);
        params.input_gate = view(b.input_gate, p_.input_gate, p_.dtype);
        params.output_gate = view(b.output_gate, p_.output_gate, p_.dtype);
        params.param = b.param;
        params.bias = b.bias;
        params.state_in = b.state_in;
        params.reset = p_.has_reset ? b.reset : nullptr;
        params.offsets = offsets_of(p_, b.seq_offsets);
        params.time = p_.time;
        params.channels = p_.channels;
        params.groups = s.groups;
        params.batches = p_.batch;
        params.chunks = s.chunks;
        params.packs = s.packs;
        params.log2_time_warps = s.log2_time_warps;
        params.carries = static_cast<char*>(b.scratch) + s.carries;
        params.decay_rate = p_.decay_rate;
        params.slope_limit = p_.sqrt_slope_limit;
        params.short_slope_limit = static_cast<float>(p_.sqrt_slope_limit);
        const GatedParts& parts = p_.parts;
        params.decay = static_cast<int32_t>(parts.decay);
        params.scale = static_cast<int32_t>(parts.scale);
        params.activation = static_cast<int32_t>(parts.activation);
        params.input_gating = static_cast<int32_t>(parts.input_gating);
        params.epilogue = static_cast<int32_t>(parts.epilogue);
        params.first_step = parts.first_step;
        params.starts_unscaled = p_.starts_with_one(b.state_in != nullptr);
        params.wide_gates = p_.gate_dtype != p_.dtype;
        params.wide_params = p_.param_dtype != p_.dtype;
        params.in_turn = batch_invariant_ && p_.packed();
        params.down = p_.direction == Direction::reverse;
        return params;
    }

    // Launches a pass; `has_all` tells whether the call has all tensors that plain kernels read.
    void run(GatedParams& params, const Settled& s, bool has_all, void* stream) const {
        const int64_t blocks = s.chunks * p_.batch * s.groups;
        if (blocks == 0) return;
        params.by_columns = divisor_of(static_cast<uint32_t>(p_.batch * s.groups));
        params.by_groups = divisor_of(static_cast<uint32_t>(s.groups));
        if (s.carries_words > 0) set_all_bits(params.carries, s.carries_words, stream);
        LaunchShape shape = blocks_of(blocks, s.pass->threads);
        shape.overlaps = s.overlaps;
        const void* kernel = s.pass->general;
        if (s.plain != nullptr && has_all && lies_plain(params, s))
            kernel = s.named != nullptr && params.bias == nullptr ? s.named : s.plain;
        launch(kernel, shape, stream, params);
    }

    // Whether there are so few steps, as in decoding, that one thread for some channels is faster than blocks. Only the
    // device knows the lengths of packed sequences; if there are as many sequences as steps, they are taken to have one
    // step each.
    bool is_short(const Options& options) const {
        constexpr int64_t many_channels = 32768;
        if (p_.empty() || !has_step_threads(p_, p_.channels, ceil_div(p_.channels, steps_.channels))) return false;
        if (p_.packed()) return p_.time <= p_.state_rows() && !options.batch_invariant;
        return p_.time <= (!options.batch_invariant && p_.channels * p_.state_rows() >= many_channels ? 16 : 4);
    }
    void walk_steps(const GatedBuffers& b, const GatedParams& params, void* stream) const {
        const int64_t size = size_of(p_.dtype), gate_size = size_of(p_.gate_dtype);
        const void* named = named_kernel(steps_);
        launch_steps(named != nullptr && b.bias == nullptr ? named : steps_.any, params,
                     state_rows_of(p_, b.state_in, b.state_out, b.state_indices, size_of(state_dtype(p_.dtype))),
                     {{params.input, size},
                      {params.gate, gate_size},
                      {params.second_gate, gate_size},
                      {params.input_gate, size},
                      {params.output_gate, size},
                      {params.output, size},
                      {params.states, size}},
                     p_.state_rows(), p_.channels, steps_.channels, multiprocessors_, stream);
    }

    // Copies the states of sequences without steps.
    void pass_states(const GatedBuffers& b, const void* from, void* to, void* stream) const {
        if (to == nullptr || to == from || (!p_.packed() && p_.time > 0)) return;
        GatedEdgeParams params;
        params.offsets = offsets_of(p_, b.seq_offsets);
        params.numbers = p_.state_rows() * p_.channels;
        params.channels = p_.channels;
        params.from = from;
        params.to = to;
        if (params.numbers > 0)
            launch(kernels_.pass_states, threads_in_blocks(params.numbers, edge_threads), stream, params);
    }
    void add_sums(const GatedBuffers& b, const void* sums, void* stream) const {
        GatedSumParams params;
        params.sums = sums;
        params.parts = p_.batch * backward_.chunks;
        params.channels = p_.channels;
        params.param = b.grad_param;
        params.bias = b.grad_bias;
        params.wide = p_.param_dtype != p_.dtype;
        launch(kernels_.sums, blocks_of(ceil_div(p_.channels, sum_channels), sum_threads), stream, params);
    }

    GatedProblem p_;
    int device_;
    bool batch_invariant_;
    const GatedKernels& kernels_;
    GatedStepKernels steps_;
    bool short_;
    int multiprocessors_;
    std::string plain_refusal_;
    Settled forward_, backward_;
};

}  // namespace

std::unique_ptr<GatedKernel> make_gated_chunked(const GatedProblem& problem, const Options& options, std::string&) {
    const DeviceScope scope(options.device);
    return std::make_unique<Chunked>(problem, options);
}

}  // namespace flashscan::cuda
