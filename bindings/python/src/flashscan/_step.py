# SPDX-License-Identifier: Apache-2.0
"""One step of many sequences, whose states are rows of a pool and are updated in place, for decoding.

Arrays have no axis of time; calls of the library get one of extent 1.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from . import _gated, _linear, _rnn, _selective
from . import _library as lib
from ._call import Call, Kind, Problem, kind, same_dtype, same_shape, space_of
from ._errors import FlashscanTypeError, FlashscanValueError
from ._out import check_out
from ._spaces import Spec
from ._types import Activation, Array, ArrayLike, Cell, Decay, Epilogue, GateForm, Layer, Scale

_DENSE = (0, 0, 0)
_STATE_STRIDES = ((0, 0),) * 4


def _with_time(spec: Any) -> Any:
    if spec is None:
        return None
    (batch, *shape), (row, *strides) = spec.shape, spec.strides
    return dataclasses.replace(spec, shape=(batch, 1, *shape), strides=(row, 0, *strides))


def _axes(spec: Spec, *counts: int) -> None:
    if len(spec.shape) not in counts:
        raise FlashscanValueError(f"{spec.name} has shape {spec.shape}; accepted are arrays of {' or '.join(map(str, counts))} axes")


def _pool(
    problem: Problem,
    state: Spec,
    indices: Spec | None,
    batch: int,
    inner: tuple[int, ...],
    dtype: Any,
    front: tuple[int, ...] = (),
    written: bool = True,
) -> tuple[Any, ...]:
    """Has the state [*front, rows, *inner] read and, if ``written``, written where it lies. Returns the last fields of a
    descriptor."""
    place = len(front)
    rows = state.shape[place] if indices is not None and len(state.shape) > place else batch
    if state.shape != (*front, rows, *inner):
        words = map(str, (*front, batch if indices is None else "rows", *inner))
        raise FlashscanValueError(f"state has shape {state.shape}; accepted is ({', '.join(words)})")
    if state.dtype != dtype:
        raise FlashscanTypeError(f"state has dtype {state.dtype}; accepted is {dtype}, because it is updated in place")
    if not (state.dense and state.writeable):
        raise FlashscanValueError("state is a view with gaps or cannot be written; accepted are dense arrays that can be")
    problem.read(lib.STATE_IN, state)
    if written:
        problem.read(lib.STATE_OUT, state)
    if indices is None:
        return (*_STATE_STRIDES, 0)
    if indices.number != lib.I32:
        raise FlashscanTypeError(f"state_indices has dtype {indices.dtype}; accepted is int32")
    same_shape(indices, (batch,))
    if rows == 0:
        raise FlashscanValueError("state has no rows; accepted with state_indices is one at least")
    problem.read(lib.STATE_INDICES, indices)
    return (*_STATE_STRIDES, rows)


def _reset(spec: Spec | None, batch: int) -> Any:
    if spec is not None:
        same_shape(spec, (batch,))
    return _with_time(spec)


@kind(1, "gate", "input", "state", "state_indices?", "reset?")
def _linear_call(problem: Problem, gate_form: str, threads: int) -> Call:
    gate, x, state, indices, reset = problem.specs
    _axes(x, 2)
    if len(gate.shape) > 2 or any(n not in (1, m) for n, m in zip(reversed(gate.shape), reversed(x.shape))):
        raise FlashscanValueError(f"gate has shape {gate.shape}; accepted are shapes that broadcast to the input's, {x.shape}")
    (batch, channels), gate = x.shape, _with_time(gate) if len(gate.shape) == 2 else gate
    linear = _linear._Linear(problem, gate, _with_time(x), None, _reset(reset, batch), ("btc", gate_form, False, threads))
    strides = _linear._read(problem, lib.INPUT, _with_time(x), linear.axes)
    problem.write(lib.OUTPUT, x.shape, x.dtype)
    pool = _pool(problem, state, indices, batch, (channels,), linear.state_dtype)
    fields = (*linear.fields, strides, linear.gate_strides, _DENSE, _DENSE, _DENSE, _DENSE, *pool)
    return problem.call(problem.plan("linear", fields, threads), False)


@kind(1, "gate", "input", "state", *(name + "?" for name in _gated._EXTRA), "state_indices?", "reset?")
def _gated_call(problem: Problem, *options: Any) -> Call:
    gate, x, state, *extra, indices, reset = problem.specs
    _axes(x, 2)
    for spec in (gate, *extra[:3]):
        if spec is not None:
            same_shape(spec, x.shape)
    batch, channels = x.shape
    extra[:3] = map(_with_time, extra[:3])
    layer = _gated._Layer(problem, _with_time(gate), _with_time(x), extra, (None, _reset(reset, batch)), options)
    strides = _linear._read(problem, lib.INPUT, _with_time(x), layer.axes)
    problem.write(lib.OUTPUT, x.shape, x.dtype)
    pool = _pool(problem, state, indices, batch, (channels,), layer.state_dtype)
    return problem.call(layer.plan(problem, pool, input=strides), False)


@kind(0, "u", "delta", "A", "B", "C", "D?", "z?", "delta_bias?", "state", "state_indices?", "reset?")
def _selective_call(problem: Problem, *options: Any) -> Call:
    u, delta, A, B, C, D, z, bias, state, indices, reset = problem.specs
    _axes(u, 2)
    _axes(A, 2)
    _axes(B, 2, 3)
    _axes(C, 2, 3)
    for spec in (delta, z):
        if spec is not None:
            same_shape(spec, u.shape)
    batch, channels = u.shape
    for spec in (B, C):
        if spec.shape[0] != batch or spec.shape[-1] != A.shape[1]:
            states = A.shape[1]
            raise FlashscanValueError(
                f"{spec.name} has shape {spec.shape}; accepted are ({batch}, {states}) and ({batch}, groups, {states})"
            )
    arrays = [_with_time(delta), A, _with_time(B), _with_time(C), D, _with_time(z), bias]
    scan = _selective._Selective(problem, _with_time(u), arrays, (None, _reset(reset, batch)), options)
    strides = _linear._read(problem, lib.INPUT, _with_time(u), scan.axes)
    problem.write(lib.OUTPUT, u.shape, u.dtype)
    pool = _pool(problem, state, indices, batch, (channels, scan.states), scan.matrix)
    return problem.call(scan.plan(problem, pool, input=strides), False)


@kind(0, "Wx", "R", "b?", "state", "state_indices?", "reset?", "out?")
def _rnn_call(problem: Problem, cell: str, threads: int) -> Call:
    x, R, b, state, indices, reset, out = problem.specs
    _axes(x, 4)
    batch, _, *inner = x.shape
    options = (cell, "btghd", False, False, False, 0.0, False, threads)
    net = _rnn._Network(problem, R, _with_time(x), (batch, 1), tuple(inner), None, _reset(reset, batch), options)
    same_shape(x, (batch, *net.input_shape[2:]))
    problem.read(lib.INPUT, x)
    if b is not None:
        same_shape(b, net.bias_shape)
        same_dtype(b, R.dtype)
        problem.read(lib.BIAS, b)
    in_pool = indices is not None  # else a network's states are not written where they are read
    if out is None:
        problem.write(lib.OUTPUT, (batch, *inner), x.dtype)
    else:
        problem.write_into(lib.OUTPUT, out, (batch, *inner), x.dtype, dense=True)
    pool = _pool(problem, state, indices, batch, tuple(inner), net.state_dtype, net.state_shape[:1], in_pool)
    if not in_pool:
        problem.write(lib.STATE_OUT, net.state_shape, net.state_dtype)
    return problem.call(net.plan(problem, pool), False)


def _space_of_state(state: Any) -> Any:
    space = space_of(state)
    if space is None or not isinstance(state, space.kind):
        raise FlashscanTypeError(
            f"state is a {type(state).__name__}; accepted are arrays of NumPy, PyTorch and CuPy, which are updated in place"
        )
    return space


def _run(call: Kind, state: Array, arrays: tuple[Any, ...], options: tuple[Any, ...]) -> list[Array]:
    _space_of_state(state)
    return call(arrays, options)


def linear_step(
    gate: ArrayLike,
    input: Array,
    state: Array,
    *,
    gate_form: GateForm = "value",
    state_indices: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> Array:
    """One step of ``linear_scan``: h = a * state + input, which is returned and becomes the state, in place.

    Args:
        gate: any shape that broadcasts to the input's; dtypes are those of ``linear_scan``.
        input: [B, C].
        state: [B, C], or a pool of states [rows, C] with ``state_indices``; dense, float32 with float32 and 16-bit input,
            else of the input's dtype; an array of NumPy, PyTorch or CuPy.
        gate_form: as in ``linear_scan``.
        state_indices: [B], int32; row i of the batch has its state in row ``state_indices[i]`` of the pool. -1 marks
            padding: the output is 0 there, and no state is touched. No row of the pool may belong to two of the batch. On
            a GPU what is no row of the pool is padding too.
        reset: [B], bool or uint8; where it is not 0, the state before the step counts as 0.
        threads: as in ``linear_scan``.

    Returns:
        h, of the shape and dtype of the input. There are no gradients; tensors that require them are refused outside of
        ``torch.no_grad()``.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    return _run(_linear_call, state, (gate, input, state, state_indices, reset), (gate_form, threads))[0]


