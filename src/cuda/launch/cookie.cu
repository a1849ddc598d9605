// SPDX-License-Identifier: Apache-2.0
// The kernel store_cookie, whose only thread writes a cookie.
#include "core/cookie.h"
#include "cuda/launch/cookie.h"

namespace flashscan::cuda {
namespace {

__global__ void store_cookie(Cookie* to, const __grid_constant__ Cookie cookie) { *to = cookie; }

}  // namespace

const void* store_cookie_kernel() { return reinterpret_cast<const void*>(&store_cookie); }

}  // namespace flashscan::cuda
