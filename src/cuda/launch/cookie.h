// SPDX-License-Identifier: Apache-2.0
// The kernel that writes what RESERVE begins with.
#pragma once

namespace flashscan::cuda {

// It takes (uint64_t* to, Cookie cookie) and is launched as one block of cookie_threads threads. The cookie is an
// argument, so that a captured call writes it whenever its graph runs.
const void* store_cookie_kernel();
inline constexpr int cookie_threads = 8;

}  // namespace flashscan::cuda
