# SPDX-License-Identifier: Apache-2.0
"""The few calls of libflashscan.so that peers.py and peers_rnn.py need, on raw pointers."""

import ctypes
from ctypes import byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_void_p

CPU, CUDA = 101, 102
DTYPES = {"f32": 201, "bf16": 202, "f16": 203, "f64": 204, "c64": 205, "c128": 206, "i32": 207, "i64": 208}
LAYOUTS = {"BTC": 301, "BCT": 302, "BTGHD": 303, "TBGHD": 304}
PASS_FORWARD, PASS_BACKWARD = 501, 502
OPERATORS = {"add": 1001, "mul": 1002, "max": 1004, "logaddexp": 1005}
CELLS = {"lstm": 901, "gru": 902, "elman": 903, "slstm": 904}  # those that have peers
INPUT, GATE, OUTPUT, WEIGHT, BIAS, RESERVE, INDEX, GRAD = 2001, 2002, 2003, 2008, 2009, 2011, 2022, 1 << 30
TRAINING, ALLOW_TF32 = 1 << 10, 1 << 11


def pass_number(backward):
    return PASS_BACKWARD if backward else PASS_FORWARD


class Strides(ctypes.Structure):
    _fields_ = [("batch", c_int64), ("time", c_int64), ("channels", c_int64)]


class StateStrides(ctypes.Structure):
    _fields_ = [("row", c_int64), ("state", c_int64)]


STATE_STRIDES = [(name, StateStrides) for name in ("state_in", "state_out", "grad_state_in", "grad_state_out")]


class LinearDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("dtype", c_int32), ("gate_dtype", c_int32), ("layout", c_int32),
        ("gate_form", c_int32), ("gate_broadcast", c_uint32), ("direction", c_int32), ("flags", c_uint32),
        ("batch", c_int64), ("time", c_int64), ("channels", c_int64), ("num_sequences", c_int64),
        ("offsets_dtype", c_int32), ("reserved", c_int32), ("input", Strides), ("gate", Strides), ("output", Strides),
        ("grad_input", Strides), ("grad_gate", Strides), ("grad_output", Strides), *STATE_STRIDES,
    ]


class RnnDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("dtype", c_int32), ("weight_dtype", c_int32), ("layout", c_int32),
        ("cell", c_int32), ("direction", c_int32), ("flags", c_uint32), ("offsets_dtype", c_int32), ("batch", c_int64),
        ("time", c_int64), ("heads", c_int64), ("head_dim", c_int64), ("num_sequences", c_int64),
        ("recurrent_clip", c_double), *STATE_STRIDES,
    ]


class OperatorDesc(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("dtype", c_int32), ("kind", c_int32), ("layout", c_int32), ("mode", c_int32),
        ("direction", c_int32), ("flags", c_uint32), ("offsets_dtype", c_int32), ("batch", c_int64), ("time", c_int64),
        ("channels", c_int64), ("dim", c_int64), ("num_sequences", c_int64), ("custom", c_void_p), *STATE_STRIDES,
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("backend", c_int32), ("device", c_int32), ("threads", c_int32),
        ("determinism", c_int32), ("workspace", c_int32), ("kernel", c_char_p),
        ("allocator", c_void_p), ("log", c_void_p), ("log_user", c_void_p), ("communicator", c_void_p),
    ]


class Arg(ctypes.Structure):
    _fields_ = [("id", c_int32), ("reserved", c_int32), ("data", c_void_p), ("bytes", c_size_t)]


