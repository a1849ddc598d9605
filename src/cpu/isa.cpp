// SPDX-License-Identifier: Apache-2.0
#include "cpu/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace flashscan::cpu {

std::span<const Isa> built_isas() {
    static constexpr Isa all[] = {Isa::baseline, Isa::avx2, Isa::avx512};
    return std::span(all).first(FLASHSCAN_ISAS);
}

namespace {

#if defined(__x86_64__)
// __builtin_cpu_supports of clang 14 does not take "f16c".
bool supports_f16c() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

Isa find_widest() {
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && supports_f16c();
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    if (avx2) return avx512 ? Isa::avx512 : Isa::avx2;
#endif
    return Isa::baseline;
}

// Asked once: under a hypervisor cpuid takes longer than all else that a plan does.
Isa widest() {
    static const Isa isa = std::min(find_widest(), built_isas().back());
    return isa;
}

}  // namespace

const char* name_of(Isa isa) {
    switch (isa) {
    case Isa::baseline: return "baseline";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    }
    return "?";
}

Isa choose_isa() {
    const char* variable = std::getenv("FLASHSCAN_CPU_ISA");
    const std::string_view cap = variable != nullptr ? variable : "";
    if (cap.empty()) return widest();
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
        if (cap == name_of(isa)) return std::min(isa, widest());
    fail(Code::invalid_argument, "FLASHSCAN_CPU_ISA is \"{}\"; accepted are baseline, avx2 and avx512", cap);
}

}  // namespace flashscan::cpu
