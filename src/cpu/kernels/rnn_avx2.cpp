// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of recurrent networks for AVX2.
#define FLASHSCAN_ISA avx2
#include "cpu/kernels/rnn_table.h"
