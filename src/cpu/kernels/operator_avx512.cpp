// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of associative operators for AVX-512.
#define FLASHSCAN_ISA avx512
#include "cpu/kernels/operator_table.h"
