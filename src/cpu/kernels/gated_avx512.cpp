// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers for AVX-512.
#define FLASHSCAN_ISA avx512
#include "cpu/kernels/gated_walk.h"
