// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of associative operators for AVX2.
#define FLASHSCAN_ISA avx2
#include "cpu/kernels/operator_table.h"
