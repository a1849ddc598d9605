// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are opened when a plan first needs them. Nothing links them, so that a machine without one
// cannot make these plans but all others.
#pragma once

#include <string>
#include <vector>

namespace flashscan::cuda {

// The files of a library of CUDA in two versions. First comes the one of the version that the backend is built with:
// what it compiles runs on every driver that runs the backend.
std::vector<const char*> both_versions(const char* of_13, const char* of_12);

class Library {
  public:
    // Opens the first of `files` that the program has loaded already, since that one fits the driver, or else the first
    // that can be loaded. It stays open. Throws Error{dependency_missing} naming the files; `what` is the library's
    // name in that sentence.
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