def gated_step(
    gate: Array,
    input: Array,
    state: Array,
    *,
    layer: Layer | None = None,
    decay: Decay | None = None,
    scale: Scale = "one",
    activation: Activation = "none",
    epilogue: Epilogue = "none",
    second_gate: Array | None = None,
    input_gate: Array | None = None,
    output_gate: Array | None = None,
    param: Array | None = None,
    bias: Array | None = None,
    first_step: bool = False,
    decay_rate: float = 0.0,
    state_indices: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> Array:
    """One step of ``gated_scan``, whose state is updated in place.

    Args:
        gate, input, second_gate, input_gate, output_gate: [B, C].
        state, state_indices, reset: as in ``linear_step``. Where a sequence starts whose layer has ``first_step``, as
            "rglru" has, ``reset`` says so.

    The others are those of ``gated_scan``.

    Returns:
        The output, of the shape and dtype of the input.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    options = (layer, decay, scale, activation, epilogue, first_step, decay_rate, 0.0, "btc", False, threads)
    arrays = (gate, input, state, second_gate, input_gate, output_gate, param, bias, state_indices, reset)
    return _run(_gated_call, state, arrays, options)[0]


def selective_step(
    u: Array,
    delta: Array,
    A: Array,
    B: Array,
    C: Array,
    state: Array,
    D: Array | None = None,
    z: Array | None = None,
    delta_bias: Array | None = None,
    *,
    delta_softplus: bool = False,
    state_indices: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> Array:
    """One step of ``selective_scan``, whose state is updated in place.

    Args:
        u, delta, z: [B, C].
        B, C: [B, N] or [B, G, N].
        state: [B, C, N], or [rows, C, N] with ``state_indices``, of A's dtype; dense.
        state_indices, reset: as in ``linear_step``.

    The others are those of ``selective_scan``.

    Returns:
        y, of the shape and dtype of u.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    arrays = (u, delta, A, B, C, D, z, delta_bias, state, state_indices, reset)
    return _run(_selective_call, state, arrays, (delta_softplus, "btc", False, threads))[0]


def rnn_step(
    Wx: Array,
    R: ArrayLike,
    b: ArrayLike | None,
    state: Array,
    *,
    cell: Cell = "lstm",
    state_indices: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    threads: int = 0,
) -> Array:
    """One step of ``rnn``, whose states are updated in place.

    Args:
        Wx: [B, G, H, D].
        R, b, cell: as in ``rnn``.
        state: [S, B, H, D], or a pool [S, rows, H, D] with ``state_indices``, whose row i is ``state[:, i]``: h, h c for
            "lstm", h c n m for "slstm"; dense, float32 with float32 and 16-bit data, else float64; an array of NumPy,
            PyTorch or CuPy. Zeros are no past.
        state_indices, reset: as in ``linear_step``.
        threads: as in ``rnn``.

    Returns:
        h, [B, H, D], of Wx's dtype.

    Raises:
        FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
        FlashscanError: the library failed; ``status`` tells how.
    """
    h, *final = _run(_rnn_call, state, (Wx, R, b, state, state_indices, reset), (cell, threads))
    if final:
        written: Any = state
        written[...] = final[0]
    return h


def _never() -> bool:
    return False


class RnnStep:
    """``rnn_step`` for decoding with weights and states that stay where they lie: ``RnnStep(R, b, state)(Wx)``.

    A call costs the host about half of one of ``rnn_step``, since only ``Wx`` is looked at. The arrays are held, and read
    and written where they lay in the first call: new numbers in them count, other memory given to them (as by a tensor's
    ``data = ...``) does not. R and b that have gaps, or a dtype that the library does not read, are copied in the first call:
    new numbers in these do not count, and calls on another stream have to wait for that one.

    Args:
        R, b, state, cell, state_indices, reset, threads: as in ``rnn_step``. Without ``state_indices`` row i of the batch has
            row i of the state.
        out: [B, H, D], dense, of the dtype of ``Wx`` and the package of ``state``: where every call writes h, which it
            returns. To make an array costs a fifth of a call on a GPU.
    """

    def __init__(
        self,
        R: ArrayLike,
        b: ArrayLike | None,
        state: Any,
        *,
        cell: Cell = "lstm",
        state_indices: ArrayLike | None = None,
        reset: ArrayLike | None = None,
        out: Any = None,
        threads: int = 0,
    ) -> None:
        self._space = _space_of_state(state)
        check_out(out, state)
        self._out = out
        self._rows = state.shape[1:2] if state_indices is None else None
        if state_indices is None:  # so that one launch updates the states
            rows = self._space.convert(list(range(*self._rows or (0,))), state)
            state_indices = self._space.dense(rows, self._space.dtype(lib.I32))
        self._arrays = (R, b, state, state_indices, reset, out)
        self._options = (cell, threads)
        learns = any(getattr(array, "requires_grad", False) for array in self._arrays)
        self._records = self._space.records if learns else _never
        self._made: tuple[Any, Call | None] = (None, None)  # one object, so that threads never see halves of two

    def __call__(self, Wx: Array) -> Array:
        """One step: ``Wx`` [B, G, H, D] to h, [B, H, D], of its dtype.

        Raises:
            FlashscanValueError, FlashscanTypeError: an argument is not accepted; the message says what is.
            FlashscanError: the library failed; ``status`` tells how.
        """
        given: Any = Wx
        space = self._space
        known, call = self._made
        if call is None or self._records() or type(given) not in space.kinds or space.signature_getter()(given) != known:
            given = space.convert(given, self._arrays[2])
            if self._rows is not None and given.shape[:1] != self._rows:
                shapes = [tuple(each.shape) for each in (given, self._arrays[2])]
                raise FlashscanValueError(
                    f"Wx has shape {shapes[0]} and state {shapes[1]}; accepted without state_indices is a state of as many rows"
                )
            changing = ("state_indices", "reset")
            self._made = _, call = _rnn_call.hold(space, (given, *self._arrays), 0, self._options, changing)
        made = call.run((given,))
        h: Array = made[0] if made else self._out
        return h
