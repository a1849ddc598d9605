// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of linear recurrences without flags for an instruction set.
#define FLASHSCAN_ISA baseline
#include "cpu/kernels/linear_engines.h"
