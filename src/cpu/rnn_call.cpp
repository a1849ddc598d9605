// SPDX-License-Identifier: Apache-2.0
#include "cpu/rnn_call.h"

#include <algorithm>
#include <limits>

#include "cpu/number.h"

namespace flashscan::cpu {
namespace {

int64_t number_size(const RnnProblem& p) { return size_of(state_dtype(p.dtype)); }

int64_t planes_of(const RnnProblem& p, const RnnKernels& kernels) {
    return kernels.kept - (kernels.keeps_h && state_dtype(p.dtype) == p.dtype ? 1 : 0);
}

RnnTensor tensor(const RnnProblem& p, const void* data, const RnnStrides& s) {
    return {static_cast<char*>(const_cast<void*>(data)), number_of(p.dtype), s.state, s.batch, s.time};
}

}  // namespace

RnnKernels rnn_kernels_for(Isa isa, const RnnProblem& p) {
    const bool wide = number_size(p) == 8;
    return FLASHSCAN_OF_ISA(isa, rnn_kernels(p.cell, wide));
}

size_t rnn_reserve_bytes(const RnnProblem& p, const RnnKernels& kernels) {
    return static_cast<size_t>(p.batch.named("RESERVE") * p.time * p.width() * planes_of(p, kernels) * number_size(p));
}

RnnCall rnn_extents(const RnnProblem& p, const RnnKernels& kernels) {
    const int64_t vector = kernels.vector_bytes / number_size(p);
    const auto rounded = [&](int64_t to) { return (p.head_dim + to - 1) / to * to; };
    RnnCall call{};
    call.ascending = p.direction == Direction::forward;
    call.planes = planes_of(p, kernels);
    call.time = p.time;
    call.heads = p.heads;
    call.dim = p.head_dim;
    call.state_rows = p.state_rows();
    call.output_states = p.output_states();
    call.clip =
        number_size(p) == 8 ? p.recurrent_clip : std::min<double>(p.recurrent_clip, std::numeric_limits<float>::max());
    call.depth = rounded(vector);
    call.width = rounded(2 * vector);
    call.weight_number = number_of(p.weight_dtype);
    return call;
}

std::vector<RnnSequence> rnn_sequences(const RnnProblem& p, const void* seq_offsets) {
    std::vector<RnnSequence> list;
    list.reserve(static_cast<size_t>(p.state_rows()));
    const auto offset = [&](int64_t n) {
        return p.offsets_dtype == Dtype::i32 ? static_cast<const int32_t*>(seq_offsets)[n]
                                             : static_cast<const int64_t*>(seq_offsets)[n];
    };
    for (int64_t n = 0; n < p.state_rows(); ++n)
        if (p.packed())
            list.push_back({0, offset(n), offset(n + 1) - offset(n), n});
        else
            list.push_back({n, 0, p.time, n});
    std::stable_sort(list.begin(), list.end(),
                     [](const RnnSequence& a, const RnnSequence& b) { return a.length > b.length; });
    return list;
}

RnnCall rnn_call(const RnnProblem& p, const RnnKernels& kernels, const RnnBuffers& b,
                 const std::vector<RnnSequence>& sequences, Pass pass) {
    RnnCall call = rnn_extents(p, kernels);
    call.output = tensor(p, b.output, p.output_strides());
    call.state_in = static_cast<const char*>(b.state_in);
    call.reset = p.has_reset ? b.reset : nullptr;
    call.reserve = static_cast<char*>(b.reserve);
    call.sequences = sequences.data();
    call.num_sequences = std::ssize(sequences);
    call.weight = static_cast<const char*>(b.weight);
    if (pass == Pass::forward) {
        call.input = tensor(p, b.input, p.input_strides());
        call.state_out = static_cast<char*>(b.state_out);
        call.bias = static_cast<const char*>(b.bias);
        return call;
    }
    call.input = tensor(p, b.grad_input, p.input_strides());
    call.grad_output = tensor(p, b.grad_output, p.output_strides());
    call.grad_state_out = static_cast<const char*>(b.grad_state_out);
    call.grad_state_in = static_cast<char*>(b.grad_state_in);
    call.grad_weight = static_cast<char*>(b.grad_weight);
    call.grad_bias = static_cast<char*>(b.grad_bias);
    return call;
}

}  // namespace flashscan::cpu
