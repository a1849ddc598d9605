# SPDX-License-Identifier: Apache-2.0
"""Calls of the library on arrays of any package.

A function of this package says once, for the shapes, dtypes and options of a call, what the library reads and writes:
that is a ``Problem``. The ``Call`` made of it is cached and run on all arrays of that kind, with nothing left to check.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import _foreign
from . import _library as lib
from ._errors import FlashscanError, FlashscanTypeError, FlashscanValueError
from ._spaces import CupySpace, NumpySpace, Signature, Spec

DATA = range(lib.F32, lib.C128 + 1)
REAL = [number for number in DATA if number not in (lib.C64, lib.C128)]
INTEGERS = (lib.I32, lib.I64, lib.U8)
_WIDE = {lib.BF16: lib.F32, lib.F16: lib.F32}


def choose(name: str, value: Any, accepted: dict[str, Any]) -> Any:
    if not isinstance(value, str) or value not in accepted:
        raise FlashscanValueError(f"{name} is {value!r}; accepted are {', '.join(map(repr, accepted))}")
    return accepted[value]


def words(optional: bool = False, **named: Any) -> None:
    for name, value in named.items():
        if not isinstance(value, str) and not (optional and value is None):
            raise FlashscanTypeError(f"{name} is {value!r}; accepted is text{' or None' if optional else ''}")


def integer(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise FlashscanTypeError(f"{name} is {value!r}; accepted are integers") from None


def flag(name: str, value: Any) -> bool:
    try:
        if operator.index(value) in (0, 1):
            return bool(value)
    except TypeError:
        pass
    if type(value).__name__ in ("bool_", "bool"):  # NumPy's
        return bool(value)
    raise FlashscanTypeError(f"{name} is {value!r}; accepted are True and False")


def number(name: str, value: Any) -> float:
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        pass
    raise FlashscanTypeError(f"{name} is {value!r}; accepted are numbers")


def thread_count(threads: Any) -> int:
    number = integer("threads", threads)
    if not 0 <= number < 2**31:
        raise FlashscanValueError(f"threads is {number}; accepted are 0 (all) and up")
    return number or lib.default_threads


def _number_among(spec: Spec, accepted: Sequence[int], use: str, names: str) -> int:
    if spec.number is None or spec.number not in accepted:
        raise FlashscanTypeError(
            f"{spec.name} has dtype {spec.dtype}; accepted{use} are float32, float64, float16, bfloat16 (ml_dtypes' in "
            f"NumPy){names}, in native byte order"
        )
    return spec.number


def data_number(spec: Spec, use: str = "", others: str = "") -> int:
    """``others``: further dtypes that are accepted for the ``use``."""
    return _number_among(spec, DATA, use, ", complex64, complex128" + others)


def real_number(spec: Spec, use: str = "", others: str = "") -> int:
    return _number_among(spec, REAL, use, others)


def dtype_beside(spec: Spec, like: Spec, others: dict[Any, int]) -> None:
    """Refuses a dtype that is neither that of ``like`` nor the one that ``others`` has for it."""
    other = others.get(like.number)
    if data_number(spec) not in (like.number, other):
        more = "" if other is None else " or float64" if other == lib.F64 else " or float32"
        raise FlashscanTypeError(
            f"{spec.name} is {spec.dtype} and {like.name} is {like.dtype}; "
            f"accepted for {spec.name} is {like.dtype}{more}"
        )


def same_shape(spec: Spec, shape: tuple[int, ...]) -> None:
    if spec.shape != shape:
        raise FlashscanValueError(f"{spec.name} has shape {spec.shape}; accepted is {shape}")


def same_dtype(spec: Spec, dtype: Any) -> None:
    if spec.dtype != dtype:
        raise FlashscanTypeError(f"{spec.name} has dtype {spec.dtype}; accepted is {dtype}")


class Read(NamedTuple):
    position: int  # among the arrays of the call
    number: int
    size: int
    pointer: Callable[[Any], int]
    convert: Callable[[Any], Any] | None = None


class Write(NamedTuple):
    make: Callable[[], Any]
    number: int
    size: int
    pointer: Callable[[Any], int]


class Problem:
    """A kind of call while it is worked out. ``specs`` are the arrays', None for those that are not given."""

    def __init__(self, space: Any, names: Sequence[str], lead: int, signatures: Sequence[Signature | None]) -> None:
        """Those of ``names`` that end in a question mark need not be given, and the last ones be left out."""
        self.space = space
        self.specs: list[Any] = []
        for i, (name, given) in enumerate(itertools.zip_longest(names, signatures)):
            if given is None and not name.endswith("?"):
                raise FlashscanTypeError(f"{name} is None; accepted are arrays")
            spec = None if given is None else space.spec(given)
            self.specs.append(spec and dataclasses.replace(spec, name=name.removesuffix("?"), position=i))
        first = self.specs[lead]
        self.device = first.device
        self.backend, self.index = space.place(self.device)
        for spec in self.specs:
            if spec is not None and spec.device != self.device:
                raise FlashscanValueError(
                    f"{spec.name} is on {spec.device}; accepted is {self.device}, as {first.name} is"
                )
        self.packed = False
        self.names = {lib.STATE_IN: name.removesuffix("?") for name in names if name.startswith("initial")}
        self.held: dict[int, Any] = {}  # arrays by position that all calls have where they lie now
        self._reads: list[Read] = []
        self._writes: list[Write] = []

    def state_dtype(self, dtype: Any, number: int) -> Any:
        """That of states and sums of data of ``dtype``."""
        return self.space.dtype(_WIDE[number]) if number in _WIDE else dtype

    def read(self, number: int, spec: Spec, dtype: Any = None, in_place: bool = False) -> None:
        """``dtype``: what it is converted to. ``in_place``: it is known to be readable as it lies."""
        self.names[number] = spec.name
        dtype = spec.dtype if dtype is None else dtype
        if in_place or (spec.dense and spec.dtype == dtype):
            pointer = self.space.pointer
            if spec.dense:
                pointer = self.space.pointer_getter(spec.dtype, spec.size, spec.writeable)
            self._reads.append(Read(spec.position, number, spec.span, pointer))
            return
        dense, size = self.space.dense, self.space.itemsize(dtype) * spec.size
        convert = lambda array: dense(array, dtype)
        self._reads.append(Read(spec.position, number, size, self.space.pointer, convert))

    def read_converted(self, number: int, spec: Spec | None, shape: tuple[int, ...], dtype: Any) -> None:
        """Reads what may have any dtype that converts to ``dtype``; nothing if not given."""
        if spec is None:
            return
        same_shape(spec, shape)
        if not self.space.castable(spec.dtype, dtype):
            raise FlashscanTypeError(f"{spec.name} has dtype {spec.dtype}; accepted are those that convert to {dtype}")
        self.read(number, spec, dtype)

    def read_reset(self, spec: Spec | None, shape: tuple[int, int], flag: int) -> int:
        """``flag``, which says to a descriptor that there are resets, or 0."""
        if spec is None:
            return 0
        if spec.number not in (lib.U8, lib.BOOL):
            raise FlashscanTypeError(f"{spec.name} has dtype {spec.dtype}; accepted are bool and uint8")
        if spec.shape != shape:
            raise FlashscanValueError(f"{spec.name} has shape {spec.shape}; accepted is (batch, time), here {shape}")
        self.read(lib.RESET, spec)
        return flag

    def read_offsets(self, spec: Spec | None, like: Spec, batch: int) -> tuple[int, int]:
        """The number of sequences and the dtype of their offsets, zeros if not given. ``batch``: that of ``like``."""
        if spec is None:
            return 0, 0
        if batch != 1:
            raise FlashscanValueError(f"{like.name} has shape {like.shape} with {spec.name}; accepted is a batch of 1")
        if spec.number not in (lib.I32, lib.I64):
            raise FlashscanTypeError(f"{spec.name} has dtype {spec.dtype}; accepted are int32 and int64")
        if len(spec.shape) != 1 or spec.size < 2:
            raise FlashscanValueError(
                f"{spec.name} has shape {spec.shape}; accepted is (number of sequences + 1,) with one sequence at least"
            )
        self.read(lib.SEQ_OFFSETS, spec)
        self.packed = True
        return spec.size - 1, spec.number

    def write_into(self, number: int, spec: Spec, shape: tuple[int, ...], dtype: Any, dense: bool = False) -> None:
        """``write`` to an array of the caller's, which may have gaps unless it has to be ``dense``."""
        same_shape(spec, shape)
        same_dtype(spec, dtype)
        if not (spec.writeable and (spec.dense or (spec.apart and not dense))):
            accepted = "dense arrays" if dense else "arrays whose strides are positive and keep elements apart"
            raise FlashscanValueError(
                f"{spec.name} has strides {spec.strides} in bytes and can{'' if spec.writeable else 'not'} be written; "
                f"accepted are {accepted} that can be written"
            )
        self.read(number, spec, in_place=True)

    def write(self, number: int, shape: tuple[int, ...], dtype: Any) -> None:
        # Steps behind the last packed sequence are not written by the library.
        fill = (-1 if number == lib.INDEX else 0) if self.packed else None
        make = self.space.maker(tuple(shape), dtype, self.device, fill)
        size = self.space.itemsize(dtype) * math.prod(shape)
        self._writes.append(Write(make, number, size, self.space.pointer_getter(dtype, size, True)))

    def write_bytes(self, number: int, size: int) -> None:
        make = self.space.bytes_maker(size, self.device)
        self._writes.append(Write(make, number, size, self.space.pointer))

    def plan(self, family: str, fields: tuple[Any, ...], threads: Any) -> lib.Plan:
        return lib.plan(family, fields, thread_count(threads), self.backend, self.index)

    def call(self, plan: lib.Plan, backward: bool) -> Call:
        results = len(self._writes)
        scratch = plan.arg_bytes(backward, lib.SCRATCH) if self.backend == lib.CUDA else 0
        if scratch:
            self.write_bytes(lib.SCRATCH, scratch)
        fail = functools.partial(lib.check, names=self.names)
        return Call(self.space, self.device, plan, backward, self._reads, self._writes, results, self.held, fail)


