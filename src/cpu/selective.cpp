// SPDX-License-Identifier: Apache-2.0
// Selective scans: which thread takes which channels of which sequences, and sums over tasks in an order that does not
// depend on the threads.
#include "cpu/selective.h"

#include <algorithm>
#include <vector>

#include "core/workspace.h"
#include "cpu/isa.h"
#include "cpu/kernels/selective.h"
#include "cpu/number.h"
#include "cpu/threads.h"
#include "reference/values.h"

namespace flashscan::cpu {
namespace {

// Backward: sequences and channels of a group are cut into at most so many pieces, whose sums are then added in order.
constexpr int64_t most_parts = 64, most_slices = 8;
// Steps whose sums over slices one thread adds.
constexpr int64_t summed_steps = 64;

SelectiveKernels kernels_for(Isa isa, const SelectiveProblem& p) {
    const bool wide = p.dtype == Dtype::f64;
    return FLASHSCAN_OF_ISA(isa, selective_kernels(wide, p.b_per_step, p.c_per_step));
}

class Selective final : public SelectiveKernel {
  public:
    Selective(const SelectiveProblem& problem, const Options& options)
        : p_(problem),
          isa_(choose_isa()),
          threads_(thread_count(options.threads)),
          size_(size_of(p_.matrix_dtype)),
          kernels_(kernels_for(isa_, p_)),
          // A problem without channels is left to another kernel, but planned here all the same.
          group_channels_(max(p_.channels / p_.groups, 1)),
          blocks_(ceil_div(group_channels_, kernels_.width)),
          slice_channels_(ceil_div(blocks_, most_slices) * kernels_.width),
          slices_(ceil_div(group_channels_, slice_channels_)),
          parts_(std::min<int64_t>(most_parts, p_.state_rows())),
          forward_(book_forward()),
          backward_(book_backward()) {}

    std::string describe() const override {
        return fmt::format(
            "{}, {} threads; forward {} sequences x {} groups x {} blocks of {} channels; backward {} parts "
            "x {} groups x {} slices of {}",
            name_of(isa_), threads_, p_.state_rows(), p_.groups, blocks_, kernels_.width, parts_, p_.groups, slices_,
            slice_channels_);
    }
    size_t scratch_bytes(Pass pass) const override {
        return p_.empty() ? 0 : pass == Pass::forward ? forward_.bytes : backward_.bytes;
    }

    void forward(const SelectiveBuffers& x, void*) const override {
        const std::vector<SelectiveSequence> sequences = sequences_of(x.seq_offsets);
        SelectiveCall call = common(x, sequences);
        call.output = tensor_of(x.output, p_.dtype, p_.output);
        call.last_state = static_cast<char*>(x.state_out);
        auto* scratch = static_cast<char*>(x.scratch);
        const int64_t columns = p_.groups * blocks_;
        for_each(threads_, p_.state_rows() * columns, [&](int64_t i, int64_t worker) {
            const int64_t group = i % columns / blocks_, begin = group * group_channels_ + i % blocks_ * kernels_.width;
            SelectiveTask task{};
            task.first = i / columns;
            task.last = task.first + 1;
            task.begin = begin;
            task.end = std::min<int64_t>(begin + kernels_.width, (group + 1) * group_channels_);
            task.buffer = scratch + forward_.buffers + worker * forward_.buffer_bytes;
            kernels_.forward(call, task);
        });
    }

