# SPDX-License-Identifier: Apache-2.0
"""Scans and reductions with operators that are functions: on arrays, called for each level of a tree, or compiled."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _library as lib
from ._call import Problem, look, space_of, thread_count
from ._errors import FlashscanError, FlashscanTypeError, FlashscanValueError
from ._operator import CUSTOM, EXCLUSIVE, REDUCTION, CudaOperator, HostOperator, Scan, axis_of
from ._spaces import Elements, Spec

_MOST_BYTES = 4096  # of an element of a compiled operator
# Of which numbers gradients of elements are made.
_GRADIENTS = {lib.F32: lib.F32, lib.C64: lib.F32, lib.F64: lib.F64, lib.C128: lib.F64}


class _Callbacks:
    """Functions on arrays as the library calls them. What they raise is kept: it must not pass through the library."""

    def __init__(self, space: Any, x: Spec, axis: int) -> None:
        self.space, self.x, self.shape = space, x, x.shape[axis + 1 :]
        self.bytes = x.itemsize * math.prod(self.shape)
        self.error: BaseException | None = None

    def _elements(self, address: int, stride: int, count: int) -> Elements:
        return Elements(address, stride, count, self.shape, self.x.dtype, self.x.itemsize, self.x.device)

    def _like(self, name: str, value: Any, operand: Any) -> Any:
        """``value``, which takes an operand's place and so has its shape and dtype."""
        if not isinstance(value, self.space.kind):
            raise FlashscanTypeError(
                f"{name} is a {type(value).__name__}; accepted are arrays of the operands' package, "
                f"{self.space.kind.__name__}"
            )
        if tuple(value.shape) != tuple(operand.shape):
            raise FlashscanValueError(
                f"{name} has shape {tuple(value.shape)}; accepted is {tuple(operand.shape)}, as both operands have"
            )
        if value.dtype != operand.dtype:
            raise FlashscanTypeError(
                f"{name} has dtype {value.dtype}; accepted is {operand.dtype}, as both operands have"
            )
        return value

    def _guarded(self, work: Callable[[], None]) -> int:
        try:
            work()
            return 0
        except BaseException as error:
            self.error = error
            return 1

    def operator(self, function: Callable[[Any, Any], Any]) -> Any:
        space = self.space

        def batched(
            _state: Any, lhs: int, lhs_stride: int, rhs: int, rhs_stride: int, out: int, out_stride: int, count: int, _stream: Any
        ) -> int:
            def work() -> None:
                left = space.load(self._elements(lhs, lhs_stride, count))
                right = space.load(self._elements(rhs, rhs_stride, count))
                value = self._like("op's result", function(left, right), left)
                space.store(self._elements(out, out_stride, count), value)

            return self._guarded(work)

        return lib.BatchedOperator(batched)

    def adjoint(self, function: Callable[[Any, Any, Any], tuple[Any, Any]]) -> Any:
        def batched(
            _state: Any, lhs: int, rhs: int, grad_out: int, grad_lhs: int, grad_rhs: int, count: int, _stream: Any
        ) -> int:
            def work() -> None:
                given = [self.space.load(self._elements(at, self.bytes, count)) for at in (lhs, rhs, grad_out)]
                for at, value in zip((grad_lhs, grad_rhs), function(*given)):
                    value = self._like("a gradient of op", value, given[0])
                    self.space.store(self._elements(at, self.bytes, count), value)

            return self._guarded(work)

        return lib.BatchedAdjoint(batched)


@dataclass(frozen=True)
class Request:
    """A call with an operator that is a function; ``adjoint(left, right, grad)`` gives both operands' gradients."""

    op: Any
    mode: int
    axis: int | None
    reverse: bool
    threads: int = 0
    adjoint: Callable[[Any, Any, Any], tuple[Any, Any]] | None = None


def _check_element(x: Spec, axis: int, compiled: bool) -> None:
    size = x.itemsize * math.prod(x.shape[axis + 1 :])
    if size < 1 or (compiled and size > _MOST_BYTES):
        accepted = f"1 to {_MOST_BYTES}" if compiled else "1 and up"
        raise FlashscanValueError(f"x has shape {x.shape}, with {size} bytes behind axis {axis}; accepted are {accepted}")


