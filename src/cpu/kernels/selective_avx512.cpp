// SPDX-License-Identifier: Apache-2.0
#define FLASHSCAN_ISA avx512
#include "cpu/kernels/selective_steps.h"
