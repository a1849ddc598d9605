// SPDX-License-Identifier: Apache-2.0
// The kernel store_cookie, of which each thread stores a word.
#include <cstdint>

#include "core/cookie.h"
#include "cuda/launch/cookie.h"

namespace flashscan::cuda {
namespace {

__global__ void store_cookie(uint64_t* to, const __grid_constant__ Cookie cookie) {
    to[threadIdx.x] = reinterpret_cast<const uint64_t*>(&cookie)[threadIdx.x];
}
static_assert(sizeof(Cookie) == cookie_threads * sizeof(uint64_t));

}  // namespace

const void* store_cookie_kernel() { return reinterpret_cast<const void*>(&store_cookie); }

}  // namespace flashscan::cuda
