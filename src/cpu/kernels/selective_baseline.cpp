// SPDX-License-Identifier: Apache-2.0
#define FLASHSCAN_ISA baseline
#include "cpu/kernels/selective_steps.h"
