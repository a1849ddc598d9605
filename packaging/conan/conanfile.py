# SPDX-License-Identifier: Apache-2.0
"""The library as a Conan package, built from the clone of the repository that this recipe lies in."""

import ast
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

required_conan_version = ">=2.0"


class FlashscanConan(ConanFile):
    name = "flashscan"
    description = "Recurrences over sequences, forward and backward, on CPUs and NVIDIA GPUs"
    license = "Apache-2.0"
    topics = ("recurrence", "scan", "rnn", "cuda")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"cuda": [True, False]}
    default_options = {"cuda": False}

    @property
    def _clone(self):
        return os.path.abspath(os.path.join(self.recipe_folder, "..", ".."))

    def set_version(self):
        header = load(self, os.path.join(self._clone, "include", "flashscan", "flashscan.h"))
        self.version = ".".join(re.findall(r"#define FLASHSCAN_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export_sources(self):
        # The list of what the library is built from stands in the backend of the Python package.
        backend = load(self, os.path.join(self._clone, "bindings", "python", "backend", "flashscan_build.py"))
        sources = ast.literal_eval(re.search(r"^SOURCES = (\(.*?\))$", backend, re.MULTILINE | re.DOTALL).group(1))
        for name in sources:
            for pattern in (name, f"{name}/*"):
                copy(self, pattern, src=self._clone, dst=self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration(
                f"{self.settings.os} on {self.settings.arch} is not supported; accepted is Linux on x86_64 and armv8"
            )

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("fmt/[>=9 <13]", visible=False)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["FLASHSCAN_CUDA"] = "ON" if self.options.cuda else "OFF"
        for part in ("FLASHSCAN_TESTS", "FLASHSCAN_BENCH", "FLASHSCAN_QUICKSTART", "FLASHSCAN_WERROR"):
            toolchain.cache_variables[part] = False
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # The library's own CMake package, which knows which versions are compatible, is what find_package finds.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "flashscan")]
        self.cpp_info.libs = ["flashscan"]
