// SPDX-License-Identifier: Apache-2.0
// Finds gradients that are sums over time, and adds up those of all ranks.
#include "core/rank_sums.h"

#include <algorithm>

#include "core/workspace.h"

namespace flashscan {
namespace {

struct Sum {
    ArgId of;
    const char* name;
};
// Their order is that of the bits.
constexpr Sum all_sums[] = {{ArgId::gate, "GRAD|GATE"}, {ArgId::param, "GRAD|PARAM"}, {ArgId::bias, "GRAD|BIAS"},
                            {ArgId::a, "GRAD|A"},       {ArgId::b, "GRAD|B"},         {ArgId::c, "GRAD|C"},
                            {ArgId::d, "GRAD|D"}};

uint32_t bit_of(ArgId of) {
    for (size_t i = 0; i < std::size(all_sums); ++i)
        if (all_sums[i].of == of) return 1U << i;
    return 0;
}

template <typename Problem>
uint32_t bits_of(const Problem& problem, std::initializer_list<std::pair<ArgId, const void*>> gradients) {
    uint32_t bits = 0;
    for (const auto& [of, gradient] : gradients)
        if (gradient != nullptr && sums_over_time(problem, of)) bits |= bit_of(of);
    return bits;
}

// Messages begin at multiples of what callbacks are promised.
size_t message_bytes(const ArgumentSpec& spec) {
    return static_cast<size_t>(
        round_up(spec.axes.product(spec.name) * size_of(spec.dtype), static_cast<int64_t>(workspace_alignment)));
}

}  // namespace

bool sums_over_time(const LinearProblem& p, ArgId of) { return of == ArgId::gate && p.broadcasts(broadcast_time); }

bool sums_over_time(const GatedProblem& p, ArgId of) {
    return (of == ArgId::param && p.parts.has_param()) || of == ArgId::bias;
}

bool sums_over_time(const SelectiveProblem& p, ArgId of) {
    switch (of) {
    case ArgId::a:
    case ArgId::d:
    case ArgId::bias: return true;
    case ArgId::b: return !p.b_per_step;
    case ArgId::c: return !p.c_per_step;
    default: return false;
    }
}

uint32_t sums_asked_for(const LinearProblem& p, const LinearBuffers& x) {
    return bits_of(p, {{ArgId::gate, x.grad_gate}});
}
uint32_t sums_asked_for(const GatedProblem& p, const GatedBuffers& x) {
    return bits_of(p, {{ArgId::param, x.grad_param}, {ArgId::bias, x.grad_bias}});
}
uint32_t sums_asked_for(const SelectiveProblem& p, const SelectiveBuffers& x) {
    return bits_of(p, {{ArgId::a, x.grad_a},
                       {ArgId::b, x.grad_b},
                       {ArgId::c, x.grad_c},
                       {ArgId::d, x.grad_d},
                       {ArgId::bias, x.grad_bias}});
}

const char* name_of_sum(uint32_t bit) {
    for (size_t i = 0; i < std::size(all_sums); ++i)
        if ((bit >> i & 1) != 0) return all_sums[i].name;
    return "?";
}

RankSums::RankSums(std::vector<ArgumentSpec>& specs, const std::vector<ArgId>& of, const Communicator& ranks) {
    Extent bytes(0, "SCRATCH");
    for (const ArgumentSpec& spec : specs)
        if (spec.bytes > 0 && std::any_of(of.begin(), of.end(), [&](ArgId id) { return grad_of(id) == spec.id; })) {
            sums_.push_back(spec);
            bytes += message_bytes(spec);
        }
    if (none()) return;
    Extent scratch = round_up(Extent(specs.back().bytes, "SCRATCH"), workspace_alignment);
    sent_ = static_cast<size_t>(scratch);
    scratch += bytes;
    received_ = static_cast<size_t>(scratch);
    scratch += bytes * ranks.size;
    specs.back().bytes = static_cast<size_t>(scratch);
    specs.back().axes = {scratch};
}

std::string RankSums::describe() const {
    std::string text;
    for (const ArgumentSpec& sum : sums_) text += fmt::format("{}{}", text.empty() ? "" : ", ", sum.name);
    return text;
}

void RankSums::add(const Backend& backend, const Options& options, const Pointers& given, void* scratch,
                   void* stream) const {
    std::byte *sent = static_cast<std::byte*>(scratch) + sent_,
              *received = static_cast<std::byte*>(scratch) + received_;
    size_t bytes = 0;
    for (const ArgumentSpec& sum : sums_) {
        if (given.get(sum.id) == nullptr) continue;
        backend.pack(sum, given.get(sum.id), sent + bytes, options, stream);
        bytes += message_bytes(sum);
    }
    if (bytes == 0) return;
    backend.gather(options.communicator, sent, received, bytes, options, stream);
    const std::byte* place = received;
    for (const ArgumentSpec& sum : sums_) {
        if (given.get(sum.id) == nullptr) continue;
        backend.add_up(sum, place, bytes, options.communicator.size, given.get(sum.id), options, stream);
        place += message_bytes(sum);
    }
}

}  // namespace flashscan
