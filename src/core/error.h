// SPDX-License-Identifier: Apache-2.0
// Failures inside the library are exceptions of this one type; capi turns them into a status and a sentence.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace flashscan {

enum class Code : int32_t {
    ok = 0,
    invalid_argument = 10,
    invalid_struct = 11,
    struct_too_new = 12,
    size_overflow = 13,
    missing_argument = 14,
    doubled_argument = 15,
    unknown_argument = 16,
    buffer_too_small = 17,
    invalid_pointer = 18,
    aliasing = 19,
    unsupported = 20,
    backend_missing = 21,
    no_device = 22,
    dependency_missing = 23,
    out_of_memory = 30,
    device_error = 31,
    callback_failed = 32,
    internal_error = 90,
};

class Error : public std::exception {
  public:
    Error(Code code, std::string sentence) : code_(code), sentence_(std::move(sentence)) {}
    Code code() const noexcept { return code_; }
    const char* what() const noexcept override { return sentence_.c_str(); }

  private:
    Code code_;
    std::string sentence_;
};

template <typename... Args>
[[noreturn]] void fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
    throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace flashscan
