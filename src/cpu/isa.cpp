// SPDX-License-Identifier: Apache-2.0
#include "cpu/isa.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/error.h"

namespace flashscan::cpu {
namespace {

Isa widest() {
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    if (avx2) return avx512 ? Isa::avx512 : Isa::avx2;
#endif
    return Isa::baseline;
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