    void backward(const SelectiveBuffers& x, void*) const override {
        const std::vector<SelectiveSequence> sequences = sequences_of(x.seq_offsets);
        SelectiveCall call = common(x, sequences);
        call.grad_output = tensor_of(x.grad_output, p_.dtype, p_.grad_output);
        call.grad_input = tensor_of(x.grad_input, p_.dtype, p_.grad_input);
        call.grad_delta = tensor_of(x.grad_delta, p_.dtype, p_.grad_delta);
        call.grad_gate = tensor_of(x.grad_output_gate, p_.dtype, p_.grad_output_gate);
        call.grad_last_state = static_cast<const char*>(x.grad_state_out);
        call.grad_first_state = static_cast<char*>(x.grad_state_in);
        auto* scratch = static_cast<char*>(x.scratch);
        const int64_t columns = p_.groups * slices_;
        for_each(threads_, parts_ * columns, [&](int64_t i, int64_t worker) {
            const int64_t part = i / columns, group = i % columns / slices_, slice = i % slices_;
            SelectiveTask task{};
            task.first = part * p_.state_rows() / parts_;
            task.last = (part + 1) * p_.state_rows() / parts_;
            task.begin = group * group_channels_ + slice * slice_channels_;
            task.end = std::min<int64_t>(task.begin + slice_channels_, (group + 1) * group_channels_);
            task.buffer = scratch + backward_.buffers + worker * backward_.buffer_bytes;
            const auto at = [&](size_t sums, int64_t which, int64_t numbers) {
                return scratch + sums + which * numbers * size_;
            };
            task.sum_a = at(backward_.a, part, matrix_numbers());
            task.sum_b = at(backward_.b, part, matrix_numbers());
            task.sum_c = at(backward_.c, part, matrix_numbers());
            task.sum_d = at(backward_.d, part, p_.channels);
            task.sum_bias = at(backward_.bias, part, p_.channels);
            task.step_b = at(backward_.step_b, slice, step_numbers());
            task.step_c = at(backward_.step_c, slice, step_numbers());
            kernels_.backward(call, task);
        });
        const auto add = [&](void* to, size_t sums, int64_t numbers) {
            if (to != nullptr) add_parts(scratch + sums, numbers, to);
        };
        add(x.grad_a, backward_.a, matrix_numbers());
        add(x.grad_d, backward_.d, p_.channels);
        add(x.grad_bias, backward_.bias, p_.channels);
        const auto add_matrix = [&](void* to, bool per_step, size_t constant, size_t steps, const Strides& strides) {
            if (!per_step)
                add(to, constant, matrix_numbers());
            else if (to != nullptr)
                add_slices(scratch + steps, tensor_of(to, p_.dtype, strides), written_steps(x.seq_offsets));
        };
        add_matrix(x.grad_b, p_.b_per_step, backward_.b, backward_.step_b, p_.grad_b);
        add_matrix(x.grad_c, p_.c_per_step, backward_.c, backward_.step_c, p_.grad_c);
    }

  private:
    // Offsets in SCRATCH, and the bytes of one worker's buffer.
    struct Scratch {
        size_t a, b, c, d, bias, step_b, step_c, buffers, bytes;
        int64_t buffer_bytes;
    };

    Extent matrix_numbers() const { return p_.channels * p_.states; }
    Extent step_numbers() const { return p_.batch.named("SCRATCH") * p_.time * p_.groups * p_.states; }
    Scratch book_forward() const;
    Scratch book_backward() const;
    void book_buffers(Workspace& workspace, Scratch& scratch, Extent numbers, Extent tasks) const {
        scratch.buffer_bytes = round_up(numbers * size_, 64);
        scratch.buffers = workspace.book(min(tasks, threads_) * scratch.buffer_bytes);
        scratch.bytes = workspace.bytes();
    }
    int64_t written_steps(const void* seq_offsets) const {
        return p_.packed() ? reference::load_offset(seq_offsets, p_.offsets_dtype, p_.num_sequences) : int64_t{p_.time};
    }
    std::vector<SelectiveSequence> sequences_of(const void* seq_offsets) const;
    SelectiveCall common(const SelectiveBuffers& x, const std::vector<SelectiveSequence>& sequences) const;
    // Numbers of all parts, into dense ones of the arithmetic.
    void add_parts(const char* sums, int64_t numbers, void* to) const;
    void add_slices(const char* sums, const Tensor& to, int64_t steps) const;

