// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers for AVX2.
#define FLASHSCAN_ISA avx2
#include "cpu/kernels/gated_walk.h"
