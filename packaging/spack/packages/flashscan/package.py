# SPDX-License-Identifier: Apache-2.0
"""The library as a Spack package, built from the clone of the repository that this recipe lies in."""

from pathlib import Path

from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Flashscan(CMakePackage, CudaPackage):
    """Recurrences over sequences, forward and backward, on CPUs and NVIDIA GPUs."""

    git = Path(__file__).resolve().parents[4].as_uri()

    license("Apache-2.0")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("cmake@3.24:", type="build", when="+cuda")
    depends_on("fmt@9:12", type="build")
    depends_on("cuda@13:", when="+cuda")

    requires("platform=linux")
    requires("target=x86_64:", "target=aarch64:", policy="one_of")
    conflicts("%gcc@:11")

    def cmake_args(self):
        left_out = ("FLASHSCAN_TESTS", "FLASHSCAN_BENCH", "FLASHSCAN_QUICKSTART", "FLASHSCAN_WERROR")
        args = [self.define_from_variant("FLASHSCAN_CUDA", "cuda"), *(self.define(part, False) for part in left_out)]
        architectures = self.spec.variants["cuda_arch"].value if self.spec.satisfies("+cuda") else ("none",)
        if "none" not in architectures:
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", list(architectures)))
        return args