    SelectiveProblem p_;
    Isa isa_;
    int threads_;
    int64_t size_;  // of a number
    SelectiveKernels kernels_;
    Extent group_channels_, blocks_, slice_channels_, slices_, parts_;
    Scratch forward_, backward_;
};

Selective::Scratch Selective::book_forward() const {
    Workspace workspace;
    Scratch scratch{};
    book_buffers(workspace, scratch, kernels_.forward_numbers(p_.states), p_.state_rows() * p_.groups * blocks_);
    return scratch;
}

Selective::Scratch Selective::book_backward() const {
    Workspace workspace;
    Scratch scratch{};
    const auto book = [&](Extent numbers, Extent times) { return workspace.book(numbers * times * size_); };
    scratch.a = book(matrix_numbers(), parts_);
    scratch.b = book(matrix_numbers(), p_.b_per_step ? Extent(0) : parts_);
    scratch.c = book(matrix_numbers(), p_.c_per_step ? Extent(0) : parts_);
    scratch.d = book(p_.channels, parts_);
    scratch.bias = book(p_.channels, parts_);
    scratch.step_b = book(step_numbers(), p_.b_per_step ? slices_ : Extent(0));
    scratch.step_c = book(step_numbers(), p_.c_per_step ? slices_ : Extent(0));
    // What the kernel's own arithmetic forms is bounded by this.
    static_cast<void>(slice_channels_.named("SCRATCH") * p_.time * p_.states * 64);
    book_buffers(workspace, scratch, kernels_.backward_numbers(p_.states, p_.time, slice_channels_),
                 parts_ * p_.groups * slices_);
    return scratch;
}

std::vector<SelectiveSequence> Selective::sequences_of(const void* seq_offsets) const {
    std::vector<SelectiveSequence> list;
    list.reserve(static_cast<size_t>(p_.state_rows()));
    for (const reference::Sequence& s : reference::sequences_of(p_, seq_offsets))
        list.push_back({s.b, s.begin, s.length(), s.state});
    return list;
}

SelectiveCall Selective::common(const SelectiveBuffers& x, const std::vector<SelectiveSequence>& sequences) const {
    SelectiveCall call{};
    call.input = tensor_of(x.input, p_.dtype, p_.input);
    call.delta = tensor_of(x.delta, p_.dtype, p_.delta);
    call.gate = tensor_of(x.output_gate, p_.dtype, p_.output_gate);
    if (p_.b_per_step) call.b = tensor_of(x.b, p_.dtype, p_.b);
    if (p_.c_per_step) call.c = tensor_of(x.c, p_.dtype, p_.c);
    call.a = static_cast<const char*>(x.a);
    if (!p_.b_per_step) call.constant_b = static_cast<const char*>(x.b);
    if (!p_.c_per_step) call.constant_c = static_cast<const char*>(x.c);
    call.d = static_cast<const char*>(x.d);
    call.bias = static_cast<const char*>(x.bias);
    call.first_state = static_cast<const char*>(x.state_in);
    call.reset = p_.has_reset ? x.reset : nullptr;
    call.time = p_.time;
    call.channels = p_.channels;
    call.states = p_.states;
    call.group_channels = group_channels_;
    call.groups = p_.groups;
    call.softplus = p_.softplus;
    call.ascending = p_.direction == Direction::forward;
    call.sequences = sequences.data();
    return call;
}

void Selective::add_parts(const char* sums, int64_t numbers, void* to) const {
    const auto add = [&](auto number) {
        using Number = decltype(number);
        const auto* from = reinterpret_cast<const Number*>(sums);
        for (int64_t i = 0; i < numbers; ++i) {
            double sum = 0;
            for (int64_t part = 0; part < parts_; ++part) sum += static_cast<double>(from[part * numbers + i]);
            static_cast<Number*>(to)[i] = static_cast<Number>(sum);
        }
    };
    size_ == 8 ? add(double{}) : add(float{});
}

void Selective::add_slices(const char* sums, const Tensor& to, int64_t steps) const {
    const int64_t width = p_.groups * p_.states, numbers = step_numbers(), chunks = ceil_div(steps, summed_steps);
    const auto sum_at = [&](int64_t i) {
        double sum = 0;
        for (int64_t slice = 0; slice < slices_; ++slice)
            sum += size_ == 8 ? reinterpret_cast<const double*>(sums)[slice * numbers + i]
                              : static_cast<double>(reinterpret_cast<const float*>(sums)[slice * numbers + i]);
        return sum;
    };
    auto add = [&](int64_t i) noexcept {
        const int64_t b = i / chunks, begin = i % chunks * summed_steps, end = std::min(begin + summed_steps, steps);
        for (int64_t t = begin; t < end; ++t)
            for (int64_t k = 0; k < width; ++k)
                store_number(to, b * to.batch + t * to.time + k * to.channels, sum_at((b * p_.time + t) * width + k));
    };
    parallel_for(threads_, p_.batch * chunks, false, add);
}

}  // namespace

std::unique_ptr<SelectiveKernel> make_selective_vectors(const SelectiveProblem& problem, const Options& options,
                                                        std::string& refusal) {
    if (!problem.is_complex()) return std::make_unique<Selective>(problem, options);
    refusal = "its vectors are of real numbers, and the matrices are complex";
    return nullptr;
}

}  // namespace flashscan::cpu
