# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the consumer of the install tests with the package."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class FlashscanTestConan(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"
    test_type = "explicit"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=os.path.join("..", "..", "..", "tests", "install", "consumer"))
        cmake.build()

    def test(self):
        if can_run(self):
            for language in ("c", "cpp"):
                self.run(os.path.join(self.cpp.build.bindir, f"consumer_{language}"), env="conanrun")
