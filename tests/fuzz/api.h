// SPDX-License-Identifier: Apache-2.0
// The C interface under descriptors, options and arguments that any bytes stand for.
#pragma once

#include <flashscan/flashscan.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/memory.h"

// libFuzzer's entry. A broken promise ends in fuzz::broken, anything worse in a crash.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace fuzz {

// Called with what promise of the header was broken; prints and aborts unless replaced.
extern void (*broken)(const std::string& what);
// Called with what happened, to be counted; does nothing unless replaced.
extern void (*happened)(const char* what);

// Reads one decision after another from the bytes, and zeros once they are used up.
class Source {
  public:
    Source(const uint8_t* data, size_t size) : data_(data), size_(size) {}
    uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
    template <typename T>
    T raw() {
        uint64_t value = 0;
        for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(byte()) << (8 * i);
        return static_cast<T>(value);
    }
    // About `share` of 256.
    bool chance(int share) { return byte() < share; }
    size_t below(size_t end) { return (end > 256 ? raw<uint16_t>() : byte()) % end; }
    template <typename T, size_t n>
    T of(const T (&list)[n]) {
        return list[below(n)];
    }

  private:
    const uint8_t* data_;
    size_t size_, at_ = 0;
};

// Bytes that end at a page that nobody may touch.
std::unique_ptr<support::Buffer> at_guard(const void* from, size_t bytes);

// Plans and options, well-formed but for some fields.
struct Planned {
    flashscan_plan* plan = nullptr;
    int32_t backend = 0;
};
Planned make_plan(Source& source);
// Queries the plan and executes it with arguments that are right but for some.
void use_plan(Source& source, const Planned& planned);
// Checks what every status promises.
void check_status(const char* function, flashscan_status status);

}  // namespace fuzz
