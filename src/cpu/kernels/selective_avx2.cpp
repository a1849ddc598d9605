// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans for AVX2.
#define FLASHSCAN_ISA avx2
#include "cpu/kernels/selective_steps.h"
