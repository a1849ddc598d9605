# SPDX-License-Identifier: Apache-2.0
"""flashscan's functions on JAX arrays, on the CPU and on CUDA devices.

They take the arguments of the functions of the same names in ``flashscan``, and may be used under ``jax.jit``,
differentiation and ``jax.vmap``. A mapped axis becomes part of the
batch where a call can do that; where it cannot, calls are made one after another: packed sequences, recurrent weights,
parameters or biases that are mapped themselves, constant matrices of selective scans among them, and in
``vmap(grad(...))`` gradients of recurrent networks, of gated layers with an epilogue where JAX has one device, and of
what a batch shares; ``grad`` of ``vmap`` is one call.

Scans have derivatives of every order, in both modes. First gradients are those of one backward pass; tangents and what
is differentiated further are made of several calls, those of a selective scan with all states of all steps in memory, as
large as N inputs. ``rnn`` has first derivatives in reverse mode.

XLA cuts a call along the batch, channels and heads where arrays are sharded so, and gathers nothing; arrays that are
sharded along time, and gradients of ``rnn`` on sharded arrays, are refused when the program is compiled. This takes
Shardy, JAX's partitioner since 0.7; older releases gather. In
``jax.shard_map`` each device makes a call of its own, and scans with ``axis_name`` go on from device to
device, in all but forward mode. Complex gradients follow JAX's convention. ``threads`` is for the
CPU. What only the data can tell, sequence offsets that decrease for example, fails when the program runs.

``jax.export`` takes programs with these functions where the custom call is allowed by its name,
``jax.export.DisabledSafetyCheck.custom_call("flashscan")``. The call holds a descriptor of this version of the library:
what was exported runs where ``flashscan.jax`` of the same version has been imported. Symbolic extents are refused.

The steps for decoding, whose names end in ``_step``, return the states beside the output, as JAX's arrays do not change:
in ``jax.jit`` with the states donated, and in ``jax.lax.scan`` with the states as the carry, they are updated in place,
else they are copied. Steps have no derivatives, and mapped steps are made one after another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import jax
import jax.numpy as jnp

from . import _affine, _gated, _linear, _operator, _rnn, _selective
from ._axis import TimeAxis, check_layout
from ._call import choose, flag, integer, number, thread_count, words
from ._errors import FlashscanNotImplementedError, FlashscanTypeError
from ._types import Activation, Cell, Decay, Epilogue, GateForm, Layer, Layout, NetworkLayout, OperatorName, Scale
from ._xla import Family, call
from ._xla_families import AFFINE, GATED, LINEAR, OPERATOR, RNN, SELECTIVE
from ._xla_problem import arrays_of
from ._xla_ranks import over_axis
from ._xla_step import gated_step, linear_step, rnn_step, selective_step

if TYPE_CHECKING:
    from ._options import (
        AffineMeshOptions,
        GatedMeshOptions,
        LinearMeshOptions,
        NetworkOptions,
        ScanMeshOptions,
        SelectiveMeshOptions,
        Unpack,
    )

Array = jax.Array
ArrayLike = Any

__all__ = [
    "affine_scan",
    "gated_scan",
    "gated_step",
    "linear_scan",
    "linear_step",
    "prefix_scan",
    "reduce",
    "rnn",
    "rnn_step",
    "selective_scan",
    "selective_step",
]


def _run(family: Family, arrays: list[Any], options: tuple[Any, ...], axis_name: Any, reverse: bool) -> list[Any]:
    if axis_name is None:
        return call(family, arrays, options)
    return over_axis(family, axis_name, arrays, options, reverse)


@overload
def linear_scan(
    gate: ArrayLike, input: ArrayLike, initial_state: ArrayLike | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[LinearMeshOptions],
) -> Array: ...  # fmt: skip
@overload
def linear_scan(
    gate: ArrayLike, input: ArrayLike, initial_state: ArrayLike | None = None, *, return_final_state: Literal[True],
    **options: Unpack[LinearMeshOptions],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def linear_scan(
    gate: ArrayLike, input: ArrayLike, initial_state: ArrayLike | None = None, *, return_final_state: bool,
    **options: Unpack[LinearMeshOptions],
) -> Array | tuple[Array, Array]: ...  # fmt: skip
def linear_scan(
    gate: ArrayLike,
    input: ArrayLike,
    initial_state: ArrayLike | None = None,
    *,
    layout: Layout = "btc",
    axis: int | None = None,
    gate_form: GateForm = "value",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_final_state: bool = False,
    threads: int = 0,
    axis_name: Any = None,
) -> Array | tuple[Array, Array]:
    """Computes ``h[t] = a[t] * h[t-1] + input[t]`` from ``initial_state``; arguments as in ``flashscan.linear_scan``.

    ``input`` is [B, T, C], or [B, C, T] with ``layout="bct"``; ``gate`` broadcasts to it; ``initial_state`` is [B, C],
    or [N, C] with ``seq_offsets`` [N + 1]; ``reset`` is [B, T]; with ``axis`` the input has any rank. Returns h, or the
    pair of it and the final state.

    ``axis_name``: in ``jax.shard_map``, the name of the axis of the mesh along which time is cut. Each device then has its
    own steps in ``gate``, ``input`` and ``reset``, as many as every other, those of index 0 first; ``initial_state`` is
    that of the whole sequence, and so is the final state, which all devices get. A pass sends two numbers for each batch
    and channel, in one all-gather, and runs twice through a device's steps. The product of the gates of a device's steps
    has to be in the range of the state's dtype. There is no ``seq_offsets`` then. Gradients may be differentiated
    further; forward mode alone is refused.
    """
    choose("layout", layout, _linear.LAYOUTS), choose("gate_form", gate_form, _linear.GATE_FORMS)
    arrays = arrays_of(_linear.forward, gate, input, initial_state, seq_offsets, reset)
    time = None if axis is None else TimeAxis("input", axis, arrays[1].shape, arrays[3])
    if time is not None:
        check_layout(layout)
        gate, input, initial_state, seq_offsets, reset = arrays
        arrays = [time.gate(gate, jnp.broadcast_to), time.data("input", input)]
        arrays += [time.state("initial_state", initial_state), seq_offsets, time.reset(reset)]
    if arrays[0].ndim < 3:
        arrays[0] = arrays[0].reshape((1,) * (3 - arrays[0].ndim) + arrays[0].shape)
    final, reverse = flag("return_final_state", return_final_state), flag("reverse", reverse)
    options = (final, layout, gate_form, reverse, thread_count(threads))
    results = _run(LINEAR, arrays, options, axis_name, reverse)
    if time is not None:
        results = time.results(*results)
    return tuple(results) if return_final_state else results[0]


@overload
def gated_scan(
    gate: ArrayLike, input: ArrayLike, initial_state: ArrayLike | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[GatedMeshOptions[ArrayLike]],
) -> Array: ...  # fmt: skip
@overload
def gated_scan(
    gate: ArrayLike, input: ArrayLike, initial_state: ArrayLike | None = None, *, return_final_state: Literal[True],
    **options: Unpack[GatedMeshOptions[ArrayLike]],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def gated_scan(
    gate: ArrayLike, input: ArrayLike, initial_state: ArrayLike | None = None, *, return_final_state: bool,
    **options: Unpack[GatedMeshOptions[ArrayLike]],
) -> Array | tuple[Array, Array]: ...  # fmt: skip
def gated_scan(
    gate: ArrayLike,
    input: ArrayLike,
    initial_state: ArrayLike | None = None,
    *,
    layer: Layer | None = None,
    decay: Decay | None = None,
    scale: Scale = "one",
    activation: Activation = "none",
    epilogue: Epilogue = "none",
    second_gate: ArrayLike | None = None,
    input_gate: ArrayLike | None = None,
    output_gate: ArrayLike | None = None,
    param: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    first_step: bool = False,
    decay_rate: float = 0.0,
    sqrt_slope_limit: float = 0.0,
    layout: Layout = "btc",
    axis: int | None = None,
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_final_state: bool = False,
    threads: int = 0,
    axis_name: Any = None,
) -> Array | tuple[Array, Array]:
    """A gated layer in one pass: ``h[t] = a[t] * h[t-1] + scale(a[t]) * v[t]``; arguments as in ``flashscan.gated_scan``,
    which has the formulas.

    ``gate``, ``second_gate``, ``input_gate`` and ``output_gate`` are of the input's shape, [B, T, C], or [B, C, T] with
    ``layout="bct"``; ``param`` and ``bias`` [C]; ``initial_state`` [B, C], or [N, C] with ``seq_offsets`` [N + 1];
    ``reset`` [B, T]; with ``axis`` the input has any rank; ``axis_name`` as in ``linear_scan``. Returns the output, of the
    input's shape and dtype, or the pair of it and the final state. What is not accepted raises a ``FlashscanError`` that says
    what is.
    """
    words(True, layer=layer, decay=decay)
    words(scale=scale, activation=activation, epilogue=epilogue, layout=layout)
    extra = (second_gate, input_gate, output_gate, param, bias)
    arrays = arrays_of(_gated.forward, gate, input, initial_state, *extra, seq_offsets, reset)
    time = None if axis is None else TimeAxis("input", axis, arrays[1].shape, arrays[8])
    if time is not None:
        check_layout(layout)
        arrays = list(map(time.view, _gated.forward.names, arrays))
    final = flag("return_final_state", return_final_state)
    options: tuple[Any, ...] = (layer, decay, scale, activation, epilogue, flag("first_step", first_step))
    options += (number("decay_rate", decay_rate), number("sqrt_slope_limit", sqrt_slope_limit))
    options += (layout, flag("reverse", reverse), thread_count(threads))
    results = _run(GATED, arrays, (final, False, *options), axis_name, options[-2])
    if time is not None:
        results = time.results(*results)
    return tuple(results) if final else results[0]


@overload
def selective_scan(
    u: ArrayLike, delta: ArrayLike, A: ArrayLike, B: ArrayLike, C: ArrayLike, D: ArrayLike | None = None,
    z: ArrayLike | None = None, delta_bias: ArrayLike | None = None, initial_state: ArrayLike | None = None, *,
    return_final_state: Literal[False] = False, **options: Unpack[SelectiveMeshOptions],
) -> Array: ...  # fmt: skip
@overload
def selective_scan(
    u: ArrayLike, delta: ArrayLike, A: ArrayLike, B: ArrayLike, C: ArrayLike, D: ArrayLike | None = None,
    z: ArrayLike | None = None, delta_bias: ArrayLike | None = None, initial_state: ArrayLike | None = None, *,
    return_final_state: Literal[True], **options: Unpack[SelectiveMeshOptions],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def selective_scan(
    u: ArrayLike, delta: ArrayLike, A: ArrayLike, B: ArrayLike, C: ArrayLike, D: ArrayLike | None = None,
    z: ArrayLike | None = None, delta_bias: ArrayLike | None = None, initial_state: ArrayLike | None = None, *,
    return_final_state: bool, **options: Unpack[SelectiveMeshOptions],
) -> Array | tuple[Array, Array]: ...  # fmt: skip
def selective_scan(
    u: ArrayLike,
    delta: ArrayLike,
    A: ArrayLike,
    B: ArrayLike,
    C: ArrayLike,
    D: ArrayLike | None = None,
    z: ArrayLike | None = None,
    delta_bias: ArrayLike | None = None,
    initial_state: ArrayLike | None = None,
    *,
    delta_softplus: bool = False,
    layout: Layout = "btc",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_final_state: bool = False,
    threads: int = 0,
    axis_name: Any = None,
) -> Array | tuple[Array, Array]:
    """Mamba's state-space layer; arguments as in ``flashscan.selective_scan``, which has the formulas.

    ``u``, ``delta`` and ``z`` are [B, T, C], or [B, C, T] with ``layout="bct"``; ``A`` [C, N], real or complex; ``B`` and
    ``C`` [C, N] of A's dtype or, of each step, [B, T, N] or [B, T, G, N] ([B, N, T], [B, G, N, T]); ``D`` and
    ``delta_bias`` [C]; ``initial_state`` [B, C, N], or [sequences, C, N] with ``seq_offsets``; ``reset`` [B, T];
    ``axis_name`` as in ``linear_scan``, with two numbers for each of the states. Returns y,
    of the shape and dtype of u, or the pair of it and the final state of A's dtype. What is not accepted raises a
    ``FlashscanError`` that says what is. With groups of B or C, channels are not cut where arrays are sharded.
    """
    words(layout=layout)
    given = (u, delta, A, B, C, D, z, delta_bias, initial_state, seq_offsets, reset)
    arrays = arrays_of(_selective.forward, *given)
    final = flag("return_final_state", return_final_state)
    options = (final, flag("delta_softplus", delta_softplus), layout, flag("reverse", reverse), thread_count(threads))
    results = _run(SELECTIVE, arrays, options, axis_name, options[-2])
    return tuple(results) if final else results[0]


@overload
def rnn(
    Wx: ArrayLike, R: ArrayLike, b: ArrayLike | None, cell: Cell = "lstm", initial_state: ArrayLike | None = None, *,
    return_final_state: Literal[False] = False, **options: Unpack[NetworkOptions],
) -> Array: ...  # fmt: skip
@overload
def rnn(
    Wx: ArrayLike, R: ArrayLike, b: ArrayLike | None, cell: Cell = "lstm", initial_state: ArrayLike | None = None, *,
    return_final_state: Literal[True], **options: Unpack[NetworkOptions],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def rnn(
    Wx: ArrayLike, R: ArrayLike, b: ArrayLike | None, cell: Cell = "lstm", initial_state: ArrayLike | None = None, *,
    return_final_state: bool, **options: Unpack[NetworkOptions],
) -> Array | tuple[Array, Array]: ...  # fmt: skip
def rnn(
    Wx: ArrayLike,
    R: ArrayLike,
    b: ArrayLike | None,
    cell: Cell = "lstm",
    initial_state: ArrayLike | None = None,
    *,
    layout: NetworkLayout = "btghd",
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    reset: ArrayLike | None = None,
    return_all_states: bool = False,
    return_final_state: bool = False,
    recurrent_clip: float = 0.0,
    allow_tf32: bool = False,
    threads: int = 0,
    axis_name: None = None,
) -> Array | tuple[Array, Array]:
    """A recurrent network on products ``Wx`` of input and input weights; arguments as in ``flashscan.rnn``.

    ``Wx`` is [B, T, G, H, D], or [T, B, G, H, D] with ``layout="tbghd"``; ``R`` [G, H, D, D] (out, in); ``b``
    [G, H, D], or [4, H, D] for "gru"; ``initial_state`` [S, B, H, D]. Returns the hidden states
    [B, T, H, D] or [T, B, H, D], all S states in front of that with ``return_all_states``, or the pair of them and the
    final state [S, B, H, D]. ``axis_name`` is refused: devices would wait for one another.
    """
    if axis_name is not None:
        raise FlashscanNotImplementedError(
            f"axis_name is {axis_name!r}; accepted for rnn is None, as each step of a recurrent network needs the state of the "
            "step before: devices would wait for one another"
        )
    choose("cell", cell, _rnn.CELLS), choose("layout", layout, _rnn.LAYOUTS)
    arrays = arrays_of(_rnn.forward, Wx, R, b, initial_state, seq_offsets, reset)
    reverse, all_states = flag("reverse", reverse), flag("return_all_states", return_all_states)
    clip = number("recurrent_clip", recurrent_clip)
    tf32 = flag("allow_tf32", allow_tf32)
    options = (cell, layout, reverse, all_states, False, clip, tf32, thread_count(threads))
    results = call(RNN, arrays, (flag("return_final_state", return_final_state), *options))
    return tuple(results) if return_final_state else results[0]


def _scan(
    x: Any, op: Any, initial: Any, seq_offsets: Any, final: bool, mode: int, axis: Any, reverse: Any, threads: Any,
    axis_name: Any,
) -> list[Array]:  # fmt: skip
    if not _operator.named(op, ""):
        raise FlashscanTypeError(
            f"op is {op!r}; accepted are {', '.join(map(repr, _operator.NAMED))}; functions of Python, on arrays and on "
            "pytrees, are jax.lax.associative_scan's, which is compiled by XLA with them"
        )
    if isinstance(x, (tuple, list, dict)) and any(getattr(leaf, "ndim", 0) for leaf in jax.tree.leaves(x)):
        raise FlashscanTypeError(
            f"x is a {type(x).__name__}; accepted is one array; pytrees are jax.lax.associative_scan's, and pairs (W, b) "
            "of affine maps affine_scan's or linear_scan's"
        )
    axis = None if axis is None else integer("axis", axis)
    options = (op, final, mode, axis, flag("reverse", reverse), thread_count(threads))
    return _run(OPERATOR, arrays_of(_operator.forward, x, initial, seq_offsets), options, axis_name, options[-2])


@overload
def prefix_scan(
    x: ArrayLike, op: OperatorName, *, return_final: Literal[False] = False, **options: Unpack[ScanMeshOptions]
) -> Array: ...
@overload
def prefix_scan(
    x: ArrayLike, op: OperatorName, *, return_final: Literal[True], **options: Unpack[ScanMeshOptions]
) -> tuple[Array, Array]: ...
@overload
def prefix_scan(
    x: ArrayLike, op: OperatorName, *, return_final: bool, **options: Unpack[ScanMeshOptions]
) -> Array | tuple[Array, Array]: ...
def prefix_scan(
    x: ArrayLike,
    op: OperatorName,
    *,
    axis: int | None = None,
    reverse: bool = False,
    exclusive: bool = False,
    initial: ArrayLike | None = None,
    seq_offsets: ArrayLike | None = None,
    return_final: bool = False,
    threads: int = 0,
    axis_name: Any = None,
) -> Array | tuple[Array, Array]:
    """Prefixes ``y[t] = x[0] o x[1] o ... o x[t]`` along an axis; arguments as in ``flashscan.prefix_scan``.

    ``op`` is "add", "mul", "min", "max", "logaddexp", or "matmul" of the last two axes, or for integers and bools "and",
    "or", "xor". Returns y of x's shape, or the pair of it and the last inclusive prefix.

    ``axis_name`` as in ``linear_scan``; a pass sends what a device's steps combine to. Prefixes are in the order of
    devices, and ``initial`` is in front of the whole sequence.
    """
    mode = _operator.EXCLUSIVE if flag("exclusive", exclusive) else _operator.INCLUSIVE
    final = flag("return_final", return_final)
    results: list[Any] = _scan(x, op, initial, seq_offsets, final, mode, axis, reverse, threads, axis_name)
    return tuple(results) if return_final else results[0]


def reduce(
    x: ArrayLike,
    op: OperatorName,
    *,
    axis: int | None = None,
    reverse: bool = False,
    initial: ArrayLike | None = None,
    seq_offsets: ArrayLike | None = None,
    threads: int = 0,
    axis_name: Any = None,
) -> Array:
    """The last of ``prefix_scan``: ``x``'s shape without ``axis``; see there for the arguments.

    With ``axis_name`` all devices get that of the whole sequence, and run through their steps once.
    """
    return _scan(x, op, initial, seq_offsets, False, _operator.REDUCTION, axis, reverse, threads, axis_name)[0]


@overload
def affine_scan(
    W: ArrayLike, b: ArrayLike, initial_state: ArrayLike | None = None, *, return_final_state: Literal[False] = False,
    **options: Unpack[AffineMeshOptions],
) -> Array: ...  # fmt: skip
@overload
def affine_scan(
    W: ArrayLike, b: ArrayLike, initial_state: ArrayLike | None = None, *, return_final_state: Literal[True],
    **options: Unpack[AffineMeshOptions],
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def affine_scan(
    W: ArrayLike, b: ArrayLike, initial_state: ArrayLike | None = None, *, return_final_state: bool,
    **options: Unpack[AffineMeshOptions],
) -> Array | tuple[Array, Array]: ...  # fmt: skip
def affine_scan(
    W: ArrayLike,
    b: ArrayLike,
    initial_state: ArrayLike | None = None,
    *,
    reverse: bool = False,
    seq_offsets: ArrayLike | None = None,
    return_final_state: bool = False,
    threads: int = 0,
    axis_name: Any = None,
) -> Array | tuple[Array, Array]:
    """States ``x[t] = W[t] x[t-1] + b[t]`` from ``initial_state``; arguments as in ``flashscan.affine_scan``.

    ``W`` is [..., T, d, d] (row: out, column: in), ``b`` [..., T, d], ``initial_state`` [..., d]. Returns x of b's
    shape, or the pair of it and the last state. ``axis_name`` as in ``linear_scan``; a pass sends d + 1 vectors, and the
    product of a device's matrices takes d multiplications for each of their numbers.
    """
    arrays = arrays_of(_affine.forward, W, b, initial_state, seq_offsets)
    final, reverse = flag("return_final_state", return_final_state), flag("reverse", reverse)
    results = _run(AFFINE, arrays, (final, reverse, thread_count(threads)), axis_name, reverse)
    return tuple(results) if return_final_state else results[0]