@functools.lru_cache(maxsize=256)
def _code(source: str) -> Any:
    return compile(source, __name__, "exec")


def _packing(arguments: Sequence[tuple[int, str | int, int]], names: dict[str, Any]) -> str:
    """An expression for flashscan_args, given as their numbers, addresses or expressions of these, and sizes. What does
    not change from call to call is packed here, which takes half of the time out of ``struct.pack``. Adds to ``names``."""
    parts: list[bytes | str] = [b""]
    for number, address, size in arguments:
        head, tail = struct.pack(lib.ARG_ID, number, 0), struct.pack(lib.ARG_WORD, size)
        between: list[bytes | str] = [struct.pack(lib.ARG_WORD, address)] if isinstance(address, int) else [address]
        for part in (head, *between, tail):
            if isinstance(part, bytes) and isinstance(parts[-1], bytes):
                parts[-1] += part
            else:
                parts.append(part)
    words: list[str] = []
    for part in parts:
        if isinstance(part, bytes):
            words.append(f"word{len(words)}")
            names[words[-1]] = part
        else:
            words.append(part)
    names["pack"] = struct.Struct("".join(f"{len(p)}s" if isinstance(p, bytes) else lib.ARG_WORD for p in parts)).pack
    return f"pack({', '.join(words)})"


