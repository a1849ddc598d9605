// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans for AVX-512.
#define FLASHSCAN_ISA avx512
#include "cpu/kernels/selective_steps.h"
