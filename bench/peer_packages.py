# SPDX-License-Identifier: Apache-2.0
"""Other packages' linear recurrences behind one signature: scan(gate, x) -> h on torch tensors, with autograd.
Their prefixes of numbers are scan(x) -> (values,) or (values, indices)."""

import ctypes
import dataclasses
import importlib
import subprocess
from pathlib import Path
from typing import Callable, Optional

TORCH_PREFIXES = {"add": "cumsum", "mul": "cumprod", "logaddexp": "logcumsumexp", "max": "cummax"}


@dataclasses.dataclass
class Case:
    dtype: str  # f32, bf16, f16; prefixes f64, i32 and i64 too
    layout: str  # BTC, BCT
    batch: int
    time: int
    channels: int
    operator: str = ""  # of prefixes, a key of TORCH_PREFIXES; empty: the linear recurrence


@dataclasses.dataclass
class Peer:
    name: str
    layout: str
    load: Callable  # () -> scan; raises ImportError where the package is not installed
    refuses: Callable = lambda case, backward: None  # the reason why a case cannot be run
    log_gate: bool = False
    jax: bool = False  # scan and its vjp are jitted jax functions, timed by wall clock
    operator: str = ""  # as in Case
    scan: Optional[Callable] = None


def accelerated_scan_warp():
    return importlib.import_module("accelerated_scan.warp").scan


def accelerated_scan_scalar():
    return importlib.import_module("accelerated_scan.scalar").scan


def warp_refuses(case, backward):
    if case.time & (case.time - 1) or not 32 <= case.time <= 65536:
        return "takes powers of two from 32 to 65536"
    # An illegal access would end this process's use of the GPU, so the case is left out.
    if case.dtype != "f32" and case.time >= 4096:
        return "illegal memory access in 16-bit from T = 4096 on"
    return None


def chunk_hgrn():
    function = importlib.import_module("fla.ops.hgrn").chunk_hgrn
    return lambda gate, x: function(x, gate)[0]


def fused_recurrent_hgrn():
    function = importlib.import_module("fla.ops.hgrn").fused_recurrent_hgrn
    return lambda gate, x: function(x, gate)[0]


def sequential_scan_cuda():
    import torch

    module = importlib.import_module("sequential_scan.scan_cuda")
    return lambda gate, x: (module.scan_single if x.dtype == torch.float32 else module.scan)(gate, x)


def sequential_scan_triton():
    return importlib.import_module("sequential_scan.scan_triton").scan


def sequential_refuses(case, backward):
    if case.channels not in (512, 768, 1024, 1536, 2048):
        return "takes 512, 768, 1024, 1536 or 2048 channels"
    return "takes f32 and bf16" if case.dtype == "f16" else None


