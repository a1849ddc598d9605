# SPDX-License-Identifier: Apache-2.0
"""The operators of scans over the ranks of a ``torch.distributed`` group: those of one process, whose passes run with the
library's communicator.

An operator knows its group by name, so that torch.compile can keep it in a graph. A state, or its gradient, that belongs
to another rank is an empty tensor among an operator's results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from .. import _library as lib
from .._call import Kind, Problem, flag, look, space_of, thread_count
from .._errors import FlashscanError, FlashscanNotImplementedError, FlashscanTypeError, FlashscanValueError
from . import _transforms
from ._register import Operators
from ._types import Tensor


def _names() -> dict[Any, str]:
    """Returns the names of groups, in releases of PyTorch whose groups do not know their own."""
    known: Any = dist.distributed_c10d
    names: dict[Any, str] = known._pg_names if hasattr(known, "_pg_names") else known._world.pg_names
    return names


def _name_of(group: Any) -> str:
    """The name by which operators know a group, the default one for None."""
    if not dist.is_available() or not dist.is_initialized():
        raise FlashscanValueError("there is no process group; torch.distributed.init_process_group makes one")
    if dist.get_rank(group) < 0:
        raise FlashscanValueError("this process is not in the group; accepted are groups that it is in")
    group = dist.group.WORLD if group is None else group
    return group.group_name if hasattr(group, "group_name") else _names()[group]


def _group_of(name: str) -> Any:
    known: Any = dist.distributed_c10d
    if hasattr(known, "_resolve_process_group"):
        return known._resolve_process_group(name)
    return next(group for group, its in _names().items() if its == name)


def _is_elsewhere(number: int, rank: int, size: int, reverse: bool) -> bool:
    """Whether an argument belongs to another rank."""
    first, last = (size - 1, 0) if reverse else (0, size - 1)
    state = number & ~lib.GRAD
    return (state == lib.STATE_IN and rank != first) or (state == lib.STATE_OUT and rank != last)


def _gather(group: Any, send: Tensor, receive: Tensor, size: int) -> None:
    dist.all_gather(list(receive.view(size, -1)), send, group=group)


def _bytes(address: int, count: int) -> Tensor:
    return torch.frombuffer((ctypes.c_char * count).from_address(address), dtype=torch.uint8)


class _Ranks:
    """A group as the library's communicator, for one call."""

    def __init__(self, name: str) -> None:
        self.group = _group_of(name)
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        if dist.get_backend(self.group) == "nccl":
            raise FlashscanValueError("the group's backend is nccl; accepted are backends for CPU tensors, gloo")
        self.agreed = False
        self.errors: list[BaseException] = []
        self.comm = lib.Comm(ctypes.sizeof(lib.Comm), lib.COMM_CALLBACKS, self.rank, self.size, None, self._function())

    def _function(self) -> Any:
        # Without self, which keeps the function: plans then go with their last call.
        group, size, errors = self.group, self.size, self.errors

        def all_gather(_user: Any, send: int, receive: int, count: int, _stream: Any) -> int:
            try:
                _gather(group, _bytes(send, count), _bytes(receive, size * count), size)
                return 0
            except BaseException as error:  # which may not pass through the library
                errors.append(error)
                return 1

        return lib.AllGather(all_gather)

    def agree(self, ready: bool) -> None:
        """Every rank comes here before its plan is made, so that none waits for one that has refused its arguments."""
        self.agreed = True
        all_ready = torch.empty(self.size, dtype=torch.uint8)
        _gather(self.group, torch.tensor([ready], dtype=torch.uint8), all_ready, self.size)
        if ready and not all_ready.all():
            failed = all_ready.tolist().index(0)
            raise FlashscanError(f"rank {failed} of the group has refused its arguments; its own error says why")

    def run(self, kind: Kind, arrays: Sequence[Any], options: tuple[Any, ...], reverse: bool) -> list[Any]:
        """A pass on all ranks; its results are at their places."""
        try:
            space = space_of(arrays[kind.lead])
            arrays, signatures = look(space, arrays, kind.lead, kind.names)
            problem = _Problem(kind, space, signatures, self, reverse)
            results = kind.function(problem, *options).run(arrays)
        except Exception as error:
            if not self.agreed:
                self.agree(False)
            if self.errors:
                raise error from self.errors.pop()
            raise
        for place, dtype in problem.elsewhere:
            results.insert(place, torch.empty(0, dtype=dtype))
        return results


