# SPDX-License-Identifier: Apache-2.0
"""The C interface of libflashscan.so: finding the library, its structs and constants, plans."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Mapping
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ._errors import LAST_CALLER_MISTAKE, FlashscanError, FlashscanValueError, renamed

CPU, CUDA = 101, 102
F32, BF16, F16, F64, C64, C128, I32, I64, U8 = range(201, 210)
BOOL = -1  # which no descriptor names: U8 to the library
INPUT, GATE, OUTPUT, STATE_IN, STATE_OUT, RESET, SEQ_OFFSETS, WEIGHT, BIAS, SCRATCH, RESERVE = range(2001, 2012)
STATE_INDICES, INPUT_GATE, OUTPUT_GATE, SECOND_GATE, PARAM, DELTA, A, B, C, D, INDEX = range(2012, 2023)
GRAD = 1 << 30
# The names that arguments have in the library's messages, from INPUT on.
_ARGUMENTS = (
    *("INPUT", "GATE", "OUTPUT", "STATE_IN", "STATE_OUT", "RESET", "SEQ_OFFSETS", "WEIGHT", "BIAS", "SCRATCH", "RESERVE"),
    *("STATE_INDICES", "INPUT_GATE", "OUTPUT_GATE", "SECOND_GATE", "PARAM", "DELTA", "A", "B", "C", "D", "INDEX"),
)
# The names that messages give these arguments where the caller has not named them; others keep the library's name.
_UNNAMED = {
    INPUT: "the input",
    OUTPUT: "the output",
    STATE_IN: "the initial state",
    STATE_OUT: "the final state",
    SEQ_OFFSETS: "seq_offsets",
    SCRATCH: "the scratch memory",
    RESERVE: "the reserve",
    INDEX: "the steps of extrema",
}
# Fields of descriptors and their values in messages, and the options that they come from.
_OPTIONS = {
    "GATED_DECAY_SOFTPLUS": "'softplus'",
    "GATED_SCALE_SQRT": "'sqrt'",
    "GATED_FLAG_FIRST_STEP": "first_step",
    "MODE_EXCLUSIVE": "exclusive",
    "custom.code": "op.code",
    "custom.name": "op.name",
    "custom.adjoint_name": "op.adjoint_name",
    "num_sequences": "the number of sequences",
    "offsets_dtype": "the dtype of seq_offsets",
}
LAYOUT_BTC, LAYOUT_BCT, LAYOUT_BTGHD, LAYOUT_TBGHD = range(301, 305)
DIRECTION_FORWARD, DIRECTION_REVERSE = 401, 402
PASS_FORWARD, PASS_BACKWARD = 501, 502
WORKSPACE_LIBRARY, WORKSPACE_CALLER = 701, 702
GATE_VALUE, GATE_LOG, GATE_LOGIT = range(801, 804)
CELL_LSTM = 901  # the first; _rnn.py has the others
(
    OPERATOR_ADD,
    OPERATOR_MUL,
    OPERATOR_MIN,
    OPERATOR_MAX,
    OPERATOR_LOGADDEXP,
    OPERATOR_MATMUL,
    OPERATOR_AFFINE,
    OPERATOR_CUSTOM,
    OPERATOR_AND,
    OPERATOR_OR,
    OPERATOR_XOR,
) = range(1001, 1012)
MODE_INCLUSIVE, MODE_EXCLUSIVE, MODE_REDUCTION = range(1101, 1104)
CODE_CUDA_SOURCE, CODE_LTO_IR = 1201, 1202
LINEAR_FLAG_RESET = 1 << 4
RNN_FLAG_RESET, RNN_FLAG_ALL_STATES, RNN_FLAG_TRAINING, RNN_FLAG_ALLOW_TF32 = 1 << 8, 1 << 9, 1 << 10, 1 << 11
GATED_LAYER_MINGRU, GATED_DECAY_VALUE, GATED_SCALE_ONE, GATED_ACTIVATION_NONE = 1501, 1601, 1701, 1801
GATED_INPUT_GATE_NONE, GATED_INPUT_GATE_SIGMOID, GATED_EPILOGUE_NONE = 1901, 1902, 2101
GATED_FLAG_RESET, GATED_FLAG_FIRST_STEP = 1 << 20, 1 << 21
SELECTIVE_FLAG_RESET, SELECTIVE_FLAG_SOFTPLUS = 1 << 24, 1 << 25
SELECTIVE_FLAG_B_PER_STEP, SELECTIVE_FLAG_C_PER_STEP = 1 << 26, 1 << 27
COMM_CALLBACKS, COMM_NCCL = 2201, 2202


class Strides(Structure):
    _fields_ = [("batch", c_int64), ("time", c_int64), ("channels", c_int64)]


class StateStrides(Structure):
    _fields_ = [("row", c_int64), ("state", c_int64)]


STATE_STRIDES = [(name, StateStrides) for name in ("state_in", "state_out", "grad_state_in", "grad_state_out")]


class LinearDesc(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("gate_dtype", c_int32),
        ("layout", c_int32),
        ("gate_form", c_int32),
        ("gate_broadcast", c_uint32),
        ("direction", c_int32),
        ("flags", c_uint32),
        ("batch", c_int64),
        ("time", c_int64),
        ("channels", c_int64),
        ("num_sequences", c_int64),
        ("offsets_dtype", c_int32),
        ("reserved", c_int32),
        ("input", Strides),
        ("gate", Strides),
        ("output", Strides),
        ("grad_input", Strides),
        ("grad_gate", Strides),
        ("grad_output", Strides),
        *STATE_STRIDES,
        ("state_pool", c_int64),
    ]


class RnnDesc(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("weight_dtype", c_int32),
        ("layout", c_int32),
        ("cell", c_int32),
        ("direction", c_int32),
        ("flags", c_uint32),
        ("offsets_dtype", c_int32),
        ("batch", c_int64),
        ("time", c_int64),
        ("heads", c_int64),
        ("head_dim", c_int64),
        ("num_sequences", c_int64),
        ("recurrent_clip", c_double),
        *STATE_STRIDES,
        ("state_pool", c_int64),
    ]


class OperatorDesc(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("kind", c_int32),
        ("layout", c_int32),
        ("mode", c_int32),
        ("direction", c_int32),
        ("flags", c_uint32),
        ("offsets_dtype", c_int32),
        ("batch", c_int64),
        ("time", c_int64),
        ("channels", c_int64),
        ("dim", c_int64),
        ("num_sequences", c_int64),
        ("custom", c_void_p),
        *STATE_STRIDES,
    ]


_GATED_TENSORS = ("input", "gate", "second_gate", "input_gate", "output_gate", "output")


class GatedDesc(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("gate_dtype", c_int32),
        ("param_dtype", c_int32),
        ("layout", c_int32),
        ("layer", c_int32),
        ("decay", c_int32),
        ("scale", c_int32),
        ("activation", c_int32),
        ("input_gating", c_int32),
        ("epilogue", c_int32),
        ("direction", c_int32),
        ("flags", c_uint32),
        ("offsets_dtype", c_int32),
        ("batch", c_int64),
        ("time", c_int64),
        ("channels", c_int64),
        ("num_sequences", c_int64),
        ("decay_rate", c_double),
        ("sqrt_slope_limit", c_double),
        *[(name, Strides) for name in _GATED_TENSORS],
        *[("grad_" + name, Strides) for name in _GATED_TENSORS],
        *STATE_STRIDES,
        ("state_pool", c_int64),
    ]


_SELECTIVE_TENSORS = ("input", "delta", "output_gate", "b", "c", "output")
SELECTIVE_TENSORS = (*_SELECTIVE_TENSORS, *("grad_" + name for name in _SELECTIVE_TENSORS))


class SelectiveDesc(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("dtype", c_int32),
        ("matrix_dtype", c_int32),
        ("layout", c_int32),
        ("direction", c_int32),
        ("flags", c_uint32),
        ("offsets_dtype", c_int32),
        ("reserved", c_int32),
        ("batch", c_int64),
        ("time", c_int64),
        ("channels", c_int64),
        ("states", c_int64),
        ("groups", c_int64),
        ("num_sequences", c_int64),
        *[(name, Strides) for name in SELECTIVE_TENSORS],
        *STATE_STRIDES,
        ("state_pool", c_int64),
    ]


BatchedOperator = CFUNCTYPE(
    c_int32, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_int64, c_int64, c_void_p
)
BatchedAdjoint = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_void_p)


class CustomOperator(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("code_kind", c_int32),
        ("element_bytes", c_int64),
        ("state", c_void_p),
        ("state_bytes", c_size_t),
        ("host", c_void_p),
        ("host_adjoint", c_void_p),
        ("batched", BatchedOperator),
        ("batched_adjoint", BatchedAdjoint),
        ("code", c_void_p),
        ("code_bytes", c_size_t),
        ("name", c_char_p),
        ("adjoint_name", c_char_p),
    ]


# Called with the struct's user, where to send from, where to receive to, the bytes of a rank, and a stream.
AllGather = CFUNCTYPE(c_int32, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p)


class Comm(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("rank", c_int32),
        ("size", c_int32),
        ("user", c_void_p),
        ("all_gather", AllGather),
        ("flags", c_uint32),
        ("carries", c_int32),
        ("groups", c_int32),
        ("reserved", c_int32),
        ("send", c_void_p),
        ("receive", c_void_p),
        ("nccl", c_void_p),
    ]


class Options(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("backend", c_int32),
        ("device", c_int32),
        ("threads", c_int32),
        ("determinism", c_int32),
        ("workspace", c_int32),
        ("kernel", c_char_p),
        ("allocator", c_void_p),
        ("log", c_void_p),
        ("log_user", c_void_p),
        ("communicator", POINTER(Comm)),
    ]


class Build(Structure):
    _fields_ = [
        ("struct_size", c_uint32),
        ("version", c_int32),
        ("cuda_toolkit", c_int32),
        ("cuda_driver", c_int32),
        ("cuda_architectures", c_char_p),
        ("cuda_unusable", c_char_p),
        ("cpu_instruction_sets", c_char_p),
        ("cpu_instruction_set", c_char_p),
    ]


ARG_ID, ARG_WORD = "ii", "N"  # flashscan_arg as the struct module writes it: id and reserved; data; bytes


def _forked_after_openmp() -> bool:
    """Whether the process was forked and has an OpenMP runtime already, PyTorch's for example. Where its threads ran before
    the fork it would wait forever for them; of a fork after the library was loaded the library knows itself."""
    try:
        ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD)
        flags = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[6])
    except (OSError, IndexError, ValueError):
        return False
    return bool(flags & 0x40)  # PF_FORKNOEXEC of Linux


default_threads = int(_forked_after_openmp())  # 0: all


def _load() -> ctypes.CDLL:
    named = os.environ.get("FLASHSCAN_LIBRARY")
    bundled = Path(__file__).with_name("lib") / "libflashscan.so.1"
    path = named or (str(bundled) if bundled.exists() else "libflashscan.so.1")
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(
            f"flashscan: {path} could not be loaded ({error}); looked at FLASHSCAN_LIBRARY ({named or 'not set'}), "
            f"{bundled}, and the loader's search path"
        ) from error
    library.flashscan_last_error.restype = c_char_p
    library.flashscan_status_name.restype = c_char_p
    library.flashscan_device_count.argtypes = [c_int32, POINTER(c_int32)]
    library.flashscan_build_info.argtypes = [POINTER(Build)]
    library.flashscan_plan_linear.argtypes = [POINTER(c_void_p), POINTER(LinearDesc), POINTER(Options)]
    library.flashscan_plan_rnn.argtypes = [POINTER(c_void_p), POINTER(RnnDesc), POINTER(Options)]
    library.flashscan_plan_operator.argtypes = [POINTER(c_void_p), POINTER(OperatorDesc), POINTER(Options)]
    library.flashscan_plan_gated.argtypes = [POINTER(c_void_p), POINTER(GatedDesc), POINTER(Options)]
    library.flashscan_plan_selective.argtypes = [POINTER(c_void_p), POINTER(SelectiveDesc), POINTER(Options)]
    library.flashscan_plan_arg_bytes.argtypes = [c_void_p, c_int32, c_int32, POINTER(c_size_t)]
    library.flashscan_plan_describe.argtypes = [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)]
    library.flashscan_plan_destroy.argtypes = [c_void_p]
    library.flashscan_plan_destroy.restype = None
    library.flashscan_execute.argtypes = [c_void_p, c_int32, c_void_p, c_int32, c_void_p]
    return library


_library = _load()
FAMILIES = {
    "linear": (LinearDesc, _library.flashscan_plan_linear),
    "rnn": (RnnDesc, _library.flashscan_plan_rnn),
    "operator": (OperatorDesc, _library.flashscan_plan_operator),
    "gated": (GatedDesc, _library.flashscan_plan_gated),
    "selective": (SelectiveDesc, _library.flashscan_plan_selective),
}


def version() -> str:
    """The version of the library that is loaded, "1.0.0" for example."""
    return version_text(_library.flashscan_version())


def version_text(number: int) -> str:
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def pass_number(backward: bool) -> int:
    return PASS_BACKWARD if backward else PASS_FORWARD


def direction(reverse: object) -> int:
    return DIRECTION_REVERSE if reverse else DIRECTION_FORWARD


def words(names: Mapping[int, str]) -> dict[str, str]:
    """Maps each word of the library's messages to the caller's word for it. ``names`` maps the numbers of arguments, with GRAD
    those of gradients, to the caller's names."""
    known = dict(_OPTIONS)
    for number, word in enumerate(_ARGUMENTS, INPUT):
        known[word] = name = names.get(number, _UNNAMED.get(number, word))
        known["GRAD|" + word] = names.get(GRAD | number, f"the gradient of {name}")
    return known


