// SPDX-License-Identifier: Apache-2.0
// The instruction sets that the kernels are built for.
#pragma once

#include <span>

namespace flashscan::cpu {

enum class Isa {
    baseline,
    avx2,
    avx512
};

// The instruction sets that this build has kernels for, the narrowest first.
std::span<const Isa> built_isas();

const char* name_of(Isa isa);

// The widest instruction set that this machine has, capped by the environment variable FLASHSCAN_CPU_ISA. Throws Error
// when the variable holds an unknown name.
Isa choose_isa();

}  // namespace flashscan::cpu
