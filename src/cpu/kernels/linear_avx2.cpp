// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of linear recurrences for AVX2.
#define FLASHSCAN_ISA avx2
#include "cpu/kernels/linear_engines.h"