class _Problem(Problem):
    """That of a rank. Its plan is made for the call: whether one is cached would differ from rank to rank."""

    def __init__(self, kind: Kind, space: Any, signatures: Sequence[Any], ranks: _Ranks, reverse: bool) -> None:
        super().__init__(space, kind.declared, kind.lead, signatures)
        self.ranks, self.reverse = ranks, reverse
        self.elsewhere: list[tuple[int, torch.dtype]] = []  # places among results
        if self.backend != lib.CPU:
            raise FlashscanValueError(f"tensors are on {self.device}; accepted is cpu")

    def write(self, number: int, shape: tuple[int, ...], dtype: Any) -> None:
        if _is_elsewhere(number, self.ranks.rank, self.ranks.size, self.reverse):
            self.elsewhere.append((len(self._writes) + len(self.elsewhere), dtype))
        else:
            super().write(number, shape, dtype)

    def plan(self, family: str, fields: tuple[Any, ...], threads: Any) -> lib.Plan:
        threads = thread_count(threads)
        self.ranks.agree(True)
        return lib.Plan(family, fields, threads, self.backend, self.index, self.ranks.comm)


def _pass(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that takes the name of the group behind its other arguments."""

    def run(kind: Kind, *inputs: Any) -> Any:
        *own, name = inputs
        ranks = _Ranks(name)
        return kernel(lambda arrays, options: ranks.run(kind, arrays, options, own[-1]), *own)

    return run


def _fake(fake: Callable[..., Any], number: int, place: int) -> Callable[..., Any]:
    """``fake`` for a kernel of ``_pass``, whose result at ``place`` may belong to another rank."""

    def make(*inputs: Any) -> tuple[Any, ...]:
        *own, name = inputs
        results, group = list(fake(*own)), _group_of(name)
        if _is_elsewhere(number, dist.get_rank(group), dist.get_world_size(group), own[-1]):
            results[place] = results[place].new_empty((0,))
        return tuple(results)

    return make


class OverRanks:
    """A scan over ranks: ``flashscan.distributed.<function>``."""

    def __init__(self, function: str, operators: Operators, grad_state: int) -> None:
        """``grad_state``: the place of the initial state's gradient among the results of the backward pass."""
        self.function = f"flashscan.distributed.{function}"
        schema, backward_schema = (each.replace("bool reverse)", "bool reverse, str group)") for each in operators.schemas)
        kernel, backward_kernel = map(_pass, operators.kernels)
        over_ranks = replace(
            operators,
            schemas=(schema, backward_schema),
            kernels=(kernel, backward_kernel),
            fakes=(
                _fake(operators.fakes[0], lib.STATE_OUT, 1),
                _fake(operators.fakes[1], lib.GRAD | lib.STATE_IN, grad_state),
            ),
            tangent=lambda *_: self._refuse("forward-mode derivatives"),
            save_backward=None,
            second_backward=lambda *_: self._refuse("second derivatives"),
            backward_tangent=lambda *_: self._refuse("forward-mode derivatives"),
            instead=self._without_transforms,
        )
        self._op, _ = over_ranks.register(f"distributed_{function}", function=function)

    def _refuse(self, what: str) -> NoReturn:
        raise FlashscanNotImplementedError(
            f"{self.function} has no {what}; accepted is one derivative in reverse mode, as backward takes it"
        )

    def _without_transforms(self, *_: Any) -> None:
        if _transforms.active():
            raise FlashscanNotImplementedError(f"{self.function} is not for torch.func's transforms; accepted is autograd")

    def __call__(
        self, group: Any, return_final: tuple[str, Any], arguments: Callable[..., tuple[Any, ...]], *given: Any
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """The output, or the pair of it and the final state, None where another rank has it. ``return_final``: the name
        and the value of the argument that asks for it. ``arguments(*given)`` makes those of the operator."""
        name = _name_of(group)
        try:
            final, inputs = flag(*return_final), arguments(*given)
        except (FlashscanTypeError, FlashscanValueError):
            _Ranks(name).agree(False)
            raise
        results: tuple[Tensor, ...] = self._op(*inputs, name)
        output, state = results[:2]
        if not final:
            return output
        here = not _is_elsewhere(lib.STATE_OUT, dist.get_rank(group), dist.get_world_size(group), inputs[-1])
        return output, state if here else None
