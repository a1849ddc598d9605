// SPDX-License-Identifier: Apache-2.0
// The kernel that writes what RESERVE begins with.
#pragma once

namespace flashscan::cuda {

// It takes (Cookie* to, Cookie cookie) and is launched as one thread. The cookie is an argument, so that a captured call
// writes it whenever its graph runs.
const void* store_cookie_kernel();

}  // namespace flashscan::cuda
