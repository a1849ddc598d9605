// SPDX-License-Identifier: Apache-2.0
#define FLASHSCAN_ISA avx2
#include "cpu/kernels/selective_steps.h"
