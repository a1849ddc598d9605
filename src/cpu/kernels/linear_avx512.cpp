// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of linear recurrences for AVX-512.
#define FLASHSCAN_ISA avx512
#include "cpu/kernels/linear_engines.h"
