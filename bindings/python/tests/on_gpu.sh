#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the Python package's tests on a GPU, and those of torch.compile on the CPU, with a library that has the CUDA
# backend, nothing installed:
#
#     bindings/python/tests/on_gpu.sh build/sm90a/src/libflashscan.so [arguments of pytest]
#
# With OUT naming a folder, reports go there. Needs NumPy and PyTorch; CuPy's tests skip without CuPy, those of filters
# without scipy; JAX's run where FLASHSCAN_JAX_LIBRARY names a libflashscan_jax.so. Where there is no pytest, put one
# beside: pip install --target build/pytest pytest
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
export FLASHSCAN_LIBRARY PYTHONPATH=$root/bindings/python/src
FLASHSCAN_LIBRARY=$(realpath "$1")
shift
python3 -c "import pytest" 2>/dev/null || PYTHONPATH=$PYTHONPATH:$root/build/pytest
python3 -m flashscan info
python3 "$root/bench/python_overhead.py" ${OUT:+--json "$OUT/python_overhead.json"}
cd "$root/bindings/python"
tests=(tests/test_{arrays,step,cupy,golden,torch,torch_cells,torch_derivatives,torch_modules,torch_nn,torch_signal,compat,char_lm}.py
    tests/test_{torch_gated,torch_selective,torch_layers,torch_mamba,torch_recurrentgemma,compat_scans}.py)
[ -z "${FLASHSCAN_JAX_LIBRARY:-}" ] || tests+=(tests/test_{jax,jax_step,jax_signal,jax_gated,jax_selective,jax_derivatives,jax_compat}.py)
export XLA_PYTHON_CLIENT_PREALLOCATE=false
exec python3 -m pytest -q -p no:cacheprovider -k "not cpu or aot_eager" ${OUT:+--junitxml "$OUT/python_gpu.xml"} "$@" "${tests[@]}"