def combine(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


def torch_associative_scan(axis):
    def load():
        import torch

        scan = importlib.import_module("torch._higher_order_ops.associative_scan").associative_scan
        # Every shape is compiled for itself, as a user of one shape would have it.
        torch._dynamo.config.recompile_limit = 64
        return torch.compile(lambda gate, x: scan(combine, (gate, x), dim=axis, combine_mode="pointwise")[1],
                             dynamic=False)

    return load


def jax_associative_scan(axis):
    def load():
        jax = importlib.import_module("jax")
        if jax.default_backend() != "gpu":
            raise ImportError("jax sees no GPU")
        return lambda gate, x: jax.lax.associative_scan(combine, (gate, x), axis=axis)[1]

    return load


def forward_only(case, backward):
    return "forward only" if backward else None


def torch_prefix(operator, layout):
    def load():
        import torch

        function, axis = getattr(torch, TORCH_PREFIXES[operator]), layout.index("T")
        if operator == "max":
            return lambda x: function(x, axis)
        if operator == "add":  # of integers PyTorch would give sums of 64 bits
            return lambda x: (function(x, axis, dtype=x.dtype),)
        return lambda x: (function(x, axis),)

    return load


def cub_library():
    """build/cub_scan.so, built where it is missing or older than its source."""
    source = Path(__file__).resolve().with_name("cub_scan.cu")
    binary = source.parents[1] / "build" / "cub_scan.so"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        toolkit = importlib.import_module("torch.utils.cpp_extension").CUDA_HOME
        if toolkit is None:
            raise ImportError("there is no nvcc that could build cub_scan.cu")
        binary.parent.mkdir(exist_ok=True)
        subprocess.run([Path(toolkit) / "bin" / "nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC",
                        "-o", binary, source], check=True)
    return ctypes.CDLL(str(binary))


def cub_sums(layout):
    def load():
        import torch

        function, axis = cub_library().cub_prefix_sums, layout.index("T")

        def scan(x):
            steps, output, temp_bytes = x.shape[axis], torch.empty_like(x), ctypes.c_size_t()

            def call(temp):
                pointers = map(ctypes.c_void_p, (x.data_ptr(), output.data_ptr()))
                error = function(x.element_size(), ctypes.c_void_p(temp), ctypes.byref(temp_bytes), *pointers,
                                 x.numel() // steps, steps.bit_length() - 1,
                                 ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
                if error:
                    raise RuntimeError(f"cudaError_t {error}")

            call(None)
            temp = torch.empty(temp_bytes.value, dtype=torch.uint8, device=x.device)
            call(temp.data_ptr())
            return (output,)

        return scan

    return load


def cub_refuses(case, backward):
    if case.layout == "BTC" and case.channels > 1:
        return "takes steps that lie side by side"
    if case.dtype[0] == "i":
        return "cub_scan.cu takes floating-point numbers"
    return "cub_scan.cu takes powers of two of steps" if case.time & (case.time - 1) else None


def target_ratio(name, dtype, time):
    """How many times faster flashscan is meant to be; None where nothing was promised."""
    if name == "torch.cumsum":
        return 1.0 if time >= 2**24 else None  # one long row
    if name.startswith("accelerated-scan"):
        return 2.0 if dtype != "f32" else 1.5 if time <= 2048 else 1.0
    return 25.0 if name.startswith("sequential_scan") else 4.0 if name == "fla chunk_hgrn" else None


def all_peers(operators):
    """The peers of these operators, loaded or not: (those that are installed, name -> reason for the others)."""
    peers = [
        Peer("accelerated-scan warp", "BCT", accelerated_scan_warp, warp_refuses),
        Peer("accelerated-scan scalar", "BCT", accelerated_scan_scalar),
        Peer("torch associative_scan", "BCT", torch_associative_scan(2), forward_only),
        Peer("jax associative_scan", "BCT", jax_associative_scan(2), jax=True),
        Peer("sequential_scan CUDA", "BTC", sequential_scan_cuda, sequential_refuses),
        Peer("sequential_scan Triton", "BTC", sequential_scan_triton,
             lambda case, backward: None if case.dtype == "bf16" else "takes bf16"),
        Peer("fla chunk_hgrn", "BTC", chunk_hgrn, log_gate=True),
        Peer("fla fused_recurrent_hgrn", "BTC", fused_recurrent_hgrn, log_gate=True),
        Peer("torch associative_scan", "BTC", torch_associative_scan(1), forward_only),
        Peer("jax associative_scan", "BTC", jax_associative_scan(1), jax=True),
        *(Peer(f"torch.{function}", layout, torch_prefix(operator, layout), operator=operator)
          for operator, function in TORCH_PREFIXES.items() for layout in ("BCT", "BTC")),
        *(Peer("CUB DeviceScan", layout, cub_sums(layout), cub_refuses, operator="add") for layout in ("BCT", "BTC")),
    ]
    loaded, missing = [], {}
    for peer in (peer for peer in peers if peer.operator in operators):
        try:
            peer.scan = peer.load()
            loaded.append(peer)
        except ModuleNotFoundError as error:
            missing[peer.name] = f"not installed ({error.name})"
        except Exception as error:  # a package that is there but cannot be used is reported, and the others still run
            missing[peer.name] = f"cannot be used: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
    return loaded, missing
