# SPDX-License-Identifier: Apache-2.0
"""Settles what a library reads when it is loaded, before any test loads one."""

import os

# Threads that spin while they wait for each other take the cores of those that work, where a machine has other things to
# do: a test then takes several times as long. OpenMP reads this when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# XLA compiles a program for nearly every test, which takes most of their time; it need not compile them for speed.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
