# SPDX-License-Identifier: Apache-2.0
"""The operators of scans over the ranks of a ``torch.distributed`` group: those of one process, whose passes run with the
library's communicator.

An operator knows its group by name, so that torch.compile can keep it in a graph. A state, or its gradient, that belongs
to another rank is an empty tensor among an operator's results.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from .. import _library as lib
from .._call import Kind, Problem, flag, integer, look, space_of, thread_count
from .._errors import FlashscanError, FlashscanNotImplementedError, FlashscanTypeError, FlashscanValueError
from . import _nccl, _transforms
from ._register import Operators
from ._types import Tensor


# Asked of the class, once: torch.compile does not trace what asks a group.
_know_their_names = hasattr(getattr(dist, "ProcessGroup", None), "group_name")


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
    return group.group_name if _know_their_names else _names()[group]


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
    """A group as the library's communicator, for one call on tensors on the CPU."""

    def __init__(self, name: str, steps: tuple[int, ...] | None) -> None:
        """``steps``: of all ranks, None where the caller did not say."""
        self.group, self.steps = _group_of(name), steps
        self.rank, self.size = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.agreed = False
        self.errors: list[BaseException] = []

    def _communicator(self) -> lib.Comm:
        # The function does not know self, which keeps it: plans then go with their last call.
        group, size, errors = self.group, self.size, self.errors

        def all_gather(_user: Any, send: int, receive: int, count: int, _stream: Any) -> int:
            try:
                _gather(group, _bytes(send, count), _bytes(receive, size * count), size)
                return 0
            except BaseException as error:  # which may not pass through the library
                errors.append(error)
                return 1

        return lib.Comm(ctypes.sizeof(lib.Comm), lib.COMM_CALLBACKS, self.rank, self.size, None, lib.AllGather(all_gather))

    def agree(self, ready: bool) -> None:
        """Every rank comes here before its plan is made, so that none waits for one that has refused its arguments."""
        self.agreed = True
        all_ready = torch.empty(self.size, dtype=torch.uint8)
        _gather(self.group, torch.tensor([ready], dtype=torch.uint8), all_ready, self.size)
        if ready and not all_ready.all():
            failed = all_ready.tolist().index(0)
            raise FlashscanError(f"rank {failed} of the group has refused its arguments; its own error says why")

    def plan(self, problem: Problem, family: str, fields: tuple[Any, ...], threads: int) -> lib.Plan:
        """Makes the plan for the call: whether one is cached would differ from rank to rank."""
        self.agree(True)
        return lib.Plan(family, fields, threads, problem.backend, problem.index, self._communicator())

    def call(self, *what: Any) -> _Call:
        """``what``: the kind, space, signatures and options of the call, and whether it is in reverse."""
        return _Call(self, *what)

    def run(self, kind: Kind, arrays: Sequence[Any], options: tuple[Any, ...], reverse: bool) -> list[Any]:
        """A pass on all ranks; its results are at their places."""
        try:
            space = space_of(arrays[kind.lead])
            arrays, signatures = look(space, arrays, kind.lead, kind.names)
            return self.call(kind, space, signatures, options, reverse).run(arrays)
        except Exception as error:
            if not self.agreed:
                self.agree(False)
            if self.errors:
                raise error from self.errors.pop()
            raise


class _Kept:
    """Of a group: the communicators of its NCCL, the plans that its ranks have made together, and the calls of them.

    A plan has a key that the ranks' calls have alike, so that all of them make it, or find it, at the same call.
    """

    most = 256

    def __init__(self) -> None:
        self.communicators: dict[torch.device, int] = {}
        self.plans: dict[Any, lib.Plan] = {}
        self.calls: dict[Any, _Call] = {}  # their keys are a rank's own

    def keep(self, key: Any, plan: lib.Plan) -> None:
        if len(self.plans) == self.most:
            del self.plans[next(iter(self.plans))]
            self.calls.clear()  # those of the plan that goes must not be found any more
        self.plans[key] = plan


