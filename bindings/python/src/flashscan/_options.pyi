# SPDX-License-Identifier: Apache-2.0
"""Options of the functions that have overloads, each of which names them by one of these types.

Type checkers alone read this: no such module can be imported. ``A`` are arrays that go with the input.
"""

from typing import Any, Generic, TypedDict, TypeVar

from typing_extensions import Unpack as Unpack

from ._types import Activation, Decay, Epilogue, GateForm, Layer, Layout, NetworkLayout, Scale

A = TypeVar("A")
M = TypeVar("M")  # that of reset
O = TypeVar("O")  # that of seq_offsets

# What all functions of a family take.

class Steps(TypedDict, Generic[M], total=False):
    reverse: bool
    reset: M | None

class Linear(Steps[M], total=False):
    layout: Layout
    gate_form: GateForm

class Gated(Steps[M], Generic[A, M], total=False):
    layer: Layer | None
    decay: Decay | None
    scale: Scale
    activation: Activation
    epilogue: Epilogue
    second_gate: A | None
    input_gate: A | None
    output_gate: A | None
    param: A | None
    bias: A | None
    first_step: bool
    decay_rate: float
    sqrt_slope_limit: float
    layout: Layout

class Selective(Steps[M], total=False):
    delta_softplus: bool
    layout: Layout

class Network(Steps[M], total=False):
    layout: NetworkLayout
    return_all_states: bool
    recurrent_clip: float
    allow_tf32: bool

class Affine(TypedDict, total=False):
    reverse: bool

class Reduce(TypedDict, Generic[A], total=False):
    axis: int | None
    reverse: bool
    initial: A | None

class Scan(Reduce[A], total=False):
    exclusive: bool

class Packed(TypedDict, Generic[O], total=False):
    seq_offsets: O

# What those of flashscan and flashscan.jax take.

class Calls(Packed[Any], total=False):
    threads: int

class LinearOptions(Linear[Any], Calls, total=False):
    axis: int | None

class LinearOutOptions(LinearOptions, Generic[A], total=False):
    out: A | None

class GatedOptions(Gated[A, Any], Calls, total=False):
    axis: int | None

class GatedOutOptions(GatedOptions[A], Generic[A], total=False):
    out: A | None

class SelectiveOptions(Selective[Any], Calls, total=False): ...

class SelectiveOutOptions(SelectiveOptions, Generic[A], total=False):
    out: A | None

class NetworkOptions(Network[Any], Calls, total=False): ...
class AffineOptions(Affine, Calls, total=False): ...
class ScanOptions(Scan[Any], Calls, total=False): ...

class ReduceOutOptions(Reduce[Any], Calls, Generic[A], total=False):
    out: A | None

class ScanOutOptions(ScanOptions, Generic[A], total=False):
    out: A | None

# What those of flashscan.jax take.

class Mesh(TypedDict, total=False):
    axis_name: Any

class LinearMeshOptions(LinearOptions, Mesh, total=False): ...
class GatedMeshOptions(GatedOptions[A], Mesh, total=False): ...
class SelectiveMeshOptions(SelectiveOptions, Mesh, total=False): ...
class AffineMeshOptions(AffineOptions, Mesh, total=False): ...
class ScanMeshOptions(ScanOptions, Mesh, total=False): ...
