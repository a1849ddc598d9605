// SPDX-License-Identifier: Apache-2.0
// Gradients that are sums over time, of which each rank has the sum over its own steps. On request the ranks add them
// up, in the order of their numbers, so that all of them have the gradient of the whole sequence.
#pragma once

#include <string>
#include <vector>

#include "core/backend.h"

namespace flashscan {

// Return whether the gradient of an argument is a sum over time.
bool sums_over_time(const LinearProblem& problem, ArgId of);
bool sums_over_time(const GatedProblem& problem, ArgId of);
bool sums_over_time(const SelectiveProblem& problem, ArgId of);

// Return which of those gradients a call asks for, as a bit for each, which ranks tell each other in their notes.
uint32_t sums_asked_for(const LinearProblem& problem, const LinearBuffers& buffers);
uint32_t sums_asked_for(const GatedProblem& problem, const GatedBuffers& buffers);
uint32_t sums_asked_for(const SelectiveProblem& problem, const SelectiveBuffers& buffers);
// Returns the name of the gradient of one of the bits.
const char* name_of_sum(uint32_t bit);

// The sums that the ranks of a plan add up after its backward pass.
class RankSums {
  public:
    RankSums() = default;
    // Takes the gradients of `of` among `specs`, and enlarges SCRATCH, the last of `specs`, by what ranks send each
    // other.
    RankSums(std::vector<ArgumentSpec>& specs, const std::vector<ArgId>& of, const Communicator& ranks);

    bool none() const { return sums_.empty(); }
    // Returns the names of the gradients.
    std::string describe() const;
    // Puts the sum of all ranks' in place of each of the gradients that are given, which are the same on all ranks.
    void add(const Backend& backend, const Options& options, const Pointers& given, void* scratch, void* stream) const;

  private:
    std::vector<ArgumentSpec> sums_;
    size_t sent_ = 0, received_ = 0;  // places in SCRATCH
};

// Returns those arguments of a problem whose gradients are sums over time; none for families that have none.
template <typename Problem>
std::vector<ArgId> sums_of(const Problem& problem) {
    std::vector<ArgId> of;
    if constexpr (requires { sums_over_time(problem, ArgId::gate); })
        for (const ArgId id : {ArgId::gate, ArgId::param, ArgId::bias, ArgId::a, ArgId::b, ArgId::c, ArgId::d})
            if (sums_over_time(problem, id)) of.push_back(id);
    return of;
}

}  // namespace flashscan
