// SPDX-License-Identifier: Apache-2.0
// Integers of fixed width, also where NVRTC has no headers.
#pragma once

#if defined(__CUDACC_RTC__)
using int32_t = int;
using int64_t = long long;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
#else
#include <cstdint>
#endif
