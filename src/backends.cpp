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
             "backend is CUDA (1), but this library was built without CUDA; accepted is CPU (0)");
#endif
    }
    fail(Code::invalid_argument, "backend is {}; accepted are CPU (0) and CUDA (1)", static_cast<int32_t>(id));
}

}  // namespace flashscan
