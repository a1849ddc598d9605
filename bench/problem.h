// SPDX-License-Identifier: Apache-2.0
// A problem line, `linear fwd bf16 BTC b8 t8192 c1024 reverse @95%` or `rnn lstm fwd bf16 b16 t1024 h1 d768`: the
// tests' line, whose parser reads it, and the targets that the result is judged by.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/any_problem.h"

namespace bench {

// A mistake in the command line or in a problem line.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

enum class Measure {
    ceiling_percent,  // @95%      at least this share of the stream ceiling
    step_us,          // @1.2us/step median time of a step of a recurrent network at most this
    gpu_us,           // @4us      median time at most this
    host_us,          // @host3us  host cost of one call at most this
    plain_percent     // @plain+3% median time at most this much above the plain case of the same shape
};

struct Target {
    Measure measure;
    double limit;
    std::string text;
};

struct Extents {
    int64_t batch, time, channels;
};

using support::AnyProblem;

struct Problem {
    std::string text;  // without targets, words in the order of support::text_of
    AnyProblem line;
    // All families have these; the channels of a recurrent network are H D.
    bool backward = false;
    int32_t dtype = FLASHSCAN_DTYPE_F32;
    int32_t layout = FLASHSCAN_LAYOUT_BTC;
    Extents extents{};
    int64_t num_sequences = 0;
    int64_t array_bytes = 0;  // of INPUT or, of a recurrent network, of one state's OUTPUT
    std::vector<Target> targets;

    const support::Problem* linear() const { return std::get_if<support::Problem>(&line); }
    const support::RnnProblem* rnn() const { return std::get_if<support::RnnProblem>(&line); }
    const support::OperatorProblem* op() const { return std::get_if<support::OperatorProblem>(&line); }
    int64_t state_rows() const { return num_sequences > 0 ? num_sequences : extents.batch; }
    // What the pass must read and write at the least: each argument once.
    int64_t required_bytes() const;
    // Whether the pass has a RESERVE, which forward fills for backward.
    bool has_reserve() const;
    // The text of the case without any option word, which `@plain` compares with; of a custom operator, of that built
    // in.
    std::string plain_text() const;
};

using support::is_complex;
using support::name_of;
using support::state_dtype;
int64_t size_of(int32_t dtype);  // 1 for bytes, whose dtype is 0

// Whether plans of the problem have a RESERVE, of which backward may read what forward wrote.
template <typename P>
bool has_reserve(const P&) {
    return false;
}
inline bool has_reserve(const support::RnnProblem& p) { return p.trains(); }
inline bool has_reserve(const support::GatedProblem& p) { return p.has_output_gate(); }

// Takes from the problem what it says of options.
flashscan_status make_plan(flashscan_plan** plan, const AnyProblem& problem, flashscan_options options);

// Throws UsageError naming the word that is wrong and what is accepted.
Problem parse_problem(const std::string& line);

// The problems of `directory`/`name`.txt: one a line, `#` starts a comment. Throws UsageError.
std::vector<Problem> read_problem_set(const std::string& directory, const std::string& name);

}  // namespace bench
