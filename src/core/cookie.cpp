// SPDX-License-Identifier: Apache-2.0
// Makes cookies, and throws an Error that says why a cookie does not fit.
#include "core/cookie.h"

#include "core/error.h"

namespace flashscan {
namespace {

constexpr uint64_t magic = 0x6e6163736873616c;  // "lashscan" in memory

// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv
uint64_t hash(const std::string& text) {
    uint64_t value = 0xcbf29ce484222325;
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    return value;
}

}  // namespace

Cookie make_cookie(const std::string& plan) { return {magic, hash(plan), 0, {}}; }

void check_cookie(const Cookie& found, const Cookie& expected) {
    if (found.magic != expected.magic)
        fail(Code::invalid_argument,
             "RESERVE was not filled by a forward pass; accepted is what forward of this plan left");
    if (found.plan != expected.plan)
        fail(Code::invalid_argument, "RESERVE was filled by another plan; accepted is what forward of this plan left");
    if (found.state_in != expected.state_in)
        fail(Code::invalid_argument, "STATE_IN is {}, but forward, which filled RESERVE, {}; accepted is the same",
             expected.state_in != 0 ? "given" : "not given", found.state_in != 0 ? "had one" : "had none");
}

}  // namespace flashscan
