// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are opened when a plan first needs them: nothing links them, and a machine without one misses
// only those plans.
#pragma once

#include <string>
#include <vector>

namespace flashscan::cuda {

class Library {
  public:
    // The first of `files` that the program has loaded already, since that fits its driver, or that can be loaded. It
    // stays open. Throws Error{dependency_missing} naming the files; `what` is the library's name for the sentence.
    Library(const char* what, std::vector<const char*> files);

    // Throws Error{dependency_missing} where the library has no `name`.
    template <typename Function>
    void find(const char* name, Function& function) const {
        function = reinterpret_cast<Function>(find(name));
    }

  private:
    void* find(const char* name) const;

    std::string names_;
    void* library_ = nullptr;
};

}  // namespace flashscan::cuda