def check(status: int, names: Mapping[int, str] = MappingProxyType({})) -> None:
    """Raises what a status tells of a failure, in the caller's ``names`` of arguments."""
    if status == 0:
        return
    name = _library.flashscan_status_name(status).decode()
    message = f"{name}: {renamed(_library.flashscan_last_error().decode(), words(names))}"
    raise (FlashscanValueError if status <= LAST_CALLER_MISTAKE else FlashscanError)(message, status)


def device_count(backend: int) -> int:
    count = c_int32()
    check(_library.flashscan_device_count(backend, byref(count)))
    return count.value


def build_info() -> dict[str, Any]:
    """The fields of flashscan_build."""
    build = Build(ctypes.sizeof(Build))
    check(_library.flashscan_build_info(byref(build)))
    values = {name: getattr(build, name) for name, *_ in Build._fields_[1:]}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


class Plan:
    """Owns a flashscan_plan. A plan dropped by the cache lives until the last call that uses it is over."""

    _plan: Any = None

    def __init__(
        self,
        family: str,
        fields: tuple[Any, ...],
        threads: int,
        backend: int = CPU,
        device: int = 0,
        communicator: Comm | None = None,
    ) -> None:
        self._plan = c_void_p()
        self._communicator = communicator  # its function is needed as long as the plan
        desc_type, create = FAMILIES[family]
        desc = desc_type(ctypes.sizeof(desc_type), *fields)
        # Packages that own devices' memory have pools of their own, which scratch is taken from.
        workspace = WORKSPACE_CALLER if backend == CUDA else WORKSPACE_LIBRARY
        options = Options(ctypes.sizeof(Options), backend, device, threads, workspace=workspace)
        if communicator is not None:
            options.communicator = ctypes.pointer(communicator)
        check(create(byref(self._plan), byref(desc), byref(options)))

    def __del__(self, destroy: Any = _library.flashscan_plan_destroy) -> None:
        destroy(self._plan)

    @property
    def handle(self) -> Any:
        return self._plan.value

    def arg_bytes(self, backward: bool, number: int) -> int:
        """The bytes that an argument of a pass needs."""
        size = c_size_t()
        check(_library.flashscan_plan_arg_bytes(self._plan, pass_number(backward), number, byref(size)))
        return size.value

    def describe(self) -> str:
        length = c_size_t()
        check(_library.flashscan_plan_describe(self._plan, None, 0, byref(length)))
        text = ctypes.create_string_buffer(length.value + 1)
        check(_library.flashscan_plan_describe(self._plan, text, len(text), byref(length)))
        return text.value.decode()


@functools.lru_cache(maxsize=256)
def plan(family: str, fields: tuple[Any, ...], threads: int, backend: int, device: int) -> Plan:
    """The plan for a descriptor, given as its fields after struct_size; cached. ``family`` is a key of FAMILIES."""
    return Plan(family, fields, threads, backend, device)


# Called with a plan's handle, a pass, packed flashscan_args, their number and a stream; returns a status.
execute = _library.flashscan_execute


def path() -> str:
    """The file of the library, or the name under which the loader found it."""
    return _library._name
