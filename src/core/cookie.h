// SPDX-License-Identifier: Apache-2.0
// The first bytes of RESERVE, by which backward recognises that forward of the same plan filled it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace flashscan {

struct Cookie {
    static constexpr size_t bytes = 64;  // the alignment of RESERVE, so that what follows is aligned too

    uint64_t magic = 0;
    uint64_t plan = 0;       // a hash of what the plan computes and by which kernel
    uint64_t state_in = 0;   // 1 if forward had STATE_IN, else 0
    uint64_t reserved[5]{};  // always 0
};
static_assert(sizeof(Cookie) == Cookie::bytes);

// `plan` describes the problem and the kernel.
Cookie make_cookie(const std::string& plan);

// Throws Error unless `found` is what forward of this plan left with the same arguments.
void check_cookie(const Cookie& found, const Cookie& expected);

}  // namespace flashscan
