# SPDX-License-Identifier: Apache-2.0
"""One sequence over the processes of a ``torch.distributed`` group, each of which holds consecutive steps of it.

Tensors are on the CPU, and the group has a backend for them: gloo. The steps of rank 0 come first. What ranks send each
other are a few numbers for each batch and channel, whatever the length of their parts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from . import _library as lib
from . import _linear
from ._call import Kind, Problem, flag, look, space_of, thread_count
from ._errors import FlashscanError, FlashscanTypeError, FlashscanValueError
from .torch._linear import _as_gate
from .torch._types import as_state, tensors

__all__ = ["linear_scan"]

Tensor = torch.Tensor


class _Ranks:
    """A group as the library's communicator."""

    def __init__(self, group: Any) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise FlashscanValueError("there is no process group; torch.distributed.init_process_group makes one")
        self.group, self.rank, self.size = group, dist.get_rank(group), dist.get_world_size(group)
        if self.rank < 0:
            raise FlashscanValueError("this process is not in the group; accepted are groups that it is in")
        if dist.get_backend(group) == "nccl":
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

    def is_elsewhere(self, number: int, reverse: bool) -> bool:
        """Whether an argument belongs to another rank."""
        first, last = (self.size - 1, 0) if reverse else (0, self.size - 1)
        state = number & ~lib.GRAD
        return (state == lib.STATE_IN and self.rank != first) or (state == lib.STATE_OUT and self.rank != last)

    def agree(self, ready: bool) -> None:
        """Every rank comes here before its plan is made, so that none waits for one that has refused its arguments."""
        self.agreed = True
        all_ready = torch.empty(self.size, dtype=torch.uint8)
        _gather(self.group, torch.tensor([ready], dtype=torch.uint8), all_ready, self.size)
        if ready and not all_ready.all():
            failed = all_ready.tolist().index(0)
            raise FlashscanError(f"rank {failed} of the group has refused its arguments; its own error says why")


def _bytes(address: int, count: int) -> Tensor:
    return torch.frombuffer((ctypes.c_char * count).from_address(address), dtype=torch.uint8)


def _gather(group: Any, send: Tensor, receive: Tensor, size: int) -> None:
    dist.all_gather(list(receive.view(size, -1)), send, group=group)


class _Problem(Problem):
    """That of a rank. Its plan is made for the call: whether one is cached would differ from rank to rank."""

    def __init__(self, kind: Kind, space: Any, signatures: Sequence[Any], ranks: _Ranks, reverse: bool) -> None:
        super().__init__(space, kind.declared, kind.lead, signatures)
        self.ranks, self.reverse = ranks, reverse
        if self.backend != lib.CPU:
            raise FlashscanValueError(f"tensors are on {self.device}; accepted is cpu")

    def write(self, number: int, shape: tuple[int, ...], dtype: Any) -> None:
        if not self.ranks.is_elsewhere(number, self.reverse):
            super().write(number, shape, dtype)

    def plan(self, family: str, fields: tuple, threads: Any) -> lib.Plan:
        threads = thread_count(threads)
        self.ranks.agree(True)
        return lib.Plan(family, fields, threads, self.backend, self.index, self.ranks.comm)


def _run(kind: Kind, arrays: Sequence[Any], options: tuple, ranks: _Ranks, reverse: bool) -> list[Any]:
    ranks.agreed = False
    try:
        space = space_of(arrays[kind.lead])
        arrays, signatures = look(space, arrays, kind.lead, kind.names)
        return kind.function(_Problem(kind, space, signatures, ranks, reverse), *options).run(arrays)
    except Exception as error:
        if not ranks.agreed:
            ranks.agree(False)
        if ranks.errors:
            raise error from ranks.errors.pop()
        raise


class _LinearScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate, input, state, reset, ranks, final, *options):
        results = _run(_linear.forward, (gate, input, state, None, reset), (final, *options, 0), ranks, options[2])
        ctx.ranks, ctx.options = ranks, options
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gate, results[0], state, reset)
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad, grad_state=None):
        gate, output, state, reset = ctx.saved_tensors
        grad = torch.zeros_like(output) if grad is None else grad
        arrays = (gate, output, grad, state, grad_state, None, reset)
        results = _run(_linear.backward, arrays, (*ctx.options, 0), ctx.ranks, ctx.options[2])
        return results[0], results[1], None if state is None else results[2], *(None,) * (3 + len(ctx.options))


def linear_scan(
    gate: Tensor | float,
    input: Tensor,
    initial_state: Tensor | None = None,
    *,
    group: Any = None,
    layout: str = "btc",
    gate_form: str = "value",
    reverse: bool = False,
    reset: Tensor | None = None,
    return_final_state: bool = False,
) -> Any:
    """``flashscan.torch.linear_scan`` of a sequence whose steps lie on the ranks of ``group``, with autograd.

    All ranks call it, and run backward through it, alike and in the same order: where one does not, the others wait for
    it until the group's timeout. Options, dtypes, batch and channels are the same on all of them.

    Args:
        gate: any shape that broadcasts to the input's, of dtypes as in ``flashscan.torch.linear_scan``. The gradient of
            one that is broadcast along time is the sum over this rank's steps; add those of all ranks, as gradients of
            parameters are added in data-parallel training.
        input: [B, T, C], or [B, C, T] with ``layout="bct"``: this rank's steps. T may differ from rank to rank and may
            be zero.
        initial_state: [B, C], of the first rank alone: rank 0, or with ``reverse`` the last one. Zeros if not given.
        group: a group of torch.distributed; the default one if None.
        layout, gate_form, reset: as in ``flashscan.linear_scan``.
        reverse: walks from the last step of the last rank to the first of rank 0.
        return_final_state: also return the last state, on every rank: that of the last rank to compute, rank size - 1 or
            with ``reverse`` 0, has it; the others have None.

    Returns:
        h of this rank's steps, or ``(h, final_state)``.

    Raises:
        FlashscanError: what is wrong, and what is accepted. Ranks whose own arguments are right hear of one whose are
            not, or that asks for something else.
    """
    ranks = _Ranks(group)
    try:
        tensors(input=input)
        tensors(True, initial_state=initial_state, reset=reset)
        reverse, final = flag("reverse", reverse), flag("return_final_state", return_final_state)
        gate, state = _as_gate(gate, input), as_state(initial_state, input)
    except (FlashscanTypeError, FlashscanValueError):
        ranks.agree(False)
        raise
    results = _LinearScan.apply(gate, input, state, reset, ranks, final, layout, gate_form, reverse)
    if not final:
        return results[0]
    return results if len(results) == 2 else (results[0], None)
