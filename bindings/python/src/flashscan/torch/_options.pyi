# SPDX-License-Identifier: Apache-2.0
"""Options of the functions of flashscan.torch and flashscan.distributed, for type checkers alone, as ``.._options``."""

from collections.abc import Sequence
from typing import Any, TypedDict

from .._options import Affine, Gated, Linear, Network, Packed, Reduce, Scan, Selective
from .._options import Unpack as Unpack
from ._types import Offsets, Tensor

class LinearOptions(Linear[Tensor], Packed[Offsets], total=False):
    axis: int | None

class GatedOptions(Gated[Tensor, Tensor], Packed[Offsets], total=False):
    axis: int | None

class SelectiveOptions(Selective[Tensor], Packed[Offsets], total=False): ...
class NetworkOptions(Network[Tensor], Packed[Offsets], total=False): ...
class AffineOptions(Affine, Packed[Offsets], total=False): ...
class ReduceOptions(Reduce[Tensor], Packed[Offsets], total=False): ...
class ScanOptions(Scan[Tensor], Packed[Offsets], total=False): ...

class OfGroup(TypedDict, total=False):
    group: Any
    steps: Sequence[int] | None

class LinearOfGroup(Linear[Tensor], OfGroup, total=False): ...
class GatedOfGroup(Gated[Tensor, Tensor], OfGroup, total=False): ...
class SelectiveOfGroup(Selective[Tensor], OfGroup, total=False): ...
class ScanOfGroup(Scan[Tensor], OfGroup, total=False): ...
