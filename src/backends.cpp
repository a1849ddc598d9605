// SPDX-License-Identifier: Apache-2.0
// The only file that names every backend.
#include "core/backend.h"
#include "core/error.h"
#include "cpu/backend.h"
#if FLASHSCAN_WITH_CUDA
#include "cuda/backend.h"
#endif

namespace flashscan {

const Backend& find_backend(BackendId id) {
    switch (id) {
    case BackendId::cpu: return cpu::backend();
    case BackendId::cuda:
#if FLASHSCAN_WITH_CUDA
        return cuda::backend();
#else
        fail(Code::backend_missing,
             "backend is BACKEND_CUDA, but this library was built without CUDA; accepted is BACKEND_CPU");
#endif
    }
    fail(Code::internal_error, "no backend has number {}", static_cast<int32_t>(id));
}

}  // namespace flashscan
