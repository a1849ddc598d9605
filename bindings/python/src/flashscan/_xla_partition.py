# SPDX-License-Identifier: Apache-2.0
"""How XLA cuts a call whose arrays are sharded: along the batch and channels, and never along time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from ._errors import FlashscanNotImplementedError

# The name of each axis of an array. Those that begin with b, c or h (batch, channels, heads) may be cut; none else.
Axes = Sequence[str]
_CUT = {"b": "batch", "c": "channels", "h": "heads"}


class Layout(NamedTuple):
    """What a call reads and writes, in order: a name for people and the axes' names."""

    function: str
    operands: list[tuple[str, Axes]]
    results: list[Axes]


def named_axes(shape: Sequence[int], axes: Axes, full: dict[str, int], fresh: Any) -> Axes:
    """``axes`` of an array; one along which it is broadcast gets a name of its own."""
    names = [
        axis if full.setdefault(axis, extent) == extent else f"u{next(fresh)}" for axis, extent in zip(axes, shape)
    ]
    return tuple(names)


def _rule(layout: Layout) -> str:
    sides = [axes for _, axes in layout.operands], layout.results
    return " -> ".join(", ".join(" ".join(axes) for axes in side) for side in sides)


def _spec(sharding: Any, axes: Axes) -> list[tuple[str, ...]]:
    """The mesh's axes that cut each axis of an array."""
    entries = list(sharding.spec) + [None] * (len(axes) - len(sharding.spec))
    return [() if entry is None else entry if isinstance(entry, tuple) else (entry,) for entry in entries]


def _cuts(layout: Layout, operands: Sequence[Any], results: Sequence[Any]) -> dict[str, tuple[str, ...]]:
    """The mesh's axes that cut each named axis."""
    cuts: dict[str, tuple[str, ...]] = {}
    sides = itertools.chain(
        zip(layout.operands, operands), zip((("the result", axes) for axes in layout.results), results)
    )
    for (name, axes), array in sides:
        for place, (axis, by) in enumerate(zip(axes, _spec(array.sharding, axes))):
            if by and axis[0] not in _CUT:
                cut = {_CUT[name[0]]: None for _, names in layout.operands for name in names if name[0] in _CUT}
                over = ", or along time in jax.shard_map with axis_name" if layout.function.endswith("_scan") else ""
                raise FlashscanNotImplementedError(
                    f"flashscan.jax.{layout.function}: {name} is sharded along its axis {place}, by {', '.join(by)}; "
                    f"accepted is along the {' and '.join(cut)}, as time and what else belongs together stays on a device{over}"
                )
            if by and axis not in cuts and not set(by) & set(itertools.chain(*cuts.values())):
                cuts[axis] = by
    return cuts


def partitioned(run: Callable[..., list[Any]], layout: Layout, sums: Sequence[bool], whole: bool) -> Callable[..., Any]:
    """``run`` of arrays, as XLA may cut it. ``sums``: the results that add up over what is cut. ``whole``: it cannot be
    cut at all."""

    def by(mesh: Any, cuts: dict[str, tuple[str, ...]], arrays: Sequence[Axes]) -> list[NamedSharding]:
        return [NamedSharding(mesh, PartitionSpec(*(cuts.get(axis) for axis in axes))) for axes in arrays]

    def partition(mesh: Any, operands: Sequence[Any], results: Sequence[Any]) -> tuple[Any, ...]:
        cuts = _cuts(layout, operands, results)
        if cuts and whole:
            raise FlashscanNotImplementedError(
                f"flashscan.jax.{layout.function}: its gradients are not cut where arrays are sharded; accepted are "
                "arrays that are not, or calls in jax.shard_map"
            )

        def local(*arrays: Any) -> list[Any]:
            outputs = run(*arrays)
            for place, (axes, summed) in enumerate(zip(layout.results, sums)):
                missing = tuple(itertools.chain(*(names for axis, names in cuts.items() if axis not in axes)))
                if summed and missing:
                    outputs[place] = jax.lax.psum(outputs[place], missing)
            return outputs

        operands_by = by(mesh, cuts, [axes for _, axes in layout.operands])
        return mesh, local, by(mesh, cuts, layout.results), tuple(operands_by)

    if not getattr(jax.config, "jax_use_shardy_partitioner", True):  # the partitioner before it aborts on some rules
        return run
    call = custom_partitioning(run)
    call.def_partition(partition, sharding_rule=_rule(layout), infer_sharding_from_operands=None)
    return call