class Call:
    """Runs a plan on arrays of one kind; from any thread. ``run(arrays)`` returns what is written, in the problem's order.

    It is compiled for the plan's arguments: straight code takes half as long as loops over them.
    """

    run: Callable[[Sequence[Any]], list[Any]]

    def __init__(
        self,
        space: Any,
        device: Any,
        plan: lib.Plan,
        backward: bool,
        reads: list[Read],
        writes: list[Write],
        kept: int,
        held: dict[int, Any],
        fail: Callable[[int], None],
    ) -> None:
        """The first ``kept`` of ``writes`` are results. ``held``: arrays that are not looked for among those of ``run``.
        ``fail`` gets a status that is not OK."""
        # With the plan, which lives until the last call is over.
        names: dict[str, Any] = {"plan": plan, "handle": plan.handle, "execute": lib.execute, "fail": fail}
        names.update(stream=space.stream_getter(device))
        lines: list[str] = []
        arguments: list[tuple[int, str | int, int]] = []
        for i, read in enumerate(reads):
            if read.position in held:
                array = names[f"held{i}"] = (read.convert or (lambda same: same))(held[read.position])
                arguments.append((read.number, read.pointer(array), read.size))
                continue
            array = f"arrays[{read.position}]"
            if read.convert is not None:
                names[f"convert{i}"] = read.convert
                lines.append(f"read{i} = convert{i}({array})")
                array = f"read{i}"
            names[f"at_read{i}"] = read.pointer
            arguments.append((read.number, f"at_read{i}({array})", read.size))
        for i, write in enumerate(writes):
            names[f"make{i}"], names[f"at_write{i}"] = write.make, write.pointer
            lines.append(f"write{i} = make{i}()")
            arguments.append((write.number, f"at_write{i}(write{i})", write.size))
        packed = _packing(arguments, names)
        lines.append(f"status = execute(handle, {lib.pass_number(backward)}, {packed}, {len(arguments)}, stream())")
        lines.append("if status: fail(status)")
        lines.append(f"return [{', '.join(f'write{i}' for i in range(kept))}]")
        exec(_code("def run(arrays):\n " + "\n ".join(lines)), names)
        self.run = names.pop("run")  # no cycle, so that plans go with their calls


