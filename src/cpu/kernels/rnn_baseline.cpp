// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of recurrent networks without flags for an instruction set.
#define FLASHSCAN_ISA baseline
#include "cpu/kernels/rnn_table.h"
