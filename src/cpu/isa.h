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

// Returns what the function of the instruction set's namespace (`baseline`, `avx2` or `avx512`) returns. FLASHSCAN_ISAS
// is how many of these this build has.
#if FLASHSCAN_ISAS == 3
#define FLASHSCAN_OF_ISA(isa, call) \
    ((isa) == Isa::avx512 ? avx512::call : (isa) == Isa::avx2 ? avx2::call : baseline::call)
#elif FLASHSCAN_ISAS == 2
#define FLASHSCAN_OF_ISA(isa, call) ((isa) == Isa::avx2 ? avx2::call : baseline::call)
#else
#define FLASHSCAN_OF_ISA(isa, call) (static_cast<void>(isa), baseline::call)
#endif

// The instruction sets that this build has kernels for, the narrowest first.
std::span<const Isa> built_isas();

const char* name_of(Isa isa);

// The widest instruction set that this build and this machine have, capped by the environment variable
// FLASHSCAN_CPU_ISA. Throws Error when the variable holds an unknown name.
Isa choose_isa();

}  // namespace flashscan::cpu