_kept: weakref.WeakKeyDictionary[Any, _Kept] = weakref.WeakKeyDictionary()


class _NcclRanks(_Ranks):
    """A group whose NCCL the library uses, for one call on tensors on GPUs. Calls only enqueue once their plan is made.

    Ranks do not tell each other of what a call is refused for: those whose plan is made would not listen.
    """

    def __init__(self, name: str, steps: tuple[int, ...] | None, device: torch.device) -> None:
        super().__init__(name, steps)
        self.device = device
        self.kept = _kept.setdefault(self.group, _Kept())

    def _communicator(self) -> lib.Comm:
        known = self.kept.communicators
        if self.device not in known:
            known[self.device] = _nccl.communicator(self.group, self.rank, self.size, self.device, _gather)
        return lib.Comm(ctypes.sizeof(lib.Comm), lib.COMM_NCCL, user=known[self.device])

    def plan(self, problem: Problem, family: str, fields: tuple[Any, ...], threads: int) -> lib.Plan:
        steps = self.steps or (_steps_of(family, fields),) * self.size
        key = family, fields, threads, problem.index, steps
        plan = self.kept.plans.get(key)
        if plan is None:
            self._check_steps(steps)
            plan = lib.Plan(family, fields, threads, problem.backend, problem.index, self._communicator())
            self.kept.keep(key, plan)
        return plan

    def _check_steps(self, steps: tuple[int, ...]) -> None:
        """Throws the same on all ranks if they know different numbers. This is also the collective for which PyTorch makes
        its communicator, and whose timeout says that a rank does not come."""
        if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise FlashscanValueError(
                "a call over ranks is captured; accepted are those that have run before, which makes their plan"
            )
        every = torch.empty(self.size * self.size, dtype=torch.int64, device=self.device)
        _gather(self.group, torch.tensor(steps, device=self.device), every, self.size)
        known = every.view(self.size, self.size)
        if (known != known[0]).any():
            own = ", ".join(map(str, known.diagonal().tolist()))
            raise FlashscanValueError(
                f"ranks have {own} steps; accepted on GPUs are as many on all ranks, or steps=({own}) on all of them"
            )

    def call(self, *what: Any) -> _Call:
        key = *what, self.steps
        call = self.kept.calls.get(key)
        if call is None:
            call = self.kept.calls[key] = _Call(self, *what)
        return call

    def agree(self, ready: bool) -> None:
        pass

    def run(self, kind: Kind, arrays: Sequence[Any], options: tuple[Any, ...], reverse: bool) -> list[Any]:
        # Gradients lie as other operators have left them, on each rank in its own way: in a plan's key that would tell
        # ranks apart.
        dense = [a.contiguous() if name == "grad_output" else a for name, a in zip(kind.names, arrays)]
        return super().run(kind, dense, options, reverse)


def _tell_of_refusal(name: str, *given: Any) -> None:
    """Tells the other ranks that this one has refused its arguments, unless they use NCCL, over which they do not listen."""
    group, tensors = _group_of(name), [each for each in given if isinstance(each, Tensor)]
    by_nccl = _nccl.backend_name(group, "cuda") == "nccl" and (not tensors or tensors[0].is_cuda)
    if not by_nccl and _nccl.backend_name(group, "cpu") is not None:
        _Ranks(name, None).agree(False)


def _ranks_for(name: str, steps: tuple[int, ...] | None, tensor: Tensor) -> _Ranks:
    device = tensor.device
    backend = _nccl.backend_name(_group_of(name), device.type)
    if device.type not in ("cpu", "cuda") or backend is None or (device.type == "cuda" and backend != "nccl"):
        _tell_of_refusal(name, tensor)
        raise FlashscanValueError(
            f"tensors are on {device}, for which the group has {backend or 'no backend'}; accepted are tensors on the CPU "
            "with gloo, and on a GPU with nccl"
        )
    return _Ranks(name, steps) if device.type == "cpu" else _NcclRanks(name, steps, device)


