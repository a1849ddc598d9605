// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of associative operators without flags for an instruction set.
#define FLASHSCAN_ISA baseline
#include "cpu/kernels/operator_table.h"