def _prepare(request: Request, names: Sequence[str], arrays: Sequence[Any]) -> tuple[Problem, Scan, Sequence[Any]]:
    if arrays[0] is None:
        raise FlashscanTypeError("x is None; accepted are arrays")
    space = space_of(arrays[0])
    if space is None:
        raise FlashscanTypeError(f"x is a {type(arrays[0]).__name__}; operators take arrays of NumPy, PyTorch and CuPy")
    arrays, signatures = look(space, arrays, 0, [name.removesuffix("?") for name in names])
    problem = Problem(space, names, 0, signatures)
    there = HostOperator if problem.backend == lib.CPU else CudaOperator
    if isinstance(request.op, (HostOperator, CudaOperator)) and not isinstance(request.op, there):
        raise FlashscanTypeError(
            f"op is a {type(request.op).__name__} and x is on {problem.device}; accepted there are {there.__name__} and functions"
        )
    x, axis = problem.specs[0], axis_of(request.axis, None, len(problem.specs[0].shape), 0)
    _check_element(x, axis, compiled=isinstance(request.op, there))
    scan = Scan(problem, x, CUSTOM, request.mode, axis, 0, request.reverse, problem.specs[-1])
    return problem, scan, arrays


def _run(request: Request, problem: Problem, scan: Scan, arrays: Sequence[Any], backward: bool) -> list[Any]:
    x = problem.specs[0]
    callbacks = _Callbacks(problem.space, x, scan.axis)
    custom = lib.CustomOperator(struct_size=ctypes.sizeof(lib.CustomOperator), element_bytes=callbacks.bytes)
    fields = scan.fields
    if isinstance(request.op, HostOperator):
        custom.state, custom.host = request.op.state, request.op.address
    elif isinstance(request.op, CudaOperator):
        code = request.op.code
        custom.code_kind = lib.CODE_CUDA_SOURCE if isinstance(code, str) else lib.CODE_LTO_IR
        code = code.encode() if isinstance(code, str) else code
        custom.code, custom.code_bytes = ctypes.cast(ctypes.c_char_p(code), ctypes.c_void_p), len(code)
        custom.name, custom.adjoint_name = request.op.name.encode(), request.op.adjoint_name.encode() or None
    else:
        custom.batched = callbacks.operator(request.op)
    if request.adjoint is not None:
        custom.batched_adjoint = callbacks.adjoint(request.adjoint)
    if request.adjoint is not None or custom.adjoint_name:
        fields = (_GRADIENTS.get(x.number, 0), *fields[1:])
    fields = (*fields, ctypes.addressof(custom))
    plan = lib.Plan("operator", fields, thread_count(request.threads), problem.backend, problem.index)
    try:
        return problem.call(plan, backward).run(arrays)
    except FlashscanError:
        if callbacks.error is not None:
            raise callbacks.error from None
        raise


def forward(request: Request, x: Any, initial: Any, seq_offsets: Any, out: Any = None, *, final: bool) -> list[Any]:
    """The output, unless it goes to ``out``, and the final state if asked for."""
    names = ("x", "initial?", "out?", "seq_offsets?")
    problem, scan, arrays = _prepare(request, names, (x, initial, out, seq_offsets))
    spec, start, into, _ = problem.specs
    if start is None and request.mode == EXCLUSIVE:
        raise FlashscanValueError("initial is None; accepted with exclusive and an op that is no name are arrays")
    if start is None and (final or request.mode == REDUCTION) and not spec.shape[scan.axis] and 0 not in scan.state_shape:
        raise FlashscanValueError(
            f"x has shape {spec.shape} and initial is None; accepted without steps and with an op that is no name are arrays"
        )
    problem.read(lib.INPUT, spec)
    problem.read_converted(lib.STATE_IN, start, scan.state_shape, spec.dtype)
    scan.write(problem, into, spec.dtype)
    if final:
        problem.write(lib.STATE_OUT, scan.state_shape, spec.dtype)
    return _run(request, problem, scan, arrays, False)


def backward(request: Request, x: Any, grad_output: Any, initial: Any, grad_final: Any, seq_offsets: Any) -> list[Any]:
    """The gradients of x, and of the initial state if there is one."""
    names = ("x", "grad_output", "initial?", "grad_final?", "seq_offsets?")
    problem, scan, arrays = _prepare(request, names, (x, grad_output, initial, grad_final, seq_offsets))
    spec, grad, start, last = problem.specs[:4]
    problem.read(lib.INPUT, spec)
    problem.read_converted(lib.GRAD | lib.OUTPUT, grad, scan.output_shape, spec.dtype)
    problem.read_converted(lib.GRAD | lib.STATE_OUT, last, scan.state_shape, spec.dtype)
    problem.write(lib.GRAD | lib.INPUT, spec.shape, spec.dtype)
    if start is not None:
        problem.read_converted(lib.STATE_IN, start, scan.state_shape, spec.dtype)
        problem.write(lib.GRAD | lib.STATE_IN, scan.state_shape, spec.dtype)
    return _run(request, problem, scan, arrays, True)
