// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of recurrent networks for AVX-512.
#define FLASHSCAN_ISA avx512
#include "cpu/kernels/rnn_table.h"
