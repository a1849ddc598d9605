// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of gated layers without flags for an instruction set.
#define FLASHSCAN_ISA baseline
#include "cpu/kernels/gated_walk.h"