class Library:
    """libflashscan.so at `path`. Failures raise RuntimeError with the library's sentence."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.flashscan_last_error.restype = c_char_p
        self.lib.flashscan_plan_destroy.argtypes = [c_void_p]
        self.lib.flashscan_plan_destroy.restype = None
        self.lib.flashscan_execute.argtypes = [c_void_p, c_int32, ctypes.POINTER(Arg), c_int32, c_void_p]
        self.lib.flashscan_plan_arg_bytes.argtypes = [c_void_p, c_int32, c_int32, ctypes.POINTER(c_size_t)]
        self.lib.flashscan_plan_describe.argtypes = [c_void_p, c_char_p, c_size_t, ctypes.POINTER(c_size_t)]

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.flashscan_last_error().decode())

    def version(self):
        number = self.lib.flashscan_version()
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


class Plan:
    def __init__(self, library, make, desc, backend, device, threads, kernel):
        self.library = library
        options = Options(struct_size=ctypes.sizeof(Options), backend=backend, device=device, threads=threads,
                          kernel=kernel.encode() if kernel else None)
        self.plan = c_void_p()
        library.check(make(byref(self.plan), byref(desc), byref(options)))

    def __del__(self):
        self.library.lib.flashscan_plan_destroy(self.plan)

    def arg_bytes(self, backward, argument):
        count = c_size_t()
        self.library.check(self.library.lib.flashscan_plan_arg_bytes(self.plan, pass_number(backward), argument, byref(count)))
        return count.value

    def kernel(self):
        """The name of the kernel in the plan's description."""
        text = ctypes.create_string_buffer(1 << 16)
        self.library.check(self.library.lib.flashscan_plan_describe(self.plan, text, c_size_t(len(text)), None))
        lines = text.value.decode().splitlines()
        return next(line for line in lines if line.startswith("kernel ")).split()[1].rstrip(":")

    def bind(self, backward, pointers, num_bytes, stream):
        """A function without parameters that runs the pass on `pointers`, a dict of argument id to address, each of
        `num_bytes` bytes or, where that is None, of what the plan asks for."""
        sizes = {key: self.arg_bytes(backward, key) if num_bytes is None else num_bytes for key in pointers}
        args = (Arg * len(pointers))(*[Arg(id=key, data=value, bytes=sizes[key]) for key, value in pointers.items()])
        execute, number = self.library.lib.flashscan_execute, pass_number(backward)

        def call():
            self.library.check(execute(self.plan, number, args, len(args), stream))

        return call


class LinearPlan(Plan):
    """A dense linear recurrence of one dtype: layout "BTC" or "BCT", extents (B, T, C)."""

    def __init__(self, library, dtype, layout, batch, time, channels, backend=CUDA, device=0):
        desc = LinearDesc(struct_size=ctypes.sizeof(LinearDesc), dtype=DTYPES[dtype], layout=LAYOUTS[layout],
                          batch=batch, time=time, channels=channels)
        super().__init__(library, library.lib.flashscan_plan_linear, desc, backend, device, 0, None)


class OperatorPlan(Plan):
    """Inclusive prefixes of numbers of one dtype: layout "BTC" or "BCT", extents (B, T, C)."""

    def __init__(self, library, operator, dtype, layout, batch, time, channels, backend=CUDA, device=0):
        desc = OperatorDesc(struct_size=ctypes.sizeof(OperatorDesc), dtype=DTYPES[dtype], kind=OPERATORS[operator],
                            layout=LAYOUTS[layout], batch=batch, time=time, channels=channels)
        super().__init__(library, library.lib.flashscan_plan_operator, desc, backend, device, 0, None)


class RnnPlan(Plan):
    """A recurrent network of one dtype: layout "BTGHD" or "TBGHD"; backward needs `training`."""

    def __init__(self, library, cell, dtype, layout, batch, time, heads, dim, training, backend=CUDA, device=0, threads=0,
                 kernel=None, tf32=False):
        flags = (TRAINING if training else 0) | (ALLOW_TF32 if tf32 else 0)
        desc = RnnDesc(struct_size=ctypes.sizeof(RnnDesc), dtype=DTYPES[dtype], layout=LAYOUTS[layout],
                       cell=CELLS[cell], flags=flags, batch=batch, time=time, heads=heads,
                       head_dim=dim)
        super().__init__(library, library.lib.flashscan_plan_rnn, desc, backend, device, threads, kernel)
