// SPDX-License-Identifier: Apache-2.0
// Operators on integers: the definition with arithmetic modulo 2^64, of which the dtype keeps its bits.
#include <stdexcept>

#include "fuzz/loops.h"

namespace fuzz {
namespace {

using namespace support;

// A value that the dtype has.
int64_t kept(int32_t dtype, uint64_t bits) {
    switch (dtype) {
    case FLASHSCAN_DTYPE_U8: return static_cast<uint8_t>(bits);
    case FLASHSCAN_DTYPE_I32: return static_cast<int32_t>(static_cast<uint32_t>(bits));
    case FLASHSCAN_DTYPE_I64: return static_cast<int64_t>(bits);
    }
    throw std::invalid_argument("no dtype of integers");
}

int64_t identity(int32_t kind, int32_t dtype) {
    const bool byte = dtype == FLASHSCAN_DTYPE_U8;
    const int64_t largest = byte ? 255 : dtype == FLASHSCAN_DTYPE_I32 ? INT32_MAX : INT64_MAX;
    switch (kind) {
    case FLASHSCAN_OPERATOR_MUL: return 1;
    case FLASHSCAN_OPERATOR_MIN: return largest;
    case FLASHSCAN_OPERATOR_MAX: return byte ? 0 : -largest - 1;
    case FLASHSCAN_OPERATOR_AND: return byte ? 255 : -1;
    case FLASHSCAN_OPERATOR_ADD:
    case FLASHSCAN_OPERATOR_OR:
    case FLASHSCAN_OPERATOR_XOR: return 0;
    }
    throw std::invalid_argument("no operator on integers");
}

int64_t combine(int32_t kind, int32_t dtype, int64_t left, int64_t right) {
    const auto l = static_cast<uint64_t>(left), r = static_cast<uint64_t>(right);
    switch (kind) {
    case FLASHSCAN_OPERATOR_ADD: return kept(dtype, l + r);
    case FLASHSCAN_OPERATOR_MUL: return kept(dtype, l * r);
    case FLASHSCAN_OPERATOR_MIN: return std::min(left, right);
    case FLASHSCAN_OPERATOR_MAX: return std::max(left, right);
    case FLASHSCAN_OPERATOR_AND: return kept(dtype, l & r);
    case FLASHSCAN_OPERATOR_OR: return kept(dtype, l | r);
    case FLASHSCAN_OPERATOR_XOR: return kept(dtype, l ^ r);
    }
    throw std::invalid_argument("no operator on integers");
}

}  // namespace

Results integer_loop(const OperatorProblem& p, const OperatorData& data) {
    const auto size = [](const std::array<int64_t, 3>& e) { return static_cast<size_t>(e[0] * e[1] * e[2]); };
    Values output(size(p.output_extents())), last(size(p.state_extents())), index(output.size());
    for (const Sequence& s : sequences_of(p.batch, p.time, data.offsets))
        for (int64_t c = 0; c < p.channels; ++c) {
            const size_t state = p.state_place(s.state, c);
            int64_t y = p.state_in ? integer_of(data.state_in[state]) : identity(p.kind, p.dtype);
            int64_t from = -1;
            for (int64_t i = 0; i < s.length(); ++i) {
                const int64_t t = s.step(p.reverse, i);
                const size_t at = p.place(s.batch, t, c, 1);
                const int64_t next = combine(p.kind, p.dtype, y, integer_of(data.input[at]));
                const int64_t taken = next != y || (i == 0 && !p.state_in) ? t : from;
                if (!p.reduction()) output[at] = of_integer(p.mode == FLASHSCAN_MODE_EXCLUSIVE ? y : next);
                if (!p.reduction()) index[at] = of_integer(p.mode == FLASHSCAN_MODE_EXCLUSIVE ? from : taken);
                y = next, from = taken;
            }
            if (p.reduction()) output[state] = of_integer(y), index[state] = of_integer(from);
            last[state] = of_integer(y);
        }
    Results results{{FLASHSCAN_ARG_OUTPUT, output}};
    if (p.index) results[FLASHSCAN_ARG_INDEX] = index;
    if (p.state_out) results[FLASHSCAN_ARG_STATE_OUT] = last;
    return results;
}

}  // namespace fuzz
