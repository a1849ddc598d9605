# SPDX-License-Identifier: Apache-2.0
"""What tangents and second derivatives of linear_scan do beside scanning."""

from __future__ import annotations

from typing import Any

import torch

from ._steps import Steps
from ._types import Tensor, state_dtype


class Derivative:
    """The derivative of h[t] = a(g[t]) h[t-1] + x[t] at given gates g and states h, in the arithmetic's type."""

    def __init__(
        self,
        gate: Tensor,
        output: Tensor,
        state: Tensor | None,
        seq_offsets: Tensor | None,
        reset: Tensor | None,
        layout: str,
        gate_form: str,
        reverse: bool,
    ) -> None:
        self.gate, self.output, self.form, self.transposed = gate, output, gate_form, layout == "bct"
        self.dtype = state_dtype(output.dtype)
        self.steps = Steps(1, reverse, seq_offsets, None if reset is None else torch.ne(reset, 0).unsqueeze(2))
        self.before = self._before(output, state)

    def _before(self, states: Tensor, initial: Tensor | None) -> Tensor:
        """The state before each step, 0 before steps with a reset."""
        states = states.to(self.dtype)
        if not self.transposed:
            return self.steps.before(states, initial)
        before: Tensor = self.steps.before(states.transpose(1, 2), initial).transpose(1, 2)
        return before

    def _factor(self) -> Tensor:
        """a."""
        gate = self.gate.to(state_dtype(self.gate.dtype))
        return torch.exp(gate) if self.form == "log" else torch.sigmoid(gate)

    def _slope(self, tangent: Tensor) -> Tensor:
        """a'(g) times a tangent of g."""
        if self.form == "value":
            return tangent
        a: Any = self._factor()
        slope: Tensor = (a if self.form == "log" else a * (1 - a)) * tangent
        return slope

    def _curvature(self, tangent: Tensor) -> Tensor | None:
        """a''(g) times a tangent of g; None for 0."""
        if self.form == "value":
            return None
        a: Any = self._factor()
        curvature: Tensor = (a if self.form == "log" else a * (1 - a) * (1 - 2 * a)) * tangent
        return curvature

    def entering(self, dgate: Tensor | None, dinput: Tensor | None) -> Tensor:
        """What enters the tangent's scan at each step."""
        if dgate is None:
            return torch.zeros_like(self.output) if dinput is None else dinput
        entering = self._slope(dgate) * self.before
        return entering if dinput is None else torch.add(entering, dinput)

    def of_states(self, arriving: Tensor, dgate: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of h and of the initial state through ``entering``, given that of its result."""
        gradient = arriving.to(self.dtype) * self._slope(dgate).conj()
        if self.transposed:
            states, initial = self.steps.adjoint(gradient.transpose(1, 2))
            return states.transpose(1, 2).to(self.output.dtype), initial
        states, initial = self.steps.adjoint(gradient)
        return states.to(self.output.dtype), initial

    def add_curvature(
        self,
        d_gate: Tensor,
        arriving: Tensor,
        dgate: Tensor | None,
        doutput: Tensor | None = None,
        dstate: Tensor | None = None,
    ) -> Tensor:
        """``d_gate`` and the part of the gate's gradient that comes from its change along tangents of g and h."""
        change = None
        if dgate is not None:
            curvature = self._curvature(dgate)
            change = None if curvature is None else curvature * self.before
        if doutput is not None or dstate is not None:
            moved = self._slope(self._before(torch.zeros_like(self.output) if doutput is None else doutput, dstate))
            change = moved if change is None else change + moved
        if change is None:
            return d_gate
        more = arriving.to(self.dtype) * change.conj()
        if not d_gate.is_complex() and more.is_complex():
            more = more.real
        return torch.add(d_gate, more.sum_to_size(d_gate.shape).to(d_gate.dtype))