class Kind:
    """A function that fills in problems, ``function(problem, *options) -> Call``, and the calls that it has made."""

    def __init__(self, function: Callable[..., Call], lead: int, names: Sequence[str]) -> None:
        self.lead, self.declared, self.names = lead, names, [name.removesuffix("?") for name in names]
        self.cached = functools.lru_cache(maxsize=256)(self.make)
        self.function = function

    def problem(self, space: Any, signatures: Sequence[Signature | None]) -> Problem:
        return Problem(space, self.declared, self.lead, signatures)

    def make(self, space: Any, signatures: Sequence[Signature | None], options: tuple[Any, ...]) -> Call:
        return self.function(self.problem(space, signatures), *options)

    def hold(self, space: Any, arrays: Sequence[Any], free: int, options: tuple[Any, ...], changing: Sequence[str]) -> tuple[Any, Call]:
        """The signature of the array of number ``free``, and a call for any that has it, beside the others as they lie.
        Those whose names are in ``changing`` must not have to be copied."""
        arrays, signatures = look(space, arrays, self.lead, self.names)
        problem = self.problem(space, signatures)
        problem.held = {i: array for i, array in enumerate(arrays) if array is not None and i != free}
        call = self.function(problem, *options)
        for read in problem._reads:
            if read.convert is not None and self.names[read.position] in changing:
                raise FlashscanValueError(
                    f"{self.names[read.position]} has gaps or another dtype; accepted is what all calls can read where it lies"
                )
        return signatures[free], call

    def __call__(self, arrays: Sequence[Any], options: tuple[Any, ...]) -> list[Any]:
        first = arrays[self.lead]
        if first is None:
            raise FlashscanTypeError(f"{self.names[self.lead]} is None; accepted are arrays")
        space = _spaces.get(type(first)) or space_of(first)
        if space is None:
            return _foreign.call(lambda known: self(known, options), arrays, self.lead)
        arrays, signatures = look(space, arrays, self.lead, self.names)
        try:
            call = self.cached(space, signatures, options)
        except TypeError:  # an option that cannot be hashed, which is no accepted one
            call = self.make(space, signatures, options)
        return call.run(arrays)


def kind(lead: int, *names: str) -> Callable[[Callable[..., Call]], Kind]:
    """Arrays are named in the order of the call, those that may be None with a question mark; the one of number
    ``lead`` decides the package and the device."""
    return lambda function: Kind(function, lead, names)


_numpy = NumpySpace()
_spaces: dict[type, Any] = {_numpy.kind: _numpy}


@functools.lru_cache(maxsize=None)
def _package(name: str) -> Any:
    if name == "cupy":
        return CupySpace(sys.modules["cupy"])
    from ._space_torch import TorchSpace

    return TorchSpace()


def space_of(value: Any) -> Any:
    """The package of an array, NumPy for whatever it makes one of; None for arrays of packages without a space."""
    kind = type(value)
    space = _spaces.get(kind)
    if space is not None:
        return space
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        space = _package("torch")
    elif kind.__module__.partition(".")[0] == "cupy":
        space = _package("cupy")
    elif not _foreign.is_foreign(value):
        space = _numpy
    else:
        return None
    _spaces[kind] = space
    return space


def _converted(space: Any, value: Any, like: Any, name: str) -> Any:
    try:
        array = space.convert(value, like)
        if isinstance(value, int) and space.known.get(array.dtype) in INTEGERS and array.item() != value:
            raise OverflowError
        return array
    except FlashscanError:
        raise
    except Exception as error:
        of = f" of dtype {like.dtype}" if isinstance(value, int) and value is not like else ""
        raise FlashscanTypeError(f"{name} is {value!r}, of which no array{of} can be made; accepted are arrays") from error


def look(
    space: Any, arrays: Sequence[Any], lead: int, names: Sequence[str]
) -> tuple[Sequence[Any], tuple[Signature | None, ...]]:
    """The arrays as those of a space, and their signatures."""
    kinds, signature = space.kinds, space.signature_getter()
    signatures: list[Signature | None] = []
    for array in arrays:
        if array is None:
            signatures.append(None)
        elif type(array) in kinds:
            signatures.append(signature(array))
        else:
            first = _converted(space, arrays[lead], arrays[lead], names[lead])
            arrays = [None if a is None else _converted(space, a, first, name) for a, name in zip(arrays, names)]
            return arrays, tuple([None if each is None else signature(each) for each in arrays])
    return arrays, tuple(signatures)


def known_arrays(names: Sequence[str], arrays: Sequence[Any], lead: int) -> tuple[Any, list[Any]]:
    """The space of the array of number ``lead``, and all arrays that are given as its own."""
    space = space_of(arrays[lead])
    first = _converted(space, arrays[lead], arrays[lead], names[lead])
    return space, [None if a is None else _converted(space, a, first, name) for name, a in zip(names, arrays)]