def _steps_of(family: str, fields: tuple[Any, ...]) -> int:
    names = [name for name, *_ in lib.FAMILIES[family][0]._fields_[1:]]
    time: int = fields[names.index("time")]
    return time


class _Problem(Problem):
    """That of a rank."""

    def __init__(self, kind: Kind, space: Any, signatures: Sequence[Any], ranks: _Ranks, reverse: bool) -> None:
        super().__init__(space, kind.declared, kind.lead, signatures)
        self.ranks, self.reverse = ranks, reverse
        self.elsewhere: list[tuple[int, torch.dtype]] = []  # places among results

    def write(self, number: int, shape: tuple[int, ...], dtype: Any) -> None:
        if _is_elsewhere(number, self.ranks.rank, self.ranks.size, self.reverse):
            self.elsewhere.append((len(self._writes) + len(self.elsewhere), dtype))
        else:
            super().write(number, shape, dtype)

    def plan(self, family: str, fields: tuple[Any, ...], threads: Any) -> lib.Plan:
        steps, rank, own = self.ranks.steps, self.ranks.rank, _steps_of(family, fields)
        if steps is not None and (len(steps) != self.ranks.size or steps[rank] != own):
            raise FlashscanValueError(
                f"steps is {steps}; accepted are the numbers of all {self.ranks.size} ranks, here {own} of rank {rank}"
            )
        return self.ranks.plan(self, family, fields, thread_count(threads))


class _Call:
    """A call of a rank, and which of its results other ranks have."""

    def __init__(
        self, ranks: _Ranks, kind: Kind, space: Any, signatures: Sequence[Any], options: tuple[Any, ...], reverse: bool
    ) -> None:
        problem = _Problem(kind, space, signatures, ranks, reverse)
        self._call = kind.function(problem, *options)
        self._elsewhere, self._device = problem.elsewhere, problem.device

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        results = self._call.run(arrays)
        for place, dtype in self._elsewhere:
            results.insert(place, torch.empty(0, dtype=dtype, device=self._device))
        return results


def _pass(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that takes the name of the group, and the steps of all ranks, behind its other arguments."""

    def run(kind: Kind, *inputs: Any) -> Any:
        *own, name, steps = inputs
        steps = None if steps is None else tuple(steps)

        def run_pass(arrays: Sequence[Any], options: tuple[Any, ...]) -> list[Any]:
            return _ranks_for(name, steps, arrays[kind.lead]).run(kind, arrays, options, own[-1])

        return kernel(run_pass, *own)

    return run


def _fake(fake: Callable[..., Any], number: int, place: int) -> Callable[..., Any]:
    """``fake`` for a kernel of ``_pass``, whose result at ``place`` may belong to another rank."""

    def make(*inputs: Any) -> tuple[Any, ...]:
        *own, name, _ = inputs
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
        more = "bool reverse, str group, int[]? steps)"
        schema, backward_schema = (each.replace("bool reverse)", more) for each in operators.schemas)
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
        self,
        group: Any,
        steps: Sequence[int] | None,
        return_final: tuple[str, Any],
        arguments: Callable[..., tuple[Any, ...]],
        *given: Any,
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """The output, or the pair of it and the final state, None where another rank has it. ``return_final``: the name
        and the value of the argument that asks for it. ``arguments(*given)`` makes those of the operator."""
        name = _name_of(group)
        try:
            final, inputs = flag(*return_final), arguments(*given)
            of_ranks = None if steps is None else [integer("steps", number) for number in steps]
        except (FlashscanTypeError, FlashscanValueError):
            _tell_of_refusal(name, *given)
            raise
        results: tuple[Tensor, ...] = self._op(*inputs, name, of_ranks)
        output, state = results[:2]
        if not final:
            return output
        here = not _is_elsewhere(lib.STATE_OUT, dist.get_rank(group), dist.get_world_size(group), inputs[-1])
        return output, state if here else None
