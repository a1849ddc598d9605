# SPDX-License-Identifier: Apache-2.0
"""The linear recurrence in jax.shard_map, with time cut along an axis of the mesh.

What the steps of a device do to the state that enters them is ``state -> product * state + local``, and so is what they
do to the gradient that comes back through them. All devices get these of all, in one all-gather a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from . import _library as lib
from ._errors import FlashscanValueError
from ._linear import LAYOUTS
from ._xla import Work, _bind, _varied, call
from ._xla_families import LINEAR

Array = jax.Array
_psum: Callable[[Any, Any], Any] = jax.lax.psum
_GATES: dict[str, Callable[[Array], Array]] = {"value": lambda gate: gate, "log": jnp.exp, "logit": jax.nn.sigmoid}


def _product(gate: Array, x: Array, reset: Array | None, options: tuple[Any, ...], dtype: Any) -> Array:
    """[B, C]: the product of the gates of all steps, 0 behind a reset."""
    _, layout, form, *_ = options
    batch, time, channels = LAYOUTS[layout][1]
    gate = _GATES[form](gate.astype(jnp.promote_types(gate.dtype, jnp.float32)))
    if reset is not None:
        gate = jnp.where(jnp.expand_dims(reset != 0, channels), 0, gate)
    if gate.shape[time] == x.shape[time]:
        product = jnp.prod(gate, time)
    else:
        product = jnp.squeeze(gate, time) ** x.shape[time]
    return jnp.broadcast_to(product, (x.shape[batch], x.shape[channels])).astype(dtype)


def _fold(state: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
    """The state behind a device's steps, and the one before them."""
    product, local = step
    return product * state + local, state


def _gathered(array: Array, axis: Any, reverse: bool) -> Array:
    """Gathers the arrays of all devices, in the order of computation."""
    every = jax.lax.all_gather(array, axis)
    return jnp.flip(every, 0) if reverse else every


def _gradients(arrays: Sequence[Any], options: tuple[Any, ...], wanted: frozenset[int]) -> dict[int, Array]:
    """Runs the backward pass of a device's steps: gradients by number. None is an array that is not given."""
    task = Work(LINEAR, True, LINEAR.backward_options(options), tuple(a is not None for a in arrays), wanted)
    present = [a for a in arrays if a is not None]
    numbers = [number for number, _, _ in task.results(task.trace(present))]
    return dict(zip(numbers, _bind(*present, work=task)))


def _along(axis: Any, options: tuple[Any, ...]) -> Callable[..., Any]:
    """``function(place, gate, x, state, reset)``: h and the state behind a device's steps; ``place`` is that of the device
    in the order of computation, ``state`` that of the first."""
    reverse = options[3]
    grads = {name: lib.GRAD | number for name, number in (("gate", lib.GATE), ("x", lib.INPUT), ("state", lib.STATE_IN))}

    def forward(place: Array, gate: Array, x: Array, state: Array, reset: Array | None) -> tuple[Any, Any]:
        _, local = call(LINEAR, [gate, x, None, None, reset], options)
        own = jnp.stack((_product(gate, x, reset, options, state.dtype), local))
        products, locals_ = _gathered(own, axis, reverse).swapaxes(0, 1)
        _, entering = jax.lax.scan(_fold, state, (products, locals_))
        carry = jnp.take(entering, place, 0)
        h, last = call(LINEAR, [gate, x, carry, None, reset], options)
        return (h, last), (place, gate, h, carry, reset, products)

    def backward(kept: tuple[Any, ...], cotangents: tuple[Array, Array]) -> tuple[Any, ...]:
        place, gate, h, carry, reset, products = kept
        dh, dlast = cotangents
        arrays = (gate, h, dh, carry, dlast, None, reset)
        leaving = _gradients(arrays, options, frozenset({grads["state"]}))[grads["state"]]
        nothing, _ = _varied([jnp.zeros_like(leaving), leaving])
        steps = products, _gathered(leaving, axis, reverse)
        _, arriving = jax.lax.scan(_fold, nothing, steps, reverse=True)
        dlast = dlast + jnp.take(arriving, place, 0)
        found = _gradients((gate, h, dh, carry, dlast, None, reset), options, frozenset(grads.values()))
        dstate = jnp.where(place == 0, found[grads["state"]], 0)
        return None, found[grads["gate"]], found[grads["x"]], dstate, None

    function = jax.custom_vjp(lambda *arrays: forward(*arrays)[0])
    function.defvjp(forward, backward)
    return function


def linear_scan(axis: Any, arrays: Sequence[Any], options: tuple[Any, ...]) -> list[Array]:
    """h of a device's steps, and the last state of the whole sequence, which all devices get.

    Args:
        axis: the name of an axis of the mesh, in jax.shard_map.
        arrays: gate, input, initial state, sequence offsets and resets; None stands for one that is not given.
        options: of the forward pass of _linear.py.

    Raises:
        FlashscanValueError: there is no such axis, or there are sequence offsets.
    """
    gate, x, state, seq_offsets, reset = arrays
    if seq_offsets is not None:
        raise FlashscanValueError("seq_offsets is given with axis_name; accepted over devices is reset")
    try:
        size, place = _psum(1, axis), jax.lax.axis_index(axis)
    except (NameError, TypeError, ValueError) as error:
        raise FlashscanValueError(
            f"axis_name is {axis!r}; accepted are axes of the mesh around the call, in jax.shard_map"
        ) from error
    final, *rest = options
    options = (True, *rest)
    # Shapes and dtypes are checked as without an axis.
    checked = Work(LINEAR, False, options, tuple(a is not None for a in arrays))
    types = {n: (shape, dtype) for n, shape, dtype in checked.trace([a for a in arrays if a is not None]).results}
    shape, dtype = types[lib.STATE_OUT]
    place = size - 1 - place if rest[2] else place
    state = jnp.zeros(shape, dtype) if state is None else state.astype(dtype)
    given = [place, gate, x, state, *([] if reset is None else [reset])]
    place, *given = _varied(given)
    h, last = _along(axis, options)(place, *given, *([None] if reset is None else []))
    if not final:
        return [h]
    return [h, _psum(jnp.where(place == size - 1, last, 0), axis)]
