// SPDX-License-Identifier: Apache-2.0
// Compiles the kernels of selective scans without flags for an instruction set.
#define FLASHSCAN_ISA baseline
#include "cpu/kernels/selective_steps.h"
